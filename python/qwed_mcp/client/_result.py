"""The result of a script."""

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Mapping, Optional, Tuple

from ._errors import InfraError

# The statuses without a verdict. For these, `passed` is always None.
NO_VERDICT = frozenset({"infra_error", "cancelled", "invalid"})


@dataclass(frozen=True)
class Finding:
    """A reason why the analysis blocks a script. With `analysis="report"`, it would block it."""

    rule: Optional[str]
    line: Optional[int]
    message: str


@dataclass(frozen=True)
class TestResult:
    """The result of one test of a script.

    `got` is the text of the value of a call, if it is not the expected value. `error` is the reason why a call has no
    value. `fields` has all fields of the program's answer.
    """

    passed: Optional[bool]
    duration_ms: Optional[float]
    got: Optional[str] = None
    error: Optional[str] = None
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Result:
    """The result of a script.

    `status` is `ok`, `failed`, `timeout`, `output_cap`, `memory`, `blocked`, `cancelled`, `infra_error` or `invalid`. `passed`
    is None if nothing was expected of the script, or if the script was not judged. Drop a sample that was not judged, and
    never score it as wrong. `judged` is `isolated` if the expected result was out of the script's reach. `stdout` and `stderr` have no
    white space at the end. `attempt` is above 1 if the script ran again after a failure of the machine. `message` is the
    reason if there is no verdict.
    """

    id: str
    status: str
    passed: Optional[bool]
    judged: Optional[str] = None
    # Whether `require_judge` required more than `judged`, so that `passed` is None.
    incomplete: bool = False
    exit_code: Optional[int] = None
    # Whether the script reports that it ran to its last statement. A script can forge this.
    reached_end: Optional[bool] = None
    stdout: str = ""
    stderr: str = ""
    truncated: Tuple[str, ...] = ()
    duration_ms: Optional[float] = None
    queue_ms: Optional[float] = None
    warm: Optional[bool] = None
    verification_id: Optional[str] = None
    code_sha256: Optional[str] = None
    # The hash of all fields of the line that affect the answer.
    line_sha256: Optional[str] = None
    findings: Tuple[Finding, ...] = ()
    tests: Tuple[TestResult, ...] = ()
    # `report` if findings do not block scripts.
    analysis: Optional[str] = None
    attempt: int = 1
    message: str = ""
    # The value that the script has assigned to `result`: JSON, with integers of any size. None if there is none.
    result: Any = None
    # The reason why the value is missing. Empty if the script has assigned none, or if `result` has it.
    result_omitted: str = ""
    # The server's verdict on the last run: `outcome`, `checks`, `document_digest` and `document`. Empty if nothing ran.
    verification: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    meta: Any = field(default=None, compare=False)

    @property
    def outcome(self) -> Optional[str]:
        """Returns what the run verified: `verified`, `refuted`, `nothing_checked`, `vacuous` or `inconclusive`.

        Returns None if nothing ran. A script can pass without a check, so `passed` can be true for any outcome except
        `refuted`.
        """
        return self.verification.get("outcome")

    def has_no_verdict(self) -> bool:
        """Returns whether the script was not judged, so that nothing is known about it."""
        return self.status in NO_VERDICT or self.incomplete

    def verdict(self) -> bool:
        """Returns whether the script passed.

        Raises InfraError if the script was not judged, and ValueError if nothing was expected of it.
        """
        if self.has_no_verdict():
            reason = "incomplete" if self.incomplete else f"{self.status}: {self.message}"
            raise InfraError(f"the script {self.id} was not judged: {reason}")
        if self.passed is None:
            raise ValueError(f"nothing was expected of the script {self.id}: give expect or tests, or use status")
        return self.passed


def without_verdict(id: str, status: str, message: str, attempt: int, meta: Any) -> Result:
    """Returns a result for a script that has no answer from the program."""
    return Result(id=id, status=status, passed=None, attempt=attempt, message=message, meta=meta)


def named(result: Result, id: str, meta: Any) -> Result:
    """Returns the result with the caller's `id` and `meta`."""
    return replace(result, id=id, meta=meta)


def value_of(json: Any) -> Any:
    """Converts the field `result` of an answer. Integers above 2 to the power of 53 are objects with their digits."""
    if isinstance(json, list):
        return [value_of(item) for item in json]
    if not isinstance(json, dict):
        return json
    if json.keys() == {"$int"}:
        return int(json["$int"])
    return {key: value_of(value) for key, value in json.items()}


def result_of(answer: Dict[str, Any], earlier_attempts: int) -> Result:
    """Converts an answer of the program to a result.

    Raises KeyError, TypeError or ValueError if it is not a valid answer.
    """
    status = str(answer["status"])
    passed = answer.get("passed")
    if passed is not None and not isinstance(passed, bool):
        raise TypeError(f"passed is {passed!r}")
    return Result(
        id=str(answer["line"] if answer["id"] is None else answer["id"]),
        status=status,
        passed=None if status in NO_VERDICT else passed,
        judged=answer.get("judged"),
        incomplete=bool(answer.get("incomplete")),
        exit_code=answer.get("exit_code"),
        reached_end=answer.get("reached_end"),
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
            TestResult(test.get("passed"), test.get("duration_ms"), test.get("got"), test.get("error"), dict(test))
            for test in answer.get("tests") or ()
        ),
        analysis=answer.get("analysis"),
        attempt=int(answer.get("attempt") or 1) + earlier_attempts,
        message=str(answer.get("error") or ""),
        result=value_of(answer.get("result")),
        result_omitted=str(answer.get("result_omitted") or ""),
        verification=dict(answer.get("verification") or {}),
    )
