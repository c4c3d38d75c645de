"""The request loop that all Python drivers share. Each line of standard input is a JSON request, and each line of
standard output is a JSON reply.

A driver is the program that uses a peer: the client of a server, or the host of a library. The driver measures the
duration of each run itself, so that the pipes to the bench do not count. `pyodide.mjs` and `srt.mjs` use the same
protocol.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# The maximum part of a script's output in the reply. The reply also has the size of the whole output.
SHOWN_BYTES = 1 << 20


@dataclass
class Result:
    """The result of one run."""

    is_success: bool
    stdout: str
    error: str = ""


class Runner:
    """A started peer. If `keeps_state` is set, a run with `keep` sees the variables of earlier runs with `keep`."""

    keeps_state = False

    def run(self, code: str, timeout_s: float, keep: bool) -> Result:
        raise NotImplementedError

    def reset(self) -> None:
        """Forgets the variables of earlier runs."""

    def prepare(self, code: str, timeout_s: float) -> None:
        """Runs a script twice, so that further runs are warm."""
        for _ in range(2):
            self.run(code, timeout_s, keep=False)


def serve(start: Callable[[], Runner]) -> None:
    """Starts the peer, reports the duration of the start, and answers requests until the end of input."""
    # Scripts may run in this process, so standard output must not be the stream of the protocol.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    began = time.perf_counter()
    runner = start()
    answer(replies, {"start_ms": (time.perf_counter() - began) * 1000, "pid": os.getpid()})
    for line in requests:
        request = json.loads(line)
        answer(replies, OPERATIONS[request.pop("op")](runner, **request))


def answer(replies: Any, reply: dict[str, Any]) -> None:
    replies.write(json.dumps(reply).encode() + b"\n")
    replies.flush()


def run(runner: Runner, code: str, timeout_s: float) -> dict[str, Any]:
    began = time.perf_counter()
    result = runner.run(code, timeout_s, keep=False)
    elapsed_ms = (time.perf_counter() - began) * 1000
    return {"ok": result.is_success, "stdout": result.stdout[:SHOWN_BYTES], "size": len(result.stdout),
            "error": result.error[-2000:], "ms": elapsed_ms}


def prepare(runner: Runner, code: str, timeout_s: float) -> dict[str, Any]:
    runner.prepare(code, timeout_s)
    return {}


def agent(runner: Runner, commands: list[str], printed: list[str], timeout_s: float) -> dict[str, Any]:
    """Runs commands one after the other. Each needs the variables of earlier commands. If the peer keeps no state,
    runs the earlier commands again."""
    began = time.perf_counter()
    runner.reset()
    for number in range(len(commands)):
        first = number if runner.keeps_state else 0
        code, expected = "\n".join(commands[first : number + 1]), "\n".join(printed[first : number + 1])
        result = runner.run(code, timeout_s, keep=runner.keeps_state)
        if result.stdout.rstrip("\n") != expected:
            return {"ok": False, "error": (result.error or result.stdout)[-500:]}
    elapsed_ms = (time.perf_counter() - began) * 1000
    runner.reset()
    return {"ok": True, "ms": elapsed_ms, "keeps_state": runner.keeps_state}


def rate(runner: Runner, code: str, printed: str, seconds: float, timeout_s: float) -> dict[str, Any]:
    """Runs a script repeatedly for some seconds."""
    runs, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        result = runner.run(code, timeout_s, keep=False)
        if result.stdout.rstrip("\n") != printed:
            return {"ok": False, "error": (result.error or result.stdout)[-500:]}
        runs += 1
    return {"ok": True, "runs": runs, "seconds": elapsed}


OPERATIONS: dict[str, Callable[..., dict[str, Any]]] = {"run": run, "prepare": prepare, "agent": agent, "rate": rate}


def argument() -> dict[str, Any]:
    """Returns the driver's configuration, which is its only argument."""
    return json.loads(sys.argv[1])
