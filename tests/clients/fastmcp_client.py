"""Tests the client of fastmcp. It has no agent, so the checks read the results that its host gets. An error that
the host gets ends the conversation."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError

from agent_scenario import BLOCKED, BLOCKED_SCRIPT, DONE, Conversation, Decide, Scenario, converse, execute, run
from recording import Recording
from report import equal
from scenario import JOB_PLACED, SLEEPING, Server


class Host:
    def __init__(self, client: Client, raise_on_error: bool) -> None:
        self._client = client
        self._raise_on_error = raise_on_error

    async def converse(self, decide: Decide) -> Conversation:
        tools = {tool.name: tool.description or "" for tool in await self._client.list_tools()}
        conversation = Conversation(tools, self._client.instructions or "", end=DONE)
        while call := await decide(conversation.shown):
            try:
                result = await self._client.call_tool(
                    call.tool, call.arguments, raise_on_error=self._raise_on_error
                )
                shown = ["error" if result.is_error else "result", *(block.text for block in result.content if block.type == "text")]
                conversation.pictures += [
                    block.data for block in result.content if block.type == "image" and block.mime_type == "image/png"
                ]
                assert result.data is None, f"structured content: {result.data!r}"
            except (ToolError, MCPError) as error:
                shown = [type(error).__name__, str(error)]
            conversation.shown.append(shown)
        return conversation


class FastMCP:
    name = "fastmcp"
    opening = "server/discover"
    shows_instructions = True
    cancels = True
    server_per_call = False
    after_timeout = ([["MCPError", "Request 'tools/call' timed out"]], DONE)
    after_governed_refusal = ([["MCPError", "Authentication required"]], DONE)

    def __init__(self, raise_on_error: bool = True) -> None:
        self._raise_on_error = raise_on_error

    @asynccontextmanager
    async def connect(self, server: Server, timeout: float | None = None) -> AsyncIterator[Host]:
        transport = StdioTransport(server.command, server.arguments, env=server.env, keep_alive=False)
        async with Client(transport, timeout=timeout) as client:
            yield Host(client, self._raise_on_error)

    def result(self, *texts: str) -> Any:
        return ["result", *texts]

    def error(self, *texts: str) -> Any:
        return ["ToolError", texts[0]]


async def check_whole_error(scenario: Scenario) -> None:
    async with scenario.check("with raise_on_error=False the host gets all texts of an error") as server:
        async with FastMCP(raise_on_error=False).connect(server) as host:
            shown, _ = await converse(host, execute(BLOCKED_SCRIPT))
        equal("shown", shown, [["error", *BLOCKED]])


async def check_kept_server(scenario: Scenario) -> None:
    """By default, the transport keeps the server running after the client has closed. So its jobs continue too."""
    async with scenario.check("by default a server is kept, and a later client finds its jobs") as server:
        transport = StdioTransport(server.command, server.arguments, env=server.env)
        async with Client(transport) as client:
            placed = await client.call_tool("execute_python_code", {"code": SLEEPING, "background": True})
        job_id = JOB_PLACED.fullmatch(placed.content[0].text)[1]
        async with Client(transport) as client:
            status = await client.call_tool("verification_status", {"job_id": job_id})
        assert status.content[0].text in ("Status: queued...", "Status: running..."), status.content
        await transport.disconnect()
        equal("servers", len(Recording.all_in(server.recordings)), 1)


sys.exit(anyio.run(run, FastMCP(), check_whole_error, check_kept_server))
