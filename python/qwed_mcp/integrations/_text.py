"""The text about a result for the model, and the tool's name and description."""

from ..client import InfraError, Result

NAME = "verify_python"
DESCRIPTION = (
    "Runs a Python script in a sandbox, and reports whether its checks held. Print the values that you want to see. Assert"
    " each claim against an independently computed value: a script without such a check verifies nothing. Each call is a"
    " new process, without network, files, or the variables of earlier calls."
)
# The maximum number of characters of an output. The middle of a longer output is omitted.
OUTPUT_CHARS_MAX = 10_000


def text_of(result: Result) -> str:
    """Returns the output, the errors and the verdict.

    Raises InfraError if the script was not judged.
    """
    parts = [("STDOUT", result.stdout), ("STDERR", errors_of(result))]
    return "\n\n".join([f"{name}:\n{shortened(text)}" for name, text in parts if text] + [verdict_of(result)])


def errors_of(result: Result) -> str:
    """Returns the standard error of the script. If the script did not run or was ended, adds the reason."""
    return "\n".join(filter(None, [result.stderr, result.message]))


def verdict_of(result: Result) -> str:
    """Returns the verdict, and the checks that failed or cannot fail.

    Raises InfraError if the script was not judged.
    """
    if result.status == "invalid":
        return "Verdict: none, because the script could not be sent"
    if result.has_no_verdict():
        raise InfraError(f"the script was not judged: {result.status}: {result.message}")
    ending = "" if result.status in ("ok", "failed", "blocked") else f" ({result.status})"
    remark = "" if result.outcome in ("verified", "refuted") else ". Nothing was verified"
    lines = [f"Verdict: {result.outcome}{ending}{remark}"]
    for check in result.verification.get("checks", ()):
        place = f"line {check['line']}: {check['text']}"
        if check["vacuous"]:
            lines.append(f"{place} cannot fail: {check['vacuous']}")
        elif check["state"] == "failed":
            values = [f"{compared['text']} = {compared['value']}" for compared in check.get("compared", ())]
            lines.append("; ".join([f"{place} failed", *values]))
    return "\n".join(lines)


def shortened(text: str) -> str:
    """Returns the text, without its middle if it is longer than `OUTPUT_CHARS_MAX`."""
    omitted = len(text) - OUTPUT_CHARS_MAX
    if omitted <= 0:
        return text
    half = OUTPUT_CHARS_MAX // 2
    return f"{text[:half]}\n[{omitted} characters omitted]\n{text[-half:]}"
