"""Reads the process tree from /proc (Linux), with the standard library only."""

from pathlib import Path


def is_running(pid: int) -> bool:
    """Returns whether the process exists and is not a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in ("Z", "X")


def descendants(root_pid: int) -> dict[int, str]:
    """Returns the PID and name of all descendants of `root_pid`, zombies included."""
    names: dict[int, str] = {}
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The line is "pid (name) state ppid …". The name may contain spaces and brackets, so only the last bracket
        # ends it.
        name, _, fields = text.partition("(")[2].rpartition(")")
        pid, parent_pid = int(stat.parent.name), int(fields.split()[1])
        names[pid] = name
        children.setdefault(parent_pid, []).append(pid)

    found: dict[int, str] = {}
    waiting = [root_pid]
    while waiting:
        for pid in children.get(waiting.pop(), []):
            found[pid] = names[pid]
            waiting.append(pid)
    return found
