"""Starts and calls servers for the endurance scripts. Finds the processes and files that the servers leave.

Uses the real binary over stdio, as an MCP client does. Uses /proc for processes, mounts, file descriptors and
memory. Needs Linux and Python 3.11, and only the standard library. The binary must be a debug build, because only
debug builds can skip the analysis and choose a tier.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

EXECUTION = "qwed.ai/execution"
#: The UID of the ordinary user, if root starts the script. No other user of the machine has this UID.
ORDINARY_USER = 24704
FORTY_TWO = "STDOUT:\n42\n\nExecution completed successfully."

PING_EVERY_S = 0.02
REPLY_TIMEOUT_S = 30.0
WARM_TIMEOUT_S = 60.0
LOG_LINES_MAX = 200
MEBIBYTE = 1 << 20

_PR_SET_CHILD_SUBREAPER = 36


class Unusable(Exception):
    """Nothing can be measured, because the machine or the binary lacks a requirement."""


@dataclass(frozen=True)
class Tier:
    """A sandbox for a server's scripts, and the settings that select it."""

    name: str
    sandbox: str
    variables: dict[str, str]
    is_warm: bool = False


TIERS = {
    tier.name: tier
    for tier in [
        Tier("T3-warm", "T3", {"QWED_MCP_SANDBOX": "strict", "QWED_MCP_WARM": "on"}, is_warm=True),
        Tier("T3", "T3", {"QWED_MCP_SANDBOX": "strict", "QWED_MCP_WARM": "off"}),
        Tier("T2", "T2", {"QWED_MCP_TEST_KERNEL_LACKS": "namespaces", "QWED_MCP_WARM": "off"}),
        Tier(
            "T1",
            "T1",
            {
                "QWED_MCP_SANDBOX": "degraded",
                "QWED_MCP_TEST_KERNEL_LACKS": "namespaces,landlock",
                "QWED_MCP_WARM": "off",
            },
        ),
        Tier("off", "off", {"QWED_MCP_SANDBOX": "off", "QWED_MCP_WARM": "off"}),
    ]
}


@dataclass(frozen=True)
class User:
    """A user that runs a server."""

    name: str
    #: The UID, or None for the user of the endurance script.
    number: int | None


def known_users() -> dict[str, User]:
    """Returns the users that can run servers. These are root and an ordinary user if root runs the script,
    otherwise the current user."""
    if os.geteuid() == 0:
        return {"root": User("root", None), "ordinary": User("ordinary", ORDINARY_USER)}
    return {"ordinary": User("ordinary", None)}


# ---- the machine


@dataclass(frozen=True)
class Process:
    """A process, as /proc shows it."""

    parent: int
    state: str


def all_processes() -> dict[int, Process]:
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            text = Path("/proc", name, "stat").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The line is "pid (name) state ppid …". The name may contain brackets, so only the last bracket ends it.
        state, parent = text.rpartition(")")[2].split()[:2]
        found[int(name)] = Process(int(parent), state)
    return found


def below(root: int, processes: dict[int, Process]) -> set[int]:
    """Returns the PIDs of the descendants of `root`, zombies included."""
    children = collections.defaultdict(list)
    for pid, process in processes.items():
        children[process.parent].append(pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for child in children[waiting.pop()]:
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def mounts() -> set[str]:
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def meminfo() -> dict[str, int]:
    """Returns the values of /proc/meminfo, in MiB."""
    rows = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        rows[name] = int(value.split()[0]) // 1024
    return rows


def becomes_subreaper() -> None:
    """Makes this process adopt orphaned descendants, so that it can find all of them."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise Unusable("this process cannot become a subreaper")


def eventually(limit_s: float, condition) -> float | None:
    """Waits until `condition` holds. Returns the seconds, or None after the limit."""
    began = time.monotonic()
    while True:
        if condition():
            return time.monotonic() - began
        if time.monotonic() - began > limit_s:
            return None
        time.sleep(0.02)


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Makes SIGTERM raise an exception, as Ctrl-C does, so that context managers clean up."""

    def unwind(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# ---- programs of servers, and their remains


@dataclass(frozen=True)
class Interpreter:
    """The Python interpreter for scripts, and the folder of its packages."""

    python: Path
    packages: Path | None
    has_sympy: bool


def find_interpreter(binary: Path, environment: Path | None) -> Interpreter:
    """Finds a Python that every user can start, with the packages of `environment` if they exist."""
    environment = environment or binary.resolve().parent.parent / "python"
    candidates = [environment / "bin/python", Path("/usr/bin/python3"), Path(sys.executable)]
    python = next((path for path in candidates if _is_public(path)), None)
    if python is None:
        raise Unusable("no Python that every user can start: run apt-get install python3")
    version = subprocess.run(
        [python, "-I", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    packages = environment / "lib" / version / "site-packages"
    if not _is_public(packages):
        return Interpreter(python, None, has_sympy=False)
    return Interpreter(python, packages, has_sympy=(packages / "sympy").is_dir())


def _is_public(path: Path) -> bool:
    """Returns whether the path exists and every user can reach it."""
    try:
        return all(folder.stat().st_mode & 0o001 for folder in path.resolve(strict=True).parents)
    except OSError:
        return False


class Workspace:
    """A folder with the binary and with the temporary folders of all servers of one endurance script.

    Finds the processes of this test in three ways: as descendants of this process (a subreaper), by their program
    (a copy in this folder), or by their PATH (it contains the server's folder). So it never counts processes that
    others start from the same binary or as the same user.
    """

    def __init__(self, binary: Path) -> None:
        if not binary.is_file():
            raise Unusable(f"{binary} does not exist")
        becomes_subreaper()
        self.folder = Path(tempfile.mkdtemp(prefix="qwed-mcp-endurance-")).resolve()
        self.folder.chmod(0o755)
        self.program = self.folder / "qwed-mcp"
        shutil.copy(binary, self.program)
        self.program.chmod(0o755)
        self.children: set[int] = set()
        self._servers = 0

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_folder(self, user: User) -> Path:
        self._servers += 1
        folder = self.folder / f"server-{self._servers}"
        folder.mkdir(mode=0o755)
        if user.number is not None:
            os.chown(folder, user.number, user.number)
        return folder

    def alive(self) -> set[int]:
        """Returns the PIDs of this test's processes, except for this process, the servers, removers and zombies."""
        found = self._processes() - self.removers()
        # A remover that exits between the two listings is not in the second listing.
        return found and found & (self._processes() - self.removers())

    def removers(self) -> set[int]:
        """Returns the PIDs of supervisors that only remove the folder of a run that has ended. This may take long."""
        processes = all_processes()
        parents = {process.parent for process in processes.values() if process.state not in "ZX"}
        return {pid for pid in self._processes() if pid not in parents and _is_remover(pid)}

    def _processes(self) -> set[int]:
        processes = all_processes()
        self._reap(processes)
        tree = below(os.getpid(), processes)
        ours = {pid for pid in processes if pid in tree or self._is_marked(pid)}
        return {pid for pid in ours - self.children - {os.getpid()} if processes[pid].state not in "ZX"}

    def clear(self) -> int:
        """Kills all processes that are left, even if they fork. Returns their number at the start.

        Stops all processes before it kills them. Stopped processes count towards their user's limit, so a fork bomb
        cannot fork. If they were killed one by one, each kill would allow another fork.
        """
        found = len(self._processes())
        for _ in range(300):
            processes = all_processes()
            running = [pid for pid in self._processes() if pid in processes and processes[pid].state not in "Tt"]
            if not running:
                break
            send(running, signal.SIGSTOP)
        for _ in range(100):
            left = self._processes()
            if not left:
                break
            send(left, signal.SIGKILL)
            time.sleep(0.05)
        return found

    def _is_marked(self, pid: int) -> bool:
        marker = str(self.folder)
        try:
            if os.readlink(f"/proc/{pid}/exe").startswith(marker):
                return True
            return marker.encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    def _reap(self, processes: dict[int, Process]) -> None:
        """Reaps zombies that this process has adopted from a server that has exited."""
        for pid, process in processes.items():
            if process.parent == os.getpid() and process.state == "Z" and pid not in self.children:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _is_remover(pid: int) -> bool:
    with contextlib.suppress(OSError):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return arguments[1:2] in ([b"__supervise"], [b"__sweep"])
    return False


def send(pids, number: signal.Signals) -> None:
    """Sends a signal to each process that still exists."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


# ---- the server


@dataclass
class Reply:
    """A reply to a request, and the time of its arrival."""

    message: dict
    at: float

    @property
    def text(self) -> str:
        """Returns all texts of a result, or the error."""
        if "error" in self.message:
            return "error {code}: {message}".format(**self.message["error"])
        return "\n".join(block.get("text", "") for block in self.message["result"].get("content", []))

    @property
    def execution(self) -> dict:
        return self.message.get("result", {}).get("_meta", {}).get(EXECUTION, {})


@dataclass
class Silence:
    """The longest duration of a `ping`, and the start time of the pending `ping`."""

    worst_s: float = 0.0
    asked: dict[str, float] = field(default_factory=dict)

    def answered(self, name: str, at: float) -> None:
        asked = self.asked.pop(name, None)
        if asked is not None:
            self.worst_s = max(self.worst_s, at - asked)

    def so_far(self) -> float:
        waiting = [time.monotonic() - asked for asked in list(self.asked.values())]
        return max([self.worst_s, *waiting])


def pipe_of(user: User) -> tuple[int, int]:
    """Creates a pipe that belongs to the user, like the pipes of a client with this user. The server opens its
    pipes again. If it may not, it needs extra threads that read and write."""
    ends = os.pipe()
    if user.number is not None:
        os.fchown(ends[0], user.number, user.number)
    return ends


class Server:
    """A running server and its connection. A thread sends pings constantly."""

    def __init__(
        self,
        workspace: Workspace,
        tier: Tier,
        user: User,
        interpreter: Interpreter,
        variables: dict[str, str],
        folder: Path,
    ) -> None:
        self.workspace, self.tier = workspace, tier
        #: The server's TMPDIR. Its path also marks the server's processes.
        self.folder = folder
        #: Violations of the protocol: lines that are not JSON, and replies without a request.
        self.faults: list[str] = []
        self.log: collections.deque[str] = collections.deque(maxlen=LOG_LINES_MAX)
        self.silence = Silence()
        self._replies: dict[object, Reply] = {}
        self._asked: set[object] = set()
        self._changed = threading.Condition()
        self._writes = threading.Lock()
        self._last_id = 0
        self._is_over = threading.Event()
        environment = {
            "PATH": f"{os.environ['PATH']}:{self.folder}",
            "TMPDIR": str(self.folder),
            "QWED_MCP_PYTHON": str(interpreter.python),
            "QWED_MCP_TRUSTED_CODE_EXECUTION": "true",
            "QWED_MCP_TEST_UNCHECKED_CODE": "1",
            "RUST_LOG": "warn",
            **({"PYTHONPATH": str(interpreter.packages)} if interpreter.packages else {}),
            **tier.variables,
            **variables,
        }
        identity = {} if user.number is None else {"user": user.number, "group": user.number, "extra_groups": []}
        # The server gets its own session, because the thread that sends pings has a high priority. On kernels that
        # share the processors fairly among sessions, the thread would leave less for the server.
        self.process = subprocess.Popen(
            [workspace.program], env=environment, cwd="/", **identity, start_new_session=True,
            stdin=(stdin := pipe_of(user))[0], stdout=(stdout := pipe_of(user))[1], stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(stdin[0])
        os.close(stdout[1])
        self.process.stdin, self.process.stdout = open(stdin[1], "wb"), open(stdout[0], "rb")  # noqa: SIM115
        workspace.children.add(self.process.pid)
        for work in (self._read, self._read_log, self._ping):
            threading.Thread(target=work, daemon=True).start()
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "endurance", "version": "1"},
        }
        self.request("initialize", hello)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    # -- requests

    def begin(self, method: str, params: dict) -> int:
        with self._changed:
            self._last_id += 1
            number = self._last_id
            self._asked.add(number)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def take(self, number: int) -> Reply | None:
        """Returns the reply to a request once, or None if it has not arrived."""
        with self._changed:
            return self._replies.pop(number, None)

    def wait(self, number: int, timeout_s: float = REPLY_TIMEOUT_S) -> Reply | None:
        with self._changed:
            self._changed.wait_for(lambda: number in self._replies, timeout_s)
            return self._replies.pop(number, None)

    def request(self, method: str, params: dict, timeout_s: float = REPLY_TIMEOUT_S) -> Reply:
        reply = self.wait(self.begin(method, params), timeout_s)
        if reply is None:
            raise Unusable(f"no reply to {method} in {timeout_s:g} s; the log ends: {self.log_end()}")
        return reply

    def begin_run(self, code: str, *, background: bool = False) -> int:
        arguments = {"code": code, **({"background": True} if background else {})}
        return self.begin("tools/call", {"name": "execute_python_code", "arguments": arguments})

    def run(self, code: str, timeout_s: float = REPLY_TIMEOUT_S) -> Reply | None:
        return self.wait(self.begin_run(code), timeout_s)

    def job_status(self, job_id: str) -> str:
        call = {"name": "verification_status", "arguments": {"job_id": job_id}}
        return self.request("tools/call", call).text

    def cancel(self, number: int) -> None:
        self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})

    def wait_until_ready(self) -> None:
        """Waits until runs have the expected sandbox, and are warm if the tier requires it."""
        ready = time.monotonic() + WARM_TIMEOUT_S
        while time.monotonic() < ready:
            reply = self.run("print(6*7)", timeout_s=WARM_TIMEOUT_S)
            if reply is None:
                break
            if reply.execution.get("sandbox") not in (self.tier.sandbox, None):
                raise Unusable(f"runs are at {reply.execution['sandbox']}, not at {self.tier.sandbox}")
            if reply.text == FORTY_TWO and (reply.execution.get("warm") or not self.tier.is_warm):
                return
            time.sleep(0.1)
        said = reply.text if reply else "nothing"
        raise Unusable(f"the server is not ready for {self.tier.name}: {said!r}; the log ends: {self.log_end()}")

    # -- resources

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident_mib(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // MEBIBYTE

    def below(self) -> int:
        """Returns the number of descendants, zombies included."""
        return len(below(self.process.pid, all_processes()))

    def left_in_folder(self) -> list[str]:
        return os.listdir(self.folder)

    def log_end(self) -> str:
        return " | ".join(list(self.log)[-4:])

    # -- shutdown

    def close(self, timeout_s: float = 15.0) -> int | None:
        """Closes the connection. Returns the exit code, or None if the server did not exit in time."""
        self._is_over.set()
        with self._writes, contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        self._is_over.set()
        self.process.kill()
        self.process.wait()
        # The PID may now be reused by another process.
        self.workspace.children.discard(self.process.pid)

    # -- threads

    def _send(self, message: dict) -> None:
        line = json.dumps(message).encode() + b"\n"
        # The server may have exited, or its connection may be closed. The missing reply is noticed later.
        with self._writes, contextlib.suppress(BrokenPipeError, ValueError):
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def _read(self) -> None:
        for line in self.process.stdout:
            at = time.monotonic()
            try:
                message = json.loads(line)
            except ValueError:
                self.faults.append(f"not JSON: {line[:80]!r}")
                continue
            number = message.get("id")
            if isinstance(number, str):
                self.silence.answered(number, at)
            elif number is not None:
                self._accept(number, Reply(message, at))

    def _accept(self, number: object, reply: Reply) -> None:
        with self._changed:
            if number in self._asked:
                self._asked.discard(number)
                self._replies[number] = reply
            else:
                self.faults.append(f"a second answer, or an answer without a request: {str(reply.message)[:120]}")
            self._changed.notify_all()

    def _read_log(self) -> None:
        for line in self.process.stderr:
            self.log.append(line.decode(errors="replace").rstrip())

    def _ping(self) -> None:
        # A high priority keeps this thread from waiting for a processor, which would count as the server's delay.
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -10)
        count = 0
        while not self._is_over.is_set():
            # Only one ping is pending at a time, because more would measure the queue.
            if not self.silence.asked:
                count += 1
                name = f"ping-{count}"
                self.silence.asked[name] = time.monotonic()
                self._send({"jsonrpc": "2.0", "id": name, "method": "ping"})
            self._is_over.wait(PING_EVERY_S)


# ---- load


@contextlib.contextmanager
def busy_processors(workspace: Workspace, count: int) -> Iterator[None]:
    """Keeps processors busy at nice 10. The load ends with this process."""
    code = f"import os\nos.nice(10)\nwhile os.getppid() == {os.getpid()}:\n    for _ in range(10**6): pass"
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    workspace.children.update(process.pid for process in started)
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
            workspace.children.discard(process.pid)
