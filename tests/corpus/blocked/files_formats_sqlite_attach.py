# rule: files/databases
# effect: writes
import sqlite3
db = sqlite3.connect(":memory:", isolation_level=None)
db.execute("att" "ach 'canary' as t")
db.execute("create table t.x(y)")
