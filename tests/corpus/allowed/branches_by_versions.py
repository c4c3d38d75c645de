# rule: none
# has branches for Python 2 that compare versions with zeros
import sys
from pathlib import Path

if sys.version_info < (3, 0):
    print(Path("x").read_text())
if sys.version_info >= (3, 0, 0):
    print(3)
else:
    print(open("x").read())
