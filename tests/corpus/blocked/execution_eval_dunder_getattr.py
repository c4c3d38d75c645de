# rule: execution/eval
# effect: writes
class Names:
    __getattr__ = eval

Names().open("canary", "w").close()
