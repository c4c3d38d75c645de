# rule: files/readers
# effect: reads
import argparse
parser = argparse.ArgumentParser()
parser.__dict__["fromfile_" + "prefix_chars"] = "@"
parser.add_argument("x", nargs="*")
print(parser.parse_args(["@secret.txt"]))
