"""The checks that every Python client runs against the server. Each adapter drives one SDK."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import anyio

from processes import descendants
from recording import Recording
from report import Report, equal

HERE = Path(__file__).resolve().parent
CASES = json.loads((HERE / "cases.json").read_text())
TOOLS = json.loads((HERE / "tools.json").read_text())
GOVERNED_TOOLS = ["run_pytest", "get_evidence", "list_artifacts", "get_artifact_content"]
STATELESS_VERSION = "2026-07-28"
DECISION_KEY = "qwed.ai/decision"
EXECUTION_KEY = "qwed.ai/execution"

INSTRUCTIONS_CHARS_MAX = 800
SESSION_SECONDS_MAX = 90
CLIENT_TIMEOUT_SECONDS = 1.5
GONE_SECONDS_MAX = 1.0
INTERPRETER_START_SECONDS_MAX = 1.0
CLOSE_SECONDS_MAX = 2.0

SLEEPING = "import time\ntime.sleep(20)"
LONG_RUNNING = "import time\ntime.sleep(2.5)\nprint('rested')"
BACKGROUND = "import time\ntime.sleep(0.7)\nprint(6*7)"
ENDLESS_BACKGROUND = "import time\ntime.sleep(60)"
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1, 4, 9])\nplt.show()"
JOB_PLACED = re.compile(
    r"Verification order is being placed for the request"
    r" ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\."
    r" Check back using the 'verification_status' tool\."
)


class ClientTimedOut(Exception):
    """The client's timeout has expired. The client sends a cancel notification."""


@dataclass
class Reply:
    """The result of a tool. `meta` is its `_meta`. A picture is its MIME type and its bytes as base64."""

    is_error: bool
    texts: list[str]
    meta: dict[str, Any] = field(default_factory=dict)
    pictures: list[tuple[str, str]] = field(default_factory=list)


class Connection(Protocol):
    """The operations that an adapter offers."""

    protocol_version: str
    server_name: str
    instructions: str

    async def list_tools(self) -> list[dict[str, Any]]:
        """Returns the tools with the field names of the protocol."""

    async def prompt(self, name: str, arguments: dict[str, str]) -> tuple[list[str], str]:
        """Returns the names of all prompts, and the text of a prompt with these values."""

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout: float | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> Reply:
        """Calls a tool. Raises `ClientTimedOut` after `timeout` seconds."""


@dataclass
class Server:
    """The command that starts the server with the recorder, and the folder of the recordings."""

    command: str
    arguments: list[str]
    env: dict[str, str]
    recordings: Path

    @classmethod
    def recorded(cls, binary: str, recordings: Path) -> Server:
        recordings.mkdir(parents=True)
        env = {name: value for name, value in os.environ.items() if name.startswith("QWED_")}
        return cls(str(HERE / "recorder.py"), [str(recordings), binary], env, recordings)


Connect = Callable[[Server], AbstractAsyncContextManager[Connection]]


async def run(client: str, protocol_version: str, connect: Connect) -> int:
    """Runs all checks as `client`. Returns the exit code of the script. The script's arguments are the server
    binary and a folder for recordings."""
    report = Report(client)
    binary, recordings = sys.argv[1], Path(sys.argv[2])

    server = Server.recorded(binary, recordings / "session")
    async with report.check("a session opens and closes without an error", SESSION_SECONDS_MAX):
        async with connect(server) as connection:
            recording = await Recording.of_session(server.recordings)
            await check_negotiation(report, connection, recording, protocol_version)
            await check_tools(report, connection)
            await check_prompts(report, connection)
            await check_cases(report, connection)
            await check_background_job(report, connection)
            await check_client_timeout(report, connection, recording)
            await check_progress(report, connection)
    await check_wire(report, server.recordings, protocol_version)
    await check_close(report, "after a session", server.recordings)

    server = Server.recorded(binary, recordings / "close-at-start-of-job")
    async with report.check("a session closes while a job starts"):
        async with connect(server) as connection:
            await place_job(connection, ENDLESS_BACKGROUND)
    await check_close(report, "at the start of a job", server.recordings)

    server = Server.recorded(binary, recordings / "close-with-job")
    async with report.check("a session closes while a job is running"):
        async with connect(server) as connection:
            await wait_until_running(connection, await place_job(connection, ENDLESS_BACKGROUND))
            # "Running" means that the job has its turn. Its processes start a moment later.
            await anyio.sleep(INTERPRETER_START_SECONDS_MAX)
            recording = await Recording.of_session(server.recordings)
            assert descendants(recording.server_pid), "the job has no process"
    await check_close(report, "with a job running", server.recordings)

    await check_governed(report, connect, binary, recordings)
    await check_picture(report, connect, binary, recordings)
    return 1 if report.failed else 0


async def check_governed(report: Report, connect: Connect, binary: str, recordings: Path) -> None:
    """Checks the governed tools, with and without a token in the client's configuration."""
    granted = (governed_folder() / "token").read_text().strip()
    for name, token in [("with a token", granted), ("without a token", "")]:
        server = Server.recorded(binary, recordings / f"governed-{name.replace(' ', '-')}")
        server.env |= governed_env(token)
        async with report.check(f"governed tools {name}", SESSION_SECONDS_MAX):
            async with connect(server) as connection:
                tools = [tool["name"] for tool in await connection.list_tools()]
                equal("tools", tools, [*TOOLS, *GOVERNED_TOOLS])
                try:
                    reply = await connection.call("run_pytest", {"test_path": "test_one.py"})
                except Exception as error:  # each SDK has its own error type
                    equal("code", getattr(error, "code", None) or error.error.code, -32001)
                    assert not token, f"refused with a token: {error}"
                else:
                    assert token and reply.texts[0].startswith("Status: passed, exit code 0, judged: in-process\n1 passed in "), reply
        await check_close(report, f"of governed tools {name}", server.recordings)


async def check_picture(report: Report, connect: Connect, binary: str, recordings: Path) -> None:
    """Checks a plot, with an interpreter that has matplotlib."""
    server = Server.recorded(binary, recordings / "picture")
    server.env["QWED_MCP_PYTHON"] = os.environ["GOVERNED_PYTHON"]
    async with report.check("a plot comes back as a picture that can be decoded", SESSION_SECONDS_MAX):
        async with connect(server) as connection:
            reply = await connection.call("execute_python_code", {"code": PLOT})
            equal("texts", reply.texts, ["Execution completed successfully."])
            equal("types of pictures", [kind for kind, _ in reply.pictures], ["image/png"])
            png = base64.b64decode(reply.pictures[0][1], validate=True)
            described = reply.meta[EXECUTION_KEY]["pictures"][0]
            equal("SHA-256", hashlib.sha256(png).hexdigest(), described["sha256"])
            equal("bytes", len(png), described["bytes"])
            equal("bytes of pixels", len(pixels_of(png)), described["height"] * (1 + 4 * described["width"]))
    await check_close(report, "after a plot", server.recordings)


def pixels_of(png: bytes) -> bytes:
    """Returns the rows of a PNG. Each row begins with a byte for its filter."""
    packed, at = b"", 8
    while at < len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        if png[at + 4 : at + 8] == b"IDAT":
            packed += png[at + 8 : at + 8 + length]
        at += 12 + length
    return zlib.decompress(packed)


def governed_folder() -> Path:
    """Returns the folder with the policy, the token and the tests, which `run` has created."""
    return Path(os.environ["GOVERNED"])


def governed_env(token: str) -> dict[str, str]:
    """Returns the variables of a server with governed tools."""
    return {
        "QWED_MCP_POLICY": str(governed_folder() / "policy.toml"),
        "QWED_MCP_DATA_DIR": str(governed_folder() / "data"),
        "QWED_MCP_PYTHON": os.environ["GOVERNED_PYTHON"],
        "QWED_MCP_AUTH_TOKEN": token,
    }


async def check_negotiation(
    report: Report, connection: Connection, recording: Recording, protocol_version: str
) -> None:
    async with report.check(f"negotiates {protocol_version}"):
        equal("protocol version", connection.protocol_version, protocol_version)
        assert connection.server_name, "the server has no name"
        assert 0 < len(connection.instructions) < INSTRUCTIONS_CHARS_MAX, (
            f"instructions have {len(connection.instructions)} characters"
        )
        # Checks the messages too, because the SDK may report the wrong era.
        methods = [m["method"] for m in recording.sent]
        opening = "server/discover" if protocol_version == STATELESS_VERSION else "initialize"
        equal("first message", methods[0], opening)
        equal("initialize sent", "initialize" in methods, opening == "initialize")


async def check_tools(report: Report, connection: Connection) -> None:
    async with report.check("lists exactly the two tools, with plain schemas and honest annotations"):
        tools = await connection.list_tools()
        equal("tools", [t["name"] for t in tools], list(TOOLS))
        for tool in tools:
            check_tool(tool, TOOLS[tool["name"]])


def check_tool(tool: dict[str, Any], expected: dict[str, Any]) -> None:
    """Checks a tool. `expected` has the types of the properties, `required` and the annotations."""
    name, schema = tool["name"], tool["inputSchema"]
    assert tool.get("description"), f"{name} has no description"
    assert tool.get("outputSchema") is None, f"{name} declares an outputSchema"
    odd = schema.keys() - {"type", "properties", "required", "additionalProperties"}
    assert not odd, f"{name}: unexpected keys in the schema: {sorted(odd)}"
    equal(f"{name}: type", schema["type"], "object")
    equal(f"{name}: required", schema.get("required"), expected["required"])
    types = {p: facts.get("type") for p, facts in schema["properties"].items()}
    equal(f"{name}: types of the properties", types, expected["properties"])
    for property_name, facts in schema["properties"].items():
        # An object has an example of a property, because the Gemini API refuses an object without properties.
        odd = facts.keys() - {"type", "description", "default"} - ({"properties"} if facts["type"] == "object" else set())
        assert not odd, f"{name}.{property_name}: unexpected keys in the schema: {sorted(odd)}"
        assert facts.get("description"), f"{name}.{property_name} has no description"
    annotations = tool.get("annotations") or {}
    equal(f"{name}: annotations", {a: annotations.get(a) for a in expected["annotations"]}, expected["annotations"])


async def check_prompts(report: Report, connection: Connection) -> None:
    async with report.check("lists the prompts, and fills one in"):
        values = {"calculation": "6 * 7", "claimed": "42"}
        names, text = await connection.prompt("check_calculation", values)
        assert "verify_math" in names and len(names) == len(set(names)) > 15, names
        assert '\ncalculation = "6 * 7"\nclaimed = "42"\n' in text, text


async def check_cases(report: Report, connection: Connection) -> None:
    for case in CASES:
        async with report.check(case["check"]):
            reply = await connection.call(case["tool"], case["arguments"])
            equal("number of text blocks", len(reply.texts), len(case["content"]))
            for text, pattern in zip(reply.texts, case["content"]):
                assert re.fullmatch(pattern, text), f"text is {text!r}, expected {pattern!r}"
            equal("isError", reply.is_error, case["is_error"])
            check_meta(reply.meta, case)


def check_meta(meta: dict[str, Any], case: dict[str, Any]) -> None:
    decision, execution = meta.get(DECISION_KEY), meta.get(EXECUTION_KEY)
    assert decision is not None, f"no {DECISION_KEY} in _meta"
    equal("decision", {k: decision.get(k) for k in case["decision"]}, case["decision"])
    assert re.fullmatch("[0-9a-f]{64}", decision["verification_id"]), "verification_id is not a SHA-256"
    assert "normalized_arguments" not in decision, "the decision in _meta carries the arguments"
    if case["execution"] is None:
        equal("execution", execution, None)
    else:
        assert execution is not None, f"no {EXECUTION_KEY} in _meta"
        equal("execution", {k: execution.get(k) for k in case["execution"]}, case["execution"])
        assert execution["duration_ms"] > 0, "the execution took no time"


async def place_job(connection: Connection, code: str) -> str:
    reply = await connection.call("execute_python_code", {"code": code, "background": True})
    equal("number of text blocks", len(reply.texts), 1)
    placed = JOB_PLACED.fullmatch(reply.texts[0])
    assert placed, f"text is {reply.texts[0]!r}"
    equal("isError", reply.is_error, False)
    return placed[1]


async def status_of(connection: Connection, job_id: str) -> str:
    reply = await connection.call("verification_status", {"job_id": job_id})
    equal("number of text blocks", len(reply.texts), 1)
    return reply.texts[0]


async def wait_until_running(connection: Connection, job_id: str) -> None:
    while (status := await status_of(connection, job_id)) != "Status: running...":
        equal("status", status, "Status: queued...")
        await anyio.sleep(0.05)


async def check_background_job(report: Report, connection: Connection) -> None:
    async with report.check("background job polled to success"):
        job_id = await place_job(connection, BACKGROUND)
        # The test must see the status "running" before the job ends.
        await wait_until_running(connection, job_id)
        while (status := await status_of(connection, job_id)) == "Status: running...":
            await anyio.sleep(0.05)
        equal("status", status, "Status: success\n\nResult:\nSTDOUT:\n42\n\nExecution completed successfully.")


async def check_client_timeout(report: Report, connection: Connection, recording: Recording) -> None:
    """Checks that the processes of a cancelled call end. These are the descendants of the recorder that did not
    exist before the call."""
    recorder_pid = recording.recorder_pid
    async with report.check("client timeout: the cancelled call's processes are gone within a second"):
        before = descendants(recorder_pid)
        during: dict[int, str] = {}

        async def look_while_it_sleeps() -> None:
            await anyio.sleep(CLIENT_TIMEOUT_SECONDS * 0.6)
            during.update(descendants(recorder_pid))

        async with anyio.create_task_group() as group:
            group.start_soon(look_while_it_sleeps)
            try:
                reply = await connection.call(
                    "execute_python_code", {"code": SLEEPING}, timeout=CLIENT_TIMEOUT_SECONDS
                )
                raise AssertionError(f"the call ended: {reply}")
            except ClientTimedOut:
                deadline = time.monotonic() + GONE_SECONDS_MAX
        started = during.keys() - before.keys()
        assert started, "no process was seen during the call"
        while remaining := started & descendants(recorder_pid).keys():
            assert time.monotonic() < deadline, f"still there: {[during[pid] for pid in remaining]}"
            await anyio.sleep(0.01)

    async with report.check("client timeout: the next call works at once"):
        with anyio.fail_after(5):
            reply = await connection.call("execute_python_code", {"code": "print('next')"})
        equal("texts", reply.texts, ["STDOUT:\nnext\n\nExecution completed successfully."])


async def check_progress(report: Report, connection: Connection) -> None:
    async with report.check("progress: at least two notifications, strictly rising"):
        seen: list[float] = []
        reply = await connection.call("execute_python_code", {"code": LONG_RUNNING}, on_progress=seen.append)
        equal("texts", reply.texts, ["STDOUT:\nrested\n\nExecution completed successfully."])
        assert len(seen) >= 2, f"progress notifications: {seen}"
        assert all(a < b for a, b in zip(seen, seen[1:])), f"progress does not rise: {seen}"
        # During the pause, a surplus notification would arrive. `check_wire` would find it.
        await anyio.sleep(1.2)


async def check_wire(report: Report, recordings: Path, protocol_version: str) -> None:
    """Checks the messages that the SDK does not show."""
    async with report.check("wire: every line on stdout is a JSON-RPC message"):
        assert (await Recording.of_closed_session(recordings)).received, "nothing was received"

    async with report.check("wire: the timed-out call was cancelled and never answered"):
        recording = await Recording.of_closed_session(recordings)
        call_id = recording.call_with(SLEEPING)["id"]
        cancelled = [
            m["params"]["requestId"] for m in recording.sent if m["method"] == "notifications/cancelled"
        ]
        equal("cancelled requests", cancelled, [call_id])
        equal("replies to the cancelled call", [m for m in recording.received if m.get("id") == call_id], [])

    async with report.check("wire: no progress after the result"):
        recording = await Recording.of_closed_session(recordings)
        call = recording.call_with(LONG_RUNNING)
        token = call["params"].get("_meta", {}).get("progressToken")
        assert token is not None, "the client sent no progressToken"
        story = [
            "result" if m.get("id") == call["id"] else "progress"
            for m in recording.received
            if m.get("id") == call["id"]
            or (m.get("method") == "notifications/progress" and m["params"]["progressToken"] == token)
        ]
        equal("order", story, ["progress"] * (len(story) - 1) + ["result"])

    if protocol_version == STATELESS_VERSION:
        async with report.check("wire: results have the fields that the stateless era requires"):
            recording = await Recording.of_closed_session(recordings)
            tool_lists = {m["id"] for m in recording.sent if m["method"] == "tools/list"}
            for message in recording.received:
                if "id" in message:
                    assert "result" in message, f"an error came back: {message}"
                    equal("resultType", message["result"].get("resultType"), "complete")
                    demanded = {"ttlMs", "cacheScope"} if message["id"] in tool_lists else set()
                    missing = demanded - message["result"].keys()
                    assert not missing, f"tools/list lacks {sorted(missing)}"


async def check_close(report: Report, when: str, recordings: Path) -> None:
    async with report.check(f"close {when}: the server exits with 0 within two seconds, unforced"):
        recording = await Recording.of_closed_session(recordings)
        seconds = recording.one("exit")["at"] - recording.one("end_of_input")["at"]
        equal("exit code", recording.one("exit")["code"], 0)
        equal("signals needed", recording.all("signal"), [])
        assert seconds < CLOSE_SECONDS_MAX, f"it took {seconds:.2f} s"
    async with report.check(f"close {when}: no process is left over"):
        recording = await Recording.of_closed_session(recordings)
        equal("processes", recording.one("left_over")["processes"], [])
