# rule: none
# checks that huffman coding round-trips and beats fixed-length codes
import heapq
from collections import Counter
from itertools import count
import math

def huffman(text):
    tie = count()
    heap = [(f, next(tie), ch) for ch, f in Counter(text).items()]
    heapq.heapify(heap)
    while len(heap) > 1:
        f1, _, a = heapq.heappop(heap)
        f2, _, b = heapq.heappop(heap)
        heapq.heappush(heap, (f1 + f2, next(tie), (a, b)))
    codes = {}
    def assign(node, prefix):
        if isinstance(node, str):
            codes[node] = prefix or "0"
        else:
            assign(node[0], prefix + "0")
            assign(node[1], prefix + "1")
    assign(heap[0][2], "")
    return codes

text = "the quick brown fox jumps over the lazy dog, then the dog sleeps"
codes = huffman(text)
bits = "".join(codes[ch] for ch in text)
inverse = {v: k for k, v in codes.items()}
out, cur = [], ""
for bit in bits:
    cur += bit
    if cur in inverse:
        out.append(inverse[cur])
        cur = ""
assert "".join(out) == text
entropy = -sum(f / len(text) * math.log2(f / len(text)) for f in Counter(text).values())
print(f"{len(bits) / len(text):.3f} bits/char, entropy {entropy:.3f}")
assert entropy <= len(bits) / len(text) < entropy + 1
