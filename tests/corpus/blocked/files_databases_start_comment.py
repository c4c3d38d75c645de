# rule: files/databases
# effect: writes
def name(x): return bytes.fromhex(x).decode()
import sqlite3
con = sqlite3.connect(":memory:")
con.execute("/* a */ " + name("617474616368202763616e617279272061732078"))
con.execute("create table x.t(a)")
