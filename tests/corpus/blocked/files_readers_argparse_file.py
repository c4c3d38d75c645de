# rule: files/readers
# effect: reads
import argparse
p = argparse.ArgumentParser(fromfile_prefix_chars="@")
p.add_argument("x", nargs="*")
print(p.parse_args(["@secret.txt"]))
