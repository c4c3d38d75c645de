"""A pandas table of results: runs the scripts of a JSON Lines file, and computes the share that passed for each model.

    python examples/pipelines/results_table.py scripts.jsonl

A line is what `qwed-mcp run --batch` takes; `meta.model` names the model.
"""

import json
import sys

import pandas

from qwed_mcp.client import Verifier

COLUMNS = ["id", "status", "passed", "exit_code", "stdout", "stderr", "duration_ms", "attempt", "message"]


def table(results):
    """Returns a table with a row for each result. `passed` is missing if there is no verdict."""
    rows = [{name: getattr(result, name) for name in COLUMNS} | {"meta": result.meta} for result in results]
    return pandas.DataFrame(rows, columns=[*COLUMNS, "meta"]).astype({"passed": "boolean", "exit_code": "Int64"})


def shares(results):
    """Returns, for each model, the number of judged scripts, the share that passed, and the number without a verdict."""
    models = results["meta"].map(lambda meta: (meta or {}).get("model", ""))
    # A mean ignores missing values, because a failure of the machine is not a wrong answer.
    passed = results.groupby(models.rename("model"))["passed"]
    return pandas.DataFrame({"judged": passed.count(), "share": passed.mean(), "not_judged": passed.size() - passed.count()})


def main(path):
    with open(path, encoding="utf-8") as lines, Verifier() as verifier:
        results = table(verifier.map(json.loads(line) for line in lines))
    print(shares(results).to_string())


if __name__ == "__main__":
    main(sys.argv[1])
