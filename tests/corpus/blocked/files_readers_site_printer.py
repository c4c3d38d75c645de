# rule: imports/private-module
# effect: reads
import _sitebuiltins
print(_sitebuiltins._Printer("x", "", ["secret.txt"], ["."]))
