# rule: none
# counts words and checks text statistics
import re
import string
import textwrap
from collections import Counter

TEXT = """
It was the best of times, it was the worst of times, it was the age of
wisdom, it was the age of foolishness.
"""

words = re.findall(r"[a-z']+", TEXT.lower())
freq = Counter(words)
print(freq.most_common(4))
assert freq["it"] == 4 and freq["was"] == 4 and freq["times"] == 2
assert len(words) == 24

table = str.maketrans("", "", string.punctuation)
assert TEXT.translate(table).split()[5] == "times"

wrapped = textwrap.fill(" ".join(TEXT.split()), width=40)
print(textwrap.indent(wrapped, "| "))
assert all(len(line) <= 40 for line in wrapped.splitlines())

print(textwrap.dedent("""\
    title
      body
""").splitlines())
assert textwrap.shorten("hello wonderful world", 13) == "hello [...]"
