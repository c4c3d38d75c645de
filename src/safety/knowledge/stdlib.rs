//! The modules of the standard library.

use std::ops::RangeInclusive;

use ruff_python_stdlib::sys::is_known_standard_library;

/// The minor versions of Python 3 whose modules count: a module that was removed in one of them is
/// dangerous where it is still there.
const MINOR_VERSIONS: RangeInclusive<u8> = 10..=14;

/// Tells whether a module of this top-level name is in the standard library.
///
/// Slow for a look-up, a comparison with every name: ask for what is known otherwise first.
pub(crate) fn contains(name: &str) -> bool {
    name == "__future__"
        || MINOR_VERSIONS.into_iter().any(|minor| is_known_standard_library(minor, name))
}

/// Tells whether the module of this name holds `os`, `sys` or `builtins`, as most that are written
/// in Python do. Only those that are not dangerous by themselves.
pub(crate) fn holds_modules(name: &str) -> bool {
    HOLDING.binary_search(&name).is_ok()
}

#[rustfmt::skip]
const HOLDING: &[&str] = &[
    "_collections_abc", "argparse", "ast", "asyncio", "bdb", "bz2", "calendar", "cgi", "cmd",
    "codecs", "collections", "configparser", "contextlib", "dataclasses", "dis", "doctest",
    "enum", "fractions", "ftplib", "gzip", "inspect", "locale", "logging", "lzma", "mimetypes",
    "optparse", "pathlib", "pickletools", "platform", "plistlib", "pprint", "pstats", "pydoc",
    "random", "reprlib", "selectors", "shlex", "statistics", "sysconfig", "tarfile", "threading",
    "timeit", "tokenize", "traceback", "tracemalloc", "typing", "unittest", "uuid", "warnings",
    "wave", "weakref", "zipfile",
];
