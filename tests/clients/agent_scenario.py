"""The checks that every agent framework runs against the server. A function replaces the language model. It decides
on each call, from the results that the framework has shown to its model so far.

Each adapter drives one framework. It declares how the framework shows a result, a refusal and a timeout to its
model. docs/CLIENTS.md documents the same for people.
"""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import anyio

from recording import Recording
from report import Report, equal
from scenario import JOB_PLACED, PLOT, Server, governed_env

# The timeout of every call in a session. It is long enough for calls that must succeed on a busy machine.
CLIENT_TIMEOUT_SECONDS = 3
CASE_SECONDS_MAX = 60
# The pauses between polls double, because frameworks limit an agent's turns, sometimes to 10.
FIRST_PAUSE_SECONDS = 0.1

DONE = "done"

# The script sleeps longer than the timeout plus the second that a server continues after the end of input.
ASLEEP = f"import time\ntime.sleep({CLIENT_TIMEOUT_SECONDS + 3})"
# The script runs long enough that an agent that polls slowly still sees the job running.
BACKGROUND = "import time\ntime.sleep(1.5)\nprint(6*7)"
BLOCKED_SCRIPT = "print(eval('6*7'))"
PROVED = "STDOUT:\n42\n\nExecution completed successfully."
BLOCKED = [
    "BLOCKED: QWED blocked python execution: Dangerous function call: eval() (line 1), instead: ast.literal_eval for"
    " data, sympy.sympify for formulas (verification_id=…)",
    "Error code: QWED-MCP-RISK-005",
]


@dataclass(frozen=True)
class Call:
    """A tool call that the model has decided on."""

    tool: str
    arguments: dict[str, Any]


def execute(code: str, **arguments: object) -> Call:
    return Call("execute_python_code", {"code": code, **arguments})


RUN_PYTEST = Call("run_pytest", {"test_path": "test_one.py"})

# The function that replaces the model. It gets one item for each of its earlier calls. It returns the next call, or
# None to end the conversation.
Decide = Callable[[list[Any]], Awaitable[Call | None]]


@dataclass
class Conversation:
    """The results that the framework has shown to its model, and the end of the agent: `DONE`, or the error that it
    raised."""

    tools: dict[str, str] = field(default_factory=dict)
    instructions: str = ""
    shown: list[Any] = field(default_factory=list)
    # The pictures in the results, as base64.
    pictures: list[str] = field(default_factory=list)
    end: str = ""


class Agent(Protocol):
    """An agent of a framework, connected to the server."""

    async def converse(self, decide: Decide) -> Conversation:
        """Runs a conversation. If the framework raises an error, the conversation ends without an exception."""


class Framework(Protocol):
    """An adapter: a framework, and the properties that the checks expect."""

    name: str
    # The method of the first message, which depends on the protocol era.
    opening: str
    # Whether the framework shows the server's instructions without a request: to the model, or to the host if the
    # framework has no agent.
    shows_instructions: bool
    # Whether the framework sends `notifications/cancelled` after its timeout.
    cancels: bool
    # Whether the framework starts a new server process for each call.
    server_per_call: bool
    # The results that the framework shows to its model, and how the agent ends.
    after_timeout: tuple[list[Any], str]
    after_governed_refusal: tuple[list[Any], str]

    def connect(self, server: Server, timeout: float | None = None) -> AbstractAsyncContextManager[Agent]:
        """Connects an agent. `timeout` is the framework's timeout for each call in seconds, or None for its
        default."""

    def result(self, *texts: str) -> Any:
        """Returns the item that the framework shows to its model for a result with these texts."""

    def error(self, *texts: str) -> Any:
        """Returns the item that the framework shows to its model for a result with these texts and `isError`."""


async def run(framework: Framework, *further: Callable[[Scenario], Awaitable[None]]) -> int:
    """Runs all checks and the adapter's `further` checks. Returns the exit code of the script. The script's
    arguments are the server binary and a folder for recordings."""
    scenario = Scenario(framework, Report(framework.name), sys.argv[1], Path(sys.argv[2]))
    checks = [
        check_rules,
        check_refuted_claims,
        check_refusal,
        check_picture,
        check_inputs,
        check_background_job,
        check_unknown_job,
        check_timeout,
        check_governed_refusal,
        *further,
    ]
    for check in checks:
        await check(scenario)
    return 1 if scenario.report.failed else 0


@dataclass
class Scenario:
    """The context of all checks."""

    framework: Framework
    report: Report
    binary: str
    recordings: Path

    @asynccontextmanager
    async def check(self, title: str, *, servers_killed_max: int = 0, **env: str) -> AsyncIterator[Server]:
        """Runs a check with one server, or with one server for each call. The servers get the variables `env`. They
        must exit by themselves, except for up to `servers_killed_max` servers that the client may kill."""
        server = Server.recorded(self.binary, self.recordings / re.sub(r"\W+", "-", title))
        server.env |= env
        async with self.report.check(title, CASE_SECONDS_MAX):
            yield server
            await self._check_ends(server, servers_killed_max)

    async def _check_ends(self, server: Server, servers_killed_max: int) -> None:
        killed = 0
        for recording in Recording.all_in(server.recordings):
            equal("opening", recording.sent[0]["method"], self.framework.opening)
            if await recording.is_whole():
                equal("exit code of the server", recording.one("exit")["code"], 0)
                equal("signals to the server", recording.all("signal"), [])
                equal("processes left over", recording.one("left_over")["processes"], [])
            else:
                killed += 1
        assert killed <= servers_killed_max, f"the client killed {killed} servers"


async def converse(agent: Agent, *calls: Call) -> tuple[list[Any], str]:
    """Runs a conversation with these calls, whatever their results are. Returns the shown results, and how the
    conversation ended."""

    async def decide(shown: list[Any]) -> Call | None:
        return calls[len(shown)] if len(shown) < len(calls) else None

    conversation = await agent.converse(decide)
    return [comparable(item) for item in conversation.shown], conversation.end


def comparable(item: Any) -> Any:
    """Removes the parts that differ between calls, and the marks that newer Pythons print below a line of code."""
    text = json.dumps(item)
    text = re.sub("verification_id=[0-9a-f]{64}", "verification_id=…", text)
    # A framework may show two texts as JSON. This escapes the backslash of a line end once more.
    return json.loads(re.sub(r"(\\+)n +\^+\1n", r"\1n", text))


def refuted_claim(product: int) -> str:
    return f"print('checking')\nassert 6*7 == {product}, 'not {product}'"


def refuted(product: int) -> tuple[str, str]:
    """Returns the server's texts for a refuted claim: the output of the script, and the values of the failed
    assertion."""
    output = (
        "STDOUT:\nchecking\n\nSTDERR:\nTraceback (most recent call last):\n"
        '  File "<verification>", line 2, in <module>\n'
        f"    assert 6*7 == {product}, 'not {product}'\n"
        f"AssertionError: not {product}\n\nExecution failed with return code 1"
    )
    return output, f"line 2: 6*7 == {product}; 6*7 = 42"


async def check_rules(scenario: Scenario) -> None:
    async with scenario.check("the model gets the rules, at the latest with the tools") as server:
        async with scenario.framework.connect(server) as agent:
            conversation = await agent.converse(nothing)
        equal("end", conversation.end, DONE)
        listing = first_on_wire(server, "tools")
        equal("tools", conversation.tools, {tool["name"]: tool["description"] for tool in listing})
        rules = conversation.tools["execute_python_code"]
        assert "Not allowed: eval" in rules and "poll verification_status" in rules, f"no rules in {rules!r}"
        expected = first_on_wire(server, "instructions") if scenario.framework.shows_instructions else ""
        equal("instructions", conversation.instructions, expected)


def first_on_wire(server: Server, key: str) -> Any:
    """Returns the value of `key` in the first result that has this key."""
    received = [message for recording in Recording.all_in(server.recordings) for message in recording.received]
    return next(m["result"][key] for m in received if key in m.get("result", {}))


async def nothing(_shown: list[Any]) -> None:
    """Ends the conversation without a call."""


async def check_refuted_claims(scenario: Scenario) -> None:
    """Some frameworks end an agent at its second error. A refuted claim is not an error, so the agent continues."""
    framework = scenario.framework
    async with scenario.check("two refuted claims in a row are results, and the agent goes on") as server:
        async with framework.connect(server) as agent:
            calls = execute(refuted_claim(41)), execute(refuted_claim(43)), execute("print(6*7)")
            shown, end = await converse(agent, *calls)
        equal("shown", shown, [framework.result(*texts) for texts in (refuted(41), refuted(43), [PROVED])])
        equal("end", end, DONE)


async def check_refusal(scenario: Scenario) -> None:
    framework = scenario.framework
    async with scenario.check("a refusal suggests an alternative, and the agent goes on") as server:
        async with framework.connect(server) as agent:
            shown, end = await converse(agent, execute(BLOCKED_SCRIPT), execute("print(6*7)"))
        equal("shown", shown, [framework.error(*BLOCKED), framework.result(PROVED)])
        equal("end", end, DONE)


async def check_picture(scenario: Scenario) -> None:
    """Draws a plot in an interpreter that has matplotlib."""
    python = os.environ["GOVERNED_PYTHON"]
    async with scenario.check("the model is shown a plot, byte for byte", QWED_MCP_PYTHON=python) as server:
        async with scenario.framework.connect(server) as agent:

            async def decide(shown: list[Any]) -> Call | None:
                return None if shown else execute(PLOT)

            conversation = await agent.converse(decide)
        equal("end", conversation.end, DONE)
        contents = [
            message["result"]["content"]
            for recording in Recording.all_in(server.recordings)
            for message in recording.received
            if "content" in message.get("result", {})
        ]
        drawn = [block["data"] for content in contents for block in content if block["type"] == "image"]
        equal("pictures on the wire", len(drawn), 1)
        assert conversation.pictures == drawn, f"shown are {[text[:40] for text in conversation.pictures]}"


async def check_inputs(scenario: Scenario) -> None:
    """Passes 3 MB of CSV and a JSON value as inputs."""
    row = "1,two,3.5,2026-01-01\n"
    count = 3_000_000 // len(row)
    code = "import csv\nwith open('table.csv') as file:\n    print(len(list(csv.reader(file))) == inputs['n']['rows'])"
    call = execute(code, inputs={"table.csv": row * count, "n": {"json": {"rows": count}}})
    async with scenario.check("a table of 3 MB reaches the script") as server:
        async with scenario.framework.connect(server) as agent:
            shown, end = await converse(agent, call)
        equal("shown", shown, [scenario.framework.result("STDOUT:\nTrue\n\nExecution completed successfully.")])
        equal("end", end, DONE)


async def check_background_job(scenario: Scenario) -> None:
    framework = scenario.framework
    polls: list[Any] = []
    job_id = ""

    async def poll(shown: list[Any]) -> Call | None:
        nonlocal job_id
        if not shown:
            return execute(BACKGROUND, background=True)
        if len(shown) == 1:
            placed = JOB_PLACED.search(json.dumps(shown[0]))
            assert placed, f"no job in {shown[0]!r}"
            job_id = placed[1]
            equal("placed", shown[0], framework.result(placed[0]))
        else:
            polls[:] = shown[1:]
            if polls[-1] not in [framework.result(f"Status: {state}...") for state in ("queued", "running")]:
                return None
            await anyio.sleep(FIRST_PAUSE_SECONDS * 2 ** len(polls))
        return Call("verification_status", {"job_id": job_id})

    ends = "lost with its server" if framework.server_per_call else "polled to its end"
    async with scenario.check(f"a background job is {ends}") as server:
        async with framework.connect(server) as agent:
            conversation = await agent.converse(poll)
        equal("end", conversation.end, DONE)
        if framework.server_per_call:
            equal("polls", polls, [framework.error(*job_unknown(job_id))])
        else:
            assert framework.result("Status: running...") in polls, f"never seen running: {polls}"
            equal("last poll", polls[-1], framework.result(f"Status: success\n\nResult:\n{PROVED}"))


def job_unknown(job_id: str) -> list[str]:
    return [
        f"Error: Job ID '{job_id}' not found or expired.",
        "Jobs live as long as the server process that placed them, and for one hour after their last change."
        " A client that starts a new server for each call must run scripts with background=false.",
    ]


async def check_unknown_job(scenario: Scenario) -> None:
    framework = scenario.framework
    job_id = str(uuid.uuid4())
    async with scenario.check("the answer about an unknown job gives the reason") as server:
        async with framework.connect(server) as agent:
            shown, end = await converse(agent, Call("verification_status", {"job_id": job_id}))
        equal("shown", shown, [framework.error(*job_unknown(job_id))])
        equal("end", end, DONE)


async def check_timeout(scenario: Scenario) -> None:
    """If the framework does not cancel the call, the script keeps its turn. So the server gets two turns."""
    framework = scenario.framework
    keeps_turn = not framework.cancels and not framework.server_per_call
    env = {"QWED_MCP_SYNC_CONCURRENCY": "2"} if keeps_turn else {}
    # The client closes this session during the call. It may kill the server before the server exits.
    killed_max = 1 if framework.server_per_call else 0
    title = "after a timeout of the client the next call works"
    async with scenario.check(title, servers_killed_max=killed_max, **env) as server:
        async with framework.connect(server, CLIENT_TIMEOUT_SECONDS) as agent:
            equal("conversation", await converse(agent, execute(ASLEEP)), framework.after_timeout)
            equal("next one", await converse(agent, execute("print(6*7)")), ([framework.result(PROVED)], DONE))
            if keeps_turn:
                await answered_too_late(server)
        sent = [message for recording in Recording.all_in(server.recordings) for message in recording.sent]
        asleep = [m["id"] for m in sent if m.get("params", {}).get("arguments") == {"code": ASLEEP}]
        cancelled = [m["params"]["requestId"] for m in sent if m["method"] == "notifications/cancelled"]
        equal("cancelled", cancelled, asleep if framework.cancels else [])


async def answered_too_late(server: Server) -> None:
    """Waits for the reply to the abandoned call."""
    recording = await Recording.of_session(server.recordings)
    call_id = recording.call_with(ASLEEP)["id"]
    while not any(message.get("id") == call_id for message in recording.received):
        await anyio.sleep(0.1)


async def check_governed_refusal(scenario: Scenario) -> None:
    framework = scenario.framework
    async with scenario.check("a governed call without a token is refused", **governed_env(token="")) as server:
        async with framework.connect(server) as agent:
            conversation = await converse(agent, RUN_PYTEST)
        equal("conversation", conversation, framework.after_governed_refusal)
        received = [m for recording in Recording.all_in(server.recordings) for m in recording.received]
        codes = [message["error"]["code"] for message in received if "error" in message]
        equal("errors on the wire", codes, [-32001])
