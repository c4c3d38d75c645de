#!/usr/bin/env python3
"""Runs inside a row's system as the row's user. Reports the tier that `doctor` predicts, and the facts about scripts.

    observe.py SERVER [--python PROGRAM] [--warm]

Prints one line of JSON. It judges nothing, because `tests/systems/run` compares the line with the row. SERVER must be a
debug build, because only debug builds can run an attack without the analysis.
"""

import argparse
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time

#: The maximum time for one reply on emulated processors.
REPLY_WITHIN_S = 120
#: The maximum time until an interpreter is warm.
WARM_WITHIN_S = 60
ANSWER = "print(6 * 7)"

#: Tries four ways out of the sandbox. Prints one word for each: `open` if it worked, otherwise the type of the error.
ATTACK = """
import os, socket, subprocess
def way(name, action):
    try:
        action()
        print(name, "open")
    except BaseException as error:
        print(name, type(error).__name__)
def read():
    with open({canary!r}) as file:
        assert file.read() == {secret!r}
def write():
    with open({target!r}, "a") as file:
        file.write("changed")
def connect():
    socket.create_connection(("127.0.0.1", {port}), 5).close()
def program():
    assert subprocess.run(["/bin/sh", "-c", "exit 7"]).returncode == 7
way("read", read)
way("write", write)
way("connect", connect)
way("program", program)
"""


class Server:
    """A server that speaks MCP on its standard streams."""

    def __init__(self, program, environment):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=environment
        )
        self.number = 0
        self.rest = b""
        client = {"name": "systems", "version": "1"}
        self.request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, **params):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        deadline = time.monotonic() + REPLY_WITHIN_S
        while True:
            message = json.loads(self.line(deadline))
            if message.get("id") == self.number:
                return message.get("result", message)

    def line(self, deadline):
        stream = self.process.stdout
        while b"\n" not in self.rest:
            ready = select.select([stream], [], [], max(0, deadline - time.monotonic()))[0]
            part = os.read(stream.fileno(), 65536) if ready else b""
            if not part:
                raise SystemExit("no reply from the server: %s" % self.ended())
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def run(self, code):
        """Runs a script. Returns the facts in its result."""
        return facts(self.request("tools/call", name="execute_python_code", arguments={"code": code}))

    def ended(self):
        """Ends the server. Returns the last part of its log."""
        self.process.stdin.close()
        try:
            self.process.wait(REPLY_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process.wait()
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-3000:]


def facts(result):
    """Returns the parts of a result that are compared with the row."""
    execution = result.get("_meta", {}).get("qwed.ai/execution", {})
    return {
        "text": "\n".join(part.get("text", "") for part in result.get("content", [])),
        "is_error": result.get("isError"),
        "tier": execution.get("sandbox"),
        "reason": execution.get("sandbox_reason"),
        "warm": execution.get("warm"),
        "memory_bound": execution.get("memory_bound"),
    }


def doctor(program, environment):
    done = subprocess.run(
        [program, "doctor", "--format", "json"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        return {"code": done.returncode, **json.loads(done.stdout)}
    except ValueError:
        return {"code": done.returncode, "stderr": done.stderr.decode(errors="replace")[-2000:]}


def command_line(program, environment):
    """Runs the script ANSWER with `qwed-mcp run`."""
    done = subprocess.run(
        [program, "run", "--json", "-"], env=environment, input=ANSWER.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        return {"code": done.returncode, **facts(json.loads(done.stdout))}
    except ValueError:
        return {"code": done.returncode, "text": (done.stdout + done.stderr).decode(errors="replace")[-2000:]}


def session(program, environment, warm):
    """Runs the script ANSWER over MCP, repeatedly if the run must be warm. Then runs the attack. Returns both
    results."""
    server = Server(program, {**environment, "QWED_MCP_TEST_UNCHECKED_CODE": "1"})
    begun = time.monotonic()
    result = server.run(ANSWER)
    while warm and not result["is_error"] and not result["warm"] and time.monotonic() - begun < WARM_WITHIN_S:
        time.sleep(1)
        result = server.run(ANSWER)
    attacked = attack(server)
    return {**result, "log": server.ended()}, attacked


def attack(server):
    """Runs the attack. Returns the word for each way out, and whether the files outside are unchanged."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("HOME", "/tmp")) as home:
        canary, target = os.path.join(home, "canary"), os.path.join(home, "target")
        secret = os.urandom(16).hex()
        for path, text in ((canary, secret), (target, "")):
            with open(path, "w") as file:
                file.write(text)
        if os.geteuid() == 0:
            # A root server runs scripts as another user. The sandbox must deny access, so the file modes must not.
            os.chmod(home, 0o777)
            os.chmod(target, 0o666)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            listener.settimeout(REPLY_WITHIN_S)
            accepted = []
            threading.Thread(target=accept, args=(listener, accepted), daemon=True).start()
            port = listener.getsockname()[1]
            result = server.run(ATTACK.format(canary=canary, target=target, secret=secret, port=port))
        with open(target) as file:
            is_changed = bool(file.read())
    words = [line.split() for line in result["text"].splitlines()]
    ways = {word[0]: word[1] for word in words if len(word) == 2 and word[0] in ("read", "write", "connect", "program")}
    return {**result, "ways": ways, "changed": is_changed, "connected": bool(accepted)}


def accept(listener, accepted):
    try:
        accepted.append(listener.accept())
    except OSError:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server")
    parser.add_argument("--python", default="/usr/bin/python3", help="the interpreter for scripts")
    parser.add_argument("--warm", action="store_true", help="wait until a script is warm")
    options = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QWED_MCP_TEST")}
    environment.update(QWED_MCP_TRUSTED_CODE_EXECUTION="true", QWED_MCP_PYTHON=options.python, QWED_MCP_LOG="warn")

    def mode(name):
        return {**environment, "QWED_MCP_SANDBOX": name}

    seen = {
        "kernel": os.uname().release,
        "user": os.geteuid(),
        "observer": "%d.%d" % sys.version_info[:2],
        "doctor": doctor(options.server, environment),
        "run": command_line(options.server, environment),
    }
    seen["mcp"], seen["attack"] = session(options.server, environment, options.warm)
    _, seen["control"] = session(options.server, mode("off"), False)
    # At T3, these modes behave like the default.
    if seen["mcp"]["tier"] != "T3":
        seen["strict"], _ = session(options.server, mode("strict"), False)
        seen["degraded"], _ = session(options.server, mode("degraded"), False)
    print("\n" + json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
