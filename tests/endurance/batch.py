#!/usr/bin/env python3
"""Runs batches of many lines and kills them at random points. Each line must be answered once, and nothing may be left.

    tests/endurance/batch.py BINARY [--lines 100000] [--kills 20] [--hostile 0.01] [--scripts FOLDER] [--workers N]
                                    [--seed N] [--smoke]

Runs four parts. Each prints its figures:

- whole: runs this many generated lines at once (arithmetic, standard input, tests, blocked, invalid). Each line must
  have the right answer. The command's memory must not grow with the file, so the maximum of the last quarter is
  compared with the first quarter.
- killed: runs a tenth of the lines. Kills the command, its fork servers and its supervisors at random moments with
  SIGKILL, and continues with --resume. Each line must be answered once, with the right answer or an infra_error.
- hostile: some of the scripts loop, take memory, fork, flood or crash. Their statuses must be right. Prints the p50 of
  the other scripts, next to the p50 of a batch without hostile scripts.
- scripts: with --scripts, runs each .py file below a folder. Each must exit with 0 or be blocked.

After each part, no process with the batch's mark may be alive, and its temporary folder must be empty. --smoke takes
about a minute. QWED_MCP_PYTHON names the interpreter (default: the one in `python` next to the build folder). The exit
code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

wrong: list[str] = []


def check(holds: bool, text: str) -> None:
    if not holds:
        wrong.append(text)
        print(f"WRONG: {text}", flush=True)


def generated(number: int, rng: random.Random) -> tuple[dict | str, str, bool | None]:
    """Returns a line of a batch, and its expected status and verdict."""
    a, b = rng.randrange(1000), rng.randrange(1000)
    kind = number % 20
    if kind == 0:
        return {"id": f"g{number}", "code": f"print({a} + {b})", "expect": {"stdout": f"{a + b + 1}"}}, "ok", False
    if kind == 1:
        return {"id": f"g{number}", "code": f"assert {a} + {b} < 0"}, "failed", None
    if kind == 2:
        return {"id": f"g{number}", "code": "import os\nos.system('id')"}, "blocked", None
    if kind == 3:
        return {"id": f"g{number}", "code": "1", "unknown": 1}, "invalid", None
    if kind == 4:
        tests = [{"stdin": f"{x}\n", "stdout": f"{x * a}\n"} for x in range(3)]
        return {"id": f"g{number}", "code": f"print(int(input()) * {a})", "tests": tests}, "ok", True
    line = {"id": f"g{number}", "code": f"x, y = map(int, input().split())\nprint(x * y, {number})"}
    return line | {"stdin": f"{a} {b}\n", "expect": {"stdout": f"{a * b} {number}\n"}}, "ok", True


STARVED = "other processes used the processors"
HOSTILE = [
    ("while True: pass", {"timeout": 1}, {"timeout"}),
    ("x = []\nwhile True: x.append(bytearray(1 << 20))", {"memory_mb": 128}, {"memory", "failed"}),
    ("while True: print('x' * 10000)", {}, {"output_cap"}),
    ("import os\nfor _ in range(1000):\n    try: os.fork()\n    except OSError: pass\nwhile True: pass", {"timeout": 1}, {"timeout", "memory"}),
    ("import ctypes\nctypes.string_at(0)", {}, {"failed"}),
    ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", {}, {"failed"}),
    ("import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): f()\nf()", {}, {"failed", "memory"}),
]


class Batch:
    """A folder for a batch, and the command line of the batch."""

    def __init__(self, binary: Path, workers: int) -> None:
        self.binary, self.workers = binary, workers
        self.place = tempfile.TemporaryDirectory(prefix="batch-")
        self.folder = Path(self.place.name)
        (self.folder / "tmp").mkdir()
        python = os.environ.get("QWED_MCP_PYTHON", str(binary.parent.parent / "python/bin/python"))
        self.environment = {
            "PATH": f"{os.environ['PATH']}:{self.folder}",
            "TMPDIR": str(self.folder / "tmp"),
            "QWED_MCP_PYTHON": python,
            "QWED_MCP_TRUSTED_CODE_EXECUTION": "true",
        }

    def write(self, lines: list) -> None:
        with open(self.folder / "in", "w") as file:
            for line in lines:
                file.write(json.dumps(line) + "\n")

    def start(self, *options: str) -> subprocess.Popen:
        command = [self.binary, "run", "--batch", self.folder / "in", "--output", self.folder / "out", "--resume"]
        command += ["--workers", str(self.workers), "--summary", self.folder / "summary", *options]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def results(self) -> list[dict]:
        with open(self.folder / "out") as file:
            return [json.loads(line) for line in file]

    def summary(self) -> dict:
        return json.loads((self.folder / "summary").read_text())

    def marked(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environment = (entry / "environ").read_bytes()
                    is_dead = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
                except OSError:
                    continue
                if str(self.folder).encode() in environment and not is_dead:
                    found.append(int(entry.name))
        return found

    def check_gone(self, name: str) -> None:
        deadline = time.monotonic() + 30
        while (left := self.marked() or list((self.folder / "tmp").iterdir())) and time.monotonic() < deadline:
            time.sleep(0.2)
        check(not left, f"{name}: left behind: {left}")
        mounts = Path("/proc/self/mountinfo").read_text()
        check(str(self.folder) not in mounts, f"{name}: a mount is left")

    def check_once(self, name: str, expected: dict[str, tuple[str, bool | None]], takes_infra: bool) -> Counter:
        results = self.results()
        ids = Counter(result["id"] for result in results)
        check(len(results) == len(expected) and set(ids) == set(expected), f"{name}: {len(results)} answers to {len(expected)} lines, {len(ids)} different")
        for result in results:
            wanted = expected.get(result["id"])
            is_infra = takes_infra and result["status"] == "infra_error" and result["passed"] is None
            if wanted and not is_infra:
                check((result["status"], result["passed"]) == wanted, f"{name}: {result} instead of {wanted}"[:600])
        return Counter(result["status"] for result in results)


def resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def end(process: subprocess.Popen) -> tuple[int, str]:
    stderr = process.communicate()[1].decode().strip()
    return process.returncode, stderr.splitlines()[-1] if stderr else ""


def whole(options: argparse.Namespace, rng: random.Random) -> None:
    batch = Batch(options.binary, options.workers)
    made = [generated(number, rng) for number in range(options.lines)]
    batch.write([line for line, _, _ in made])
    process = batch.start()
    sizes: list[int] = []
    while process.poll() is None:
        try:
            sizes.append(resident_kib(process.pid))
        except OSError:
            break
        time.sleep(0.1)
    code, last_line = end(process)
    check(code == 0, f"whole: exit code {code}: {last_line}")
    counts = batch.check_once("whole", {f"g{n}": (status, passed) for n, (_, status, passed) in enumerate(made)}, False)
    batch.check_gone("whole")
    quarter = max(len(sizes) // 4, 1)
    first, last = max(sizes[:quarter]), max(sizes[-quarter:])
    summary = batch.summary()
    print(f"whole: {options.lines} lines, {dict(counts)}, {summary['scripts_per_second']:.0f} a second, "
          f"p50 {summary['p50_ms']} ms, p99 {summary['p99_ms']} ms; "
          f"memory of the command: {first / 1024:.1f} MiB at most in the first quarter, {last / 1024:.1f} in the last", flush=True)
    # The memory of the batch may grow by its ids and by the overhead of the allocator.
    allowed = first + 40 * options.lines / 1024 + 8 * 1024
    check(last <= allowed, f"whole: memory grew from {first} to {last} KiB")


def killed(options: argparse.Namespace, rng: random.Random) -> None:
    batch = Batch(options.binary, options.workers)
    made = [generated(number, rng) for number in range(max(options.lines // 10, 200))]
    batch.write([line for line, _, _ in made])
    kills, starts = Counter(), 0
    while True:
        process = batch.start()
        starts += 1
        while process.poll() is None and sum(kills.values()) < options.kills:
            time.sleep(rng.uniform(0.2, 3.0))
            others = [pid for pid in batch.marked() if pid != process.pid]
            if rng.random() < 0.5 or not others:
                process.kill()
                kills["the command"] += 1
            else:
                for pid in rng.sample(others, min(len(others), rng.choice([1, 1, 3]))):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except OSError:
                        continue
                kills["others"] += 1
        code, last_line = end(process)
        batch.check_gone("killed")
        if code != -signal.SIGKILL:
            check(code in (0, 1), f"killed: exit code {code}: {last_line}")
            break
    expected = {f"g{n}": (status, passed) for n, (_, status, passed) in enumerate(made)}
    # The test may kill a script. The result is the same as for a script that kills itself, so it is not an
    # infra_error. All other scripts have their verdicts.
    lost = {result["id"] for result in batch.results() if result.get("exit_code") == -9}
    check(len(lost) <= 3 * kills["others"], f"killed: {len(lost)} scripts ended by SIGKILL")
    expected |= {id: ("failed", False) for id in lost}
    counts = batch.check_once("killed", expected, True)
    print(f"killed: {len(expected)} lines, {dict(kills)} killed, {starts} starts, {dict(counts)}, {len(lost)} by SIGKILL", flush=True)


def hostile(options: argparse.Namespace, rng: random.Random) -> None:
    p50 = {}
    count = max(options.lines // 50, 300)
    for name, share in (("without", 0.0), ("with", options.hostile)):
        batch = Batch(options.binary, options.workers)
        lines, expected = [], {}
        for number in range(count):
            if rng.random() < share:
                code, more, statuses = HOSTILE[number % len(HOSTILE)]
                lines.append({"id": f"h{number}", "code": code} | more)
                expected[f"h{number}"] = statuses
            else:
                lines.append({"id": f"n{number}", "code": f"print({number})"})
                expected[f"n{number}"] = {"ok"}
        batch.write(lines)
        code, last_line = end(batch.start("--analysis", "report"))
        results = batch.results()
        check(Counter(r["id"] for r in results) == Counter(list(expected)), f"hostile: {len(results)} answers")
        # On a busy machine, a loop may not get its CPU time. Then the script is not judged, and its error states
        # this.
        starved = {r["id"] for r in results if r["status"] == "infra_error" and STARVED in r["error"]}
        for result in results:
            statuses = expected.get(result["id"], set())
            is_right = result["status"] in statuses or (result["id"] in starved and "timeout" in statuses)
            check(is_right, f"hostile: {result}"[:400])
        check(code == (1 if starved else 0), f"hostile: exit code {code}, {len(starved)} not judged: {last_line}")
        p50[name] = statistics.median(r["duration_ms"] + r["queue_ms"] for r in results if r["id"].startswith("n"))
        batch.check_gone("hostile")
    print(f"hostile: {count} lines, {options.hostile:.1%} hostile; p50 of the others {p50['with']} ms, without them {p50['without']} ms", flush=True)


def scripts(options: argparse.Namespace) -> None:
    batch = Batch(options.binary, options.workers)
    files = sorted(options.scripts.rglob("*.py"))
    batch.write([{"id": str(path.relative_to(options.scripts)), "code": path.read_text()} for path in files])
    code, last_line = end(batch.start())
    check(code == 0, f"scripts: exit code {code}: {last_line}")
    results = batch.results()
    check(sorted(r["id"] for r in results) == sorted(str(path.relative_to(options.scripts)) for path in files), "scripts: not each once")
    print(f"scripts: {len(files)} files, {dict(Counter(r['status'] for r in results))}; {last_line}", flush=True)
    for result in results:
        check(result["status"] in ("ok", "blocked"), f"scripts: {result}"[:400])
    batch.check_gone("scripts")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--hostile", type=float, default=0.01)
    parser.add_argument("--scripts", type=Path)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--parts", default="whole,killed,hostile,scripts")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    options.binary = options.binary.resolve()
    if options.smoke:
        options.lines, options.kills, options.hostile = 400, 4, 0.03
    print(f"seed {options.seed}", flush=True)
    rng, parts = random.Random(options.seed), options.parts.split(",")
    if "whole" in parts:
        whole(options, rng)
    if "killed" in parts:
        killed(options, rng)
    if "hostile" in parts:
        hostile(options, rng)
    if "scripts" in parts and options.scripts:
        scripts(options)
    print(f"{len(wrong)} wrong" if wrong else "all right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
