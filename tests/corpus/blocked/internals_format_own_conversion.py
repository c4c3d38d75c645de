# rule: internals/format-fields
# effect: writes
import json, string
class F(string.Formatter):
    def convert_field(self, value, conversion):
        value.open("canary", "w")
        return ""
    format = string.Formatter.format
F().format("{m.codecs}", m=json)
