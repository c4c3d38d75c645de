# rule: execution/eval
# effect: prints
eval = len
def run():
    class Inner:
        global eval
        del eval
    return eval("print('PWN'+'ED')")

run()
