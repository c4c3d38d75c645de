# rule: values/computed-name
# effect: writes
import random, string
class F(string.Formatter):
    def format_field(self, value, spec):
        value.system(": > canary")
        return ""
F().format("{0." + bytes([95, 111, 115]).decode() + "}", random)
