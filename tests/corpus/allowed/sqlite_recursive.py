# rule: none
# checks a recursive common table expression for a tree and for fibonacci
import sqlite3

db = sqlite3.connect(":memory:")
db.execute("create table node (id integer, parent integer, label text)")
db.executemany("insert into node values (?,?,?)", [
    (1, None, "root"), (2, 1, "a"), (3, 1, "b"), (4, 2, "a1"), (5, 4, "a1x"),
])
query = """
with recursive path(id, label, depth) as (
    select id, label, 0 from node where parent is null
    union all
    select n.id, p.label || '/' || n.label, depth + 1
    from node n join path p on n.parent = p.id
)
select label, depth from path order by label
"""
for label, depth in db.execute(query):
    print("  " * depth + label)
labels = [r[0] for r in db.execute(query)]
assert labels[-1] == "root/b" and "root/a/a1/a1x" in labels

fib = [r[0] for r in db.execute(
    "with recursive f(a, b) as (values(0, 1) union all select b, a + b from f where a < 100) select a from f")]
assert fib[:8] == [0, 1, 1, 2, 3, 5, 8, 13]
