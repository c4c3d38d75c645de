# rule: files/databases
# effect: writes
def name(x): return bytes.fromhex(x).decode()
import sqlite3
con = sqlite3.connect(":memory:")
con.executescript("select 1; " + name("617474616368202763616e6172792720617320783b20637265617465207461626c6520782e74286129"))
