"""The answer to a script."""

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Mapping, Optional, Tuple

from ._errors import InfraError

# What is known about a script when nothing was found out: never a verdict, whatever the program says besides.
NO_VERDICT = frozenset({"infra_error", "cancelled", "invalid"})


@dataclass(frozen=True)
class Finding:
    """A reason why the analysis blocks a script, or, with `analysis="report"`, would."""

    rule: Optional[str]
    line: Optional[int]
    message: str


@dataclass(frozen=True)
class TestResult:
    """What came of one of a script's tests. `fields` has all that the program says about it."""

    passed: Optional[bool]
    duration_ms: Optional[float]
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Result:
    """The answer to a script.

    `status` is `ok`, `failed`, `timeout`, `output_cap`, `memory`, `blocked`, `cancelled`, `infra_error` or `invalid`. `passed`
    is None where the script was not judged: a sample without a verdict is dropped, never scored as wrong.
    White space at the end of `stdout` and `stderr` is cut off. `attempt` is above 1 where something of the machine broke and the script was run again. `message` says why where
    there is no verdict.
    """

    id: str
    status: str
    passed: Optional[bool]
    exit_code: Optional[int] = None
    stdout: str = ""
    stderr: str = ""
    truncated: Tuple[str, ...] = ()
    duration_ms: Optional[float] = None
    queue_ms: Optional[float] = None
    warm: Optional[bool] = None
    verification_id: Optional[str] = None
    code_sha256: Optional[str] = None
    # Covers everything in the line that the answer depends on.
    line_sha256: Optional[str] = None
    findings: Tuple[Finding, ...] = ()
    tests: Tuple[TestResult, ...] = ()
    # `report` where the analysis blocks nothing.
    analysis: Optional[str] = None
    attempt: int = 1
    message: str = ""
    meta: Any = field(default=None, compare=False)

    def verdict(self) -> bool:
        """Returns whether the script passed.

        Raises InfraError where it was not judged.
        """
        if self.passed is None:
            raise InfraError(f"the script {self.id} was not judged: {self.status}: {self.message}")
        return self.passed


def without_verdict(id: str, status: str, message: str, attempt: int, meta: Any) -> Result:
    """Returns the answer of this process, where the program gave none."""
    return Result(id=id, status=status, passed=None, attempt=attempt, message=message, meta=meta)


def named(result: Result, id: str, meta: Any) -> Result:
    """Returns a result with the caller's own id and what belongs to it."""
    return replace(result, id=id, meta=meta)


def result_of(answer: Dict[str, Any], earlier_attempts: int) -> Result:
    """Returns the result of a line of the program.

    Raises KeyError, TypeError or ValueError where the line is no answer.
    """
    status = str(answer["status"])
    passed = answer.get("passed")
    if passed is not None and not isinstance(passed, bool):
        raise TypeError(f"passed is {passed!r}")
    return Result(
        id=str(answer["line"] if answer["id"] is None else answer["id"]),
        status=status,
        passed=None if status in NO_VERDICT else passed,
        exit_code=answer.get("exit_code"),
        stdout=answer.get("stdout") or "",
        stderr=answer.get("stderr") or "",
        truncated=tuple(answer.get("truncated") or ()),
        duration_ms=answer.get("duration_ms"),
        queue_ms=answer.get("queue_ms"),
        warm=answer.get("warm"),
        verification_id=answer.get("verification_id"),
        code_sha256=answer.get("code_sha256"),
        line_sha256=answer.get("line_sha256"),
        findings=tuple(
            Finding(finding.get("rule"), finding.get("line"), str(finding.get("message", "")))
            for finding in answer.get("findings") or ()
        ),
        tests=tuple(
            TestResult(test.get("passed"), test.get("duration_ms"), dict(test)) for test in answer.get("tests") or ()
        ),
        analysis=answer.get("analysis"),
        attempt=int(answer.get("attempt") or 1) + earlier_attempts,
        message=str(answer.get("error") or ""),
    )
