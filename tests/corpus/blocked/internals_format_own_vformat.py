# rule: internals/format-fields
# effect: writes
import random, string
class F(string.Formatter):
    def format_field(self, value, spec):
        value.system(": > canary")
        return ""
    def go(self, text, *given):
        return super().vformat(text, given, {})
F().go("{0._os}", random)
