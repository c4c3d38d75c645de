#!/usr/bin/env python3
"""Runs between an MCP client and the server, and records their messages and the server's end.

    recorder.py DIRECTORY SERVER [ARGUMENT...]

Clients start this program instead of the server. It passes every byte on unchanged in both directions, and appends
events to DIRECTORY/<own pid>.jsonl, one on each line: `start`, each line `to_server` and `to_client`, `end_of_input`, a
`signal` from the client, `exit` with the server's exit code, and `left_over` with the descendants that outlived the
server. So tests can check facts that the SDKs hide: the server's PID and exit code, the cancel notification, a reply
that must not come. The server's stderr goes to DIRECTORY/<own pid>.stderr.

The recorder is a Linux subreaper, so orphaned descendants become its children and cannot escape by double forking.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from processes import descendants

PR_SET_CHILD_SUBREAPER = 36
CHUNK_BYTES_MAX = 65536
LEFT_OVER_GRACE_SECONDS = 0.3


class Log:
    """An append-only file of events. Each event is one write, so that lines of the two threads cannot mix."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, event: str, **facts: object) -> None:
        line = json.dumps({"event": event, "at": time.monotonic(), **facts})
        os.write(self._fd, line.encode() + b"\n")


def pump(source: int, sink: int, log: Log, event: str) -> None:
    """Forwards bytes until the end of `source`. Logs complete lines before it forwards them. So if a client has
    received a message, the log has this message."""
    rest = b""
    while chunk := os.read(source, CHUNK_BYTES_MAX):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            log.write(event, line=line.decode(errors="replace"))
        try:
            while chunk:
                chunk = chunk[os.write(sink, chunk) :]
        except BrokenPipeError:
            break
    if rest:
        log.write(event, line=rest.decode(errors="replace"), unfinished=True)


def wait_for(server_pid: int) -> int:
    """Reaps every child, including adopted children, until the server exits. Returns its exit code, or -N for
    signal N."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == server_pid:
            return os.waitstatus_to_exitcode(status)


def left_over() -> list[str]:
    """Waits for a short time. Returns the descendants that still exist, each as `pid (name)`, and kills them."""
    deadline = time.monotonic() + LEFT_OVER_GRACE_SECONDS
    while (alive := descendants(os.getpid())) and time.monotonic() < deadline:
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            pass
        time.sleep(0.01)
    for pid in alive:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return [f"{pid} ({name})" for pid, name in alive.items()]


def main() -> None:
    directory, server = Path(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("recorder: cannot become a subreaper")
    log = Log(directory / f"{os.getpid()}.jsonl")
    with open(directory / f"{os.getpid()}.stderr", "wb") as stderr:
        process = subprocess.Popen(
            server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0
        )
    assert process.stdin and process.stdout
    log.write("start", recorder_pid=os.getpid(), server_pid=process.pid)

    def pass_on(number: int, _frame: object) -> None:
        log.write("signal", number=number)
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            pass

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)

    def to_server() -> None:
        pump(0, process.stdin.fileno(), log, "to_server")
        log.write("end_of_input")
        process.stdin.close()

    def to_client() -> None:
        pump(process.stdout.fileno(), 1, log, "to_client")
        # Closes the output now. So the client sees the end of output when the server exits, and not later when the
        # recorder exits.
        os.close(1)

    threading.Thread(target=to_server, daemon=True).start()
    output = threading.Thread(target=to_client, daemon=True)
    output.start()

    code = wait_for(process.pid)
    log.write("exit", code=code)
    log.write("left_over", processes=left_over())
    output.join(timeout=1)
    os._exit(code if code >= 0 else 128 - code)


main()
