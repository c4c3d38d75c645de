#!/usr/bin/env python3
"""Runs sixty hostile scripts of twelve kinds at once. Measures the server's delays and the verdicts on honest scripts.

    tests/endurance/neighbours.py BINARY [--seconds 60] [--runs 60] [--honest 500] [--tiers T3-warm,T3,T2]
                                  [--users root] [--environment DIR]

For each tier and user:

- a server with sixty turns gets sixty hostile calls for --seconds. A call that ends is sent again. Meanwhile the server
  gets fifty `ping` requests per second
- a batch gets 60 hostile lines and 500 honest lines with an expected output. It has one worker more than hostile lines.
  The honest scripts compute, fill a pipe, or start threads and processes. They need a fraction of a second, and may
  take 60 s

Prints the longest `ping` (the documents promise 100 ms on an idle machine). Prints the honest lines with a wrong
verdict (`passed` is false; none is allowed), the honest lines without a verdict (`infra_error`), and the processes,
files and mounts that are left. The exit code is 1 if a ping took longer than --ping-ms, a verdict was wrong, or
something is left.

Needs Linux, Python 3.11 and a build with debug assertions. As root, the process that sends pings has a high priority,
so that it does not wait for a processor. In an unoptimised build, large answers take twenty times as long. So measure
the promise with `CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true cargo build --release --target-dir target/asserting`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import harness
from harness import Interpreter, Server, Tier, Unusable, User, Workspace

#: How long killed processes may exist, on a machine with sixty fork bombs.
GONE_S = 10.0
#: How long supervisors may take to remove folders with thousands of files. Supervisors have a low priority.
REMOVED_S = 60.0
HONEST_TIMEOUT_S = 60

FORKS = {
    "bomb": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
    "sessions": (
        "import os, time\nfor i in range(58):\n  try: p = os.fork()\n  except OSError: break\n"
        "  if p == 0:\n    os.setsid()\n    while True: pass\ntime.sleep(999)"
    ),
    "zombies": (
        "import os, time\nfor i in range(60):\n  try:\n    if os.fork() == 0: os._exit(0)\n  except OSError: break\n"
        "time.sleep(999)"
    ),
    "signals": (
        "import os, signal, time\nsignal.signal(10, lambda *a: None)\np = os.getpid()\nif os.fork() == 0:\n"
        "  while True: os.kill(p, 10)\nwhile True: time.sleep(1)"
    ),
    "pipes": (
        "import os, time\nfor i in range(14):\n  if os.fork() == 0:\n    k = []\n    try:\n      while True: k.append(os.pipe())\n"
        "    except OSError: pass\n    time.sleep(999)\ntime.sleep(999)"
    ),
}
ALONE = {
    "spin": "while True: pass",
    "stop": "import os; os.kill(os.getpid(), 19)",
    "flood": "import os\nwhile True: os.write(1, b'x' * 65536)",
    "files": (
        "n = 0\nwhile True:\n  try: open('f%d' % n, 'wb').write(b'x' * 20000); n += 1\n  except OSError: n = 0"
    ),
    "threads": (
        "import threading, time\nfor i in range(100):\n"
        "  try: threading.Thread(target=time.sleep, args=(999,)).start()\n  except RuntimeError: break\ntime.sleep(999)"
    ),
    "pictures": (
        "import os\nfor fd in (4, 20):\n  try:\n"
        "    while True: os.write(fd, b'P' + (2**31 - 1).to_bytes(4, 'little') + b'x' * 60000)\n  except OSError: pass"
    ),
    "control": "import os, time\ntry: os.write(3, b'=256\\n' * 2)\nexcept OSError: pass\ntime.sleep(999)",
}

HONEST = {
    "computes": ("print(sum(n * n for n in range(200_000)))", str(sum(n * n for n in range(200_000)))),
    "fills a pipe": ("import os\nr, w = os.pipe()\nos.write(w, b'x' * 60000)\nprint(len(os.read(r, 60000)))", "60000"),
    "threads": (
        "import threading\nts = [threading.Thread(target=sum, args=([1],)) for _ in range(20)]\n"
        "[t.start() for t in ts]\n[t.join() for t in ts]\nprint('done')",
        "done",
    ),
    "sorts": ("print(sorted(range(50_000, 0, -1))[:3])", "[1, 2, 3]"),
    "prints": ("for n in range(200): print(n)", "\n".join(str(n) for n in range(200))),
}


def hostile_of(tier: Tier) -> dict[str, str]:
    """Returns the kinds of scripts for a tier. Below tier 3, a script cannot start processes."""
    return {**FORKS, **ALONE} if tier.sandbox == "T3" else ALONE


def named(pid: int) -> str:
    """Returns the command line and the state of a process."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        return f"{command[:60].strip()} [{state}]"
    return "has exited"


class Trial:
    """The tests of one tier and user, and their failures."""

    def __init__(
        self, workspace: Workspace, interpreter: Interpreter, tier: Tier, user: User, given: argparse.Namespace
    ) -> None:
        self.workspace, self.interpreter, self.tier, self.user, self.given = workspace, interpreter, tier, user, given
        self.mounted = harness.mounts()

    def go(self) -> bool:
        ping_ms, again, left = self.pings()
        wrong, unjudged, honest, left_of_batch = self.batch()
        left += left_of_batch
        is_right = ping_ms <= self.given.ping_ms and not wrong and not left
        print(
            f"{self.tier.name:8} {self.user.name:8} longest ping {ping_ms:6.0f} ms | {again} hostile runs | "
            f"honest: {len(wrong)} of {honest} wrong, {unjudged} not judged | left: {', '.join(left) or 'nothing'}"
            f"{'' if is_right else '   WRONG'}",
            flush=True,
        )
        for answer in wrong[:5]:
            print(f"    {json.dumps(answer)[:300]}", flush=True)
        return is_right

    def pings(self) -> tuple[float, int, list[str]]:
        """Returns the milliseconds of the longest ping, the number of runs, and the processes and files that are
        left."""
        variables = {"QWED_MCP_SYNC_CONCURRENCY": str(self.given.runs)}
        folder = self.workspace.new_folder(self.user)
        with Server(self.workspace, self.tier, self.user, self.interpreter, variables, folder) as server:
            server.wait_until_ready()
            server.silence.worst_s = 0.0
            kinds = itertools.cycle(hostile_of(self.tier).values())
            running = [server.begin_run(next(kinds)) for _ in range(self.given.runs)]
            count, until = len(running), time.monotonic() + self.given.seconds
            while time.monotonic() < until:
                time.sleep(0.1)
                for place, number in enumerate(running):
                    if server.take(number) is not None:
                        running[place] = server.begin_run(next(kinds))
                        count += 1
            longest_ms = server.silence.so_far() * 1000
            for number in running:
                server.cancel(number)
            server.close()
        return longest_ms, count, self.left(folder)

    def batch(self) -> tuple[list[dict], int, int, list[str]]:
        """Returns the honest lines with a wrong verdict, the number of honest lines without a verdict, the number
        of all honest lines, and the processes, files and mounts that are left."""
        hostile = itertools.cycle(hostile_of(self.tier).values())
        # The hostile lines must run until the last honest line is answered.
        limit_s = 600
        lines = [{"id": f"hostile{n}", "code": next(hostile), "timeout": limit_s} for n in range(self.given.runs)]
        honest = itertools.cycle(HONEST.items())
        for number in range(self.given.honest):
            name, (code, expected) = next(honest)
            line = {"id": f"honest{number} {name}", "code": code, "timeout": HONEST_TIMEOUT_S}
            lines.append({**line, "expect": {"stdout": expected}})
        folder = self.workspace.new_folder(self.user)
        environment = {
            "PATH": f"{os.environ['PATH']}:{folder}",
            "TMPDIR": str(folder),
            "QWED_MCP_PYTHON": str(self.interpreter.python),
            "QWED_MCP_TRUSTED_CODE_EXECUTION": "true",
            "QWED_MCP_TEST_UNCHECKED_CODE": "1",
            **self.tier.variables,
        }
        workers = self.given.runs + 1
        identity = {} if self.user.number is None else {"user": self.user.number, "group": self.user.number}
        run = subprocess.Popen(
            [self.workspace.program, "run", "--batch", "-", "--workers", str(workers), "--timeout", "600"],
            env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **identity,
        )  # fmt: skip
        self.workspace.children.add(run.pid)
        text = "".join(json.dumps(line) + "\n" for line in lines).encode()
        threading.Thread(target=self.feed, args=(run, text), daemon=True).start()
        answers = []
        for line in run.stdout:
            answer = json.loads(line)
            if (answer["id"] or "").startswith("honest"):
                answers.append(answer)
            if len(answers) == self.given.honest:
                run.send_signal(signal.SIGINT)
                break
        run.stdout.read()
        run.wait()
        self.workspace.children.discard(run.pid)
        wrong = [answer for answer in answers if answer["passed"] is False]
        missing = self.given.honest - len(answers)
        if missing:
            wrong += [{"id": None, "missing": missing}]
        unjudged = sum(answer["passed"] is None for answer in answers)
        return wrong, unjudged, self.given.honest, self.left(folder)

    @staticmethod
    def feed(run: subprocess.Popen, text: bytes) -> None:
        with contextlib.suppress(OSError):
            run.stdin.write(text)
            run.stdin.close()

    def left(self, folder: Path) -> list[str]:
        """Returns the processes, files and mounts that a server or a batch has left."""
        harness.eventually(GONE_S, lambda: not self.workspace.alive())
        harness.eventually(REMOVED_S, lambda: not os.listdir(folder))
        # A supervisor that has just removed a folder may not have exited yet.
        harness.eventually(GONE_S, lambda: not self.workspace.alive())
        found = []
        if alive := self.workspace.alive():
            found.append(f"{len(alive)} processes ({'; '.join(map(named, sorted(alive)[:3]))})")
            self.workspace.clear()
        if files := os.listdir(folder):
            found.append(f"{len(files)} files")
        if mounts := harness.mounts() - self.mounted:
            found.append(f"{len(mounts)} mounts")
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--honest", type=int, default=500)
    parser.add_argument("--ping-ms", type=float, default=100.0)
    parser.add_argument("--tiers", default="T3-warm,T3,T2")
    parser.add_argument("--users", default=",".join(harness.known_users()))
    parser.add_argument("--environment", type=Path)
    given = parser.parse_args()
    is_right = True
    try:
        interpreter = harness.find_interpreter(given.binary, given.environment)
        users = [harness.known_users()[name] for name in given.users.split(",")]
        with harness.ended_in_order(), Workspace(given.binary) as workspace:
            for tier in given.tiers.split(","):
                for user in users:
                    is_right &= Trial(workspace, interpreter, harness.TIERS[tier], user, given).go()
    except Unusable as error:
        print(f"unusable: {error}", file=sys.stderr)
        return 2
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
