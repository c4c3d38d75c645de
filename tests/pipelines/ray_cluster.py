#!/usr/bin/env python3
"""Tests `qwed_mcp.client.ray` on a Ray cluster of two nodes on this machine. One node is killed during the run.

    ENVIRONMENT/bin/python tests/pipelines/ray_cluster.py --program target/debug/qwed-mcp --lines 300

Prints the counts of answers, and the rate. The exit code is 1 if a check fails.
"""

import argparse
import collections
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import uuid

# The folder for Ray's files, which is removed at the end. It is below /tmp, because the paths of sockets must be
# short.
FILES = tempfile.TemporaryDirectory(prefix="qwed-ray-", dir="/tmp")
# These variables also stop Ray from sending telemetry.
os.environ.update(
    RAY_TMPDIR=FILES.name,
    RAY_USAGE_STATS_ENABLED="0",
    RAY_DATA_DISABLE_PROGRESS_BARS="1",
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
)

import ray  # noqa: E402
import ray.data  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

from qwed_mcp.client import InfraError, Script, StartError  # noqa: E402
from qwed_mcp.client.ray import VerifyBatch, verify  # noqa: E402

STAND_IN = str(pathlib.Path(__file__).parent / "stand_in.py")
# All processes of this run have this environment variable.
MARK = f"QWED_PIPELINES_RUN={uuid.uuid4()}"
SECONDS_MAX = 120
MEMORY = {"object_store_memory": 150_000_000}


def processes(program):
    """Yields the PIDs of all processes of this run whose command line contains the program."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if MARK.encode() in (process / "environ").read_bytes() and program in (process / "cmdline").read_bytes().decode():
                yield process.name
        except (FileNotFoundError, ProcessLookupError, PermissionError, UnicodeDecodeError):
            continue


def wait_until_none_is_left(program):
    limit = time.monotonic() + SECONDS_MAX
    while left := list(processes(program)):
        assert time.monotonic() < limit, f"processes are left: {left}"
        time.sleep(0.1)


def check_lost_node(program, lines, cluster):
    """Kills a node after a third of the answers. Each line must have one correct answer."""
    node = cluster.add_node(num_cpus=1, **MEMORY)
    cluster.wait_for_nodes()
    told = []

    def scripts():
        """Yields lines until the node is killed. Lines after the first third are slow, so that some of them are
        running on the node when it is killed."""
        for number in itertools.count():
            if node is None and number >= lines:
                return
            is_slow = node is not None and number >= lines // 3
            code = f"import time\ntime.sleep(0.05)\nprint({number})" if is_slow else f"print({number})"
            yield Script(code, expect=f"{number}\n", meta=number)

    seen, statuses, attempts = collections.Counter(), collections.Counter(), collections.Counter()
    has_been_two, limit = False, time.monotonic() + SECONDS_MAX
    for result in verify(scripts(), binary=program, timeout=60, progress=told.append):
        seen[result.meta] += 1
        statuses[result.status] += 1
        attempts[result.attempt] += 1
        right = [str(result.meta), True] if result.status == "ok" else ["", None]
        assert result.status in ("ok", "infra_error"), result
        assert [result.stdout, result.passed] == right, result
        assert result.id == str(result.meta), result
        has_been_two = has_been_two or (told and told[-1].nodes == 2)
        assert has_been_two or time.monotonic() < limit, "the second node was never at work"
        if node is not None and seen.total() >= lines // 3 and has_been_two:
            cluster.remove_node(node, allow_graceful=False)
            node = None
    lines = seen.total()
    assert set(seen) == set(range(lines)) and set(seen.values()) == {1}, "not each line once"
    assert attempts[2] > 0, f"no line was run again: {attempts}"
    [end] = told[-1:]
    assert [end.done, end.passed, end.without_verdict] == [lines, statuses["ok"], statuses["infra_error"]], end
    print(
        f"{lines} lines, one of two nodes killed: each answered once, {dict(statuses)}, run again: {attempts[2]}, "
        f"{end.per_second:.0f} a second, {end.nodes} node at the end",
        flush=True,
    )


def check_scripts_that_kill(lines):
    """If a script kills its actor twice, only lines that were sent to this actor are lost."""
    scripts = [f"ok {number}" for number in range(lines)]
    scripts[lines // 2] = "die-with-parent"
    results = {result.id: result for result in verify(scripts, binary=STAND_IN, lines_per_call=4)}
    assert set(results) == {str(number) for number in range(lines)}
    given_up = [result for result in results.values() if result.status == "infra_error"]
    assert str(lines // 2) in {result.id for result in given_up}
    assert len(given_up) <= 4 * 4 * 2, len(given_up)
    assert {(result.passed, result.attempt) for result in given_up} == {(None, 2)}
    assert {result.passed for result in results.values() if result not in given_up} == {True}
    print(f"a script that kills its node's actor: {len(given_up)} of {lines} lines are infra_error, the others ok", flush=True)


def check_refusals():
    """If no node can run scripts, the result is an error and not an answer."""
    try:
        list(verify(["print(1)"], binary="/nonexistent/qwed-mcp"))
        raise AssertionError("no error")
    except StartError as error:
        assert "no node can run scripts" in str(error) and "/nonexistent/qwed-mcp" in str(error), error
    try:
        list(verify(["ok 1"] * 5, binary=STAND_IN, workers=64, nodeless_seconds=3))
        raise AssertionError("no error")
    except InfraError as error:
        assert "no node of the cluster has answered for 3 s" in str(error), error
    results = list(verify(["ok 1", "'\ud800'", {"code": "ok 2", "id": "mine"}], binary=STAND_IN))
    assert {(result.id, result.status) for result in results} == {("0", "ok"), ("1", "invalid"), ("mine", "ok")}, results
    print("a program that is not there, and no room for an actor: errors; a surrogate: invalid", flush=True)


def check_stopping():
    """If the consumer stops early, no process remains."""
    results = verify((f"ok {number}" for number in iter(int, 1)), binary=STAND_IN)
    for _ in range(5):
        next(results)
    assert list(processes(STAND_IN))
    results.close()
    wait_until_none_is_left(STAND_IN)
    print("a consumer that stops: no process is left", flush=True)


def check_data(program):
    """Tests `map_batches` with a pool of actors."""
    rows = [
        {"name": number, "code": f"print({number})", "expect": f"{number}\n" if number % 3 else None, "timeout": 5.0 if number % 2 else None}
        for number in range(90)
    ]
    rows[7] |= {"expect": "8\n"}
    data = ray.data.from_items(rows).map_batches(
        VerifyBatch,
        fn_constructor_kwargs={"binary": program},
        compute=ray.data.ActorPoolStrategy(size=1),
        batch_size=16,
    )
    answered = sorted(data.take_all(), key=lambda row: row["name"])
    assert [row["name"] for row in answered] == list(range(90))
    judged = [row for row in answered if row["name"] % 3]
    assert [row["name"] for row in judged if not row["passed"]] == [7], answered[7]
    assert all(row["passed"] is None for row in answered if not row["name"] % 3), "nothing was expected of these"
    assert all(row["stdout"] == str(row["name"]) for row in answered)
    print("ray.data: 90 rows, each with its result", flush=True)


def check_structs(program):
    """Tests columns of structs. Arrow adds null members, so that all structs of a column have the same members."""
    rows = [
        {"code": "print(inputs['a'])", "inputs": {"a": "x"}, "expect": "x\n", "memory_mb": 500},
        {"code": "print(inputs['b'])", "inputs": {"b": "y"}, "expect": "y\n"},
        {"code": "print(input())", "tests": [{"stdin": "1\n", "stdout": "1\n"}]},
        {"code": "def f(x): return x", "tests": [{"call": "f([1, 2])", "value": [1, 2], "check": "unordered"}]},
        {"code": "def f(x): return x", "tests": [{"call": "f(None)", "value": None}]},
    ]
    names = {name for row in rows for name in row}
    data = ray.data.from_items([{**dict.fromkeys(names), **row} for row in rows]).map_batches(
        VerifyBatch,
        fn_constructor_kwargs={"binary": program},
        compute=ray.data.ActorPoolStrategy(size=1),
        batch_size=len(rows),
    )
    answered = data.take_all()
    assert [row["passed"] for row in answered] == [True] * len(rows), answered
    print("ray.data: inputs and tests as structs, each with its result", flush=True)


def check_the_document():
    """Runs the sample in the documents on a new cluster. Compares its output with the page."""
    page = (pathlib.Path(__file__).parents[2] / "docs/PIPELINES.md").read_text()
    [sample] = re.findall(r"```python\n(import ray\n.*?)```", page, re.DOTALL)
    expected = re.findall(r"^print\(.*\)  # (.*)$", sample, re.MULTILINE)
    assert len(expected) == sample.count("print(len"), sample
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run([sys.executable, "-c", sample], stdout=subprocess.PIPE, text=True, env=environment)
    assert [done.stdout.splitlines(), done.returncode] == [expected, 0], done
    print("the sample of docs/PIPELINES.md: as it says", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--program", required=True)
    arguments.add_argument("--lines", type=int, default=300)
    options = arguments.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    name, _, value = MARK.partition("=")
    os.environ[name] = value
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, **MEMORY}
    )
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        check_lost_node(program, options.lines, cluster)
        wait_until_none_is_left(program)
        check_scripts_that_kill(200)
        check_refusals()
        check_stopping()
        check_data(program)
        check_structs(program)
    finally:
        ray.shutdown()
        cluster.shutdown()
    check_the_document()
    wait_until_none_is_left(program)
    wait_until_none_is_left(STAND_IN)
    FILES.cleanup()
    print("no process is left", flush=True)


if __name__ == "__main__":
    main()
