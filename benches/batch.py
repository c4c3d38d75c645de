#!/usr/bin/env python3
"""Compares batches with a bare fork, new interpreters and the Python implementation, measured in one run.

    benches/batch.py [--server PATH] [--rounds N | --smoke]

Measures the scripts per second of four programs:

- `qwed-mcp run --batch`
- a loop of `os.fork` in interpreters that have loaded and used the same modules. The loop has no server, sandbox,
  analysis or limits, so no batch can be faster.
- `subprocess.run(["python", "-c", ...])`
- the Python implementation, with at most five background jobs at a time

The scripts are light, or use SymPy or Z3. There are one, two and four workers. In each of N rounds, all programs run
once, one after the other, so that a busy moment of the machine affects all of them. The table has the medians.

The rate of a batch counts its last two thirds only, because a batch is slower until its interpreters are warm. All
answers are checked. A missed target does not fail the bench. A wrong answer is an error with exit code 1.

Linux only, Python 3.11 or newer, standard library only. The Python implementation is installed below
`target/peer/`, as for `side_by_side.py`.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from contestants import REPOSITORY, Bench, NotMeasured, Server, install_peer, small_bench_options
from warm import JOBS, run_jobs


@dataclass(frozen=True)
class Script:
    """A script, its output, and the target in scripts per second for two workers."""

    title: str
    code: str
    printed: str
    is_light: bool
    target: int | None


SCRIPTS = [
    Script("print(1)", "print(1)", "1", True, 500),
    Script(
        "SymPy derivative",
        "import sympy\nx = sympy.Symbol('x')\nprint(sympy.diff(sympy.sin(x) * sympy.exp(x), x))",
        "exp(x)*sin(x) + exp(x)*cos(x)",
        False,
        300,
    ),
    Script(
        "Z3, x > 1 and x < 3",
        "import z3\nx = z3.Int('x')\ns = z3.Solver()\ns.add(x > 1, x < 3)\nprint(s.check(), s.model())",
        "sat [x = 2]",
        False,
        None,
    ),
]
WORKERS, WORKERS_OF_TARGET = (1, 2, 4), 2
SHARE_OF_FORK = 0.8

# The numbers of batch lines, forks and new interpreters in each round. Each takes some seconds.
LINES, FORKS, NEW = 1500, 600, 40
LINES_SMOKE, FORKS_SMOKE, NEW_SMOKE = 150, 40, 4
TIMEOUT_S = 300.0

# Loads the modules with the fork server's own code, and uses them once. Then waits for a line of input, and forks for
# each script.
FORK_LOOP = """
import gc, os, sys
count, modules, script, printed = int(sys.argv[1]), sys.argv[2].split(), sys.argv[3], sys.argv[4]
kept = load(modules, lambda: len(os.listdir("/proc/self/task")))
gc.collect()
gc.freeze()
print("ready", flush=True)
sys.stdin.readline()
for _ in range(count):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.dup2(writer, 1)
        exec(compile(script, "script", "exec"), {})
        sys.stdout.flush()
        os._exit(0)
    os.close(writer)
    parts = []
    while part := os.read(reader, 4096):
        parts.append(part)
    os.wait()
    os.close(reader)
    if b"".join(parts).decode().strip() != printed:
        sys.exit("a fork printed %r" % parts)
print("done", flush=True)
"""


def main() -> int:
    options = small_bench_options(__doc__.splitlines()[0], rounds=3)
    is_smoke = "--smoke" in sys.argv
    rounds = 1 if is_smoke else options.rounds
    counts = (LINES_SMOKE, FORKS_SMOKE, NEW_SMOKE) if is_smoke else (LINES, FORKS, NEW)
    try:
        peer = install_peer()
        with tempfile.TemporaryDirectory(prefix="qwed-mcp-bench-") as folder:
            bench = Bench.prepare(options.server, peer, Path(folder))
            print(f"scripts a second; {rounds} rounds, {os.cpu_count()} processors\n")
            print(f"{'':20}{'workers':>8}{'batch':>8}{'fork':>8}{'share':>7}{'new':>7}{'ratio':>7}{'theirs':>8}{'ratio':>7}")
            with bench.theirs.start(bench) as theirs:
                for script in SCRIPTS:
                    measure(bench, theirs, script, rounds, counts)
    except NotMeasured as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    return 0


def measure(bench: Bench, theirs: Server, script: Script, rounds: int, counts: tuple[int, int, int]) -> None:
    lines, forks, new = counts
    samples: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for workers in WORKERS:
            for name, rate in (
                ("batch", batch_rate(bench, script, lines, workers)),
                ("fork", fork_rate(bench, script, forks, workers)),
                ("new", new_rate(bench, script, new, workers)),
            ):
                samples.setdefault((name, workers), []).append(rate)
        began = time.perf_counter()
        run_jobs(theirs, script.code)
        samples.setdefault(("theirs", 0), []).append(JOBS / (time.perf_counter() - began))
    medians = {key: statistics.median(rates) for key, rates in samples.items()}
    their_rate = medians["theirs", 0]
    for workers in WORKERS:
        batch, fork, started = (medians[name, workers] for name in ("batch", "fork", "new"))
        cells = f"{batch:8.0f}{fork:8.0f}{batch / fork:7.2f}{started:7.0f}{batch / started:7.1f}"
        print(f"{script.title:20}{workers:8}{cells}{their_rate:8.1f}{batch / their_rate:7.1f}{targets(script, workers, batch, fork)}")


def targets(script: Script, workers: int, batch: float, fork: float) -> str:
    if workers != WORKERS_OF_TARGET:
        return ""
    told = [f"{SHARE_OF_FORK:g} of a fork: {'met' if batch / fork >= SHARE_OF_FORK else 'MISSED'}"]
    if script.target is not None:
        told.append(f"{script.target} a second: {'met' if batch >= script.target else 'MISSED'}")
    return "  " + ", ".join(told)


def batch_rate(bench: Bench, script: Script, lines: int, workers: int) -> float:
    """Returns the answers per second after the first third. The time of an answer is the time at which it is read."""
    line = json.dumps({"code": script.code, "expect": {"stdout": script.printed + "\n"}}) + "\n"
    source = bench.scratch / "scripts.jsonl"
    source.write_text(line * lines, encoding="utf-8")
    command = [str(bench.ours.command), "run", "--batch", str(source), "--workers", str(workers), "--progress", "none"]
    read_at: list[float] = []
    with (
        (bench.scratch / "batch.stderr").open("w+b") as errors,
        subprocess.Popen(command, env=bench.environment, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        deadline = time.monotonic() + TIMEOUT_S
        for answer in process.stdout:
            read_at.append(time.perf_counter())
            if not json.loads(answer)["passed"]:
                process.terminate()
                raise NotMeasured(f"a wrong answer: {answer.decode(errors='replace')}")
            if time.monotonic() > deadline:
                process.terminate()
                raise NotMeasured("a batch does not end")
        if process.wait() != 0 or len(read_at) != lines:
            errors.seek(0)
            raise NotMeasured(f"{len(read_at)} answers, exit code {process.returncode}: {errors.read(2000)!r}")
    first = lines // 3
    return (lines - 1 - first) / (read_at[-1] - read_at[first])


def fork_rate(bench: Bench, script: Script, forks: int, workers: int) -> float:
    each = -(-forks // workers)
    load = (REPOSITORY / "src/executor/python/preload.py").read_text(encoding="utf-8")
    command = [str(bench.interpreter), "-c", load + FORK_LOOP, str(each), modules(script), script.code, script.printed]
    environment = {"PATH": bench.environment["PATH"], "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=environment, **pipes) for _ in range(workers)]
    try:
        for process in processes:
            expect(process, "ready")
        began = time.perf_counter()
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            expect(process, "done")
        return workers * each / (time.perf_counter() - began)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def expect(process: subprocess.Popen, word: str) -> None:
    if process.stdout.readline().strip() != word:
        raise NotMeasured(f"a loop of forks is not {word}")


def modules(script: Script) -> str:
    """Returns the modules that the fork server loads for such scripts."""
    settings = (REPOSITORY / "src" / "config.rs").read_text(encoding="utf-8")
    found = dict(re.findall(r'const PRELOAD_(LIGHT|USUAL): &str =\s*"([^"]*)";', settings))
    if set(found) != {"LIGHT", "USUAL"}:
        raise NotMeasured("the modules that are loaded ahead are not in src/config.rs")
    return found["LIGHT"] if script.is_light else f"{found['LIGHT']} {found['USUAL']}"


def new_rate(bench: Bench, script: Script, count: int, workers: int) -> float:
    environment = {"PATH": bench.environment["PATH"], "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

    def run(_: int) -> None:
        command = [str(bench.interpreter), "-c", script.code]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if ended.stdout.strip() != script.printed:
            raise NotMeasured(f"a new interpreter printed {ended.stdout!r} {ended.stderr!r}")

    with ThreadPoolExecutor(workers) as pool:
        began = time.perf_counter()
        list(pool.map(run, range(count)))
        return count / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
