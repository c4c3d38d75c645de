# rule: internals/format-fields
# effect: prints
class Row:
    def __init__(self): pass
TOKEN = "".join(["PWN", "ED"])
print("{r.__init__.__globals__[TOKEN]}".format(r=Row()))
