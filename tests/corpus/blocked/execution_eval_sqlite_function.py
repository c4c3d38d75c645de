# rule: execution/eval
# effect: prints
import sqlite3
db = sqlite3.connect(":memory:")
db.create_function("calc", 1, eval)
db.execute("select calc('print(''PWN''+''ED'')')").fetchall()
