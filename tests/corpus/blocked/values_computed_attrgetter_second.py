# rule: values/computed-name
# effect: writes
import operator, random
name = bytes([95, 111, 115]).decode()
operator.attrgetter("seed", name)(random)[1].system(": > canary")
