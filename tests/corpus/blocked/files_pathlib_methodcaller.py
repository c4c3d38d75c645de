# rule: internals/format-fields
# effect: writes
from pathlib import Path
from operator import methodcaller
methodcaller("touch")(Path("canary"))
