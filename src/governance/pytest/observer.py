# The observer: runs the admin's tests, which are in the folder TESTS outside of the project. It never loads code under
# test. For each test file, it forks a test process, observes the end of this process, and collects the outcomes that
# the process reports. It writes the report after it has killed all other processes of the run, so it needs a separate
# PID namespace. The script contains common.py, isolation.py and control.py before this file, and defines these values:
# LISTED (the ids of the tests that must pass), KINDS (the recorded kinds of results of the code under test; both are
# None while a list is recorded), IS_ISOLATED, HAS_CONTROL, and TIME_S (the time limit of the run, in seconds).
import atexit
import contextlib
import gc
import importlib.metadata
import importlib.util
import io
import math
import resource
import selectors
import signal
import socket
from importlib.machinery import PathFinder

# The maximum length of a message from a test process, in bytes.
LINE_BYTES_MAX = 64 * 1024
# The maximum number of tests in a list, and of requests with recorded kinds.
LISTED_MAX = 100_000
# The interval at which the observer checks whether a process has ended, in seconds.
LOOK_S = 0.02
# The first pause after a test process has closed its pipe, in seconds. Each further pause is twice as long.
ENDING_S = 0.0005
# The time limit of a file's control: CONTROL_S seconds, plus CONTROL_TIMES times the duration of the file's tests.
CONTROL_S, CONTROL_TIMES = 2, 2
# All controls end after this share of the run's time limit.
CONTROL_SHARE = 0.8
STARTED = time.monotonic()
# The limit for the memory of a process in a control, in bytes.
CONTROL_BYTES_MAX = 384 * 1024 * 1024
FAILURE_KINDS = ("failed", "setup_error", "teardown_error", "collection_error", "error")
# The exit code if the report cannot be written. pytest does not use this exit code.
NO_REPORT = 70


class Told:
    """Replaces the Tally in a test process: sends each outcome to the observer, through the pipe `end`."""

    def __init__(self, end):
        self.end = end

    @staticmethod
    def limit():
        pass

    def start(self):
        pass

    def finish(self):
        pass

    def add(self, kind, name="", count=1, failure=None):
        self.tell({"add": kind, "name": name, "count": count, "failure": failure})

    def kind(self, path, kind):
        self.tell({"kind": [path, kind]})

    def not_isolated(self, why):
        self.tell({"not_isolated": why[:NAME_CHARS_MAX]})

    def tell(self, document, write=os.write):
        content = json_line(document)
        while content:
            content = content[write(self.end, content):]


class Listing(Told):
    """Sends the ids of the collected tests to the observer."""

    def pytest_collection_finish(self, session):
        for item in session.items:
            self.tell({"item": item.nodeid[:NAME_CHARS_MAX]})


class Turned(Told):
    """Sends the ids of the tests that pass with inverted assertions."""

    @staticmethod
    def limit():
        """Limits the memory of the process and discards its output, because exceeding a limit would end the run."""
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(null, stream)
        os.close(null)
        resource.setrlimit(resource.RLIMIT_DATA, (CONTROL_BYTES_MAX, CONTROL_BYTES_MAX))

    def add(self, kind, name="", count=1, failure=None):
        if kind == "passed":
            self.tell({"turned": name})


class Judge:
    """Runs the test files one after the other."""

    def __init__(self):
        self.tally = Tally(LISTED or ())
        self.codes = []
        self.items = []
        self.unsuited = []
        self.turned = set()
        self.kinds = {}
        # The test file that runs, and the class that sends messages from its process.
        self.file = ""
        self.told_by = Told
        self.files = 0
        # The duration of the last run of each file in seconds, by the last argument of pytest.
        self.took = {}
        # The number of failures after which no further test runs; None for no limit.
        most = [int(name.partition("=")[2]) for name in ARGUMENTS if name.startswith("--maxfail=")]
        self.failures_max = min([*most, *([1] if "-x" in ARGUMENTS else [])], default=None)

    def run(self):
        arguments = [argument for argument in ARGUMENTS if argument.startswith("-")]
        targets = [argument for argument in ARGUMENTS if not argument.startswith("-")]
        listed = LISTED
        if listed is None:
            self.fork(Listing, ["--collect-only", "-q", *arguments, *targets])
            listed = self.items
            self.tally = Tally(listed)
            self.codes = [code for code in self.codes if code not in (0, 5)]
        for target in self.chosen(listed, targets):
            limit = []
            if self.failures_max is not None:
                limit = [f"--maxfail={self.failures_max - self.failures()}"]
            self.fork(Told, [*arguments, *limit, target])
            if self.failures_max is not None and self.failures() >= self.failures_max:
                break
        # End all controls before the time limit would end the run.
        self.controls_end_by = STARTED + CONTROL_SHARE * TIME_S
        if HAS_CONTROL and not self.failures():
            for target in self.chosen(listed, targets):
                if time.monotonic() < self.controls_end_by:
                    self.fork(Turned, [*arguments, target])

    def chosen(self, listed, targets):
        """Yields the arguments for pytest, one for each test process. A target that is a folder yields the listed files
        below it."""
        files = dict.fromkeys(os.path.join(TESTS, name.partition("::")[0]) for name in listed)
        for target in targets:
            path, colons, _ = target.partition("::")
            if colons or path in files:
                yield target
            else:
                folder = os.path.join(path, "")
                yield from (file for file in files if file.startswith(folder))

    def failures(self):
        return self.tally.counts["failed"] + self.tally.counts["errors"]

    def fork(self, kind, arguments):
        """Runs pytest in a new process. Returns after this process and all other processes of the run have ended."""
        self.files += 1
        self.told_by = kind
        self.file = os.path.relpath(arguments[-1].partition("::")[0], TESTS)
        junit = "junit.xml" if self.files == 1 else f"junit-{self.files}.xml"
        worker = start_worker(kind) if IS_ISOLATED else None
        reading, writing = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.close(reading)
            kind.limit()
            be_tests(kind(writing), worker, arguments, junit)
        os.close(writing)
        if worker is not None:
            worker.close()
        started = time.monotonic()
        end_by = math.inf
        if kind is Turned:
            # A test with inverted assertions may never end.
            end_by = started + CONTROL_S + CONTROL_TIMES * self.took.get(arguments[-1], 0)
            end_by = min(end_by, self.controls_end_by)
        told, status = self.observe(reading, child, end_by)
        self.took[arguments[-1]] = time.monotonic() - started
        os.close(reading)
        self.conclude(told, status)

    def observe(self, reading, child, end_by):
        """Reads the messages of the test process `child` until it has ended. Returns the end that it reported, and its
        exit code. Kills the process at the time `end_by`."""
        told, status, unread = None, None, b""
        pause = ENDING_S
        with selectors.DefaultSelector() as selector:
            selector.register(reading, selectors.EVENT_READ)
            while True:
                part = None
                if selector.select(0 if status is not None else LOOK_S):
                    part = os.read(reading, 1 << 16)
                    unread += part
                    *lines, unread = unread.split(b"\n")
                    for line in lines:
                        end = self.take(line)
                        if end is not None:
                            told = end if told is None else (end[0], "reported twice")
                    if len(unread) > LINE_BYTES_MAX:
                        unread = b""
                if status is None and time.monotonic() > end_by:
                    os.kill(child, signal.SIGKILL)
                if status is None:
                    pid, ended = os.waitpid(child, os.WNOHANG)
                    if pid:
                        status = ended
                        end_others()
                    elif part == b"":
                        # The process has closed its pipe, and usually ends at once. A hostile process may continue.
                        time.sleep(pause)
                        pause = min(2 * pause, LOOK_S)
                elif not part:
                    return told, exit_code(status)

    def take(self, line):
        """Handles a message of a test process. The process may be hostile. Returns the end of pytest if the message
        reports it."""
        try:
            document = json.loads(line)
            if "end" in document:
                return int(document["end"]), str(document["way"])
            if "kind" in document:
                path, kind = map(str, document["kind"])
                if len(self.kinds) < LISTED_MAX or path in self.kinds:
                    self.kinds.setdefault(path, set()).add(kind)
                else:
                    # In later runs, correct code would fail because the kinds of its results were not recorded.
                    self.unsuited[:] = [f"they ask the code under test more than {LISTED_MAX} questions"]
            elif "item" in document:
                if len(self.items) < LISTED_MAX:
                    self.items.append(str(document["item"]))
            elif "turned" in document:
                self.turned.add(str(document["turned"]))
            elif "not_isolated" in document:
                if self.told_by is not Turned and len(self.unsuited) < FAILURES_MAX:
                    self.unsuited.append(str(document["not_isolated"])[:NAME_CHARS_MAX])
            else:
                self.add(**document)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            pass
        return None

    def add(self, add, name, count, failure):
        if add not in COUNTED or type(count) is not int or not 0 <= count < 1 << 20:
            raise ValueError
        if failure is not None:
            limits = {"name": NAME_CHARS_MAX, "reason": REASON_CHARS_MAX, "explanation": TEXT_CHARS_MAX,
                      "place": LINE_CHARS_MAX}
            kind = failure["kind"] if failure["kind"] in FAILURE_KINDS else "error"
            failure = {"kind": kind, **{key: str(failure[key])[:most] for key, most in limits.items()}}
        name = str(name)[:NAME_CHARS_MAX]
        if self.told_by is Turned:
            # The control does not change the outcomes.
            return
        if name.partition("::")[0] != self.file:
            # A test of another file cannot run in this process. It counts, but its name is ignored.
            name = ""
        self.tally.add(add, name, count, failure)

    def conclude(self, told, status):
        """Records the end of a test process. If pytest did not report this end, it counts as an error."""
        if self.told_by is Turned:
            return
        code, way = told or (None, None)
        if code == status and way == "returned":
            self.codes.append(code)
            if code not in (0, 1):
                # pytest did not complete the tests of this file, so ignore reports that they passed.
                for name, outcome in self.tally.outcomes.items():
                    if name.partition("::")[0] == self.file and outcome == "passed":
                        self.tally.outcomes[name] = None
            return
        if told is None:
            reason = f"the process of these tests ended with status {status} before pytest had finished"
        elif way != "returned":
            reason = f"pytest was {way} (status {status})"
        else:
            reason = f"the process of these tests ended with status {status}, and pytest with {code}"
        failure = {"kind": "error", "name": self.file, "reason": reason, "explanation": "", "place": ""}
        self.tally.add("errors", self.file, failure=failure)

    def code(self):
        """Returns the exit code that pytest would have if it ran all files in one process."""
        if self.tally.counts["failed"]:
            return 1
        others = [code for code in self.codes if code not in (0, 1, 5)]
        if others:
            return others[0]
        # Code 1 without a failed test has another cause, such as a plugin that failed the run of one file.
        if 1 in self.codes or self.tally.counts["errors"]:
            return 1
        return 0 if 0 in self.codes else 5


def exit_code(status):
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def end_others():
    """Kills all other processes of the run. Returns when all have ended."""
    try:
        while True:
            os.kill(-1, signal.SIGKILL)
            # Reap the children of this process. The init process of the PID namespace reaps all others.
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
            time.sleep(0.001)
    except ProcessLookupError:
        pass


def start_worker(kind):
    """Starts a worker, the process of the code under test. Returns the socket for the test process."""
    own, other = socket.socketpair()
    if os.fork() == 0:
        own.close()
        kind.limit()
        sys.meta_path.remove(keep_out)
        status = 1
        try:
            Worker(Line(other)).work()
            status = 0
        finally:
            os._exit(status)
    other.close()
    return own


class Layout:
    """A plugin of pytest. Adds the folders of the ini option `pythonpath`, relative to the project, with `add_path`.
    Keeps pytest-xdist from starting workers."""

    def __init__(self, add_path):
        self.add_path = add_path

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config):
        try:
            folders = early_config.getini("pythonpath")
        except (KeyError, ValueError):
            folders = []
        for folder in folders:
            folder = os.path.relpath(folder, TESTS)
            if not folder.startswith(os.pardir):
                self.add_path(os.path.join(PROJECT, folder))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_cmdline_main(self, config):
        # Disable pytest-xdist, because it would start interpreters.
        for name, value in (("numprocesses", 0), ("dist", "no"), ("tx", [])):
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        yield


def be_tests(told, worker, arguments, junit):
    """Runs pytest in a test process, reports its end to the observer, and ends the process."""
    os.chdir(TESTS)
    reports = Reports(told)
    sys.meta_path.remove(keep_out)
    if worker is None:
        sys.meta_path.insert(0, TestsFinder())
        sys.meta_path.append(ProjectFinder())
        plugins = [Layout(PROJECT_PATH.append)]
    else:
        remote = Remote(Line(worker), told)
        finder = Finder(remote)
        # An editable installation adds folders of the project to sys.path. Remove them, because pytest's hook for
        # assertions would find modules there before all finders of this process.
        of_project = [path for path in sys.path if is_below(path, PROJECT)]
        PROJECT_PATH.extend(of_project)
        for folders in (sys.path, INSTALLED):
            folders[:] = [path for path in folders if path not in of_project]
        sys.meta_path[:0] = [InProjectFinder(finder.spec_of), TestsFinder()]
        sys.meta_path.append(finder)
        keep_code_out(remote)
        plugins = [Layout(remote.add_path), Suitability(remote)]
    plugins.append(told if isinstance(told, Listing) else reports)
    if isinstance(told, Turned):
        turn_assertions_round()
    options = ["--rootdir=" + TESTS, "--confcutdir=" + TESTS]
    code, way = run_pytest(reports, [*options, *blocked, *arguments], junit, plugins)
    if worker is None and LISTED is None:
        for name, module in [*sys.modules.items()]:
            if is_below(getattr(module, "__file__", None), PROJECT):
                told.kind(f"import {name}", "module")
    told.tell({"end": code, "way": way})
    # End like an interpreter, but do not spend time on freeing the modules that the observer has loaded.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def keep_code_out(remote):
    """Refuses to execute a file of the project in this process, however the file was loaded. Uses an audit hook,
    because no code can remove it."""
    known = {}

    def look(event, values):
        if event == "exec":
            name = getattr(values[0], "co_filename", "")
            if name not in known:
                known[name] = is_below(name, PROJECT)
            if known[name]:
                remote.not_isolated("it runs a file of the code under test in its own process")
    sys.addaudithook(look)


def is_below(path, folder):
    """Returns whether a path is below a folder, either as written or after symlinks are resolved."""
    if not isinstance(path, str):
        return False
    paths, folders = (
        [os.path.join(of(it), "") for of in (os.path.abspath, os.path.realpath)] for it in (path, folder)
    )
    return any(path.startswith(tuple(folders)) for path in paths)


def is_of_project(spec):
    """Returns whether a module would be loaded from the project, for example because of an editable installation."""
    places = [spec.origin, *(spec.submodule_search_locations or ())]
    return any(is_below(place, PROJECT) for place in places)


class InProjectFinder:
    """Asks all other finders first. If they find a module in the project, uses the spec from `spec_of` instead. If
    `spec_of` returns None, the import fails."""

    def __init__(self, spec_of):
        self.spec_of = spec_of

    def find_spec(self, name, path=None, target=None):
        for finder in sys.meta_path:
            if isinstance(finder, (InProjectFinder, TestsFinder, Finder)) or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is None:
                continue
            if not is_of_project(spec):
                return None
            spec = self.spec_of(name)
            if spec is None:
                raise ModuleNotFoundError(f"{name} is code under test, which this process does not load", name=name)
            return spec
        return None


def folders_of(name, bases):
    """Returns the folders below `bases` that may contain the module with this dotted name."""
    *packages, _ = name.split(".")
    return [os.path.join(base, *packages) for base in bases]


class TestsFinder:
    """Finds the modules in the folder of the tests, such as helpers. They take precedence over modules of the project
    with the same name. Installed modules take precedence over both."""

    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, folders_of(name, [TESTS]))
        if spec is None:
            return None
        if "." not in name:
            installed = PathFinder.find_spec(name)
            if installed is not None and installed.loader is not None and not is_of_project(installed):
                return None
        if spec.loader is not None:
            return spec
        # Here, TESTS has only a folder without `__init__.py`. A package of the project with the same name takes
        # precedence, because such a folder usually contains the tests of this package.
        in_project = PathFinder.find_spec(name, folders_of(name, PROJECT_PATH))
        return None if in_project is not None and in_project.loader is not None else spec


class ProjectFinder:
    """Finds the modules of the project. This finder is the last, so even installed namespace packages come first."""

    def find_spec(self, name, path=None, target=None):
        return PathFinder.find_spec(name, folders_of(name, PROJECT_PATH))


def plugins_of_project():
    """Returns options that keep pytest from loading installed plugins whose code is in the project."""
    options = []
    for distribution in importlib.metadata.distributions():
        for entry in distribution.entry_points:
            if entry.group == "pytest11":
                try:
                    is_found = importlib.util.find_spec(entry.value.partition(":")[0].partition(".")[0]) is not None
                except (ImportError, ValueError, AttributeError):
                    is_found = False
                if not is_found:
                    options += ["-p", "no:" + entry.name]
    return options


def load_plugins():
    """Loads the installed plugins before the observer forks, so that each test process has them already. Runs pytest
    in an empty folder."""
    folder = os.path.join(scratch, "no-tests")
    os.mkdir(folder)
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder, *blocked]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*options, folder])


def replace(path, content):
    """Writes a new file at `path`. Removes a file or symlink that code under test has created there. Raises OSError if
    this fails."""
    os.chmod(FILES, 0o700)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    with open(path, "xb") as file:
        file.write(content)


keep_out = InProjectFinder(lambda name: None)
sys.meta_path.insert(0, keep_out)
blocked = plugins_of_project()
load_plugins()
# Exclude all loaded objects from the garbage collections of the test processes, to save time.
gc.collect()
gc.freeze()
judge = Judge()
judge.run()
end_others()
letters = "".join("-" if outcome is None else outcome[0] for outcome in judge.tally.outcomes.values())
more = {"outcomes": letters, "not_isolated": judge.unsuited}
if LISTED is None:
    more["tests"] = list(judge.tally.outcomes)
    more["kinds"] = {path: sorted(kinds) for path, kinds in judge.kinds.items()}
if HAS_CONTROL:
    passed = {name for name, outcome in judge.tally.outcomes.items() if outcome == "passed"}
    more["controls"] = [len(passed - judge.turned), len(passed)]
remove(reserve)
try:
    replace(report_file, judge.tally.document(**more))
    replace(ended, json_line({"way": "returned", "passed": judge.tally.counts["passed"]}))
except OSError:
    traceback.print_exc()
    sys.exit(NO_REPORT)
sys.exit(judge.code())
