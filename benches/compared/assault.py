"""Runs the attacks and the honest scripts against one peer, in a process of its own."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from compared import session as sessions
from compared.attacks import ATTACKS, Attack, Trial, ended_peer, package_folders
from compared.catalog import Entry, Ground
from compared.ground import entry_of, ground_of, launched
from compared.session import Lost, Peak, Reply, Session, cpu_seconds, kill_all_children
from compared.traps import Traps, named, planted
from contestants import NotMeasured, descendants

ATTACK_TIMEOUT_S = 8.0
ENDLESS_TIMEOUT_S = 2.0
HONEST_TIMEOUT_S = 20.0
# The time that a peer may use to clean up after its reply.
SETTLE_S = 0.6
CPU_WINDOW_S = 0.5
# Honest scripts that are left out. They print a duration or the environment, or import packages that only this server
# has.
UNSTEADY = ("asyncio_queue.py", "sys_basics.py", "unittest_loader.py")
OWN_PACKAGES = "qwed_"


@dataclass
class Outcome:
    """The attacks that succeeded, and the honest scripts that did not run, with reasons."""

    succeeded: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    honest: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Script:
    """An honest script, and its output in plain Python."""

    name: str
    code: str
    printed: str


class Assault:
    """A peer under attack. It is started again if an attack has ended it."""

    def __init__(self, entry: Entry, ground: Ground, traps: Traps) -> None:
        self.entry, self.ground, self.traps = entry, ground, traps
        self.session: Session | None = None

    def started(self) -> Session:
        """Returns a working session. Starts a new one if an earlier attack has damaged the peer."""
        if self.session is not None and not self.works():
            self.end()
        if self.session is None:
            self.session = launched(self.entry, self.ground)
            if not self.works():
                raise NotMeasured("it does not run a script after its start")
        return self.session

    def works(self) -> bool:
        reply = self.run("print(1)", ATTACK_TIMEOUT_S)
        return reply is not None and reply.printed == "1"

    def end(self) -> None:
        if self.session is not None:
            self.session.stop()
            self.session = None
        self.clear()

    def clear(self) -> None:
        """Kills all child processes except for the peer and the victim of attacks."""
        kept = {process.pid for process in (self.session, self.traps.victim) if process is not None}
        kill_all_children(kept)

    def run(self, code: str, timeout_s: float) -> Reply | None:
        """Runs a script. Returns None if the peer did not answer."""
        assert self.session is not None
        try:
            return self.session.run(code, timeout_s)
        except Lost:
            return None

    def attack(self, attack: Attack) -> bool:
        """Tries an attack. Returns whether it succeeded."""
        self.traps.plant()
        session = self.started()
        mark = "m" + secrets.token_hex(6)
        timeout_s = ENDLESS_TIMEOUT_S if attack.is_endless else ATTACK_TIMEOUT_S
        peak = Peak()
        with peak.sampled(session):
            reply = self.run(self.traps.fill_in(attack.code, mark), timeout_s)
        time.sleep(SETTLE_S if attack.kind in ("orphans", "bombs", "network") else 0.05)
        orphans, share = named(mark), 0.0
        folders = package_folders(descendants(os.getpid()))
        if attack.is_endless:
            share = self.cpu_share()
        second = self.run(self.traps.fill_in(attack.second, mark), timeout_s) if attack.second else None
        is_alive = reply is not None and (attack.check is not ended_peer or self.works())
        trial = Trial(self.traps, mark, reply, second, peak, is_alive, share, orphans, folders)
        has_succeeded = attack.check(trial)
        if reply is None or not is_alive or attack.is_endless:
            self.end()
        self.clear()
        return has_succeeded

    def cpu_share(self) -> float:
        """Returns the number of processors that the peer's processes use after the reply. Does not count this
        process."""
        pids = descendants(os.getpid())
        before, began = cpu_seconds(pids), time.monotonic()
        time.sleep(CPU_WINDOW_S)
        return (cpu_seconds(pids) - before) / (time.monotonic() - began)

    def honest(self, script: Script) -> str:
        """Runs an honest script. Returns the reason if its output differs from plain Python."""
        self.started()
        reply = self.run(script.code, HONEST_TIMEOUT_S)
        if reply is None:
            self.end()
            return "no answer"
        if reply.printed == script.printed:
            return ""
        return (reply.error or f"other output: {reply.stdout}").strip()[-300:]


def assault(entry: Entry, ground: Ground, attacks: list[str], scripts: list[Script]) -> Outcome:
    """Tries the attacks with these names and the honest scripts on one peer."""
    sessions.adopt_orphans()
    outcome = Outcome()
    with planted(ground.home.parent) as traps:
        ground.environment["PLANTED_API_TOKEN"] = traps.token
        victim = Assault(entry, ground, traps)
        try:
            for attack in ATTACKS:
                if attack.name in attacks:
                    outcome.tried.append(attack.name)
                    if victim.attack(attack):
                        outcome.succeeded.append(attack.name)
            for script in scripts:
                outcome.honest += 1
                if reason := victim.honest(script):
                    outcome.failed[script.name] = reason
        except NotMeasured as error:
            outcome.error = str(error)
        finally:
            victim.end()
    return outcome


def honest_scripts(folder: Path, interpreter: Path, scratch: Path, step: int) -> list[Script]:
    """Returns every `step`-th script of a folder, if it prints the same twice in plain Python."""
    found = []
    files = [file for file in sorted(folder.glob("*.py")) if not file.name.startswith(OWN_PACKAGES)]
    for file in files[::step]:
        code = file.read_text(encoding="utf-8")
        outputs = set()
        for _ in range(2):
            done = subprocess.run([interpreter, "-c", code], cwd=scratch, stdin=subprocess.DEVNULL,
                                  capture_output=True, env={"PATH": os.defpath}, timeout=HONEST_TIMEOUT_S)
            outputs.add(done.stdout.decode(errors="replace").rstrip("\n") if done.returncode == 0 else None)
        if len(outputs) == 1 and None not in outputs and file.name not in UNSTEADY:
            found.append(Script(file.name, code, outputs.pop() or ""))
        else:
            print(f"left out: {file.name} does not print the same twice", file=sys.stderr)
    return found


def main() -> None:
    """Reads the task from standard input, and writes the outcome. `peers.py` starts this process."""
    request = json.load(sys.stdin)
    scripts = [Script(**script) for script in request["scripts"]]
    outcome = assault(entry_of(request["peer"]), ground_of(request), request["attacks"], scripts)
    json.dump(vars(outcome), sys.stdout)


if __name__ == "__main__":
    main()
