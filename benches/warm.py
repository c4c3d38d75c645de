#!/usr/bin/env python3
"""Compares warm interpreters with the Python implementation, a new interpreter and a bare fork, measured in one run.

    benches/warm.py [--server PATH] [--rounds N | --smoke]

Runs three servers at once: ours with warm interpreters, ours without, and the Python implementation. In each round each
of them runs the same script once, after a pause, so that a busy moment of the machine affects all of them. Every reply
is checked. The table has for each script how many times faster warm is, and whether the target is met.

Then the bench measures:

- calls without a pause
- background jobs, five at a time
- the physical limit: fork, run and exit of the same interpreter with the same modules, without a server and a sandbox
- memory
- a plot, compared with plain Python that draws the same plot

A missed target does not fail the bench. A server without warm interpreters, or a wrong answer, is an error with exit
code 1.

Linux only, Python 3.11 or newer, standard library only. The Python implementation is installed below `target/peer/`, as
for `side_by_side.py`.
"""

from __future__ import annotations

import gc
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from contestants import Bench, Contestant, NotMeasured, Server, descendants, install_peer, small_bench_options

# The title, the script, the output, the target for the median in ms, and the target for the ratio to the Python
# implementation.
SCRIPTS = [
    ("print(1)", "print(1)", "1", 2.0, None),
    (
        "SymPy derivative",
        "import sympy\nx = sympy.Symbol('x')\nprint(sympy.diff(sympy.sin(x) * sympy.exp(x), x))",
        "exp(x)*sin(x) + exp(x)*cos(x)",
        10.0,
        30.0,
    ),
    (
        "Z3, x > 1 and x < 3",
        "import z3\nx = z3.Int('x')\ns = z3.Solver()\ns.add(x > 1, x < 3)\nprint(s.check(), s.model())",
        "sat [x = 2]",
        None,
        10.0,
    ),
    (
        "legal deadline",
        "from qwed_legal import DeadlineGuard\n"
        "found = DeadlineGuard(country='US').verify('2026-01-15', '30 business days', '2026-02-14')\n"
        "print(found.verified, found.computed_deadline)",
        None,
        None,
        20.0,
    ),
]
PRINT, PRINT_P95_MS = SCRIPTS[0][1], 5.0
JOBS, JOBS_RATIO = 60, 5.0
POLL_S = 0.005
WARM_TIMEOUT_S = 60.0

# A plot of a line with a title. The second script is a process that draws the same plot for each line of standard
# input.
PLOT = """import matplotlib.pyplot as plt
plt.plot(range(10), [x * x for x in range(10)])
plt.title("squares")
plt.show()"""
PLAIN_PLOT = """
import io, sys, time
for line in sys.stdin:
    began = time.perf_counter()
    import matplotlib.pyplot as plt
    plt.plot(range(10), [x * x for x in range(10)])
    plt.title("squares")
    plt.savefig(io.BytesIO())
    plt.close()
    print((time.perf_counter() - began) * 1000, flush=True)
"""
PLOT_RATIO = 1.3

# The parent process loads those default modules of the fork server that these scripts need. It then forks for each
# script.
LIMIT = """
import gc, os, sys, time
import numpy, sympy, z3, qwed_legal
x = sympy.Symbol("x")
sympy.diff(sympy.sin(x), x)
gc.collect()
gc.freeze()
rounds, took = int(sys.argv[1]), []
for _ in range(rounds):
    time.sleep(0.005)
    began = time.perf_counter()
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.dup2(writer, 1)
        exec(compile(sys.argv[2], "limit", "exec"), {})
        sys.stdout.flush()
        os._exit(0)
    os.close(writer)
    while os.read(reader, 4096):
        pass
    os.wait()
    os.close(reader)
    took.append((time.perf_counter() - began) * 1000)
took.sort()
print(took[len(took) // 2])
"""


def main() -> int:
    options = small_bench_options(__doc__.splitlines()[0], rounds=60)
    gc.disable()
    try:
        peer = install_peer()
        with tempfile.TemporaryDirectory(prefix="qwed-mcp-bench-") as folder:
            bench = Bench.prepare(options.server, peer, Path(folder))
            measure(bench, options.rounds)
    except NotMeasured as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    return 0


def measure(bench: Bench, rounds: int) -> None:
    cold_bench = replace(bench, environment={**bench.environment, "QWED_MCP_WARM": "off"})
    started = time.monotonic()
    with (
        Contestant("warm", bench.ours.command).start(bench) as warm,
        Contestant("cold", bench.ours.command).start(cold_bench) as cold,
        bench.theirs.start(bench) as theirs,
    ):
        wait_until_warm(warm)
        print(f"warm {time.monotonic() - started:.1f} s after its start; {rounds} rounds; milliseconds\n")
        servers = {"warm": warm, "cold": cold, "theirs": theirs}
        print(f"{'':22}{'warm':>8}{'p95':>8}{'cold':>8}{'theirs':>9}{'ratio':>8}  target")
        for title, script, printed, target_ms, target_ratio in SCRIPTS:
            samples = {name: [] for name in servers}
            expected = printed or output_of(warm, script)
            for _ in range(rounds):
                for name, server in servers.items():
                    samples[name].append(server.run_script(script, expected))
            report(title, samples, target_ms, target_ratio)
        bare = sorted(bench.run_bare("pass")[0] for _ in range(rounds))[rounds // 2]
        print(f"{'bare python -c pass':22}{bare:8.2f}")
        without_pause(warm, theirs, rounds)
        jobs(servers, max(1, rounds // 20))
        limit(bench, warm, rounds)
        memory(warm)
        plots(bench, warm, cold, max(3, rounds // 3))
    phases(bench, rounds)


def wait_until_warm(server: Server) -> None:
    deadline = time.monotonic() + WARM_TIMEOUT_S
    while not execution(server, PRINT).get("warm"):
        if time.monotonic() > deadline:
            raise NotMeasured("interpreters stay cold")
        time.sleep(0.1)


def execution(server: Server, script: str) -> dict:
    result = server.request("tools/call", {"name": "execute_python_code", "arguments": {"code": script}})
    return result.get("_meta", {}).get("qwed.ai/execution", {})


def output_of(server: Server, script: str) -> str:
    _, text = server.call_tool("execute_python_code", {"code": script})
    found = re.fullmatch(r"STDOUT:\n(.*)\n\nExecution completed successfully\.", text, re.S)
    if not found:
        raise NotMeasured(f"a script failed: {text}")
    return found[1]


def median(samples: list[float]) -> float:
    return statistics.median(samples)


def p95(samples: list[float]) -> float:
    return sorted(samples)[-(-len(samples) * 95 // 100) - 1]


def report(title: str, samples: dict[str, list[float]], target_ms: float | None, target_ratio: float | None) -> None:
    ratio = median(samples["theirs"]) / median(samples["warm"])
    wanted = []
    if target_ms is not None:
        wanted.append(f"{target_ms:g} ms: {'met' if median(samples['warm']) <= target_ms else 'MISSED'}")
    if title == "print(1)":
        wanted.append(f"p95 {PRINT_P95_MS:g} ms: {'met' if p95(samples['warm']) <= PRINT_P95_MS else 'MISSED'}")
    if target_ratio is not None:
        wanted.append(f"{target_ratio:g} times: {'met' if ratio >= target_ratio else 'MISSED'}")
    cells = [median(samples["warm"]), p95(samples["warm"]), median(samples["cold"])]
    print(f"{title:22}" + "".join(f"{cell:8.2f}" for cell in cells)
          + f"{median(samples['theirs']):9.2f}{ratio:8.1f}  {', '.join(wanted)}")


def without_pause(warm: Server, theirs: Server, rounds: int) -> None:
    took = {}
    for name, server in (("warm", warm), ("theirs", theirs)):
        began = time.perf_counter()
        for _ in range(rounds):
            server.call_tool("execute_python_code", {"code": PRINT})
        took[name] = (time.perf_counter() - began) / rounds * 1000
    print(f"\nprint(1), one after the other without a pause: {took['warm']:.2f} ms a call, theirs {took['theirs']:.2f}, "
          f"ratio {took['theirs'] / took['warm']:.1f}")


def jobs(servers: dict[str, Server], rounds: int) -> None:
    rates = {}
    for name, server in servers.items():
        began = time.perf_counter()
        for _ in range(rounds):
            run_jobs(server)
        rates[name] = rounds * JOBS / (time.perf_counter() - began)
    ratio = rates["warm"] / rates["theirs"]
    print(f"background jobs of print(1), at most five at a time, a second: warm {rates['warm']:.0f}, "
          f"cold {rates['cold']:.0f}, theirs {rates['theirs']:.0f}, ratio {ratio:.1f}; "
          f"{JOBS_RATIO:g} times: {'met' if ratio >= JOBS_RATIO else 'MISSED'}")


def run_jobs(server: Server, script: str = PRINT) -> None:
    """Places all jobs at once. Polls them from the last to the first until all have ended."""
    arguments = [{"code": script, "background": True}] * JOBS
    _, texts = server.call_tool_pipelined("execute_python_code", arguments)
    waiting = [re.search(r"[0-9a-f-]{36}", text)[0] for text in texts]
    while waiting:
        job = {"job_id": waiting[-1]}
        _, text = server.call_tool("verification_status", job)
        if text.startswith("Status: success"):
            waiting.pop()
        elif not text.startswith(("Status: running", "Status: queued")):
            raise NotMeasured(f"a job failed: {text}")
        else:
            time.sleep(POLL_S)


def limit(bench: Bench, warm: Server, rounds: int) -> None:
    command = [str(bench.interpreter), "-c", LIMIT, str(rounds), PRINT]
    environment = {"PATH": bench.environment["PATH"], "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise NotMeasured(f"the physical limit: {found.stderr}")
    physical = float(found.stdout.splitlines()[-1])
    ours = median([warm.run_script(PRINT, "1") for _ in range(rounds)])
    print(f"fork, run and exit of the same interpreter, nothing else: {physical:.2f} ms; a warm call: {ours:.2f} ms, "
          f"ratio {ours / physical:.2f} (below 1: because the fork precedes the call, and the result precedes the process's exit)")


def plots(bench: Bench, warm: Server, cold: Server, rounds: int) -> None:
    """Measures a plot, from the call to the picture. Also measures the same drawing in a plain Python process that
    has drawn before."""
    deadline = time.monotonic() + WARM_TIMEOUT_S
    while plot(warm)[1]["duration_ms"] * 2 > plot(cold)[1]["duration_ms"]:
        if time.monotonic() > deadline:
            raise NotMeasured("interpreters with matplotlib stay cold")
        time.sleep(0.5)
    environment = {"PATH": bench.environment["PATH"], "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    samples: dict[str, list[float]] = {"warm": [], "cold": [], "plain": [], "new": []}
    command = [str(bench.interpreter), "-c", PLAIN_PLOT]
    with tempfile.TemporaryDirectory(prefix="qwed-mcp-bench-") as home:
        environment["HOME"] = home
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
        with subprocess.Popen(command, **options) as plain:
            draw_plainly(plain)
            for _ in range(rounds):
                samples["warm"].append(plot(warm)[0])
                samples["plain"].append(draw_plainly(plain))
                samples["cold"].append(plot(cold)[0])
                began = time.perf_counter()
                subprocess.run(command, input="\n", capture_output=True, text=True, env=environment, check=True)
                samples["new"].append((time.perf_counter() - began) * 1000)
            plain.stdin.close()
    medians = {name: median(took) for name, took in samples.items()}
    least = min(samples["warm"]) / min(samples["plain"])
    ratio = medians["warm"] / medians["plain"]
    print(f"a plot: warm {medians['warm']:.0f} ms, cold {medians['cold']:.0f}; plain Python that has drawn before "
          f"{medians['plain']:.0f}, a new one {medians['new']:.0f}; ratio of warm to the former {ratio:.2f} "
          f"(of the quickest {least:.2f}), to the latter {medians['warm'] / medians['new']:.2f}; "
          f"{PLOT_RATIO:g}: {'met' if least <= PLOT_RATIO else 'MISSED'}")


def plot(server: Server) -> tuple[float, dict]:
    """Draws a plot. Returns the duration in ms, and the server's `_meta` about the run."""
    began = time.perf_counter()
    result = server.request("tools/call", {"name": "execute_python_code", "arguments": {"code": PLOT}})
    took = (time.perf_counter() - began) * 1000
    if [block["type"] for block in result["content"]] != ["text", "image"]:
        raise NotMeasured(f"no picture: {result}")
    return took, result["_meta"]["qwed.ai/execution"]


def draw_plainly(plain: subprocess.Popen) -> float:
    plain.stdin.write("\n")
    plain.stdin.flush()
    return float(plain.stdout.readline())


def phases(bench: Bench, rounds: int) -> None:
    """Prints the phases of a call, from the server's log. Logging takes some tenths of a millisecond."""
    logging = replace(bench, environment={**bench.environment, "QWED_MCP_LOG": "qwed_mcp=debug"})
    with Contestant("phases", bench.ours.command).start(logging) as server:
        wait_until_warm(server)
        whole = median([server.run_script(PRINT, "1") for _ in range(rounds)])
        time.sleep(0.2)
    log = (bench.scratch / "phases.stderr").read_text(encoding="utf-8", errors="replace")
    prepared = durations(log, "a child is ready", rounds)
    ran = durations(log, "run ended", rounds)
    print(f"phases of a call: from hand-over of the script to its result {ran:.2f} ms; gateway, queue, reply and pipes "
          f"{whole - ran:.2f}; after the reply, fork and confinement of the next child {prepared:.2f}")


def durations(log: str, message: str, count: int) -> float:
    """Returns the median of the last `count` logged durations of a message, in ms."""
    units = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}
    found = re.findall(rf"{message}.*?duration=([0-9.]+)(ns|µs|ms|s)\b", log)
    if not found:
        raise NotMeasured(f"nothing in the log about {message!r}")
    return median([float(number) * units[unit] for number, unit in found[-count:]])


def memory(warm: Server) -> None:
    time.sleep(0.5)  # wait for the cleanup of the last run
    processes = [warm.pid, *descendants(warm.pid)]
    proportional = sum(rollup(pid, "Pss") for pid in processes)
    private = sorted(rollup(pid, "Private_Dirty") for pid in processes)
    print(f"memory, idle: the server {rollup(warm.pid, 'Pss') / 1024:.1f} MiB, with all {len(processes)} processes "
          f"{proportional / 1024:.0f} MiB (shared pages once); private dirty pages of each process: "
          f"{', '.join(f'{kibibytes / 1024:.1f}' for kibibytes in private)} MiB")


def rollup(pid: int, field: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise NotMeasured(f"the memory of a process: {error}") from error
    return sum(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


if __name__ == "__main__":
    sys.exit(main())
