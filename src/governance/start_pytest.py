# Starts pytest as `python -m pytest` does in the folder of the project. Before this stand PROJECT, FIRST
# and LAST (more folders to import from), FILES (what is left), RESERVE (bytes) and ARGUMENTS.
import os
import sys
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
# Room for the report, however much the tests leave.
reserve = os.path.join(FILES, ".new-reserve")
# What pytest has counted. That there is something in it says that pytest came to its end.
ended = os.path.join(FILES, ".new-ended")


def write(path, mode, content):
    try:
        with open(path, mode) as file:
            file.write(content)
    except OSError:
        pass


def below_files(path):
    return os.path.join(FILES, os.path.basename(os.path.normpath(path)))


class Reports:
    """Leads reports to the artifacts, and counts tests as pytest tells of them: the report that it
    writes also has tests that were only set up, and all attempts of a test that is run again."""

    passed = 0
    is_interrupted = False

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

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.outcome == "passed":
            self.passed += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo):
        # Others, of pytest and of pytest-xdist, say that there were enough failures.
        if type(excinfo.value) is KeyboardInterrupt or isinstance(excinfo.value, pytest.exit.Exception):
            self.is_interrupted = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        try:
            os.unlink(reserve)
        except OSError:
            pass


write(reserve, "xb", bytes(RESERVE))
# With room for what is written there at the end.
write(ended, "xb", bytes(256))
# xunit1: with the file of each test.
options = ["--color=no", "-o", "cache_dir=" + os.path.join(scratch, "pytest_cache")]
options += ["-o", "junit_family=xunit1", "--junitxml=" + os.path.join(FILES, "junit.xml")]
counts = Reports()
way = "returned"
try:
    code = pytest.main([*options, *ARGUMENTS], plugins=[counts])
    if counts.is_interrupted:
        way = "interrupted"
except Exception:
    traceback.print_exc()
    code, way = 1, "raised"
write(ended, "r+", f'{{"way": "{way}", "passed": {counts.passed}}}\n')
sys.exit(code)
