"""Tests the Python SDK `mcp` 1.x, which most Python hosts use, against the server (revision 2025-11-25)."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import httpx
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client

from recording import Recording
from scenario import ClientTimedOut, Reply, Server, run


class Connection:
    def __init__(self, session: ClientSession, opening: types.InitializeResult, server: Server) -> None:
        self._session = session
        self._recordings = server.recordings
        self.protocol_version = opening.protocolVersion
        self.server_name = opening.serverInfo.name
        self.instructions = opening.instructions or ""

    async def list_tools(self) -> list[dict[str, Any]]:
        listing = await self._session.list_tools()
        return [tool.model_dump(exclude_unset=True) for tool in listing.tools]

    async def prompt(self, name: str, arguments: dict[str, str]) -> tuple[list[str], str]:
        listing = await self._session.list_prompts()
        filled = await self._session.get_prompt(name, arguments)
        return [prompt.name for prompt in listing.prompts], filled.messages[0].content.text

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout: float | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> Reply:
        async def report_progress(progress: float, _total: float | None, _message: str | None) -> None:
            on_progress(progress)

        try:
            result = await self._session.call_tool(
                tool,
                arguments,
                read_timeout_seconds=None if timeout is None else timedelta(seconds=timeout),
                progress_callback=None if on_progress is None else report_progress,
            )
        except McpError as error:
            if timeout is None or error.error.code != httpx.codes.REQUEST_TIMEOUT:
                raise
            await self._cancel_last_call()
            raise ClientTimedOut from error
        texts = [block.text for block in result.content if block.type == "text"]
        pictures = [(block.mimeType, block.data) for block in result.content if block.type == "image"]
        return Reply(result.isError, texts, result.meta or {}, pictures)

    async def _cancel_last_call(self) -> None:
        """Sends the cancel notification after a timeout. This SDK does not send it, and hides the request ids. A
        host that wants to cancel must do the same."""
        recording = await Recording.of_session(self._recordings)
        calls = [m for m in recording.sent if m["method"] == "tools/call"]
        params = types.CancelledNotificationParams(requestId=calls[-1]["id"], reason="timed out")
        await self._session.send_notification(
            types.ClientNotification(types.CancelledNotification(params=params))
        )


@asynccontextmanager
async def connect(server: Server) -> AsyncIterator[Connection]:
    parameters = StdioServerParameters(command=server.command, args=server.arguments, env=server.env)
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        yield Connection(session, await session.initialize(), server)


sys.exit(anyio.run(run, "python-mcp-1", "2025-11-25", connect))
