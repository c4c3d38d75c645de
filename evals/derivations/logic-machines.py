"""Tries all assignments of jobs to machines, and asks Z3."""

from itertools import product

from z3 import If, Int, Optimize, Sum

claimed = 15

jobs = [8, 7, 7, 6, 5, 5, 4]
by_trying = min(
    max(sum(job for job, machine in zip(jobs, machines) if machine == number) for number in range(3))
    for machines in product(range(3), repeat=len(jobs))
)
optimizer = Optimize()
end = Int("end")
machines = [Int(f"machine{n}") for n in range(len(jobs))]
optimizer.add([constraint for machine in machines for constraint in (machine >= 0, machine < 3)])
for number in range(3):
    optimizer.add(Sum([If(machine == number, job, 0) for machine, job in zip(machines, jobs)]) <= end)
optimizer.minimize(end)
optimizer.check()
by_z3 = optimizer.model()[end].as_long()
print(by_trying, by_z3)
assert by_trying == by_z3
assert by_trying == claimed
