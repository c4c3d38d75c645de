#!/usr/bin/env python3
"""Tests control groups: the kernel limits a run's memory even if the memory watch is stopped, and no group is left.

    tests/endurance/control_groups.py BINARY [--ends] [--user root|ordinary] [--environment DIR]

With --ends, tests only that daemons end with the control group of their run, and that the group is removed. The sandbox
is off, and the kernel lacks Landlock's signal scope. This part needs groups, but no controllers.

Otherwise, tests these points at each tier, with the real server and without the analysis:

- `_meta` reports the control group as the limit of the run's memory
- while the memory watch is stopped, a script that exceeds its group's limit is killed, and reported as out of memory.
  Without groups (the control), the same script gets all the memory
- one second after its reply, no process of a fork bomb exists
- after the server's end, no group of a run is left
- if a group cannot be created, runs continue with the memory watch, and the log has an ERROR

Needs Linux, Python 3.11, a debug build, and a group with delegated memory and pids controllers of version 2. Such
groups exist for root without systemd and without another hierarchy, or in a service or scope of a user's systemd.
Continuous integration may lack such a machine, so this part is run by hand in a virtual machine. The exit code is 1 if
a check fails, and 2 if the tests cannot run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import harness
from harness import FORTY_TWO, Server, Tier, Unusable, User, Workspace

MEMORY_MB = 256
TIMEOUT_S = 90.0
#: How much more memory a group may use than its run's limit, for the scratch folder and shared memory.
FILES_MB = 192
#: More memory than a group may use, but less than the script tries to use.
ALL_MB = 1.5 * (MEMORY_MB + FILES_MB)
#: Memory that a warm interpreter had before it entered its group, so the group does not count it.
SHARED_MB = 64
STOPPED_S = 10.0
OUT_OF_MEMORY = "The memory limit of the sandbox ended it"
TIERS = ["T3", "T3-warm", "T2", "T1"]

OLD_KERNEL = Tier(
    "off without Landlock",
    "off",
    {"QWED_MCP_SANDBOX": "off", "QWED_MCP_TEST_KERNEL_LACKS": "landlock", "QWED_MCP_WARM": "off"},
)

#: Starts thirty daemons in new sessions, whose parents have exited. Prints the control group.
DAEMONS = """
import os, time
for _ in range(30):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 10)
            time.sleep(60)
        os._exit(0)
print(open("/proc/self/cgroup").read())
"""

#: Waits until the memory watch is stopped. Then takes twice the group's memory.
GREEDY = f"""
import time
time.sleep(3)
block = bytearray({2 * (MEMORY_MB + FILES_MB)} << 20)
time.sleep(20)
"""

KILLS_ITSELF = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

BOMB = """
import os, signal
signal.alarm(60)
while True:
    try:
        if os.fork() == 0:
            signal.alarm(60)
    except OSError:
        pass
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path)
    parser.add_argument("--user", default="root" if os.geteuid() == 0 else "ordinary")
    parser.add_argument("--environment", type=Path)
    parser.add_argument("--ends", action="store_true")
    options = parser.parse_args()
    wrong: list[str] = []
    try:
        user = harness.known_users()[options.user]
        interpreter = harness.find_interpreter(options.binary, options.environment)
        with harness.ended_in_order(), Workspace(options.binary) as workspace:
            trial = Trial(workspace, interpreter, user)
            if options.ends:
                wrong += trial.ends()
                print("\n".join(wrong) or "daemons end with their control group")
                return 1 if wrong else 0
            trial.require_groups()
            for name in TIERS:
                for problem in trial.check_tier(harness.TIERS[name]):
                    wrong.append(f"{name}: {problem}")
                print(f"{name}: tried", flush=True)
            wrong += trial.without_controller()
            wrong += trial.below_small_group()
    except Unusable as error:
        print(f"not tried: {error}", file=sys.stderr)
        return 2
    print("\n".join(wrong) or "all checks hold")
    return 1 if wrong else 0


class Trial:
    def __init__(self, workspace: Workspace, interpreter: harness.Interpreter, user: User) -> None:
        self.workspace, self.interpreter, self.user = workspace, interpreter, user

    def server(self, tier: Tier, **variables: str) -> Server:
        bounds = {"QWED_MCP_MEMORY_MB": str(MEMORY_MB), "QWED_MCP_TEST_SYNC_TIMEOUT_MS": str(int(TIMEOUT_S * 1000))}
        folder = self.workspace.new_folder(self.user)
        return Server(self.workspace, tier, self.user, self.interpreter, {**bounds, **variables}, folder)

    def ends(self) -> list[str]:
        wrong = []
        with self.server(OLD_KERNEL) as server:
            server.wait_until_ready()
            for _ in range(3):
                reply = server.run(DAEMONS)
                time.sleep(1)
                if "-run-" not in reply.text:
                    raise Unusable(f"there is no place for groups: runs are in {reply.text!r}")
                if alive := self.workspace.alive():
                    wrong.append(f"{len(alive)} daemons are still alive")
                if left := groups_of_runs():
                    wrong.append(f"groups are left: {left}")
            server.close()
        return wrong

    def require_groups(self) -> None:
        environment = {"PATH": os.environ["PATH"], "QWED_MCP_PYTHON": str(self.interpreter.python)}
        report = subprocess.run(
            [self.workspace.program, "doctor", "--format", "json"], env=environment, capture_output=True, check=False
        )
        groups = json.loads(report.stdout)["control_groups"]
        print(f"control groups: {groups.get('controls') or groups['why']}")
        if not groups["used"]:
            raise Unusable(groups["why"])

    def check_tier(self, tier: Tier) -> list[str]:
        wrong = []
        with self.server(tier) as server:
            server.wait_until_ready()
            reply = server.run("print(6*7)")
            if (reply.text, reply.execution["memory_bound"]) != (FORTY_TWO, "control group"):
                wrong.append(f"a run is reported as {reply.text!r}, {reply.execution}")
            # The script runs twice, because the first run must not affect the second.
            for _ in range(2):
                text, most = self.with_stopped_watch(server, GREEDY)
                if OUT_OF_MEMORY not in text or most > MEMORY_MB + FILES_MB + SHARED_MB:
                    wrong.append(f"a script over the limit has {most} MiB, and ends as {text!r}")
            if tier.sandbox == "T3":
                wrong += self.check_bomb(server)
            if (reply := server.run("print(6*7)")) is None or reply.text != FORTY_TWO:
                wrong.append("the next call is wrong")
            text = server.run(KILLS_ITSELF).text
            if OUT_OF_MEMORY in text or "return code -9" not in text:
                wrong.append(f"a script that kills itself ends as {text!r}")
            wrong += server.faults
            time.sleep(1)
            # Each idle warm interpreter has a group.
            if len(left := groups_of_runs()) > 3 * tier.is_warm:
                wrong.append(f"groups are left: {left}")
            place = place_of(server)
            if server.close() != 0:
                wrong.append("the server's exit code is not 0")
        if left := [str(folder) for folder in place.glob("qwed-mcp-*-*")]:
            wrong.append(f"groups are left after the server's end: {left}")
        with self.server(tier, QWED_MCP_TEST_KERNEL_LACKS=lacks(tier)) as server:
            server.wait_until_ready()
            text, most = self.with_stopped_watch(server, GREEDY)
            if most <= ALL_MB:
                wrong.append(f"without groups, the script has no more than {most} MiB, and ends as {text!r}")
            if server.run("print(6*7)").execution["memory_bound"] != "watch":
                wrong.append("without groups, the bound is not the watch")
        return wrong

    def with_stopped_watch(self, server: Server, code: str) -> tuple[str, int]:
        """Runs a script, and stops the memory watch while the script takes memory. Returns the reply, and the most
        MiB that one process had."""
        number = server.begin_run(code)
        time.sleep(1.5)
        # The server itself watches warm runs. A supervisor watches a cold run.
        watchers = [server.process.pid] if server.tier.is_warm else supervisors(server)
        began, most = time.monotonic(), 0
        while time.monotonic() - began < STOPPED_S:
            # The signal is repeated, because the server sends SIGCONT to a stopped supervisor.
            harness.send(watchers, signal.SIGSTOP)
            now = most_resident_mib(self.workspace)
            if now > most:
                # The script may be slow, so wait as long as its memory grows.
                most, began = now, time.monotonic()
            if most > ALL_MB or now < most / 2:
                break
            time.sleep(0.02)
        harness.send(watchers, signal.SIGCONT)
        reply = server.wait(number, TIMEOUT_S + 30)
        return (reply.text if reply else "no reply"), most

    def check_bomb(self, server: Server) -> list[str]:
        at_rest = len(self.workspace.alive())
        server.run(BOMB, TIMEOUT_S + 30)
        time.sleep(1)
        # A warm server may be starting one or two spare interpreters. A bomb has 60 processes.
        more = len(self.workspace.alive()) - at_rest
        return [f"{more} processes of a bomb are left"] if more > 4 * server.tier.is_warm else []

    def without_controller(self) -> list[str]:
        """Takes the memory controller away from a running server."""
        wrong = []
        with self.server(harness.TIERS["T3"]) as server:
            server.wait_until_ready()
            place = place_of(server)
            (place / "cgroup.subtree_control").write_text("-memory")
            reply = server.run("print(6*7)")
            if (reply.text, reply.execution["memory_bound"]) != (FORTY_TWO, "watch"):
                wrong.append(f"without a controller, a run is reported as {reply.text!r}, {reply.execution}")
            if not any("runs have no control groups" in line for line in server.log):
                wrong.append(f"without a controller, the log has no error: {server.log_end()}")
            (place / "cgroup.subtree_control").write_text("+memory")
            server.close()
        return wrong

    def below_small_group(self) -> list[str]:
        """If the limit of a parent group kills a script, the result must not blame the run's limit."""
        wrong = []
        with self.server(harness.TIERS["T3"], QWED_MCP_MEMORY_MB="1024") as server:
            server.wait_until_ready()
            place = place_of(server)
            before = (place / "memory.max").read_text() if (place / "memory.max").exists() else None
            if before is None:
                print("below a small group: not tried, because the server is in the root group")
                return []
            (place / "memory.max").write_text(str(400 << 20))
            text = server.run("block = bytearray(700 << 20)", TIMEOUT_S + 30).text
            if OUT_OF_MEMORY in text or "return code -9" not in text:
                wrong.append(f"below a small group, a script is reported as {text!r}")
            (place / "memory.max").write_text(before)
        return wrong


def lacks(tier: Tier) -> str:
    return ",".join(filter(None, [tier.variables.get("QWED_MCP_TEST_KERNEL_LACKS"), "control_groups"]))


def supervisors(server: Server) -> list[int]:
    found = []
    for pid in harness.below(server.process.pid, harness.all_processes()):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if arguments[1:2] == [b"__supervise"]:
            found.append(pid)
    return found


def most_resident_mib(workspace: Workspace) -> int:
    most = 0
    for pid in workspace.alive():
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
        most = max(most, pages * os.sysconf("SC_PAGE_SIZE") >> 20)
    return most


def hierarchy() -> Path:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return Path([line.split(" ")[4] for line in mounts if " - cgroup2 " in line][-1])


def place_of(server: Server) -> Path:
    """Returns the group in which a server creates the groups of its runs."""
    group = Path(f"/proc/{server.process.pid}/cgroup").read_text().splitlines()[-1].removeprefix("0::")
    own = hierarchy() / group.lstrip("/")
    return own.parent if own.name.endswith("-server") else own


def groups_of_runs() -> list[str]:
    name = re.compile(r"qwed-mcp-\d+-\d+-\d+-run-\d+")
    return [str(folder) for folder in hierarchy().rglob("qwed-mcp-*") if name.fullmatch(folder.name)]


if __name__ == "__main__":
    sys.exit(main())
