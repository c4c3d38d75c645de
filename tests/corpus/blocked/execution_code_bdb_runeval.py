# rule: execution/code-modules
# effect: prints
from bdb import Bdb as Check
Check().runeval("print('PWN'+'ED')")
