# rule: files/io
# effect: writes
import json
from operator import attrgetter
take = attrgetter("decoder.scanner", "codecs")
_, second = take(json)
second.open("canary", "w")
