# rule: execution/eval
# effect: prints
def total(text, fold=eval):
    return fold(text)

total("print('PWN'+'ED')")
