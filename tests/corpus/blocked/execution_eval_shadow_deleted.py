# rule: execution/eval
# effect: prints
eval = len
del eval
eval("print('PWN'+'ED')")
