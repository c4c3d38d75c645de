# rule: none
# checks path string manipulation without touching files
import os.path
import posixpath
from pathlib import PurePosixPath, PureWindowsPath, Path

p = PurePosixPath("/srv/data/report.final.csv")
assert p.suffix == ".csv" and p.stem == "report.final" and p.suffixes == [".final", ".csv"]
assert p.parent.name == "data" and p.parts[1] == "srv"
assert p.with_suffix(".json").name == "report.final.json"
assert p.relative_to("/srv") == PurePosixPath("data/report.final.csv")
assert p.match("*.csv") and not p.match("*.txt")

w = PureWindowsPath(r"C:\Users\ann\notes.txt")
assert w.drive == "C:" and w.as_posix() == "C:/Users/ann/notes.txt"

assert os.path.join("a", "b", "c.txt") == "a/b/c.txt"
assert os.path.splitext("archive.tar.gz") == ("archive.tar", ".gz")
assert os.path.basename("/x/y/z") == "z" and os.path.dirname("/x/y/z") == "/x/y"
assert posixpath.normpath("/a/./b/../c") == "/a/c"
assert os.path.commonprefix(["interview", "internet"]) == "inter"

print(Path("results") / "2024" / "summary.txt")
print("cwd is absolute:", os.path.isabs(os.getcwd()))

def inside(base, child):
    return posixpath.normpath(posixpath.join(base, child)).startswith(base + "/")

assert inside("/srv", "ok.txt") and not inside("/srv", "../etc/shadow")
