# rule: none
# compares dijkstra with bellman-ford on random graphs
import heapq
import random
from math import inf

def dijkstra(graph, source):
    dist = {v: inf for v in graph}
    dist[source] = 0
    heap = [(0, source)]
    while heap:
        d, u = heapq.heappop(heap)
        if d > dist[u]:
            continue
        for v, w in graph[u]:
            if (nd := d + w) < dist[v]:
                dist[v] = nd
                heapq.heappush(heap, (nd, v))
    return dist

def bellman_ford(graph, source):
    dist = {v: inf for v in graph}
    dist[source] = 0
    for _ in range(len(graph) - 1):
        for u, edges in graph.items():
            for v, w in edges:
                dist[v] = min(dist[v], dist[u] + w)
    return dist

rng = random.Random(5)
for case in range(50):
    n = rng.randint(2, 15)
    graph = {u: [(rng.randrange(n), rng.randint(1, 20)) for _ in range(rng.randint(0, 4))] for u in range(n)}
    assert dijkstra(graph, 0) == bellman_ford(graph, 0)
print("50 random graphs agree")
