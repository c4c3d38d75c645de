"""Installs, starts, calls and stops the two servers that `side_by_side.py` measures.

This module contains no measurements and no targets. A server that does not exit by itself is killed and reaped, so no
process outlives its `with` block.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
PEER = REPOSITORY / "target" / "peer"
REQUIREMENTS = ["qwed-mcp==0.2.2", "mcp<2", "z3-solver==5.1.0.0", "qwed-legal==0.5.1", "numpy==2.4.6",
                "matplotlib==3.11.2"]
PEER_PACKAGES_SHOWN = ("qwed-mcp", "mcp", "sympy", "z3-solver", "qwed-legal")

ROUNDS_SMOKE = 5

PROTOCOL_VERSION = "2025-06-18"
# The settings of our server that the caller's environment may set. Other variables are not passed on.
ENVIRONMENT_PASSED_ON = ("QWED_MCP_SANDBOX", "QWED_MCP_PRELOAD", "QWED_MCP_WARM")

# The pause before each script. The server cleans up after the previous run in this time.
SETTLE_S = 0.005
# Timeouts. On a loaded machine, a cold start of the Python implementation takes seconds. A longer silence is a hang.
REPLY_TIMEOUT_S = 30.0
EXIT_TIMEOUT_S = 3.0
INSTALL_TIMEOUT_S = 900.0
READ_BYTES = 256 * 1024
REPLIES_BYTES_MAX = 16 * 1024 * 1024
STDERR_SHOWN_BYTES = 2000


class NotMeasured(Exception):
    """A measurement failed, because a server is missing, exited, did not answer, or gave a wrong answer."""


@dataclass(frozen=True)
class Contestant:
    """A server to measure: ours, or the Python implementation."""

    name: str
    command: Path
    arguments: tuple[str, ...] = ()

    @contextlib.contextmanager
    def start(self, bench: Bench) -> Iterator[Server]:
        """Yields a server after its handshake. Stops it at the end of the block."""
        server = Server(self, bench)
        try:
            server.initialize()
            yield server
        finally:
            server.stop()


@dataclass
class Bench:
    """The servers, the interpreter, the environment and the scratch folder that all measurements share."""

    ours: Contestant
    theirs: Contestant
    interpreter: Path
    environment: dict[str, str]
    scratch: Path
    notes: list[str] = field(default_factory=list)

    @classmethod
    def prepare(cls, server: Path, peer: Peer, scratch: Path) -> Bench:
        passed_on = {name: os.environ[name] for name in ENVIRONMENT_PASSED_ON if name in os.environ}
        home = scratch / "home"
        home.mkdir()
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "TMPDIR": str(scratch),
            "QWED_MCP_TRUSTED_CODE_EXECUTION": "true",
            # Only our server needs this variable. The Python implementation uses its own interpreter, which is the
            # same.
            "QWED_MCP_PYTHON": str(peer.interpreter),
            **passed_on,
        }
        ours, theirs = Contestant("ours", server), Contestant("theirs", peer.server)
        return cls(ours, theirs, peer.interpreter, environment, scratch)

    @contextlib.contextmanager
    def both_servers(self) -> Iterator[tuple[Server, Server]]:
        """Starts both servers, which then run at the same time."""
        with self.ours.start(self) as ours, self.theirs.start(self) as theirs:
            yield ours, theirs

    def run_bare(self, code: str) -> tuple[float, str]:
        """Runs `python -c code` without a server. Returns the milliseconds from the spawn until the process is
        reaped, and the output."""
        output, output_child = os.pipe()
        errors, errors_child = os.pipe()
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        argv, environment = [str(self.interpreter), "-c", code], {"PATH": self.environment["PATH"]}
        child_ends = [output_child, errors_child]
        pid: int | None = None
        time.sleep(SETTLE_S)
        try:
            with deadline(REPLY_TIMEOUT_S, "the bare interpreter"):
                began_ns = time.perf_counter_ns()
                pid = spawn(argv, environment, null, output_child, errors_child)
                while child_ends:
                    os.close(child_ends.pop())
                # The pipes can be read one after the other, because the scripts print too little to fill a pipe.
                stdout = read_to_end(output)
                stderr = read_to_end(errors)
                _, status = os.waitpid(pid, 0)
                elapsed_ms = (time.perf_counter_ns() - began_ns) / 1e6
                pid = None
        finally:
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            for descriptor in (null, output, errors, *child_ends):
                os.close(descriptor)
        if status != 0 or stderr:
            raise NotMeasured(f"the bare interpreter ended with status {status}: {stderr.decode(errors='replace')}")
        return elapsed_ms, stdout.decode()


@dataclass(frozen=True)
class Peer:
    """The installed Python implementation."""

    interpreter: Path
    server: Path
    packages: dict[str, str]


def install_peer() -> Peer:
    """Installs the Python implementation, unless a stamp shows that these requirements are already installed."""
    environment = PEER / "venv"
    interpreter = environment / "bin" / "python"
    stamp = PEER / "stamp.json"
    # The stamp has the path too, because the console script contains the absolute path of its interpreter.
    wanted = {"requirements": REQUIREMENTS, "python": sys.version, "place": str(environment)}
    try:
        installed = json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        installed = {}
    if installed.get("wanted") != wanted or not interpreter.exists():
        print(f"installing {' '.join(REQUIREMENTS)} into {environment.relative_to(REPOSITORY)} …", file=sys.stderr)
        stamp.unlink(missing_ok=True)
        shutil.rmtree(environment, ignore_errors=True)
        pip = [str(interpreter), "-m", "pip", "--disable-pip-version-check"]
        run_installer([sys.executable, "-m", "venv", str(environment)])
        run_installer([*pip, "install", "--quiet", *REQUIREMENTS])
        listing = json.loads(run_installer([*pip, "list", "--format", "json"]))
        installed = {"wanted": wanted, "packages": {package["name"]: package["version"] for package in listing}}
        stamp.write_text(json.dumps(installed, indent=2) + "\n", encoding="utf-8")
    packages = {name: installed["packages"].get(name, "?") for name in PEER_PACKAGES_SHOWN}
    return Peer(interpreter, environment / "bin" / "qwed-mcp", packages)


def run_installer(argv: list[str]) -> str:
    try:
        step = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotMeasured(f"cannot install the Python implementation: {error}") from error
    if step.returncode != 0:
        raise NotMeasured(f"cannot install the Python implementation: {' '.join(argv[1:])}: {step.stderr.strip()}")
    return step.stdout


def small_bench_options(
    description: str, rounds: int, interpreter: Path | None = None, has_peer: bool = False
) -> argparse.Namespace:
    """Parses the command line of a bench with one server and a number of rounds. Exits with 2 if the server is
    missing."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--server", type=Path, default=REPOSITORY / "target" / "release" / "qwed-mcp")
    if interpreter is not None:
        parser.add_argument("--python", type=Path, default=interpreter)
    if has_peer:
        parser.add_argument("--peer", type=Path, help="another binary to compare with, for example an earlier release")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--smoke", action="store_const", const=ROUNDS_SMOKE, dest="rounds",
                        help="a few rounds, to test the bench itself")
    options = parser.parse_args()
    if not options.server.is_file():
        print(f"{options.server} does not exist: run cargo build --release", file=sys.stderr)
        raise SystemExit(2)
    options.server = options.server.absolute()
    if has_peer and options.peer is not None:
        if not options.peer.is_file():
            print(f"{options.peer} does not exist", file=sys.stderr)
            raise SystemExit(2)
        options.peer = options.peer.absolute()
    return options


def in_scratch(
    measure: Callable[[argparse.Namespace, Path], int], options: argparse.Namespace, prefix: str, beside: Path | None = None
) -> int:
    """Calls `measure` with a scratch folder. Returns its exit code, or 1 if a measurement failed."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=beside) as folder:
        try:
            return measure(options, Path(folder))
        except NotMeasured as error:
            print(f"not measured: {error}", file=sys.stderr)
            return 1


# --- A running server -------------------------------------------------------------------------------------------------


class Server:
    """A server process and its pipes. Replies are matched by their ids. Notifications are skipped."""

    def __init__(self, contestant: Contestant, bench: Bench) -> None:
        self.name = contestant.name
        self.start_ms = 0.0
        self._bench = bench
        self._next_id = 1
        # The bytes that were read after the last complete line.
        self._rest = b""
        self._log = bench.scratch / f"{contestant.name}.stderr"

        stdin_child, self._stdin = os.pipe()
        self._stdout, stdout_child = os.pipe()
        # The log goes to a file, because a full pipe would block the server.
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self._began_ns = time.perf_counter_ns()
            argv = [str(contestant.command), *contestant.arguments]
            self.pid = spawn(argv, bench.environment, stdin_child, stdout_child, log)
        except OSError as error:
            os.close(self._stdin)
            os.close(self._stdout)
            raise NotMeasured(f"{self.name}: cannot be started: {error}") from error
        finally:
            for descriptor in (stdin_child, stdout_child, log):
                os.close(descriptor)

    def initialize(self) -> None:
        """Performs the handshake. Sets `start_ms` to the milliseconds from the spawn to the reply. The request waits in
        the pipe while the server starts."""
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "side_by_side", "version": "1"},
        }
        self.start_ms, [result] = self._exchange("initialize", [params], began_ns=self._began_ns)
        if result.get("protocolVersion") != PROTOCOL_VERSION or not result.get("serverInfo", {}).get("name"):
            raise self.wrong("initialize", json.dumps(result))
        self._write(encode({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return self.timed_request(method, params)[1]

    def timed_request(self, method: str, params: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Sends one request. Returns its duration in ms, and its result."""
        elapsed_ms, [result] = self._exchange(method, [params])
        return elapsed_ms, result

    def call_tool(self, tool: str, arguments: dict[str, Any]) -> tuple[float, str]:
        """Sends one `tools/call`. Returns its duration in ms, and the text of the result."""
        elapsed_ms, [text] = self.call_tool_pipelined(tool, [arguments])
        return elapsed_ms, text

    def call_tool_pipelined(self, tool: str, arguments: list[dict[str, Any]]) -> tuple[float, list[str]]:
        """Sends many `tools/call` requests in one write. Returns the ms until the last reply, and the text of each
        result."""
        elapsed_ms, results = self._exchange("tools/call", [{"name": tool, "arguments": each} for each in arguments])
        return elapsed_ms, [self._first_text(result) for result in results]

    def cancel_last(self) -> None:
        """Cancels the last request, which then gets no reply."""
        params = {"requestId": self._next_id - 1}
        self._write(encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))

    def run_script(self, code: str, expected_stdout: str) -> float:
        """Runs a script that must succeed with this output. Returns its duration in ms."""
        time.sleep(SETTLE_S)
        elapsed_ms, text = self.call_tool("execute_python_code", {"code": code})
        # The Python implementation separates the parts by two empty lines.
        if re.sub(r"\n{3,}", "\n\n", text) != f"STDOUT:\n{expected_stdout}\n\nExecution completed successfully.":
            raise self.wrong("a script", text)
        return elapsed_ms

    def wrong(self, what: str, answer: str) -> NotMeasured:
        """Returns the error for a wrong answer."""
        return NotMeasured(f"{self.name}: wrong answer to {what}: {answer[:500]!r}")

    def stop(self) -> None:
        """Closes the server's input, as a client does. After a timeout, kills the processes that are left."""
        # Uses PID file descriptors, because the kernel may reuse a PID.
        family = process_handles([self.pid, *descendants(self.pid)])
        try:
            os.close(self._stdin)
            if not wait_for_exit(family[0], EXIT_TIMEOUT_S):
                note = f"{self.name}: killed, because it did not exit within {EXIT_TIMEOUT_S:g} s after the end of its input"
                if note not in self._bench.notes:
                    self._bench.notes.append(note)
                family += process_handles(descendants(self.pid))
        finally:
            # Kills the processes even if a signal interrupts the wait.
            for process in family:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                os.close(process)
            os.waitpid(self.pid, 0)
            os.close(self._stdout)

    def _exchange(
        self, method: str, params: list[dict[str, Any]], began_ns: int | None = None
    ) -> tuple[float, list[dict[str, Any]]]:
        """Sends requests in one write. Returns the ms until the last reply was read, and the results."""
        ids = range(self._next_id, self._next_id + len(params))
        self._next_id = ids.stop
        requests = b"".join(
            encode({"jsonrpc": "2.0", "id": id, "method": method, "params": each})
            for id, each in zip(ids, params, strict=True)
        )
        replies: dict[int, dict[str, Any]] = {}
        with deadline(REPLY_TIMEOUT_S, f"{self.name}: {method}"):
            if began_ns is None:
                began_ns = time.perf_counter_ns()
            self._write(requests)
            while len(replies) < len(ids):
                lines = self._read_lines(len(ids) - len(replies))
                read_ns = time.perf_counter_ns()
                # If some lines are notifications, the loop reads more lines and takes the time again.
                for line in lines:
                    reply = self._parse(line)
                    if "method" in reply:
                        continue
                    if reply.get("id") not in ids or reply["id"] in replies:
                        raise self.wrong(method, line.decode(errors="replace"))
                    replies[reply["id"]] = reply
        return (read_ns - began_ns) / 1e6, [self._result(method, replies[id]) for id in ids]

    def _write(self, message: bytes) -> None:
        view = memoryview(message)
        try:
            while view:
                view = view[os.write(self._stdin, view):]
        except BrokenPipeError as error:
            raise self._ended() from error

    def _read_lines(self, count_min: int) -> list[bytes]:
        """Reads until this many complete lines have arrived. Stores an incomplete last line for the next call."""
        chunks = [self._rest]
        count = size = 0
        while count < count_min:
            chunk = os.read(self._stdout, READ_BYTES)
            if not chunk:
                raise self._ended()
            chunks.append(chunk)
            count += chunk.count(b"\n")
            size += len(chunk)
            if size > REPLIES_BYTES_MAX:
                raise NotMeasured(f"{self.name}: more than {REPLIES_BYTES_MAX} bytes of replies")
        *lines, self._rest = b"".join(chunks).split(b"\n")
        return lines

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            message = json.loads(line)
        except ValueError as error:
            raise self.wrong("a request", line.decode(errors="replace")) from error
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise self.wrong("a request", line.decode(errors="replace"))
        return message

    def _result(self, method: str, reply: dict[str, Any]) -> dict[str, Any]:
        result = reply.get("result")
        if not isinstance(result, dict):
            raise self.wrong(method, json.dumps(reply))
        return result

    def _first_text(self, result: dict[str, Any]) -> str:
        match result.get("content"):
            case [{"type": "text", "text": str(text)}, *_]:
                return text
        raise self.wrong("tools/call", json.dumps(result))

    def _ended(self) -> NotMeasured:
        """Returns the error for a server that exited early, with the end of its log."""
        log = self._log.read_bytes()[-STDERR_SHOWN_BYTES:].decode(errors="replace").strip()
        return NotMeasured(f"{self.name}: closed its pipes before it answered; its log: {log or '(empty)'}")


# --- Processes, descriptors, time -------------------------------------------------------------------------------------


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def spawn(argv: list[str], environment: dict[str, str], stdin: int, stdout: int, stderr: int) -> int:
    """Starts a process in its own process group, so that Ctrl-C reaches only this program."""
    return os.posix_spawn(
        argv[0],
        argv,
        environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, ours, its) for its, ours in enumerate((stdin, stdout, stderr))],
        setpgroup=0,
        # Python ignores these signals, and exec would keep them ignored.
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )


def read_to_end(descriptor: int) -> bytes:
    chunks = []
    while chunk := os.read(descriptor, READ_BYTES):
        chunks.append(chunk)
    return b"".join(chunks)


@contextlib.contextmanager
def deadline(seconds: float, what: str) -> Iterator[None]:
    """Fails if the block takes longer than the timeout. Uses an alarm, because a timeout on each read would add a
    system call."""

    def expire(_signal: int, _frame: object) -> None:
        raise NotMeasured(f"{what}: no answer within {seconds:g} s")

    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def process_handles(pids: list[int]) -> list[int]:
    """Opens a PID file descriptor for each process that still exists."""
    handles = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handles.append(os.pidfd_open(pid))
    return handles


def wait_for_exit(process: int, seconds: float) -> bool:
    """Returns whether a process exits in time. Does not reap the process."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                # The name in parentheses may contain any character, so only the last parenthesis ends it. The state
                # and the parent follow.
                parent = Path("/proc", entry, "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(entry))
    found, unseen = [], [pid]
    while unseen:
        generation = children.get(unseen.pop(), [])
        found += generation
        unseen += generation
    return found


def proportional_mb(pid: int) -> float:
    """Returns the proportional memory (PSS) in 10^6 bytes, or 0 if the process has exited. A page that four
    processes share counts as a quarter."""
    try:
        rollup = Path("/proc", str(pid), "smaps_rollup").read_text(errors="replace")
    except OSError:
        return 0.0
    match = re.search(r"^Pss:\s+(\d+) kB$", rollup, re.M)
    return int(match[1]) * 1024 / 1e6 if match else 0.0


def resident_mb(pid: int) -> float:
    """Returns the resident memory in 10^6 bytes."""
    try:
        status = Path("/proc", str(pid), "status").read_text(errors="replace")
    except OSError:
        status = ""
    match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.M)
    if match:
        return int(match[1]) * 1024 / 1e6
    raise NotMeasured(f"the resident memory of process {pid} cannot be read")
