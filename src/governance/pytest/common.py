# Functions and classes for all levels of judges. The server joins this file with others to one script, and defines
# these values before it: PROJECT (the folder of the workspace), FIRST and LAST (more folders for sys.path, before and
# after the installed packages), FILES (the folder for artifacts), RESERVE (the reserved bytes in FILES), FAILURES_MAX,
# ARGUMENTS (of pytest), and TESTS (the folder of the admin's tests, or None).
import json
import os
import sys
import time
import traceback

# sys.path before a folder of the project is added.
INSTALLED = sys.path[:]
try:
    import pytest
except ImportError:
    sys.exit(86)
try:
    # Import all modules that pytest itself needs, before the project is in sys.path. The project may contain a module
    # of the same name, such as json.py.
    from _pytest.config import get_config
    get_config()
except Exception:
    pass

# The folder for files that pytest and plugins would write to the project, because the project is read-only.
scratch = os.environ["TMPDIR"]
# The attributes of config.option with the path of a plugin's report. If an option is set, its report is written to
# FILES instead.
REPORTS = (
    "htmlpath",  # pytest-html: --html
    "json_report_file",  # pytest-json-report: --json-report-file
    "log_file",  # pytest: --log-file
    "md_report_output",  # pytest-md-report: --md-report-output
    "report_log",  # pytest-reportlog: --report-log
    "allure_report_dir",  # allure-pytest: --alluredir
)
# pytest-cov: the default path of each --cov-report=KIND.
COVERAGE_REPORTS = {
    "annotate": "annotated", "html": "htmlcov", "json": "coverage.json", "lcov": "coverage.lcov",
    "markdown": "coverage.md", "markdown-append": "coverage.md", "xml": "coverage.xml",
}
# A file that occupies RESERVE bytes until the reports are written, so that the tests cannot fill the folder.
reserve = os.path.join(FILES, ".new-reserve")
# The outcomes of the tests. Each line is a JSON document: first the failures, at most FAILURES_MAX, then all counts.
report_file = os.path.join(FILES, ".new-report")
# The record of pytest's end. It contains only NUL bytes if pytest did not reach its end.
ended = os.path.join(FILES, ".new-ended")
# The maximum number of passed tests that are reported with their ids.
PASSED_MAX = 64
# The maximum length in characters of the parts of a reported failure: its id, its reason, its explanation, a line.
NAME_CHARS_MAX = 600
REASON_CHARS_MAX = 1000
TEXT_CHARS_MAX = 4000
LINE_CHARS_MAX = 400
# The names of the counts in a report.
COUNTED = ("passed", "failed", "errors", "skipped", "xfailed", "deselected", "uncollected")
# The outcomes of a test, from the best to the worst. If pytest reports several outcomes of a test, the worst counts.
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
    # `encode` is bound before any test is loaded, because a test may patch json.dumps while outcomes are reported.
    # "replace" is for lone surrogates, which UTF-8 cannot encode.
    return encode(document).encode("utf-8", "replace") + b"\n"


def below_files(path):
    return os.path.join(FILES, os.path.basename(os.path.normpath(path)))


def is_in_project(path, folders=tuple(os.path.join(it, "") for it in (PROJECT, TESTS) if it)):
    return os.path.join(os.path.abspath(path), "").startswith(folders)


def keep_project_out_of_start():
    """Prevents the execution of project files that no test imports: plugins with forged entry points, compiled files,
    and lines of .pth files."""
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
            # With this error, importlib does not use a compiled file.
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
    # pytest has its own compiled files of tests and conftest.py. Do not use them either.
    rewrite._read_pyc = lambda *file: None


class Tally:
    """Counts the outcomes of tests. Code under test may have forged the names and failures that it receives."""

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
    """A plugin of pytest. Redirects the reports of other plugins to FILES, and passes the outcomes of the tests to a
    tally. Workers of pytest-xdist do not need this plugin, because they report all tests to this process."""

    def __init__(self, tally):
        self.tally = tally
        self.collected = 0
        self.deselected = 0
        self.is_interrupted = False

    # A wrapper runs before all hooks that are not wrappers, even those with tryfirst.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_load_initial_conftests(self, early_config):
        if getattr(early_config.known_args_namespace, "cov_source", None):
            os.environ.setdefault("COVERAGE_FILE", os.path.join(scratch, ".coverage"))
        if early_config.pluginmanager.hasplugin("hypothesispytest"):
            # For the admin's tests, use a folder that cannot exist, because code under test could write examples to a
            # real one.
            storage = os.path.join(os.devnull if TESTS else scratch, "hypothesis")
            os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", storage)
        yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config):
        try:
            log_file = config.getoption("log_file") or config.getini("log_file")
        except (KeyError, ValueError):
            # The option `-p no:logging` is set.
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

    # Workers of pytest-xdist are separate interpreters. They must not use compiled files of the project either.
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

    # Runs after pytest's own hook, which reports a test with failed subtests as failed.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        name = str(report.nodeid)[:NAME_CHARS_MAX]
        if report.outcome == "failed":
            kinds = {"setup": "setup_error", "teardown": "teardown_error"}
            self.tell_failure(kinds.get(report.when, "failed"), name, report.longrepr)
        elif type(report).__name__.lower() == "subtestreport":
            # pytest's summary line does not count a subtest that did not fail, so do not count it either.
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

    # pytest 7 and later: counts test files that the configuration or a conftest.py excludes.
    if hasattr(pytest, "version_tuple"):
        @pytest.hookimpl(hookwrapper=True)
        def pytest_ignore_collect(self, collection_path):
            result = yield
            name = collection_path.name
            is_test = name.startswith("test_") or name.endswith("_test.py")
            if is_test and name.endswith(".py") and result.get_result():
                self.tally.add("uncollected", name)

    # Also counts tests that a hook of the project removed without calling pytest_deselected.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session):
        left_out = max(self.deselected, self.collected - len(session.items))
        if left_out > 0:
            self.tally.add("deselected", count=left_out)

    def pytest_internalerror(self, excrepr):
        self.tell_failure("error", "pytest", excrepr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo):
        # pytest and pytest-xdist raise other exceptions after --maxfail failures. These are not interruptions.
        if type(excinfo.value) is KeyboardInterrupt or isinstance(excinfo.value, pytest.exit.Exception):
            self.is_interrupted = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self):
        self.tally.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        self.tally.finish()


def run_pytest(reports, arguments, junit, plugins, main=pytest.main):
    """Runs pytest. Returns its exit code, and "returned", "interrupted" or "raised"."""
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
    # Tests may have created this path, for example as a pipe.
    remove(report_file)
    write(report_file, "xb", tally.document(**more))


keep_project_out_of_start()
write(reserve, "xb", bytes(RESERVE))
# Allocate the space for the record now, because the tests may fill the folder.
write(ended, "xb", bytes(256))
