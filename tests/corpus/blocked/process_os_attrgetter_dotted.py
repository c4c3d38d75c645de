# rule: internals/format-fields
# effect: writes
import random
from operator import attrgetter as ag
ag("_os.system")(random)(": > canary")
