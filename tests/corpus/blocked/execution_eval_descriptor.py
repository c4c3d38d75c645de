# rule: execution/eval
# effect: prints
class Field:
    def __get__(self, obj, owner):
        return eval

class Row:
    value = Field()

Row().value("print('PWN'+'ED')")
