"""Tests an agent of langchain, with langchain-mcp-adapters and a scripted chat model.

The third argument chooses how the tools are loaded. `per-call` uses `MultiServerMCPClient.get_tools()`, which
starts a server for each call. `session` uses `load_mcp_tools` in one session.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.interceptors import MCPToolCallRequest
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import McpError
from mcp.types import CallToolResult, TextContent

from agent_scenario import (
    CLIENT_TIMEOUT_SECONDS,
    DONE,
    RUN_PYTEST,
    Conversation,
    Decide,
    Scenario,
    converse,
    execute,
    run,
)
from report import equal, reason
from scenario import SLEEPING, Server, governed_env

MODE = sys.argv[3]


class ScriptedModel(BaseChatModel):
    decide: Any
    conversation: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools, **_) -> BaseChatModel:
        self.conversation.tools = {tool.name: tool.description for tool in tools}
        return self

    def _generate(self, *_, **__) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *_, **__) -> ChatResult:
        conversation = self.conversation
        conversation.shown = [[m.status, *blocks(m)] for m in messages if isinstance(m, ToolMessage)]
        conversation.pictures = [
            block["base64"]
            for _, *shown in conversation.shown
            for block in shown
            if isinstance(block, dict) and block["type"] == "image" and block["mime_type"] == "image/png"
        ]
        conversation.instructions = "\n".join(m.text for m in messages if isinstance(m, SystemMessage))
        call = await self.decide(conversation.shown)
        if call:
            id = f"call-{len(conversation.shown)}"
            message = AIMessage("", tool_calls=[{"name": call.tool, "args": call.arguments, "id": id}])
        else:
            message = AIMessage(DONE)
        return ChatResult(generations=[ChatGeneration(message=message)])


def blocks(message: ToolMessage) -> list[Any]:
    """Returns the blocks without their random ids."""
    if isinstance(message.content, str):
        return [message.content]
    return [{key: value for key, value in block.items() if key != "id"} for block in message.content]


class LangChainAgent:
    def __init__(self, tools: list[BaseTool]) -> None:
        self._tools = tools

    async def converse(self, decide: Decide) -> Conversation:
        conversation = Conversation()
        agent = create_agent(ScriptedModel(decide=decide, conversation=conversation), self._tools)
        try:
            state = await agent.ainvoke({"messages": [("user", "Check it.")]})
            conversation.end = state["messages"][-1].text
        except (McpError, ExceptionGroup) as error:
            conversation.end = reason(error)
        return conversation


def timed_out(seconds: float) -> str:
    return f"McpError: Timed out while waiting for response to ClientRequest. Waited {seconds:.1f} seconds."


class LangChain:
    name = f"langchain {MODE}"
    opening = "initialize"
    shows_instructions = False
    cancels = False
    server_per_call = MODE == "per-call"
    after_timeout = ([], timed_out(CLIENT_TIMEOUT_SECONDS))
    after_governed_refusal = ([], "McpError: Authentication required")

    def __init__(self, *interceptors: Any) -> None:
        self._interceptors = list(interceptors)

    @asynccontextmanager
    async def connect(self, server: Server, timeout: float | None = None) -> AsyncIterator[LangChainAgent]:
        connection = {
            "transport": "stdio",
            "command": server.command,
            "args": server.arguments,
            "env": server.env,
            "session_kwargs": {"read_timeout_seconds": timeout and timedelta(seconds=timeout)},
        }
        client = MultiServerMCPClient({"qwed": connection}, tool_interceptors=self._interceptors)
        if self.server_per_call:
            yield LangChainAgent(await client.get_tools())
        else:
            async with client.session("qwed") as session:
                yield LangChainAgent(await load_mcp_tools(session, tool_interceptors=self._interceptors))

    def result(self, *texts: str) -> Any:
        return ["success", *({"type": "text", "text": text} for text in texts)]

    def error(self, *texts: str) -> Any:
        return ["error", *({"type": "text", "text": text} for text in texts)]


async def check_told_failures(scenario: Scenario) -> None:
    async def tell(request: MCPToolCallRequest, handler: Any) -> CallToolResult:
        try:
            return await handler(request)
        except McpError as error:
            return CallToolResult(content=[TextContent(type="text", text=str(error))], isError=True)

    title = "with an interceptor the model gets the reason for a governed refusal"
    async with scenario.check(title, **governed_env(token="")) as server:
        framework = LangChain(tell)
        async with framework.connect(server) as agent:
            conversation = await converse(agent, RUN_PYTEST)
        equal("conversation", conversation, ([framework.error("Authentication required")], DONE))


async def check_given_up_call(scenario: Scenario) -> None:
    """The SDK 1.x does not send a cancel notification."""
    title = "an abandoned call keeps its turn, and its session ends normally"
    async with scenario.check(title, servers_killed_max=1) as server:
        seconds = 1.5
        async with LangChain().connect(server, seconds) as agent:
            equal("first", await converse(agent, execute(SLEEPING)), ([], timed_out(seconds)))
            equal("next one", await converse(agent, execute("print(6*7)")), ([], timed_out(seconds)))


further = [check_told_failures] if LangChain.server_per_call else [check_told_failures, check_given_up_call]
sys.exit(anyio.run(run, LangChain(), *further))
