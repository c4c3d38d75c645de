# rule: none
# checks a vending machine whose methods are run, call, spawn and kill
class Process:
    """A process of the simulation, not of the operating system."""

    def __init__(self, pid, burst):
        self.pid, self.left, self.alive = pid, burst, True

    def run(self, quantum):
        used = min(quantum, self.left)
        self.left -= used
        if self.left == 0:
            self.kill()
        return used

    def kill(self):
        self.alive = False

class Scheduler:
    def __init__(self, quantum):
        self.quantum, self.table, self.clock = quantum, [], 0

    def spawn(self, burst):
        self.table.append(Process(len(self.table) + 1, burst))
        return self.table[-1]

    def fork(self, proc):
        return self.spawn(proc.left)

    def call(self):
        finished = []
        while alive := [p for p in self.table if p.alive]:
            for p in alive:
                self.clock += p.run(self.quantum)
                if not p.alive:
                    finished.append((p.pid, self.clock))
        return finished

os = Scheduler(quantum=2)
a = os.spawn(5)
os.spawn(3)
os.fork(a)
done = os.call()
print(done)
assert os.clock == 13 and [pid for pid, _ in done] == [2, 1, 3]
b = os.spawn(1)
b.kill()
assert os.call() == []
