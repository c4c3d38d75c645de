# rule: execution/eval
# effect: prints
class Tool:
    run = eval

Tool().run("print('PWN'+'ED')")
