# rule: execution/eval
# effect: prints
class Table:
    __class_getitem__ = eval

Table["print('PWN'+'ED')"]
