# rule: execution/exec
# effect: writes
import operator
operator.call(exec, "open('canary', 'w').close()")
