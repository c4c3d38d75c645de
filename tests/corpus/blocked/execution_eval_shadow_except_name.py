# rule: execution/eval
# effect: prints
try:
    1 / 0
except ZeroDivisionError as eval:
    pass
eval("print('PWN'+'ED')")
