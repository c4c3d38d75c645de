#!/usr/bin/env python3
"""Tests the examples in `examples/pipelines`, called as the frameworks call them.

    ENVIRONMENT/bin/python tests/pipelines/examples.py --verl FOLDER

`qwed-mcp` is the program next to the Python package. FOLDER has the sources of verl. The test reads verl's calls of
reward functions from the sources, because importing verl would need torch and gigabytes. The exit code is 1 if a
test fails.
"""

import argparse
import ast
import asyncio
import importlib.util
import inspect
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from qwed_mcp.client import AsyncVerifier, InfraError, Verifier

TESTS = pathlib.Path(__file__).parent
EXAMPLES = TESTS.parent.parent / "examples/pipelines"
STAND_IN = TESTS / "stand_in.py"
RIGHT = "It is short.\n\n```python\na, b = map(int, input().split())\nprint(a + b)\n```\n"
WRONG = RIGHT.replace("a + b", "a - b")
# The stand-in dies at this script, so the script is never judged.
UNJUDGED = "```python\ndie\n```"

verl = pathlib.Path()


def load(name):
    """Loads an example as a separate module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Verl(unittest.TestCase):
    TRUTH = {"inputs": ["3 4\n", "-1 1\n"], "outputs": ["7\n", "0\n"]}

    @classmethod
    def setUpClass(cls):
        cls.example = load("verl_reward")
        cls.example.PAUSE_SECONDS = 0

    def functions(self):
        example = self.example
        return [example.compute_score, lambda **asked: asyncio.run(example.compute_score_async(**asked))]

    def test_it_takes_what_verl_calls_it_with(self):
        calls = []
        for file in ["experimental/reward_loop/reward_manager/naive.py", "workers/reward_manager/naive.py"]:
            for node in ast.walk(ast.parse((verl / "verl" / file).read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "self.compute_score":
                    calls.append({keyword.arg for keyword in node.keywords if keyword.arg})
                    self.assertEqual(node.args, [])
        self.assertGreaterEqual(len(calls), 3)
        for names in calls:
            self.assertLessEqual({"data_source", "solution_str", "ground_truth", "extra_info"}, names)
            for function in [self.example.compute_score, self.example.compute_score_async]:
                inspect.signature(function).bind(**dict.fromkeys(names))
        # verl uses this function to decide whether it must await the result.
        self.assertTrue(inspect.iscoroutinefunction(self.example.compute_score_async))
        self.assertFalse(inspect.iscoroutinefunction(self.example.compute_score))

    def test_scores(self):
        for truth in [self.TRUTH, json.dumps(self.TRUTH)]:
            for reply, score in [(RIGHT, 1.0), (WRONG, 0.0), ("It is 7.", 0.0), ("```python\n1 / 0\n```", 0.0)]:
                for function in self.functions():
                    asked = {"data_source": "taco", "solution_str": reply, "ground_truth": truth, "extra_info": {}}
                    with self.subTest(reply=reply, function=function):
                        self.assertEqual(function(**asked), {"score": score, "acc": score})

    def test_functions_are_called(self):
        truth = {"inputs": ["[1, 2]\n3"], "outputs": ["[1, 2, 3]"], "fn_name": "append"}
        for code, score in [
            ("def append(items, item):\n    return items + [item]", 1.0),
            ("class Solution:\n    def append(self, items, item):\n        return (*items, item)", 1.0),
            ("def append(items, item):\n    return [item]", 0.0),
        ]:
            for function in self.functions():
                asked = {"data_source": "apps", "solution_str": f"```python\n{code}\n```", "ground_truth": truth, "extra_info": {}}
                with self.subTest(code=code, function=function):
                    self.assertEqual(function(**asked)["score"], score)

    def test_what_was_not_judged_has_no_score(self):
        real = self.example.verifier, self.example.async_verifier
        self.example.verifier, self.example.async_verifier = Verifier(binary=STAND_IN), AsyncVerifier(binary=STAND_IN)
        try:
            for function in self.functions():
                with self.assertRaisesRegex(InfraError, "infra_error"):
                    function(data_source="taco", solution_str=UNJUDGED, ground_truth=self.TRUTH)
        finally:
            self.example.verifier.close()
            asyncio.run(self.example.async_verifier.close())
            self.example.verifier, self.example.async_verifier = real


class Verifiers(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        import verifiers.v1

        cls.vf = verifiers.v1
        cls.example = load("verifiers_taskset")

    def trace(self, task, reply):
        vf = self.vf
        trace = vf.Trace(
            task=vf.TraceTask(type=type(task).__name__, data=task.data), agent=vf.AgentInfo(config=vf.AgentConfig())
        )
        trace.nodes.append(vf.MessageNode(message=vf.AssistantMessage(content=reply), sampled=True))
        return trace

    async def test_rewards(self):
        task, backwards = self.example.ProgramTaskset(self.example.ProgramConfig())
        for reply, reward in [(RIGHT, 1.0), (WRONG, 0.0), ("no script", 0.0)]:
            with self.subTest(reply=reply):
                trace = self.trace(task, reply)
                await task.score(trace)
                self.assertEqual([trace.rewards["passes"].score, trace.reward], [reward, reward])
        trace = self.trace(backwards, "```python\ndef backwards(text):\n    return text[::-1]\n```")
        await backwards.score(trace)
        self.assertEqual(trace.reward, 1.0)

    async def test_what_was_not_judged_has_no_reward(self):
        [task, _] = self.example.ProgramTaskset(self.example.ProgramConfig())
        real, self.example.verifier = self.example.verifier, AsyncVerifier(binary=STAND_IN)
        try:
            trace = self.trace(task, UNJUDGED)
            with self.assertRaisesRegex(self.vf.TaskError, "InfraError"):
                await task.score(trace)
            self.assertEqual(trace.rewards, {"passes": None})
        finally:
            await self.example.verifier.close()
            self.example.verifier = real


class Inspect(unittest.TestCase):
    def evaluate(self, example, replies):
        from inspect_ai import eval
        from inspect_ai.model import ModelOutput, ModelUsage, get_model

        outputs = [ModelOutput.from_content("mockllm/model", reply) for reply in replies]
        for output in outputs:
            # Without this field, inspect_ai would count tokens with a table from the network.
            output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        model = get_model("mockllm/model", custom_outputs=outputs)
        with tempfile.TemporaryDirectory() as folder:
            # One sample after the other, so that the samples get the outputs in this order.
            [log] = eval(example.programs(), model=model, max_samples=1, log_dir=folder, display="none")
            self.assertEqual(log.status, "success", log.error and log.error.message)
            [scores] = log.results.scores
            # inspect_ai loads the samples from the folder, which still exists here.
            return [sample.scores["prints_the_target"] for sample in log.samples], scores

    def test_scores(self):
        example = load("inspect_scorer")
        for replies, values in [
            (["```python\nprint(sum(range(101)))\n```", "```python\nprint(input()[::-1])\n```"], ["C", "C"]),
            (["```python\nprint(5049)\n```", "I would rather not."], ["I", "I"]),
        ]:
            scores, summary = self.evaluate(example, replies)
            self.assertEqual([score.value for score in scores], values)
            self.assertEqual(summary.metrics["accuracy"].value, values.count("C") / 2)

    def test_what_was_not_judged_is_in_no_average(self):
        example = load("inspect_scorer")
        example.verifier = AsyncVerifier(binary=STAND_IN)
        try:
            scores, summary = self.evaluate(example, [UNJUDGED, "```python\nok cba\n```"])
        finally:
            asyncio.run(example.verifier.close())
        self.assertTrue(math.isnan(scores[0].value))
        self.assertIn("infra_error", scores[0].explanation)
        self.assertEqual([scores[1].value, summary.metrics["accuracy"].value], ["C", 1.0])
        self.assertEqual([summary.scored_samples, summary.unscored_samples], [1, 1])


class Pandas(unittest.TestCase):
    def test_shares_by_model(self):
        lines = [
            {"id": "1", "code": "print(1)", "expect": {"stdout": "1\n"}, "meta": {"model": "a"}},
            {"id": "2", "code": "print(2)", "expect": {"stdout": "1\n"}, "meta": {"model": "a"}},
            {"id": "3", "code": "print(3)", "expect": {"stdout": "3\n"}, "meta": {"model": "b"}},
            {"id": "4", "code": "'\ud800'", "meta": {"model": "b"}},
        ]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "scripts.jsonl"
            file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            command = [sys.executable, EXAMPLES / "results_table.py", file]
            done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [row.split() for row in done.stdout.splitlines()]
        self.assertEqual(rows, [["judged", "share", "not_judged"], ["model"], ["a", "2", "0.5", "0"], ["b", "1", "1.0", "1"]])

    def test_what_was_not_judged_is_missing(self):
        example = load("results_table")
        with Verifier(binary=STAND_IN) as verifier:
            table = example.table(verifier.map(["ok 1", "die", "ok 2"], concurrency=1))
        self.assertEqual(table["passed"].isna().tolist(), [False, True, False])
        self.assertEqual(table["passed"].mean(), 1.0)
        self.assertEqual(table["status"].tolist(), ["ok", "infra_error", "ok"])


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--verl", required=True)
    options, rest = arguments.parse_known_args()
    verl = pathlib.Path(options.verl)
    # These variables stop the frameworks from sending telemetry.
    os.environ.update(HF_HUB_OFFLINE="1", DO_NOT_TRACK="1")
    # The warnings come from the frameworks, and not from this project.
    unittest.main(argv=[sys.argv[0], *rest], warnings="ignore")
