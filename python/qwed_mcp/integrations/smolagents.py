"""A `PythonExecutor` of smolagents, which runs each step of a `CodeAgent` as a script in the sandbox.

    executor = SandboxExecutor(timeout=10)
    agent = CodeAgent(tools=[], model=model, executor=executor, instructions=INSTRUCTIONS)

A step has no access to the variables, functions and imports of earlier steps. smolagents' own prompt claims the
contrary, so give the agent `INSTRUCTIONS`. A step has `final_answer`, and the variables of `additional_args` that JSON
can represent. The executor refuses other tools, because they run in the agent's process, which scripts cannot call. If
the machine could not run a step, the model reads an error, as for a failed step. Line numbers start at 3.
"""

import json
from typing import Any

from smolagents.local_python_executor import CodeOutput, PythonExecutor  # type: ignore[import-untyped]
from smolagents.tools import Tool  # type: ignore[import-untyped]

from ..client import Verifier
from ._text import text_of

INSTRUCTIONS = (
    "Each code snippet runs as a new script. Nothing of earlier snippets remains: neither variables nor imports. Repeat all"
    " that a snippet needs. Print the values that you want to see. Assert a claim before you call final_answer. The value"
    " of final_answer must be plain data: numbers, strings, lists, dictionaries."
)
# The value of the script's variable `result` is the only value that leaves the sandbox. The key marks a final answer.
FINAL_ANSWER = "final answer"
# This code is on one line, so that it shifts the script's line numbers little. The model reads line numbers.
PRELUDE = f'def final_answer(answer): global result; result = {{"{FINAL_ANSWER}": answer}}; raise SystemExit\n'


class StepError(Exception):
    """A step failed, was refused, or was not verified. The message is the text for the model."""


class SandboxExecutor(PythonExecutor):  # type: ignore[misc]
    """Runs steps of a `CodeAgent`. `settings` are the settings of `Verifier`.

    With `require_verified`, the agent gets an error instead of a final answer if the step was not verified.
    """

    def __init__(self, *, require_verified: bool = False, **settings: Any) -> None:
        self._verifier = Verifier(**settings)
        self._require_verified = require_verified
        self._variables: dict[str, Any] = {}

    def send_tools(self, tools: dict[str, Tool]) -> None:
        others = sorted(set(tools) - {"final_answer"})
        if others:
            raise ValueError(f"scripts in the sandbox cannot call tools, so give the agent none: {', '.join(others)}")

    def send_variables(self, variables: dict[str, Any]) -> None:
        json.dumps(variables, allow_nan=False)
        self._variables.update(variables)

    def cleanup(self) -> None:
        """Ends the program. `CodeAgent.cleanup` calls it."""
        self._verifier.close()

    def __call__(self, code_action: str) -> CodeOutput:
        assigned = "; ".join(f'{name} = inputs["variables"]["{name}"]' for name in self._variables)
        inputs = {"variables": {"json": self._variables}} if self._variables else None
        result = self._verifier.run(f"{PRELUDE}{assigned}\n{code_action}", inputs=inputs)
        value = result.result if isinstance(result.result, dict) else {}
        is_final = value.keys() == {FINAL_ANSWER}
        # If a successful script did not reach its end, it has called final_answer.
        refusal = "" if result.reached_end else result.result_omitted
        if is_final and self._require_verified and result.outcome != "verified":
            refusal = "The final answer is refused, because the script that gives it must be verified."
        text = "\n".join(filter(None, [text_of(result), refusal]))
        if result.status != "ok" or refusal:
            raise StepError(text)
        return CodeOutput(output=value.get(FINAL_ANSWER), logs=text, is_final_answer=is_final)
