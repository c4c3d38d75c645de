# rule: none
# checks unicode normalisation, categories and encodings
import unicodedata

composed, decomposed = "\u00e9", "e\u0301"
assert composed != decomposed
assert unicodedata.normalize("NFC", decomposed) == composed
assert len(unicodedata.normalize("NFD", composed)) == 2

def strip_accents(s):
    return "".join(c for c in unicodedata.normalize("NFKD", s) if not unicodedata.combining(c))

for word, plain in [("Café", "Cafe"), ("naïve", "naive"), ("Ångström", "Angstrom"), ("ﬁn", "fin")]:
    got = strip_accents(word)
    print(word, "->", got)
    assert got == plain

for ch in "aΩ٣€😀":
    print(f"U+{ord(ch):05X} {unicodedata.name(ch):<35} {unicodedata.category(ch)} {len(ch.encode())} bytes")
assert "ß".casefold() == "ss" and "ǅ".istitle()
assert "😀".encode("utf-16-le").hex() == "3dd800de"
assert b"\xff".decode("utf-8", errors="replace") == "\ufffd"
assert unicodedata.numeric("½") == 0.5
