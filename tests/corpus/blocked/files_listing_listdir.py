# rule: files/os
# effect: prints
from os import listdir as names
if "secret.txt" in names():
    print("PWN" + "ED")
