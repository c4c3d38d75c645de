# rule: imports/private-member
# effect: reads
import bz2
print(bz2._builtin_open("secret.txt").read())
