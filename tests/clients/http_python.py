"""Runs the Python SDK against the server over HTTP: `mcp` 1.x, or 2.x in the given era.

    http_python.py SERVER RECORDINGS 1 | legacy | auto
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from processes import descendants
from report import Report, equal

SERVER, RECORDINGS, MODE = sys.argv[1:4]
VERSION = {"1": "2025-11-25", "legacy": "2025-11-25", "auto": "2026-07-28"}[MODE]
SLEEPING = "import time\ntime.sleep(20)"
LONG = "import time\ntime.sleep(2.2)\nprint('rested')"


class Session1:
    """A session of the SDK 1.x."""

    def __init__(self, session: Any, version: str) -> None:
        self._session, self.version = session, version

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self._session.list_tools()).tools]

    async def call(self, tool: str, arguments: dict[str, Any], on_progress: Any = None) -> tuple[bool, list[str]]:
        result = await self._session.call_tool(tool, arguments, progress_callback=on_progress)
        return result.isError, [block.text for block in result.content]


class Session2:
    """A session of the SDK 2.x."""

    def __init__(self, client: Any) -> None:
        self._client, self.version = client, client.protocol_version

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self._client.list_tools()).tools]

    async def call(self, tool: str, arguments: dict[str, Any], on_progress: Any = None) -> tuple[bool, list[str]]:
        result = await self._client.call_tool(tool, arguments, progress_callback=on_progress)
        return result.is_error, [block.text for block in result.content]


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Session1 | Session2]:
    if MODE == "1":
        from mcp import ClientSession
        from mcp.client.streamable_http import streamablehttp_client

        async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
            opening = await session.initialize()
            yield Session1(session, opening.protocolVersion)
    else:
        from mcp import Client

        async with Client(url, mode=MODE) as client:
            yield Session2(client)


async def run(url: str, pid: int) -> int:
    report = Report(f"http-python-{MODE}")
    async with report.check("connects, and lists the tools"):
        async with connect(url) as session:
            equal("version", session.version, VERSION)
            equal("tools", await session.tools(), ["execute_python_code", "verification_status"])
    async with report.check("a correct script, a failing script, a refused script"):
        async with connect(url) as session:
            answer = await session.call("execute_python_code", {"code": "print(6 * 7)"})
            equal("answer", answer, (False, ["STDOUT:\n42\n\nExecution completed successfully."]))
            is_error, texts = await session.call("execute_python_code", {"code": "assert 1 == 2"})
            assert not is_error and "AssertionError" in texts[0], texts
            is_error, texts = await session.call("execute_python_code", {"code": "import os; os.system('id')"})
            assert is_error and texts[1] == "Error code: QWED-MCP-RISK-005", texts
    async with report.check("inputs of 3 MB"):
        async with connect(url) as session:
            code = "print(len(open('a.txt').read()), len(inputs['b']))"
            inputs = {"a.txt": "é" * 400_000, "b": {"base64": "AAAA" * 250_000}}
            _, texts = await session.call("execute_python_code", {"code": code, "inputs": inputs})
            equal("texts", texts, ["STDOUT:\n400000 750000\n\nExecution completed successfully."])
    async with report.check("a background job polled to success"):
        async with connect(url) as session:
            _, [text] = await session.call("execute_python_code", {"code": "print(42)", "background": True})
            job = text.split("request ")[1][:36]
            while True:
                _, [status] = await session.call("verification_status", {"job_id": job})
                if not status.startswith(("Status: queued", "Status: running")):
                    break
                await anyio.sleep(0.05)
            assert status.startswith("Status: success\n\nResult:\nSTDOUT:\n42"), status
    async with report.check("rising progress, and then the result"):
        async with connect(url) as session:
            seen: list[float] = []

            async def note(progress: float, _total: float | None, _message: str | None) -> None:
                seen.append(progress)

            _, texts = await session.call("execute_python_code", {"code": LONG}, note)
            equal("texts", texts, ["STDOUT:\nrested\n\nExecution completed successfully."])
            assert len(seen) >= 2 and seen == sorted(seen), seen
    async with report.check("a client that disconnects ends its call"):
        before = descendants(pid).keys()
        with anyio.move_on_after(2):
            async with connect(url) as session:
                await session.call("execute_python_code", {"code": SLEEPING})
        deadline = time.monotonic() + 8
        while descendants(pid).keys() - before:
            assert time.monotonic() < deadline, "the script still runs"
            await anyio.sleep(0.05)
    return 1 if report.failed else 0


def main() -> int:
    log = Path(RECORDINGS) / "server.stderr"
    with open(log, "w") as stderr:
        command = [SERVER, "serve", "--http", "127.0.0.1:0", "--drain", "0"]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            while "clients=" not in (text := log.read_text()):
                if server.poll() is not None:
                    raise SystemExit(f"the server exited: {text}")
                time.sleep(0.02)
            return anyio.run(run, text.split("clients=")[1].split()[0], server.pid)
        finally:
            server.terminate()
            server.wait(10)


os.environ.setdefault("QWED_MCP_WARM", "off")
sys.exit(main())
