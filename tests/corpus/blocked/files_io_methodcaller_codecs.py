# rule: files/io
# effect: writes
import json, operator
operator.methodcaller("open", "canary", "w")(json.codecs)
