# rule: execution/eval
# effect: prints
import weakref
class Row: pass
row = Row()
weakref.finalize(row, eval, "print('PWN'+'ED')")
del row
