# rule: values/computed-name
# effect: writes
import operator, random
operator.methodcaller("__getattribute__", "_os")(random).system(": > canary")
