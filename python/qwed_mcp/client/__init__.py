"""Verifies scripts from Python: `Verifier`, and `AsyncVerifier` for asyncio.

Scripts run in the sandbox of the program `qwed-mcp`. Each verifier uses one process of this program.
`qwed_mcp.client.ray` verifies scripts on the nodes of a Ray cluster.
"""

from ._errors import ClosedError, InfraError, StartError, VerifierError
from ._formats import tests_of
from ._reply import last_code_block
from ._result import Finding, Result, TestResult
from ._script import LINE_BYTES_MAX, Expect, Input, Script, ScriptLike, Test
from ._verifier import AsyncVerifier, Verifier

__all__ = [
    "LINE_BYTES_MAX",
    "AsyncVerifier",
    "ClosedError",
    "Expect",
    "Finding",
    "InfraError",
    "Input",
    "Result",
    "Script",
    "ScriptLike",
    "StartError",
    "Test",
    "TestResult",
    "Verifier",
    "VerifierError",
    "last_code_block",
    "tests_of",
]
