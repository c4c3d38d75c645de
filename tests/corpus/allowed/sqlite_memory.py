# rule: none
# checks SQL aggregates in an in-memory sqlite database
import sqlite3

con = sqlite3.connect(":memory:")
con.row_factory = sqlite3.Row
cur = con.cursor()
cur.executescript("""
    CREATE TABLE emp (id INTEGER PRIMARY KEY, name TEXT, dept TEXT, salary REAL);
    CREATE INDEX by_dept ON emp(dept);
""")
cur.executemany(
    "INSERT INTO emp (name, dept, salary) VALUES (?, ?, ?)",
    [("ann", "it", 5000), ("bob", "it", 4000), ("cid", "hr", 3500), ("dee", "hr", 3700), ("eve", "ops", 2900)],
)
con.commit()

rows = cur.execute("SELECT dept, COUNT(*) AS n, AVG(salary) AS mean FROM emp GROUP BY dept ORDER BY mean DESC").fetchall()
for r in rows:
    print(r["dept"], r["n"], r["mean"])
assert [r["dept"] for r in rows] == ["it", "hr", "ops"]
assert rows[0]["mean"] == 4500

top = cur.execute("""
    SELECT name FROM (SELECT name, RANK() OVER (PARTITION BY dept ORDER BY salary DESC) AS rk FROM emp)
    WHERE rk = 1 ORDER BY name""").fetchall()
assert [t[0] for t in top] == ["ann", "dee", "eve"]
con.close()
