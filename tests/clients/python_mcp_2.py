"""Tests the Python SDK `mcp` 2.x against the server.

The third argument chooses the era: `legacy` (the method `initialize`), or `auto`, the SDK's default. `auto` calls
`server/discover`, and must choose the stateless revision 2026-07-28.
"""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import REQUEST_TIMEOUT

from scenario import ClientTimedOut, Reply, Server, run

MODE = sys.argv[3]
CLIENT, PROTOCOL_VERSION = {
    "legacy": ("python-mcp-2 legacy", "2025-11-25"),
    "auto": ("python-mcp-2 stateless", "2026-07-28"),
}[MODE]


class Connection:
    def __init__(self, client: Client) -> None:
        self._client = client
        self.protocol_version = client.protocol_version
        self.server_name = client.server_info.name if client.server_info else ""
        self.instructions = client.instructions or ""

    async def list_tools(self) -> list[dict[str, Any]]:
        listing = await self._client.list_tools()
        return [tool.model_dump(by_alias=True, exclude_unset=True) for tool in listing.tools]

    async def prompt(self, name: str, arguments: dict[str, str]) -> tuple[list[str], str]:
        listing = await self._client.list_prompts()
        filled = await self._client.get_prompt(name, arguments)
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
            result = await self._client.call_tool(
                tool,
                arguments,
                read_timeout_seconds=timeout,
                progress_callback=None if on_progress is None else report_progress,
            )
        except MCPError as error:
            # The SDK itself has sent the cancel notification.
            if timeout is None or error.code != REQUEST_TIMEOUT:
                raise
            raise ClientTimedOut from error
        texts = [block.text for block in result.content if block.type == "text"]
        pictures = [(block.mime_type, block.data) for block in result.content if block.type == "image"]
        return Reply(result.is_error, texts, dict(result.meta or {}), pictures)


@asynccontextmanager
async def connect(server: Server) -> AsyncIterator[Connection]:
    parameters = StdioServerParameters(command=server.command, args=server.arguments, env=server.env)
    async with Client(parameters, mode=MODE) as client:
        yield Connection(client)


sys.exit(anyio.run(run, CLIENT, PROTOCOL_VERSION, connect))
