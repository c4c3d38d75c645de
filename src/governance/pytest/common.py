# Shared by all ways to run pytest. Before this stand PROJECT, FIRST and LAST (more folders to import from),
# FILES (the folder for artifacts), RESERVE (bytes), FAILURES_MAX, ARGUMENTS, and TESTS (the folder of tests that are
# not the project's, or None).
import json
import os
import sys
import time
import traceback

# The path before anything of the project is on it.
INSTALLED = sys.path[:]
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
# What is counted.
COUNTED = ("passed", "failed", "errors", "skipped", "xfailed", "deselected", "uncollected")
# From the best outcome of a test to the worst. A test has the worst outcome of its reports.
OUTCOMES = ("passed", "skipped", "xfailed", "failed", "error")


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


def is_in_project(path, folders=tuple(os.path.join(it, "") for it in (PROJECT, TESTS) if it)):
    return os.path.join(os.path.abspath(path), "").startswith(folders)


def keep_project_out_of_start():
    """Keeps files of the project that no test names from running: plugins that the project claims to have
    installed, compiled files, and lines of .pth files."""
    import site
    from importlib.machinery import (
        EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader,
    )
    from _pytest.assertion import rewrite
    from _pytest.config import PytestPluginManager

    load_plugins = PytestPluginManager.load_setuptools_entrypoints
    add_package = site.addpackage

    def load_installed_plugins(self, *arguments, **options):
        path = sys.path[:]
        sys.path[:] = INSTALLED
        try:
            return load_plugins(self, *arguments, **options)
        finally:
            sys.path[:] = path + [entry for entry in sys.path if entry not in path]

    class Source(SourceFileLoader):
        def path_stats(self, path):
            # By this importlib knows that there is no compiled file.
            raise OSError

    def find_source(path):
        if not is_in_project(path) or not os.path.isdir(path):
            raise ImportError
        kinds = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (Source, SOURCE_SUFFIXES))
        return FileFinder(path, *kinds)

    def add_installed_package(folder, name, known_paths):
        return known_paths if is_in_project(folder) else add_package(folder, name, known_paths)

    PytestPluginManager.load_setuptools_entrypoints = load_installed_plugins
    site.addpackage = add_installed_package
    sys.path_hooks.insert(0, find_source)
    # pytest's own compiled files, of tests and conftest.py.
    rewrite._read_pyc = lambda *file: None


class Tally:
    """Counts the outcomes of tests. Its documents may come from code under test."""

    clock = staticmethod(time.perf_counter)

    def __init__(self, listed=()):
        self.counts = dict.fromkeys(COUNTED, 0)
        self.failures = []
        self.passed_tests = []
        self.outcomes = dict.fromkeys(listed)
        self.start()

    def start(self):
        self.started = self.clock()

    def finish(self):
        pass

    def add(self, kind, name="", count=1, failure=None):
        self.counts[kind] += count
        if failure is not None and len(self.failures) < FAILURES_MAX:
            self.failures.append(json_line(failure))
        if kind == "passed" and len(self.passed_tests) < PASSED_MAX:
            self.passed_tests.append(name)
        outcome = "error" if kind == "errors" else kind
        if name in self.outcomes and outcome in OUTCOMES:
            known = self.outcomes[name]
            if known is None or OUTCOMES.index(known) < OUTCOMES.index(outcome):
                self.outcomes[name] = outcome

    def document(self, **more):
        duration = round(self.clock() - self.started, 3)
        counts = {**self.counts, "passed_tests": self.passed_tests, "duration_s": duration, **more}
        return b"".join([*self.failures, json_line(counts)])


class Reports:
    """Leads reports of plugins to the artifacts, and passes the outcomes of the tests on to a tally, as pytest
    counts them. Workers of pytest-xdist have no such plugin: all of their tests are reported to this
    process."""

    def __init__(self, tally):
        self.tally = tally
        self.collected = 0
        self.deselected = 0
        self.is_interrupted = False

    # A wrapper, as plugins themselves are among the first.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_load_initial_conftests(self, early_config):
        if getattr(early_config.known_args_namespace, "cov_source", None):
            os.environ.setdefault("COVERAGE_FILE", os.path.join(scratch, ".coverage"))
        if early_config.pluginmanager.hasplugin("hypothesispytest"):
            # For the admin's tests a folder that cannot exist: code under test could write examples there.
            storage = os.path.join(os.devnull if TESTS else scratch, "hypothesis")
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

    # Workers of pytest-xdist are interpreters of their own, which must not use compiled files either.
    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self):
        os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(scratch, "compiled")

    def tell_failure(self, kind, name, longrepr):
        text = str(longrepr)
        crash = getattr(longrepr, "reprcrash", None)
        lines = text.rstrip().split("\n")
        explanation = [line[:LINE_CHARS_MAX] for line in lines if line.startswith("E ")]
        name = str(name)[:NAME_CHARS_MAX]
        failure = {
            "kind": kind,
            "name": name,
            "reason": str(text if crash is None else crash.message)[:REASON_CHARS_MAX],
            "explanation": "\n".join(explanation)[:TEXT_CHARS_MAX],
            "place": lines[-1][:LINE_CHARS_MAX],
        }
        self.tally.add("failed" if kind == "failed" else "errors", name, failure=failure)

    # Behind pytest's own: where subtests failed, that makes a failure of the test.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        name = str(report.nodeid)[:NAME_CHARS_MAX]
        if report.outcome == "failed":
            kinds = {"setup": "setup_error", "teardown": "teardown_error"}
            self.tell_failure(kinds.get(report.when, "failed"), name, report.longrepr)
        elif type(report).__name__.lower() == "subtestreport":
            # As in pytest's last line: a part of its test, unless it failed.
            pass
        elif report.outcome == "skipped":
            self.tally.add("xfailed" if hasattr(report, "wasxfail") else "skipped", name)
        elif report.outcome == "passed" and report.when == "call":
            self.tally.add("passed", name)

    def pytest_collectreport(self, report):
        if report.failed:
            self.tell_failure("collection_error", report.nodeid, report.longrepr)
        elif report.skipped:
            self.tally.add("skipped", str(report.nodeid)[:NAME_CHARS_MAX])

    def pytest_itemcollected(self, item):
        self.collected += 1

    def pytest_deselected(self, items):
        self.deselected += len(items)

    # pytest 7 and later: test files that the configuration or a conftest.py has left out.
    if hasattr(pytest, "version_tuple"):
        @pytest.hookimpl(hookwrapper=True)
        def pytest_ignore_collect(self, collection_path):
            result = yield
            name = collection_path.name
            is_test = name.startswith("test_") or name.endswith("_test.py")
            if is_test and name.endswith(".py") and result.get_result():
                self.tally.add("uncollected", name)

    # What a hook of the project took out of the tests counts too where it does not say so.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session):
        left_out = max(self.deselected, self.collected - len(session.items))
        if left_out > 0:
            self.tally.add("deselected", count=left_out)

    def pytest_internalerror(self, excrepr):
        self.tell_failure("error", "pytest", excrepr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo):
        # Others, of pytest and of pytest-xdist, say that there were enough failures.
        if type(excinfo.value) is KeyboardInterrupt or isinstance(excinfo.value, pytest.exit.Exception):
            self.is_interrupted = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self):
        self.tally.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        self.tally.finish()


def run_pytest(reports, arguments, junit, plugins, main=pytest.main):
    """Runs pytest to its end, and returns its exit code and the way in which it ended."""
    sys.argv[:] = ["pytest", *arguments]
    options = ["--color=no", "-o", "cache_dir=" + os.path.join(scratch, "pytest_cache")]
    options += ["-o", "junit_family=xunit1", "--junitxml=" + os.path.join(FILES, junit)]
    try:
        code = main([*options, *arguments], plugins=plugins)
    except Exception:
        traceback.print_exc()
        return 1, "raised"
    return int(code), "interrupted" if reports.is_interrupted else "returned"


def write_report(tally, **more):
    remove(reserve)
    # Tests may have put anything in its place, such as a pipe.
    remove(report_file)
    write(report_file, "xb", tally.document(**more))


keep_project_out_of_start()
write(reserve, "xb", bytes(RESERVE))
# With room for what is written there at the end.
write(ended, "xb", bytes(256))
