# rule: execution/eval
# effect: prints
class Table(dict):
    __missing__ = eval

"{print('PWN'+'ED')}".format_map(Table())
