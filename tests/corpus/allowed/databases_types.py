# rule: none
# takes a database as an argument, and checks its type
import sqlite3
from typing import cast

def total(con) -> int:
    assert isinstance(con, sqlite3.Connection) and issubclass(type(con), sqlite3.Connection)
    rows = con.execute("select a from t").fetchall()
    return sum(row[0] for row in rows)

con = sqlite3.connect(":memory:")
con.executescript("create table t (a); insert into t values (1); insert into t values (2);")
for column in con.execute("select name from pragma_table_info('t')").fetchall():
    print(con.execute(f"select max({column[0]}) from t").fetchone())
print(total(con))
