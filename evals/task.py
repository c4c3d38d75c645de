"""An evaluation for inspect_ai: how much does the server help a model to judge hard claims?

    inspect eval evals/task.py -T arm=tool --model …

docs/EVALS.md explains the arms and the report.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, get_args

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage, ChatMessageSystem, ChatMessageTool, ChatMessageUser
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver
from inspect_ai.tool import MCPServer, mcp_server_stdio

Arm = Literal["none", "tool", "skill"]

REPOSITORY = Path(__file__).resolve().parent.parent
CLAIMS = REPOSITORY / "evals/claims.json"
SKILL = REPOSITORY / "skills/verify-claims/SKILL.md"
# The program that was installed with the package `qwed_mcp`.
SERVER = [sys.executable, "-m", "qwed_mcp"]
# A model that repeats the same call does not run forever. A reply and a result are two messages.
MESSAGES_MAX = 50
PROMPT = """Is this claim true or false?

{claim}

End your reply with a line that is either ANSWER: true or ANSWER: false."""
ANSWER = re.compile(r"\W*ANSWER:\W*(true|false)\W*", re.IGNORECASE)
# The beginnings of results that are the fault of the machine or its configuration, and not of the script.
FAULTS = (
    "Execution error: ",
    "Status: failed\n\nResult:\nExecution error: ",
    "BLOCKED_ADMIN_POLICY: ",
    "Server busy: ",
    "internal error",
)


@task
def claims(arm: Arm = "tool") -> Task:
    """Asks for the truth of each claim: without a tool, with the server's tools, or also with the skill."""
    if arm not in get_args(Arm):
        raise ValueError(f"there is no arm {arm!r}: the arms are {', '.join(get_args(Arm))}")
    uses_server = arm != "none"
    return Task(
        dataset=[sample(claim, arm) for claim in json.loads(CLAIMS.read_text())],
        solver=solve_with_server() if uses_server else generate(),
        scorer=[correct(), unparsable()],
        message_limit=MESSAGES_MAX,
        # A failed request to the model leaves its sample without a score.
        fail_on_error=False,
        metadata={"arm": arm, "server": server_state() if uses_server else None},
    )


def sample(claim: dict[str, Any], arm: Arm) -> Sample:
    messages: list[ChatMessage] = [ChatMessageUser(content=PROMPT.format(claim=claim["claim"]))]
    if arm == "skill":
        if not SKILL.is_file():
            raise FileNotFoundError(f"the arm `skill` needs the file {SKILL}, which does not exist")
        messages.insert(0, ChatMessageSystem(content=SKILL.read_text()))
    target = str(claim["answer"]).lower()
    return Sample(id=claim["id"], input=messages, target=target, metadata={"kind": claim["kind"]})


def server_environment() -> dict[str, str]:
    """Returns the variables that the server needs, without the keys of models."""
    names = [name for name in os.environ if name.startswith("QWED_MCP_") or name in ("HOME", "PATH", "VIRTUAL_ENV")]
    return {name: os.environ[name] for name in names}


def server_state() -> dict[str, Any]:
    """Returns the server's version, sandbox tier and packages. Raises RuntimeError if scripts cannot run."""
    command = [*SERVER, "doctor", "--format", "json"]
    ran = subprocess.run(command, env=server_environment(), capture_output=True, text=True)
    try:
        report = json.loads(ran.stdout)
    except ValueError:
        raise RuntimeError(f"`qwed-mcp doctor` has printed no report: {ran.stderr}") from None
    if not report["can_run"] or report["admin_gate"] != "open":
        reason = report["refusal"] or "set QWED_MCP_TRUSTED_CODE_EXECUTION=true"
        raise RuntimeError(f"the server cannot run scripts, so nothing is evaluated: {reason}")
    return {"version": report["version"], "tier": report["sandbox"]["tier"], "packages": report["packages"]}


@solver
def solve_with_server() -> Solver:
    server: MCPServer = mcp_server_stdio(
        name="qwed-mcp", command=SERVER[0], args=SERVER[1:], env=server_environment()
    )

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        # One process of the server for each sample, because background jobs live as long as the process.
        async with server as session:
            state.tools = await session.tools()
            return await generate(state)

    return solve


def fault(state: TaskState) -> str | None:
    """Returns a result of a tool that is the fault of the machine, if there is one."""
    results = [message for message in state.messages if isinstance(message, ChatMessageTool)]
    texts = (message.error.message if message.error else message.text for message in results)
    return next((text for text in texts if text.startswith(FAULTS)), None)


def parsed_answer(reply: str) -> str | None:
    """Returns `true` or `false`, or None if the last line of the reply is not an answer."""
    lines = reply.strip().splitlines()
    found = ANSWER.fullmatch(lines[-1]) if lines else None
    return found[1].lower() if found else None


@scorer(metrics=[accuracy(), stderr()])
def correct() -> Scorer:
    """Scores whether the answer is right. An unparsable answer is wrong."""

    async def score(state: TaskState, target: Target) -> Score:
        if reason := fault(state):
            return Score.unscored(reason="scoring_failed", explanation=reason)
        answer = parsed_answer(state.output.completion)
        return Score(value=CORRECT if answer == target.text else INCORRECT, answer=answer)

    return score


@scorer(metrics=[mean()])
def unparsable() -> Scorer:
    """Counts replies without an answer that can be read."""

    async def score(state: TaskState, target: Target) -> Score:
        if reason := fault(state):
            return Score.unscored(reason="scoring_failed", explanation=reason)
        return Score(value=int(parsed_answer(state.output.completion) is None))

    return score
