import os as x, subprocess
from os import popen as p
def f(a, *b, c=lambda: 1):
    return [eval(y) for y in f"{x.system('id')!r:>{a}}" if y]
class A(B, metaclass=M): pass
match x:
    case {"a": [1, *_]} | A(b=2): pass
