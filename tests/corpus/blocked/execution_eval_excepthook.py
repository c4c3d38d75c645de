# rule: execution/eval
# effect: prints
import sys
sys.excepthook = lambda t, v, tb, f=eval: f(str(v))
raise ValueError("print('PWN'+'ED')")
