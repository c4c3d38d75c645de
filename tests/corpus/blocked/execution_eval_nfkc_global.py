# rule: execution/eval
# effect: prints
eval = len
def reset():
    global ｅval
    del eᵛal
    return eval("print('PWN'+'ED')")

reset()
