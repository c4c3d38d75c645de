#!/usr/bin/env python3
"""Control groups: the kernel bounds a run's memory also while nobody watches it, and nothing is left of them.

    tests/endurance/control_groups.py BINARY [--ends] [--user root|ordinary] [--environment DIR]

With --ends, which takes groups without any controller: where the sandbox is off, on a kernel that cannot keep signals
within a run, daemons end with their run, which has a group, and the group is gone after it.

Otherwise, at each tier, with the real server and the analysis switched off:

- a run says in `_meta` that a control group bounds its memory
- a script that takes more than its group may have, while whoever watches it is stopped, is killed, and told of as out
  of memory; without groups (the control) the same script takes it all
- a fork bomb is gone one second after its reply
- after the server's end, no group of a run is left
- where a group cannot be made, runs go on with the watch, and the log says so at ERROR

It needs Linux, Python 3.11, a debug build, and a place where the memory and pids controllers of version 2 are
delegated: root where there is no systemd and no other hierarchy, or a service or scope of a user's own systemd. No
machine of continuous integration is known to have that: this part is run by hand, in a virtual machine. Exit code 1 if
anything is wrong, 2 where nothing can be tried.
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
#: What a group may have more than the run: files of the scratch folder and shared memory.
FILES_MB = 192
#: More than a group may have, and what the script takes.
ALL_MB = 1.5 * (MEMORY_MB + FILES_MB)
#: Pages that a warm interpreter had before it was in a group.
SHARED_MB = 64
STOPPED_S = 10.0
OUT_OF_MEMORY = "The memory limit of the sandbox ended it"
TIERS = ["T3", "T3-warm", "T2", "T1"]

OLD_KERNEL = Tier(
    "off without Landlock",
    "off",
    {"QWED_MCP_SANDBOX": "off", "QWED_MCP_TEST_KERNEL_LACKS": "landlock", "QWED_MCP_WARM": "off"},
)

#: Thirty of them, in sessions of their own and with no parent that is left; and the group that it is in.
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

#: Waits until the watch is stopped, and takes twice what the group may have.
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
                print("\n".join(wrong) or "daemons end with their group")
                return 1 if wrong else 0
            trial.require_groups()
            for name in TIERS:
                for problem in trial.of_tier(harness.TIERS[name]):
                    wrong.append(f"{name}: {problem}")
                print(f"{name}: tried", flush=True)
            wrong += trial.without_a_place()
            wrong += trial.below_a_small_group()
    except Unusable as error:
        print(f"not tried: {error}", file=sys.stderr)
        return 2
    print("\n".join(wrong) or "all of it holds")
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
                    wrong.append(f"{len(alive)} daemons are left")
                if left := groups_of_runs():
                    wrong.append(f"groups are left: {left}")
            server.close()
        return wrong

    def require_groups(self) -> None:
        environment = {"PATH": os.environ["PATH"], "QWED_MCP_PYTHON": str(self.interpreter.python)}
        told = subprocess.run(
            [self.workspace.program, "doctor", "--format", "json"], env=environment, capture_output=True, check=False
        )
        groups = json.loads(told.stdout)["control_groups"]
        print(f"control groups: {groups.get('controls') or groups['why']}")
        if not groups["used"]:
            raise Unusable(groups["why"])

    def of_tier(self, tier: Tier) -> list[str]:
        wrong = []
        with self.server(tier) as server:
            server.wait_until_ready()
            reply = server.run("print(6*7)")
            if (reply.text, reply.execution["memory_bound"]) != (FORTY_TWO, "control group"):
                wrong.append(f"a run is told of as {reply.text!r}, {reply.execution}")
            # Twice: the first one must leave nothing to the second.
            for _ in range(2):
                text, most = self.while_nobody_watches(server, GREEDY)
                if OUT_OF_MEMORY not in text or most > MEMORY_MB + FILES_MB + SHARED_MB:
                    wrong.append(f"what takes too much has {most} MiB, and ends as {text!r}")
            if tier.sandbox == "T3":
                wrong += self.ends_a_bomb(server)
            if (reply := server.run("print(6*7)")) is None or reply.text != FORTY_TWO:
                wrong.append("the call after that is wrong")
            text = server.run(KILLS_ITSELF).text
            if OUT_OF_MEMORY in text or "return code -9" not in text:
                wrong.append(f"a script that kills itself ends as {text!r}")
            wrong += server.faults
            time.sleep(1)
            # Warm interpreters have one for each that waits.
            if len(left := groups_of_runs()) > 3 * tier.is_warm:
                wrong.append(f"groups are left: {left}")
            place = place_of(server)
            if server.close() != 0:
                wrong.append("the server does not end in order")
        if left := [str(folder) for folder in place.glob("qwed-mcp-*-*")]:
            wrong.append(f"groups are left behind the server: {left}")
        with self.server(tier, QWED_MCP_TEST_KERNEL_LACKS=lacks(tier)) as server:
            server.wait_until_ready()
            text, most = self.while_nobody_watches(server, GREEDY)
            if most <= ALL_MB:
                wrong.append(f"without groups, the script has no more than {most} MiB, and ends as {text!r}")
            if server.run("print(6*7)").execution["memory_bound"] != "watch":
                wrong.append("without groups it is no watch")
        return wrong

    def while_nobody_watches(self, server: Server, code: str) -> tuple[str, int]:
        """The text of a run whose watch is stopped while it takes memory, and how much one process had, in MiB."""
        number = server.begin_run(code)
        time.sleep(1.5)
        # Whoever watches a warm run is the server itself.
        watchers = [server.process.pid] if server.tier.is_warm else supervisors(server)
        began, most = time.monotonic(), 0
        while time.monotonic() - began < STOPPED_S:
            # Again and again: the server lets a stopped supervisor go on.
            harness.send(watchers, signal.SIGSTOP)
            now = most_resident_mib(self.workspace)
            if now > most:
                # As long as it grows, however slowly.
                most, began = now, time.monotonic()
            if most > ALL_MB or now < most / 2:
                break
            time.sleep(0.02)
        harness.send(watchers, signal.SIGCONT)
        reply = server.wait(number, TIMEOUT_S + 30)
        return (reply.text if reply else "no reply"), most

    def ends_a_bomb(self, server: Server) -> list[str]:
        at_rest = len(self.workspace.alive())
        server.run(BOMB, TIMEOUT_S + 30)
        time.sleep(1)
        # A warm server may just be making a spare or two; a bomb has 60 processes.
        more = len(self.workspace.alive()) - at_rest
        return [f"{more} processes of a bomb are left"] if more > 4 * server.tier.is_warm else []

    def without_a_place(self) -> list[str]:
        """Takes the memory controller away from a running server."""
        wrong = []
        with self.server(harness.TIERS["T3"]) as server:
            server.wait_until_ready()
            place = place_of(server)
            (place / "cgroup.subtree_control").write_text("-memory")
            reply = server.run("print(6*7)")
            if (reply.text, reply.execution["memory_bound"]) != (FORTY_TWO, "watch"):
                wrong.append(f"without a place, a run is told of as {reply.text!r}, {reply.execution}")
            if not any("runs have no control groups" in line for line in server.log):
                wrong.append(f"without a place, the log says nothing: {server.log_end()}")
            (place / "cgroup.subtree_control").write_text("+memory")
            server.close()
        return wrong

    def below_a_small_group(self) -> list[str]:
        """What a group above kills is not told of as over the limit of the run."""
        wrong = []
        with self.server(harness.TIERS["T3"], QWED_MCP_MEMORY_MB="1024") as server:
            server.wait_until_ready()
            place = place_of(server)
            before = (place / "memory.max").read_text() if (place / "memory.max").exists() else None
            if before is None:
                print("below a small group: not tried, the place is the outermost group")
                return []
            (place / "memory.max").write_text(str(400 << 20))
            text = server.run("block = bytearray(700 << 20)", TIMEOUT_S + 30).text
            if OUT_OF_MEMORY in text or "return code -9" not in text:
                wrong.append(f"below a small group, a script is told of as {text!r}")
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
    """The group that those of a server's runs are made in."""
    group = Path(f"/proc/{server.process.pid}/cgroup").read_text().splitlines()[-1].removeprefix("0::")
    own = hierarchy() / group.lstrip("/")
    return own.parent if own.name.endswith("-server") else own


def groups_of_runs() -> list[str]:
    name = re.compile(r"qwed-mcp-\d+-\d+-\d+-run-\d+")
    return [str(folder) for folder in hierarchy().rglob("qwed-mcp-*") if name.fullmatch(folder.name)]


if __name__ == "__main__":
    sys.exit(main())
