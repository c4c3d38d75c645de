# rule: execution/eval
# effect: prints
class Money:
    __format__ = eval

f"{Money():str(print('PWN'+'ED'))}"
