# rule: none
# checks compiled regular expressions with different import styles
import re
import re as regex
from re import compile, IGNORECASE, fullmatch
from re import compile as rx

email = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")
phone = compile(r"\+?\d[\d -]{7,}\d")
hexa = rx(r"0x[0-9a-f]+", IGNORECASE)
word = regex.compile(r"\b\w+\b")

text = "Write to ann.b+spam@mail.example.org or call +49 170 1234567, code 0xDEADbeef."
assert email.search(text).group() == "ann.b+spam@mail.example.org"
assert phone.search(text).group() == "+49 170 1234567"
assert int(hexa.search(text).group(), 16) == 0xDEADBEEF
print(len(word.findall(text)), "words")

PATTERNS = {name: compile(p) for name, p in {"int": r"[+-]?\d+", "float": r"[+-]?\d*\.\d+", "name": r"[a-z_]\w*"}.items()}
def kind(tok):
    return next((k for k, p in PATTERNS.items() if p.fullmatch(tok)), "other")
assert [kind(t) for t in ("12", "-3.5", "x_1", "?")] == ["int", "float", "name", "other"]
assert fullmatch("a+", "aaa")
