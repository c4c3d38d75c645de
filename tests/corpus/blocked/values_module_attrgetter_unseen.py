# rule: values/module
# effect: writes
import operator, random
class Hand:
    def __call__(self, *given):
        for one in given[1:]:
            given[0](one).system(": > canary")
parts = [operator.attrgetter("_os")]
parts.append(random)
Hand()(*parts)
