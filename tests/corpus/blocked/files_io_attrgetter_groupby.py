# rule: values/module
# effect: writes
import itertools, json, operator
for key, _ in itertools.groupby([json], key=operator.attrgetter("codecs")):
    key.open("canary", "w")
