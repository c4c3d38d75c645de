"""Runs each script in a new session of pydantic-monty's pool of workers."""

from __future__ import annotations

import contextlib
from typing import Any

from serve import Result, Runner, serve

MEMORY_BYTES = 1 << 30


class Monty(Runner):
    """A pool, and the session that keeps its variables."""

    keeps_state = True

    def __init__(self) -> None:
        import pydantic_monty

        self.library = pydantic_monty
        self.pool = pydantic_monty.Monty().__enter__()
        self.kept = contextlib.ExitStack()
        self.session: Any = None

    def run(self, code: str, timeout_s: float, keep: bool) -> Result:
        limits = {"max_feed_duration_secs": timeout_s, "max_memory": MEMORY_BYTES}
        printed = self.library.CollectString()
        try:
            if keep:
                self.session = self.session or self.kept.enter_context(self.pool.checkout(limits=limits))
                self.session.feed_run(code, print_callback=printed)
            else:
                with self.pool.checkout(limits=limits) as session:
                    session.feed_run(code, print_callback=printed)
        except (self.library.MontyError, MemoryError) as error:
            return Result(False, printed.output, f"{type(error).__name__}: {error}")
        return Result(True, printed.output)

    def reset(self) -> None:
        self.kept.close()
        self.session = None


serve(Monty)
