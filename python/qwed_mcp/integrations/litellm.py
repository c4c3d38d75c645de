"""A sandbox for litellm's code interpreter, in the process of litellm.

    litellm.callbacks = [CodeInterpreterInterceptionLogger(sandbox_config=ScriptSandbox(timeout=10))]

litellm's own providers, `e2b` and `opensandbox`, cannot use `POST /run_code`, because they create containers first.
This sandbox has no container and no state. Each script is a new process, also in the same conversation. litellm shows
the model the standard output, or the value of an error, so both contain the verdict. If the machine could not run the
script, this module raises InfraError. litellm then reports to the model that the result was lost.
"""

from typing import Any
from uuid import uuid4

from litellm.llms.base_llm.sandbox.transformation import BaseSandboxConfig, CodeExecutionResult, ContainerHandle

from ..client import AsyncVerifier
from ._text import errors_of, shortened, text_of, verdict_of


class ScriptSandbox(BaseSandboxConfig):
    """The sandbox. `settings` are the settings of `AsyncVerifier`. Ignores templates, limits and network of a call."""

    def __init__(self, **settings: Any) -> None:
        self._verifier = AsyncVerifier(**settings)

    async def acreate_sandbox(self, **_: Any) -> ContainerHandle:
        return ContainerHandle(id=uuid4().hex, provider="qwed")

    async def arun_code(self, *, code: str, **_: Any) -> CodeExecutionResult:
        [result] = [result async for result in self._verifier.map([code])]
        text, verdict = text_of(result), verdict_of(result)
        if result.status != "ok":
            error: dict[str, object] = {"name": result.status, "value": text, "traceback": []}
            return CodeExecutionResult(stdout=result.stdout, stderr=errors_of(result), error=error)
        return CodeExecutionResult(stdout=f"{shortened(result.stdout)}\n{verdict}", stderr=result.stderr)

    async def adelete_sandbox(self, **_: Any) -> bool:
        return True
