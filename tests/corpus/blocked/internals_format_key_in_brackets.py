# rule: internals/format-fields
# effect: prints
class Pair:
    def __getitem__(self, key):
        return self

    def show(self):
        return None


TOKEN = "".join(["PWN", "ED"])
print("{0[!].show.__globals__[TOKEN]}".format(Pair()))
