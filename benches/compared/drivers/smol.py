"""Runs each script in a new local executor of smolagents, inside this process."""

from __future__ import annotations

from typing import Any

from serve import Result, Runner, argument, serve


class Smolagents(Runner):
    """The class of the executor, and the executor that keeps its variables."""

    keeps_state = True

    def __init__(self, modules: list[str]) -> None:
        from smolagents import LocalPythonExecutor

        self.executor_class, self.modules = LocalPythonExecutor, modules
        self.kept: Any = None

    def run(self, code: str, timeout_s: float, keep: bool) -> Result:
        executor = self.kept if keep and self.kept else self.new_executor(timeout_s)
        if keep:
            self.kept = executor
        try:
            return Result(True, executor(code).logs)
        except Exception as error:
            printed = executor.state.get("_print_outputs", "")
            return Result(False, str(printed), f"{type(error).__name__}: {error}")

    def new_executor(self, timeout_s: float) -> Any:
        executor = self.executor_class(self.modules, timeout_seconds=max(1, round(timeout_s)))
        executor.send_tools({})
        return executor

    def reset(self) -> None:
        self.kept = None


serve(lambda: Smolagents(**argument()))
