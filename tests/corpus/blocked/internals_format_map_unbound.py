# rule: internals/format-fields
# effect: prints
TOKEN = "PWN" + "ED"
def show(): pass
print(*map("{.__globals__[TOKEN]}".format, [show]))
