# rule: execution/code-modules
# effect: writes
import trace
trace.Trace(count=0, trace=0).run("open('canary', 'w').close()")
