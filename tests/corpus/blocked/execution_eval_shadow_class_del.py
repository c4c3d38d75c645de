# rule: execution/eval
# effect: prints
class Tool:
    eval = len
    del eval
    size = eval("print('PWN'+'ED')")
