# rule: execution/eval
# effect: prints
[eval for eval in [len]]
eval("print('PWN'+'ED')")
