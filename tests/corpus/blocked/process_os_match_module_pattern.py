# rule: values/module
# effect: writes
import random
match random:
    case object(_os=object(system=f)):
        f(": > canary")
