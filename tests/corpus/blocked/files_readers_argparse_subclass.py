# rule: files/readers
# effect: reads
import argparse
class Parser(argparse.ArgumentParser): pass
parser = Parser(fromfile_prefix_chars="@")
parser.add_argument("x", nargs="*")
print(parser.parse_args(["@secret.txt"]))
