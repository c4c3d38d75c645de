# rule: execution/eval
# effect: prints
def init():
    global eval
    eval = len

eval("print('PWN'+'ED')")
