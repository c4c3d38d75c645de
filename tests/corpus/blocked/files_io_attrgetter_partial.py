# rule: values/module
# effect: writes
import functools, json, operator
functools.partial(operator.attrgetter("codecs"), json)().open("canary", "w")
