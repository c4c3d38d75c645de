# rule: none
# checks an own context manager called open and functions named read and write
from contextlib import contextmanager
import io

POOL = {}

@contextmanager
def open(name, mode="r"):
    """Open a named buffer in POOL (memory only)."""
    buf = POOL.setdefault(name, io.StringIO())
    if mode == "w":
        buf.seek(0)
        buf.truncate()
    else:
        buf.seek(0)
    try:
        yield buf
    finally:
        buf.seek(0)

def write(name, text):
    with open(name, "w") as f:
        return f.write(text)

def read(name):
    with open(name) as f:
        return f.read()

def copy(src, dst):
    write(dst, read(src))

def remove(name):
    POOL.pop(name).close()

assert write("a", "line 1\nline 2\n") == 14
copy("a", "b")
with open("b") as f:
    lines = [line.rstrip() for line in f]
print(lines)
assert lines == ["line 1", "line 2"]
remove("a")
assert list(POOL) == ["b"] and read("b").endswith("2\n")
