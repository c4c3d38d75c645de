#!/usr/bin/env python3
"""Measures the limits of docs/LIMITS.md: the resources that a script gets, and their cost to the machine.

    tests/endurance/limits.py BINARY [--smoke] [--strict] [--only NAME,…] [--tiers T3,T3-warm] [--user root|ordinary]
                                     [--environment DIR] [--list]

Runs each attack of `attacks.py` in the real server, without the analysis. Prints a line for each: its end, its
duration, the script's own counts, and the largest changes of /proc/meminfo (in MiB, for the whole machine, every 20
ms). The line also has the longest delay of a `ping`, the longest delay of a 20 ms sleep in this process (which shows
how busy the machine was), and whether the documented limits hold:

- the script's counts are within the limit; for memory, within 1.5 times the limit
- the machine lost at most 1.5 times the memory limit. With a slow memory watch, resident memory exceeds the limit by
  at most a tenth
- the run ended as expected, and a reply is not an execution error
- the next call is right, and no process is left one second after the reply
- with --strict, for an idle machine: each `ping` was answered within 50 ms, and the reply arrived in time

--smoke takes less than a minute. It uses small sizes, a quarter of the memory, and warm interpreters only for the slow
watch. It checks ends, refusals, and the script's counts unless they depend on time, but neither durations nor the
machine's memory. If the machine has lost 4 GiB, or has less than 6 GiB available (on a small machine, half of its
memory), the attack is stopped and has failed. Linux, Python 3.11, a debug build. The exit code is 1 if a limit does not
hold.
"""

from __future__ import annotations

import argparse
import re
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import harness
from attacks import ATTACKS, WATCH, Attack
from harness import FORTY_TWO, Interpreter, Reply, Server, Tier, Unusable, User, Workspace

MEMORY_MB = 1024
TIMEOUT_S = 20.0
SMOKE_MEMORY_MB = 256
SMOKE_TIMEOUT_S = 4.0
#: How much the CPU time limit exceeds the longest duration of a run.
PROCESSOR_SLACK_S = 5
#: The kernel checks CPU time at intervals, so a script may exceed the limit by this much.
PROCESSOR_GRACE_S = 1
BACKGROUND_TIMEOUT_S = 120

SAMPLE_EVERY_S = 0.02
#: This much memory must stay available for other programs. On a small machine, it is half of the available memory.
AVAILABLE_MIB_MIN = 6 * 1024
#: If the machine has lost this much memory, the attack has succeeded and is stopped.
LOST_MIB_MAX = 4 * 1024
MACHINE_MAX = 1.5
PING_MAX_S = 0.05
REPLY_LATE_MAX_S = 1.0
GONE_S = 1.0
ANSWER_SLACK_S = 25.0

ENDS = [
    ("memory", r"The memory limit of the sandbox ended it"),
    ("output", r"OUTPUT TRUNCATED DUE TO 1MB SIZE CAP"),
    ("timed out", r"timed out after"),
    ("completed", r"Execution completed successfully\.$"),
    ("killed", r"return code -9$"),
    ("failed", r"Execution failed with return code"),
]


def bounds(tier: Tier, memory_mb: int, timeout_s: float) -> dict[str, float]:
    """Returns the values of the limits that docs/LIMITS.md names."""
    # A warm interpreter starts before its run is known. So its limit is that for the longest possible run.
    run_s = max(timeout_s, BACKGROUND_TIMEOUT_S) if tier.is_warm else timeout_s
    return {
        "1.5 of memory": 1.5 * memory_mb,
        "address space": max(4096, 2 * memory_mb),
        "scratch folder": 128,
        "scratch names": 4096,
        "shared memory": 64,
        "shared names": 256,
        "processor": run_s + PROCESSOR_SLACK_S + PROCESSOR_GRACE_S,
    }


def how_it_ended(reply: Reply | None) -> str:
    if reply is None:
        return "no reply"
    text = reply.text
    return next((end for end, pattern in ENDS if re.search(pattern, text)), f"{text[-110:]!r}")


class Sampler:
    """The extreme values of the machine's memory since the start of the measurement."""

    WATCHED = ("AnonPages", "Slab", "PageTables", "Shmem")

    def __init__(self) -> None:
        self.lost = 0
        self.grown = dict.fromkeys(self.WATCHED, 0)
        self.stall_s = 0.0
        #: Set if the attack must be stopped to protect the machine.
        self.is_enough = threading.Event()
        self._before = harness.meminfo()
        self._floor = min(AVAILABLE_MIB_MIN, self._before["MemAvailable"] // 2)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            now = harness.meminfo()
            self.lost = max(self.lost, self._before["MemAvailable"] - now["MemAvailable"])
            for name in self.WATCHED:
                self.grown[name] = max(self.grown[name], now[name] - self._before[name])
            if now["MemAvailable"] < self._floor or self.lost > LOST_MIB_MAX:
                self.is_enough.set()
            slept = time.monotonic()
            time.sleep(SAMPLE_EVERY_S)
            self.stall_s = max(self.stall_s, time.monotonic() - slept - SAMPLE_EVERY_S)


@dataclass
class Measured:
    """The results of one attack."""

    attack: Attack
    tier: Tier
    end: str
    took_s: float
    holds: dict[str, float]
    workers: dict[str, int]
    refused: Counter
    sampler: Sampler
    ping_s: float
    problems: list[str] = field(default_factory=list)

    def got(self) -> str:
        parts = []
        for unit, number in self.holds.items():
            by = f" by {self.workers[unit]}" if self.workers[unit] > 1 else ""
            parts.append(f"{number:g} {unit}{by}")
        parts += [f"{error} {count} times" if count > 1 else error for error, count in self.refused.most_common(3)]
        return ", ".join(parts)


def read_holdings(text: str) -> tuple[dict[str, float], dict[str, int], Counter]:
    """Sums a script's counts over its workers. Only the last count of each worker is used."""
    last: dict[tuple[str, str], float] = {}
    refused: Counter = Counter()
    for line in text.splitlines():
        if match := re.fullmatch(r"holds (-?\d+) (.+) ([\d.]+)", line):
            last[match[2], match[1]] = float(match[3])
        elif match := re.fullmatch(r"refused (\w+)", line):
            refused[match[1]] += 1
    holds: dict[str, float] = {}
    workers: dict[str, int] = Counter()
    for (unit, _), number in last.items():
        holds[unit] = holds.get(unit, 0) + number
        workers[unit] += 1
    return holds, workers, refused


class Measurement:
    """Runs the attacks at one tier."""

    def __init__(
        self, workspace: Workspace, interpreter: Interpreter, tier: Tier, user: User, options: argparse.Namespace
    ) -> None:
        self.workspace, self.interpreter, self.tier, self.user = workspace, interpreter, tier, user
        self.is_smoke, self.is_strict = options.smoke, options.strict
        self.memory_mb = SMOKE_MEMORY_MB if options.smoke else MEMORY_MB
        self.timeout_s = SMOKE_TIMEOUT_S if options.smoke else TIMEOUT_S
        self.server: Server | None = None
        self.resting = 0

    def run(self, attack: Attack) -> Measured:
        server = self.ready_server()
        server.silence.worst_s = 0.0
        with Sampler() as sampler:
            began = time.monotonic()
            number = server.begin_run(attack.script(smoke=self.is_smoke, memory_mb=self.memory_mb))
            reply = self.follow(server, number, sampler)
            took_s = (reply.at if reply else time.monotonic()) - began
        holds, workers, refused = read_holdings(reply.text if reply else "")
        end = "stopped by us" if reply is None and sampler.is_enough.is_set() else how_it_ended(reply)
        measured = Measured(
            attack, self.tier, end, took_s, holds, workers, refused, sampler, server.silence.so_far()
        )
        self.judge(measured, reply)
        self.judge_after(measured, server)
        return measured

    def finish(self) -> None:
        if self.server is not None:
            self.server.close()
            self.drop_server()

    def ready_server(self) -> Server:
        if self.server is not None:
            return self.server
        variables = {
            "QWED_MCP_TEST_SYNC_TIMEOUT_MS": str(int(self.timeout_s * 1000)),
            "QWED_MCP_BACKGROUND_TIMEOUT": str(BACKGROUND_TIMEOUT_S),
            "QWED_MCP_MEMORY_MB": str(self.memory_mb),
            "QWED_MCP_PRELOAD": "",
        }
        folder = self.workspace.new_folder(self.user)
        self.server = Server(self.workspace, self.tier, self.user, self.interpreter, variables, folder)
        self.server.wait_until_ready()
        time.sleep(1.0)
        self.resting = len(self.workspace.alive())
        return self.server

    def drop_server(self) -> None:
        self.server.kill()
        self.server = None
        self.workspace.clear()

    def follow(self, server: Server, number: int, sampler: Sampler) -> Reply | None:
        """Waits for the reply. Cancels the attack if the machine loses too much memory."""
        last = time.monotonic() + self.timeout_s + ANSWER_SLACK_S
        while time.monotonic() < last:
            reply = server.wait(number, timeout_s=0.02)
            if reply is not None:
                return reply
            if sampler.is_enough.is_set():
                server.cancel(number)
                return server.wait(number, timeout_s=0.2)
        return None

    def judge(self, measured: Measured, reply: Reply | None) -> None:
        attack, problems = measured.attack, measured.problems
        numbers = bounds(self.tier, self.memory_mb, self.timeout_s)
        # On a busy machine, the scheduler decides how much memory a script takes between two samples of the memory
        # watch.
        goes_by_time = attack.ends == ("memory",)
        counted = {} if self.is_smoke and goes_by_time else attack.most
        for unit, most in counted.items():
            bound = numbers[most] if most in numbers else float(most)
            if measured.holds.get(unit, 0) > bound:
                problems.append(f"{measured.holds[unit]:g} {unit}, at most {bound:g}")
        for unit, least in attack.least.items():
            if measured.holds.get(unit, 0) < least:
                problems.append(f"{measured.holds.get(unit, 0):g} {unit}, at least {least} are promised")
        known = [end for end, _ in ENDS]
        # If a request of the attack was refused, the run may end in any known way.
        if measured.end not in known or (attack.ends and measured.end not in attack.ends and not measured.refused):
            problems.append(f"ended by {measured.end}")
        if reply is not None and reply.execution.get("sandbox") != self.tier.sandbox:
            problems.append(f"held by {reply.execution.get('sandbox')}")
        if self.is_smoke:
            return
        lost, anonymous = measured.sampler.lost, measured.sampler.grown["AnonPages"]
        if attack.anonymous is not None and anonymous > attack.anonymous * self.memory_mb:
            problems.append(f"{anonymous} MiB resident, at most {attack.anonymous * self.memory_mb:.0f}")
        if lost > MACHINE_MAX * self.memory_mb:
            problems.append(f"the machine lost {lost} MiB, at most {MACHINE_MAX * self.memory_mb:.0f}")
        if self.is_strict and measured.ping_s > PING_MAX_S:
            problems.append(f"no answer to ping for {measured.ping_s * 1000:.0f} ms")
        if self.is_strict and measured.took_s > self.timeout_s + REPLY_LATE_MAX_S:
            problems.append(f"answered after {measured.took_s:.1f} s")

    def judge_after(self, measured: Measured, server: Server) -> None:
        """Checks the server and the processes after the attack. Replaces the server if a check has failed."""
        if measured.end == "stopped by us":
            # This attack has no reply, so its processes may still be ending.
            time.sleep(2.0)
        took = harness.eventually(GONE_S, lambda: len(self.workspace.alive()) <= self.resting)
        if took is None:
            left = len(self.workspace.alive()) - self.resting
            if left > 0:
                measured.problems.append(f"{left} processes alive {GONE_S:g} s later")
                self.drop_server()
                return
        following = server.run("print(6*7)")
        if following is None or following.text != FORTY_TWO:
            measured.problems.append(f"the next call: {following.text[:80] if following else 'no reply'!r}")
            self.drop_server()
            return
        for fault in server.faults:
            measured.problems.append(fault)
        server.faults.clear()
        if measured.problems:
            # A server with a failed check must not affect the next attack.
            self.drop_server()


def show(measured: Measured) -> None:
    sampler = measured.sampler
    memory = "".join(f"{number:7}" for number in [sampler.lost, *sampler.grown.values()])
    print(
        f"{measured.attack.name:30.30} {measured.tier.name:8}{measured.took_s:6.1f}  {measured.end:13.13}{memory}"
        f"{measured.ping_s * 1000:7.0f}{sampler.stall_s * 1000:7.0f}  {'FAILS' if measured.problems else 'holds':6}"
        f" {measured.got()}",
        flush=True,
    )
    for problem in measured.problems:
        print(f"    {problem}")


def main() -> int:
    options = parse_options()
    if options.list:
        for attack in ATTACKS:
            print(f"{attack.name:32} {attack.limit}")
        return 0
    failed: list[Measured] = []
    count = 0
    try:
        users = harness.known_users()
        if options.user not in users:
            raise Unusable(f"only root can run as {options.user}")
        tiers = [harness.TIERS[name] for name in options.tiers]
        if not any(attacks_at(tier, options) for tier in tiers):
            raise Unusable("no attack has such a name; --list shows them")
        interpreter = harness.find_interpreter(options.binary, options.environment)
        memory = "".join(f"{name[:6]:>7}" for name in ("lost", *Sampler.WATCHED))
        print(f"{'attack':30} {'tier':8}{'s':>6}  {'ended':13}{memory}{'ping':>7}{'stall':>7}  limit  got")
        with harness.ended_in_order(), Workspace(options.binary) as workspace:
            for tier in tiers:
                measurement = Measurement(workspace, interpreter, tier, users[options.user], options)
                for attack in attacks_at(tier, options):
                    measured = measurement.run(attack)
                    count += 1
                    show(measured)
                    if measured.problems:
                        failed.append(measured)
                measurement.finish()
    except Unusable as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    print(f"\n{count - len(failed)} of {count} hold" + (". These do not:" if failed else ""))
    for measured in failed:
        attack, problems = measured.attack, "; ".join(measured.problems)
        print(f"  {attack.name}, {measured.tier.name} ({attack.limit}): {problems}")
    return 1 if failed else 0


def attacks_at(tier: Tier, options: argparse.Namespace) -> list[Attack]:
    attacks = [each for each in ATTACKS if tier.sandbox == "T3" or not each.is_of_tier_3]
    if options.only:
        return [each for each in attacks if any(word in each.name for word in options.only)]
    if options.smoke:
        among = WATCH if tier.is_warm else attacks
        return [each for each in among if each.is_in_smoke]
    return attacks


def parse_options() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path, metavar="BINARY", help="a debug build of the server")
    parser.add_argument("--smoke", action="store_true", help="small sizes, less than a minute")
    parser.add_argument("--strict", action="store_true", help="check durations too, on an idle machine")
    parser.add_argument("--only", type=names, default=[], help="parts of the names of attacks, separated by commas")
    parser.add_argument("--tiers", type=names, default=["T3", "T3-warm"], help="T3,T3-warm")
    parser.add_argument("--user", default="ordinary", help="root or ordinary")
    parser.add_argument("--environment", type=Path, help="the virtual environment of the interpreter")
    parser.add_argument("--list", action="store_true", help="list the attacks without running them")
    options = parser.parse_args()
    for name in options.tiers:
        if name not in ("T3", "T3-warm", "T2"):
            parser.error(f"limits are promised at T3, T3-warm and T2, not at {name!r}")
    return options


if __name__ == "__main__":
    sys.exit(main())
