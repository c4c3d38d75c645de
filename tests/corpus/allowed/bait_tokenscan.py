# rule: none
# tokenizes source text from a string buffer and counts names
import io
import keyword
import tokenize
from collections import Counter

source = "import os\nfor f in os.listdir('.'):\n    os.remove(f)  # delete\nexec('x = 1')\n"
tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
names = Counter(t.string for t in tokens if t.type == tokenize.NAME and not keyword.iskeyword(t.string))
print(names)
assert names["os"] == 3 and names["remove"] == 1 and names["exec"] == 1
assert [t.string for t in tokens if t.type == tokenize.COMMENT] == ["# delete"]
strings = [t.string for t in tokens if t.type == tokenize.STRING]
assert strings == ["'.'", "'x = 1'"]

def strip_comments(text):
    out = []
    for tok in tokenize.generate_tokens(io.StringIO(text).readline):
        if tok.type != tokenize.COMMENT:
            out.append((tok.type, tok.string))
    return tokenize.untokenize(out)

clean = strip_comments(source)
print(clean)
assert "delete" not in clean and "remove" in clean
depth = max_depth = 0
for t in tokens:
    depth += (t.type == tokenize.INDENT) - (t.type == tokenize.DEDENT)
    max_depth = max(depth, max_depth)
assert depth == 0 and max_depth == 1
