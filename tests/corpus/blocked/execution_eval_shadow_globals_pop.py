# rule: execution/eval
# effect: prints
def eval(text):
    return len(text)

globals().pop("eval")
eval("print('PWN'+'ED')")
