# rule: execution/eval
# effect: prints
eval: object
eval("print('PWN'+'ED')")
