#!/usr/bin/env python3
"""Compares calls with and without governance, measured in one run.

    benches/governance.py [--server PATH] [--python PATH] [--rounds N | --smoke]

Runs two servers at once, one without a policy and one with a policy. In each round, both run `print(1)`. The server
with a policy also runs one small test with `run_pytest`, and lists artifacts. For the script, "governance" is the
difference of the medians: the check of the token, and the audit. For `run_pytest`, "governance" is the duration of the
call minus the duration of the run in the sandbox: token, policy, budget, artifacts, evidence and audit. At the end, the
bench sends 250 list calls one after the other and then 250 at once. It measures their time and the server's kernel CPU
time. The PATH of --python is an interpreter with pytest (default: the interpreter that `cargo test` created).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from contestants import REPOSITORY, Bench, Contestant, NotMeasured, Peer, Server, in_scratch, small_bench_options

SCRIPT, PRINTED = "print(1)", "1"
TARGET_MS = 5.0
# The number of concurrent calls, a little below the server's limit.
AT_ONCE = 250
AT_ONCE_RATIO_MAX = 2.0


def main() -> int:
    interpreter = REPOSITORY / "target" / "python" / "bin" / "python"
    options = small_bench_options(__doc__.splitlines()[0], rounds=60, interpreter=interpreter)
    return in_scratch(measure, options, "qwed-mcp-bench-")


def measure(options: argparse.Namespace, scratch: Path) -> int:
    if not options.python.exists():
        raise NotMeasured(f"{options.python} does not exist: run cargo test, or name an interpreter that has pytest")
    bench = Bench.prepare(options.server, Peer(options.python, options.server, {}), scratch)
    governed = replace(bench, environment={**bench.environment, **governance(options.server, scratch)})
    samples: dict[str, list[float]] = {name: [] for name in ["script, no policy", "script, policy", "run", "list"]}
    whole_calls = []
    with contextlib.ExitStack() as running:
        plain = running.enter_context(Contestant("plain", options.server).start(bench))
        ours = running.enter_context(Contestant("governed", options.server).start(governed))
        for round_number in range(options.rounds + 1):
            plain_ms = plain.run_script(SCRIPT, PRINTED)
            ours_ms = ours.run_script(SCRIPT, PRINTED)
            whole_ms, run_ms = run_pytest(ours)
            list_ms, _ = ours.call_tool("list_artifacts", {"limit": 1})
            if round_number == 0:
                # The first round is not counted, because it includes the search for an interpreter.
                continue
            samples["script, no policy"].append(plain_ms)
            samples["script, policy"].append(ours_ms)
            samples["run"].append(whole_ms - run_ms)
            samples["list"].append(list_ms)
            whole_calls.append(whole_ms)
        load = measure_load(ours)
    report(samples, whole_calls, options.rounds)
    report_load(load)
    return 0


def measure_load(server: Server) -> dict[str, tuple[float, float]]:
    """Calls `list_artifacts` one call after the other, and then all calls at once. Returns the time and the
    server's kernel CPU time, in ms."""
    arguments = [{"limit": 1}] * AT_ONCE
    before = kernel_ms(server.pid)
    alone_ms = sum(server.call_tool("list_artifacts", each)[0] for each in arguments)
    between = kernel_ms(server.pid)
    together_ms, _ = server.call_tool_pipelined("list_artifacts", arguments)
    after = kernel_ms(server.pid)
    return {"one after the other": (alone_ms, between - before), "at once": (together_ms, after - between)}


def kernel_ms(pid: int) -> float:
    """Returns the kernel CPU time of a process (proc(5), stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[12]) * 1000 / os.sysconf("SC_CLK_TCK")


def report_load(load: dict[str, tuple[float, float]]) -> None:
    (alone_ms, alone_kernel_ms), (together_ms, together_kernel_ms) = load.values()
    for what, (elapsed_ms, in_kernel_ms) in load.items():
        print(f"{AT_ONCE} list_artifacts {what:20}{elapsed_ms:9.0f} ms, {in_kernel_ms:6.0f} ms in the kernel")
    # Kernel CPU time is counted in ticks of 10 ms.
    ratios = together_ms / alone_ms, together_kernel_ms / max(alone_kernel_ms, 10)
    judged = "met" if max(ratios) <= AT_ONCE_RATIO_MAX else "MISSED"
    print(f"ratios {ratios[0]:.2f} and {ratios[1]:.2f}; target {AT_ONCE_RATIO_MAX:g}: {judged}")


def governance(server: Path, scratch: Path) -> dict[str, str]:
    """Creates a workspace with one test, a policy and a token. Returns the environment of a governed server."""
    workspace, data, policy = scratch / "workspace", scratch / "data", scratch / "policy.toml"
    workspace.mkdir()
    (workspace / "test_one.py").write_text("def test_one():\n    assert 1 + 1 == 2\n")
    policy.write_text(f'[tools]\nallowlist = ["run_pytest"]\n[workspace]\nroot = "{workspace}"\n')
    command = [server, "token", "create", "--user", "bench", "--role", "user"]
    made = subprocess.run(
        command, env={**os.environ, "QWED_MCP_DATA_DIR": str(data)}, capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise NotMeasured(f"no token: {made.stderr}")
    token = made.stdout.strip()
    return {"QWED_MCP_POLICY": str(policy), "QWED_MCP_DATA_DIR": str(data), "QWED_MCP_AUTH_TOKEN": token}


def run_pytest(server) -> tuple[float, float]:
    """Runs the test. Returns the duration of the call and of the run within it, in ms. The server reports the
    duration of the run as an integer."""
    arguments = {"name": "run_pytest", "arguments": {"test_path": "test_one.py"}}
    elapsed_ms, result = server.timed_request("tools/call", arguments)
    text = result.get("content", [{}])[0].get("text", "")
    if "1 passed" not in text:
        raise server.wrong("run_pytest", text)
    return elapsed_ms, result["_meta"]["qwed.ai/run"]["duration_ms"] + 0.5


def report(samples: dict[str, list[float]], whole_calls: list[float], rounds: int) -> None:
    median = {name: statistics.median(values) for name, values in samples.items()}
    print(f"{rounds} rounds, medians, milliseconds")
    script = median["script, policy"] - median["script, no policy"]
    for what, alone, governance_ms in [
        ("execute_python_code, print(1)", median["script, no policy"], script),
        ("run_pytest, one test", statistics.median(whole_calls) - median["run"], median["run"]),
    ]:
        judged = "met" if governance_ms <= TARGET_MS else "MISSED"
        print(f"{what:32}{alone:9.2f} alone, governance {governance_ms:6.2f} more; target {TARGET_MS:g}: {judged}")
    print(f"{'list_artifacts':32}{median['list']:9.2f} whole call")


if __name__ == "__main__":
    sys.exit(main())
