# rule: none
# checks copies, weak references and pretty printing
import copy
import gc
import pprint
import weakref

class Node:
    def __init__(self, name, *children):
        self.name = name
        self.children = list(children)
        self.parent = None
        for c in children:
            c.parent = weakref.ref(self)

tree = Node("root", Node("a", Node("a1")), Node("b"))
assert tree.children[0].parent() is tree

nested = {"k": [1, [2, 3]]}
shallow, deep = copy.copy(nested), copy.deepcopy(nested)
nested["k"][1].append(4)
assert shallow["k"] is nested["k"] and deep == {"k": [1, [2, 3]]}

cache = weakref.WeakValueDictionary()
cache["root"] = tree
ref = weakref.ref(tree)
child = tree.children[0]
del tree
gc.collect()
print("collected:", ref() is None, list(cache))
assert ref() is None and child.parent() is None

loop = []
loop.append(loop)
pprint.pprint(loop)
pprint.pprint({"matrix": [[i * j for j in range(8)] for i in range(4)]}, width=40, compact=True)
assert copy.deepcopy(loop)[0] is not loop
