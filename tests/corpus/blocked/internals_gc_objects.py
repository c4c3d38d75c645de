# rule: internals/garbage-collector
# effect: writes
import gc
for o in gc.get_objects():
    if isinstance(o, dict) and "mkfifo" in o:
        o["mkfifo"]("canary")
        break
