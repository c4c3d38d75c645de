#!/usr/bin/env python3
"""Compares the analysis with the Python implementation's: ours must block everything that theirs blocks.

    tests/differential/analysis.py BINARY [FOLDER…]

BINARY is a `qwed-mcp`. The inputs are the snippets of the corpus, the examples, the interpreter's standard library,
statements with the words of the Python implementation in every place, and the `*.py` files below each FOLDER.
Exceptions are in EXCEPTIONS, each with its reason; an outdated exception is an error too. The Python implementation
comes from PyPI into `target/peer/`. The exit code is 1 if a difference has no exception.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "benches"))

from contestants import install_peer  # noqa: E402

OWN_FUNCTION = "calls a function of its own that has a builtin's name"
OWN_VARIABLE = "calls a variable or parameter of its own that has a builtin's name"
OWN_OBJECT = "calls methods of an object of its own that has a module's name"
DEAD_BRANCH = "has the call in a branch that cannot run"

# Inputs that only the Python implementation blocks, because of false alarms that ours avoids.
EXCEPTIONS = {
    "corpus/allowed/bait_lambdaeval.py": OWN_VARIABLE,
    "corpus/allowed/bait_lispeval.py": OWN_FUNCTION,
    "corpus/allowed/bait_openshop.py": OWN_FUNCTION,
    "corpus/allowed/bait_ownopencm.py": OWN_FUNCTION,
    "corpus/allowed/bait_shadowcomprehension.py": OWN_VARIABLE,
    "corpus/allowed/bait_shadowscopes.py": OWN_FUNCTION,
    "corpus/allowed/bait_subprocess_workflow.py": OWN_OBJECT,
    "corpus/allowed/branches_by_versions.py": DEAD_BRANCH,
    "corpus/allowed/branches_that_cannot_run.py": DEAD_BRANCH,
}

# The words of the Python implementation, in the places where it searches for them. Both must block each.
WORDS = [
    "eval('1')",
    "exec('1')",
    "compile('1', '', 'eval')",
    "open('x')",
    "__import__('os')",
    "x = __import__",
    "import os\nos.system('id')",
    "import os\nos.popen('id')",
    "import os as x\nx.system('id')",
    "from os import system",
    "from os import system as s\ns('id')",
    "from os import popen",
    "import pickle\npickle.loads(b'')",
    "from pickle import loads",
    "import marshal\nmarshal.loads(b'')",
    "from marshal import loads as l\nl(b'')",
    "import subprocess",
    "import subprocess as sp\nsp.run([])",
    "from subprocess import run",
    "from subprocess import *",
]
PLACES = [
    "{0}",
    "def f():\n{1}",
    "class A:\n{1}",
    "if x:\n{1}",
    "try:\n{1}\nexcept E:\n    pass",
    "for x in y:\n{1}",
    "with x:\n{1}",
    "async def f():\n{1}",
    "{0}\n(",
]

PEER = """
import json, sys
from qwed_mcp.engines.code_engine import analyze_python
blocked = {}
for line in sys.stdin:
    name, file = json.loads(line)
    with open(file, encoding="utf-8", newline="") as source:
        try:
            blocked[name] = analyze_python(source.read())
        except (RecursionError, ValueError) as error:
            blocked[name] = [str(error)]
json.dump(blocked, sys.stdout)
"""


def main() -> int:
    binary, *folders = sys.argv[1:] or sys.exit(__doc__)
    peer = install_peer()
    with tempfile.TemporaryDirectory() as scratch:
        inputs = collected([Path(folder) for folder in folders], Path(scratch))
        theirs = analysed_by_peer(peer.interpreter, inputs)
        ours = analysed_by(Path(binary), inputs)
    unexplained, explained = [], set()
    for name, issues in theirs.items():
        if issues and not ours[name]:
            explained.add(name)
            if name not in EXCEPTIONS:
                unexplained.append(f"{name}: {issues[:3]}")
    stale = sorted(set(EXCEPTIONS) & set(inputs) - explained)
    print(f"{len(inputs)} inputs: theirs blocks {sum(map(bool, theirs.values()))}, ours {sum(ours.values())}")
    for name in sorted(explained & set(EXCEPTIONS)):
        print(f"    only theirs: {name}: {EXCEPTIONS[name]}")
    for line in unexplained:
        print(f"    NOT EXPLAINED: {line}")
    for name in stale:
        print(f"    NO EXCEPTION ANY MORE: {name}")
    return 1 if unexplained or stale else 0


def collected(folders: list[Path], scratch: Path) -> dict[str, Path]:
    """Returns the inputs, by names that are the same on every machine."""
    inputs = {}
    for folder in [REPOSITORY / "tests" / "corpus", REPOSITORY / "examples", *folders]:
        for file in sorted(folder.rglob("*.py")):
            inputs[f"{folder.name}/{file.relative_to(folder)}"] = file
    library = Path(sysconfig.get_path("stdlib"))
    for file in sorted(library.glob("*.py")):
        inputs[f"stdlib/{file.name}"] = file
    for word_index, word in enumerate(WORDS):
        indented = "\n".join("    " + line for line in word.splitlines())
        for place_index, place in enumerate(PLACES):
            file = scratch / f"{word_index}_{place_index}.py"
            file.write_text(place.format(word, indented))
            inputs[f"words/{file.name}"] = file
    return {name: file for name, file in inputs.items() if is_utf8(file)}


def is_utf8(file: Path) -> bool:
    """Returns whether a client could send this file, because a script is a text."""
    try:
        file.read_bytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def analysed_by_peer(interpreter: Path, inputs: dict[str, Path]) -> dict[str, list[str]]:
    lines = "".join(json.dumps([name, str(file)]) + "\n" for name, file in inputs.items())
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    done = subprocess.run(
        [interpreter, "-c", PEER], input=lines, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"the Python implementation's analysis failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def analysed_by(binary: Path, inputs: dict[str, Path]) -> dict[str, bool]:
    blocked, items = {}, list(inputs.items())
    for start in range(0, len(items), 200):
        part = items[start : start + 200]
        files = [str(file) for _, file in part]
        done = subprocess.run([binary, "check", "--format", "json", *files], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"{binary} check failed: {done.stderr[-2000:]}")
        for (name, _), report in zip(part, json.loads(done.stdout)["files"], strict=True):
            blocked[name] = report["blocked"]
    return blocked


if __name__ == "__main__":
    sys.exit(main())
