"""Compares the verdicts on a labelled corpus of scripts with its labels.

    tests/verdict/measure.py PROGRAM PYTHON CORPUS [PROGRAM'S OPTIONS]

CORPUS is a folder with `manifest.json`, a list of `{id, file, label, kind}`, or a file with a line of JSON for each script:
`{id, label, kind, code}`. All scripts run as one batch. Prints a line for each script whose outcome is not the expected one, and a table; exits 1 if a limit is not met.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# The outcome that each label requires. For `vacuous`, every outcome but `verified` is right.
EXPECTED = {"verified": "verified", "refuted": "refuted", "nothing": "nothing_checked"}
# The minimal share of right outcomes for each label.
LIMITS = {"verified": 0.98, "refuted": 1.0, "nothing": 1.0, "vacuous": 0.88}
# The maximal share of honest scripts whose checks are reported as vacuous.
HONEST_VACUOUS_MAX = 0.01


def read(corpus):
    if corpus.is_file():
        return [json.loads(line) for line in corpus.read_text().splitlines()]
    folder = corpus
    entries = json.loads((folder / "manifest.json").read_text())
    entries = entries["scripts"] if isinstance(entries, dict) else entries
    for entry in entries:
        entry["code"] = (folder / entry["file"]).read_text()
    return entries


def run(program, python, entries, options):
    """Runs the scripts as a batch; returns the outcomes by id."""
    environment = dict(os.environ, QWED_MCP_TRUSTED_CODE_EXECUTION="true", QWED_MCP_PYTHON=python)
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder) / "batch.jsonl"
        lines.write_text("".join(json.dumps({"id": it["id"], "code": it["code"]}) + "\n" for it in entries))
        ran = subprocess.run([program, "run", "--batch", str(lines), *options], env=environment,
                             stdout=subprocess.PIPE, check=False)
    answers = [json.loads(line) for line in ran.stdout.decode().splitlines()]
    return {it["id"]: it.get("verification", {}).get("outcome", "blocked") for it in answers}


def main():
    program, python, folder, *options = sys.argv[1:]
    entries = read(pathlib.Path(folder))
    outcomes = run(program, python, entries, options)
    table, right, misses = collections.defaultdict(collections.Counter), collections.Counter(), []
    for entry in entries:
        label, outcome = entry["label"], outcomes[entry["id"]]
        table[label][outcome] += 1
        expected = EXPECTED.get(label)
        is_right = outcome == expected if expected else outcome != "verified"
        right[label] += is_right
        if not is_right and label != "hard":
            misses.append(f"{label:9} {outcome:16} {entry['kind']:20} {entry['id']}")
    print(*misses, sep="\n")
    for label, counts in table.items():
        print(f"{label:9} {sum(counts.values()):4}  " + "  ".join(f"{k} {v}" for k, v in counts.most_common()))
    failed = [label for label, limit in LIMITS.items() if right[label] < limit * sum(table[label].values())]
    honest = table["verified"]
    if honest["vacuous"] > HONEST_VACUOUS_MAX * sum(honest.values()):
        failed.append("honest scripts called vacuous")
    if failed:
        sys.exit(f"limits not met: {', '.join(failed)}")


if __name__ == "__main__":
    main()
