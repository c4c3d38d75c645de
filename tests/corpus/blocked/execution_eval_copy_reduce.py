# rule: execution/eval
# effect: prints
import copy
class Row:
    def __reduce__(self):
        return eval, ("print('PWN'+'ED')",)

copy.copy(Row())
