"""Measures how much one user of an HTTP server can slow down two others.

    python3 benches/fairness.py BINARY [SECONDS]

In each part, `bob` and `carl` repeat the call `print(1)` for SECONDS (10). In the first part, they are alone. In each
further part, `ann` takes as much as she can of one resource: turns, background jobs, subscriptions, stalled bodies,
batches or handshakes. In the last part, she takes all of them at once. Prints p50 and p99 of the calls of bob and carl
in each part, and the ratio of this p99 to the p99 of the first part. The exit code is 1 if a ratio is above three, or
if a call of bob or carl was refused.

Needs a build whose sandbox works on this machine. QWED_MCP_PYTHON names the interpreter (default: this program's).
"""

import concurrent.futures
import contextlib
import http.client
import json
import multiprocessing
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

BINARY = pathlib.Path(sys.argv[1]).resolve()
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 10
MOST = 3.0
STATELESS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2026-07-28",
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Server:
    def __init__(self, folder):
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "QWED_MCP_DATA_DIR": str(folder / "data"),
            "QWED_MCP_TRUSTED_CODE_EXECUTION": "true",
            "QWED_MCP_SYNC_CONCURRENCY": "2",
            "QWED_MCP_PYTHON": os.environ.get("QWED_MCP_PYTHON", sys.executable),
            "QWED_MCP_LOG": "warn",
        }
        self.tokens = {user: self.token(user) for user in ("ann", "bob", "carl")}
        self.log = open(folder / "log", "w+")
        command = [BINARY, "serve", "--http", "127.0.0.1:0", "--require-token", "--drain", "0"]
        self.process = subprocess.Popen(command, env=self.environment, stdout=self.log, stderr=self.log)
        while "clients=" not in (text := (folder / "log").read_text()):
            if self.process.poll() is not None:
                raise SystemExit(text)
            time.sleep(0.02)
        self.port = int(text.split("clients=http://")[1].split("/")[0].rsplit(":", 1)[1])

    def token(self, user):
        command = [BINARY, "token", "create", "--user", user, "--role", "user"]
        made = subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True)
        return made.stdout.split()[0]

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def post(self, user, path, body, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {self.tokens[user]}", **(headers or {})}
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read()

    def call(self, user, method, params, **more):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        name = {"Mcp-Name": params["name"]} if "name" in params else {}
        return self.post(user, "/mcp", body, {**STATELESS, "Mcp-Method": method, **name}, **more)

    def hold(self, user, path, body, length, more=""):
        """Sends a request that does not end, and returns its open connection."""
        held = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.tokens[user]}\r\n"
        kind = "".join(f"{name}: {value}\r\n" for name, value in STATELESS.items())
        held.sendall(f"{head}{kind}{more}{length}\r\n\r\n".encode() + body)
        return held


def again(stop, act):
    """Repeats `act` until `stop`, and ignores connection errors."""
    while not stop.is_set():
        try:
            act()
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)


def keep(stop, most, make):
    """Keeps up to `most` connections open, each with a request. Opens new connections and closes the oldest."""
    held = []
    while not stop.is_set():
        try:
            held.append(make())
            if len(held) > most:
                held.pop(0).close()
        except OSError:
            time.sleep(0.05)
        time.sleep(0.01)
    for connection in held:
        connection.close()


def hogs(server):
    """Returns the functions with which ann uses up each resource. Each function runs in its own thread."""
    script = lambda code, **more: {"name": "execute_python_code", "arguments": {"code": code, **more}}
    listen = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"notifications": {}, "_meta": META}}
    listen = json.dumps(listen).encode()
    handshake = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    handshake = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": handshake}
    headers = {key: value for key, value in STATELESS.items() if not key.startswith("MCP")}
    length = f"Content-Length: {len(listen)}"
    return {
        "turns": [lambda stop: again(stop, lambda: server.post("ann", "/run", {"code": "while True: pass", "timeout": 2}))] * 70,
        "jobs": [lambda stop: again(stop, lambda: server.call("ann", "tools/call", script("import time; time.sleep(5)", background=True)))],
        "subscriptions": [lambda stop: keep(stop, 300, lambda: server.hold("ann", "/mcp", listen, length, "Mcp-Method: subscriptions/listen\r\n"))],
        "bodies": [lambda stop: keep(stop, 9, lambda: server.hold("ann", "/mcp", b" " * 4_000_000, "Content-Length: 4194304"))],
        "batches": [lambda stop: keep(stop, 20, lambda: server.hold("ann", "/batch", b"", "Transfer-Encoding: chunked"))],
        "handshakes": [lambda stop: again(stop, lambda: server.post("ann", "/mcp", handshake, headers))],
    }


def act_all(acts):
    stop = threading.Event()
    threads = [threading.Thread(target=act, args=(stop,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def others(server):
    """Returns the milliseconds of each call of bob and carl, and the number of refused calls."""
    until = time.monotonic() + SECONDS

    def user(name):
        times, refused = [], 0
        while time.monotonic() < until:
            begun = time.monotonic()
            try:
                status, body = server.post(name, "/run", {"code": "print(1)"})
                is_run = status == 200 and json.loads(body)["status"] == "ok"
            except (OSError, http.client.HTTPException):
                is_run = False
            times.append((time.monotonic() - begun) * 1000)
            refused += not is_run
        return times, refused

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(user, ("bob", "carl")))
    return sorted(parts[0][0] + parts[1][0]), parts[0][1] + parts[1][1]


def show(name, times, refused, alone=None):
    at = lambda part: times[min(len(times) - 1, int(len(times) * part))]
    times_as_much = f"{at(0.99) / alone:6.2f} times" if alone else ""
    print(f"{name:14} {len(times):6} calls  p50 {at(0.5):8.1f} ms  p99 {at(0.99):8.1f} ms  refused {refused} {times_as_much}", flush=True)
    return at(0.99)


def main():
    is_fair = True
    with tempfile.TemporaryDirectory(prefix="qwed-fairness-") as folder:
        server = Server(pathlib.Path(folder))
        try:
            others(server)  # warms the server up
            alone = show("alone", *others(server))
            parts = hogs(server)
            parts["all at once"] = [act for acts in parts.values() for act in acts]
            for name, acts in parts.items():
                # ann's threads run in another process, so that they do not slow down the measurement.
                ann = multiprocessing.get_context("fork").Process(target=act_all, args=(acts,))
                ann.start()
                time.sleep(2)
                times, refused = others(server)
                p99 = show(name, times, refused, alone)
                is_fair &= p99 <= MOST * alone and refused == 0
                ann.kill()
                ann.join()
                time.sleep(2)
        finally:
            server.end()
    return 0 if is_fair else 1


if __name__ == "__main__":
    sys.exit(main())
