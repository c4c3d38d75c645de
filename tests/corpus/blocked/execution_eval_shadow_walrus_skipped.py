# rule: execution/eval
# effect: prints
0 and (eval := len)
eval("print('PWN'+'ED')")
