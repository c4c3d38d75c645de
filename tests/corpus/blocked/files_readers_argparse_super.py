# rule: files/readers
# effect: reads
import argparse
class Parser(argparse.ArgumentParser):
    def __init__(self):
        super().__init__(None, None, None, None, [], argparse.HelpFormatter, "-", "@")
parser = Parser()
parser.add_argument("x", nargs="*")
print(parser.parse_args(["@secret.txt"]))
