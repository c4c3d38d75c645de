#!/usr/bin/env python3
"""Tests the files for Kubernetes and Slurm: their schema, their shell scripts, and a batch in three parts.

    ENVIRONMENT/bin/python tests/pipelines/cluster.py --program target/debug/qwed-mcp

No cluster is used. Each task is started with the variables that Slurm or Kubernetes would set. The exit code is 1
if a check fails.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

CLUSTER = pathlib.Path(__file__).parent.parent.parent / "examples/cluster"
SLURM = CLUSTER / "slurm-array.sh"
KUBERNETES = CLUSTER / "kubernetes-indexed-job.yaml"
PROGRAMS = pathlib.Path(sys.executable).parent
PARTS = 3
LINES = 60
SECONDS_MAX = 120

program = pathlib.Path()


def checked(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


def container():
    [container] = yaml.safe_load(KUBERNETES.read_text())["spec"]["template"]["spec"]["containers"]
    return container


class Files(unittest.TestCase):
    def test_the_job_is_one_of_kubernetes(self):
        validate = [PROGRAMS / "kubernetes-validate", "--strict"]
        done = checked(*validate, KUBERNETES)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for old, new in [("completionMode", "completion_mode"), ("completions: 16", "completions: many"), ("hostUsers", "hostusers")]:
            with self.subTest(new=new), tempfile.NamedTemporaryFile("w", suffix=".yaml") as broken:
                text = KUBERNETES.read_text()
                self.assertIn(old, text)
                broken.write(text.replace(old, new, 1))
                broken.flush()
                self.assertNotEqual(checked(*validate, broken.name).returncode, 0)

    def test_parts_are_completions(self):
        parts = next(variable["value"] for variable in container()["env"] if variable["name"] == "PARTS")
        self.assertEqual(int(parts), yaml.safe_load(KUBERNETES.read_text())["spec"]["completions"])

    def test_the_shell_is_clean(self):
        [script] = container()["args"]
        for text, shell in [(SLURM.read_text(), "bash"), (f"#!/bin/sh\nset -eu\n{script}", "sh")]:
            with self.subTest(shell=shell):
                lint = [PROGRAMS / "shellcheck", f"--shell={shell}", "--severity=style", "-"]
                # Kubernetes sets these variables.
                named = "".join(f": \"${{{name}?}}\"\n" for name in ["RESULTS", "SCRIPTS", "PARTS", "WORKERS", "JOB_COMPLETION_INDEX"])
                head, _, rest = text.partition("\n")
                text = f"{head}\n{named}{rest}" if shell == "sh" else text
                done = checked(*lint, input=text)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertEqual(checked(shell, "-n", input=text).returncode, 0)
                broken = checked(*lint, input=text.replace('"$output"', "$output"))
                self.assertIn("SC2086", broken.stdout)


class Batch:
    """Runs a batch in parts, interrupts parts and continues them. A subclass defines how a part is started."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.results = self.folder / "results"
        self.scripts = self.folder / "scripts.jsonl"
        self.write(f"print({number})" for number in range(LINES))
        (self.folder / "bin").mkdir()
        (self.folder / "bin/qwed-mcp").symlink_to(program)

    def write(self, scripts):
        lines = [json.dumps({"id": f"a \\\" {number}", "code": code}) for number, code in enumerate(scripts)]
        self.scripts.write_text("\n".join(lines) + "\n")

    def environment(self, **variables):
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.folder), **variables}

    def run_part(self, part):
        done = subprocess.run(**self.start(part), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def answers(self):
        return [json.loads(line) for file in sorted(self.results.glob("*.jsonl")) for line in file.read_text().splitlines()]

    def assert_each_once(self):
        answers = self.answers()
        self.assertEqual(sorted(answer["id"] for answer in answers), sorted(f"a \\\" {number}" for number in range(LINES)))
        self.assertEqual({answer["status"] for answer in answers}, {"ok"})

    def test_each_line_is_answered_once(self):
        for part in range(PARTS):
            self.run_part(part)
        self.assert_each_once()
        summaries = [json.loads(file.read_text()) for file in self.results.glob("*.summary.json")]
        self.assertEqual(sum(summary["lines"] for summary in summaries), LINES)
        # A second run of a part changes nothing.
        before = self.answers()
        self.run_part(1)
        self.assertEqual(self.answers(), before)

    def test_a_part_that_is_ended_goes_on(self):
        for part, ending in enumerate([signal.SIGTERM, signal.SIGKILL, signal.SIGTERM]):
            file = self.results / f"{part}.jsonl"
            with subprocess.Popen(**self.start(part), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as task:
                limit = time.monotonic() + SECONDS_MAX
                while not (file.exists() and file.read_bytes().count(b"\n") > 2):
                    self.assertLess(time.monotonic(), limit, "no answers")
                    self.assertIsNone(task.poll(), "ended too early")
                    time.sleep(0.005)
                task.send_signal(ending)
                task.communicate()
            self.assertIn(task.returncode, [143, -ending])
            with file.open("a") as results:
                results.write('{"id":"a \\\\\\" 59","stat')
            self.run_part(part)
        self.assert_each_once()

    def test_what_a_node_could_not_run_is_run_again(self):
        self.run_part(0)
        file = self.results / "0.jsonl"
        lines = file.read_text().splitlines()
        for place in [0, 7]:
            answer = json.loads(lines[place])
            lost = {"id": answer["id"], "status": "infra_error", "passed": None, "error": 'x","status":"ok"', "attempt": 2}
            lines[place] = json.dumps(lost, separators=(",", ":"))
        # This script only printed a text that looks like an infra_error.
        lines[3] = lines[3].replace('"stdout":"', '"stdout":"\\",\\"status\\":\\"infra_error\\",')
        file.write_text("\n".join(lines) + "\n")
        for part in range(PARTS):
            self.run_part(part)
        self.assert_each_once()
        self.assertIn(lines[3], file.read_text())


class Slurm(Batch, unittest.TestCase):
    def start(self, part):
        # Simulates `sbatch --array=0-2 --cpus-per-task=2`, which copies the script to a folder of the node.
        variables = {"SLURM_ARRAY_TASK_ID": str(part), "SLURM_ARRAY_TASK_COUNT": str(PARTS), "SLURM_CPUS_PER_TASK": "2"}
        return {"args": ["bash", str(SLURM), str(self.scripts), str(self.results), str(PARTS)], "env": self.environment(**variables)}

    def test_arguments_that_do_not_fit(self):
        for arguments, said in [([], "usage"), ([self.scripts, self.results, "0"], "shard")]:
            done = checked("bash", SLURM, *arguments, env=self.environment(SLURM_ARRAY_TASK_ID="0"))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)


class Kubernetes(Batch, unittest.TestCase):
    def start(self, part):
        given = {variable["name"]: variable["value"] for variable in container()["env"] if "value" in variable}
        variables = {
            **given,
            "SCRIPTS": str(self.scripts),
            "RESULTS": str(self.results),
            "PARTS": str(PARTS),
            "WORKERS": "2",
            "JOB_COMPLETION_INDEX": str(part),
        }
        return {"args": [*container()["command"], *container()["args"]], "env": self.environment(**variables)}


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--program", required=True)
    options, rest = arguments.parse_known_args()
    program = pathlib.Path(options.program).resolve()
    unittest.main(argv=[sys.argv[0], *rest])
