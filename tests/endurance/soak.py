#!/usr/bin/env python3
"""Runs hostile and honest scripts, cancels and kills at random, and checks that nothing is left.

    tests/endurance/soak.py BINARY [--seconds 600] [--load 2] [--tiers T3-warm,T3,T2,T1,off]
                                   [--users root,ordinary] [--seed N] [--strict] [--environment DIR]

Starts servers one after the other, for each tier, as root and as an ordinary user. Each server gets rounds of a few
calls and background jobs at once. They are fork bombs, daemons, memory, floods, stopped processes, full folders and the
like, and honest scripts. Some are cancelled at a random moment. At the end the server is closed while idle, closed
during such calls, or killed with SIGKILL during them. Before that, another server was killed during its start in the
same folder. Meanwhile other processes keep the processors busy.

The checks:

- each call that was not cancelled is answered once, with a text that is possible for its script
- the honest call after each round is right, and runs at the requested tier
- one second after the last reply of a round, and after the end of a server, no process of a script is alive. If other
  programs use the machine too, two more seconds are allowed and reported as "late", unless --strict is given
- at its end, a server has as many descriptors and as much memory as at its start, its folder is empty, and no mount is
  left

Needs Linux, Python 3.11, a debug build, and a Python that every user can start. Both users are tested only if root runs
the script; otherwise the output states this. SymPy is used if the environment (default: `python` next to the build
folder) has it. Only processes that a failing server leaves are killed. Fork bombs limit themselves if nothing else
does. The time is divided among all configurations; each gets at least one server. The exit code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import FORTY_TWO, Interpreter, Reply, Server, Tier, Unusable, User, Workspace
from kinds import BOMBS, HONEST, HOSTILE, SYMPY, TIMED_OUT, Kind

RUN_TIMEOUT_S = 1.5
MEMORY_MB = 512
RUNS_AT_ONCE = 3
#: The maximum time for which one server is tested.
LIFE_S = 12.0
#: One second after the reply, a run has no process. A cancelled call has no reply, so its end may take longer.
GONE_S = 1.0
GONE_AFTER_CANCEL_S = 3.0
LATE_S = 2.0
#: How long the removal of a folder that a script has filled may take on a busy disk.
FOLDERS_GONE_S = 60.0
#: How long to observe processes that should have ended.
LOOK_ON_S = 10.0
#: How much later than its timeout a reply may arrive on a busy machine.
ANSWER_SLACK_S = 15.0
MEMORY_GROWTH_MIB_MAX = 64
SAY_EVERY_S = 4.0
START_DELAYS_S = [0.0, 0.02, 0.05, 0.1, 0.3]
CANCEL_DELAYS_S = [0.0, 0.001, 0.005, 0.02, 0.1, 0.3, 1.0]
ENDINGS = ["killed", "closed in the middle", "closed"]


@dataclass
class Row:
    """The results of one configuration."""

    tier: Tier
    user: User
    servers: int = 0
    calls: int = 0
    cancelled: int = 0
    answered: int = 0
    worst_ping_s: float = 0.0
    worst_reply_s: float = 0.0
    worst_end_s: float = 0.0
    late: int = 0
    processes: int = 0
    folders: int = 0
    mounts: int = 0
    descriptors: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.tier.name} {self.user.name}"

    def complain(self, what: str) -> None:
        self.wrong.append(what)
        print(f"  WRONG  {self.name}: {what}", flush=True)


@dataclass
class Call:
    """A call without a reply so far."""

    kind: Kind
    number: int
    began: float
    is_job: bool
    cancel_at: float | None
    is_cancelled: bool = False
    job_id: str | None = None
    is_over: bool = False


@dataclass(frozen=True)
class Held:
    """The resources that a server uses."""

    descriptors: int
    memory_mib: int
    folders: frozenset[str]
    #: The number of descendants, zombies included.
    below: int

    @classmethod
    def by(cls, server: Server) -> Held:
        return cls(server.descriptors(), server.resident_mib(), frozenset(server.left_in_folder()), server.below())


class Deck:
    """Deals all kinds of scripts in random order, and then all of them again."""

    def __init__(self, dice: random.Random, honest: list[Kind]) -> None:
        self._dice = dice
        self._kinds = [*BOMBS, *HOSTILE, *honest, *honest]
        self._cards: list[Kind] = []

    def deal(self, count: int) -> list[Kind]:
        if len(self._cards) < count:
            self._cards += self._dice.sample(self._kinds, len(self._kinds))
        dealt, self._cards = self._cards[:count], self._cards[count:]
        return dealt


class Soak:
    """Tests servers of one configuration, and records the results."""

    def __init__(
        self, workspace: Workspace, interpreter: Interpreter, dice: random.Random, row: Row, *, is_strict: bool
    ) -> None:
        self.workspace, self.interpreter, self.dice, self.row = workspace, interpreter, dice, row
        self.is_strict = is_strict
        self.deck = Deck(dice, [*HONEST, SYMPY] if interpreter.has_sympy else HONEST)
        self.said_at = time.monotonic()
        #: The number of processes of an idle server.
        self.resting = 0

    def go_on(self, until: float, endings: Iterator[str]) -> None:
        while True:
            self.row.servers += 1
            try:
                self.live(min(until, time.monotonic() + LIFE_S), next(endings))
            except Unusable as error:
                self.row.complain(str(error))
                self.clear()
            if time.monotonic() >= until:
                return

    def live(self, until: float, ending: str) -> None:
        """Tests one server from its start to its end. Before, kills another server during its start in the same
        folder."""
        mounted = harness.mounts()
        folder = self.workspace.new_folder(self.row.user)
        with self.start(folder):
            time.sleep(self.dice.choice(START_DELAYS_S))
        self.check_gone(GONE_S, "after a server was killed at its start", 0)
        with self.start(folder) as server:
            server.wait_until_ready()
            self.resting = self.rest()
            before = Held.by(server)
            # The first round always has a bomb that runs until its timeout.
            is_sound = self.round(server, [self.begin(server, self.dice.choice(BOMBS), is_left_alone=True)])
            while is_sound and time.monotonic() < until:
                is_sound = self.round(server, [])
                self.say(server)
            self.row.worst_ping_s = max(self.row.worst_ping_s, server.silence.so_far())
            if not is_sound:
                # The remaining processes are already reported. Other checks would only report their consequences.
                self.clear()
                return
            self.check_settled(server, before)
            self.end(server, ending)
        self.check_end(server, ending, mounted)

    def start(self, folder: Path) -> Server:
        variables = {
            "QWED_MCP_TEST_SYNC_TIMEOUT_MS": str(int(RUN_TIMEOUT_S * 1000)),
            "QWED_MCP_BACKGROUND_TIMEOUT": str(RUN_TIMEOUT_S),
            "QWED_MCP_TEST_JOB_TTL_MS": "60000",
            "QWED_MCP_SYNC_CONCURRENCY": str(RUNS_AT_ONCE),
            "QWED_MCP_MEMORY_MB": str(MEMORY_MB),
            "QWED_MCP_PRELOAD": "sympy" if self.interpreter.has_sympy else "",
        }
        return Server(self.workspace, self.row.tier, self.row.user, self.interpreter, variables, folder)

    def rest(self) -> int:
        """Returns the number of processes of an idle server besides its own. These are the fork server's processes,
        or none."""
        seen: list[int] = []

        def is_steady() -> bool:
            seen.append(len(self.workspace.alive()))
            time.sleep(0.1)
            return len(seen) > 8 and len(set(seen[-8:])) == 1

        if harness.eventually(30, is_steady) is None:
            raise Unusable(f"the number of processes of an idle server does not settle: {seen[-8:]}")
        if not self.row.tier.is_warm and seen[-1]:
            raise Unusable(f"{seen[-1]} processes below an idle server")
        return seen[-1]

    # -- a round

    def round(self, server: Server, begun: list[Call]) -> bool:
        """Runs a few calls at once, together with the calls in `begun`. Returns whether they have left nothing."""
        calls = [*begun, *(self.begin(server, kind) for kind in self.deck.deal(self.dice.randint(2, 5)))]
        self.follow(server, calls)
        self.follow_jobs(server, calls)
        self.judge_honest(server)
        for fault in server.faults:
            self.row.complain(fault)
        server.faults.clear()
        was_cancelled = any(call.is_cancelled for call in calls)
        names = ", ".join(call.kind.name + (" (cancelled)" if call.is_cancelled else "") for call in calls)
        return self.check_gone(GONE_AFTER_CANCEL_S if was_cancelled else GONE_S, f"after {names}", self.resting)

    def begin(self, server: Server, kind: Kind, *, is_left_alone: bool = False) -> Call:
        now = time.monotonic()
        is_job = not is_left_alone and self.dice.random() < 0.3
        is_to_end = not is_left_alone and self.dice.random() < 0.4
        delay = self.dice.choice(CANCEL_DELAYS_S) if is_to_end else None
        number = server.begin_run(kind.code_at(self.row.tier), background=is_job)
        self.row.calls += 1
        return Call(kind, number, now, is_job, None if delay is None else now + delay)

    def follow(self, server: Server, calls: list[Call]) -> None:
        """Cancels some calls, and waits for the replies to the others."""
        turns = -(-len(calls) // RUNS_AT_ONCE)
        last = time.monotonic() + turns * RUN_TIMEOUT_S + ANSWER_SLACK_S
        waiting = list(calls)
        while waiting and time.monotonic() < last:
            for call in waiting:
                if call.cancel_at is not None and time.monotonic() >= call.cancel_at:
                    call.cancel_at, call.is_cancelled = None, True
                    server.cancel(call.number)
                    self.row.cancelled += 1
                reply = server.take(call.number)
                if reply is not None:
                    self.accept(call, reply)
                # A cancelled call may have been answered before its cancellation.
                call.is_over = call.is_over or call.is_cancelled
            waiting = [call for call in waiting if not call.is_over]
            time.sleep(0.002)
        for call in waiting:
            late = time.monotonic() - call.began
            self.row.complain(f"{call.kind.name}: no answer in {late:.1f} s; the log ends: {server.log_end()}")

    def accept(self, call: Call, reply: Reply) -> None:
        call.is_over = True
        self.row.answered += 1
        if call.is_job:
            placed = re.search(r"request ([0-9a-f-]{36})\.", reply.text)
            if placed is None:
                self.row.complain(f"{call.kind.name}: the job was not placed: {reply.text[:200]!r}")
            else:
                call.job_id = placed.group(1)
            return
        self.row.worst_reply_s = max(self.row.worst_reply_s, reply.at - call.began)
        self.judge(call.kind, reply.text)
        held_by = reply.execution.get("sandbox")
        if held_by not in (self.row.tier.sandbox, None):
            self.row.complain(f"{call.kind.name}: held by {held_by}")

    def judge(self, kind: Kind, text: str) -> None:
        if not any(re.search(answer, text) for answer in (TIMED_OUT, *kind.answers)):
            end = text if len(text) < 300 else f"{text[:100]} … {text[-200:]}"
            self.row.complain(f"{kind.name}: answered with {end!r}")

    def follow_jobs(self, server: Server, calls: list[Call]) -> None:
        for call in calls:
            if call.job_id is None:
                continue
            last = time.monotonic() + RUN_TIMEOUT_S + ANSWER_SLACK_S
            text = server.job_status(call.job_id)
            while re.match(r"Status: (queued|running)", text) and time.monotonic() < last:
                time.sleep(0.02)
                text = server.job_status(call.job_id)
            if call.is_cancelled and re.match(r"Status: cancelled|Error: Job ID", text):
                continue
            if not re.match(r"Status: (success|failed|timed_out)\n\nResult:\n", text):
                self.row.complain(f"{call.kind.name}: the job's status is {text[:200]!r}")
                continue
            self.judge(call.kind, text.partition("Result:\n")[2])

    def judge_honest(self, server: Server) -> None:
        """Checks that the next calls have the right result, with one call for each turn."""
        numbers = [server.begin_run("print(6*7)") for _ in range(RUNS_AT_ONCE)]
        for number in numbers:
            self.row.calls += 1
            reply = server.wait(number, RUN_TIMEOUT_S + ANSWER_SLACK_S)
            if reply is None:
                self.row.complain(f"the next call is not answered; the log ends: {server.log_end()}")
                continue
            self.row.answered += 1
            if reply.text != FORTY_TWO or reply.execution.get("sandbox") != self.row.tier.sandbox:
                self.row.complain(f"the next call: {reply.text[:200]!r} {reply.execution}")

    # -- remains

    def check_gone(self, limit_s: float, when: str, resting: int) -> bool:
        """Checks that no process of a script is alive after the limit. Returns whether all have ended at last."""
        left = 0

        def is_gone() -> bool:
            nonlocal left
            left = len(self.workspace.alive()) - resting
            return left <= 0

        took = harness.eventually(limit_s, is_gone)
        self.row.worst_end_s = max(self.row.worst_end_s, limit_s if took is None else took)
        if took is not None:
            return True
        late = left
        more = harness.eventually(LOOK_ON_S, is_gone)
        if more is not None:
            self.row.worst_end_s = max(self.row.worst_end_s, limit_s + more)
        if more is not None and more <= LATE_S:
            self.row.late += late
            if not self.is_strict:
                return True
        then = f"all gone {more:.1f} s later" if more is not None else f"{left} {LOOK_ON_S:.0f} s later"
        self.row.processes += late
        self.row.complain(f"{late} processes alive {limit_s:g} s {when}; {then}")
        return more is not None

    def check_settled(self, server: Server, before: Held) -> None:
        """Checks that an idle server uses the same resources as before."""
        if harness.eventually(FOLDERS_GONE_S, lambda: not Held.by(server).folders - before.folders) is None:
            more = Held.by(server).folders - before.folders
            self.row.folders += len(more)
            self.row.complain(f"folders left while the server lives: {sorted(more)[:3]}")
        if harness.eventually(LOOK_ON_S, lambda: server.descriptors() <= before.descriptors) is None:
            self.row.descriptors += server.descriptors() - before.descriptors
            self.row.complain(f"{server.descriptors()} descriptors, {before.descriptors} before")
        if harness.eventually(LOOK_ON_S, lambda: server.below() <= before.below) is None:
            self.row.complain(f"{server.below()} processes and zombies below it, {before.below} before")
        grown = server.resident_mib() - before.memory_mib
        if grown > MEMORY_GROWTH_MIB_MAX:
            self.row.complain(f"the server's memory grew by {grown} MiB")

    def end(self, server: Server, ending: str) -> None:
        if ending != "closed":
            kinds = [self.dice.choice(BOMBS), *self.deck.deal(2)]
            for kind in kinds:
                server.begin_run(kind.code_at(self.row.tier), background=self.dice.random() < 0.3)
            time.sleep(self.dice.choice(START_DELAYS_S + [0.8, 1.2]))
        if ending == "killed":
            server.kill()
            return
        code = server.close()
        if code != 0:
            self.row.complain(f"the server, {ending}, ended with {code}; its log ends: {server.log_end()}")

    def check_end(self, server: Server, ending: str, mounted: set[str]) -> None:
        self.check_gone(GONE_S, f"after the server was {ending}", 0)
        if harness.eventually(FOLDERS_GONE_S, lambda: not server.left_in_folder()) is None:
            self.row.folders += len(server.left_in_folder())
            self.row.complain(f"left by the server, {ending}: {server.left_in_folder()[:3]}")
        self.clear()
        more = harness.mounts() - mounted
        if more and harness.eventually(5, lambda: not harness.mounts() - mounted) is None:
            self.row.mounts += len(more)
            self.row.complain(f"mounts left by the server, {ending}: {sorted(more)[:3]}")

    def clear(self) -> None:
        self.workspace.clear()

    def say(self, server: Server) -> None:
        if time.monotonic() - self.said_at < SAY_EVERY_S:
            return
        self.said_at = time.monotonic()
        row, load = self.row, os.getloadavg()[0]
        print(
            f"{row.name:18} {row.calls:5} calls, {row.cancelled} cancelled, {row.answered} answered,"
            f" {len(row.wrong)} wrong; ping {server.silence.so_far() * 1000:.0f} ms at most; load {load:.1f}",
            flush=True,
        )


# ---- the command


def main() -> int:
    options = parse_options()
    known = harness.known_users()
    dice = random.Random(options.seed)
    rows: list[Row] = []
    try:
        users = [pick(known, name, "user", "; only root can run as both") for name in options.users or known]
        tiers = [pick(harness.TIERS, name, "tier") for name in options.tiers]
        interpreter = harness.find_interpreter(options.binary, options.environment)
        print(f"seed {options.seed}, {interpreter.python}, {len(tiers) * len(users)} configurations")
        if not interpreter.has_sympy:
            print("without SymPy: the environment has none that every user can read")
        if len(known) == 1:
            print("as this user only, because the test of two users needs root")
        with (
            harness.ended_in_order(),
            Workspace(options.binary) as workspace,
            harness.busy_processors(workspace, options.load),
        ):
            pairs = [(tier, user) for tier in tiers for user in users]
            ends = time.monotonic() + options.seconds
            for index, (tier, user) in enumerate(pairs):
                now = time.monotonic()
                share = max(0.0, ends - now) / (len(pairs) - index)
                rows.append(Row(tier, user))
                soak = Soak(workspace, interpreter, dice, rows[-1], is_strict=options.strict)
                soak.go_on(now + share, endings_from(index))
    except Unusable as error:
        print(f"not run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        report(rows)
        return 130
    return report(rows)


def endings_from(index: int) -> Iterator[str]:
    """Yields the ways in which servers end, in turn. Each configuration begins with another way."""
    while True:
        yield ENDINGS[index % len(ENDINGS)]
        index += 1


def pick(known: dict, name: str, what: str, why: str = ""):
    if name not in known:
        raise Unusable(f"no {what} {name!r}, there is {', '.join(known)}{why}")
    return known[name]


def report(rows: list[Row]) -> int:
    heads = ["calls", "cancelled", "answered", "wrong", "ping ms", "reply s", "end s"]
    heads += ["late", "processes", "folders", "mounts", "descriptors"]
    print(f"\n{'tier, user':18} servers " + " ".join(f"{head:>{max(6, len(head))}}" for head in heads))
    for row in rows:
        cells = [
            row.calls, row.cancelled, row.answered, len(row.wrong), f"{row.worst_ping_s * 1000:.0f}",
            f"{row.worst_reply_s:.1f}", f"{row.worst_end_s:.2f}",
            row.late, row.processes, row.folders, row.mounts, row.descriptors,
        ]  # fmt: skip
        line = " ".join(f"{cell:>{max(6, len(head))}}" for cell, head in zip(cells, heads))
        print(f"{row.name:18} {row.servers:7} {line}")
    print("end: from the last reply, or the server's end, until no process was alive")
    print("late, processes: the number alive one second after that, and two more seconds later")
    wrong = sum(len(row.wrong) for row in rows)
    print(f"{wrong} wrong" if wrong else "nothing wrong")
    return 1 if wrong else 0


def parse_options() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path, metavar="BINARY", help="a debug build of the server")
    parser.add_argument("--seconds", type=float, default=600.0, help="duration of all configurations together (600)")
    parser.add_argument("--load", type=int, default=2, help="processes that keep processors busy (2)")
    parser.add_argument("--tiers", type=names, default=list(harness.TIERS), help=",".join(harness.TIERS))
    parser.add_argument("--users", type=names, default=None, help="root,ordinary")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of the random numbers; printed")
    parser.add_argument("--strict", action="store_true", help="allow no extra time, on a machine without other work")
    parser.add_argument("--environment", type=Path, help="the virtual environment with SymPy")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
