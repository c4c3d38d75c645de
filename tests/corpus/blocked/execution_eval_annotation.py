# rule: execution/eval
# effect: prints
def area(w: [*map(eval, ["print('PWN'+'ED')"])], h: int) -> int:
    return w * h
