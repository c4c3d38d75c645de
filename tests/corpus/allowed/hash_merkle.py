# rule: none
# builds a merkle tree and verifies inclusion proofs
from hashlib import sha256

def H(*parts: bytes) -> bytes:
    return sha256(b"".join(parts)).digest()

def build(leaves):
    level = [H(b"\0", leaf) for leaf in leaves]
    levels = [level]
    while len(level) > 1:
        if len(level) % 2:
            level = level + [level[-1]]
            levels[-1] = level
        level = [H(b"\1", level[i], level[i + 1]) for i in range(0, len(level), 2)]
        levels.append(level)
    return levels

def proof(levels, index):
    out = []
    for level in levels[:-1]:
        out.append((index % 2, level[index ^ 1]))
        index //= 2
    return out

def verify(leaf, path, root):
    node = H(b"\0", leaf)
    for is_right, sibling in path:
        node = H(b"\1", sibling, node) if is_right else H(b"\1", node, sibling)
    return node == root

leaves = [f"tx{i}".encode() for i in range(7)]
levels = build(leaves)
root = levels[-1][0]
print("root", root.hex()[:24])
for i, leaf in enumerate(leaves):
    assert verify(leaf, proof(levels, i), root)
    assert not verify(b"forged", proof(levels, i), root)
