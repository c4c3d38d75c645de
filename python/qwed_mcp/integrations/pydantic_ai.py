"""A toolset of pydantic-ai with one tool that verifies a script.

    agent = Agent("…", toolsets=[verification_toolset(timeout=10)])

The model reads the output and the verdict. The metadata of the tool's return part is the `Result`. If the machine could
not run the script, the run of the agent raises InfraError.
"""

from typing import Any

from pydantic_ai import FunctionToolset, ToolReturn

from ..client import AsyncVerifier
from ._text import DESCRIPTION, NAME, text_of


def verification_toolset(**settings: Any) -> FunctionToolset[Any]:
    """Returns a toolset whose tool has one argument, `code`. `settings` are the settings of `AsyncVerifier`."""
    verifier = AsyncVerifier(**settings)

    async def verify(code: str) -> ToolReturn:
        [result] = [result async for result in verifier.map([code])]
        return ToolReturn(return_value=text_of(result), metadata=result)

    toolset: FunctionToolset[Any] = FunctionToolset(id="qwed")
    toolset.add_function(verify, name=NAME, description=DESCRIPTION)
    return toolset
