#!/usr/bin/env python3
"""Tests the client `qwed_mcp.client` with the real program, and with a stand-in that simulates faults.

    ENVIRONMENT/bin/python tests/pipelines/client.py --program target/debug/qwed-mcp

The exit code is 1 if a test fails.
"""

import argparse
import asyncio
import base64
import gc
import itertools
import json
import multiprocessing
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib
from unittest import mock

from qwed_mcp.client import (
    LINE_BYTES_MAX,
    AsyncVerifier,
    ClosedError,
    InfraError,
    Script,
    StartError,
    Verifier,
    _formats,
    _process,
    last_code_block,
    tests_of,
)

STAND_IN = pathlib.Path(__file__).parent / "stand_in.py"
# The maximum time to wait for an event. No test measures a duration.
SECONDS_MAX = 120
ENDLESS = "import time\ntime.sleep(600)"

program = ""


def wait_for(condition, what):
    """Waits until the condition holds. Fails after SECONDS_MAX."""
    limit = time.monotonic() + SECONDS_MAX
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(f"not in {SECONDS_MAX} s: {what}")
        time.sleep(0.02)


def wait_for_end(pid):
    """Waits until a process and all processes in its session have exited."""

    def is_gone():
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, session = fields[0], int(fields[3])
            if state not in "ZX" and (session == pid or int(process.name) == pid):
                return False
        return True

    wait_for(is_gone, f"the process {pid} ends, with its session")


def real(**settings):
    return Verifier(binary=program, **{"timeout": 20, **settings})


def real_async(**settings):
    return AsyncVerifier(binary=program, **{"timeout": 20, **settings})


def stand_in(**settings):
    return Verifier(binary=STAND_IN, workers=2, **settings)


def submit(verifier, code, **asked):
    waiter = _process.Waiter()
    verifier._submit(Script(code, **asked), waiter)
    return waiter


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.verifier = real()

    @classmethod
    def tearDownClass(cls):
        cls.verifier.close()

    def test_a_script_that_prints_what_is_expected_passes(self):
        meta = object()
        result = self.verifier.run("print(6 * 7)", id="a", meta=meta, expect="42")
        self.assertEqual(
            [result.id, result.status, result.passed, result.exit_code, result.stdout, result.stderr, result.attempt],
            ["a", "ok", True, 0, "42", "", 1],
        )
        self.assertIs(result.meta, meta)
        self.assertTrue(result.verdict())
        self.assertEqual([result.judged, result.reached_end, result.incomplete], ["isolated", True, False])
        self.assertRegex(result.verification_id, "^[0-9a-f]{64}$")
        self.assertRegex(result.code_sha256, "^[0-9a-f]{64}$")
        self.assertRegex(result.line_sha256, "^[0-9a-f]{64}$")
        self.assertGreaterEqual(result.duration_ms, 0)

    def test_a_result_has_the_verdict_of_the_server(self):
        for code, passed, outcome in [
            ("assert 7 * 8 == 56", True, "verified"),
            ("assert 7 * 8 == 54", False, "refuted"),
            ("print(56)", True, "nothing_checked"),
            ("assert (7 * 8 == 54, 'message')", True, "vacuous"),
        ]:
            result = self.verifier.run(code)
            status = "ok" if passed else "failed"
            self.assertEqual([result.status, result.passed, result.outcome], [status, None, outcome], code)
        self.assertEqual(result.verification["document"]["verdict"], "UNVERIFIABLE")
        self.assertEqual(self.verifier.run("eval('1')").outcome, "blocked")

    def test_verdicts(self):
        echo = "print(input()[::-1])"
        for passed, status, code, asked in [
            (None, "ok", "print(1)", {}),
            (None, "failed", "raise SystemExit(3)", {}),
            (False, "failed", "raise SystemExit(3)", {"expect": ""}),
            (False, "failed", "1 / 0", {"expect": ""}),
            (True, "ok", "print('ü')", {"expect": "ü\n"}),
            (True, "ok", "print('ü')", {"expect": {"stdout": "ü\n"}}),
            (True, "ok", echo, {"stdin": "abc\n", "expect": "cba\n"}),
            (True, "ok", echo, {"tests": [("abc\n", "cba\n"), {"stdin": "xy\n", "stdout": "yx\n"}]}),
            (False, "blocked", "import os; os.system('id')", {"expect": ""}),
            (False, "timeout", ENDLESS, {"timeout": 5, "expect": ""}),
        ]:
            with self.subTest(code=code, asked=asked):
                result = self.verifier.run(code, **asked)
                self.assertEqual([result.passed, result.status], [passed, status], result)
                if passed is None:
                    with self.assertRaisesRegex(ValueError, "nothing was expected"):
                        result.verdict()
        with real(require_judge="isolated") as verifier:
            self.assertTrue(verifier.run("print(1)", expect="1").verdict())
            result = verifier.run("print(1)")
            self.assertEqual([result.passed, result.incomplete], [None, True])
            with self.assertRaisesRegex(InfraError, "incomplete"):
                result.verdict()
        for code, asked in [("print(1)", {"expect": "2\n"}), (echo, {"tests": [("ab\n", "ba\n"), ("ab\n", "ab\n")]})]:
            with self.subTest(code=code, asked=asked):
                self.assertIs(self.verifier.run(code, **asked).passed, False)

    def test_each_test_has_a_verdict(self):
        result = self.verifier.run("print(input()[::-1])", tests=[("ab\n", "ba\n"), ("ab\n", "ab\n"), ("c\n", "c\n")])
        self.assertEqual([test.passed for test in result.tests], [True, False, True], result)

    def test_calls_are_judged_by_their_value(self):
        code = "def solve(n):\n    return {'n': n, 'half': n / 2}"
        tests = [
            {"call": "solve(3)", "value": {"n": 3, "half": 1.5}},
            {"call": "solve(4)['half']", "value": 2},
            {"call": "solve(4)['half']", "value": 2, "check": "isclose"},
            {"call": "solve(10 ** 30)['n']", "value": 10**30},
            {"call": "{2, 1}", "value": [1, 2], "check": "set"},
            {"call": "None", "value": None},
        ]
        result = self.verifier.run(code, tests=tests)
        self.assertEqual([test.passed for test in result.tests], [True, False, True, True, True, True], result)
        self.assertEqual([result.tests[1].got, result.tests[0].got, result.passed], ["2.0", None, False])
        result = self.verifier.run(code + "\nraise SystemExit(0)", tests=tests[:1])
        self.assertEqual([result.tests[0].error, result.reached_end], ["the script ended before the call", False])
        for kind, test in [
            (ValueError, {"call": "solve(", "value": 1}),
            (ValueError, {"call": "1", "value": float("nan")}),
            (TypeError, {"call": "1", "value": {1, 2}}),
            # JSON would have the key "1", or twice the key "true".
            (TypeError, {"call": "1", "value": [{"a": ({1: 2},)}]}),
            (TypeError, {"call": "1", "value": {True: 1, "true": 2}}),
            (TypeError, {"call": "1"}),
            (TypeError, {"call": "1", "value": 1, "stdin": ""}),
        ]:
            with self.subTest(test=test), self.assertRaises(kind):
                self.verifier.run("x = 1", tests=[test])

    def test_tests_of_datasets_are_read(self):
        functional = [{"input": '[1, 2]\n"a"', "output": "true", "testtype": "functional"}]
        private = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(functional)))).decode()
        call = {"call": "f([1, 2], 'a')", "value": True}
        row = {"public_test_cases": json.dumps(functional), "private_test_cases": private, "metadata": '{"func_name": "f"}'}
        stdin = {"stdin": "1\n", "stdout": "2\n"}
        as_text = json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}])

        def call_of(argument, value=None):
            return {"call": f"f({argument})", "value": argument if value is None else value}

        for record, code, expected in [
            ({"inputs": ["1\n"], "outputs": ["2\n"]}, "", [stdin]),
            ('{"inputs": ["1\\n"], "outputs": ["2\\n"], "fn_name": null}', "", [stdin]),
            ({"inputs": ['[1, 2]\n"a"'], "outputs": ["true"], "fn_name": "f"}, "", [call]),
            ({"inputs": [[[1, 2], "a"]], "outputs": [True], "fn_name": "f"}, "", [call]),
            ({"input_output": '{"inputs": ["1\\n"], "outputs": ["2\\n"]}'}, "", [stdin]),
            (row, "", [call, call]),
            (row, "import x\nclass Solution:\n    pass", [{**call, "call": "Solution().f([1, 2], 'a')"}] * 2),
            (row, "'''\nclass Solution:\n'''\ndef f(a, b): pass", [call, call]),
            (row, "class Solution: pass\ndef f(a, b): pass", [call, call]),
            ({"public_test_cases": as_text, "private_test_cases": as_text, "metadata": None}, "", [stdin, stdin]),
            # In the dataset APPS, the expected value of a function is in a list.
            ({"inputs": [[1], [2]], "outputs": [[1], [2]], "fn_name": "f"}, "", [call_of(1), call_of(2)]),
            ({"inputs": [[1], [2]], "outputs": [[1], [2, 2]], "fn_name": "f"}, "", [call_of(1, [1]), call_of(2, [2, 2])]),
            ({"test": [{"input": {"stdin": "1\n"}, "output": {"stdout": "2\n"}}]}, "", [stdin]),
            ({"test_cases": [{"type": "stdin_stdout", "input": "1\n", "output": "2\n"}]}, "", [stdin]),
            ([{"type": "function_call", "fn_name": "f", "input": [[1, 2], "a"], "output": True}], "", [call]),
            ([{"type": "function_call", "fn_name": "f", "input": ["1"], "output": "1"}], "", [{"call": "f('1')", "value": "1"}]),
        ]:
            with self.subTest(record=record):
                self.assertEqual(tests_of(record, code), expected)

        class Evil:
            def __reduce__(self):
                return os.system, ("exit 1",)

        def packed(pickled):
            return base64.b64encode(zlib.compress(pickled)).decode()

        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            # Large strings are not in a frame.
            for spaces in [0, 100_000]:
                pickled = pickle.dumps(json.dumps(functional) + " " * spaces, protocol)
                self.assertEqual(tests_of({**row, "private_test_cases": packed(pickled)}), [call, call])
        for wrong in [
            {"tests": []},
            {"inputs": ["1"], "outputs": []},
            {"inputs": ["1"], "outputs": ["1"], "fn_name": "f(); g"},
            [{"input": {"a.txt": ""}, "output": {"stdout": ""}}],
            [{"stdin": ""}],
            {**row, "private_test_cases": packed(pickle.dumps(Evil()))},
            # These pickles would use gigabytes of memory: for the index of a memo, and for the length of a string.
            {**row, "private_test_cases": packed(b"Nr\xff\xff\xff\x7f.")},
            {**row, "private_test_cases": packed(b"\x8d" + b"\xff" * 8 + b".")},
            {**row, "private_test_cases": packed(pickle.dumps("[]")[:-1])},
            {**row, "private_test_cases": packed(pickle.dumps("[]", 2)[:-1] + b"X\x02\0\0\0[].")},
            {**row, "private_test_cases": "nonsense"},
            # A record with missing tests must not be accepted. Every script would pass, or only the examples in the
            # prompt would be tested.
            [],
            {"inputs": [], "outputs": []},
            {"inputs": ["1"], "outputs": [[]]},
            [{"input": {"stdin": "1"}, "output": {}}],
            {**row, "private_test_cases": ""},
            {**row, "private_test_cases": "[]"},
            {"test_cases": None},
            "3",
            # These records have strings or mappings instead of lists.
            {"inputs": "3\n", "outputs": "9\n"},
            {"inputs": {"a": "1"}, "outputs": {"b": "2"}},
            # The type of the test is unclear.
            {**row, "metadata": "{}"},
            [{"type": "function_call", "input": "1", "output": "1"}],
            [{"type": "else", "fn_name": "f", "input": "1", "output": "1"}],
            # These values and names cannot be written into a script.
            {"inputs": ["NaN"], "outputs": ["1"], "fn_name": "f"},
            {"inputs": ["1"], "outputs": ["1e400"], "fn_name": "f"},
            {"inputs": [[object]], "outputs": [1], "fn_name": "f"},
            {"inputs": [[{1: 2}]], "outputs": [1], "fn_name": "f"},
            {"inputs": ["1"], "outputs": ["1"], "fn_name": "class"},
        ]:
            with self.subTest(wrong=wrong), self.assertRaises(ValueError):
                tests_of(wrong)
        pickled = pickle.dumps(json.dumps(functional))
        truncated = base64.b64encode(zlib.compress(pickled)[:-4]).decode()
        for size, private, said in [
            (len(pickled), truncated, "are truncated"),
            (len(pickled) - 1, truncated, "have more than"),
            (len(pickled) - 1, packed(pickled), "have more than"),
        ]:
            with mock.patch.object(_formats, "PRIVATE_BYTES_MAX", size), self.assertRaisesRegex(ValueError, said):
                tests_of({**row, "private_test_cases": private})
        with mock.patch.object(_formats, "PRIVATE_BYTES_MAX", len(pickled)):
            self.assertEqual(tests_of(row), [call, call])
        result = self.verifier.run("def f(a, b):\n    return b in 'abc'", tests=tests_of(row))
        self.assertTrue(result.verdict())

    def test_values_are_returned(self):
        result = self.verifier.run("result = {'a': [1, 0.1, None], 'large': 2 ** 64}")
        self.assertEqual(result.result, {"a": [1, 0.1, None], "large": 2**64})
        self.assertEqual(result.result_omitted, "")
        self.assertIsNone(self.verifier.run("x = 1").result)
        omitted = self.verifier.run("result = {1, 2}")
        self.assertIsNone(omitted.result)
        self.assertIn("the type set", omitted.result_omitted)

    def test_findings_say_where(self):
        [finding] = self.verifier.run("x = 1\neval('1')").findings
        self.assertEqual(finding.line, 2)
        self.assertIn("eval", finding.message)

    def test_inputs_are_files_of_the_script(self):
        inputs = {"a.csv": "x,é\n", "b.bin": b"\x00\xff", "c.json": {"json": [1, {"k": None}]}}
        code = "print(open('a.csv').read() == inputs['a.csv'], inputs['b.bin'], inputs['c.json'])"
        result = self.verifier.run(code, inputs=inputs, expect="True b'\\x00\\xff' [1, {'k': None}]")
        self.assertEqual([result.status, result.passed], ["ok", True], result)
        size = 20 << 20
        [result] = self.verifier.map([{"code": "print(len(inputs['l']))", "inputs": {"l": bytes(size)}, "expect": str(size)}])
        self.assertEqual([result.status, result.passed], ["ok", True], result)
        for wrong, said, asked in [
            (ValueError, "not a plain file name", {"../a": "x"}),
            (TypeError, "inputs is a mapping of file names, not list", ["a"]),
            (TypeError, "inputs\\['a'\\] is a string, bytes or", {"a": 1}),
            (ValueError, "inputs\\['a'\\]: Out of range float", {"a": {"json": float("nan")}}),
            (TypeError, "inputs\\['a'\\]: a key of a dictionary is a string, not NoneType", {"a": {"json": {None: 1}}}),
        ]:
            with self.subTest(said=said), self.assertRaisesRegex(wrong, said):
                self.verifier.run("print(1)", inputs=asked)

    def test_memory_is_bounded_by_script(self):
        result = self.verifier.run("x = bytearray(300 << 20)", memory_mb=200)
        self.assertEqual(result.status, "memory", result)
        self.assertEqual(self.verifier.run("x = bytearray(100 << 20)", memory_mb=200).status, "ok")

    def test_what_cannot_be_asked_for_is_an_error(self):
        for wrong, said, code, asked in [
            (ValueError, "an unpaired surrogate, U\\+D800, at position 3", "x='\ud800'", {}),
            (ValueError, "stdin has an unpaired surrogate", "x", {"stdin": "\udfff"}),
            (ValueError, f"the maximum is {LINE_BYTES_MAX}", "#" * LINE_BYTES_MAX, {}),
            (ValueError, "timeout is a number of seconds above 0", "x", {"timeout": 0}),
            (ValueError, "timeout is a number of seconds above 0", "x", {"timeout": float("nan")}),
            (ValueError, "timeout is a number of seconds above 0", "x", {"timeout": 10**400}),
            (TypeError, "timeout is a number of seconds, not str", "x", {"timeout": "1"}),
            (ValueError, "memory_mb is a number above 0", "x", {"memory_mb": -1}),
            (TypeError, "memory_mb is a whole number", "x", {"memory_mb": True}),
            (TypeError, "code is a string, not bytes", b"x", {}),
            (TypeError, "expect is a string, or", "x", {"expect": {"stderr": ""}}),
            (TypeError, "tests is a list of tests, not str", "x", {"tests": "ab"}),
            (TypeError, "test 2 is", "x", {"tests": [("a", "b"), ("a",)]}),
            (TypeError, "stdout of test 1 is a string", "x", {"tests": [("a", None)]}),
        ]:
            with self.subTest(said=said), self.assertRaisesRegex(wrong, said):
                self.verifier.run(code, **asked)

    def test_what_the_program_does_not_take_is_an_error_too(self):
        for said, code, asked in [
            ("the code is empty", " ", {}),
            ("timeout: 21", "1", {"timeout": 21}),
            ("memory_mb: 1 is not from", "1", {"memory_mb": 1}),
            ("in the tests", "1", {"stdin": "", "tests": [("", "")]}),
            ("0 tests", "1", {"tests": []}),
        ]:
            with self.subTest(said=said), self.assertRaisesRegex(ValueError, said):
                self.verifier.run(code, **asked)
        [result] = self.verifier.map([{"code": " ", "meta": 1}])
        self.assertEqual([result.status, result.passed, result.message, result.meta], ["invalid", None, "the code is empty", 1])

    def test_map_answers_what_no_line_can_have(self):
        large = {"code": "#" * LINE_BYTES_MAX}
        items = ["print(1)", "'\ud800'", Script("print(2)", id="mine", meta=7), large, "print(3)", Script("1", timeout=10**400)]
        for ordered in [True, False]:
            results = sorted(self.verifier.map(items, ordered=ordered), key=lambda result: result.id)
            self.assertEqual([result.id for result in results], ["0", "1", "3", "4", "5", "mine"])
            self.assertEqual([result.status for result in results], ["ok", "invalid", "invalid", "ok", "invalid", "ok"])
            self.assertEqual({result.passed for result in results}, {None})
            with self.assertRaisesRegex(InfraError, "surrogate"):
                results[1].verdict()

    def test_what_is_no_script_is_an_error_of_map(self):
        for item, said in [(7, "a script is a string"), ({"cod": ""}, "cod"), ({}, "code")]:
            with self.subTest(item=item), self.assertRaisesRegex(TypeError, said):
                list(self.verifier.map([item]))

    def test_a_large_output_comes_whole(self):
        result = self.verifier.run("print('é' * 500_000)")
        self.assertEqual(result.stdout, "é" * 500_000)

    def test_settings_that_make_no_sense(self):
        for wrong, settings in [
            (ValueError, {"analysis": "off"}),
            (ValueError, {"require_judge": "exposed"}),
            (ValueError, {"workers": 0}),
            (ValueError, {"timeout": -1}),
            (TypeError, {"memory_mb": 1.5}),
        ]:
            with self.subTest(settings=settings), self.assertRaises(wrong):
                Verifier(binary=program, **settings)
        with self.assertRaisesRegex(ValueError, "concurrency"):
            self.verifier.map([], concurrency=0)

    def test_reported_findings_do_not_block(self):
        with real(analysis="report") as trusting:
            result = trusting.run("exec('print(1)')")
            self.assertEqual([result.status, result.passed, result.stdout], ["ok", None, "1"], result)
            self.assertEqual([result.analysis, len(result.findings)], ["report", 1], result)
            self.assertEqual(trusting.run("print(1)").analysis, "report")
        self.assertIsNone(self.verifier.run("print(1)").analysis)


class Maps(unittest.TestCase):
    def test_results_are_in_order_or_as_they_come(self):
        with real() as verifier:
            scripts = [f"print({number})" for number in range(60)]
            results = list(verifier.map(scripts))
            self.assertEqual([result.stdout for result in results], [f"{number}" for number in range(60)])
            self.assertEqual([result.id for result in results], [str(number) for number in range(60)])
            ids = sorted(int(result.id) for result in verifier.map(scripts, ordered=False))
            self.assertEqual(ids, list(range(60)))

    def test_a_slow_one_does_not_hold_up_others_out_of_order(self):
        with stand_in() as verifier:
            # The first script is never answered. The other answers arrive at once.
            scripts = itertools.chain(["silent"], (f"ok {number}" for number in itertools.count()))
            results = list(itertools.islice(verifier.map(scripts, ordered=False, concurrency=4), 50))
            self.assertEqual({result.status for result in results}, {"ok"})

    def test_an_endless_iterable_is_read_as_far_as_needed(self):
        read = itertools.count()
        with stand_in() as verifier:
            for ordered in [True, False]:
                read = itertools.count()
                results = verifier.map((f"ok {number}" for number in read), concurrency=5, ordered=ordered)
                self.assertEqual(next(read), 0, "nothing is read before the first is asked for")
                for taken in range(1, 40):
                    next(results)
                results.close()
                self.assertLessEqual(next(read), 2 + 40 + 5)

    def test_a_consumer_that_stops_leaves_the_process_to_others(self):
        with real() as verifier:
            results = verifier.map((f"print({number})" for number in itertools.count()), ordered=False)
            pid = [next(results), verifier.pid][1]
            del results
            gc.collect()
            self.assertEqual(verifier.run("print('next')").stdout, "next")
            self.assertEqual(verifier.pid, pid)

    def test_an_iterable_that_fails_says_so(self):
        def failing():
            yield "ok 1"
            raise KeyError("mine")

        with stand_in() as verifier, self.assertRaisesRegex(KeyError, "mine"):
            list(verifier.map(failing(), concurrency=3))

    def test_threads_share_a_process(self):
        wrong = []
        with real() as verifier:

            def ask(thread):
                for turn in range(25):
                    if verifier.run(f"print({thread}, {turn})").stdout != f"{thread} {turn}":
                        wrong.append((thread, turn))

            threads = [threading.Thread(target=ask, args=[number]) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])


class BrokenPrograms(unittest.TestCase):
    def test_a_script_that_kills_the_program_twice_is_not_judged(self):
        with stand_in() as verifier:
            first = verifier.run("ok 1")
            result = verifier.run("die", id="poison", meta=5)
            self.assertEqual(
                [result.id, result.status, result.passed, result.attempt, result.meta], ["poison", "infra_error", None, 2, 5]
            )
            self.assertIn("signal 9", result.message)
            with self.assertRaisesRegex(InfraError, "poison was not judged: infra_error"):
                result.verdict()
            self.assertEqual([verifier.run("ok 2").stdout, first.attempt], ["2", 1])

    def test_what_a_dead_program_had_is_run_once_more_and_that_is_told(self):
        with tempfile.TemporaryDirectory() as folder, stand_in() as verifier:
            scripts = [f"ok {number}" for number in range(200)]
            scripts[100] = f"die-once {folder}/died"
            results = list(verifier.map(scripts, concurrency=20))
            self.assertEqual([result.status for result in results], ["ok"] * 200)
            self.assertEqual([result.id for result in results], [str(number) for number in range(200)])
            self.assertEqual(results[100].attempt, 2)
            self.assertEqual({result.attempt for result in results[:80]}, {1})
            # Only lines that had begun are run again.
            self.assertLessEqual(sum(result.attempt == 2 for result in results), verifier.workers)

    def test_others_are_not_given_up_with_the_one_that_kills(self):
        with stand_in() as verifier:
            scripts = [f"ok {number}" for number in range(300)]
            scripts[150] = "die"
            results = list(verifier.map(scripts, concurrency=10))
            given_up = [result.id for result in results if result.status == "infra_error"]
            self.assertIn("150", given_up)
            # Only lines that may have been running when the script killed the program are given up.
            self.assertLessEqual(len(given_up), verifier.workers)
            self.assertEqual({result.passed for result in results if result.id not in given_up}, {True})

    def test_what_is_no_answer_is_not_believed(self):
        with stand_in() as verifier:
            result = verifier.run("garbage")
            self.assertEqual([result.status, result.passed], ["infra_error", None])
            self.assertIn("sent an invalid answer", result.message)

    def test_a_program_that_is_stuck_is_ended(self):
        with mock.patch.object(_process, "SILENCE_SECONDS_MAX", 0.5), stand_in(timeout=0.5) as verifier:
            for code in ["silent", "stop"]:
                result = verifier.run(code)
                self.assertEqual([result.status, result.attempt], ["infra_error", 2])
                self.assertIn("no answer for", result.message)

    def test_the_program_has_time_for_its_own_repetitions(self):
        for variables, repeats in [({}, 2), ({"QWED_MCP_VACUITY": "On"}, 10)]:
            with stand_in(timeout=10, environment={**os.environ, **variables}) as verifier:
                process = verifier._process
                submit(verifier, "silent", tests=[("", "")] * 3)
                wait_for(lambda: process._run is not None and process._run.sent, "the script is on its way")
                run, allowed = process._run, 10 * 3 * repeats + _process.SILENCE_SECONDS_MAX
                for silence, is_stuck in [(allowed - 20, False), (allowed + 1, True)]:
                    run.last_sign = time.monotonic() - silence
                    process._look_at_the_clock(run)
                    self.assertEqual(run.was_stuck, is_stuck, (variables, silence))

    def test_a_failed_start_leaves_nothing_behind(self):
        popen, start, pids, starts = subprocess.Popen, threading.Thread.start, [], []

        def watched(*arguments, **options):
            process = popen(*arguments, **options)
            pids.append(process.pid)
            return process

        def failing(thread):
            starts.append(thread)
            # Decide before the start, because the thread starts another thread.
            is_failing = len(starts) == fails
            # Ctrl-C interrupts the caller, but the thread runs.
            if not is_failing or kind is KeyboardInterrupt:
                start(thread)
            if is_failing:
                raise kind("no thread")

        for kind, fails in itertools.product([RuntimeError, KeyboardInterrupt], [1, 2]):
            with self.subTest(kind=kind, fails=fails), mock.patch.object(subprocess, "Popen", watched):
                starts.clear()
                with stand_in() as verifier:
                    with mock.patch.object(threading.Thread, "start", failing):
                        with self.assertRaises((StartError, KeyboardInterrupt)):
                            verifier.run("ok 1")
                    waiters = [submit(verifier, f"ok {number}") for number in range(200)]
                    outputs = [waiter.answers.get(timeout=SECONDS_MAX / 4).stdout for waiter in waiters]
                    self.assertEqual(outputs, [str(number) for number in range(200)])
        for pid in pids:
            wait_for_end(pid)

    def test_a_signal_handler_may_call_during_a_call(self):
        source = (
            "import os, signal, subprocess\n"
            "from qwed_mcp.client import ClosedError, Verifier\n"
            f"verifier = Verifier(binary={str(STAND_IN)!r}, workers=1)\n"
            "inner, popen = [], subprocess.Popen\n"
            "def handle(*_):\n"
            "    inner.append(verifier.run('ok inner').stdout)\n"
            "    if len(inner) == 2: verifier.close()\n"
            "def interrupted(*arguments, **options):\n"
            "    subprocess.Popen = popen\n"
            "    os.kill(os.getpid(), signal.SIGALRM)\n"
            "    return popen(*arguments, **options)\n"
            "signal.signal(signal.SIGALRM, handle)\n"
            # One signal comes while the program starts, and one while a call waits.
            "subprocess.Popen = interrupted\n"
            "print(verifier.run('ok outer').stdout, inner)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
            "try: verifier.run('silent')\n"
            "except ClosedError: print(inner)\n"
        )
        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=SECONDS_MAX)
        self.assertEqual((done.stdout, done.stderr), ("outer ['inner']\n['inner', 'inner']\n", ""))

    def test_a_signal_handler_may_call_at_any_line_of_a_map(self):
        source = (
            "import itertools, os, signal, sys\n"
            "from qwed_mcp.client import Verifier\n"
            f"verifier = Verifier(binary={str(STAND_IN)!r}, workers=1)\n"
            "verifier.run('ok')\n"
            "outputs = []\n"
            # Calls like a signal handler, before one line of `map` or of a function that `map` calls. The program has
            # not answered the script of `map` before.
            "def trace(frame, event, _):\n"
            "    global lines_left\n"
            "    lines_left -= event == 'line'\n"
            "    if lines_left == 0 or frame.f_code.co_name == 'result':\n"
            "        os.kill(verifier.pid, signal.SIGCONT)\n"
            "    if event == 'line' and lines_left == 0:\n"
            "        outputs.append(verifier.run('ok inner').stdout)\n"
            "    return trace\n"
            "for ordered in [True, False]:\n"
            "    for lines in itertools.count(1):\n"
            "        lines_left = lines\n"
            "        os.kill(verifier.pid, signal.SIGSTOP)\n"
            "        sys.settrace(trace)\n"
            "        outputs += [result.stdout for result in verifier.map(['ok outer'], ordered=ordered)]\n"
            "        sys.settrace(None)\n"
            "        if lines_left > 0: break\n"
            "    print(lines > 20, outputs.count('outer') == lines, outputs.count('inner') == lines - 1)\n"
            "    outputs.clear()\n"
        )
        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=SECONDS_MAX)
        self.assertEqual((done.stdout, done.stderr), ("True True True\n" * 2, ""))

    def test_a_finalizer_does_not_stop_the_thread_that_delivers_answers(self):
        errors = []

        class Finalizing(_process.Waiter):
            # This method runs on the thread on which a finalizer might run.
            def deliver(self, answer):
                try:
                    verifier.run("ok 2")
                except RuntimeError as error:
                    errors.append(str(error))
                super().deliver(answer)

        with stand_in() as verifier:
            waiter = Finalizing()
            verifier._submit(Script("ok 1"), waiter)
            self.assertEqual([verifier.run("ok 3").stdout, waiter.result().stdout], ["3", "1"])
        [error] = errors
        self.assertIn("cannot wait for an answer", error)

    def test_a_program_that_refuses_is_an_error_with_its_words(self):
        with stand_in() as verifier:
            for _ in range(2):
                with self.assertRaisesRegex(StartError, "exit code 2: no sandbox here"):
                    verifier.run("exit 2 no sandbox here")
            with self.assertRaisesRegex(StartError, "exit code 2"):
                list(verifier.map(["exit 2 no", *["ok 1"] * 20]))
            self.assertEqual(verifier.run("ok 1").stdout, "1")
        for binary, environment, kind in [("/nonexistent/qwed-mcp", None, FileNotFoundError), (STAND_IN, {"a": 1}, TypeError)]:
            verifier = Verifier(binary=binary, environment=environment)
            with verifier, self.assertRaisesRegex(StartError, "cannot be started") as raised:
                verifier.run("print(1)")
            self.assertIsInstance(raised.exception.__cause__, kind)
        with Verifier(binary=program, environment={}) as verifier, self.assertRaises((StartError, InfraError)) as raised:
            # Without this variable, the admin gate is closed. The script is not judged as wrong.
            verifier.run("print(1)").verdict()
        self.assertIn("QWED_MCP_TRUSTED_CODE_EXECUTION", str(raised.exception))

    def test_a_program_that_complains_at_length_is_not_held_up(self):
        with stand_in() as verifier:
            self.assertEqual(verifier.run("complain 300000").status, "ok")

    def test_the_real_program_killed_in_the_middle(self):
        with real(workers=2) as verifier:
            results, killed = [], 0
            scripts = (Script(f"print({number})", expect=str(number)) for number in range(300))
            for result in verifier.map(scripts, ordered=False, concurrency=16):
                results.append(result)
                if len(results) in (50, 150, 250):
                    pid = verifier.pid
                    os.kill(pid, signal.SIGKILL)
                    wait_for_end(pid)
                    killed += 1
        self.assertEqual(killed, 3)
        self.assertEqual(sorted(int(result.id) for result in results), list(range(300)))
        for result in results:
            expected = [True, result.id] if result.status == "ok" else [None, ""]
            self.assertEqual([result.passed, result.stdout], expected, result)
        self.assertGreater(max(result.attempt for result in results), 1)


class Ends(unittest.TestCase):
    def test_closing_ends_the_process_and_what_waits(self):
        verifier = real()
        verifier.run("print(1)")
        pid, errors = verifier.pid, []

        def wait():
            try:
                verifier.run(ENDLESS)
            except ClosedError as error:
                errors.append(error)

        threads = [threading.Thread(target=wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(verifier._process._run.sent) == 4, "scripts are on their way")
        verifier.close()
        for thread in threads:
            thread.join()
        self.assertEqual([str(error) for error in errors], ["the verifier was closed before the answer arrived"] * 4)
        self.assertEqual(len(set(errors)), 4, "each call raises its own exception")
        wait_for_end(pid)
        verifier.close()
        with self.assertRaisesRegex(ClosedError, "closed"):
            verifier.run("print(1)")
        Verifier(binary=program).close()

    def test_a_verifier_that_nobody_has_ends_its_process(self):
        for code in ["ok 1", "silent"]:
            verifier = stand_in()
            verifier.run("ok 1")
            pid, results = verifier.pid, verifier.map([code] * 5, ordered=False)
            if code == "ok 1":
                next(results)
            del results, verifier
            gc.collect()
            wait_for_end(pid)

    def test_a_program_that_does_not_end_is_killed(self):
        with mock.patch.object(_process, "ENDING_SECONDS_MAX", 0.2):
            verifier = stand_in()
            verifier.run("deaf")
            pid = verifier.pid
            verifier.close()
            wait_for_end(pid)

    def test_the_process_ends_with_its_parent_however_that_ends(self):
        source = (
            "import os, signal, sys, threading, time\n"
            "from qwed_mcp.client import Verifier\n"
            f"verifier = Verifier(binary={program!r}, timeout=600)\n"
            "verifier.run('print(1)')\n"
            "print(verifier.pid, flush=True)\n"
            f"threads = [threading.Thread(target=lambda: verifier.run({ENDLESS!r}), daemon=True) for _ in range(4)]\n"
        )
        busy = "[thread.start() for thread in threads]\nwhile len(verifier._process._run.sent) < 4: time.sleep(0.01)\n"
        # The parent exits while the program is idle, and while it runs scripts that do not end.
        kill = "os.kill(os.getpid(), signal.SIGKILL)"
        for before, ends in [("", ["", "1 / 0", "os._exit(3)"]), (busy, ["", "raise SystemExit(4)", kill])]:
            for end in ends:
                with self.subTest(end=end, busy=bool(before)):
                    done = subprocess.run([sys.executable, "-c", source + before + end], capture_output=True, text=True)
                    self.assertEqual(done.stderr.count("Exception ignored"), 0, done.stderr)
                    wait_for_end(int(done.stdout))

    def test_an_interrupt_ends_the_call_and_the_process(self):
        source = (
            "import os, signal, threading, time\n"
            "from qwed_mcp.client import Verifier\n"
            # If a shell starts this process in the background, SIGINT is ignored by default.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "def interrupt(scripts):\n"
            "    while len(verifier._process._run.sent) < scripts: time.sleep(0.01)\n"
            # Like a terminal, sends the signal to all processes of the group.
            "    os.killpg(0, signal.SIGINT)\n"
            f"with Verifier(binary={program!r}, timeout=600, workers=2) as verifier:\n"
            "    verifier.run('print(1)')\n"
            "    print(verifier.pid, flush=True)\n"
            "    try:\n"
            "        threading.Thread(target=interrupt, args=[1]).start()\n"
            f"        verifier.run({ENDLESS!r})\n"
            "    except KeyboardInterrupt:\n"
            "        print(verifier.run('print(2)').stdout, verifier.pid, flush=True)\n"
            # The first script still runs, although its call was interrupted.
            "    threading.Thread(target=interrupt, args=[2]).start()\n"
            f"    verifier.run({ENDLESS!r})\n"
        )
        command = [sys.executable, "-c", source]
        python = subprocess.run(command, capture_output=True, text=True, start_new_session=True, timeout=300)
        said = python.stderr
        first, second = python.stdout.splitlines()
        pid = int(first)
        self.assertEqual(second, f"2 {pid}")
        self.assertEqual(python.returncode, -signal.SIGINT)
        self.assertTrue(said.endswith("KeyboardInterrupt\n"), said)
        wait_for_end(pid)


class Forks(unittest.TestCase):
    def test_a_fork_has_a_process_of_its_own(self):
        with real() as verifier:
            verifier.run("print(1)")
            pid = verifier.pid
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    had_none = verifier.pid is None
                    code = 0 if had_none and verifier.run("print(2)").stdout == "2" and verifier.pid != pid else 2
                    verifier.close()
                finally:
                    os._exit(code)
            self.assertEqual(verifier.run("print(3)").stdout, "3")
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(verifier.pid, pid)

    def test_a_fork_does_not_wait_for_answers_of_its_parent(self):
        for ordered in [True, False]:
            children = []

            def scripts():
                yield "silent"
                children.append(os.fork())
                if children == [0]:
                    # Without an answer, this signal ends the fork.
                    signal.alarm(SECONDS_MAX)
                else:
                    raise KeyError("parent")

            with self.subTest(ordered=ordered), stand_in() as verifier:
                code = 1
                try:
                    list(verifier.map(scripts(), ordered=ordered))
                except ClosedError as error:
                    code = 0 if "the parent process" in str(error) and verifier.run("ok 1").stdout == "1" else 2
                except KeyError:
                    pass
                finally:
                    if children == [0]:
                        os._exit(code)
                self.assertEqual(os.waitpid(children[0], 0)[1], 0)

    def test_a_fork_does_not_keep_the_process(self):
        with real() as verifier:
            verifier.run("print(1)")
            pid = verifier.pid
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            try:
                # Closing the pipe must end the program. So the fork must not have a copy of the pipe.
                verifier._process._run.process.stdin.close()
                wait_for_end(pid)
            finally:
                os.close(writer)
                os.close(reader)
                os.waitpid(child, 0)

    def test_forks_while_threads_ask(self):
        with real() as verifier:
            is_over = threading.Event()
            wrong = []

            def ask(thread):
                while not is_over.is_set():
                    if verifier.run(f"print({thread})").stdout != f"{thread}":
                        wrong.append(thread)

            threads = [threading.Thread(target=ask, args=[number]) for number in range(4)]
            for thread in threads:
                thread.start()
            try:
                for _ in range(10):
                    child = os.fork()
                    if child == 0:
                        code = 1
                        try:
                            code = 0 if verifier.run("print('child')").stdout == "child" else 2
                            verifier.close()
                        finally:
                            os._exit(code)
                    self.assertEqual(os.waitpid(child, 0)[1], 0)
            finally:
                is_over.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(wrong, [])

    def test_threads_fork_at_the_same_time(self):
        source = (
            "import os, sys, threading\n"
            "from qwed_mcp.client import Verifier\n"
            f"verifiers = [Verifier(binary={str(STAND_IN)!r}, workers=1) for _ in range(20)]\n"
            "def fork():\n"
            "    for _ in range(50):\n"
            "        child = os.fork()\n"
            "        if child == 0: os._exit(0)\n"
            "        os.waitpid(child, 0)\n"
            "sys.setswitchinterval(1e-5)\n"
            "threads = [threading.Thread(target=fork, daemon=True) for _ in range(4)]\n"
            "for thread in threads: thread.start()\n"
            "for thread in threads: thread.join(60)\n"
            "print([thread.is_alive() for thread in threads], flush=True)\n"
            "print(verifiers[0].run('ok 1').stdout)\n"
        )
        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=2 * SECONDS_MAX)
        self.assertEqual(done.stdout, "[False, False, False, False]\n1\n", done.stderr)

    def test_workers_of_multiprocessing(self):
        with real() as verifier:
            verifier.run("print(1)")
            for method in ["fork", "spawn"]:
                with multiprocessing.get_context(method).Pool(2, start_in_worker, [verifier]) as pool:
                    answers = pool.map(run_in_worker, range(20), chunksize=5)
                    pool.close()
                    pool.join()
                self.assertEqual([stdout for stdout, _ in answers], [f"{number}" for number in range(20)])
                pids = {pid for _, pid in answers}
                self.assertNotIn(verifier.pid, pids)
                for pid in pids:
                    wait_for_end(pid)

    def test_a_copy_by_pickle_has_the_settings(self):
        with stand_in(timeout=7) as verifier:
            copy = pickle.loads(pickle.dumps(verifier))
            with copy:
                self.assertEqual(copy._settings, verifier._settings)
                self.assertEqual(copy.run("ok 1").stdout, "1")
                self.assertIsNone(verifier.pid)


def start_in_worker(verifier):
    global workers_verifier
    workers_verifier = verifier


def run_in_worker(number):
    return workers_verifier.run(f"print({number})").stdout, workers_verifier.pid


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_many_at_once(self):
        async with real_async() as verifier:
            results = await asyncio.gather(*(verifier.run(f"print({number})") for number in range(100)))
            self.assertEqual([result.stdout for result in results], [f"{number}" for number in range(100)])
            pid = verifier.pid
        await verifier.close()
        await asyncio.to_thread(wait_for_end, pid)
        with self.assertRaises(ClosedError):
            await verifier.run("print(1)")

    async def test_a_cancelled_task_loses_its_own_answer_alone(self):
        async with real_async(workers=2) as verifier:
            tasks = [asyncio.create_task(verifier.run(f"import time; time.sleep(0.2); print({number})")) for number in range(12)]
            await tasks[0]
            # The tasks wait or run when they are cancelled.
            cancelled = [number for number, task in enumerate(tasks) if number % 2 and task.cancel()]
            self.assertGreaterEqual(len(cancelled), 4)
            for number, task in enumerate(tasks):
                if number in cancelled:
                    with self.assertRaises(asyncio.CancelledError):
                        await task
                else:
                    self.assertEqual((await task).stdout, f"{number}")
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(verifier.run("import time; time.sleep(5)"), 0.2)
            self.assertEqual((await verifier.run("print(1)")).stdout, "1")

    async def test_map_of_both_kinds_of_iterables(self):
        async def endless():
            for number in itertools.count():
                yield f"print({number})"

        async with real_async() as verifier:
            for scripts in [endless(), (f"print({number})" for number in itertools.count())]:
                results = []
                async for result in verifier.map(scripts, concurrency=8):
                    results.append(result.stdout)
                    if len(results) == 30:
                        break
                self.assertEqual(results, [str(number) for number in range(30)])
            scripts = [f"print({number})" for number in range(50)]
            results = [result async for result in verifier.map(scripts, ordered=False)]
            self.assertEqual(sorted(int(result.stdout) for result in results), list(range(50)))
            self.assertEqual([result async for result in verifier.map([])], [])

    async def test_results_come_while_the_next_script_is_waited_for(self):
        answered = asyncio.Event()

        async def one_then_wait():
            yield "print('first')"
            await answered.wait()
            yield "print('second')"

        async with real_async() as verifier:
            results = []
            async for result in verifier.map(one_then_wait()):
                results.append(result.stdout)
                answered.set()
            self.assertEqual(results, ["first", "second"])

    async def test_errors_of_map_are_its_consumers(self):
        async def failing():
            yield "print(1)"
            raise KeyError("mine")

        async with real_async() as verifier:
            with self.assertRaisesRegex(KeyError, "mine"):
                async for _ in verifier.map(failing()):
                    pass
            with self.assertRaises(TypeError):
                async for _ in verifier.map([7]):
                    pass
            self.assertEqual([result.status async for result in verifier.map(["'\ud800'", "1"])], ["invalid", "ok"])

    def test_several_event_loops(self):
        verifier = real_async()
        for number in range(3):
            self.assertEqual(asyncio.run(verifier.run(f"print({number})")).stdout, f"{number}")
        asyncio.run(verifier.close())


class Replies(unittest.TestCase):
    def test_the_last_block_counts(self):
        for reply, code in [
            ("no code", None),
            ("```python\nprint(1)\n```", "print(1)\n"),
            ("First:\n```py\na\n```\nthen\n\n```Python\nb\nc\n```\nDone.", "b\nc\n"),
            ("```\na\n```", "a\n"),
            ("```bash\nls\n```", None),
            ("~~~python\na\n~~~\n", "a\n"),
            ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n"),
            ("```python\ncut", None),
            ("``` python \na\n```", "a\n"),
            ("```bash\nls\n```\n```python\na\n```", "a\n"),
            ("```python\na\n```\n```bash\nls\n```", "a\n"),
            # The rules of CommonMark 0.31, section 4.5.
            ("```python\ns = '''\n    ```\n'''\n```", "s = '''\n    ```\n'''\n"),
            ("```python\ns = '''\n\t```\n'''\n   `````  ", "s = '''\n\t```\n'''\n"),
            ("```python\na\n~~~\n``\n``` b\n```", "a\n~~~\n``\n``` b\n"),
            ("1. Code:\n   ```python\n   if a:\n       b\n  c\n\n   ```", "if a:\n    b\nc\n\n"),
            ("~~~python `a` ~~~\na\n~~~", "a\n"),
            ("```python `a`\na\n```", None),
            ("```python\r\na\r\n```\r\n", "a\r\n"),
            ("```python\ra\r```", "a\r"),
            *((f"```python\ns = '{end}```{end}'\n```", f"s = '{end}```{end}'\n") for end in "\u2028\u2029\x85\x0b\x0c\x1c"),
        ]:
            with self.subTest(reply=reply):
                self.assertEqual(last_code_block(reply), code)


class TheDocumentation(unittest.TestCase):
    def test_the_samples_print_what_they_say(self):
        page = (pathlib.Path(__file__).parents[2] / "docs/PIPELINES.md").read_text()
        samples = re.findall(r"```python\n(from qwed_mcp.*?)```", page, re.DOTALL)
        self.assertEqual(len(samples), 3)
        for sample in samples:
            expected = re.findall(r"^ *print\(.*\)  # (.*)$", sample, re.MULTILINE)
            self.assertEqual(len(expected), len(re.findall(r"^ *print\(", sample, re.MULTILINE)))
            done = subprocess.run([sys.executable, "-c", sample], capture_output=True, text=True)
            self.assertEqual((done.stdout.splitlines(), done.stderr), (expected, ""), sample)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--program", required=True)
    options, rest = arguments.parse_known_args()
    program = str(pathlib.Path(options.program).resolve())
    unittest.main(argv=[sys.argv[0], *rest])
