"""Compares the observations of a row with its expectation. It never boots a machine."""

from __future__ import annotations

import json

from rows import Refused, Row, Tier

WAYS = ("read", "write", "connect", "program")
CODE = "QWED-MCP-RISK-009"


def observations(lines: str) -> dict[str, object]:
    """Returns the observations by phase. The key `errors` has the lines that report errors."""
    seen: dict[str, object] = {}
    errors = []
    for line in lines.replace("\r", "").splitlines():
        phase, _, text = line.partition(" ")
        try:
            seen[phase] = json.loads(text)
        except ValueError:
            errors.append(line)
    return {**seen, "errors": errors}


def wrong(row: Row, expected: Tier | Refused, seen: dict[str, object], phase: str, when: str = "") -> list[str]:
    """Returns the differences between the expectation and the observations in this phase."""
    if not isinstance(seen.get(phase), dict):
        return [f"{when or 'the row'}: nothing was reported; {' | '.join(seen['errors'])[-1500:]}"]
    found = seen[phase]
    differences = refusal(expected, found) if isinstance(expected, Refused) else tier(row, expected, found)
    differences += control(found)
    for path, value in row.doctor.items() if phase == "before" and not when else ():
        got = at(found["doctor"], path)
        if got != value:
            differences.append(f"doctor's {path} is {got!r}, and not {value!r}")
    return [f"{when}: {difference}" if when else difference for difference in differences]


def at(value: object, path: str) -> object:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def tier(row: Row, expected: Tier, found: dict) -> list[str]:
    """Compares a system on which scripts must run."""
    wrong = []
    predicted = at(found["doctor"], "sandbox.tier")
    if predicted != expected.name or found["doctor"].get("code") != 0:
        wrong.append(f"doctor predicts {predicted} (exit code {found['doctor'].get('code')}): {brief(found['doctor'])}")
    for name in ("run", "mcp"):
        result = found[name]
        if result.get("tier") != expected.name or "42" not in result["text"]:
            wrong.append(f"{name}: a script reaches {result.get('tier')}: {result['text'][:400]}")
        if expected.reason and expected.reason not in str(result.get("reason")):
            wrong.append(f"{name}: the reason is {result.get('reason')!r}, without {expected.reason!r}")
    ways = found["attack"]["ways"]
    opened = [way for way in WAYS if ways.get(way, "open") == "open"]
    if opened or found["attack"]["changed"] or found["attack"]["connected"]:
        wrong.append(f"the attack got out: {ways or found['attack']['text'][:400]}")
    if found["attack"]["tier"] != expected.name:
        wrong.append(f"the attack ran at {found['attack']['tier']}")
    if wrong:
        return wrong
    return warmth(row, found) if expected.name == "T3" else downgrade(expected, found)


def warmth(row: Row, found: dict) -> list[str]:
    if bool(found["mcp"].get("warm")) != bool(row.warm):
        return [f"warm is {found['mcp'].get('warm')}; the log: {found['mcp'].get('log', '')[-600:]}"]
    return []


def downgrade(expected: Tier, found: dict) -> list[str]:
    """Compares a system below tier T3, where the reason must be reported."""
    wrong = []
    steps = at(found["doctor"], "sandbox.step_down") or [{}]
    reason, remedy = str(steps[0].get("why")), str(steps[0].get("remedy"))
    if not expected.reason or expected.reason not in reason:
        wrong.append(f"doctor's reason is {reason!r}, without {expected.reason!r}")
    if expected.remedy not in remedy:
        wrong.append(f"doctor's remedy is {remedy!r}, without {expected.remedy!r}")
    if not found["strict"]["is_error"] or CODE not in json.dumps(found["strict"]):
        wrong.append(f"strict does not refuse: {found['strict']['text'][:400]}")
    return wrong


def refusal(expected: Refused, found: dict) -> list[str]:
    """Compares a system on which scripts must be refused."""
    wrong = []
    doctor = found["doctor"]
    if at(doctor, "sandbox.tier") is not None or doctor.get("code") != 1 or doctor.get("can_run"):
        wrong.append(f"doctor predicts {at(doctor, 'sandbox.tier')} (exit code {doctor.get('code')}): {brief(doctor)}")
    said = json.dumps(doctor, ensure_ascii=False)
    wrong += [f"doctor does not say {part!r}: {brief(doctor)}" for part in (expected.reason, expected.remedy) if part not in said]
    for name in (name for name in ("run", "mcp", "strict") if name in found):
        result = found[name]
        if "42" in result["text"].split() or not (result.get("is_error") or result.get("code")):
            wrong.append(f"{name}: a script was not refused: {result['text'][:400]}")
        # With `strict`, only the missing requirement of T3 is the reason.
        elif name != "strict" and expected.reason not in result["text"]:
            wrong.append(f"{name}: the refusal does not say {expected.reason!r}: {result['text'][:600]}")
    if found["attack"]["ways"] or found["attack"]["changed"] or found["attack"]["connected"]:
        wrong.append(f"the attack ran: {found['attack']['text'][:400]}")
    return wrong or least(found)


def least(found: dict) -> list[str]:
    """Compares runs with `degraded`, where scripts may run at T1. Then the result must have the reason."""
    result = found["degraded"]
    if result["is_error"] or (result["tier"] == "T1" and result["reason"]):
        return []
    return [f"degraded: a script reaches {result['tier']}, with the reason {result['reason']!r}"]


def control(found: dict) -> list[str]:
    """Checks the control. Without a sandbox, each way out must be open, otherwise the attack proves nothing."""
    seen = found["control"]
    closed = [way for way in WAYS if seen["ways"].get(way) != "open"]
    if closed or not seen["changed"] or not seen["connected"]:
        return [f"the control did not work: {seen['ways'] or seen['text'][:400]}"]
    return []


def brief(doctor: dict) -> str:
    parts = [doctor.get("refusal"), at(doctor, "sandbox.step_down"), at(doctor, "interpreter.error"), doctor.get("stderr")]
    return json.dumps([part for part in parts if part], ensure_ascii=False)[:1200]
