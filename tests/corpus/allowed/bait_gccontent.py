# rule: none
# checks DNA helpers with names such as gc, translate and code
from collections import Counter

code = {"ATG": "M", "TGG": "W", "TAA": "*", "GCT": "A", "AAA": "K", "TTT": "F"}

def gc(seq):
    counts = Counter(seq)
    return (counts["G"] + counts["C"]) / len(seq)

def complement(seq):
    return seq.translate(str.maketrans("ACGT", "TGCA"))[::-1]

def frame(seq, offset):
    return [seq[i:i + 3] for i in range(offset, len(seq) - 2, 3)]

def translate(seq):
    out = []
    for codon in frame(seq, 0):
        aa = code.get(codon, "?")
        if aa == "*":
            break
        out.append(aa)
    return "".join(out)

gene = "ATGGCTAAATTTTGGTAAGCT"
print(gc(gene), complement(gene), translate(gene))
assert translate(gene) == "MAKFW"
assert complement(complement(gene)) == gene
assert gc("GGCC") == 1.0 and gc("ATAT") == 0.0
assert abs(gc(gene) - gc(complement(gene))) < 1e-12
gc_by_frame = [round(gc("".join(frame(gene, k))), 3) for k in range(3)]
print(gc_by_frame)
assert len(gc_by_frame) == 3
