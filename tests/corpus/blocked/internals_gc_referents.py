# rule: internals/garbage-collector
# effect: writes
import gc
gc.get_referents(len.__self__)[0]["open"]("canary", "w").close()
