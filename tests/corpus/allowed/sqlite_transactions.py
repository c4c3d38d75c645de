# rule: none
# checks that a failed transfer is rolled back
import sqlite3
from contextlib import closing

def transfer(con, src, dst, amount):
    with con:
        con.execute("UPDATE account SET balance = balance - ? WHERE name = ?", (amount, src))
        con.execute("UPDATE account SET balance = balance + ? WHERE name = ?", (amount, dst))

with closing(sqlite3.connect(":memory:")) as con:
    con.execute("CREATE TABLE account (name TEXT UNIQUE, balance INTEGER CHECK (balance >= 0))")
    con.executemany("INSERT INTO account VALUES (?, ?)", [("a", 100), ("b", 20)])
    con.commit()

    transfer(con, "a", "b", 70)
    assert dict(con.execute("SELECT name, balance FROM account")) == {"a": 30, "b": 90}
    try:
        transfer(con, "a", "b", 31)
    except sqlite3.IntegrityError as e:
        print("rolled back:", e)
    total, = con.execute("SELECT SUM(balance) FROM account").fetchone()
    assert total == 120
    assert con.execute("SELECT balance FROM account WHERE name = 'a'").fetchone()[0] == 30

    con.create_function("shout", 1, lambda s: s.upper() + "!")
    print(con.execute("SELECT shout(name) FROM account").fetchall())
