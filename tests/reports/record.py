"""Records reports of src/governance/pytest, for the tests of the summary: python tests/reports/record.py PYTHON

Each project below becomes a report, and a file with the last line that pytest printed. With pytest-xdist, two workers
must give the same report.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
START = [FOLDER / "../../src/governance/pytest" / name for name in ("common.py", "in_process.py")]
PROJECTS = {}
PROJECTS["outcomes"] = {"tests/test_outcomes.py": '''\
import os
import unittest

import pytest


@pytest.fixture
def broken_setup():
    raise RuntimeError("setup broke")


@pytest.fixture
def broken_teardown():
    yield 1
    raise RuntimeError("teardown broke")


def test_passes():
    pass


def test_fails():
    assert {"x": 1} == {"x": 2}, "a < b & c"


def test_setup_error(broken_setup):
    pass


def test_teardown_error(broken_teardown):
    pass


def test_fails_and_teardown_error(broken_teardown):
    assert 0


def test_skip_and_teardown_error(broken_teardown):
    pytest.skip("later")


@pytest.mark.skip(reason="no")
def test_skipped():
    pass


@pytest.mark.xfail(reason="known")
def test_xfails():
    assert 0


@pytest.mark.xfail
def test_xpasses():
    pass


@pytest.mark.xfail(strict=True)
def test_xpasses_strictly():
    pass


@pytest.mark.xfail(run=False)
def test_xfails_without_a_run():
    pass


@pytest.mark.xfail(reason="known")
def test_xfails_in_teardown_too(broken_teardown):
    assert 0


@pytest.mark.parametrize("x", [1, 2, "a/b::c", 3])
def test_parametrized(x):
    assert x != 2


class TestSquare:
    def test_side(self):
        assert [1] == [2]

    class TestInner:
        def test_inner(self):
            pass


class UnitTest(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(1, 2)


def test_raises_something_strange():
    print("out")
    raise ValueError("two\\nlines ]]> \\x00 \\x1b[31m \\udc80 é")
''', "tests/unit/test_more.py": "def test_more():\n    assert True\n"}
PROJECTS["collection"] = {"tests/test_import.py": "import not_there\n", "tests/test_syntax.py": "def (:\n",
    "tests/test_skipped_module.py": "import pytest\n\npytest.skip('all of it', allow_module_level=True)\n",
  "tests/test_fine.py": "def test_fine():\n    pass\n"}
PROJECTS["passing"] = {"test_fine.py": "import pytest\n\n\n@pytest.mark.parametrize('x', range(20))\ndef test_fine(x):\n    pass\n"}
PROJECTS["nothing"] = {"test_nothing.py": "def helper():\n    pass\n"}
PROJECTS["refused"] = {"test_refused.py": '''\
import os

import pytest


@pytest.mark.parametrize("number", [1, 13, 30, 38, 97, 101])
def test_refused(number):
    raise OSError(number, os.strerror(number))


@pytest.fixture
def database():
    raise PermissionError("the database cannot be written")


def test_setup_refused(database):
    pass


def test_chained():
    try:
        raise OSError(30, "Read-only file system")
    except OSError as error:
        raise RuntimeError("no cache") from error


def test_other_numbers():
    raise OSError(10, "[Errno 11] or so")


def test_names_what_it_does_not_meet():
    with pytest.raises(PermissionError):
        pass
'''}


PROJECTS["subtests"] = {"test_subtests.py": '''\
import unittest


def test_some_fail(subtests):
    for number in range(4):
        with subtests.test(number=number):
            assert number % 2 == 0


def test_all_pass(subtests):
    with subtests.test():
        pass


class UnitTest(unittest.TestCase):
    def test_some_fail(self):
        for number in range(2):
            with self.subTest(number=number):
                self.assertEqual(number, 0)

    def test_skips(self):
        with self.subTest():
            self.skipTest("no")
'''}


def run(files, arguments):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(os.path.realpath(folder))
        project, left, scratch = (folder / name for name in ("project", "left", "scratch"))
        for path, text in files.items():
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(text)
        left.mkdir()
        scratch.mkdir()
        arguments = ["--continue-on-collection-errors", *arguments, str(project)]
        source = f"PROJECT = {str(project)!r}\nFIRST = LAST = []\nFILES = {str(left)!r}\n"
        source += f"RESERVE = 1000\nFAILURES_MAX = 50\nARGUMENTS = {arguments!r}\nTESTS = None\n"
        source += "".join(part.read_text() for part in START)
        environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}
        printed = subprocess.run([sys.argv[1], "-c", source], capture_output=True, env=environment)
        report = (left / ".new-report").read_text().replace(str(project), "/project")
        assert '{"way": "returned", ' in (left / ".new-ended").read_text()
    # Removes paths and addresses of this machine.
    report = re.sub(r"/[^ :'\"&<]*/lib/python3\.\d+/", "/usr/lib/python3/", report)
    report = re.sub(r"0x[0-9a-f]{8,}", "0x0", report)
    return report, printed.stdout.decode(errors="replace").strip().splitlines()[-1].strip("= ")


def counts(report):
    *failures, counts = map(json.loads, report.splitlines())
    return sorted((it["kind"], it["name"]) for it in failures), {**counts, "duration_s": 0}


for name, files in PROJECTS.items():
    report, last = run(files, ["-p", "no:xdist"])
    (FOLDER / f"{name}.jsonl").write_text(report)
    (FOLDER / f"{name}.txt").write_text(last + "\n")
    if subprocess.run([sys.argv[1], "-c", "import xdist"], capture_output=True).returncode == 0:
        # pytest-xdist itself fails if a report has half of a surrogate pair.
        files = {path: text.replace("\\udc80", "") for path, text in files.items()}
        distributed, _ = run(files, ["-n", "2"])
        assert counts(distributed) == counts(report), distributed
        print(f"{name}: the same with pytest-xdist")
