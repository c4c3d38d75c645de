"""Calls a tool of an MCP server over standard input and output."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import contestants
from serve import Result, Runner, argument, serve

# The result texts of `qwed-mcp` and of mcp-run-python.
OUTPUTS = (
    re.compile(r"(?:STDOUT:\n(?P<output>.*?)\n+)??(?:STDERR:\n.*)?Execution completed successfully\..*", re.S),
    re.compile(r"<status>success</status>\n?(?:<output>\n?(?P<output>.*?)\n?</output>)?.*", re.S),
)
WARM_TIMEOUT_S = 60.0


class McpServer(Runner):
    """A server process, and the tool that runs Python."""

    def __init__(self, argv: list[str], tool: str, parameter: str, environment: dict[str, str]) -> None:
        self.tool, self.parameter = tool, parameter
        contestant = contestants.Contestant("server", Path(argv[0]), tuple(argv[1:]))
        bench = contestants.Bench(contestant, contestant, Path(argv[0]), environment, Path(tempfile.mkdtemp()))
        self.server = contestants.Server(contestant, bench)
        self.server.initialize()

    def run(self, code: str, timeout_s: float, keep: bool) -> Result:
        result = self.call(code, timeout_s)
        if result is None:
            return Result(False, "", "timed out")
        text = "\n".join(block.get("text", "") for block in result.get("content", []))
        for pattern in OUTPUTS:
            if found := pattern.fullmatch(text):
                return Result(True, found["output"] or "")
        return Result(False, text, text)

    def call(self, code: str, timeout_s: float) -> dict[str, Any] | None:
        """Calls the tool. After the timeout, cancels the call as MCP clients do, and returns None."""
        contestants.REPLY_TIMEOUT_S = timeout_s
        began = time.monotonic()
        try:
            return self.server.request("tools/call", {"name": self.tool, "arguments": {self.parameter: code}})
        except contestants.NotMeasured:
            if time.monotonic() - began < timeout_s:
                raise
            self.server.cancel_last()
            return None

    def prepare(self, code: str, timeout_s: float) -> None:
        """Waits for a warm interpreter, if the server reports whether a run was warm."""
        deadline = time.monotonic() + WARM_TIMEOUT_S
        while time.monotonic() < deadline:
            result = self.call(code, timeout_s) or {}
            if result.get("_meta", {}).get("qwed.ai/execution", {}).get("warm", True):
                break
            time.sleep(0.1)
        super().prepare(code, timeout_s)


serve(lambda: McpServer(**argument()))
