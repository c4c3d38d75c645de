#!/usr/bin/env python3
"""Tests the Python package `qwed_mcp` that is installed in the environment of this interpreter.

    ENVIRONMENT/bin/python tests/install/package.py --peer PEER/bin/python

PEER is an environment with the Python implementation, 0.2.2. Its results of the same calls must be equal, except for
random values and times. The exit code is 1 if a test fails.
"""

import argparse
import asyncio
import importlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock

import qwed_mcp
from qwed_mcp import _program
from qwed_mcp.client import AsyncVerifier, StartError, Verifier
from qwed_mcp.observability.aibom import AIBOMGenerator
from qwed_mcp.security import RiskBasedExecutionGateway, SkillProvenanceGuard

GATE = "QWED_MCP_TRUSTED_CODE_EXECUTION"
SKILL = {
    "name": "my-skill",
    "version": "1.0.0",
    "source_url": "https://github.com/org/skill",
    "registry": "github.com",
    "digest": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "download_count": 150,
}

# Calls whose results must be equal, except for ids and times. Findings in code have different texts, so only their
# decisions are compared.
CALLS = [
    ["gateway", "execute_python_code", {"code": "print('hello world')", "background": False}],
    ["gateway", "execute_python_code", {"code": "print(1)"}],
    ["gateway", "execute_python_code", {"code": "print(1)", "background": True, "more": [1, None, "ü"]}],
    ["gateway", "execute_python_code", {"code": "print(1)", "background": "yes"}],
    ["gateway", "execute_python_code", {"code": "   "}],
    ["gateway", "execute_python_code", {"code": 7}],
    ["gateway", "execute_python_code", {}],
    ["gateway", "execute_python_code", None],
    ["gateway", "verification_status", {"job_id": "123E4567-e89b-12d3-a456-426614174000"}],
    ["gateway", "verification_status", {"job_id": "123"}],
    ["gateway", "verification_status", {"job_id": ""}],
    ["gateway", "verification_status", None],
    ["gateway", None, {}],
    ["gateway", 5, {}],
    ["guard", {}, SKILL],
    ["guard", {}, {**SKILL, "registry": "clawdhub.com"}],
    ["guard", {}, {**SKILL, "download_count": 5000}],
    ["guard", {"require_digest": False}, {key: value for key, value in SKILL.items() if key != "digest"}],
    ["guard", {"trusted_registries": ["skills.example.org"]}, {**SKILL, "registry": "skills.example.org"}],
    ["guard", {"trusted_registries": []}, SKILL],
    ["guard", {"trusted_domains": ["example.org"]}, {**SKILL, "source_url": "https://code.example.org/skill"}],
    ["guard", {}, {}],
    ["bill", "gpt-4o", ["qwed_tax.TaxVerifier", "qwed_legal.FairnessGuard"], ["execute_python_code"]],
    ["bill", "モデル \u2028 \"x\"", [], []],
    ["bill", "m", None, None],
]
CODE = ["import os\nos.system('id')", "eval('1')", "import subprocess as s; s.run(['id'])", "print(1", "from os import popen as op; op('id')"]

ASK = """
import json, sys
from qwed_mcp.observability.aibom import AIBOMGenerator
from qwed_mcp.security import RiskBasedExecutionGateway, SkillProvenanceGuard
sets = lambda options: {name: set(value) if isinstance(value, list) else value for name, value in options.items()}
answer = {
    "gateway": lambda tool, arguments: RiskBasedExecutionGateway().evaluate_and_route(tool, arguments),
    "guard": lambda options, manifest: SkillProvenanceGuard(**sets(options)).verify_skill(manifest),
    "bill": lambda *names: AIBOMGenerator().generate_manifest(*names),
}
json.dump([answer[kind](*arguments) for kind, *arguments in json.load(sys.stdin)], sys.stdout)
"""

peer = ""


def answers(python: str, calls: list, gate: str) -> list:
    done = subprocess.run(
        [python, "-c", ASK], input=json.dumps(calls), capture_output=True, text=True, env={**os.environ, GATE: gate}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def without_chance(answer: dict) -> dict:
    answer = dict(answer)
    if "verification_id" in answer:
        assert re.fullmatch("[0-9a-f]{64}", answer["verification_id"])
        answer["verification_id"] = "…"
    if "timestamp" in answer:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", answer["timestamp"])
        answer["timestamp"] = "…"
    return answer


class BesideThePythonImplementation(unittest.TestCase):
    def test_results_are_equal(self):
        for gate in ["true", "True", "false", "1", ""]:
            both = [answers(python, CALLS, gate) for python in (sys.executable, peer)]
            for call, ours, theirs in zip(CALLS, *both, strict=True):
                with self.subTest(call=call, gate=gate):
                    self.assertEqual(without_chance(ours), without_chance(theirs))

    def test_decisions_about_code_are_equal(self):
        calls = [["gateway", "execute_python_code", {"code": code}] for code in CODE]
        both = [answers(python, calls, "true") for python in (sys.executable, peer)]
        for code, ours, theirs in zip(CODE, *both, strict=True):
            with self.subTest(code=code):
                # Ours has structured findings in addition to the message.
                self.assertEqual(set(ours), {*theirs, "findings"})
                self.assertTrue(all({"rule", "line", "column", "message"} <= set(each) for each in ours["findings"]))
                for field in ["verified", "status", "risk_level", "error_code", "normalized_arguments"]:
                    self.assertEqual(ours[field], theirs[field])

    def test_dictionaries_are_in_the_same_order(self):
        calls = [["bill", "m", ["e"], ["t"]], ["guard", {}, SKILL]]
        ours, theirs = (answers(python, calls, "true") for python in (sys.executable, peer))
        for one, other in zip(ours, theirs, strict=True):
            self.assertEqual(list(one), list(other))
        self.assertEqual(list(ours[0]["components"]), list(theirs[0]["components"]))

    def test_an_empty_model_is_refused_with_the_same_words(self):
        program = "from qwed_mcp.observability.aibom import AIBOMGenerator\nAIBOMGenerator.generate_manifest('')"
        both = [
            subprocess.run([python, "-c", program], capture_output=True, text=True).stderr.splitlines()[-1]
            for python in (sys.executable, peer)
        ]
        self.assertEqual(*both)
        self.assertEqual(both[0], "ValueError: llm_model must be a non-empty string")


class TheProgramBehindIt(unittest.TestCase):
    def decide(self, name="nope"):
        return RiskBasedExecutionGateway().evaluate_and_route(name, {})["message"]

    def test_the_gate_is_read_at_each_call(self):
        gateway, arguments = RiskBasedExecutionGateway(), {"code": "print(1)"}
        before = os.environ.pop(GATE, None)
        try:
            closed = gateway.evaluate_and_route("execute_python_code", arguments)
            os.environ[GATE] = "true"
            opened = gateway.evaluate_and_route("execute_python_code", arguments)
        finally:
            os.environ.pop(GATE, None)
            if before is not None:
                os.environ[GATE] = before
        self.assertEqual([closed["verified"], opened["verified"]], [False, True])
        self.assertNotEqual(closed["verification_id"], opened["verification_id"])

    def test_what_is_no_json_is_a_value_error(self):
        gateway = RiskBasedExecutionGateway()
        circle: list = []
        circle.append(circle)
        deep: list = []
        for _ in range(100_000):
            deep = [deep]
        for value in [object(), float("nan"), b"x", circle, "\ud800", {("a",): 1}, [{1: 2}], deep]:
            with self.subTest(value=type(value)), self.assertRaises(ValueError):
                gateway.evaluate_and_route("execute_python_code", {"code": value})
        for manifest in [[], "x", None, {**SKILL, None: 1}]:
            with self.subTest(manifest=manifest), self.assertRaises(ValueError):
                SkillProvenanceGuard().verify_skill(manifest)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, r"an unpaired surrogate, U\+D800"):
            gateway.evaluate_and_route("execute_python_code", {"code": "\ud800"})
        with self.assertRaisesRegex(ValueError, "trusted_domains: 'a b' is not simply a host"):
            SkillProvenanceGuard(trusted_domains={"a b"})
        self.assertIn("nope", self.decide())

    def test_a_large_script_is_answered(self):
        code = "x = 1\n" * 150_000
        decision = RiskBasedExecutionGateway().evaluate_and_route("execute_python_code", {"code": code})
        self.assertEqual(decision["normalized_arguments"]["code"], code)

    def test_threads_get_their_own_answers(self):
        wrong = []

        def ask(number):
            for turn in range(100):
                name = f"tool_{number}_{turn}"
                if f"'{name}'" not in self.decide(name):
                    wrong.append(name)

        threads = [threading.Thread(target=ask, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_one_process_is_kept_and_a_dead_one_is_replaced(self):
        _program._process.end()
        self.decide()
        [first] = _program._process._idle
        self.decide()
        self.assertEqual(_program._process._idle, [first])
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        self.assertIn("nope", self.decide())
        self.assertNotIn(first, _program._process._idle)

    def test_when_the_program_dies_in_a_call_another_one_is_asked_once(self):
        _program._process.end()
        self.decide()
        [process] = _program._process._idle
        os.kill(process.pid, signal.SIGSTOP)
        threading.Timer(0.2, os.kill, [process.pid, signal.SIGKILL]).start()
        self.assertIn("nope", self.decide())
        [other] = _program._process._all
        self.assertNotEqual(other.pid, process.pid)
        asked = []

        def dies(process, request):
            asked.append(process.pid)
            raise _program._Ended

        with mock.patch.object(_program._process, "_ask", dies):
            with self.assertRaisesRegex(RuntimeError, "ended before it answered"):
                self.decide()
        self.assertEqual((len(set(asked)), _program._process._all), (2, []))
        self.assertIn("nope", self.decide())

    def test_a_call_within_a_call_of_the_same_thread_is_answered(self):
        _program._process.end()
        self.decide()
        [first] = _program._process._idle
        inner = []
        read = os.read

        def interrupted(descriptor, count):
            # Simulates a signal handler or finalizer that calls in the middle of an exchange.
            with mock.patch.object(os, "read", read):
                inner.append(self.decide("inner"))
            return read(descriptor, count)

        for _ in range(3):
            with mock.patch.object(os, "read", interrupted):
                outer = self.decide("outer")
            self.assertIn("'outer'", outer)
        self.assertIn("'inner'", inner[-1])
        # Two processes serve all calls.
        self.assertEqual(len(_program._process._idle), 2)
        self.assertIn(first, _program._process._idle)
        program = (
            "import signal, time\n"
            "from qwed_mcp.security import RiskBasedExecutionGateway\n"
            "ask = lambda name: RiskBasedExecutionGateway().evaluate_and_route(name, {})['message']\n"
            "handled = []\n"
            "def handle(*_):\n"
            "    handled.append(\"'inner'\" in ask('inner'))\n"
            # The next signal only comes after this call, however slowly a process starts.
            "    if len(handled) < 20: signal.setitimer(signal.ITIMER_REAL, 0.001)\n"
            "signal.signal(signal.SIGALRM, handle)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.001)\n"
            "while len(handled) < 20: assert \"'outer'\" in ask('outer')\n"
            "print(len(handled), all(handled))\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.returncode), ("20 True\n", 0), done.stderr)

    def test_calls_within_one_another_are_bounded(self):
        _program._process.end()
        read = os.read
        calls = []

        def interrupted(descriptor, count):
            # This call comes while a process is started, and before it is registered.
            calls.append(descriptor)
            self.decide("inner")
            return read(descriptor, count)

        with mock.patch.object(os, "read", interrupted):
            with self.assertRaisesRegex(RuntimeError, "more than 8 calls of qwed-mcp are nested"):
                self.decide("outer")
        self.assertEqual((len(calls), _program._process._all), (8, []))
        self.assertIn("'after'", self.decide("after"))
        # Signals that come faster than a process starts.
        program = (
            "import signal\n"
            "from qwed_mcp import _program\n"
            "from qwed_mcp.security import RiskBasedExecutionGateway\n"
            "ask = lambda: RiskBasedExecutionGateway().evaluate_and_route('nope', {})\n"
            "most, refused = [0], []\n"
            "def handle(*_):\n"
            "    most.append(len(_program._process._all))\n"
            "    try: ask()\n"
            "    except RuntimeError as error: refused.append(str(error))\n"
            "signal.signal(signal.SIGALRM, handle)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
            "while len(most) < 200: ask()\n"
            "signal.setitimer(signal.ITIMER_REAL, 0)\n"
            "print(max(most) <= 8, all('are nested' in text for text in refused))\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.stdout, done.returncode), ("True True\n", 0), done.stderr)

    def test_an_interrupt_is_for_its_caller_alone(self):
        program = (
            "import os, signal\n"
            "from qwed_mcp import _program\n"
            "from qwed_mcp.security import RiskBasedExecutionGateway\n"
            "ask = RiskBasedExecutionGateway().evaluate_and_route\n"
            "ask('nope', {})\n"
            "first = _program._process._idle[0]\n"
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "os.killpg(0, signal.SIGINT)\n"
            "ask('nope', {})\n"
            "print(_program._process._idle == [first] and first.poll() is None)\n"
        )
        for _ in range(5):
            command = [sys.executable, "-c", program]
            done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
            self.assertEqual((done.stdout, done.returncode), ("True\n", 0), done.stderr)

    def test_a_fork_has_a_process_of_its_own(self):
        self.decide()
        parents = list(_program._process._idle)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                has_none = not _program._process._all
                code = 0 if has_none and "child" in self.decide("child") else 2
            finally:
                _program._process.end()
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(_program._process._idle, parents)
        self.assertIn("parent", self.decide("parent"))

    def test_the_process_ends_with_its_parent_however_that_ends(self):
        program = (
            "import os, signal, sys\n"
            "from qwed_mcp import _program\n"
            "from qwed_mcp.security import RiskBasedExecutionGateway\n"
            "RiskBasedExecutionGateway().evaluate_and_route('nope', {})\n"
            "print(_program._process._idle[0].pid, flush=True)\n"
        )
        for end in ["", "os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)", "raise SystemExit(4)"]:
            with self.subTest(end=end):
                done = subprocess.run([sys.executable, "-c", program + end], capture_output=True, text=True)
                pid = int(done.stdout)
                # The program ends at the end of its input, without any other action.
                for _ in range(1000):
                    if not pathlib.Path(f"/proc/{pid}").exists():
                        break
                    threading.Event().wait(0.02)
                else:
                    self.fail("the program is still running")

    def test_a_program_on_the_path_is_not_taken(self):
        self.assertEqual(pathlib.Path(_program.find_program()).parent, pathlib.Path(sys.executable).parent)

    def test_the_old_module_names_start_the_program(self):
        for module in ["qwed_mcp", "qwed_mcp.server"]:
            done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True)
            self.assertEqual((done.stdout, done.stderr), (f"qwed-mcp {qwed_mcp.__version__}\n", ""), module)
        done = subprocess.run([sys.executable, "-c", "from qwed_mcp import main; main()"], input="", text=True)
        self.assertEqual(done.returncode, 0)


class TheClient(unittest.TestCase):
    """Tests that the wheel has the client and its program. `tests/pipelines/run` tests the client thoroughly."""

    def test_scripts_are_judged(self):
        with mock.patch.dict(os.environ, {GATE: "true"}), Verifier(workers=2) as verifier:
            scripts = [
                {"code": "print(1)", "expect": "1"},
                {"code": "print(input())", "stdin": "a", "expect": "b"},
                {"code": "eval('1')", "expect": "1"},
                "print(1)",
            ]
            results = list(verifier.map(scripts))
        judged = [("ok", True), ("ok", False), ("blocked", False), ("ok", None)]
        self.assertEqual([(result.status, result.passed) for result in results], judged)

    def test_a_shut_gate_is_an_error_and_no_answer(self):
        with mock.patch.dict(os.environ), Verifier() as verifier:
            os.environ.pop(GATE, None)
            with self.assertRaisesRegex(StartError, GATE):
                verifier.run("print(1)")

    def test_asyncio(self):
        async def ask():
            async with AsyncVerifier() as verifier:
                return (await verifier.run("print(1)")).stdout

        with mock.patch.dict(os.environ, {GATE: "true"}):
            self.assertEqual(asyncio.run(ask()), "1")

    def test_ray_is_an_extra_that_is_named_where_it_is_missing(self):
        with self.assertRaisesRegex(ModuleNotFoundError, r"pip install 'qwed-mcp\[ray\]>=0.3'"):
            importlib.import_module("qwed_mcp.client.ray")


class TheDocumentation(unittest.TestCase):
    def test_its_samples_print_what_they_say(self):
        text = (pathlib.Path(__file__).parents[2] / "docs/PYTHON.md").read_text()
        samples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        self.assertGreaterEqual(len(samples), 3)
        for sample in samples:
            expected = re.findall(r"^print\(.*\)  # (.*)$", sample, re.MULTILINE)
            self.assertEqual(len(expected), sample.count("print("), sample)
            environment = {**os.environ, GATE: "true"}
            done = subprocess.run([sys.executable, "-c", sample], capture_output=True, text=True, env=environment)
            self.assertEqual((done.stdout.splitlines(), done.stderr), (expected, ""), sample)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--peer", required=True)
    options, rest = arguments.parse_known_args()
    peer = options.peer
    unittest.main(argv=[sys.argv[0], *rest])
