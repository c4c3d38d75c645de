# rule: process/os-system
# effect: writes
import operator
import random
operator.attrgetter("_os")(random).system(": > canary")
