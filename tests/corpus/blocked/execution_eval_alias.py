# rule: execution/eval
# effect: prints
run = eval
run("print('PWN'+'ED')")
