# rule: internals/format-fields
# effect: writes
import string, random
string.Formatter().get_field("0._os.mknod", [random], {})[0]("canary")
