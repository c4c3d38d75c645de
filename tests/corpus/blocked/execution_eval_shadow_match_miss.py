# rule: execution/eval
# effect: prints
match 1:
    case [eval]:
        pass
    case _:
        eval("print('PWN'+'ED')")
