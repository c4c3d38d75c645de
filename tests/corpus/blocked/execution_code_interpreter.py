# rule: execution/code-modules
# effect: writes
import code
code.InteractiveInterpreter().runsource("open('canary', 'w').close()")
