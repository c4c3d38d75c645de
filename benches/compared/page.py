"""Prints the tables of `docs/COMPARED.md` from the figures of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from compared.attacks import ATTACKS, KINDS
from compared.catalog import CONTROL, ENTRIES, OURS, Entry
from compared.measures import CLIENTS, SCRIPTS

CANNOT = "cannot"
BETTER_NOTE = ("Each entry begins with a property of the tool. Then it lists the figures that are over 5 % better "
               "than this server's figures, which are in parentheses.")
ATTACKS_NOTE = """\
Each cell is the number of attacks that succeeded. The head of the table has the number of attempted attacks in
parentheses. Where possible, the bench checks success from outside the script. It looks for changed files, connections,
remaining processes, memory and processors in use, and the text of a planted file in the output. Each attack succeeds
against `exec` in one interpreter, which shows that the attacks work. A tool that rejects most scripts also stops most
attacks. So compare the attacks with the last column: the share of [honest scripts](#honest-scripts) that the tool runs.

A success is not always a mistake of the tool. sandbox-runtime, bubblewrap and firejail run other programs by design,
and expect their caller to limit memory and output. smolagents' local executor and RestrictedPython are not sandboxes,
according to their documentation. Pyodide is not a sandbox, according to the authors of mcp-run-python."""
ROOT_NOTE = """

The bench ran as root. The kernel does not apply `RLIMIT_NPROC` to root, so `prlimit` (used with bubblewrap) and
firejail could not limit the number of processes."""
NAMES_NOTE = """\
The table omits plain Python, `exec` in one interpreter and a bare fork, which stop few or no attacks."""
HONEST_NOTE = """\
An honest script attacks nothing. The bench runs every third script of `tests/corpus/allowed`, except scripts that print
different texts in two runs of plain Python, or need a package of QWED. A script succeeds if it runs unchanged and
prints the same as in plain Python. So a script also fails if the tool does not support a package that the script needs.
**The analysis of this server was developed with these scripts**, so this server's own share proves little."""
OTHERS_NOTE = """\
- **First result**: the time in ms from the start of the tool to the result of `print(1)`.
- **Ten commands**: the time in ms of ten commands of an agent. Each command uses variables of earlier commands. A *
  marks tools that keep the variables. With the other tools, each command first repeats the earlier commands.
- **Rate**: the number of runs of the script `arithmetic` per second with 1, 2 and 8 clients. Each client starts its own
  process of the tool. Some tools, such as this server over HTTP, can also serve many clients from one process. The
  bench did not measure this.
- **Idle**: the memory in MB of the idle tool. Memory that processes share is divided among these processes.
- **Run**: the most memory in MB that a running script adds."""
LATENCY_NOTES = {
    "warm_ms": "Each column is a script. Each figure is the median time in ms of the runs after the first run of the "
               "script. Plain Python, bubblewrap, firejail, sandbox-runtime and sandlock start a new interpreter for "
               'every run. "cannot" means that the tool cannot run the script.',
    "cold_ms": "Each figure is the median time in ms of the first run after the start of the tool. The start itself is "
               "not included. This server's first run also waits until the server has tested its interpreter and its "
               "sandbox.",
}
# The figures in which a peer can be better than this server: the name, the figure, its unit, and whether less is
# better.
COMPARED: tuple[tuple[str, Callable[[dict[str, Any]], float | None], str, bool], ...] = (
    ("a warm `print(1)`", lambda row: row["warm_ms"].get("print"), "ms", True),
    ("a cold `print(1)`", lambda row: row["cold_ms"].get("print"), "ms", True),
    ("a warm SymPy script", lambda row: row["warm_ms"].get("SymPy"), "ms", True),
    ("a cold SymPy script", lambda row: row["cold_ms"].get("SymPy"), "ms", True),
    ("start to first result", lambda row: row["first_result_ms"], "ms", True),
    ("ten commands of an agent", lambda row: row["agent_ms"], "ms", True),
    ("scripts a second with 8 clients", lambda row: row["rates"].get("8"), "", False),
    ("idle memory", lambda row: row["idle_mb"], "MB", True),
    ("memory for a run", lambda row: row["run_mb"], "MB", True),
    ("honest scripts", lambda row: share(row), "%", False),
)


def share(row: dict[str, Any]) -> float | None:
    """Returns the percentage of honest scripts that run without changes."""
    return 100 * (row["honest"] - len(row["failed"])) / row["honest"] if row["honest"] else None


def number(value: float | None) -> str:
    """Formats a figure with about three digits."""
    if value is None:
        return "–"
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def measured(report: dict[str, Any]) -> list[Entry]:
    return [entry for entry in ENTRIES if entry.name in report["peers"]]


def page(report: dict[str, Any]) -> str:
    """Returns all tables of the page as Markdown."""
    sections = [
        ("Better than this server", better(report)),
        ("The run", setting(report)),
        ("Warm runs", latency(report, "warm_ms")),
        ("Cold runs", latency(report, "cold_ms")),
        ("Starts, agents, clients, memory", others(report)),
        ("Attacks", attacks(report)),
        ("Attacks by name", attack_names(report)),
        ("Honest scripts", honest(report)),
        ("How each was configured", configured(report)),
        ("Not measured here", missing(report)),
    ]
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in sections)


def better(report: dict[str, Any]) -> str:
    """Returns a list of the figures in which each peer is better than this server."""
    ours, lines = report["peers"].get(OURS), []
    for entry in ENTRIES:
        row = report["peers"].get(entry.name)
        if entry.name == OURS or not entry.better:
            continue
        parts = [entry.better]
        if row and ours:
            won = []
            for name, figure, unit, is_less in COMPARED:
                their, our = figure(row), figure(ours)
                if their is not None and our is not None and (their < our * 0.95 if is_less else their > our * 1.05):
                    won.append(f"{name} {number(their)}{' ' * bool(unit)}{unit} ({number(our)})")
            if won:
                parts.append("Better than this server (in parentheses): " + "; ".join(won) + ".")
            else:
                parts.append("No measured figure is better.")
        else:
            parts.append("Not measured here.")
        lines.append(f"- **{entry.name}**: {' '.join(parts)}")
    return f"{BETTER_NOTE}\n\n" + "\n".join(lines)


def setting(report: dict[str, Any]) -> str:
    machine = report["machine"]
    return (f"{report['date']}; {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB of memory"
            f"; Linux {machine['kernel']}, {machine['system']}; as {machine['user']}. The load of the machine was "
            f"{machine['load_before']:.1f} before the run and {machine['load_after']:.1f} after it. The run took "
            f"{report['minutes']:.0f} minutes.")


def latency(report: dict[str, Any], key: str) -> str:
    def cell(entry: Entry, name: str) -> str:
        row = report["peers"][entry.name]
        return CANNOT if name in row["cannot"] else number(row[key].get(name))

    rows = [[entry.name, *(cell(entry, name) for name in SCRIPTS)] for entry in measured(report)]
    return f"{LATENCY_NOTES[key]}\n\n{table(['', *SCRIPTS], rows)}"


def others(report: dict[str, Any]) -> str:
    head = ["", "first result", "ten commands", *(f"rate, {count}" for count in CLIENTS), "idle", "run"]
    rows = []
    for entry in measured(report):
        row = report["peers"][entry.name]
        agent = CANNOT if "agent run" in row["cannot"] else number(row["agent_ms"])
        rates = [CANNOT if "rate" in row["cannot"] else number(row["rates"].get(str(count))) for count in CLIENTS]
        rows.append([entry.name, number(row["first_result_ms"]), agent + ("*" if row["keeps_state"] else ""), *rates,
                     number(row["idle_mb"]), number(row["run_mb"])])
    return f"{OTHERS_NOTE}\n\n{table(head, rows)}"


def attacks(report: dict[str, Any]) -> str:
    counts = {kind: sum(attack.kind == kind for attack in ATTACKS) for kind in KINDS}
    rows = []
    for entry in measured(report):
        row = report["peers"][entry.name]
        done = set(row["succeeded"])
        cells = [str(sum(a.kind == kind and a.name in done for a in ATTACKS)) for kind in KINDS]
        honest_share = share(row)
        rows.append([entry.name, *cells, f"{len(done)} of {len(row['tried'])}",
                     "–" if honest_share is None else f"{honest_share:.0f} %"])
    kinds = [f"{kind} ({count})" for kind, count in counts.items()]
    head = ["successful attacks", *kinds, "all", "honest scripts that run"]
    note = ATTACKS_NOTE + ROOT_NOTE * (report["machine"]["user"] == "root")
    return f"{note}\n\n{table(head, rows)}"


def attack_names(report: dict[str, Any]) -> str:
    """Returns the attacks that succeeded against at least one confined peer."""
    entries = [entry for entry in measured(report) if entry.name not in (CONTROL, "plain Python", "a bare fork")]
    if not entries:
        return "No confined tool was measured."
    rows = []
    for attack in ATTACKS:
        if attack.name not in report["peers"][entries[0].name]["tried"]:
            continue
        against = [entry.name for entry in entries if attack.name in report["peers"][entry.name]["succeeded"]]
        rows.append([attack.name, ", ".join(against) or "none"])
    lines = [["attack", "succeeds against"], ["---", "---"], *rows]
    return f"{NAMES_NOTE}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)


def honest(report: dict[str, Any]) -> str:
    lines = []
    for entry in measured(report):
        row = report["peers"][entry.name]
        if row["honest"]:
            failed = ", ".join(f"`{name.removesuffix('.py')}`" for name in sorted(row["failed"])[:6])
            rest = len(row["failed"]) - 6
            failed += f" and {rest} more" if rest > 0 else ""
            lines.append([entry.name, f"{row['honest'] - len(row['failed'])} of {row['honest']}", failed or "none"])
    rows = [["", "scripts that run unchanged", "scripts that fail"], ["---", "---:", "---"], *lines]
    return f"{HONEST_NOTE}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in rows)


def configured(report: dict[str, Any]) -> str:
    rows = [["tool", "version", "kind", "configuration"], ["---"] * 4]
    rows += [[entry.name, report["peers"][entry.name]["version"], entry.what, entry.configured]
             for entry in measured(report)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def missing(report: dict[str, Any]) -> str:
    if not report["missing"]:
        return "Every tool was measured."
    rows = [["tool", "reason"], ["---", "---"], *([name, reason] for name, reason in report["missing"].items())]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
