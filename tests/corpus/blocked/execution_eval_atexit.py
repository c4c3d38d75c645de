# rule: execution/eval
# effect: prints
import atexit
atexit.register(eval, "print('PWN'+'ED')", {})
