# rule: execution/code-modules
# effect: writes
import runpy, sys
sys.argv = ["x", "-n1", "-r1", "open('canary', 'w').close()"]
try:
    runpy.run_module("timeit", run_name="__main__")
except SystemExit:
    pass
