# rule: deserialisation/others
# effect: prints
import shelve as table
s = table.open("x", "n")
s["k"] = "PWN" + "ED"
s.close()
print(table.open("x")["k"])
