"""Starts a server from a client's configuration with a real client (the Python SDK), and computes a derivative
repeatedly.

    client.py FILE KEY NAME TIER

FILE is a client's JSON; FILE[KEY][NAME] has `command`, `args` and `env`. TIER is the sandbox that the runs must have.
One of them must come from a warm interpreter. Prints one line with the results.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import get_default_environment, stdio_client

CODE = "from sympy import symbols, diff\nx = symbols('x')\nprint(diff(x**3, x))\n"
RESULT = "STDOUT:\n3*x**2\n\nExecution completed successfully."


async def main(file: str, key: str, name: str, tier: str) -> None:
    entry = json.loads(Path(file).read_text(encoding="utf-8"))[key][name]
    # A few variables and those of the file, as clients do.
    environment = {**get_default_environment(), **entry.get("env", {})}
    parameters = StdioServerParameters(command=entry["command"], args=entry.get("args", []), env=environment)
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        opening = await session.initialize()
        tools = sorted(tool.name for tool in (await session.list_tools()).tools)
        assert tools == ["execute_python_code", "verification_status"], tools
        was_warm = False
        # Interpreters become warm after the first calls.
        for _ in range(60):
            reply = await session.call_tool(
                "execute_python_code", {"code": CODE}, read_timeout_seconds=timedelta(seconds=120)
            )
            assert not reply.isError, reply
            assert reply.content[0].text == RESULT, reply.content[0].text
            execution = reply.meta["qwed.ai/execution"]
            assert execution["sandbox"] == tier, execution
            if was_warm := execution["warm"]:
                break
            await anyio.sleep(1)
        assert was_warm, "no call was warm"
    print(f"{opening.serverInfo.name} {opening.serverInfo.version}: {tier}, warm")


anyio.run(main, *sys.argv[1:])
