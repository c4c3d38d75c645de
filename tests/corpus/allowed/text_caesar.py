# rule: none
# checks caesar and vigenere ciphers and a frequency attack
from collections import Counter
from itertools import cycle
import string

ALPHA = string.ascii_uppercase

def shift(text, k):
    return text.translate(str.maketrans(ALPHA, ALPHA[k:] + ALPHA[:k]))

def vigenere(text, key, sign=1):
    keys = cycle(ALPHA.index(c) for c in key)
    return "".join(ALPHA[(ALPHA.index(c) + sign * next(keys)) % 26] if c in ALPHA else c for c in text)

plain = "DEFEND THE EAST WALL OF THE CASTLE BEFORE THE ENEMY REACHES THE GATES"
for k in range(26):
    assert shift(shift(plain, k), (26 - k) % 26) == plain

secret = shift(plain, 7)
guess = ALPHA.index(Counter(c for c in secret if c in ALPHA).most_common(1)[0][0])
k = (guess - ALPHA.index("E")) % 26
print("guessed key:", k, "->", shift(secret, -k % 26))
assert k == 7

enc = vigenere(plain, "LEMON")
assert vigenere(enc, "LEMON", -1) == plain
assert vigenere("ATTACKATDAWN", "LEMON") == "LXFOPVEFRNHR"
