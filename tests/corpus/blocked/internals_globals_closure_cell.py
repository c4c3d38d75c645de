# rule: execution/exec
# effect: writes
def make(f=exec):
    return lambda: f
make().__closure__[0].cell_contents("open('canary', 'w').close()")
