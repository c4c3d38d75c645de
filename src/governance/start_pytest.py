# Starts pytest as `python -m pytest` does in the folder of the project. Before this stand PROJECT,
# PATHS (more of its folders to import from), FILES (what is left), RESERVE (bytes) and ARGUMENTS.
import os
import sys

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
sys.path.insert(0, PROJECT)
# Behind everything installed, as an editable install has it.
sys.path.extend(path for path in PATHS if path not in sys.path)
if PATHS:
    # For interpreters that tests start.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([before, *PATHS] if before else PATHS)
sys.argv[:] = ["pytest", *ARGUMENTS]

# The project is read-only, so what is written there goes elsewhere.
scratch = os.environ["TMPDIR"]
os.environ.setdefault("COVERAGE_FILE", os.path.join(scratch, ".coverage"))
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
# As long as it is there, pytest has not come to its end.
running = os.path.join(FILES, ".new-running")
for path, size in (reserve, RESERVE), (running, 0):
    try:
        with open(path, "xb") as file:
            file.write(bytes(size))
    except OSError:
        pass


def remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def below_files(path):
    return os.path.join(FILES, os.path.basename(os.path.normpath(path)))


class Reports:
    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config):
        try:
            log_file = config.getoption("log_file") or config.getini("log_file")
        except (KeyError, ValueError):
            # -p no:logging
            log_file = None
        if log_file:
            config.option.log_file = log_file
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
    def pytest_sessionfinish(self):
        remove(reserve)


# xunit1: with the file of each test.
options = ["--color=no", "-o", "cache_dir=" + os.path.join(scratch, "pytest_cache")]
options += ["-o", "junit_family=xunit1", "--junitxml=" + os.path.join(FILES, "junit.xml")]
code = pytest.main([*options, *ARGUMENTS], plugins=[Reports()])
remove(running)
sys.exit(code)
