# rule: execution/eval
# effect: prints
f = [eval]
assert not f, f[0]("print('PWN'+'ED')")
