"""The gateway that decides calls of tools before they are made."""

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
    """A reason why a script must not run. `lines` is there where it stands in more than one."""

    lines: "list[int]"


class _Decision(TypedDict):
    verified: bool
    status: str
    risk_level: str
    verification_id: str
    normalized_arguments: "dict[str, Any]"
    message: str


class Decision(_Decision, total=False):
    """A decision: `error_code` where it is no, `findings` where the analysis says so, `notes` where it allows and remarks."""

    error_code: str
    notes: "list[str]"
    findings: "list[Finding]"


class RiskBasedExecutionGateway:
    """Decides calls of the tools `execute_python_code` and `verification_status`. Runs nothing."""

    def evaluate_and_route(self, tool_name: str, arguments: Optional[Mapping[str, Any]]) -> Decision:
        """Returns the decision about one call.

        `QWED_MCP_TRUSTED_CODE_EXECUTION` of this process, read at each call, says whether code may run at all.

        Raises ValueError where the arguments cannot be written as JSON: no MCP client could send them. Raises
        RuntimeError where the program of this package ends twice before it answers.
        """
        trusted = os.environ.get("QWED_MCP_TRUSTED_CODE_EXECUTION", "").lower() == "true"
        decision: Decision = _program.call(
            "evaluate_and_route",
            # What is not a text names no tool, and is refused as such.
            tool_name=str(tool_name),
            arguments=dict(arguments or {}),
            trusted_code_execution=trusted,
        )
        return decision
