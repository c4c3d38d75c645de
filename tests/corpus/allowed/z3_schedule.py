# rule: none
# schedules jobs on two machines and checks the minimal makespan
from z3 import Int, Optimize, Or, And, sat, If

durations = {"cut": 3, "drill": 2, "paint": 4, "pack": 2, "ship": 1}
after = [("cut", "paint"), ("drill", "paint"), ("paint", "pack"), ("pack", "ship")]

opt = Optimize()
start = {j: Int(f"start_{j}") for j in durations}
machine = {j: Int(f"m_{j}") for j in durations}
end = Int("end")

for j, d in durations.items():
    opt.add(start[j] >= 0, start[j] + d <= end, Or(machine[j] == 0, machine[j] == 1))
for a, b in after:
    opt.add(start[b] >= start[a] + durations[a])
names = list(durations)
for i, a in enumerate(names):
    for b in names[i + 1:]:
        opt.add(Or(machine[a] != machine[b],
                   start[a] + durations[a] <= start[b],
                   start[b] + durations[b] <= start[a]))
opt.minimize(end)
assert opt.check() == sat
m = opt.model()
for j in sorted(durations, key=lambda k: m[start[k]].as_long()):
    print(f"{j:6} machine {m[machine[j]]} at t={m[start[j]]}")
assert m[end].as_long() == 3 + 4 + 2 + 1
