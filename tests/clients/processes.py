"""Reads the process tree from /proc (Linux), without any package from elsewhere."""

from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in ("Z", "X")


def descendants(root_pid: int) -> dict[int, str]:
    """All living descendants of `root_pid`, as pid and name. A zombie that nobody has reaped counts as well."""
    names: dict[int, str] = {}
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        # "pid (name) state ppid …": the name may hold spaces and brackets, so look for the last one.
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
