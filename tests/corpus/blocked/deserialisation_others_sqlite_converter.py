# rule: execution/exec
# effect: writes
import sqlite3
sqlite3.register_converter("calc", lambda b, f=exec: f(b))
db = sqlite3.connect(":memory:", detect_types=sqlite3.PARSE_COLNAMES)
db.execute("""select 'open("canary", "w").close()' as "x [calc]" """).fetchall()
