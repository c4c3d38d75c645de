# rule: none
# has a parser of its own
import argparse, shlex

class Parser(argparse.ArgumentParser):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.source = None

    def error(self, message):
        raise ValueError(message)

parser = Parser(description="adds", prog="add")
parser.add_argument("numbers", nargs="*", type=int)
print(sum(parser.parse_args(shlex.split("1 2 3")).numbers))
