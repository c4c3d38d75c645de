# rule: execution/eval
# effect: prints
class Row: pass
r = Row()
r.width: [g("print('PWN'+'ED')") for g in [eval]]
