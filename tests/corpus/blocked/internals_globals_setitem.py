# rule: execution/eval
# effect: prints
globals()["calc"] = eval
calc("print('PWN'+'ED')")
