# rule: execution/eval
# effect: prints
class Node:
    __match_args__ = ("op",)
    op = eval

match Node():
    case Node(f):
        f("print('PWN'+'ED')")
