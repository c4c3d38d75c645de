"""A function tool of the OpenAI Agents SDK that verifies a script.

    agent = Agent(name="…", tools=[verification_tool(timeout=10)])

The model reads the output and the verdict. If the machine could not run the script, the run of the agent raises the
SDK's UserError, whose cause is InfraError.
"""

from typing import Any

from agents import FunctionTool, function_tool

from ..client import AsyncVerifier
from ._text import DESCRIPTION, NAME, text_of


def verification_tool(**settings: Any) -> FunctionTool:
    """Returns a tool with one argument, `code`. `settings` are the settings of `AsyncVerifier`."""
    verifier = AsyncVerifier(**settings)

    # Disable failure_error_function, so that InfraError ends the run. Otherwise the model would read it as a result.
    @function_tool(name_override=NAME, description_override=DESCRIPTION, failure_error_function=None)
    async def verify(code: str) -> str:
        [result] = [result async for result in verifier.map([code])]
        return text_of(result)

    return verify
