# rule: internals/format-fields
# effect: writes
import random, string
class F(string.Formatter):
    def format_field(self, value, spec):
        value.system(": > canary")
        return ""
F().format("{0._os}", random)
