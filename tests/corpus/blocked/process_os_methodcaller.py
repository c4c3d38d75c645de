# rule: values/module
# effect: writes
import os
from operator import methodcaller
methodcaller("system", ": > canary")(os)
