# rule: files/data
# effect: writes
import z3
z3.open_log("canary")
