# rule: files/databases
# effect: prints
import dbm.dumb
d = dbm.dumb.open("x", "n")
d["k"] = "PWN" + "ED"
d.close()
print(dbm.dumb.open("x")["k"])
