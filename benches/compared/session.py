"""Starts a peer's driver, sends it scripts, measures its processes, and ends them.

This process adopts orphans and kills them, so no process of a peer outlives its `with` block.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contestants import NotMeasured, descendants, proportional_mb

START_TIMEOUT_S = 90.0
EXIT_TIMEOUT_S = 2.0
# The maximum time that a driver may need beyond the time limit of a script.
GRACE_S = 4.0
READ_BYTES = 1 << 18
PR_SET_CHILD_SUBREAPER = 36
# If memory is short, the kernel kills a peer before other processes.
OOM_SCORE = "900"
# The maximum size of a file that a script may write, to protect the disk.
FILE_BYTES_MAX = 1 << 30
SAMPLE_S = 0.02
# An attack may kill its parent process. This shell is the parent, so that the attack cannot kill the bench.
PARENT = ["/bin/sh", "-c", '"$@"; exit $?', "parent"]
# Reading the memory of more processes would take longer than the sampling interval.
PROCESSES_SUMMED_MAX = 48


class Lost(NotMeasured):
    """The driver has exited, or did not answer in time."""


def adopt_orphans() -> None:
    """Makes this process the parent of orphaned descendants."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def confine() -> None:
    """Sets limits for a driver and its children. Runs between fork and exec."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)


@dataclass
class Reply:
    """The result of one run. `text` is everything that the caller of the peer gets."""

    is_success: bool
    stdout: str
    size: int
    error: str
    elapsed_ms: float

    @property
    def printed(self) -> str:
        return self.stdout.rstrip("\n")

    @property
    def text(self) -> str:
        return self.stdout + self.error


class Session:
    """A running driver and its peer."""

    def __init__(self, argv: list[str], environment: dict[str, str], folder: Path, log: Path) -> None:
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [*PARENT, *argv], env=environment, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, start_new_session=True, preexec_fn=confine,
            )
        self._log = log
        self._rest = b""
        try:
            ready = self._read(START_TIMEOUT_S)
        except Lost:
            self.stop()
            raise
        self.start_ms, self._driver = ready["start_ms"], ready["pid"]

    @property
    def pid(self) -> int:
        return self.process.pid

    def run(self, code: str, timeout_s: float) -> Reply:
        reply = self.ask("run", timeout_s + GRACE_S, code=code, timeout_s=timeout_s)
        return Reply(reply["ok"], reply["stdout"], reply["size"], reply["error"], reply["ms"])

    def ask(self, operation: str, wait_s: float, **arguments: Any) -> dict[str, Any]:
        """Sends a request to the driver, and waits for its reply."""
        request = json.dumps({"op": operation, **arguments}).encode() + b"\n"
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(request)
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise self._lost("has ended") from error
        return self._read(wait_s)

    def _read(self, wait_s: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        descriptor, deadline = self.process.stdout.fileno(), time.monotonic() + wait_s
        chunks = [self._rest]
        while b"\n" not in chunks[-1]:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise self._lost(f"did not answer within {wait_s:g} s")
            chunk = os.read(descriptor, READ_BYTES)
            if not chunk:
                raise self._lost("has ended")
            chunks.append(chunk)
        line, _, self._rest = b"".join(chunks).partition(b"\n")
        return json.loads(line)

    def _lost(self, fact: str) -> Lost:
        log = self._log.read_bytes()[-1000:].decode(errors="replace").strip()
        return Lost(f"the driver {fact}; its log: {log or '(empty)'}")

    def stop(self) -> None:
        """Closes the driver's input. After a timeout, kills all remaining processes."""
        family = descendants(self.pid)
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            family += descendants(self.pid)
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        for pid in family:
            if is_ours(pid):
                kill(pid)

    def memory_mb(self, counts_driver: bool) -> float:
        """Returns the proportional memory (PSS) of the peer's processes."""
        pids = [pid for pid in descendants(self.pid) if counts_driver or pid != self._driver]
        return sum(proportional_mb(pid) for pid in pids)


def is_ours(pid: int) -> bool:
    """Returns whether the PID is a descendant of this process. Otherwise the kernel may have reused the PID."""
    return pid in descendants(os.getpid())


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def kill_all_children(except_pids: set[int]) -> None:
    """Kills all descendants of this process, except for the given processes and their descendants."""
    for _ in range(50):
        kept = except_pids | {pid for root in except_pids for pid in descendants(root)}
        left = [pid for pid in descendants(os.getpid()) if pid not in kept]
        if not left:
            return
        for pid in left:
            kill(pid)
        time.sleep(0.02)


def cpu_seconds(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass
class Peak:
    """The maximum that the descendants of this process have used at one moment."""

    processes: int = 0
    memory_mb: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def sampled(self, session: Session, counts_driver: bool = True) -> Iterator[Peak]:
        """Samples a session's processes until the block ends."""
        thread = threading.Thread(target=self._sample, args=(session, counts_driver), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._done.set()
            thread.join()

    def _sample(self, session: Session, counts_driver: bool) -> None:
        while not self._done.wait(SAMPLE_S):
            pids = descendants(session.pid)
            self.processes = max(self.processes, len(pids))
            if len(pids) <= PROCESSES_SUMMED_MAX:
                self.memory_mb = max(self.memory_mb, session.memory_mb(counts_driver))
