# rule: none
# checks a memory simulation with read, write, load, replace and execute
from collections import OrderedDict

class Memory:
    def __init__(self, size):
        self.cells = bytearray(size)

    def read(self, addr, n=1):
        return bytes(self.cells[addr:addr + n])

    def write(self, addr, data):
        self.cells[addr:addr + len(data)] = data
        return len(data)

class Cache:
    def __init__(self, memory, lines):
        self.memory, self.lines = memory, lines
        self.frames = OrderedDict()
        self.hits = self.loads = 0

    def load(self, page):
        self.loads += 1
        if len(self.frames) == self.lines:
            self.replace()
        self.frames[page] = self.memory.read(page * 4, 4)

    def replace(self):
        return self.frames.popitem(last=False)

    def read(self, addr):
        page, offset = divmod(addr, 4)
        if page in self.frames:
            self.hits += 1
            self.frames.move_to_end(page)
        else:
            self.load(page)
        return self.frames[page][offset]

ram = Memory(64)
ram.write(0, bytes(range(64)))
cache = Cache(ram, lines=2)
trace = [0, 1, 4, 5, 0, 8, 9, 4, 63]
values = [cache.read(a) for a in trace]
print(values, cache.hits, cache.loads)
assert values == trace and cache.hits == 4 and cache.loads == 5
