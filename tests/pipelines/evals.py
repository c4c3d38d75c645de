#!/usr/bin/env python3
"""Tests the evaluation in `evals` with a scripted model instead of a real one.

    ENVIRONMENT/bin/python tests/pipelines/evals.py [--all]

`qwed-mcp` is the program next to the Python package. By default, the arms with a tool have six claims, whose
derivations need no packages. With `--all`, they have all claims. Then `QWED_MCP_PYTHON` must have the packages in
`tests/requirements.txt`.
"""

import asyncio
import importlib.machinery
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from inspect_ai import eval
from inspect_ai.model import ChatMessageTool, ModelName, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Target
from inspect_ai.solver import TaskState

EVALS = pathlib.Path(__file__).parent.parent.parent / "evals"
# Three true and three false claims, whose derivations need the standard library only.
PLAIN = [
    "days-leap-century",
    "days-unix",
    "logic-letters",
    "others-derangements",
    "tax-line-rounding",
    "tax-progressive",
]


def load(name):
    """Loads a file of the evaluation as a module."""
    loader = importlib.machinery.SourceFileLoader(f"evals_{pathlib.Path(name).stem}", str(EVALS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


task = load("task.py")
check = load("check")
claims = json.loads((EVALS / "claims.json").read_text())


def with_usage(output):
    # Without this field, inspect_ai would count tokens with a table from the network.
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def reply(text):
    return with_usage(ModelOutput.from_content("mockllm/model", text))


def asked_claim(messages):
    [question] = [message.text for message in messages if message.role == "user"]
    [claim] = [claim for claim in claims if claim["claim"] in question]
    return claim


def always_true(messages, tools, tool_choice, config):
    assert not tools, tools
    return reply("It looks plausible.\n\nANSWER: true")


def verdict(result):
    """Reads a result as a model does."""
    text = result.error.message if result.error else result.text
    if "Nothing was verified" in text:
        return None
    if "Execution completed successfully." in text:
        return "true"
    return "false" if "== claimed; " in text else None


def verifying(messages, tools, tool_choice, config):
    """Sends the derivation of the claim, and reports the verdict on it."""
    assert "execute_python_code" in [tool.name for tool in tools], tools
    last = messages[-1]
    if isinstance(last, ChatMessageTool):
        return reply(f"The script has ended.\n\n**ANSWER: {verdict(last)}**")
    code = (EVALS / asked_claim(messages)["derivation"]).read_text()
    return with_usage(ModelOutput.for_tool_call("mockllm/model", "execute_python_code", {"code": code}))


class Evaluation(unittest.TestCase):
    """Each test runs the real task. Tests with a tool also run the real server."""

    ids = PLAIN

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def evaluate(self, arm, outputs, ids, **settings):
        model = get_model("mockllm/model", custom_outputs=outputs)
        settings |= {"max_samples": 2, "log_dir": str(self.folder), "display": "none"}
        [log] = eval(task.claims(arm=arm), model=model, sample_id=ids, **settings)
        self.assertEqual(log.status, "success", log.error and log.error.message)
        self.assertEqual({sample.id for sample in log.samples}, set(ids))
        return log, {score.name: score for score in log.results.scores}

    def right(self, scores):
        correct = scores["correct"]
        return round(correct.metrics["accuracy"].value * correct.scored_samples), correct.scored_samples

    def test_without_a_tool_one_half_is_right(self):
        log, scores = self.evaluate("none", always_true, [claim["id"] for claim in claims])
        self.assertEqual(self.right(scores), (30, 60))
        self.assertEqual(scores["unparsable"].metrics["mean"].value, 0)
        self.assertEqual(log.eval.metadata, {"arm": "none", "server": None})

    def test_with_the_tool_everything_is_right(self):
        log, scores = self.evaluate("tool", verifying, self.ids)
        self.assertEqual(self.right(scores), (len(self.ids), len(self.ids)))
        for sample in log.samples:
            self.assertEqual([message.role for message in sample.messages], ["user", "assistant", "tool", "assistant"])
        self.assertEqual(set(log.eval.metadata["server"]), {"version", "tier", "packages"})

    def test_the_skill_is_the_system_message(self):
        self.assertTrue(task.SKILL.is_file())
        skill = self.folder / "SKILL.md"
        skill.write_text("Verify {claims} with a script.\n")
        with mock.patch.object(task, "SKILL", skill):
            log, scores = self.evaluate("skill", verifying, self.ids[:2])
        self.assertEqual(self.right(scores), (2, 2))
        for sample in log.samples:
            self.assertEqual([it.text for it in sample.messages if it.role == "system"], [skill.read_text()])
        with mock.patch.object(task, "SKILL", self.folder / "OTHER.md"):
            with self.assertRaisesRegex(FileNotFoundError, "needs the file .*OTHER.md, which does not exist"):
                task.claims(arm="skill")

    def test_a_wrong_answer_is_seen(self):
        changed = [{**claim, "answer": claim["answer"] ^ (claim["id"] == self.ids[0])} for claim in claims]
        file = self.folder / "claims.json"
        file.write_text(json.dumps(changed))
        with mock.patch.object(task, "CLAIMS", file):
            log, scores = self.evaluate("tool", verifying, self.ids[:2])
        self.assertEqual(self.right(scores), (1, 2))
        values = {sample.id: sample.scores["correct"].value for sample in log.samples}
        self.assertEqual(values, {self.ids[0]: "I", self.ids[1]: "C"})

    def test_an_unparsable_answer_is_wrong_and_counted(self):
        texts = {self.ids[0]: "ANSWER: true\nI am sure.", self.ids[1]: "answer: False."}

        def outputs(messages, *_):
            return reply(texts[asked_claim(messages)["id"]])

        _, scores = self.evaluate("none", outputs, self.ids[:2])
        self.assertEqual(self.right(scores), (1, 2))
        self.assertEqual(scores["unparsable"].metrics["mean"].value, 0.5)

    def test_a_failed_request_to_the_model_is_unscored(self):
        def outputs(messages, *_):
            if asked_claim(messages)["id"] == self.ids[0]:
                raise ConnectionError("no model")
            return reply("ANSWER: false")

        log, scores = self.evaluate("none", outputs, self.ids[:2])
        self.assertEqual(self.right(scores), (1, 1))
        [failed] = [sample.id for sample in log.samples if sample.error]
        self.assertEqual(failed, self.ids[0])

    def test_a_fault_of_the_machine_is_unscored(self):
        for result, is_scored in [
            ("Execution error: the process that watches over the script could not be started.", False),
            ("BLOCKED_ADMIN_POLICY: Scripts cannot run: no sandbox", False),
            ("Status: failed\n\nResult:\nExecution error: the script was run, but its result could not be stored.", False),
            ("Execution timed out after 30.0 seconds.", True),
            ("STDOUT:\nExecution error: this is output\n\nExecution completed successfully.", True),
        ]:
            state = TaskState(
                model=ModelName("mockllm/model"), sample_id=1, epoch=1, input="", output=reply("ANSWER: true"),
                messages=[ChatMessageTool(content=result)],
            )
            for scorer in (task.correct(), task.unparsable()):
                score = asyncio.run(scorer(state, Target("true")))
                with self.subTest(result=result):
                    self.assertEqual(isinstance(score.value, float) and math.isnan(score.value), not is_scored)

    def test_nothing_is_evaluated_if_scripts_cannot_run(self):
        closed, unusable = {"QWED_MCP_TRUSTED_CODE_EXECUTION": "false"}, {"QWED_MCP_PYTHON": "/nonexistent/python"}
        for settings in (closed, unusable):
            with mock.patch.dict(os.environ, settings), self.subTest(settings=settings):
                with self.assertRaisesRegex(RuntimeError, "the server cannot run scripts, so nothing is evaluated"):
                    task.claims(arm="tool")
        with self.assertRaisesRegex(ValueError, "the arms are none, tool, skill"):
            task.claims(arm="all")


    def test_the_report_compares_the_arms(self):
        def outputs(messages, *_):
            claim = asked_claim(messages)
            if claim["id"] == PLAIN[0]:
                raise ConnectionError("no model")
            return reply("true, I think" if claim["id"] == PLAIN[1] else "ANSWER: true")

        first, _ = self.evaluate("none", outputs, PLAIN, epochs=2, temperature=0.5)
        second, _ = self.evaluate("tool", verifying, PLAIN)
        files = [first.location, second.location]
        done = subprocess.run([sys.executable, EVALS / "report", *files], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        header, _, *rows, _, difference = done.stdout.splitlines()
        names = [name.strip() for name in header.strip("|").split("|")]
        none, tool = (dict(zip(names, map(str.strip, row.strip("|").split("|")))) for row in rows)
        expected = {"arm": "none", "claims": "6", "epochs": "2", "server": "none", "right": "40.0 %"}
        expected |= {"sampling": '{"temperature": 0.5}', "unparsable": "2", "unscored": "2"}
        self.assertEqual(none | expected, none)
        # These are Wilson's intervals for two of five, and for six of six.
        self.assertEqual([none["95 % interval"], tool["95 % interval"]], ["11.8 % to 76.9 %", "61.0 % to 100.0 %"])
        expected = {"arm": "tool", "epochs": "1", "right": "100.0 %", "unparsable": "0", "unscored": "0"}
        self.assertEqual(tool | expected | {"sampling": "the provider's defaults"}, tool)
        server = second.eval.metadata["server"]
        self.assertEqual(tool["server"], f"{server['version']}, {server['tier']}")
        expected = "tool minus none: +60.0 points, 95 % interval +20.0 to +100.0 (paired bootstrap over 5 claims)"
        self.assertIn(expected, difference)


class Check(unittest.TestCase):
    def test_it_accepts_the_claims(self):
        self.assertEqual(check.mistakes(claims), [])

    def test_mistakes_are_found(self):
        first, second, *rest = claims
        for changed, mistake in [
            ([first, *rest], "claims are true and"),
            ([{**first, "answer": not first["answer"]}, second, *rest], "claims are true and"),
            ([first, {**second, "id": first["id"]}, *rest], "2 claims have the same id"),
            ([first, {**second, "claim": first["claim"]}, *rest], "2 claims have the same claim"),
            ([first, {**second, "derivation": "derivations/none.py"}, *rest], "only in the folder or only in the list"),
            ([{**first, "note": ""}, second, *rest], "the fields are not"),
            ([{**first, "kind": "new"}, second, *rest], "new: "),
        ]:
            with self.subTest(mistake=mistake):
                self.assertTrue([it for it in check.mistakes(changed) if mistake in it], check.mistakes(changed))

    def test_verdicts_are_compared(self):
        program = pathlib.Path(sys.executable).parent / "qwed-mcp"
        asked = [claim for claim in claims if claim["id"] in PLAIN]
        answers = check.run(str(program), asked)
        either = ": (verified, not refuted|refuted, not verified)"
        for claim in asked:
            with self.subTest(claim=claim["id"]):
                self.assertIsNone(check.difference(claim, answers[claim["id"]]))
                wrong = {**claim, "answer": not claim["answer"]}
                self.assertRegex(check.difference(wrong, answers[claim["id"]]), either)
                self.assertRegex(check.difference(claim, None), "has not answered")
        [refuted, *_] = [answers[claim["id"]] for claim in asked if not claim["answer"]]
        first, last = refuted["verification"]["checks"]
        failed, other = {**first, "state": "failed"}, {**last, "text": "a == b"}
        vacuous = {**last, "vacuous": "constant"}
        for checks, found in [
            ([failed, last], "two derivations"),
            ([last], "two derivations"),
            ([first, vacuous], "not about the claim"),
            ([first, other], "not about the claim"),
        ]:
            changed = {**refuted, "verification": {**refuted["verification"], "checks": checks}}
            self.assertRegex(check.difference({"id": "x", "answer": False}, changed), found)


if __name__ == "__main__":
    if "--all" in sys.argv:
        sys.argv.remove("--all")
        Evaluation.ids = [claim["id"] for claim in claims]
    # These variables stop the frameworks from sending requests to the network.
    os.environ.update(HF_HUB_OFFLINE="1", DO_NOT_TRACK="1")
    # The warnings come from the frameworks, and not from this project.
    unittest.main(warnings="ignore")
