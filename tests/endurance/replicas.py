#!/usr/bin/env python3
"""Kills replicas and their PostgreSQL. Each job must end once, or be reported as lost to its user.

    tests/endurance/replicas.py BINARY [--jobs 5000] [--pause 4] [--seed N] [--smoke]

Uses three replicas of the real program and one real PostgreSQL. Runs two parts. Each prints its figures:

- cancelled: jobs run for a minute on one replica, and are cancelled through another. The process of each must have
  ended within 200 ms.
- killed: three users place this many jobs. Meanwhile replicas and the database are killed with SIGKILL at random
  moments (about every --pause seconds) and started again. Each placed job must end with its own result, as cancelled
  by its user, or as failed because its worker was lost. All replicas must report the same status, which never changes.
  Other users must not get it. By the logs of all replicas, no script runs to its end twice, and each script with a
  result ran to its end once. No job may wait or run for ever in the database.

--smoke takes about a minute. QWED_MCP_PYTHON names the interpreter (default: the one in `python` next to the build
folder, or the system's). The exit code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import http.client
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from replicas_of_jobs import Client, Postgres, Refused, Replica

USERS = ("ann", "bob", "cid")
LOST = re.compile(r"Execution error: the worker \S+ \(\d+\) was lost; the script may have run in part\.")
NO_REPLY = (OSError, http.client.HTTPException, ValueError)
CANCEL_MAX_S = 0.2
#: How long jobs may take to end after the last kill.
SETTLE_S = 120

wrong: list[str] = []


def check(holds: bool, text: str) -> None:
    if not holds:
        wrong.append(text)
        print(f"WRONG: {text}"[:1500], flush=True)


class Team:
    """Three replicas, their database and their users' tokens."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.postgres = Postgres()
        (folder / "data").mkdir(mode=0o700)
        variables = {"QWED_MCP_STORE": self.postgres.url, "QWED_MCP_DATA_DIR": str(folder / "data")}
        self.tokens = {}
        for user in USERS:
            made = subprocess.run(
                [binary, "token", "create", "--user", user, "--role", "user"],
                env={"PATH": os.environ["PATH"], **variables},
                capture_output=True, text=True, check=True,
            )
            self.tokens[user] = made.stdout.split()[0]
        self.replicas = [Replica(binary, folder, number, variables, "--require-token") for number in range(3)]
        for replica in self.replicas:
            replica.start()
        for replica in self.replicas:
            replica.wait()

    def close(self) -> None:
        for replica in self.replicas:
            replica.stop()
        self.postgres.close()


def threads_below(team: Team) -> dict[int, int]:
    """Returns the number of threads of each descendant of the replicas."""
    parents, threads = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = dict(line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line)
            except OSError:
                continue
            parents[int(entry.name)], threads[int(entry.name)] = int(fields["PPid"]), int(fields["Threads"])
    below = {replica.process.pid for replica in team.replicas if replica.process}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {pid: threads[pid] for pid in below}


def cancelled(team: Team, count: int) -> None:
    """Cancels jobs through each replica. Waits until their processes have ended."""
    client, took = Client(team.tokens["ann"]), []
    ports = [replica.port for replica in team.replicas]
    # The script's process is recognised by its number of threads.
    sleepers = 23
    code = "import threading, time\nfor _ in range(%d): threading.Thread(target=time.sleep, args=(60,)).start()" % sleepers
    for number in range(count):
        job, text = client.place(ports[number % 3], code)
        check(job is not None, f"cancelled: not placed: {text}")
        if job is None:
            return
        deadline, script = time.monotonic() + 20, None
        while script is None and time.monotonic() < deadline:
            script = next((pid for pid, threads in threads_below(team).items() if threads == sleepers + 1), None)
        check(script is not None, f"cancelled: job {number} does not run: {client.status(ports[0], job)[1]}")
        begun = time.monotonic()
        check(client.cancel(ports[(number + 1) % 3], job), "cancelled: there is no such job")
        while Path(f"/proc/{script}").exists() and time.monotonic() < begun + 10:
            time.sleep(0.002)
        took.append(time.monotonic() - begun)
        while (state := client.status(ports[(number + 2) % 3], job)[0]) == "running" and time.monotonic() < begun + 10:
            time.sleep(0.002)
        check(state == "cancelled", f"cancelled: {state}")
    took.sort()
    print(f"cancelled: {count} jobs through another replica; time until the process ended: p50 {took[count // 2] * 1000:.0f} ms, "
          f"most {took[-1] * 1000:.0f} ms", flush=True)
    check(took[-1] <= CANCEL_MAX_S, f"cancelled: it took {took[-1]:.3f} s")


class Killer(threading.Thread):
    """Kills replicas and the database at random moments. Starts them again."""

    def __init__(self, team: Team, pause: float, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.team, self.pause, self.rng = team, pause, rng
        self.over, self.kills = threading.Event(), Counter()

    def run(self) -> None:
        try:
            while not self.over.wait(self.rng.uniform(0.3, 1.7) * self.pause):
                # At least one replica and the database must be killed.
                is_database = len(self.kills) == 1 if len(self.kills) < 2 else self.rng.random() < 0.3
                if is_database:
                    self.team.postgres.kill()
                    self.kills["the database"] += 1
                    time.sleep(self.rng.uniform(0.0, 2.0))
                    self.team.postgres.start()
                else:
                    for replica in self.rng.sample(self.team.replicas, self.rng.choice([1, 1, 2])):
                        replica.kill()
                        self.kills["a replica"] += 1
                        time.sleep(self.rng.uniform(0.0, 1.0))
                        replica.start()
                self.revive()
        except Exception as error:  # noqa: BLE001 - an exception of a thread is not reported otherwise
            check(False, f"killed: {error!r}")
        finally:
            self.revive()

    def revive(self) -> None:
        """Restarts replicas that have exited, as a service manager does. A replica exits if it starts while the
        database is down."""
        for replica in self.team.replicas:
            if replica.process and replica.process.poll() is not None:
                self.kills["starts without a database"] += 1
                replica.start()


class User(threading.Thread):
    """A user that places jobs, polls them at random replicas, and cancels some."""

    def __init__(self, team: Team, name: str, count: int, settled: threading.Event, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.team, self.user, self.count, self.settled, self.rng = team, name, count, settled, rng
        self.client = Client(team.tokens[name])
        #: The placed jobs: the expected output by the job id.
        self.expected: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.ended: dict[str, str] = {}
        self.facts: Counter = Counter()

    def port(self) -> int:
        return self.rng.choice(self.team.replicas).port

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - an exception of a thread is not reported otherwise
            check(False, f"{self.user}: {error!r}")

    def work(self) -> None:
        waiting: list[str] = []
        number = 0
        deadline = None
        while number < self.count or waiting:
            if self.settled.is_set() and deadline is None:
                deadline = time.monotonic() + SETTLE_S
            if deadline is not None and time.monotonic() > deadline:
                for job in waiting:
                    check(False, f"{self.user}: job {job} does not end: {self.client.status(self.port(), job)}")
                return
            if number < self.count and len(waiting) < 60:
                if job := self.place(number):
                    waiting.append(job)
                number += 1
                continue
            waiting = [job for job in waiting if not self.has_ended(job)]
            time.sleep(0.02)

    def place(self, number: int) -> str | None:
        a, b = self.rng.randrange(10_000), self.rng.randrange(10_000)
        is_long, is_slow = self.rng.random() < 0.02, self.rng.random() < 0.05
        code = f"print('{self.user} {number}', {a} * {b})"
        if is_long or is_slow:
            code = f"import time\ntime.sleep({30 if is_long else 1.5})\n{code}"
        while True:
            try:
                job, text = self.client.place(self.port(), code)
            except Refused:
                time.sleep(0.2)
                continue
            except NO_REPLY:
                # Without a reply, it is unknown whether the job exists. Placing it again could create a second job.
                self.facts["no reply to a placement"] += 1
                time.sleep(0.05)
                return None
            if job:
                break
            if "the job may or may not exist" in text:
                self.facts["replies that a placement is unknown"] += 1
                return None
            self.facts["replies that nothing was placed"] += 1
            check("Nothing was placed" in text, f"{self.user}: {text}")
            time.sleep(0.2)
        self.expected[job] = f"{self.user} {number} {a * b}"
        if is_long:
            self.cancelled.add(job)
            while True:
                try:
                    if self.client.cancel(self.port(), job):
                        break
                except (Refused, *NO_REPLY):
                    pass
                time.sleep(0.1)
        return job

    def has_ended(self, job: str) -> bool:
        try:
            state, text = self.client.status(self.port(), job)
        except Refused:
            time.sleep(0.05)
            return False
        except NO_REPLY:
            self.facts["no reply to a question"] += 1
            time.sleep(0.05)
            return False
        if state in ("queued", "running", "away"):
            return False
        check(state != "unknown", f"{self.user}: {job} is not known")
        self.ended[job] = text
        return True

    def kind(self, job: str) -> str:
        text = self.ended[job]
        if text == f"Status: success\n\nResult:\nSTDOUT:\n{self.expected[job]}\n\nExecution completed successfully.":
            return "success"
        if text == "Status: cancelled\n\nResult:\nJob was cancelled." and job in self.cancelled:
            return "cancelled"
        if text.startswith("Status: failed\n\nResult:\n") and LOST.fullmatch(text.split("Result:\n", 1)[1]):
            return "lost"
        return "wrong"


def killed(team: Team, options: argparse.Namespace, rng: random.Random) -> None:
    settled = threading.Event()
    share = options.jobs // len(USERS)
    users = [User(team, name, share, settled, random.Random(rng.random())) for name in USERS]
    killer = Killer(team, options.pause, random.Random(rng.random()))
    begun = time.monotonic()
    for thread in [*users, killer]:
        thread.start()
    # Wait until all jobs are placed and most have ended. The rest must end after the last kill.
    while any(user.is_alive() and len(user.ended) + sum(user.facts.values()) < share * 0.97 for user in users):
        time.sleep(0.1)
        if time.monotonic() > begun + options.jobs:
            check(False, "killed: the jobs do not end")
            break
    killer.over.set()
    killer.join(120)
    for replica in team.replicas:
        replica.wait()
    settled.set()
    for user in users:
        user.join(SETTLE_S + 60)
        check(not user.is_alive(), f"{user.user} does not end")
    took = time.monotonic() - begun
    kinds: Counter = Counter()
    for user in users:
        for job in user.ended:
            kind = user.kind(job)
            kinds[kind] += 1
            check(kind != "wrong", f"{user.user}: {job}: {user.ended[job]!r} instead of {user.expected[job]!r}")
        check(set(user.ended) == set(user.expected), f"{user.user}: {len(user.expected) - len(user.ended)} jobs without an end")
    compared = compare(team, users, rng)
    runs = check_runs(team, users)
    check_database(team)
    facts = sum((user.facts for user in users), Counter())
    print(f"killed: {sum(kinds.values())} jobs in {took:.0f} s, {dict(kinds)}; {dict(killer.kills)} killed; {dict(facts)}; "
          f"{compared} compared at all replicas; {runs} scripts were run to their end", flush=True)


def compare(team: Team, users: list[User], rng: random.Random) -> int:
    """Polls each job at all replicas again, also as another user."""
    compared = 0
    for index, user in enumerate(users):
        other = Client(team.tokens[USERS[(index + 1) % len(USERS)]])
        for job in rng.sample(sorted(user.ended), min(len(user.ended), 200)):
            for replica in team.replicas:
                text = user.client.status(replica.port, job)[1]
                check(text == user.ended[job], f"{job}: {text!r} at replica {replica.number}, and before {user.ended[job]!r}")
            check(other.status(team.replicas[0].port, job)[0] == "unknown", f"{job} is known to another user")
            compared += 1
    return compared


def check_runs(team: Team, users: list[User]) -> int:
    """Checks that no script ran to its end twice, and that each script with a result ran to its end once."""
    ended: Counter = Counter()
    for replica in team.replicas:
        for line in replica.log.read_text(errors="replace").splitlines():
            # A log line that a kill has cut does not count as an end.
            if "run ended" in line and "Cancelled" not in line and (found := re.search(r"verification_id=([0-9a-f]{64})", line)):
                ended[found.group(1)] += 1
    rows = [row.split("|") for row in team.postgres.sql("SELECT id, verification_id, attempt, result FROM qwed_mcp.jobs").splitlines()]
    known = {job: (verification, attempt) for job, verification, attempt, *_ in rows}
    for verification, count in ended.items():
        check(count == 1, f"{verification} was run to its end {count} times")
    for user in users:
        for job in user.ended:
            verification, attempt = known.get(job, ("", "0"))
            if user.kind(job) == "success":
                check(ended[verification] == 1, f"{job} has a result, and was run to its end {ended[verification]} times")
                check(int(attempt) >= 1, f"{job} has attempt {attempt}")
    return len(ended)


def check_database(team: Team) -> None:
    """Checks that each job in the database has ended, even if its placement was never confirmed."""
    deadline = time.monotonic() + SETTLE_S
    count = "SELECT count(*) FILTER (WHERE state < 2) || ' ' || count(*) FILTER (WHERE state = 2 AND result IS NULL) FROM qwed_mcp.jobs"
    while (left := team.postgres.sql(count)) != "0 0" and time.monotonic() < deadline:
        time.sleep(0.2)
    check(left == "0 0", f"the database has jobs that do not end, and ends without a result: {left}")
    kept = team.postgres.sql("SELECT count(*) FROM qwed_mcp.jobs WHERE state = 2 AND (script IS NOT NULL OR asked_by IS NOT NULL)")
    check(kept == "0", f"{kept} jobs that have ended still have a script or its user")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--pause", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    options.binary = options.binary.resolve()
    if options.smoke:
        options.jobs, options.pause = 300, 0.6
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="replicas-") as folder:
        team = Team(options.binary, Path(folder))
        try:
            cancelled(team, 6 if options.smoke else 20)
            killed(team, options, random.Random(options.seed))
        finally:
            team.close()
        left = [entry for replica in team.replicas for entry in replica.place.iterdir() if entry.name.startswith("qwed-mcp-")]
        # A starting replica removes the folders of killed replicas. The last replicas exited normally, so no folder
        # may be left.
        check(not left, f"left behind: {left}")
    print(f"{len(wrong)} wrong" if wrong else "all right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
