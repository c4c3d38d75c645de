# rule: internals/format-fields
# effect: writes
import json, string
string.Formatter().get_field("0.codecs", (json,), {})[0].open("canary", "w")
