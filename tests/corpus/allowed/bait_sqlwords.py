# rule: none
# keeps dangerous SQL and shell text in a table of an in-memory database
import sqlite3

con = sqlite3.connect(":memory:")
execute = con.execute
execute("CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)")
texts = [
    "Robert'); DROP TABLE note;--",
    "EXEC xp_cmdshell 'dir'",
    "os.system('shutdown')",
    "SELECT load_extension('evil.so')",
]
con.executemany("INSERT INTO note (body) VALUES (?)", [(t,) for t in texts])

count, = execute("SELECT COUNT(*) FROM note").fetchone()
print("notes:", count)
assert count == 4
body = execute("SELECT body FROM note WHERE body LIKE ?", ("%DROP%",)).fetchone()[0]
assert body == texts[0]

class Repository:
    def __init__(self, con):
        self.con = con

    def query(self, sql, *params):
        return self.con.execute(sql, params).fetchall()

    def remove(self, id):
        return self.con.execute("DELETE FROM note WHERE id = ?", (id,)).rowcount

repo = Repository(con)
assert repo.remove(2) == 1 and repo.remove(99) == 0
assert [r[0] for r in repo.query("SELECT id FROM note ORDER BY id")] == [1, 3, 4]
assert repo.query("SELECT sqlite_version() IS NOT NULL") == [(1,)]
