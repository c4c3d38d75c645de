# rule: internals/frames
# effect: writes
import sys
sys.settrace(lambda frame, ev, arg: frame.f_builtins["open"]("canary", "w").close())
(lambda: 0)()
