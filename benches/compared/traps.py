"""Plants the targets of attacks outside of every sandbox: files, an environment variable, listeners, and a process.

After an attack, the checks inspect the targets from outside.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CANARY = "the canary\n"
MODE = 0o640
VARIABLE = "PLANTED_API_TOKEN"


@dataclass
class Traps:
    """All targets for one peer."""

    folder: Path
    token: str
    received: list[bytes]
    ports: dict[str, str]
    victim: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def secret(self) -> Path:
        return self.home / ".ssh" / "id_planted"

    @property
    def canary(self) -> Path:
        return self.home / "canary.txt"

    def plant(self) -> None:
        """Plants the files and the process again, because an attack may have changed them."""
        self.secret.parent.mkdir(parents=True, exist_ok=True)
        self.secret.write_text(self.token, encoding="utf-8")
        with contextlib.suppress(FileNotFoundError):
            self.canary.unlink()
        self.canary.write_text(CANARY, encoding="utf-8")
        self.canary.chmod(MODE)
        self.received.clear()
        if self.victim is None or self.victim.poll() is not None:
            self.victim = subprocess.Popen(["sleep", "3600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def fill_in(self, code: str, mark: str) -> str:
        """Fills the paths, ports and PIDs of the targets into an attack."""
        assert self.victim is not None
        values = {"SECRET": self.secret, "CANARY": self.canary, "HOME": self.home, "VARIABLE": VARIABLE,
                  "VICTIM": self.victim.pid, "MARK": mark, **self.ports}
        for name, value in values.items():
            code = code.replace(f"@{name}@", str(value))
        return code


@contextlib.contextmanager
def planted(folder: Path) -> Iterator[Traps]:
    """Plants all targets. Removes the listeners and the process at the end."""
    received: list[bytes] = []
    with contextlib.ExitStack() as open_sockets:
        ports = {}
        for name, family, kind, address in (
            ("TCP", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("UDP", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("ABSTRACT", socket.AF_UNIX, socket.SOCK_STREAM, f"\0planted-{secrets.token_hex(6)}"),
            ("UNIX", socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "planted.socket")),
        ):
            listener = open_sockets.enter_context(socket.socket(family, kind))
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen(8)
            ports[name] = listener_name(listener)
            threading.Thread(target=receive, args=(listener, received), daemon=True).start()
        traps = Traps(folder, f"planted-{secrets.token_hex(12)}", received, ports)
        traps.plant()
        try:
            yield traps
        finally:
            if traps.victim is not None:
                traps.victim.kill()
                traps.victim.wait()


def listener_name(listener: socket.socket) -> str:
    name = listener.getsockname()
    if isinstance(name, tuple):
        return str(name[1])
    return (name.decode() if isinstance(name, bytes) else name).lstrip("\0")


def receive(listener: socket.socket, received: list[bytes]) -> None:
    """Records the received bytes until the listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            if listener.type == socket.SOCK_DGRAM:
                received.append(listener.recv(4096))
                continue
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(1.0)
                received.append(connection.recv(4096) or b"connected")


def named(mark: str) -> list[int]:
    """Returns the PIDs of processes with this name."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if Path("/proc", entry, "comm").read_text(errors="replace").strip() == mark:
                    found.append(int(entry))
    return found
