# rule: execution/exec
# effect: writes
import sys
sys.modules["builtins"].len = exec
len("open('canary', 'w').close()")
