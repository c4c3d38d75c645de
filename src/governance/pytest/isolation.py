# Isolation: the code under test runs in a separate process, the worker. The test process sends requests (import, get,
# call and others), and the worker answers each with a value or an exception. Plain data crosses as copies. All other
# objects become proxies in the test process. Each answer has a kind, such as "number". While a list is recorded, KINDS
# is None and all kinds are recorded. Later, an answer of another kind fails the test. The script contains common.py
# before this file.
import builtins
import collections
import collections.abc
import contextlib
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import importlib.machinery
import importlib.util
import io
import pathlib
import re
import threading
import types
import uuid
import warnings

# The maximum length of a message between the two processes, in bytes.
MESSAGE_BYTES_MAX = 64 * 1024 * 1024
# The maximum nesting of a value.
DEPTH_MAX = 200
# The maximum length of the output in one answer, in characters.
PRINTED_CHARS_MAX = 1024 * 1024
PROJECT_PATH = [PROJECT, *FIRST, *LAST]
# The tests get exceptions of these packages and of the standard library unchanged. Other exception classes are replaced
# by new classes of the same name, because some are commands to pytest or its plugins (skip this test, try another
# example). The code under test must not give such commands.
KNOWN_PACKAGES = {"numpy", "pandas", "scipy", "sympy"}
# Modules of the standard library with exceptions that are commands too.
ORDERS = {"unittest", "doctest", "bdb", "pdb"}
# Classes of the standard library with values that cross as text, and the functions that format and parse this text.
AS_TEXT = {
    decimal.Decimal: (str, decimal.Decimal),
    fractions.Fraction: (str, fractions.Fraction),
    datetime.date: (datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.datetime: (datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    datetime.time: (datetime.time.isoformat, datetime.time.fromisoformat),
    datetime.timedelta: (
        lambda it: f"{it.days} {it.seconds} {it.microseconds}",
        lambda text: datetime.timedelta(*map(int, text.split())),
    ),
    uuid.UUID: (str, uuid.UUID),
    pathlib.PosixPath: (str, pathlib.PosixPath),
    pathlib.PurePosixPath: (str, pathlib.PurePosixPath),
}
TEXT_KINDS = {kind.__name__: (kind, *ways) for kind, ways in AS_TEXT.items()}


class Defaulting(dict):
    """A copy of a defaultdict, without its default factory."""


SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "deque": collections.deque}
MAPPINGS = {
    "dict": dict, "OrderedDict": collections.OrderedDict, "Counter": collections.Counter,
    "defaultdict": Defaulting,
}
# The special methods that tests may use with objects of the code under test. They may use YES_OR_NO_OPERATIONS only
# with objects that they created themselves, because a forged boolean is not detected.
DATA_OPERATIONS = (
    "__len__", "__getitem__", "__setitem__", "__delitem__", "__next__", "__reversed__", "__str__", "__repr__",
    "__int__", "__float__", "__index__", "__round__", "__abs__", "__neg__", "__pos__",
    "__invert__", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
    "__rtruediv__", "__floordiv__", "__mod__", "__pow__", "__matmul__", "__and__", "__or__", "__xor__",
    "__lshift__", "__rshift__", "__divmod__", "__enter__", "__exit__", "__format__",
)
YES_OR_NO_OPERATIONS = ("__bool__", "__contains__", "__lt__", "__le__", "__gt__", "__ge__")
# If an object lacks one of these methods, Python calls the reflected method of the other operand.
BINARY = (
    "__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__", "__matmul__", "__and__",
    "__or__", "__xor__", "__lshift__", "__rshift__", "__divmod__", "__lt__", "__le__", "__gt__", "__ge__",
)
TEXTS = ("__str__", "__repr__", "__format__")
# The types that Python requires for the results of some special methods.
RESULTS = {"__str__": str, "__repr__": str, "__format__": str, "__bool__": bool}
# The types of arguments that the code under test may change. The changes are copied to the test's own object.
CHANGEABLE = (
    list, dict, set, bytearray, collections.deque, collections.OrderedDict, collections.Counter,
)
# The maximum number of items in a tuple or dict for which the kind contains the kind of each item.
PLACES_MAX = 16
# Attributes from which NumPy creates an array without a copy. A proxy must not have them, because the address would be
# in the memory of the test process.
NO_ATTRIBUTES = {
    "__array_interface__", "__array_struct__", "__buffer__", "__cuda_array_interface__", "__dlpack__",
    "__dlpack_device__",
}
# The permitted names of modules and classes. The texts of kinds separate names by other characters.
NAME = re.compile(r"[\w.<>]+")
# The NumPy types of numbers that cross as bytes.
NUMPY_KIND = re.compile(r"[<>|=][biufc][0-9]{1,2}")


class Foreign(Exception):
    """The error for a value that is not plain data, or is too large."""


def encode(value, of_object, depth=0):
    """Converts a value to JSON data. `of_object` converts values that are not plain data."""
    kind = type(value)
    if value is None or kind in (bool, str, float):
        return value
    if kind is int:
        return value if -(2 ** 53) < value < 2 ** 53 else ["int", format(value, "x")]
    if depth > DEPTH_MAX:
        raise Foreign("a value that is nested too deeply")
    inner = lambda item: encode(item, of_object, depth + 1)
    name = kind.__name__
    if SEQUENCES.get(name) is kind:
        items = map(inner, value)
        # Sort sets, because a copy of a set may have another order.
        return [name, *(sorted(items, key=json.dumps) if kind in (set, frozenset) else items)]
    if kind in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict, Defaulting):
        return ["dict" if kind is Defaulting else name, *([inner(key), inner(item)] for key, item in kind.items(value))]
    if kind in (bytes, bytearray):
        return [name, value.hex()]
    if kind is complex:
        return [name, value.real, value.imag]
    if kind in (range, slice):
        return [name, *map(inner, (value.start, value.stop, value.step))]
    if kind in AS_TEXT:
        return [name, AS_TEXT[kind][0](value)]
    numpy = sys.modules.get("numpy")
    if numpy is not None and (kind is numpy.ndarray or isinstance(value, numpy.generic)):
        array = numpy.ascontiguousarray(value)
        if NUMPY_KIND.fullmatch(array.dtype.str):
            shape = list(value.shape)
            return ["numpy", kind is numpy.ndarray, array.dtype.str, shape, array.tobytes().hex()]
    return of_object(value)


def decode(data, of_object, depth=0):
    """Converts JSON data from another process, which may be hostile, to a value. Raises an exception if the data is
    invalid."""
    if data is None or type(data) in (bool, str, float, int):
        return data
    if type(data) is not list or not data or depth > DEPTH_MAX:
        raise ValueError("no value")
    name, *rest = data
    inner = lambda item: decode(item, of_object, depth + 1)
    if name == "int":
        return int(*rest, 16)
    if name in SEQUENCES:
        return SEQUENCES[name](map(inner, rest))
    if name in MAPPINGS:
        return MAPPINGS[name]({inner(key): inner(item) for key, item in rest})
    if name in ("bytes", "bytearray"):
        return {"bytes": bytes, "bytearray": bytearray}[name].fromhex(*rest)
    if name in ("complex", "range", "slice"):
        return {"complex": complex, "range": range, "slice": slice}[name](*map(inner, rest))
    if name in TEXT_KINDS:
        return TEXT_KINDS[name][2](*rest)
    if name == "numpy":
        import numpy
        is_array, kind, shape, content = rest
        if not NUMPY_KIND.fullmatch(kind):
            raise ValueError("no array")
        array = numpy.frombuffer(bytes.fromhex(content), kind).reshape(shape).copy()
        return array if is_array else array[()]
    return of_object(data)


class Line:
    """The socket of the test process or of the worker. A message is its length in eight bytes, followed by JSON."""

    def __init__(self, end):
        self.end = end

    def send(self, document, dumps=json.dumps):
        content = dumps(document).encode()
        if len(content) > MESSAGE_BYTES_MAX:
            raise Foreign("a value that is too large")
        self.end.sendall(len(content).to_bytes(8, "big") + content)

    def receive(self, loads=json.loads):
        """Returns the next message. Returns None if the connection has ended or the length is invalid."""
        length = int.from_bytes(self._read(8) or b"", "big")
        if not 0 < length <= MESSAGE_BYTES_MAX:
            return None
        content = self._read(length)
        return None if content is None else loads(content)

    def _read(self, length):
        content = bytearray()
        while len(content) < length:
            part = self.end.recv(min(length - len(content), 1 << 20))
            if not part:
                return None
            content += part
        return bytes(content)


class Worker:
    """Executes the requests of the test process in the worker. The code under test runs in the same process, so it can
    change this class and every answer."""

    def __init__(self, line):
        self.line = line
        self.objects = {}
        self.handles = {}
        self.printed = Parts()

    def work(self):
        sys.path.extend(path for path in PROJECT_PATH if path not in sys.path)
        for name in ("stdout", "stderr"):
            setattr(sys, name, Printed(self.printed, name))
        # Send every warning, because the filters of the tests decide about it.
        warnings.simplefilter("always")
        warnings.showwarning = self.warn
        while True:
            request = self.line.receive()
            if request is None:
                return
            try:
                kind, value, *changed = self.answer(*request)
                reply = [kind, value, *(changed or [[]])]
            except (Exception, SystemExit, GeneratorExit) as error:
                reply = ["raised", self.error(error), []]
            printed = self.printed[:]
            self.printed.clear()
            try:
                self.line.send([*reply, printed])
            except Foreign as error:
                self.line.send(["raised", self.error(TypeError(str(error))), [], printed])

    def warn(self, message, category, filename, line, *place, **more):
        of_file = (name for name, module in [*sys.modules.items()] if getattr(module, "__file__", None) == filename)
        module = next(of_file, None)
        text = str(message)[:REASON_CHARS_MAX]
        self.printed.append(["warning", [self.kind_of_error(category), text, module, line]])

    def answer(self, ask, *rest):
        if ask == "find":
            spec = importlib.util.find_spec(*rest)
            return ["value", None if spec is None else spec.submodule_search_locations is not None]
        if ask == "path":
            sys.path.extend(rest)
            return ["value", None]
        if ask == "import":
            module = importlib.import_module(*rest)
            names = getattr(module, "__all__", None)
            if names is None:
                names = [name for name in vars(module) if not name.startswith("_")]
            return ["value", ["list", *(str(name) for name in names)]]
        target, *rest = rest
        target = sys.modules[target] if type(target) is str else self.objects[target]
        if ask == "get":
            return ["value", self.encode(getattr(target, *rest))]
        if ask == "set":
            name, value = rest
            setattr(target, name, self.decode(value))
            return ["value", None]
        if ask == "is":
            return ["value", isinstance(self.decode(rest[0]), target)]
        if ask == "next":
            # An empty list means that the iteration has ended.
            for value in target:
                return ["value", ["list", self.encode(value)]]
            return ["value", ["list"]]
        if ask == "operate":
            name, *rest = rest
            target = getattr(target, name)
            if name == "__exit__":
                # Python uses only the truth value of the result of `__exit__`.
                leave = target
                target = lambda *values: bool(leave(*values))
        values, named = rest
        given = [self.decode(value) for value in values]
        given_by_name = {name: self.decode(value) for name, value in named.items()}
        places = [*enumerate(given), *given_by_name.items()]
        before = [self.encode(value) for _, value in places]
        try:
            answer = ["value", self.encode(target(*given, **given_by_name))]
        except (Exception, SystemExit, GeneratorExit) as error:
            answer = ["raised", self.error(error)]
        after = [self.encode(value) for _, value in places]
        changed = [[place, now] for (place, _), was, now in zip(places, before, after) if now != was]
        return [*answer, changed]

    def encode(self, value):
        return encode(value, self.refer)

    def decode(self, data):
        return decode(data, self.resolve)

    def resolve(self, reference):
        kind, *names = reference
        if kind == "handle":
            return self.objects[names[0]]
        if kind in ("raised", "raises"):
            error = getattr(builtins, names[0], None)
            error = error if isinstance(error, type) and issubclass(error, BaseException) else Exception
            return error if kind == "raises" else error(*names[1:])
        module, path, name = names
        found = sys.modules[module]
        for part in path.split("."):
            found = getattr(found, part)
        return found[name]

    def refer(self, value):
        """Encodes a reference to an object. The object itself stays in the worker."""
        kind = type(value)
        if isinstance(value, types.ModuleType):
            return ["module", value.__name__]
        if isinstance(value, types.CoroutineType):
            value.close()
            return ["coroutine"]
        if isinstance(value, enum.Enum):
            return ["member", kind.__module__, kind.__qualname__, value.name, self.encode(value.value)]
        handle = self.handles.get(id(value))
        if handle is None:
            handle = self.handles[id(value)] = len(self.objects)
            self.objects[handle] = value
        if isinstance(value, type):
            if issubclass(value, BaseException):
                return ["exception", *self.kind_of_error(value)]
            return ["class", handle, *self.class_names(value)]
        if callable(value) and not hasattr(value, "__dict__") or isinstance(value, FUNCTIONS):
            name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
            return ["function", handle, str(name), str(getattr(value, "__doc__", None) or "")]
        if kind.__module__ in ("builtins", "itertools") and isinstance(value, collections.abc.Iterator):
            # All iterators get the same kind, for example a generator, `map` and the iterator of a list.
            return ["object", handle, "builtins", "iterator", [["builtins", "iterator"]]]
        return ["object", handle, *self.class_names(kind)]

    @staticmethod
    def class_names(kind):
        """Returns the module and the name of a class, and of each class in its MRO except `object`."""
        classes = [[str(base.__module__), str(base.__qualname__)] for base in type.mro(kind)[:-1]]
        return [kind.__module__, kind.__qualname__, classes]

    def kind_of_error(self, kind):
        """Describes an exception class: its module, its name, and its base classes in the same form."""
        if kind.__module__ == "builtins":
            return ["builtins", kind.__qualname__, []]
        bases = [self.kind_of_error(base) for base in kind.__bases__ if issubclass(base, BaseException)]
        return [kind.__module__, kind.__qualname__, bases]

    def error(self, error):
        def plain(value):
            try:
                return encode(value, self.refuse)
            except Exception:
                return ["no plain data"]
        try:
            text = str(error)
        except Exception:
            text = ""
        arguments = plain(error.args)
        attributes = {name: plain(value) for name, value in vars(error).items()}
        cause = error.__cause__
        cause = None if cause is None else [self.kind_of_error(type(cause)), str(cause)[:REASON_CHARS_MAX]]
        where = traceback.format_exception(type(error), error, error.__traceback__)
        kind = self.kind_of_error(type(error))
        where = "".join(where[-2:])[:TEXT_CHARS_MAX]
        return [kind, arguments, text[:REASON_CHARS_MAX], attributes, cause, where]

    def refuse(self, value):
        raise Foreign(type(value).__name__)


FUNCTIONS = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType,
    types.WrapperDescriptorType, types.MethodDescriptorType, functools._lru_cache_wrapper, functools.partial,
)


class Parts(list):
    """The output and the warnings of the code under test since the last answer."""

    def __init__(self):
        super().__init__()
        self.room = PRINTED_CHARS_MAX

    def clear(self):
        super().clear()
        self.room = PRINTED_CHARS_MAX


class Printed(io.TextIOBase):
    """Replaces stdout or stderr in the worker. Stores the text until the next answer."""

    encoding = "utf-8"

    def __init__(self, printed, name):
        self.printed = printed
        self.name = name
        self.buffer = PrintedBytes(self)

    def writable(self):
        return True

    def write(self, text):
        part = str(text)[:self.printed.room]
        if part:
            self.printed.room -= len(part)
            self.printed.append([self.name, part])
        return len(text)


class PrintedBytes(io.RawIOBase):
    """The `buffer` of a `Printed` stream, for output in bytes."""

    def __init__(self, stream):
        self.stream = stream

    def writable(self):
        return True

    def write(self, content):
        self.stream.write(str(bytes(content), "utf-8", "replace"))
        return len(content)


class NotIsolated(BaseException):
    """The test needs the code under test in its own process."""


class OtherWarning(Warning):
    """Replaces a warning if the code under test gave no warning of this class when the list was recorded."""


class CodeUnderTestError(Exception):
    """The base class of exceptions whose real classes exist only in the worker."""


class Unanswered(BaseException):
    """The worker has ended, or its answer is invalid or has a kind that was not recorded. It is not a subclass of
    Exception, so that no test can expect it."""


class Remote:
    """Sends requests from the test process to the worker, and converts the answers to values and proxies."""

    def __init__(self, line, tally):
        self.line = line
        self.turn = threading.Lock()
        self.tally = tally
        self.errors = {}
        self.members = {}
        self.proxies = {}
        self.noted = set()
        # Whether the answer to a request is missing.
        self.is_broken = False
        # The origin of the current requests: the id of a test, a fixture, or a file that is collected.
        self.asker = ""
        # The reason why the test fails, even if the test catches the exception.
        self.failure = ""
        # Whether this process is a fork of the test process. An error in a fork would not fail the test.
        self.is_child = False
        os.register_at_fork(after_in_child=lambda: setattr(self, "is_child", True))
        # The traceback of the last exception from the worker, for the report of the test.
        self.where = ""

    def not_isolated(self, why):
        self.tally.not_isolated(why)
        raise NotIsolated(f"this test cannot run apart from the code under test: {why}")

    def unsuited(self, why):
        """Refuses an operation that is impossible with copies. While a list is recorded, the test is not isolated.
        Later, the test fails, because only a changed answer can have led to the operation."""
        if KINDS is None:
            self.not_isolated(why)
        raise self.unanswered(f"the test did not do this when the list was recorded: {why}")

    def unanswered(self, why):
        self.failure = self.failure or why
        return Unanswered(why)

    def ask(self, path, *request, given=(), read=lambda value: value):
        """Sends a request to the worker, and returns the result of `read` for the answer. Copies the changes that the
        code made to arguments to the values in `given`. A test can catch only exceptions that the code itself raised:
        all other errors raise `Unanswered`."""
        if self.is_child:
            self.not_isolated("it asks the code under test in a process of its own")
        error = None
        reply = None
        try:
            with self.turn:
                # If a request was interrupted, for example by a timeout, the next answer would belong to this request.
                if not self.is_broken:
                    self.is_broken = True
                    self.line.send(request)
                    reply = self.line.receive()
                    self.is_broken = False
            kind, value, changed, printed = reply
            said = [self.printed(path, *part) for part in printed]
            if kind == "raised":
                error = self.error(path, *value)
                self.note(path, kind_of_raised(type(error)))
            else:
                value = read(value)
            for place, after in changed:
                self.change(given[type(place) is str][place], self.decode(after, f"{path} changes {place}"))
        except (Exception, SystemExit, GeneratorExit):
            raise self.unanswered("the code under test ended its process, or sent no valid answer") from None
        for say in said:
            say()
        if error is not None:
            if isinstance(error, SystemExit) and threading.current_thread() is not threading.main_thread():
                raise self.unanswered("the code under test ended a thread of the test")
            raise error
        return value

    def printed(self, path, stream, content):
        """Returns a function that repeats the output or the warning of the code in the test process."""
        if stream == "warning":
            return self.warning(path, *content)
        if stream not in ("stdout", "stderr") or type(content) is not str:
            raise ValueError("no output")
        text = content.encode("utf-8", "replace").decode()
        return lambda: getattr(sys, stream).write(text)

    def warning(self, path, kind, text, module, line):
        kind = self.kind_of_error(*kind)
        kind = kind if issubclass(kind, Warning) else UserWarning
        is_noted = self.is_noted(f"{path} warns", kind_of_raised(kind))
        kind = kind if is_noted else OtherWarning
        text, place = str(text), None if module is None else (f"{checked_name(module)}.py", int(line), module)

        def warn():
            try:
                if place is None:
                    warnings.warn(text, kind, stacklevel=6)
                else:
                    warnings.warn_explicit(text, kind, *place)
            except Warning:
                # The warning filters of the test turn the warning into an exception.
                if not is_noted:
                    raise self.unanswered(f"{path} of the code under test warns as it did not before: {text}") from None
                raise
        return warn

    def value(self, path, *request):
        return self.ask(path, *request, read=lambda value: self.decode(value, path))

    def named(self, path, value):
        """Compares the name of an enumeration's member with the recorded name. Without this check, the code could use
        one member for two names, and the member would be equal to both."""
        if type(value) is Member:
            self.note(f"{path} is", value.name)
        return value

    def key(self, path):
        return shortened(f"{self.asker}: {path}")

    def kinds(self, path):
        """Returns the kinds that were recorded for a request."""
        return KINDS.get(self.key(path), ())

    def is_only_for_display(self, name, path):
        """Returns whether only pytest requests this special attribute, to report a failure. The tests did not request
        it when the list was recorded."""
        return KINDS is not None and name.startswith("__") and not self.kinds(path)

    def is_noted(self, path, kind):
        """Returns whether the kind of an answer was recorded for the request. While a list is recorded, records the
        kind and returns True."""
        kind = shortened(kind)
        if KINDS is not None:
            return kind in self.kinds(path)
        if (self.key(path), kind) not in self.noted:
            self.noted.add((self.key(path), kind))
            self.tally.kind(self.key(path), kind)
        return True

    def note(self, path, kind):
        """Fails the test if the kind of an answer was not recorded for the request. Without this check, the code could
        return an object that equals everything instead of a number."""
        if not self.is_noted(path, kind):
            known = " or ".join(self.kinds(path)) or "used as when the list was recorded"
            raise self.unanswered(f"{path} of the code under test is no longer {known}, but {kind}")

    def add_path(self, folder):
        PROJECT_PATH.append(folder)
        self.ask("import", "path", folder)

    def call(self, path, ask, target, name, values, named, told):
        encoder = lambda value: self.encode(value, told)
        sent = [encoder(value) for value in values]
        sent_by_name = {key: encoder(value) for key, value in named.items()}
        request = [ask, target, *name, sent, sent_by_name]
        return self.ask(path, *request, given=(values, named), read=lambda value: self.decode(value, path))

    def change(self, value, after):
        numpy = sys.modules.get("numpy")
        if numpy is not None and type(value) is type(after) is numpy.ndarray and value.shape == after.shape:
            value[...] = after
        elif isinstance(value, type(after)) and type(after) in CHANGEABLE:
            value.clear()
            (value.update if isinstance(value, (dict, set)) else value.extend)(after)
        else:
            self.unsuited(f"the code changes what is in a {type(value).__qualname__} that the test passes")

    def encode(self, value, told):
        def reference(value):
            kind = type(value)
            if kind in (RemoteObject, RemoteFunction, RemoteClass):
                return ["handle", object.__getattribute__(value, "_handle")]
            if kind is Member:
                return ["member", *value._is]
            # An argument of `__exit__`, which cannot cross.
            if isinstance(value, types.TracebackType):
                return None
            if isinstance(value, BaseException):
                return ["raised", kind.__name__, str(value)]
            if isinstance(value, type) and issubclass(value, BaseException):
                return ["raises", value.__name__]
            self.not_isolated(f"it passes a {kind.__qualname__} to {told}")
        return encode(value, reference)

    def decode(self, data, path):
        try:
            value = decode(data, lambda inner: self.proxy(inner, path))
            kind = kind_of(value)
        except Exception:
            raise self.unanswered("the code under test sent no valid answer") from None
        self.note(path, kind)
        return value

    def proxy(self, data, path):
        kind, *rest = data
        if kind == "coroutine":
            self.unsuited("it awaits the code under test")
        if kind == "module":
            name = str(*rest)
            if KINDS is None:
                self.tally.kind(f"module {name}", "answer")
            elif f"module {name}" not in KINDS:
                # Importing a module that was not recorded could run its code in this process.
                raise ValueError("another module")
            return importlib.import_module(name)
        if kind == "member":
            names = (*map(checked_name, rest[:2]), str(rest[2]))
            value = self.decode(rest[3], ".".join((*names, "value")))
            if names not in self.members:
                self.members[names] = Member(*names, value)
            return self.members[names]
        if kind == "exception":
            return self.kind_of_error(*rest)
        handle, *names = rest
        if kind in ("class", "object"):
            classes = tuple((checked_name(module), checked_name(name)) for module, name in names[2])
            module, name = map(checked_name, names[:2])
            # Without this check, an object could have one class for `isinstance`, and another for everything else.
            if (module, name) != (classes[0] if classes else ("builtins", "object")):
                raise ValueError("another class than its first")
            names = [module, name, classes]
        if kind == "object":
            # All objects of a class share their recorded kinds, except objects of built-in classes such as generators,
            # which have many uses.
            if module != "builtins":
                path = f"{module}.{name}"
        made = self.proxies.get((kind, handle, path))
        if made is None:
            proxies = {"class": RemoteClass, "function": RemoteFunction, "object": RemoteObject}
            made = proxies[kind](self, handle, *names)
            object.__setattr__(made, "_path", path)
            self.proxies[kind, handle, path] = made
        return made

    def kind_of_error(self, module, name, bases):
        module, name = str(module), str(name)
        if module == "builtins":
            kind = getattr(__import__("builtins"), name)
            # Other subclasses of BaseException, such as KeyboardInterrupt, would end pytest.
            return kind if issubclass(kind, Exception) or kind is SystemExit else CodeUnderTestError
        known = self.errors.get((module, name))
        if known is not None:
            return known
        package = module.partition(".")[0]
        is_known = package in KNOWN_PACKAGES or package in getattr(sys, "stdlib_module_names", ())
        kind = getattr(sys.modules.get(module), name, None) if is_known and package not in ORDERS else None
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            bases = [self.kind_of_error(*base) for base in bases]
            bases = tuple(dict.fromkeys(bases)) or (CodeUnderTestError,)
            own = {"__module__": module, "__qualname__": name, "__str__": lambda self: self.__dict__["_text"]}
            kind = type(name.rpartition(".")[2], bases, own)
        self.errors[module, name] = kind
        return kind

    def error(self, path, kind, arguments, text, attributes, cause, where):
        kind = self.kind_of_error(*kind)
        path = f"{path} raises {kind.__name__}"

        def no_reference(data):
            raise ValueError("not plain data")

        def recorded(data, path):
            value = decode(data, no_reference)
            if not self.is_noted(path, kind_of(value)):
                raise ValueError("another kind of value")
            return value

        try:
            error = kind(*recorded(arguments, path))
        except Exception:
            try:
                error = kind.__new__(kind)
            except Exception:
                # An exception group cannot be created without arguments.
                error = CodeUnderTestError()
            error.args = (str(text),)
        for name, value in attributes.items():
            if name.startswith("_") and name != "__notes__":
                continue
            if value == ["no plain data"]:
                # The test does not get this attribute. A test may expect that, so compare it with the recorded kinds.
                self.note(f"{path}.{name}", "no plain data")
                continue
            try:
                setattr(error, name, recorded(value, f"{path}.{name}"))
            except Exception:
                pass
        if cause is not None:
            cause_kind, cause_text = cause
            cause_kind = self.kind_of_error(*cause_kind)
            error.__cause__ = cause_kind.__new__(cause_kind)
            error.__cause__.args = (str(cause_text),)
            error.__cause__._text = str(cause_text)
        error._text = str(text)
        self.where = str(where)
        return error


def checked_name(name):
    if type(name) is not str or not NAME.fullmatch(name):
        raise ValueError("no name")
    return name


def kind_of(value):
    """Returns the kind of a value. The kinds of plain data are coarse, so that other correct code gives the same kinds.
    Empty values have their own kinds, because an empty value would pass many tests."""
    kind = type(value)
    if value is None:
        return "None"
    if kind in (str, bytes, bytearray, range):
        return ("" if value else "empty ") + {str: "text", range: "range"}.get(kind, "bytes")
    if kind in (bool, int, float, complex, decimal.Decimal, fractions.Fraction):
        return "number" if value == value else "not a number"
    if kind is tuple and 1 < len(value) <= PLACES_MAX:
        return kind_of_places("sequence", value)
    if kind in (list, tuple, collections.deque):
        return kind_of_items("sequence", value)
    if kind in (set, frozenset):
        return kind_of_items("set", value)
    if kind in (dict, collections.OrderedDict, collections.Counter, Defaulting):
        name = "mapping" if kind in (dict, collections.OrderedDict) else kind.__name__
        if 0 < len(value) <= PLACES_MAX and all(type(key) is str for key in value):
            keys = sorted(value)
            return kind_of_places(name, [value[key] for key in keys], [f"{key}: " for key in keys])
        return f"{kind_of_items(name, value)} to {kind_of_items('values', value.values())}"
    if kind in (RemoteObject, RemoteClass):
        what = "object" if kind is RemoteObject else "class"
        return f"{what} {', '.join(map(':'.join, value._of('_names')[2]))}"
    if kind is RemoteFunction:
        return "function"
    if kind is Member:
        return "member of " + ":".join(value._is[:2])
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, type):
        bases = ", ".join(base.__name__ for base in value.__mro__[1:-1])
        return f"exception {value.__module__}.{value.__qualname__} ({bases})"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        # Short floats have their own kinds, because rounding makes many of them equal.
        is_narrow = value.dtype.kind in "fc" and value.dtype.itemsize < 8 * (1 + (value.dtype.kind == "c"))
        of = f" of {value.dtype}" if is_narrow else ""
        if value.ndim == 0:
            return ("number" if value == value else "not a number") + of
        has_nan = value.dtype.kind in "fc" and numpy.isnan(value).any()
        more = ", with NaN" if has_nan else "" if value.size else ", empty"
        return f"array of {value.ndim} dimensions{of}{more}"
    return kind.__name__


def kind_of_items(name, items):
    kinds = sorted(set(map(kind_of, items)))
    return f"{name} of ({', '.join(kinds)})" if kinds else f"empty {name}"


def kind_of_places(name, items, places=None):
    """Returns the kind of a sequence or mapping. It contains the kind of each item if these kinds differ."""
    kinds = [*map(kind_of, items)]
    if len(set(kinds)) == 1:
        return kind_of_items(name, items)
    return f"{name} of [{', '.join(map(''.join, zip(places or [''] * len(kinds), kinds)))}]"


def kind_of_raised(kind):
    """Returns the kind of an exception or warning: its class and all base classes."""
    return "raises " + ", ".join(f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__[:-2])


def shortened(text):
    if len(text) <= NAME_CHARS_MAX:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return text[:NAME_CHARS_MAX - len(digest)] + digest


class Member:
    """A member of an enumeration in the code under test."""

    def __init__(self, module, kind, name, value):
        self._is = module, kind, name
        self.name = name
        self.value = value

    # Members need no `__eq__`, because only one object is created for each.

    def __repr__(self):
        return f"<{self._is[1]}.{self.name}>"


def set_own(proxy, **own):
    """Sets attributes of a proxy itself, not of the object in the worker."""
    for name, value in own.items():
        object.__setattr__(proxy, name, value)


class Proxy:
    """Represents an object of the worker in the test process."""

    def __init__(self, remote, handle, *names):
        set_own(self, _remote=remote, _handle=handle, _names=names, _is_own=False, _path="")

    def _of(self, name):
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        remote, path = self._of("_remote"), f"{self._of('_path')}.{name}"
        if name in NO_ATTRIBUTES or remote.is_only_for_display(name, path):
            raise AttributeError(name)
        return remote.value(path, "get", self._of("_handle"), name)

    def __setattr__(self, name, value):
        remote = self._of("_remote")
        if type(self) is not RemoteObject:
            remote.not_isolated(f"it replaces {name} of {self._told()}")
        path = f"{self._of('_path')}.{name} ="
        remote.ask(path, "set", self._of("_handle"), name, remote.encode(value, self._told()))

    def __delattr__(self, name):
        self._of("_remote").not_isolated(f"it removes {name} of {self._told()}")

    def _told(self):
        return ".".join(name for name in self._of("_names")[:2] if name) or "the code under test"

    def __repr__(self):
        return f"<{self._told()} of the code under test, no plain data>"

    def __hash__(self):
        return hash(self._of("_handle"))

    @property
    def __dict__(self):
        self._of("_remote").unsuited(f"it lists the attributes of {self._told()}")

    def __dir__(self):
        self._of("_remote").unsuited(f"it lists the attributes of {self._told()}")

    def __reduce__(self):
        self._of("_remote").not_isolated(f"it copies or pickles {self._told()}")


class RemoteFunction(Proxy):
    def __init__(self, remote, handle, name, doc):
        super().__init__(remote, handle, name)
        name = str(name)
        set_own(self, __name__=name.rpartition(".")[2], __qualname__=name, __doc__=str(doc) or None)

    def __call__(self, *values, **named):
        path, remote = self._of("_path") + "()", self._of("_remote")
        return remote.call(path, "call", self._of("_handle"), (), values, named, self._told())

    def _told(self):
        return self._of("_names")[0] or "a function"


class RemoteClass(Proxy):
    def __init__(self, remote, handle, module, name, classes):
        super().__init__(remote, handle, module, name, classes)
        set_own(self, __module__=module, __name__=name.rpartition(".")[2], __qualname__=name)

    def __call__(self, *values, **named):
        path, remote = self._of("_path") + "()", self._of("_remote")
        made = remote.call(path, "call", self._of("_handle"), (), values, named, self._told())
        if type(made) is RemoteObject:
            object.__setattr__(made, "_is_own", True)
        return remote.named(f"{self._of('_path')}{values!r}", made)

    def __instancecheck__(self, value):
        if type(value) is not RemoteObject:
            return False
        remote = self._of("_remote")
        # Use the classes that the object had when this process received it. The worker could answer each request
        # differently.
        is_one = self._of("_names")[:2] in value._of("_names")[2]
        if KINDS is None:
            answer = remote.ask("isinstance", "is", self._of("_handle"), remote.encode(value, self._told()))
            if answer is not is_one:
                remote.not_isolated(f"it asks for instances of {self._told()}, which decides that itself")
        return is_one

    def __getattr__(self, name):
        return self._of("_remote").named(f"{self._of('_path')}.{name}", super().__getattr__(name))

    def __mro_entries__(self, bases):
        self._of("_remote").not_isolated(f"it subclasses {self._told()}")

    def __iter__(self):
        return Iteration(self)

    def __getitem__(self, name):
        remote, path = self._of("_remote"), f"{self._of('_path')}[{name!r}]"
        for operation in ("__getitem__", "__class_getitem__"):
            try:
                return remote.named(path, remote.call(
                    path, "operate", self._of("_handle"), (operation,), (name,), {}, self._told()
                ))
            except AttributeError:
                pass
        raise TypeError(f"{self._told()} is not subscriptable")


class RemoteObject(Proxy):
    def __eq__(self, other):
        if self is other:
            return True
        if isinstance(other, Proxy):
            why = "it compares two objects of the code under test; compare their attributes with plain data"
            self._of("_remote").not_isolated(why)
        if KINDS is None and other is not None:
            why = f"it compares an object of the code under test, {self._told()}, with data; compare its attributes"
            self._of("_remote").not_isolated(why)
        return NotImplemented

    def __hash__(self):
        self._of("_remote").unsuited(f"it hashes {self._told()}, for example in a set")

    def __call__(self, *values, **named):
        return self._operate("__call__", values, named)

    def _operate(self, name, values, named):
        remote, told, path = self._of("_remote"), self._told(), f"{self._of('_path')}.{name}()"
        return remote.call(path, "operate", self._of("_handle"), (name,), values, named, told)

    def _without(self, operation, values):
        """Returns the result of a special method that the object lacks, as Python defines it."""
        if operation == "__bool__":
            try:
                self._operate("__len__", (), {})
            except AttributeError:
                return True
            self._of("_remote").not_isolated(f"it asks for the truth of {self._told()}, which has a length")
        if operation in TEXTS:
            return Proxy.__repr__(self)
        if operation == "__contains__":
            return any(item is values[0] or item == values[0] for item in self)
        if operation.startswith("__r") or operation in BINARY:
            return NotImplemented
        raise TypeError(f"{self._told()} of the code under test has no {operation}")

    def __iter__(self):
        return Iteration(self)

    def __await__(self):
        self._of("_remote").not_isolated(f"it awaits {self._told()}")


class Iteration:
    """Iterates over an object of the worker, with one request for each item."""

    def __init__(self, proxy):
        self.is_new = True
        self.remote = proxy._of("_remote")
        self.path = proxy._of("_path") + ".__iter__()"
        self.iterator = self.remote.call(
            self.path, "operate", proxy._of("_handle"), ("__iter__",), (), {}, "iter"
        )

    def __iter__(self):
        return self

    def __next__(self):
        if not isinstance(self.iterator, RemoteObject):
            raise TypeError("not an iterator")
        values = self.remote.value(self.path + "[]", "next", self.iterator._of("_handle"))
        if self.is_new:
            self.is_new = False
            self.remote.note(self.path + " has", "items" if values else "no items")
        if not values:
            raise StopIteration
        return values[0]


def add_operation(name):
    """Adds a special method to `RemoteObject`, so that tests can use it."""
    def operate(self, *values, **named):
        path = f"{self._of('_path')}.{name}()"
        if name in TEXTS and self._of("_remote").is_only_for_display(name, path):
            return Proxy.__repr__(self)
        try:
            result = self._operate(name, values, named)
        except AttributeError:
            return self._without(name, values)
        if name in YES_OR_NO_OPERATIONS and not self._of("_is_own"):
            why = f"it asks an object that the code under test made, {self._told()}, for a yes or no"
            self._of("_remote").not_isolated(why)
        is_wanted = type(result) is RESULTS.get(name, type(result))
        return result if is_wanted else Proxy.__repr__(self)
    setattr(RemoteObject, name, operate)


for operation in (*DATA_OPERATIONS, *YES_OR_NO_OPERATIONS):
    add_operation(operation)


class RemoteModule(types.ModuleType):
    """Represents a module of the code under test."""

    def __getattr__(self, name):
        remote, path = object.__getattribute__(self, "_remote"), f"{self.__name__}.{name}"
        if name == "__path__" or remote.is_only_for_display(name, path):
            raise AttributeError(name)
        return remote.named(path, remote.value(path, "get", self.__name__, name))

    def __dir__(self):
        self._remote.not_isolated(f"it lists the names of {self.__name__}")

    def __setattr__(self, name, value):
        is_of_import = isinstance(value, RemoteModule) or name.startswith("__")
        if not is_of_import:
            self._remote.not_isolated(f"it replaces {name} of {self.__name__}")
        super().__setattr__(name, value)

    def __delattr__(self, name):
        self._remote.not_isolated(f"it removes {name} of {self.__name__}")


class RemotePath(list):
    """The `__path__` of a package of the code under test. It is empty, because the tests must not find its files."""


def in_project(package, find=importlib.machinery.PathFinder.find_spec):
    return find(package, PROJECT_PATH) is not None


class Finder:
    """Finds the modules of the code under test. Installed modules and modules of the tests take precedence."""

    def __init__(self, remote):
        self.remote = remote

    def find_spec(self, name, path=None, target=None):
        return self.spec_of(name) if in_project(name.partition(".")[0]) else None

    def spec_of(self, name):
        if KINDS is not None and f"import {name}" not in KINDS:
            # The tests did not find this module when the list was recorded.
            return None
        is_package = self.remote.ask(f"import {name}", "find", name)
        if is_package is None:
            return None
        if KINDS is None:
            self.remote.tally.kind(f"import {name}", "package" if is_package is True else "module")
        spec = importlib.machinery.ModuleSpec(name, self)
        if is_package is True:
            spec.submodule_search_locations = RemotePath()
        return spec

    def create_module(self, spec):
        module = RemoteModule(spec.name)
        vars(module)["_remote"] = self.remote
        return module

    def exec_module(self, module):
        def names_of(value):
            return {str(name) for name in decode(value, str) if not str(name).startswith("__")}

        names = self.remote.ask(f"import {module.__name__}", "import", module.__name__, read=names_of)
        if KINDS is None:
            for name in names:
                self.remote.tally.kind(f"from {module.__name__} import {name}", "name")
        else:
            # `import *` must not replace other names of the tests.
            names = {name for name in names if f"from {module.__name__} import {name}" in KINDS}
        vars(module)["__all__"] = sorted(names)


def file_of(node):
    return node.nodeid.partition("::")[0]


class Suitability:
    """A plugin of pytest. Reports tests that need the code under test in the test process, where the proxies cannot
    detect this. Also keeps a test failed if the test or a plugin has caught `Unanswered`."""

    # Fixtures of pytest that work only in the process of the code under test, each with the reason.
    FIXTURES = {"caplog": "it reads the log of the code under test"}

    def __init__(self, remote):
        import unittest.mock
        self.remote = remote
        self.is_testing = False
        self.failure_outside = ""
        # Whether a report of the current test contains `remote.failure`.
        self.is_told = False
        # The reason why the current test has failed. It fails all repetitions of the test too.
        self.refused = ""
        places = [
            (pytest.MonkeyPatch, ("setattr", "delattr", "setitem", "delitem", "setenv", "delenv", "chdir")),
            (unittest.mock._patch, ("__enter__",)),
            (unittest.mock._patch_dict, ("__enter__",)),
        ]
        for kind, names in places:
            for name in names:
                why = f"it patches ({kind.__name__.strip('_')}.{name})"
                setattr(kind, name, self.refuse_in_tests(getattr(kind, name), why))

        self.refuse_listing_of_packages()

    def refuse_listing_of_packages(self):
        import pkgutil
        listing = pkgutil.iter_modules

        def iter_modules(path=None, prefix=""):
            if isinstance(path, RemotePath):
                self.remote.not_isolated("it lists the modules of a package of the code under test")
            return listing(path, prefix)
        pkgutil.iter_modules = iter_modules

    def refuse_in_tests(self, function, why):
        def refuse(*values, **named):
            # These plugins patch only their own modules, so allow it.
            caller = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
            if self.is_testing and caller not in ("anyio", "pytest_asyncio"):
                self.remote.not_isolated(why)
            return function(*values, **named)
        return refuse

    @contextlib.contextmanager
    def asking(self, asker):
        before, self.remote.asker = self.remote.asker, asker
        try:
            yield
        finally:
            self.remote.asker = before

    # These hooks set the origin of requests. Requests during collection, in shared fixtures and in teardowns get no id
    # of a test, because any test of the file can cause them.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector):
        with self.asking(collector.nodeid):
            yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":
            yield
        else:
            with self.asking(f"{file_of(request.node)}, fixture {fixturedef.argname}"):
                yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_teardown(self, item):
        with self.asking(f"{file_of(item)}, teardown"):
            yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        self.is_testing = True
        self.is_told = False
        self.refused = ""
        with self.asking(item.nodeid):
            yield
        self.is_testing = False

    # Runs after all other plugins, because they could make the test pass.
    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        if self.remote.failure and not self.is_told:
            # The test, a library or a thread may have caught the exception.
            if not report.failed:
                report.outcome, report.longrepr = "failed", self.remote.failure
            vars(report).pop("wasxfail", None)
            self.is_told = True
            self.refused = self.remote.failure
        elif self.refused and call.when == "call":
            # A plugin repeats the failed test.
            report.outcome, report.longrepr = "failed", self.refused
            vars(report).pop("wasxfail", None)
        if call.when == "teardown":
            # A failure outside of tests, such as during collection, fails all later tests.
            self.remote.failure = self.failure_outside
        if report.failed and self.remote.where:
            report.sections.append(("In the code under test", self.remote.where))
        self.remote.where = ""

    def pytest_collection_finish(self):
        self.failure_outside = self.remote.failure

    @pytest.hookimpl(hookwrapper=True)
    def pytest_sessionfinish(self):
        yield
        if self.remote.failure and not self.failure_outside:
            self.remote.tally.add("errors", "", failure={
                "kind": "error", "name": "", "reason": self.remote.failure, "explanation": "", "place": "",
            })

    def pytest_runtest_call(self, item):
        for name in self.FIXTURES.keys() & set(getattr(item, "fixturenames", ())):
            self.remote.not_isolated(self.FIXTURES[name])
