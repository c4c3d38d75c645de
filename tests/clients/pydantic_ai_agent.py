"""Tests an agent of pydantic-ai, with its `MCPToolset` and a `FunctionModel`."""

import base64
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_scenario import (
    BLOCKED,
    BLOCKED_SCRIPT,
    DONE,
    PROVED,
    RUN_PYTEST,
    Conversation,
    Decide,
    Scenario,
    converse,
    execute,
    first_on_wire,
    nothing,
    run,
)
from report import equal
from scenario import Server, governed_env


class PydanticAgent:
    def __init__(self, toolset: MCPToolset) -> None:
        self._toolset = toolset

    async def converse(self, decide: Decide) -> Conversation:
        conversation = Conversation()

        async def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            parts = [part for message in messages for part in message.parts]
            # The outcome shows whether the agent counts the result as a retry.
            conversation.shown = [
                [part.outcome, part.model_response_str()] for part in parts if isinstance(part, ToolReturnPart)
            ]
            contents = [part.content for part in parts if isinstance(part, ToolReturnPart)]
            conversation.pictures = [
                base64.b64encode(item.data).decode()
                for content in contents
                if isinstance(content, list)
                for item in content
                if isinstance(item, BinaryContent) and item.media_type == "image/png"
            ]
            conversation.tools = {tool.name: tool.description or "" for tool in info.function_tools}
            conversation.instructions = info.instructions or ""
            call = await decide(conversation.shown)
            return ModelResponse([ToolCallPart(call.tool, call.arguments) if call else TextPart(DONE)])

        try:
            conversation.end = (await Agent(FunctionModel(model), toolsets=[self._toolset]).run("Check it.")).output
        except AgentRunError as error:
            conversation.end = f"{type(error).__name__}: {error}"
        return conversation


class PydanticAI:
    name = "pydantic-ai"
    opening = "server/discover"
    shows_instructions = False
    cancels = True
    server_per_call = False
    after_timeout = ([["retried", '{"error":"Request \'tools/call\' timed out"}']], DONE)
    after_governed_refusal = ([["retried", '{"error":"Authentication required"}']], DONE)

    def __init__(self, **options: Any) -> None:
        self._options = options

    @asynccontextmanager
    async def connect(self, server: Server, timeout: float | None = None) -> AsyncIterator[PydanticAgent]:
        transport = StdioTransport(server.command, server.arguments, env=server.env, keep_alive=False)
        options = self._options | ({} if timeout is None else {"read_timeout": timeout})
        async with MCPToolset(transport, **options) as toolset:
            yield PydanticAgent(toolset)

    def result(self, *texts: str) -> Any:
        return ["success", as_one(texts)]

    def error(self, *texts: str) -> Any:
        return ["retried", as_json({"error": as_one(texts)})]


def as_one(texts: tuple[str, ...]) -> str:
    """Returns the texts as the framework shows them to the model. Several texts become a JSON array."""
    return texts[0] if len(texts) == 1 else as_json(texts)


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def check_refusals_in_a_row(scenario: Scenario) -> None:
    """Each refusal counts as a retry, and an agent has one retry. An option of the toolset excludes refusals from
    this count."""
    refusal = PydanticAI().error(*BLOCKED)
    calls = execute(BLOCKED_SCRIPT), execute(BLOCKED_SCRIPT), execute("print(6*7)")

    async with scenario.check("by default the second refusal in a row ends the agent") as server:
        async with PydanticAI().connect(server) as agent:
            shown, end = await converse(agent, *calls)
        equal("shown", shown, [refusal])
        equal("end", end.partition(". ")[0], gave_up("execute_python_code"))

    options = {"tool_error_behavior": "failed"}
    async with scenario.check(f"with {options} it does not") as server:
        async with PydanticAI(**options).connect(server) as agent:
            shown, end = await converse(agent, *calls)
        equal("shown", shown, [["failed", refusal[1]]] * 2 + [PydanticAI().result(PROVED)])
        equal("end", end, DONE)

    # With this option, a JSON-RPC error still counts as a retry.
    title = f"with {options} the second governed refusal in a row ends the agent"
    async with scenario.check(title, **governed_env(token="")) as server:
        async with PydanticAI(**options).connect(server) as agent:
            shown, end = await converse(agent, RUN_PYTEST, RUN_PYTEST)
        equal("shown", shown, PydanticAI.after_governed_refusal[0])
        equal("end", end.partition(". ")[0], gave_up("run_pytest"))


def gave_up(tool: str) -> str:
    return f"UnexpectedModelBehavior: Tool '{tool}' exceeded max retries count of 1"


async def check_instructions(scenario: Scenario) -> None:
    async with scenario.check("with include_instructions the model gets them") as server:
        async with PydanticAI(include_instructions=True).connect(server) as agent:
            conversation = await agent.converse(nothing)
        equal("instructions", conversation.instructions, first_on_wire(server, "instructions"))


sys.exit(anyio.run(run, PydanticAI(), check_refusals_in_a_row, check_instructions))
