#!/usr/bin/env python3
"""A fuzzer for messages: sends lines of every kind in every order, and checks that each request is answered.

    tests/endurance/wire.py BINARY [--seconds 600] [--seed N] [--environment DIR]

Starts servers one after the other. Sends each server thousands of lines of both eras of MCP, in bursts that are cut
anywhere: requests that are served, refused, unknown or malformed, with ids of every kind, reused or in flight;
subscriptions; `initialize` at any time and repeatedly; calls that sleep; cancellations of running, unknown and finished
requests; broken JSON, UTF-8 and lines; lines of megabytes. Sometimes the fuzzer stops reading for a while. At the end
it closes the connection of an idle or busy server, sends SIGTERM, or stops reading for good.

The checks:

- each request with a readable id is answered once, a cancelled one at most once, with a permitted answer. Each other
  line that needs an answer gets one with the id null. Nothing else is answered
- a cancelled call is not mentioned after the answer to a later request
- a call is refused because of too many calls only if that many are in flight
- after all lines, the server answers a ping, all its slots are free, and its memory is bounded
- the server exits in time with exit code 0, leaves no process and no file, and has no panic in its log

A few servers get randomly damaged lines. For them, only the last two points are checked, and that no answer has an id
that was not sent. The seed is printed, but the order in which lines arrive still depends on the machine.

Needs Linux, Python 3.11 and a debug build. The exit code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import Interpreter, Unusable, Workspace

PLACES = 256
MEMORY_MIB_MAX = 200
ANSWER_S = 60.0
#: The maximum shutdown time. The documents promise 1.5 s on an idle machine.
END_S = 6.0
GONE_S = 5.0
LIFE_S = (1.0, 6.0)
#: How long a cancelled call may still occupy its slot.
DYING_S = 20.0
RUNS_MAX = 30
LARGE_LINES_MAX = 6

RESULT = "result"
PARSE, REQUEST, METHOD, PARAMS, BUSY, VERSION = -32700, -32600, -32601, -32602, -32603, -32022
CAPABILITY = -32021
ENDS = ["quiet", "quiet", "quiet", "in the middle", "in the middle", "half a line", "SIGTERM", "unread", "full"]

PREFIX = "io.modelcontextprotocol/"
SUBSCRIPTION = PREFIX + "subscriptionId"
#: The possible values of `_meta` in a request, by era.
METAS: dict[str, dict | None] = {
    "none": None,
    "modern": {PREFIX + "protocolVersion": "2026-07-28", PREFIX + "clientCapabilities": {}},
    "modern, no capabilities": {PREFIX + "protocolVersion": "2026-07-28"},
    "unknown": {PREFIX + "protocolVersion": "2031-01-01", PREFIX + "clientCapabilities": {}},
    "legacy": {PREFIX + "protocolVersion": "2025-06-18", PREFIX + "clientCapabilities": {}},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}}


def key_of(name: object) -> object:
    """Returns the id of a message with its type. So "1" differs from 1, and true from both."""
    return (type(name).__name__, name)


@dataclass
class Request:
    """A request without a reply so far, or several requests with the same id."""

    sent: int = 0
    cancelled: int = 0
    answered: int = 0
    allowed: set = field(default_factory=set)
    #: Whether the request runs until it is cancelled.
    stays: bool = False
    #: The highest number of requests in flight when one of them was sent.
    load: int = 0
    #: The serial number of the last request, and the serial number at which it was cancelled.
    serial: int = 0
    serial_cancelled: int | None = None
    #: For a subscription, the number of its acknowledgements.
    acknowledged: int = 0


class Life:
    """One server, the lines that it got, and the lines that it sent."""

    def __init__(
        self,
        workspace: Workspace,
        interpreter: Interpreter,
        dice: random.Random,
        complain: Callable[[str], None],
    ) -> None:
        self.workspace, self.dice, self.complain = workspace, dice, complain
        self.is_wild = dice.random() < 0.2
        self.folder = workspace.new_folder(harness.User("own", None))
        self.requests: dict[object, Request] = {}
        self.nulls_due = self.nulls = self.lines = self.count = self.runs = self.large = 0
        self.era = "closed"
        self.initializes: list[object] = []
        self.dying: collections.deque[float] = collections.deque()
        self.serial = 0
        #: The serial number of the last answered request. The server has read all earlier lines.
        self.serial_answered = 0
        #: For each progress token, its request and its progress so far.
        self.tokens: dict[object, object] = {}
        self.progress: dict[object, float] = {}
        self.changed = threading.Condition()
        self.may_read = threading.Event()
        self.may_read.set()
        self.stops = threading.Timer(0.0, self.may_read.set)
        self.is_full = False
        self.leaves = threading.Event()
        self.log = b""
        environment = {
            "PATH": f"{os.environ['PATH']}:{self.folder}",
            "TMPDIR": str(self.folder),
            "QWED_MCP_PYTHON": str(interpreter.python),
            "QWED_MCP_TRUSTED_CODE_EXECUTION": "true",
            "QWED_MCP_SYNC_CONCURRENCY": dice.choice(["1", "4"]),
            "QWED_MCP_WARM": dice.choice(["on", "off"]),
            "QWED_MCP_LOG": "error",
        }
        self.process = subprocess.Popen(
            [workspace.program], env=environment, cwd="/",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        workspace.children.add(self.process.pid)
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._read_log)]
        for thread in self.threads:
            thread.start()

    # -- sending

    def go_on(self, until: float) -> None:
        """Sends bursts of lines."""
        while time.monotonic() < until and self.process.poll() is None:
            size = self.dice.choice([1, 1, 2, 3, 5, 10, 30, 100, 300])
            burst = b"".join(self._line() + self.dice.choice([b"\n"] * 9 + [b"\r\n"]) for _ in range(size))
            if self.dice.random() < 0.02:
                self._stop_reading(self.dice.uniform(0.1, 1.0))
            while burst:
                cut = len(burst) if self.dice.random() < 0.7 else self.dice.randrange(1, len(burst) + 1)
                self._write(burst[:cut])
                burst = burst[cut:]
            if self.dice.random() < 0.2:
                time.sleep(self.dice.choice([0.001, 0.01, 0.05]))

    def _stop_reading(self, seconds: float) -> None:
        self.may_read.clear()
        self.stops = threading.Timer(seconds, self.may_read.set)
        self.stops.start()

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def _line(self) -> bytes:
        self.lines += 1
        kinds = [
            (self._request, 60),
            (self._cancellation, 12),
            (self._broken, 10),
            (self._notification, 8),
            (self._bad_id, 5),
            (self._response, 2),
            (self._large_line, 1),
        ]
        write = self.dice.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        line = write()
        if self.is_wild and self.dice.random() < 0.3:
            line = bytearray(line)
            for _ in range(self.dice.randrange(1, 4)):
                at = self.dice.randrange(len(line) + 1)
                line[at : at + self.dice.randrange(3)] = self.dice.randbytes(self.dice.randrange(3))
            line = bytes(line).replace(b"\n", b" ")
        return line

    # -- requests

    def _request(self) -> bytes:
        kinds = [
            (self._ping, 10),
            (self._list, 8),
            (self._discover, 6),
            (self._status, 20),
            (self._malformed_call, 10),
            (self._run, 6),
            (self._listen, 6),
            (self._task, 6),
            (self._initialize, 2),
            (self._unknown, 8),
            (self._malformed, 6),
        ]
        return self.dice.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]()

    def _build(self, method: str, params: object, allowed: set, *, stays: bool = False, token: object = None) -> bytes:
        """Returns a line with a request, and records the request."""
        name, text = self._name()
        with self.changed:
            self._note(key_of(name), allowed, stays, token)
            if method == "initialize" and RESULT in allowed:
                self.initializes.append(key_of(name))
                self.era = "opening" if self.era == "closed" else self.era
        members = ['"jsonrpc":"2.0"', f'"id":{text}', f'"method":{json.dumps(method)}']
        if params is not None:
            members.append(f'"params":{params if isinstance(params, str) else json.dumps(params)}')
        if self.dice.random() < 0.05:
            members.append('"extra":' + "[" * 500 + "]" * 500)
        self.dice.shuffle(members)
        space = self.dice.choice(["", "", " ", "\t"])
        return (space + "{" + ("," + space).join(members) + "}" + space).encode("utf-8", "surrogatepass")

    def _note(self, key: object, allowed: set, stays: bool, token: object) -> None:
        request = self.requests.setdefault(key, Request())
        if request.sent > request.answered:
            # The server may still handle the id, or may have answered it meanwhile.
            request.allowed.add(REQUEST)
        self.serial += 1
        request.serial = self.serial
        request.sent += 1
        request.allowed |= allowed | {BUSY}
        request.stays = request.stays or stays
        if token is not None:
            self.tokens[key_of(token)] = key
        while self.dying and self.dying[0] < time.monotonic() - DYING_S:
            self.dying.popleft()
        open_ones = sum(each.sent - each.answered - each.cancelled for each in self.requests.values())
        request.load = open_ones + len(self.dying)

    def _name(self) -> tuple[object, str]:
        """Returns an id, and its JSON text."""
        self.count += 1
        number = self.count
        if self.requests and self.dice.random() < 0.04:
            kind, name = self.dice.choice(list(self.requests))
            return name, json.dumps(name)
        form = self.dice.randrange(12)
        if form == 0:
            return number, f"{number}.0"
        if form == 1:
            return number * 1000, f"{number}e3"
        if form == 2:
            return 2**63 - number, str(2**63 - number)
        if form == 3:
            return -number, str(-number)
        if form == 4:
            return str(number), json.dumps(str(number))
        if form == 5:
            piece = self.dice.choice(["é", "\0", "𝕏", '"', "\\u0041", " "])
            name = piece * self.dice.randrange(1, 40) + str(number)
            return name, json.dumps(name, ensure_ascii=self.dice.random() < 0.5)
        if form == 6:
            name = str(number).ljust(1024, "x")
            return name, json.dumps(name)
        return number, str(number)

    def _params(self, members: dict, meta: str, token: object = None) -> dict:
        about = METAS[meta]
        params = dict(members)
        if about is not None or token is not None:
            params["_meta"] = {**(about or {}), **({"progressToken": token} if token is not None else {})}
        return params

    def _served(self, meta: str) -> set:
        """Returns the permitted replies to a method that both eras have."""
        if meta == "none":
            return {"closed": {PARAMS}, "opening": {PARAMS, RESULT}, "open": {RESULT}}[self.era]
        return {"modern": {RESULT}, "legacy": {RESULT}, "unknown": {VERSION}}.get(meta, {PARAMS})

    def _meta(self) -> str:
        return self.dice.choice([*METAS, "none", "none", "modern", "modern"])

    def _ping(self) -> bytes:
        meta = self._meta()
        allowed = {"none": {RESULT}, "legacy": {RESULT}, "unknown": {VERSION}}.get(meta, {METHOD})
        return self._build("ping", self._params({}, meta) or None, allowed)

    def _list(self) -> bytes:
        meta = self._meta()
        if self.dice.random() < 0.2:
            cursor = self.dice.choice(["x", 5, {}, True])
            return self._build("tools/list", self._params({"cursor": cursor}, meta), {PARAMS})
        return self._build("tools/list", self._params({}, meta) or None, self._served(meta))

    def _discover(self) -> bytes:
        meta = self._meta()
        allowed = {PARAMS} if meta == "none" else self._served(meta)
        return self._build("server/discover", self._params({}, meta) or None, allowed)

    def _listen(self) -> bytes:
        meta = self._meta()
        wanted = {"notifications": self.dice.choice([{}, {"toolsListChanged": True}, {"resourceSubscriptions": ["a"]}])}
        params = self._params(wanted, meta)
        if meta == "modern":
            return self._build("subscriptions/listen", params, {RESULT}, stays=True)
        none = {"closed": {PARAMS}, "opening": {PARAMS, METHOD}, "open": {METHOD}}[self.era]
        allowed = {"none": none, "legacy": {METHOD}, "unknown": {VERSION}}.get(meta, {PARAMS})
        return self._build("subscriptions/listen", params, allowed)

    def _task(self) -> bytes:
        """Returns a request about an unknown task."""
        meta = self._meta()
        method = self.dice.choice(["tasks/get", "tasks/update", "tasks/cancel"])
        name = self.dice.choice([str(uuid.UUID(int=self.dice.getrandbits(128))), "", "x" * 5000])
        params = self._params({"taskId": name, "inputResponses": {}}, meta)
        modern = {CAPABILITY}
        if meta == "modern" and self.dice.random() < 0.5:
            extensions = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
            params["_meta"] = {**METAS[meta], PREFIX + "clientCapabilities": extensions}
            modern = {PARAMS}
        none = {"closed": {PARAMS}, "opening": {PARAMS, METHOD}, "open": {METHOD}}[self.era]
        allowed = {"none": none, "legacy": {METHOD}, "unknown": {VERSION}, "modern": modern}.get(meta, {PARAMS})
        return self._build(method, params, allowed)

    def _initialize(self) -> bytes:
        if self.dice.random() < 0.4:
            return self._build("initialize", self.dice.choice([{}, {"protocolVersion": 7}, None]), {PARAMS})
        if self.dice.random() < 0.2:
            return self._build("initialize", self._params({}, "modern"), {METHOD})
        version = self.dice.choice(["2024-11-05", "2025-11-25", "2026-07-28", "", "x" * 1000])
        return self._build("initialize", {**HELLO, "protocolVersion": version}, {RESULT})

    def _unknown(self) -> bytes:
        methods = ["", "x" * 300, "roots/list", "tasks/list", "Ping", "tools/call ", "rpc.discover", "é\0"]
        method = self.dice.choice(methods)
        params = self.dice.choice([None, {}, [], 7, "x", {"_meta": METAS["modern"]}])
        return self._build(method, json.dumps(params) if params is not None else None, {METHOD})

    def _malformed(self) -> bytes:
        """Returns an invalid request that has an id."""
        method = self.dice.choice(["ping", "tools/list", "server/discover", "initialize"])
        params = self.dice.choice(["[]", "7", '"x"', "null", '{"_meta":7}', '{"a":' + "[" * 2000 + "]" * 2000 + "}"])
        return self._build(method, params, {PARAMS, REQUEST})

    def _status(self) -> bytes:
        meta, token = self._meta(), self._token()
        arguments = self.dice.choice([{"job_id": str(uuid.UUID(int=self.dice.getrandbits(128)))}, {}, {"job_id": 5}])
        call = {"name": self.dice.choice(["verification_status", "verify_math", "x" * 2000]), "arguments": arguments}
        known = token if isinstance(token, (int, str)) and not isinstance(token, bool) else None
        return self._build("tools/call", self._params(call, meta, token), self._served(meta), token=known)

    def _token(self) -> object:
        tokens = [None, None, self.count, f"t{self.count}", 1.5, True, {}, [], "x" * 5000]
        return self.dice.choice(tokens)

    def _malformed_call(self) -> bytes:
        deep = "[" * 3000 + "]" * 3000
        params = self.dice.choice([
            {}, [], 7, None, {"name": 7}, {"name": "x", "arguments": []}, {"name": "x", "arguments": "{}"},
            {"name": "x", "_meta": 7}, '{"name":"x","arguments":{"a":' + deep + "}}", '{"name":"x","name":"y"}',
            '{"name":"x","arguments":{"a":"\\ud800"}}', '{"name":"x","arguments":{"a":1e999}}',
            '{"name":"x","arguments":{"a":[' + "1," * 50_001 + "1]}}",
        ])  # fmt: skip
        return self._build("tools/call", params, {PARAMS})

    def _run(self) -> bytes:
        if self.runs >= RUNS_MAX:
            return self._status()
        self.runs += 1
        meta = self._meta()
        token = self.dice.choice([None, f"run{self.count}", 10_000_000 + self.count])
        sleeps = ["import time\ntime.sleep(60)", "import time\ntime.sleep(0.7)"]
        code = self.dice.choice(["print(1)", "eval('1')", *sleeps])
        arguments = {"code": code, **({"background": True} if self.dice.random() < 0.2 else {})}
        call = {"name": "execute_python_code", "arguments": arguments}
        served = self._served(meta)
        stays = RESULT in served and "60" in code and "background" not in arguments
        return self._build("tools/call", self._params(call, meta, token), served, stays=stays, token=token)

    # -- lines that are not requests

    def _cancellation(self) -> bytes:
        if self.dice.random() < 0.3 or not self.requests:
            params = self.dice.choice([
                None, 7, [], {}, {"requestId": None}, {"requestId": 1.5}, {"requestId": "nobody"}, {"requestId": [1]},
                {"requestId": 2**70}, {"requestId": "nobody", "reason": "x" * 100_000},
            ])  # fmt: skip
            return self._notice("notifications/cancelled", params)
        with self.changed:
            goes_on = lambda each: each.stays and each.sent > each.answered + each.cancelled
            staying = [key for key, each in self.requests.items() if goes_on(each)]
            key = self.dice.choice(staying if staying and self.dice.random() < 0.7 else list(self.requests))
            self._note_cancelled(key)
        return self._notice("notifications/cancelled", {"requestId": key[1], "reason": "x"})

    def _note_cancelled(self, key: object) -> None:
        request = self.requests[key]
        if key in self.initializes and self.era == "opening":
            # The server answers this request before it reads the next line.
            return
        request.cancelled += 1
        self.dying.append(time.monotonic())
        if request.sent == 1 and request.serial_cancelled is None:
            request.serial_cancelled = self.serial

    def _notice(self, method: str, params: object) -> bytes:
        message = {"jsonrpc": self.dice.choice(["2.0"] * 5 + ["1.0"]), "method": method}
        if params is not None:
            message["params"] = params
        return json.dumps(message).encode()

    def _notification(self) -> bytes:
        if self.dice.random() < 0.2:
            return self.dice.choice([b"", b"   ", b"\t\r"])
        methods = ["notifications/initialized", "notifications/progress", "tools/call", "initialize", "ping", "x", ""]
        method = self.dice.choice([*methods, "y" * 90_000])
        return self._notice(method, self.dice.choice([None, {}, 7, {"name": "execute_python_code"}]))

    def _response(self) -> bytes:
        """Returns a response without a request."""
        end = self.dice.choice(['"result":{}', '"error":{"code":1,"message":""}', '"result":null'])
        return f'{{"jsonrpc":"2.0","id":{self.dice.randrange(1000)},{end}}}'.encode()

    def _bad_id(self) -> bytes:
        self.nulls_due += 1
        huge = ["9223372036854775808", "1e400", "9007199254740992.0", json.dumps("x" * 1025)]
        name = self.dice.choice(["null", "1.5", "true", "[]", "{}", '"\\ud800"', *huge])
        method = self.dice.choice(["ping", "tools/call", "x"])
        return f'{{"jsonrpc":"2.0","id":{name},"method":"{method}"}}'.encode()

    def _broken(self) -> bytes:
        self.nulls_due += 1
        noise = self.dice.randbytes(self.dice.randrange(1, 200)).translate(None, b"\n{").strip()
        return self.dice.choice([
            b"{", b'{"jsonrpc":"2.0","id":1,"method":"ping"', b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
            b"7", b"null", b'"x"', b"{}", b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', b"\xef\xbb\xbf{}", b"\0",
            b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', b'{"a":"\0"}', b"[" * 9000, b"x" + noise,
            b'{"jsonrpc":"2.0","method":7}',
        ])  # fmt: skip

    def _large_line(self) -> bytes:
        if self.large >= LARGE_LINES_MAX:
            return self._status()
        self.large += 1
        form = self.dice.randrange(4)
        if form == 0:
            self.nulls_due += 1
            return self.dice.choice([b"x", b"{", b" "]) * (4 * 1024 * 1024 + self.dice.randrange(1, 3_000_000))
        if form == 1:
            params = self._params({"a": "x" * 70_000}, "modern")
            return self._build(self.dice.choice(["ping", "tools/list"]), params, {REQUEST})
        call = {"name": "verification_status", "arguments": {"job_id": "x"}, "_meta": {"a": "x" * 3_000_000}}
        if form == 2:
            call["_meta"] |= METAS["modern"]
            return self._build("tools/call", call, {RESULT})
        call = {"name": "execute_python_code", "arguments": {"code": "#" * 2_000_000}}
        return self._build("tools/call", self._params(call, "modern"), {RESULT})

    # -- receiving

    def _read(self) -> None:
        for line in self.process.stdout:
            self.may_read.wait()
            if self.is_full and not line.endswith(b"\n"):
                # If the client stops reading, it gets only a part of the last line.
                return
            try:
                message = json.loads(line)
            except ValueError:
                self.complain(f"not JSON on stdout: {line[:100]!r}")
                continue
            with self.changed:
                self._accept(message)
                self.changed.notify_all()
            if self.leaves.is_set():
                self.process.stdout.close()
                return

    def _read_log(self) -> None:
        for line in self.process.stderr:
            self.log = (self.log + line)[-20_000:]

    def _accept(self, message: dict) -> None:
        shown = json.dumps(message)[:200]
        if message.get("jsonrpc") != "2.0":
            self.complain(f"no JSON-RPC: {shown}")
        if "method" in message:
            if "id" in message:
                self.complain(f"a request: {shown}")
            self._accept_notification(message, shown)
            return
        if message.get("id") is None:
            self.nulls += 1
            if message.get("error", {}).get("code") not in (PARSE, REQUEST):
                self.complain(f"without an id: {shown}")
            return
        key = key_of(message["id"])
        request = self.requests.get(key)
        if request is None:
            if not self.is_wild:
                self.complain(f"an answer without a request: {shown}")
            return
        request.answered += 1
        if self.is_wild:
            return
        outcome = message["error"]["code"] if "error" in message else RESULT
        if outcome == RESULT and self._is_overtaken(key):
            self.complain(f"a reply after its cancellation: {shown}")
        if request.sent == 1:
            self.serial_answered = max(self.serial_answered, request.serial)
        if outcome not in request.allowed:
            self.complain(f"answered with {outcome}, not with {sorted(map(str, request.allowed))}: {shown}")
        if request.answered > request.sent:
            self.complain(f"answered {request.answered} times: {shown}")
        if outcome == BUSY and (request.load < PLACES and not self.large or "busy" not in message["error"]["message"]):
            self.complain(f"busy with {request.load} in flight: {shown}")
        if key in self.initializes and outcome == RESULT:
            self.era = "open"

    def _accept_notification(self, message: dict, shown: str) -> None:
        params = message.get("params", {})
        if message["method"] == "notifications/subscriptions/acknowledged":
            request = self.requests.get(key_of(params["_meta"][SUBSCRIPTION]))
            if request is not None:
                request.acknowledged += 1
            if not self.is_wild and (request is None or request.acknowledged > request.sent or params["notifications"]):
                self.complain(f"acknowledged: {shown}")
        elif message["method"] == "notifications/progress":
            token = key_of(params["progressToken"])
            if token not in self.tokens and not self.is_wild:
                self.complain(f"progress of an unknown token: {shown}")
            elif self._is_overtaken(self.tokens.get(token)) and not self.is_wild:
                self.complain(f"progress of a cancelled call: {shown}")
            if params["progress"] <= self.progress.get(token, 0.0) and not self.is_wild:
                self.complain(f"progress that does not rise: {shown}")
            self.progress[token] = params["progress"]
        else:
            self.complain(f"an unexpected notification: {shown}")

    def _is_overtaken(self, key: object) -> bool:
        """Returns whether the request was cancelled and a later request has been answered."""
        request = self.requests.get(key, Request())
        is_once = request.sent == 1 and request.serial_cancelled is not None
        return is_once and self.serial_answered > request.serial_cancelled

    # -- shutdown

    def end(self, how: str) -> float:
        """Ends the server and checks it. Returns the duration of the shutdown."""
        self.may_read.set()
        if how == "quiet":
            self._settle()
        if how == "half a line":
            self._write(b'{"jsonrpc":"2.0","id":"ha')
            self.nulls_due += 1
        if how == "full":
            self._fill()
        began = time.monotonic()
        if how == "SIGTERM":
            self.process.send_signal(signal.SIGTERM)
        elif how == "unread":
            self._leave()
        else:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            code = self.process.wait(END_S * 3)
        except subprocess.TimeoutExpired:
            self.complain(f"the server does not exit ({how})")
            self.process.kill()
            code = self.process.wait()
        took = time.monotonic() - began
        self.may_read.set()
        if code != 0:
            self.complain(f"exit code {code} ({how}): {self.log[-300:]!r}")
        if took > END_S:
            self.complain(f"the exit took {took:.1f} s ({how})")
        for thread in self.threads:
            thread.join(10.0)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self._judge(how)
        self.workspace.children.discard(self.process.pid)
        return took

    def _fill(self) -> None:
        """Sends more requests than there is space for their replies in the output. Reads none of the replies."""
        self.is_full = True
        self.stops.cancel()
        self.may_read.clear()
        lists = [self._build("tools/list", self._params({}, "modern"), {RESULT}) for _ in range(100)]
        self.nulls_due += 6000
        self._write(b"\n".join([*lists, *[b"x"] * 6000, b""]))

    def _leave(self) -> None:
        """Closes the output. Sends requests until the server notices."""
        ends = time.monotonic() + END_S
        with self.changed:
            self._note(key_of("left"), {RESULT}, False, None)
            self.requests[key_of("left")].sent = sys.maxsize
        self.leaves.set()
        while self.process.poll() is None and time.monotonic() < ends:
            self._write(self._plain("ping", {}, name="left"))
            time.sleep(0.01)

    def _settle(self) -> None:
        """Cancels the running requests, and waits for all replies. Then checks the server."""
        with self.changed:
            # An earlier cancellation may have arrived before its request, so each request is cancelled once more.
            staying = [key for key, request in self.requests.items() if request.stays]
            for key in staying:
                self._note_cancelled(key)
        for key in staying:
            self._write(self._plain("notifications/cancelled", {"requestId": key[1]}))

        def is_answered() -> bool:
            is_quiet = all(each.answered + each.cancelled >= each.sent for each in self.requests.values())
            return is_quiet and self.nulls >= self.nulls_due or self.process.poll() is not None

        if self.is_wild:
            last = self.requests[key_of("last")] = Request(1)
            # Damaged lines may have started calls with unknown ids, and such calls may occupy all slots.
            self._write(self._plain("nobody/knows", {}, name="last"))
            with self.changed:
                if not self.changed.wait_for(lambda: last.answered or self.process.poll() is not None, ANSWER_S):
                    self.complain("the server does not answer any more")
            return
        with self.changed:
            self._note(key_of("last"), {RESULT}, False, None)
        self._write(self._plain("ping", {}, name="last"))
        with self.changed:
            if not self.changed.wait_for(is_answered, ANSWER_S):
                left = {key: each for key, each in self.requests.items() if each.answered + each.cancelled < each.sent}
                self.complain(f"not answered: {self.nulls} of {self.nulls_due} without id, {str(left)[:600]}")
        self._all_places_are_free()
        resident = self.resident_mib()
        if resident > MEMORY_MIB_MAX:
            self.complain(f"{resident} MiB")

    def _plain(self, method: str, params: dict, name: str | None = None) -> bytes:
        about = {} if name is None else {"id": name}
        return json.dumps({"jsonrpc": "2.0", **about, "method": method, "params": params}).encode() + b"\n"

    def _all_places_are_free(self) -> None:
        """Checks that the server acknowledges as many subscriptions as it has slots, after the cancelled calls have
        ended."""
        deadline = time.monotonic() + ANSWER_S
        opened: list[str] = []
        while len(opened) < PLACES and self.process.poll() is None:
            name = f"place {self.count}"
            self.count += 1
            key = key_of(name)
            params = {"_meta": METAS["modern"], "notifications": {}}
            with self.changed:
                self._note(key, {RESULT}, True, None)
                self.requests[key].load = PLACES
            self._write(self._plain("subscriptions/listen", params, name))
            with self.changed:
                request = self.requests[key]
                if not self.changed.wait_for(lambda: request.acknowledged or request.answered, ANSWER_S):
                    self.complain(f"neither acknowledged nor refused: {name}")
                    return
            if request.acknowledged:
                opened.append(name)
            elif time.monotonic() > deadline:
                is_left = lambda each: each.answered < each.sent and not each.acknowledged
                left = {key: each for key, each in self.requests.items() if is_left(each)}
                self.complain(f"{len(opened)} of {PLACES} places are free; perhaps in flight: {str(left)[:900]}")
                break
            else:
                time.sleep(0.05)
        for name in opened:
            with self.changed:
                self._note_cancelled(key_of(name))
            self._write(self._plain("notifications/cancelled", {"requestId": name}))

    def _judge(self, how: str) -> None:
        """Checks the server's remains and its log after the exit."""
        if b"panicked" in self.log:
            self.complain(f"a panic: {self.log[-600:]!r}")
        if not self.is_wild and self.nulls > self.nulls_due:
            self.complain(f"{self.nulls} answers without an id to {self.nulls_due} lines")
        if not self.is_wild and how == "quiet" and self.nulls < self.nulls_due:
            self.complain(f"{self.nulls} answers without an id to {self.nulls_due} lines")
        if harness.eventually(GONE_S, lambda: not self.workspace.alive()) is None:
            self.complain(f"processes are left ({how}): {self.workspace.alive()}")
            self.workspace.clear()
        if harness.eventually(GONE_S, lambda: not os.listdir(self.folder)) is None:
            self.complain(f"files are left ({how}): {os.listdir(self.folder)}")

    def resident_mib(self) -> int:
        with contextlib.suppress(OSError):
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE") // harness.MEBIBYTE
        return 0


def main() -> int:
    options = parse_options()
    dice = random.Random(options.seed)
    wrong: list[str] = []
    lives = lines = answers = 0
    worst_end = 0.0
    worst_mib = 0
    print(f"seed {options.seed}", flush=True)
    try:
        interpreter = harness.find_interpreter(options.binary, options.environment)
        with harness.ended_in_order(), Workspace(options.binary) as workspace:
            ends = time.monotonic() + options.seconds
            while time.monotonic() < ends:
                lives += 1
                how = dice.choice(ENDS)

                def complain(what: str, name: str = f"server {lives}, {how}") -> None:
                    wrong.append(what)
                    if len(wrong) < 50:
                        print(f"  WRONG  {name}: {what}", flush=True)

                life = Life(workspace, interpreter, dice, complain)
                life.go_on(min(ends, time.monotonic() + dice.uniform(*LIFE_S)))
                worst_mib = max(worst_mib, life.resident_mib())
                worst_end = max(worst_end, life.end(how))
                lines += life.lines
                answers += life.nulls + sum(request.answered for request in life.requests.values())
    except Unusable as error:
        print(f"not run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    print(f"{lives} servers, {lines} lines, {answers} answers")
    print(f"the longest end took {worst_end:.2f} s, a server had at most {worst_mib} MiB")
    print(f"{len(wrong)} wrong" if wrong else "nothing wrong")
    return 1 if wrong else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path, metavar="BINARY", help="a debug build of the server")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (600)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of the random numbers; printed")
    parser.add_argument("--environment", type=Path, help="the virtual environment whose Python runs the scripts")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
