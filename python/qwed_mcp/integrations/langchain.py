"""A LangChain tool that verifies a script, for `create_agent` and the `ToolNode` of LangGraph.

    agent = create_agent(model, [verification_tool(timeout=10)])

The model reads the output and the verdict. The artifact of the tool message is the `Result`. If the machine could not
run the script, the call raises InfraError, which ends the agent.
"""

from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from ..client import AsyncVerifier, Result, Verifier
from ._text import DESCRIPTION, NAME, text_of


def verification_tool(**settings: Any) -> BaseTool:
    """Returns a tool with one argument, `code`. `settings` are the settings of `Verifier`.

    Synchronous and asynchronous calls use separate processes. Each process starts at its first call.
    """
    verifier, async_verifier = Verifier(**settings), AsyncVerifier(**settings)

    def verify(code: str) -> tuple[str, Result]:
        [result] = verifier.map([code])
        return text_of(result), result

    async def verify_async(code: str) -> tuple[str, Result]:
        [result] = [result async for result in async_verifier.map([code])]
        return text_of(result), result

    return StructuredTool.from_function(
        verify, verify_async, name=NAME, description=DESCRIPTION, response_format="content_and_artifact"
    )
