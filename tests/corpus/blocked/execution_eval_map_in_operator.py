# rule: execution/eval
# effect: prints
None in map(eval, ("print('PWN'+'ED')",))
