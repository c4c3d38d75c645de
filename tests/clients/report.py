"""Prints one line for each check, and remembers whether a check failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

CHECK_SECONDS_MAX = 30


class Report:
    def __init__(self, client: str) -> None:
        self._client = client
        self.failed = False

    @asynccontextmanager
    async def check(self, title: str, seconds_max: float = CHECK_SECONDS_MAX) -> AsyncIterator[None]:
        """Passes if the block ends in time and without an exception. After a failure, the script continues, because
        later checks are still useful."""
        try:
            with anyio.fail_after(seconds_max):
                yield
        except Exception as error:
            self.failed = True
            print(f"FAIL {self._client}: {title}: {reason(error)}", flush=True)
        else:
            print(f"ok   {self._client}: {title}", flush=True)


def reason(error: BaseException) -> str:
    """Returns the cause of a failure in one line, even if a task group wraps it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(reason, error.exceptions))
    text = " ".join(str(error).split())
    return text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"


def equal(what: str, actual: object, expected: object) -> None:
    assert actual == expected, f"{what} is {actual!r}, expected {expected!r}"
