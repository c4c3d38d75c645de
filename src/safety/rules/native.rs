//! Machine code that Python does not see.

use super::{Condition, Rule, Severity, Target};

use Target::{Method, Module, Object};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "native/foreign-functions",
        severity: Severity::Block,
        targets: &[
            Module("ctypes"),
            Module("_ctypes"),
            Module("cffi"),
            Module("_cffi_backend"),
            Module("comtypes"),
            Module("win32com"),
            Module("jpype"),
            Module("cppyy"),
            Module("numpy.ctypeslib"),
            Object("sympy.external.importtools"),
            Method("LoadLibrary", Condition::Always),
            Method("load_library", Condition::Always),
            Method("dlopen", Condition::Always),
        ],
        patterns: &[],
        why: "calls machine code and writes memory past every check of Python",
        remedy: "compute in Python, or struct packs and unpacks bytes",
        matches: &[
            "import ctypes",
            "from ctypes import cdll",
            "import _cffi_backend",
            "import numpy as np\nnp.ctypeslib.load_library('x', '/')",
        ],
        misses: &["import struct\nstruct.pack('<I', 1)", "ctypes = 1\nprint(ctypes)"],
    },
    Rule {
        id: "native/memory-maps",
        severity: Severity::Block,
        targets: &[Module("mmap")],
        patterns: &[],
        why: "maps files and executable memory",
        remedy: "bytearray and memoryview",
        matches: &["import mmap\nmmap.mmap(-1, 10)"],
        misses: &["memoryview(bytearray(3))", "mmap = 1\nprint(mmap)"],
    },
    Rule {
        id: "native/compilers",
        severity: Severity::Block,
        targets: &[
            Module("numpy.f2py"),
            Module("numpy.distutils"),
            Module("sympy.utilities.autowrap"),
            Module("sympy.utilities._compilation"),
            Object("sympy.autowrap"),
            Object("sympy.ufuncify"),
            Module("Cython"),
            Module("pyximport"),
            Module("weave"),
            Module("torch.utils.cpp_extension"),
        ],
        patterns: &[],
        why: "compiles, writes and loads machine code",
        remedy: "sympy.lambdify",
        matches: &["from sympy.utilities.autowrap import autowrap", "import pyximport"],
        misses: &["from sympy.utilities.lambdify import lambdify"],
    },
];
