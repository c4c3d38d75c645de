"""Runs the steps of the action in a shell, as a runner of GitHub does.

    target/packaging/python/bin/python tests/packaging/action.py PROGRAM

The steps come from `action.yml`. The first step installs a version from PyPI: 0.2.2, because no later one is there yet.
The others use PROGRAM on a repository with a verified, a refuted and a vacuous claim. Uploading is left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ruamel.yaml import YAML

REPOSITORY = Path(__file__).resolve().parent.parent.parent
ACTION = YAML(typ="safe").load(REPOSITORY / "action.yml")

CLAIMS = """# Claims

```python verify
total = sum(range(10))
assert total == 45
```

```python verify
total = sum(range(10))
assert total == 44
```

```python verify
assert (1 == 2, "never")
```
"""
ANNOTATIONS = [
    "::notice file=docs/claims.md,line=5,title=verified::",
    "::error file=docs/claims.md,line=10,title=refuted::",
    "::warning file=docs/claims.md,line=14,title=vacuous::",
]


class Runner:
    """A runner with a temporary folder, in a repository."""

    def __init__(self, folder: Path) -> None:
        self.repository, self.temporary = folder / "repository", folder / "temporary"
        (self.repository / "docs").mkdir(parents=True)
        self.temporary.mkdir()

    def write(self, name: str, text: str) -> None:
        (self.repository / name).write_text(text)

    def step(self, name: str, **given: str) -> subprocess.CompletedProcess[str]:
        """Runs a step with these inputs."""
        unknown = given.keys() - ACTION["inputs"].keys()
        assert not unknown, f"the action has no inputs {unknown}"
        inputs = {key: given.get(key, about.get("default", "")) for key, about in ACTION["inputs"].items()}
        [step] = [step for step in ACTION["runs"]["steps"] if step["name"] == name]
        assert step["shell"] == "bash"

        def value(expression: re.Match[str]) -> str:
            return inputs[expression[1]]

        variables = {key: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", value, text) for key, text in step["env"].items()}
        assert not any("${{" in text for text in variables.values()), variables
        environment = {
            **os.environ, **variables, "GITHUB_ACTION_PATH": str(REPOSITORY), "RUNNER_TEMP": str(self.temporary),
        }  # fmt: skip
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(command, cwd=self.repository, env=environment, text=True, capture_output=True)


def check(runner: Runner, program: str) -> None:
    def run(**given: str) -> tuple[int, list[str]]:
        done = runner.step("Run qwed-mcp", program=program, **given)
        print(given, done.returncode, done.stdout, done.stderr, flush=True)
        return done.returncode, done.stdout.splitlines()

    runner.write("docs/claims.md", CLAIMS)
    code, lines = run(files="docs/**/*.md\n", receipts="receipts")
    assert code == 1 and len(lines) == len(ANNOTATIONS), "three annotations"
    assert all(line.startswith(start) for line, start in zip(lines, ANNOTATIONS, strict=True)), "at the lines"
    receipts = runner.temporary / "qwed-mcp/receipts/receipts"
    files = sorted(receipts.rglob("*.json"))
    assert len(files) == 3, files
    subprocess.run([program, "receipt", "verify", "--key", receipts / "signing.pub", *files], check=True)

    verified = CLAIMS[: CLAIMS.index("```python verify", len(CLAIMS) // 3)]
    runner.write("docs/good file.md", verified)
    assert run(files="docs/good*.md") == (0, ["::notice file=docs/good file.md,line=5,title=verified::1 check held"])
    # A second use in the same job has the same key, and a folder of its own. A file counts once.
    assert run(files="docs/good*.md\ndocs/good file.md", receipts="more")[0] == 0
    more = runner.temporary / "qwed-mcp/receipts/more"
    assert len(list(more.rglob("*.json"))) == 1 and (more / "signing.pub").read_text() == (receipts / "signing.pub").read_text()
    runner.write("docs/[id].md", verified)
    assert run(files="docs/[id].md")[0] == 0, "a name that looks like a pattern"
    runner.write("-x.py", "import os\nos.system('true')\n")
    code, lines = run(files="*.py", command="check")
    assert code == 1 and lines[0].startswith("::error file=-x.py,line=2,"), "a finding"
    code, lines = run(files="docs/good*.md\nnone/*.md\n")
    assert (code, lines) == (2, ["::error title=qwed-mcp::no file matches none/*.md"])
    assert run(files="\n")[0] == run(files="docs/*.md", command="other")[0] == 2

    # Code and names of the repository have no effect on the installation.
    for name in ("venv.py", "types.py", "logging.py", "pip.py"):
        runner.write(name, "raise SystemExit('imported')")
    done = runner.step("Install qwed-mcp", version="0.2.2", packages="six==1.17.0 packaging")
    assert done.returncode == 0, done.stderr
    python = runner.temporary / "qwed-mcp/venv/bin/python"
    subprocess.run([python, "-c", "import qwed_mcp, six, packaging"], check=True)
    assert (python.parent / "qwed-mcp").exists()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(Runner(Path(folder)), str(Path(sys.argv[1]).resolve()))
    print("the steps of the action work")


if __name__ == "__main__":
    main()
