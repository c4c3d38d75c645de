//! Describes modules, functions and classes from outside of the script: their members, their instances, and the rules
//! about them. Never inspects the objects themselves.

#![expect(clippy::wildcard_enum_match_arm, reason = "most values have no members that are known")]

use std::borrow::Cow;
use std::sync::LazyLock;

use foldhash::HashMap;

use super::index::{INDEX, Verdict};
use super::libraries::{self, PATH_BYTES_MAX};
use super::value::{MODULES, Value, Values};
use super::{behind_dot, stdlib, top};
use crate::rules::{Rule, Special};

/// Modules that a name may refer to without an import, for example because a library that the script imports with `*`
/// has them as attributes. If the script uses one of these names but never binds it, the analysis assumes that the name
/// refers to the module.
#[rustfmt::skip]
const WELL_KNOWN_MODULES: &[&str] = &[
    "asyncio", "builtins", "codecs", "ctypes", "fileinput", "glob", "gzip", "http", "importlib",
    "inspect", "io", "linecache", "logging", "marshal", "mmap", "multiprocessing", "os", "pathlib",
    "pickle", "posix", "runpy", "shelve", "shutil", "socket", "sqlite3", "ssl", "subprocess", "sys",
    "tarfile", "tempfile", "threading", "urllib", "zipfile",
];

/// Usual names of the modules of libraries. Libraries have such names too, so an import with `*` may bind them.
const ALIASES: &[(&str, &str)] = &[
    ("cbook", "matplotlib.cbook"),
    ("mpl", "matplotlib"),
    ("np", "numpy"),
    ("nx", "networkx"),
    ("pd", "pandas"),
    ("plt", "matplotlib.pyplot"),
];

/// Modules that many other modules have as an attribute, and through which a script can reach everything. If an
/// attribute of an unknown object has one of these names, the attribute may be the module.
#[rustfmt::skip]
const FAR_REACHING: &[&str] = &[
    "builtins", "importlib", "linecache", "mmap", "multiprocessing", "os", "pickle", "posix",
    "runpy", "shutil", "subprocess", "sys",
];

/// Classes with instances that the analysis follows. Each row has a class, and the callables that return an instance of
/// the class, or an object that the analysis treats like an instance.
const CLASSES: &[(&str, &str)] = &[
    (IN_MEMORY, "io.BytesIO io.StringIO StringIO.StringIO cStringIO.StringIO"),
    (IN_MEMORY, "tempfile.SpooledTemporaryFile tempfile.TemporaryFile"),
    ("cProfile.Profile", "cProfile.Profile"),
    ("xml.etree.ElementTree.ElementTree", "xml.etree.ElementTree.parse"),
    ("xml.etree.ElementTree.ElementTree", "xml.etree.ElementTree.ElementTree"),
    ("xml.etree.ElementTree.ElementTree", "xml.etree.cElementTree.ElementTree"),
    ("sqlite3.Connection", "sqlite3.connect sqlite3.Connection"),
    ("unittest.mock.patch", "unittest.mock.patch unittest.mock.patch.object"),
    ("multiprocessing.pool.ThreadPool", "multiprocessing.pool.ThreadPool"),
    ("multiprocessing.pool.ThreadPool", "multiprocessing.dummy.Pool"),
    ("xml.sax.xmlreader.XMLReader", "xml.sax.expatreader.create_parser xml.sax.make_parser"),
    ("zipfile.ZipFile", "zipfile.ZipFile"),
    ("tarfile.TarFile", "tarfile.open tarfile.TarFile"),
    ("pathlib.Path", "pathlib.Path pathlib.PosixPath pathlib.WindowsPath pathlib.Path.cwd"),
    ("pathlib.Path", "pathlib.Path.home"),
    ("configparser.ConfigParser", "configparser.ConfigParser configparser.RawConfigParser"),
    ("configparser.ConfigParser", "configparser.SafeConfigParser"),
];

/// How an external function returns some of its arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Passing {
    /// The function returns the argument at this index.
    Argument(usize),
    /// The function returns an element of the argument at this index, or it returns the argument at the next index.
    Element(usize),
    /// The function returns a container of the elements of all its arguments.
    Elements,
    /// The function returns an object that stores the functions among its arguments.
    Kept,
    /// The function returns an object that has the keyword arguments as attributes.
    Named,
    /// The function returns an object that wraps the value of the parameter `wraps`.
    Wrapped,
}

/// Functions that return some of their arguments. Each row has the way in which the functions return the arguments, and
/// the functions.
const PASSING: &[(Passing, &str)] = &[
    (Passing::Argument(0), "abc.update_abstractmethods asyncio.run asyncio.wait_for"),
    (Passing::Argument(0), "collections.ChainMap collections.OrderedDict collections.UserDict"),
    (Passing::Argument(0), "contextlib.nullcontext copy.copy copy.deepcopy inspect.unwrap"),
    (Passing::Argument(0), "types.MappingProxyType typing.assert_type typing.final"),
    (Passing::Argument(0), "typing.no_type_check typing.reveal_type typing.runtime_checkable"),
    (Passing::Argument(0), "weakref.proxy"),
    (Passing::Argument(1), "typing.cast typing_extensions.cast functools.update_wrapper"),
    (Passing::Element(0), "heapq.heappop operator.getitem random.choice statistics.mode"),
    (Passing::Element(1), "functools.reduce"),
    (Passing::Elements, "collections.UserList collections.deque heapq.merge itertools.accumulate"),
    (Passing::Elements, "itertools.chain itertools.compress itertools.cycle itertools.dropwhile"),
    (Passing::Elements, "itertools.filterfalse itertools.islice itertools.takewhile"),
    (Passing::Elements, "random.choices random.sample"),
    (Passing::Kept, "builtins.classmethod builtins.property builtins.staticmethod"),
    (Passing::Kept, "contextvars.ContextVar functools.partial functools.partialmethod"),
    (Passing::Kept, "itertools.repeat types.MethodType"),
    (Passing::Named, "argparse.Namespace types.SimpleNamespace"),
    (Passing::Wrapped, "unittest.mock.AsyncMock unittest.mock.MagicMock unittest.mock.Mock"),
    (Passing::Wrapped, "unittest.mock.NonCallableMagicMock unittest.mock.NonCallableMock"),
];

/// Builtin types with instances that hold data. The instances give access to other objects only through attributes
/// that other rules refuse.
#[rustfmt::skip]
const TYPES_OF_DATA: &[&str] = &[
    "bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "range",
    "set", "slice", "str", "tuple",
];

pub(crate) fn is_type_of_data(builtin: &str) -> bool {
    TYPES_OF_DATA.contains(&builtin)
}

/// Returns how a function returns some of its arguments; `None` if the table does not list the function.
pub(crate) fn passing(path: &str) -> Option<Passing> {
    static BY_PATH: LazyLock<HashMap<&str, Passing>> = LazyLock::new(|| {
        let each =
            |&(passing, paths): &(_, &'static str)| paths.split(' ').map(move |of| (of, passing));
        PASSING.iter().flat_map(each).collect()
    });
    BY_PATH.get(path).copied()
}

/// The class of code objects.
pub(crate) const CODE: &str = "types.CodeType";
/// The class of the raw file under the buffer of a stream.
pub(crate) const FILE: &str = "io.FileIO";
/// The class that stands for every stream in memory.
pub(crate) const IN_MEMORY: &str = "io.BytesIO";

/// The class that stands for an input that the script has opened. Like a stream in memory, the opened input gives
/// access to no other file, except through its raw file.
pub(crate) const INPUT_STREAM: &str = "io.BufferedReader";

/// Returns the qualified name of a builtin, if the analysis knows the builtin.
pub(crate) fn builtin(name: &str) -> Option<&'static str> {
    static BY_NAME: LazyLock<HashMap<&str, &'static str>> = LazyLock::new(|| {
        let of_python = stdlib::builtins().map(|name| (name, &*format!("builtins.{name}").leak()));
        let named = |path: &'static str| Some((path.strip_prefix("builtins.")?, path));
        of_python.chain(INDEX.objects().filter_map(named)).collect()
    });
    BY_NAME.get(name).copied()
}

/// Returns the module that the analysis assumes for a name that the script does not bind.
pub(crate) fn well_known_module(name: &str) -> Option<&'static str> {
    WELL_KNOWN_MODULES.iter().copied().find(|module| *module == name)
}

/// Returns the module to which a name refers in most scripts, if the name may come from an import with `*`.
pub(crate) fn module_by_alias(name: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, module)| *module)
}

/// Returns the module that an attribute of an unknown object may be, judging by the attribute's name.
pub(crate) fn far_reaching(attribute: &str) -> Option<&'static str> {
    let name = attribute.strip_prefix('_').unwrap_or(attribute);
    FAR_REACHING.iter().copied().find(|module| *module == name)
}

/// Returns the class of the object that a call of `path` returns, if the analysis follows instances of the class.
pub(crate) fn instance_of(path: &str) -> Option<&'static str> {
    static BY_MAKER: LazyLock<HashMap<&str, &'static str>> = LazyLock::new(|| {
        let of_class =
            |&(class, makers): &(_, &'static str)| makers.split(' ').map(move |of| (of, class));
        CLASSES.iter().flat_map(of_class).collect()
    });
    BY_MAKER.get(path).copied()
}

/// Returns the modules that have a member `name`, according to the rules or to `CLASSES`.
pub(crate) fn modules_with(name: &str) -> &'static [&'static str] {
    static BY_MEMBER: LazyLock<HashMap<&str, Vec<&'static str>>> = LazyLock::new(|| {
        let mut by_member: HashMap<&str, Vec<&'static str>> = HashMap::default();
        let makers = CLASSES.iter().flat_map(|(_, makers)| makers.split(' '));
        for mut path in INDEX.paths().chain(makers) {
            // A module is a member of the module above it.
            while let Some((module, member)) = path.rsplit_once('.') {
                let modules = by_member.entry(member).or_default();
                if !modules.contains(&module) {
                    modules.push(module);
                }
                path = module;
            }
        }
        by_member
    });
    BY_MEMBER.get(name).map_or(&[], Vec::as_slice)
}

/// Returns the member `name` of `module`. An unknown object may have the module as an attribute, as in `x.io.open`.
/// Returns `None` if the module is not in the standard library, or if no rule is about the member.
pub(crate) fn member_behind<'a>(module: &str, name: &str) -> Option<Values<'a>> {
    let module = INDEX.root(module).filter(|module| stdlib::contains(module))?;
    let path = [module, ".", name].concat();
    let has_row = INDEX.has_row(&path) || INDEX.judges_calls_of(&path);
    (has_row || INDEX.is_carrier(module) && INDEX.is_found(&path)).then(|| Values::object(path))
}

/// Returns whether the topmost module of a path belongs to the standard library, or to a library in the table of
/// libraries.
pub(crate) fn is_known_module(path: &str) -> bool {
    stdlib::contains(top(path)) || libraries::contains(top(path))
}

pub(crate) fn is_exception(builtin: &str) -> bool {
    ["Error", "Exception", "Exit", "Group", "Interrupt", "Iteration", "Warning"]
        .iter()
        .any(|ending| builtin.ends_with(ending))
}

/// Returns whether this is an external class, judging by the capital letter at the start of its name.
pub(crate) fn is_class(value: &Value<'_>) -> bool {
    let is_named_so = |name: &str| name.starts_with(|c: char| c.is_ascii_uppercase());
    matches!(value, Value::Object(path)
        if is_named_so(behind_dot(path).map_or(path, |(_, name)| name)))
}

/// Returns whether the analysis refuses `getattr(instance, name)` with an unknown `name` for instances of this class.
/// Connections and parsers are permitted, because honest scripts wrap a connection or parser and forward attribute
/// names to it.
pub(crate) fn leads_out(class: &str) -> bool {
    matches!(
        class,
        "multiprocessing.pool.ThreadPool"
            | INPUT_STREAM
            | "pathlib.Path"
            | "tarfile.TarFile"
            | "unittest.mock.patch"
            | "zipfile.ZipFile"
    )
}

/// Returns whether the attributes of this class's instances, and the results of their methods, are instances of the
/// class too. For example, the parent of a path is a path.
pub(crate) fn is_sticky(class: &str) -> bool {
    class == "pathlib.Path"
}

/// Returns whether `class` stands for streams in memory or for opened inputs. The methods of these streams do not open
/// other files.
pub(crate) fn is_stream(class: &str) -> bool {
    matches!(class, IN_MEMORY | INPUT_STREAM)
}

/// Returns whether a script may import this module with `__import__`. This holds if no rule is about the module or its
/// members, and the module does not give access to other modules.
pub(crate) fn is_harmless_module(name: &str) -> bool {
    let top = top(name);
    top != "__main__"
        && far_reaching(top).is_none()
        && !INDEX.is_carrier(top)
        && INDEX.import_rule(top).is_none()
        && INDEX.import_rule(name).is_none()
}

/// Returns a qualified name in the form that a finding shows. Builtins are shown without their module.
pub(crate) fn shown(path: &str) -> String {
    path.strip_prefix("builtins.").unwrap_or(path).to_owned()
}

/// Returns the possible values of the member `name` of `base`.
pub(crate) fn member<'a>(base: &Values<'a>, name: &str) -> Values<'a> {
    let mut values = Values::only_open(base.is_open);
    for value in &base.known {
        values.add(match value {
            Value::Object(path) => member_of_object(path, name),
            Value::Instance(class) => member_of_instance(class, name),
            Value::MaybeModule(module) => {
                let path = [module, ".", name].concat();
                if path == MODULES {
                    Values::one(Value::Namespace(Cow::Borrowed(MODULES))).or_others()
                } else if INDEX.has_row(&path) || INDEX.is_found(&path) {
                    Values::object(path).or_others()
                } else {
                    Values::unknown()
                }
            }
            Value::Namespace(path) => member_of_namespace(path, value, name),
            // The engine evaluates the members of the script's own objects.
            Value::Own(_) | Value::OwnClass(_) => Values::default(),
            Value::OwnFunction(_) if name == "__class__" => Values::object("types.FunctionType"),
            Value::Text(_) | Value::Items(_) | Value::Map(_) if is_method(name) => {
                Values::object("builtins.….…").or_others()
            }
            _ => Values::unknown(),
        });
    }
    values
}

/// Returns the member `name` of the module, class or function `path`.
pub(crate) fn member_of_object<'a>(path: &str, name: &str) -> Values<'a> {
    if path == "builtins.__builtins__" {
        return member_of_object("builtins", name);
    }
    if matches!(name, "__doc__" | "__module__" | "__name__" | "__qualname__") {
        return Values::unknown();
    }
    if path.len() + name.len() > PATH_BYTES_MAX {
        // The path would be too long. A rule that finds an object also finds its members, so the object stands for its
        // member.
        return Values::object(path.to_owned()).or_others();
    }
    let joined = [path, ".", name].concat();
    if joined == MODULES {
        return Values::one(Value::Namespace(Cow::Borrowed(MODULES)));
    }
    if INDEX.has_row(&joined) {
        return Values::object(joined);
    }
    if name == "raw" && path.ends_with(".buffer") {
        return Values::one(Value::Instance(FILE));
    }
    if matches!(name, "__call__" | "__wrapped__")
        || name == "__init__" && INDEX.judges_calls_of(path)
    {
        return Values::object(path.to_owned());
    }
    if name == "__dict__" {
        return Values::one(Value::Namespace(Cow::Owned(path.to_owned())));
    }
    if let Some(home) = libraries::home(&joined).or_else(|| module_behind(path, name)) {
        return Values::object(home);
    }
    Values::object(joined)
}

/// Returns the name of the module that an attribute of the object `path` refers to. Returns `None` if the attribute is
/// not a module. Most modules have an attribute for each module that they import.
fn module_behind(path: &str, attribute: &str) -> Option<&'static str> {
    // The streams of `sys` have methods with names of modules, so an attribute of a stream is not a module.
    let name = behind_dot(path).map_or(path, |(_, name)| name);
    if name == attribute || path.starts_with("sys.") {
        return None;
    }
    // The table `FAR_REACHING` does not contain `ctypes`, because arrays have an attribute `ctypes` that is not a
    // module. But the object `path` is a module, function or class, so its attribute `ctypes` is the module.
    let ctypes =
        || (attribute.strip_prefix('_').unwrap_or(attribute) == "ctypes").then_some("ctypes");
    let in_others = far_reaching(attribute).or_else(ctypes);
    let in_stdlib = match attribute.trim_start_matches('_') {
        "bltns" | "bi" => INDEX.root("builtins"),
        name => INDEX.root(name),
    };
    if in_others.is_none() && in_stdlib.is_none() {
        return None;
    }
    let is_of_library =
        || libraries::contains(top(path)) && !libraries::is_own(top(path), attribute);
    if stdlib::contains(top(path)) || (in_others.is_none() && is_of_library()) {
        in_stdlib.filter(|name| stdlib::contains(name) || libraries::contains(name))
    } else {
        in_others
    }
}

fn member_of_instance<'a>(class: &'static str, name: &str) -> Values<'a> {
    let path = [class, ".", name].concat();
    match name {
        // A call of `__init__` may initialise the object again with other arguments. So the call is treated like the
        // creation of a new object. On a stream, the call is treated like opening a file.
        "__init__" if is_stream(class) => return Values::object(FILE),
        "__class__" | "__init__" => return Values::object(class),
        // The buffer of a text stream leads to the raw file too.
        "buffer" if is_stream(class) => return Values::one(Value::Instance(class)),
        "co_consts" if class == CODE => {
            return Values::container(Values::one(Value::Instance(CODE)).or_others());
        }
        _ if class == CODE && !name.starts_with("co_") => return Values::object(path),
        _ => {}
    }
    if INDEX.has_row(&path) || INDEX.judges_calls_of(&path) {
        return Values::object(path);
    }
    if is_sticky(class) { Values::one(Value::Instance(class)) } else { Values::unknown() }
}

/// Returns whether this is a common method of strings or containers. Like any function, such a method gives access to
/// the interpreter's internals.
fn is_method(name: &str) -> bool {
    matches!(name, "append" | "copy" | "count" | "format" | "get" | "index" | "join" | "upper")
}

fn member_of_namespace<'a>(path: &str, namespace: &Value<'a>, name: &str) -> Values<'a> {
    match name {
        name if looks_up(name) => Values::one(Value::LookUp(Cow::Owned(path.to_owned()))),
        "keys" | "__contains__" | "__len__" => Values::unknown(),
        _ if path.is_empty() => Values::unknown(),
        _ => Values::one(namespace.clone()),
    }
}

/// Returns whether the namespace method `method` returns the value under a key.
fn looks_up(method: &str) -> bool {
    matches!(method, "get" | "pop" | "setdefault" | "__getitem__")
}

/// Returns whether functions of this module return objects that store the functions' arguments.
pub(crate) fn keeps(path: &str) -> bool {
    #[rustfmt::skip]
    const KEEPING: &[&str] = &[
        "collections", "contextvars", "copy", "dataclasses", "functools", "heapq", "itertools",
        "operator", "queue", "types", "typing", "weakref",
    ];
    KEEPING.contains(&top(path))
}

/// Returns whether a script may call `getattr` on this module with an unknown name, because no member gives direct
/// access to other objects.
pub(crate) fn is_plain(module: &str) -> bool {
    matches!(module, "math" | "cmath")
}

/// Returns the rule that refuses access to the members of this namespace.
pub(crate) fn rule_of_namespace(namespace: &str) -> Option<&'static Rule> {
    match INDEX.verdict(namespace) {
        Verdict::Found(rule) => Some(rule),
        Verdict::Carrier | Verdict::Clear => INDEX.special(Special::ComputedName),
    }
}

/// Returns whether all alternatives are classes of the script, or exception classes. Their subclasses are harmless,
/// because they belong to the script or are exceptions. By contrast, the subclasses of `object` include every class.
pub(crate) fn are_own_classes(values: &Values<'_>) -> bool {
    let is_own = |value: &Value<'_>| match value {
        Value::OwnClass(_) => true,
        Value::Object(path) => {
            matches!(&**path, "builtins.BaseException" | "builtins.Exception")
        }
        _ => false,
    };
    !values.is_open && !values.known.is_empty() && values.known.iter().all(is_own)
}

/// Returns the first value that a rule finds, with its name.
pub(crate) fn dangerous(values: &Values<'_>) -> Option<(String, &'static Rule)> {
    values.known.iter().find_map(|value| match value {
        Value::Object(path) => match INDEX.verdict(path) {
            Verdict::Found(rule) => Some((shown(path), rule)),
            Verdict::Clear | Verdict::Carrier => None,
        },
        _ => None,
    })
}
