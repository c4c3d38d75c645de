# rule: process/signals
# effect: prints
from os import kill as check, getpid as me
print("PWN" + "ED", check(me(), 0))
