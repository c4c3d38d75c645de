#!/usr/bin/env python3
"""Compares calls over HTTP with calls over standard input and output, measured in one run.

    benches/http_calls.py [--server PATH] [--rounds N | --smoke]

Measures the calls per second of one client that waits for each reply, and the CPU time of the server itself for each
call. One kind of call runs nothing, because it asks for the status of an unknown job. The other kind runs `print(1)` in
a warm interpreter. In each of N rounds, the transports are measured one after the other, so that a busy moment of the
machine affects both. The table has the medians.

All answers are checked. A wrong answer is an error with exit code 1.

Linux only, standard library only.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contestants import small_bench_options

ROUNDS = 20
CALLS = {"no run": 400, "print(1)": 100}
NO_JOB = "00000000-0000-4000-8000-000000000000"
ASKED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no run": ("verification_status", {"job_id": NO_JOB}, f"Error: Job ID '{NO_JOB}' not found or expired."),
    "print(1)": ("execute_python_code", {"code": "print(1)"}, "STDOUT:\n1\n\nExecution completed successfully."),
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class WrongAnswer(Exception):
    pass


def message(tool: str, arguments: dict[str, Any]) -> bytes:
    params = {"name": tool, "arguments": arguments, "_meta": META}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def cpu_s(pid: int) -> float:
    """Returns the CPU time of the process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


class Stdio:
    name = "stdio"

    def __init__(self, server: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [server], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(message(tool, arguments) + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Http:
    name = "HTTP"

    def __init__(self, server: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [server, "serve", "--http", "127.0.0.1:0"],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        assert self.process.stderr
        line = self.process.stderr.readline()
        _, found, url = line.partition("serving over HTTP clients=http://")
        if not found:
            raise WrongAnswer(f"the server does not listen: {line}")
        self.connection = http.client.HTTPConnection(url.strip().removesuffix("/mcp"))

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": META["io.modelcontextprotocol/protocolVersion"],
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        self.connection.request("POST", "/mcp", message(tool, arguments), headers)
        return json.loads(self.connection.getresponse().read())


@dataclass
class Figures:
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


def measure(contestant: Stdio | Http, asked: str, count: int, figures: Figures) -> None:
    tool, arguments, expected = ASKED[asked]
    cpu, began = cpu_s(contestant.process.pid), time.perf_counter()
    for _ in range(count):
        reply = contestant.call(tool, arguments)
        text = reply["result"]["content"][0]["text"]
        if text != expected:
            raise WrongAnswer(f"{contestant.name}: {asked}: {text}")
    took = time.perf_counter() - began
    figures.rates.append(count / took)
    figures.cpu_us.append((cpu_s(contestant.process.pid) - cpu) / count * 1e6)


def wait_until_warm(contestant: Stdio | Http) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        reply = contestant.call("execute_python_code", {"code": "print(1)"})
        if reply["result"]["_meta"]["qwed.ai/execution"]["warm"]:
            return
        time.sleep(0.2)
    print(f"{contestant.name}: no warm interpreter within a minute, so runs are cold", file=sys.stderr)


def main() -> int:
    options = small_bench_options(__doc__.splitlines()[0], ROUNDS)
    is_smoke = options.rounds < ROUNDS
    with tempfile.TemporaryDirectory() as scratch:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": scratch,
            "TMPDIR": scratch,
            "QWED_MCP_TRUSTED_CODE_EXECUTION": "true",
            "QWED_MCP_PYTHON": sys.executable,
        }
        contestants = [kind(options.server, environment) for kind in (Stdio, Http)]
        try:
            for contestant in contestants:
                wait_until_warm(contestant)
            all_figures = {(c.name, asked): Figures() for c in contestants for asked in ASKED}
            for _ in range(options.rounds):
                for asked, count in CALLS.items():
                    for contestant in contestants:
                        count = min(count, 20) if is_smoke else count
                        measure(contestant, asked, count, all_figures[contestant.name, asked])
        except (WrongAnswer, KeyError) as error:
            print(f"wrong: {error!r}", file=sys.stderr)
            return 1
        finally:
            for contestant in contestants:
                contestant.process.terminate()
                contestant.process.wait(10)
    print(f"{'call':<10} {'':<6} {'calls/s':>9} {'CPU of the server, µs a call':>30}")
    for (name, asked), figures in sorted(all_figures.items(), key=lambda item: item[0][1]):
        rate, cpu = statistics.median(figures.rates), statistics.fmean(figures.cpu_us)
        print(f"{asked:<10} {name:<6} {rate:>9.0f} {cpu:>30.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
