"""Reads recordings of recorder.py: the messages of one session, and how the server ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio

from processes import is_running

APPEAR_SECONDS_MAX = 10


class Recording:
    """The events of one server process. Every property reads the file again, because the file may still grow."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    async def of_session(cls, directory: Path) -> Recording:
        """Returns the only recording in `directory` whose server is running. Other recordings may have ended,
        because a client may first negotiate the protocol version with a separate process."""
        # A stateless client counts as connected before its first message. So the server may not have started yet.
        with anyio.fail_after(APPEAR_SECONDS_MAX):
            while True:
                recordings = map(cls, directory.glob("*.jsonl"))
                running = [r for r in recordings if r.all("start") and not r.all("exit")]
                if len(running) == 1:
                    return running[0]
                await anyio.sleep(0.02)

    @classmethod
    async def of_closed_session(cls, directory: Path) -> Recording:
        """Returns the only recording in `directory` in which a tool was called."""
        used = [r for r in cls.all_in(directory) if any(m.get("method") == "tools/call" for m in r.sent)]
        assert len(used) == 1, f"{len(used)} recordings with tool calls, expected one"
        assert await used[0].is_whole(), "the recorder was killed"
        return used[0]

    @classmethod
    def all_in(cls, directory: Path) -> list[Recording]:
        recordings = list(map(cls, directory.glob("*.jsonl")))
        assert recordings, f"there is no recording in {directory.name}"
        return recordings

    async def is_whole(self) -> bool:
        """Waits until the session has ended. Returns whether the recorder has recorded the end. Returns False if
        the client killed the recorder."""
        # The recorder writes its last event up to 0.3 s after the client has closed the connection.
        with anyio.fail_after(APPEAR_SECONDS_MAX):
            while is_running(self.recorder_pid) or is_running(self.server_pid):
                if self.all("left_over"):
                    return True
                await anyio.sleep(0.02)
        return bool(self.all("left_over"))

    def all(self, event: str) -> list[dict[str, Any]]:
        # While the recorder runs, the last line may be incomplete. Complete lines end in "\n".
        lines = self._path.read_text().split("\n")[:-1]
        return [e for e in map(json.loads, lines) if e["event"] == event]

    def one(self, event: str) -> dict[str, Any]:
        events = self.all(event)
        assert len(events) == 1, f"{len(events)} events {event!r} recorded, expected one"
        return events[0]

    @property
    def recorder_pid(self) -> int:
        return self.one("start")["recorder_pid"]

    @property
    def server_pid(self) -> int:
        return self.one("start")["server_pid"]

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [json.loads(e["line"]) for e in self.all("to_server")]

    @property
    def received(self) -> list[dict[str, Any]]:
        """Returns the server's messages. Fails on a line that is not a JSON-RPC message."""
        messages = []
        for event in self.all("to_client"):
            assert "unfinished" not in event, f"stdout ends inside a line: {event['line']!r}"
            try:
                message = json.loads(event["line"])
            except ValueError:
                raise AssertionError(f"a line on stdout is not JSON: {event['line']!r}") from None
            assert isinstance(message, dict) and message.get("jsonrpc") == "2.0", f"not JSON-RPC 2.0: {message}"
            messages.append(message)
        return messages

    def call_with(self, code: str) -> dict[str, Any]:
        """Returns the `tools/call` request with this script."""
        calls = [m for m in self.sent if m.get("params", {}).get("arguments", {}).get("code") == code]
        assert len(calls) == 1, f"{len(calls)} calls with {code!r} sent, expected one"
        return calls[0]
