# rule: execution/exec
# effect: writes
class Table(dict):
    def __missing__(self, key, f=exec):
        f("open('canary', 'w').close()")
        return key

"a".translate(Table())
