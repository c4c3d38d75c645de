"""Starts, kills and removes replicas and their PostgreSQL server. Used by `replicas.py` and `benches/jobs.py`.

Standard library only.
"""

from __future__ import annotations

import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
TASKS = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
#: How long an idle connection is reused. Servers close idle connections after ten seconds.
IDLE_MAX_S = 5.0
JOB_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def programs() -> Path:
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda bin: -int(bin.parent.name))
    for folder in folders:
        if all((folder / name).is_file() for name in ("postgres", "initdb", "pg_ctl")):
            return folder
    raise SystemExit("no PostgreSQL on PATH or in /usr/lib/postgresql; Debian's package is postgresql")


class Postgres:
    """A PostgreSQL server in a new folder. PostgreSQL refuses to run as root, so another user runs it."""

    def __init__(self) -> None:
        self.bin, self.port = programs(), free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="qwed-postgres-"))
        self.folder.chmod(0o755)
        self.user: dict[str, Any] = {}
        if os.geteuid() == 0:
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            entry = names.get("postgres") or names["nobody"]
            self.user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        self.run("initdb", "-D", self.folder / "data", "-U", "qwed", "-A", "trust", "--no-sync", "-E", "UTF8", "--no-locale")
        self.start()
        self.sql("CREATE DATABASE jobs", "postgres")

    @property
    def url(self) -> str:
        return f"postgres://qwed@127.0.0.1:{self.port}/jobs"

    def run(self, program: str, *arguments: Any) -> str:
        done = subprocess.run(
            [self.bin / program, *arguments], cwd="/", capture_output=True, text=True, timeout=120, check=False, **self.user
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.strip()}")
        return done.stdout.strip()

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        deadline = time.monotonic() + 60
        while True:
            # The output goes to a file, because the server inherits its descriptor and would keep a pipe open.
            started = subprocess.run(
                [self.bin / "pg_ctl", "-w", "-s", "-D", self.folder / "data", "-o", options, "-l", self.folder / "log", "start"],
                cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, **self.user,
            )
            if started.returncode == 0:
                return
            if time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            # Processes of a killed server must exit before it can start again.
            time.sleep(0.05)

    def kill(self) -> None:
        pid = (self.folder / "data/postmaster.pid").read_text().splitlines()[0]
        os.kill(int(pid), signal.SIGKILL)

    def sql(self, sql: str, database: str = "jobs") -> str:
        return self.run(
            "psql", "-h", self.folder, "-p", str(self.port), "-U", "qwed", "-d", database, "-X", "-A", "-t", "-q",
            "-v", "ON_ERROR_STOP=1", "-c", sql,
        )

    def close(self) -> None:
        try:
            self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")
        except RuntimeError:
            pass
        shutil.rmtree(self.folder, ignore_errors=True)


class Replica:
    """A server over HTTP. It can be killed, and started again at the same address."""

    def __init__(self, binary: Path, folder: Path, number: int, variables: dict[str, str], *options: str) -> None:
        self.binary, self.number, self.options = binary, number, options
        self.port, self.log = free_port(), folder / f"replica-{number}.log"
        self.place = folder / f"replica-{number}"
        self.place.mkdir()
        of_tests = binary.parent.parent / "python/bin/python"
        python = os.environ.get("QWED_MCP_PYTHON", str(of_tests) if of_tests.exists() else "/usr/bin/python3")
        self.environment = {
            "PATH": os.environ["PATH"], "TMPDIR": str(self.place), "QWED_MCP_PYTHON": python,
            "QWED_MCP_TRUSTED_CODE_EXECUTION": "true", "QWED_MCP_PRELOAD": "json", "QWED_MCP_LOG": "info",
        } | variables
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        command = [self.binary, "serve", "--http", f"127.0.0.1:{self.port}", *self.options]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )

    def is_up(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=0.2):
                return True
        except OSError:
            return False

    def wait(self, patience: float = 30) -> None:
        deadline = time.monotonic() + patience
        while not self.is_up():
            if time.monotonic() > deadline:
                raise RuntimeError(f"replica {self.number} does not listen: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)


class Refused(Exception):
    """The server did nothing, because it could not check the token."""


class Client:
    """A user's connections to replicas, which are reused. For one thread only."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token
        self.connections: dict[int, http.client.HTTPConnection] = {}
        self.used: dict[int, float] = {}

    def ask(self, port: int, method: str, params: dict[str, Any], meta: dict[str, Any] = {}) -> dict[str, Any]:
        """Returns the reply to a request. Raises OSError or HTTPException if no reply arrived, or Refused if the
        server did nothing."""
        connection = self.connections.get(port)
        if connection and time.monotonic() > self.used[port] + IDLE_MAX_S:
            connection.close()
        self.used[port] = time.monotonic()
        if connection is None:
            connection = self.connections[port] = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": META["io.modelcontextprotocol/protocolVersion"], "Mcp-Method": method,
        }
        if name := params.get("name", params.get("taskId")):
            headers["Mcp-Name"] = name
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": META | meta}})
        try:
            connection.request("POST", "/mcp", body.encode(), headers)
            response = connection.getresponse()
            reply = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            self.connections.pop(port).close()
            raise
        if response.status == 503:
            raise Refused(str(reply))
        return reply

    def call(self, port: int, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        reply = self.ask(port, "tools/call", {"name": tool, "arguments": arguments})
        if "result" not in reply:
            raise ValueError(str(reply))
        return reply["result"]

    def place(self, port: int, code: str) -> tuple[str | None, str]:
        """Places a job. Returns the job id or None, and the text of the reply."""
        result = self.call(port, "execute_python_code", {"code": code, "background": True})
        text = result["content"][0]["text"]
        if result.get("isError"):
            return None, text
        found = JOB_ID.search(text)
        if not found:
            raise ValueError(text)
        return found.group(), text

    def status(self, port: int, job: str) -> tuple[str, str]:
        """Returns the state of a job as one word, and the text of the reply."""
        text = self.call(port, "verification_status", {"job_id": job})["content"][0]["text"]
        found = re.match(r"Status: (\w+)", text)
        return (found.group(1) if found else "unknown" if "not found or expired" in text else "away"), text

    def cancel(self, port: int, job: str) -> bool:
        reply = self.ask(port, "tasks/cancel", {"taskId": job}, TASKS)
        return "result" in reply
