# rule: execution/eval
# effect: prints
class Box:
    pass

for Box.f in [eval]:
    Box.f("print('PWN'+'ED')")
