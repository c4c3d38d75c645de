# rule: execution/eval
# effect: prints
def gen():
    return eval
    yield

def outer():
    f = yield from gen()
    f("print('PWN'+'ED')")

list(outer())
