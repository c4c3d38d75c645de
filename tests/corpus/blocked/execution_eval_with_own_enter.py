# rule: execution/eval
# effect: prints
class Ctx:
    def __enter__(self):
        return len, eval
    def __exit__(self, *a):
        return False

with Ctx() as (f, g):
    g("print('PWN'+'ED')")
