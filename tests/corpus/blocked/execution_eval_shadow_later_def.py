# rule: execution/eval
# effect: prints
eval("print('PWN'+'ED')")

def eval(text):
    return len(text)
