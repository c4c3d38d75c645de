# rule: execution/eval
# effect: prints
if (f := eval) is not None:
    f("print('PWN'+'ED')")
