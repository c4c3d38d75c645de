# Starts pytest as `python -m pytest` does in the folder of the project. Before this stand PROJECT, FIRST
# and LAST (more folders to import from), FILES (the folder for artifacts), RESERVE (bytes), FAILURES_MAX
# and ARGUMENTS.
import json
import os
import sys
import time
import traceback

try:
    import pytest
except ImportError:
    sys.exit(86)
try:
    # Loads what pytest itself needs, so that none of it comes from the project, which may have a
    # json.py.
    from _pytest.config import get_config
    get_config()
except Exception:
    pass

os.chdir(PROJECT)
sys.path[:0] = [PROJECT, *(path for path in FIRST if path not in sys.path)]
# Behind everything installed, as an editable install has it.
sys.path.extend(path for path in LAST if path not in sys.path)
if FIRST:
    # For interpreters that tests start: what the server has in PYTHONPATH.
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*FIRST, others] if others else FIRST)
sys.argv[:] = ["pytest", *ARGUMENTS]

# The project is read-only, so what is written there goes elsewhere.
scratch = os.environ["TMPDIR"]
# Options by which plugins write reports, as they are called in config.option. Those that are set
# lead to the artifacts of the run.
REPORTS = (
    "htmlpath",  # pytest-html: --html
    "json_report_file",  # pytest-json-report: --json-report-file
    "log_file",  # pytest: --log-file
    "md_report_output",  # pytest-md-report: --md-report-output
    "report_log",  # pytest-reportlog: --report-log
    "allure_report_dir",  # allure-pytest: --alluredir
)
# pytest-cov: what --cov-report=KIND writes where it has no path.
COVERAGE_REPORTS = {
    "annotate": "annotated", "html": "htmlcov", "json": "coverage.json", "lcov": "coverage.lcov",
    "markdown": "coverage.md", "markdown-append": "coverage.md", "xml": "coverage.xml",
}
# Room for the reports, however much the tests leave.
reserve = os.path.join(FILES, ".new-reserve")
# The outcomes of the tests, one JSON document a line: the first failures, and then all counts.
report_file = os.path.join(FILES, ".new-report")
# How pytest ended. It has content only if pytest came to its end.
ended = os.path.join(FILES, ".new-ended")
# The ids of tests that passed are reported for the first of them only.
PASSED_MAX = 64
# The characters of a failure that are reported: of its id and reason, of its explanation and each line.
NAME_CHARS_MAX = 600
REASON_CHARS_MAX = 1000
TEXT_CHARS_MAX = 4000
LINE_CHARS_MAX = 400


def write(path, mode, content, open=open):
    try:
        with open(path, mode) as file:
            file.write(content)
    except OSError:
        pass


def remove(path, unlink=os.unlink):
    try:
        unlink(path)
    except OSError:
        pass


def json_line(document, encode=json.JSONEncoder(ensure_ascii=False).encode):
    # Made before any test is loaded: tests put other things in place of json.dumps, and their outcomes
    # are reported while these are there. Half of a surrogate pair is no UTF-8.
    return encode(document).encode("utf-8", "replace") + b"\n"


def below_files(path):
    return os.path.join(FILES, os.path.basename(os.path.normpath(path)))


class Reports:
    """Leads reports of plugins to the artifacts, and reports the outcomes of the tests as pytest
    counts them. Workers of pytest-xdist have no such plugin: all of their tests are reported to this
    process."""

    clock = staticmethod(time.perf_counter)

    def __init__(self):
        kinds = ("passed", "failed", "errors", "skipped", "xfailed", "deselected")
        self.counts = dict.fromkeys(kinds, 0)
        self.collected = 0
        self.failures = []
        self.passed_tests = []
        self.started = self.clock()
        self.is_interrupted = False

    # A wrapper, as plugins themselves are among the first.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_load_initial_conftests(self, early_config):
        if getattr(early_config.known_args_namespace, "cov_source", None):
            os.environ.setdefault("COVERAGE_FILE", os.path.join(scratch, ".coverage"))
        if early_config.pluginmanager.hasplugin("hypothesispytest"):
            storage = os.path.join(scratch, "hypothesis")
            os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", storage)
        yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config):
        try:
            log_file = config.getoption("log_file") or config.getini("log_file")
        except (KeyError, ValueError):
            # -p no:logging
            log_file = None
        if log_file:
            config.option.log_file = log_file
        if getattr(config.option, "basetemp", None):
            config.option.basetemp = os.path.join(scratch, "basetemp")
        for name in REPORTS:
            path = getattr(config.option, name, None)
            if path and isinstance(path, str):
                setattr(config.option, name, below_files(path))
        coverage = getattr(config.pluginmanager.get_plugin("_cov"), "options", None)
        reports = getattr(coverage, "cov_report", None)
        if isinstance(reports, dict):
            for kind in COVERAGE_REPORTS.keys() & reports.keys():
                reports[kind] = below_files(reports[kind] or COVERAGE_REPORTS[kind])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self):
        self.started = self.clock()

    def add_failure(self, kind, name, longrepr):
        self.counts["failed" if kind == "failed" else "errors"] += 1
        if len(self.failures) == FAILURES_MAX:
            return
        text = str(longrepr)
        crash = getattr(longrepr, "reprcrash", None)
        lines = text.rstrip().split("\n")
        explanation = [line[:LINE_CHARS_MAX] for line in lines if line.startswith("E ")]
        self.failures.append(json_line({
            "kind": kind,
            "name": str(name)[:NAME_CHARS_MAX],
            "reason": str(text if crash is None else crash.message)[:REASON_CHARS_MAX],
            "explanation": "\n".join(explanation)[:TEXT_CHARS_MAX],
            "place": lines[-1][:LINE_CHARS_MAX],
        }))

    # Behind pytest's own: where subtests failed, that makes a failure of the test.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        if report.outcome == "failed":
            kinds = {"setup": "setup_error", "teardown": "teardown_error"}
            self.add_failure(kinds.get(report.when, "failed"), report.nodeid, report.longrepr)
        elif type(report).__name__.lower() == "subtestreport":
            # As in pytest's last line: a part of its test, unless it failed.
            pass
        elif report.outcome == "skipped":
            self.counts["xfailed" if hasattr(report, "wasxfail") else "skipped"] += 1
        elif report.outcome == "passed" and report.when == "call":
            self.counts["passed"] += 1
            if len(self.passed_tests) < PASSED_MAX:
                self.passed_tests.append(str(report.nodeid)[:NAME_CHARS_MAX])

    def pytest_collectreport(self, report):
        if report.failed:
            self.add_failure("collection_error", report.nodeid, report.longrepr)
        elif report.skipped:
            self.counts["skipped"] += 1

    def pytest_itemcollected(self, item):
        self.collected += 1

    def pytest_deselected(self, items):
        self.counts["deselected"] += len(items)

    # What a hook of the project took out of the tests counts too where it does not say so.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session):
        left_out = self.collected - len(session.items)
        self.counts["deselected"] = max(self.counts["deselected"], left_out)

    def pytest_internalerror(self, excrepr):
        self.add_failure("error", "pytest", excrepr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo):
        # Others, of pytest and of pytest-xdist, say that there were enough failures.
        if type(excinfo.value) is KeyboardInterrupt or isinstance(excinfo.value, pytest.exit.Exception):
            self.is_interrupted = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        remove(reserve)
        counts = {
            **self.counts, "passed_tests": self.passed_tests,
            "duration_s": round(self.clock() - self.started, 3),
        }
        # Tests may have put anything in its place, such as a pipe.
        remove(report_file)
        write(report_file, "xb", b"".join([*self.failures, json_line(counts)]))


write(reserve, "xb", bytes(RESERVE))
# With room for what is written there at the end.
write(ended, "xb", bytes(256))
options = ["--color=no", "-o", "cache_dir=" + os.path.join(scratch, "pytest_cache")]
options += ["-o", "junit_family=xunit1", "--junitxml=" + os.path.join(FILES, "junit.xml")]
reports = Reports()
way = "returned"
try:
    code = pytest.main([*options, *ARGUMENTS], plugins=[reports])
    if reports.is_interrupted:
        way = "interrupted"
except Exception:
    traceback.print_exc()
    code, way = 1, "raised"
write(ended, "r+", f'{{"way": "{way}", "passed": {reports.counts["passed"]}}}\n')
sys.exit(code)
