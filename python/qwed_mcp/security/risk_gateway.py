"""The gateway that decides calls of tools."""

import os
from typing import Any, Mapping, Optional, TypedDict

from .. import _program


class _Finding(TypedDict):
    rule: Optional[str]
    line: Optional[int]
    column: Optional[int]
    message: str
    instead: Optional[str]


class Finding(_Finding, total=False):
    """A reason why a script must not run. `lines` is present if the finding occurs on several lines."""

    lines: "list[int]"


class _Decision(TypedDict):
    verified: bool
    status: str
    risk_level: str
    verification_id: str
    normalized_arguments: "dict[str, Any]"
    message: str


class Decision(_Decision, total=False):
    """A decision. A refusal has an `error_code`, and may have `findings`. An allowed call may have `notes`."""

    error_code: str
    notes: "list[str]"
    findings: "list[Finding]"


class RiskBasedExecutionGateway:
    """Decides calls of the tools `execute_python_code` and `verification_status`. Runs nothing."""

    def evaluate_and_route(self, tool_name: str, arguments: Optional[Mapping[str, Any]]) -> Decision:
        """Returns the decision about one call.

        The environment variable `QWED_MCP_TRUSTED_CODE_EXECUTION` of this process decides whether code may run at all.
        It is read at each call.

        Raises ValueError if the arguments cannot be written as JSON. Raises RuntimeError if the program of this package
        ends twice before it replies.
        """
        trusted = os.environ.get("QWED_MCP_TRUSTED_CODE_EXECUTION", "").lower() == "true"
        decision: Decision = _program.call(
            "evaluate_and_route",
            # Convert other values to text. The gateway refuses the text as an unknown tool.
            tool_name=str(tool_name),
            arguments=dict(arguments or {}),
            trusted_code_execution=trusted,
        )
        return decision
