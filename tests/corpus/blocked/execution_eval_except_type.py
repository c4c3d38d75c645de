# rule: execution/eval
# effect: prints
g = [len, eval][1]
try:
    1 / 0
except g("print('PWN'+'ED') or ZeroDivisionError"):
    pass
