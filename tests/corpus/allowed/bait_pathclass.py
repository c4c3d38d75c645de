# rule: none
# checks an own path class with read_text, unlink, mkdir and glob
import fnmatch
import posixpath

STORE = {}

class Path:
    def __init__(self, text):
        self.text = posixpath.normpath(text)

    def __truediv__(self, other):
        return Path(posixpath.join(self.text, str(other)))

    def __str__(self):
        return self.text

    def write_text(self, content):
        STORE[self.text] = content
        return len(content)

    def read_text(self):
        return STORE[self.text]

    def unlink(self, missing_ok=False):
        if STORE.pop(self.text, None) is None and not missing_ok:
            raise KeyError(self.text)

    def exists(self):
        return self.text in STORE

    def glob(self, pattern):
        return [Path(p) for p in sorted(STORE) if fnmatch.fnmatch(p, posixpath.join(self.text, pattern))]

root = Path("/docs")
for i in range(3):
    (root / f"note{i}.md").write_text("#" * i)
(root / "data.csv").write_text("a,b")
assert [str(p) for p in root.glob("*.md")] == [f"/docs/note{i}.md" for i in range(3)]
for path in root.glob("note*"):
    path.unlink()
assert not root.glob("*.md") and (root / "data.csv").read_text() == "a,b"
(root / "gone").unlink(missing_ok=True)
print(STORE)
