"""Tests an agent of openai-agents, with its `MCPServerStdio` and a scripted model."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.exceptions import AgentsException
from agents.mcp import MCPServerStdio
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from agent_scenario import DONE, RUN_PYTEST, Conversation, Decide, Scenario, converse, execute, run
from recording import Recording
from report import equal
from scenario import SLEEPING, Server, governed_env

ERROR = "An error occurred while running the tool. Please try again."


class ScriptedModel(Model):
    def __init__(self, decide: Decide, conversation: Conversation) -> None:
        self._decide = decide
        self._conversation = conversation

    async def get_response(self, system_instructions, input, model_settings, tools, *_, **__) -> ModelResponse:
        items = [] if isinstance(input, str) else input
        conversation = self._conversation
        conversation.shown = [item["output"] for item in items if item.get("type") == "function_call_output"]
        blocks = [block for output in conversation.shown if isinstance(output, list) for block in output]
        conversation.pictures = [
            block["image_url"].removeprefix("data:image/png;base64,")
            for block in blocks
            if block["type"] == "input_image"
        ]
        conversation.tools = {tool.name: tool.description for tool in tools}
        conversation.instructions = system_instructions or ""
        call = await self._decide(conversation.shown)
        if call:
            output = ResponseFunctionToolCall(
                type="function_call",
                call_id=f"call-{len(conversation.shown)}",
                name=call.tool,
                arguments=json.dumps(call.arguments),
            )
        else:
            text = ResponseOutputText(type="output_text", text=DONE, annotations=[])
            output = ResponseOutputMessage(
                type="message", id="message", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


class OpenAIAgent:
    def __init__(self, server: MCPServerStdio) -> None:
        self._server = server

    async def converse(self, decide: Decide) -> Conversation:
        conversation = Conversation()
        model = ScriptedModel(decide, conversation)
        try:
            run = await Runner.run(Agent("checker", mcp_servers=[self._server], model=model), "Check it.")
            conversation.end = run.final_output
        except AgentsException as error:
            conversation.end = f"{type(error).__name__}: {error}"
        return conversation


class OpenAIAgents:
    name = "openai-agents"
    opening = "server/discover"
    shows_instructions = False
    cancels = True
    server_per_call = False
    after_timeout = ([ERROR], DONE)
    after_governed_refusal = ([ERROR], DONE)

    def __init__(self, **options: Any) -> None:
        self._options = options

    @asynccontextmanager
    async def connect(self, server: Server, timeout: float | None = None) -> AsyncIterator[OpenAIAgent]:
        parameters = {"command": server.command, "args": server.arguments, "env": server.env}
        options = self._options | ({} if timeout is None else {"client_session_timeout_seconds": timeout})
        async with MCPServerStdio(parameters, **options) as session:
            yield OpenAIAgent(session)

    def result(self, *texts: str) -> Any:
        return [{"type": "input_text", "text": text} for text in texts]

    # The framework shows a result with isError like any other result.
    error = result


async def check_default_timeout(scenario: Scenario) -> None:
    async with scenario.check("the default timeout is 5 seconds") as server:
        async with OpenAIAgents().connect(server) as agent:
            equal("conversation", await converse(agent, execute(SLEEPING)), OpenAIAgents.after_timeout)
        (recording,) = Recording.all_in(server.recordings)
        at = {message["method"]: event["at"] for event, message in zip(recording.all("to_server"), recording.sent)}
        seconds = at["notifications/cancelled"] - at["tools/call"]
        assert 4.5 < seconds, f"given up after {seconds:.1f} s"


async def check_told_failures(scenario: Scenario) -> None:
    options = {"failure_error_function": lambda _context, error: str(error)}
    title = "with a failure_error_function the model gets the reason for a governed refusal"
    async with scenario.check(title, **governed_env(token="")) as server:
        async with OpenAIAgents(**options).connect(server) as agent:
            conversation = await converse(agent, RUN_PYTEST)
        equal("conversation", conversation, (["Authentication required"], DONE))


set_tracing_disabled(True)
sys.exit(anyio.run(run, OpenAIAgents(), check_default_timeout, check_told_failures))
