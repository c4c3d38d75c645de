# rule: none
# checks an in-memory file system with open, read, write, remove and walk
import io
from contextlib import contextmanager

class MemoryFS:
    def __init__(self):
        self.data = {}

    @contextmanager
    def open(self, path, mode="r"):
        buf = io.StringIO(self.data.get(path, "") if "w" not in mode else "")
        if "a" in mode:
            buf.seek(0, io.SEEK_END)
        yield buf
        if set(mode) & set("wa"):
            self.data[path] = buf.getvalue()

    def remove(self, path):
        del self.data[path]

    def rename(self, old, new):
        self.data[new] = self.data.pop(old)

    def listdir(self, prefix):
        return sorted(p for p in self.data if p.startswith(prefix))

    def walk(self):
        yield from sorted(self.data.items())

fs = MemoryFS()
with fs.open("/a/x.txt", "w") as f:
    f.write("one\n")
with fs.open("/a/x.txt", "a") as f:
    f.write("two\n")
with fs.open("/a/x.txt") as f:
    assert f.read() == "one\ntwo\n"
fs.rename("/a/x.txt", "/b/y.txt")
with fs.open("/b/z.txt", mode="w") as out:
    print("three", file=out)
assert fs.listdir("/a") == [] and fs.listdir("/b") == ["/b/y.txt", "/b/z.txt"]
fs.remove("/b/z.txt")
print(dict(fs.walk()))
