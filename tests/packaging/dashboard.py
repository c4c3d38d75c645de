"""Checks a dashboard of Grafana: each panel uses one data source, and PromQL that Prometheus can parse.

    dashboard.py FILE

Does not check that the metrics exist: the server's tests do. The exit code is 1 if there is a finding.
"""

import json
import re
import sys

import promql_parser

DURATIONS = {"$__rate_interval": "1m", "$__interval": "1m", "$__range": "1h"}


def faults(dashboard):
    """Yields the faults of a dashboard."""
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    if variables.get("datasource", {}).get("type") != "datasource":
        yield "no variable chooses the data source"
    if dashboard.get("id") is not None:
        yield "an id of one Grafana cannot be imported into another"
    numbers = [panel["id"] for panel in dashboard["panels"]]
    if len(set(numbers)) < len(numbers):
        yield "two panels have the same id"
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        if place["x"] + place["w"] > 24:
            yield f"{panel['title']}: it is outside the grid"
        for target in panel["targets"]:
            if {panel["datasource"]["uid"], target["datasource"]["uid"]} != {"${datasource}"}:
                yield f"{panel['title']}: the data source is not the variable"
            expression = target["expr"]
            for name in re.findall(r"\$(\w+)", expression):
                if f"${name}" not in DURATIONS and name not in variables:
                    yield f"{panel['title']}: there is no variable ${name}"
            for variable, duration in DURATIONS.items():
                expression = expression.replace(variable, duration)
            try:
                promql_parser.parse(expression)
            except ValueError as error:
                yield f"{panel['title']}: {target['expr']}: {error}"


def main():
    with open(sys.argv[1]) as file:
        found = list(faults(json.load(file)))
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
