# rule: none
# checks graphlib against an own topological sort
from graphlib import TopologicalSorter, CycleError
from collections import deque

deps = {"deploy": {"build", "test"}, "test": {"build"}, "build": {"fetch"}, "docs": {"fetch"}, "fetch": set()}

def kahn(graph):
    indegree = {k: len(v) for k, v in graph.items()}
    ready = deque(sorted(k for k, d in indegree.items() if d == 0))
    order = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for k, v in graph.items():
            if node in v:
                indegree[k] -= 1
                if indegree[k] == 0:
                    ready.append(k)
    return order

def is_valid(order, graph):
    place = {k: i for i, k in enumerate(order)}
    return all(place[d] < place[k] for k, ds in graph.items() for d in ds)

a = list(TopologicalSorter(deps).static_order())
b = kahn(deps)
print(a, b, sep="\n")
assert is_valid(a, deps) and is_valid(b, deps) and len(b) == len(deps)

try:
    TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
except CycleError as e:
    print("cycle:", e.args[1])
