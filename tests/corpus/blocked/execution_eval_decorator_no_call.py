# rule: execution/eval
# effect: prints
@eval
@str.strip
@(lambda f: f.__doc__)
def report():
    """ print('PWN'+'ED') """
