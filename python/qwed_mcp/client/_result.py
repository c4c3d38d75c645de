"""The result of a script."""

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Mapping, Optional, Tuple

from ._errors import InfraError

# The statuses without a verdict. For these, `passed` is always None.
NO_VERDICT = frozenset({"infra_error", "cancelled", "invalid"})


@dataclass(frozen=True)
class Finding:
    """A finding of the analysis. It blocks the script, unless `analysis="report"` is set."""

    rule: Optional[str]
    line: Optional[int]
    message: str


@dataclass(frozen=True)
class TestResult:
    """The result of one test of a script.

    `got` is the text of a call's value, if the value is not the expected value. `error` is the reason why a call has no
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

    `status` is `ok`, `failed`, `timeout`, `output_cap`, `memory`, `blocked`, `cancelled`, `infra_error` or `invalid`.
    `passed` is None if the script had no expected result, or if the script was not judged. Drop a sample that was not
    judged, and never score it as wrong. `judged` is `isolated` if the script could not read the expected result.
    `stdout` and `stderr` have no white space at the end. `attempt` is above 1 if the script ran again after a failure
    of the machine. `message` is the reason if the script has no verdict.
    """

    id: str
    status: str
    passed: Optional[bool]
    judged: Optional[str] = None
    # Whether `passed` is None because `require_judge` requires a better value of `judged`.
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
    # The value of the script's variable `result`: JSON, with integers of any size. None if the script has no such
    # value.
    result: Any = None
    # The reason why `result` does not contain the variable's value. Empty if it does, or if the script did not assign
    # it.
    result_omitted: str = ""
    # The server's verdict on the last run: `outcome`, `checks`, `document_digest` and `document`. Empty without a run.
    verification: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    meta: Any = field(default=None, compare=False)

    @property
    def outcome(self) -> Optional[str]:
        """Returns the outcome of the run: `verified`, `refuted`, `nothing_checked`, `vacuous` or `inconclusive`.

        Returns None if nothing ran. A script can pass without a check, so `passed` can be true for any outcome except
        `refuted`.
        """
        return self.verification.get("outcome")

    def has_no_verdict(self) -> bool:
        """Returns whether the script was not judged."""
        return self.status in NO_VERDICT or self.incomplete

    def verdict(self) -> bool:
        """Returns whether the script passed.

        Raises InfraError if the script was not judged, and ValueError if it had no expected result.
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

    Raises KeyError, TypeError or ValueError if the answer is not valid.
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
