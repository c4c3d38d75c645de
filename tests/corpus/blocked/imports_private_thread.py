# rule: imports/private-module
# effect: writes
import _thread, time
_thread.start_new_thread(exec, ("open('canary', 'w').close()", {}))
time.sleep(0.3)
