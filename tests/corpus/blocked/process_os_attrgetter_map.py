# rule: values/module
# effect: writes
import random
from operator import attrgetter
class Host:
    _os = "linux"
for module in map(attrgetter("_os"), [random]):
    module.system(": > canary")
