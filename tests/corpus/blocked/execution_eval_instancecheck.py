# rule: execution/eval
# effect: prints
class Meta(type):
    __instancecheck__ = eval

class Kind(metaclass=Meta):
    pass

isinstance("print('PWN'+'ED')", Kind)
