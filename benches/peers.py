#!/usr/bin/env python3
"""Compares this server with other ways to run Python that a model wrote, in one run of under 20 minutes.

    benches/peers.py [--server PATH] [--python PATH] [--only NAME]… [--quick] [--json FILE] [--page | --into FILE]

The peers are in `compared/catalog.py`, and the attacks are in `compared/attacks.py`. The first run also installs
the peers below `target/peers/`, which takes some minutes. A peer that cannot be installed is reported with the
reason, and does not fail the bench. The exit code is 1 only if this server or the control of the attacks was not
measured, or if an attack fails against the control.

Prints JSON to standard output, or with `--page` the tables of `docs/COMPARED.md`. `--into FILE` replaces the tables
in a document. `--json FILE` also writes the JSON to a file. `--from FILE` uses the JSON of an earlier run.
`--quick` tests the bench itself in a minute, with peers that need no download, few rounds, and some of the attacks.
`--only` measures the named peers, and may be given several times.

The bench runs attacks and bombs. They are bounded, and leave no processes or files. Linux only.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import datetime
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compared import measures
from compared.assault import Script, honest_scripts
from compared.attacks import ATTACKS
from compared.catalog import CONTROL, ENTRIES, OURS, Entry, Ground
from compared.ground import launch_of, launched, new_ground
from compared.installation import NotInstalled
from compared.page import page
from compared.session import adopt_orphans, kill_all_children
from contestants import REPOSITORY, NotMeasured, install_peer

BENCHES = Path(__file__).resolve().parent
HONEST = REPOSITORY / "tests" / "corpus" / "allowed"
QUICK_PEERS = (OURS, "plain Python", CONTROL, "a bare fork", "`qwed-mcp` 0.2.2")
QUICK_ATTACKS = ("open a key in the home folder", "create a file in the home folder", "run a shell",
                 "connect to a TCP service", "print 32 MiB", "leave a detached process", "leave a variable")
# The comments before and after the tables in the document.
START, END = "<!-- benches/peers.py prints these sections. -->", "<!-- The end of these sections. -->"
# The bombs use up to 3 GB, in two peers at the same time.
MEMORY_MIN_GIB = 8
ASSAULT_TIMEOUT_S = 420.0


def main() -> int:
    options = parse_options()
    if options.report:
        show(options, json.loads(options.report.read_text(encoding="utf-8")))
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    adopt_orphans()
    try:
        report = measure(options)
    except NotMeasured as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    finally:
        kill_all_children(set())
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    show(options, report)
    wanted = [name for name in (OURS, CONTROL) if not options.only or name in options.only]
    if failed := [name for name in wanted if not is_complete(report["peers"].get(name))]:
        print(f"not measured completely: {', '.join(failed)}", file=sys.stderr)
        return 1
    control = report["peers"].get(CONTROL, {"tried": [], "succeeded": []})
    if held := sorted(set(control["tried"]) - set(control["succeeded"])):
        print(f"these attacks do not succeed against the control: {', '.join(held)}", file=sys.stderr)
        return 1
    return 0


def show(options: argparse.Namespace, report: dict[str, Any]) -> None:
    """Prints JSON or the page, or replaces the tables in a document."""
    if options.into:
        before, start, rest = options.into.read_text(encoding="utf-8").partition(START)
        _, end, after = rest.partition(END)
        options.into.write_text(f"{before}{start}\n\n{page(report)}\n\n{end}{after}", encoding="utf-8")
    else:
        print(page(report) if options.page or options.report else json.dumps(report, indent=2))


def is_complete(row: dict[str, Any] | None) -> bool:
    return bool(row and row["tried"] and row["warm_ms"] and not row["error"])


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", type=Path, default=REPOSITORY / "target" / "release" / "qwed-mcp")
    parser.add_argument("--python", type=Path, help="the interpreter of scripts (default: one with the packages, which "
                                                    "the bench installs)")
    parser.add_argument("--only", action="append", metavar="NAME", choices=[entry.name.strip("`") for entry in ENTRIES]
                        + [entry.name for entry in ENTRIES])
    parser.add_argument("--quick", "--smoke", action="store_true", help="test the bench itself, in about a minute")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--page", action="store_true", help="print the tables of docs/COMPARED.md instead of JSON")
    parser.add_argument("--into", type=Path, metavar="FILE", help="replace the tables in docs/COMPARED.md")
    parser.add_argument("--from", type=Path, dest="report", metavar="FILE", help="print the page of an earlier run")
    options = parser.parse_args()
    if not options.report and not options.server.is_file():
        print(f"{options.server} does not exist: run cargo build --release", file=sys.stderr)
        raise SystemExit(2)
    options.server = options.server.absolute()
    return options


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Installs the peers, and measures all of them."""
    interpreter = options.python.absolute() if options.python else install_peer().interpreter
    with tempfile.TemporaryDirectory(prefix="qwed-mcp-peers-") as folder:
        ground = new_ground(Path(folder) / "measures", interpreter, options.server)
        entries, missing = installed(chosen(options), ground)
        load_before, began = os.getloadavg()[0], time.monotonic()
        log("phase: honest scripts and attacks")
        scripts = honest_scripts(HONEST, interpreter, ground.scratch, 24 if options.quick else 3)
        names = QUICK_ATTACKS if options.quick else tuple(attack.name for attack in ATTACKS)
        if memory_gib() < MEMORY_MIN_GIB:
            names = tuple(attack.name for attack in ATTACKS if attack.name in names and attack.kind != "bombs")
        outcomes = assaults(entries, Path(folder), ground.interpreter, options.server, list(names), scripts)
        figures = {entry.name: measures.Figures() for entry in entries}
        measure_figures(entries, ground, figures, options.quick)
        peers = {entry.name: {"version": launch_of(entry, ground).version, **asdict(figures[entry.name]),
                              **outcomes[entry.name]} for entry in entries}
    # Tuple keys become strings, because JSON has only strings as keys.
    return json.loads(json.dumps({
        "date": datetime.date.today().isoformat(), "machine": machine(load_before), "peers": peers, "missing": missing,
        "minutes": (time.monotonic() - began) / 60, "quick": options.quick,
    }))


def measure_figures(entries: list[Entry], ground: Ground, figures: dict[str, measures.Figures], quick: bool) -> None:
    """Measures one phase after the other. Each has a time limit."""
    rounds, seconds, rate_s, clients = (3, 1.0, 0.5, (1,)) if quick else (15, 20.0, 1.5, measures.CLIENTS)
    log("phase: warm runs and agent runs")
    measures.latency(entries, ground, figures, rounds, seconds)
    log("phase: cold runs")
    measures.cold(entries, ground, figures, 1 if quick else 3)
    log("phase: rates")
    measures.each("rate", entries, figures, lambda entry, its: measures.rate(entry, ground, its, clients, rate_s))
    log("phase: memory")
    measures.each("memory", entries, figures, lambda entry, its: measures.memory(entry, ground, its))


def log(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


def chosen(options: argparse.Namespace) -> list[Entry]:
    if options.only:
        return [entry for entry in ENTRIES if {entry.name, entry.name.strip("`")} & set(options.only)]
    return [entry for entry in ENTRIES if not options.quick or entry.name in QUICK_PEERS]


def installed(entries: list[Entry], ground: Ground) -> tuple[list[Entry], dict[str, str]]:
    """Installs and starts each peer once. Returns the peers that start, and the reasons for the others."""
    found, missing = [], {}
    for entry in entries:
        try:
            session = launched(entry, ground)
            try:
                measures.checked(session, measures.FIRST)
            finally:
                session.stop()
            found.append(entry)
        except (NotInstalled, NotMeasured) as error:
            missing[entry.name] = str(error)
            log(f"{entry.name}: {error}")
    return found, missing


def assaults(entries: list[Entry], folder: Path, interpreter: Path, server: Path, attacks: list[str],
             scripts: list[Script]) -> dict[str, dict[str, Any]]:
    """Attacks two peers at the same time, each in its own process."""

    def start(entry: Entry) -> dict[str, Any]:
        request = {"peer": entry.name, "folder": tempfile.mkdtemp(dir=folder), "interpreter": str(interpreter),
                   "server": str(server), "attacks": attacks, "scripts": [asdict(script) for script in scripts]}
        began = time.monotonic()
        outcome: dict[str, Any] = {"succeeded": [], "tried": [], "honest": 0, "failed": {}, "error": ""}
        try:
            done = subprocess.run([sys.executable, "-m", "compared.assault"], cwd=BENCHES, input=json.dumps(request),
                                  capture_output=True, text=True, timeout=ASSAULT_TIMEOUT_S, start_new_session=True)
            outcome = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            outcome["error"] = f"the attacks took longer than {ASSAULT_TIMEOUT_S:g} s"
        except ValueError:
            outcome["error"] = done.stderr[-500:]
        log(f"{entry.name}: {len(outcome['succeeded'])} of {len(outcome['tried'])} attacks, "
            f"{len(outcome['failed'])} of {outcome['honest']} honest scripts failed, "
            f"{time.monotonic() - began:.0f} s {outcome['error']}")
        return outcome

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        outcomes = dict(zip([entry.name for entry in entries], pool.map(start, entries), strict=True))
    kill_all_children(set())
    return outcomes


def memory_gib() -> float:
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    return int(re.search(r"MemAvailable:\s+(\d+)", text)[1]) / (1 << 20)


def machine(load_before: float) -> dict[str, Any]:
    """Describes the machine."""
    processor = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
    total = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"))[1])
    system = "?"
    with contextlib.suppress(OSError):
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    return {"processor": processor[1] if processor else platform.machine(), "cores": os.cpu_count(),
            "memory_gib": round(total / (1 << 20)), "kernel": platform.release().partition("-")[0], "system": system,
            "user": "root" if os.geteuid() == 0 else "an ordinary user", "load_before": load_before,
            "load_after": os.getloadavg()[0]}


if __name__ == "__main__":
    sys.exit(main())
