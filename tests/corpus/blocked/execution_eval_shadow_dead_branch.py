# rule: execution/eval
# effect: prints
if False:
    eval = len
eval("print('PWN'+'ED')")
