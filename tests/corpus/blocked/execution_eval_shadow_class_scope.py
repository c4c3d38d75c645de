# rule: execution/eval
# effect: prints
class Tool:
    eval = len
    def run(self):
        return eval("print('PWN'+'ED')")

Tool().run()
