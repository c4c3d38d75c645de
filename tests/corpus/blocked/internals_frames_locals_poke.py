# rule: internals/frames
# effect: prints
import sys
f = len
sys._getframe().f_locals["f"] = eval
f("print('PWN'+'ED')")
