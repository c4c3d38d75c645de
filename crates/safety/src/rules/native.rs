//! Rules against machine code, which Python cannot inspect.

use super::{Condition, Rule, Severity, Target};

use Target::{Methods, Modules, Objects};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "native/foreign-functions",
        severity: Severity::Block,
        targets: &[
            Modules("ctypes _ctypes cffi _cffi_backend comtypes win32com jpype cppyy"),
            Modules("numpy.ctypeslib"),
            Objects("sympy.external.importtools"),
            Methods("LoadLibrary load_library dlopen", Condition::Always),
            // An array leads to these methods through its `ctypes` attribute.
            Methods("from_address in_dll", Condition::OfUnknown),
            Target::Attributes("_as_parameter_ _ctypes"),
        ],
        why: "calls machine code and writes memory without Python's checks",
        remedy: "(x + 2**31) % 2**32 - 2**31 for 32 bits, numpy.int32, or struct for bytes",
        matches: &[
            "import ctypes",
            "from ctypes import cdll",
            "import _cffi_backend",
            "import numpy as np\nnp.ctypeslib.load_library('x', '/')",
            "import numpy as np\nnp.zeros(3).ctypes._ctypes.CDLL(None)",
            "type(a.ctypes.shape).from_address(n)",
            "type(a.ctypes._as_parameter_)",
            "a.ctypes.__dict__['_ctypes']",
        ],
        misses: &[
            "import struct\nstruct.pack('<I', 1)",
            "ctypes = 1\nprint(ctypes)",
            "import numpy as np\nprint(np.zeros(3).__array_interface__['data'])",
            "import numpy as np\nprint(np.zeros(3).ctypes.data)",
            "print(order.from_address)",
            "from wallets import Wallet\nWallet.from_address('1A')",
            "class Wallet:\n    def from_address(self, a): pass\nw.from_address('1A')",
        ],
    },
    Rule {
        id: "native/memory-maps",
        severity: Severity::Block,
        targets: &[Modules("mmap")],
        why: "maps files and executable memory",
        remedy: "bytearray and memoryview",
        matches: &["import mmap\nmmap.mmap(-1, 10)"],
        misses: &["memoryview(bytearray(3))", "mmap = 1\nprint(mmap)"],
    },
    Rule {
        id: "native/compilers",
        severity: Severity::Block,
        targets: &[
            Modules("numpy.f2py numpy.distutils sympy.utilities.autowrap"),
            Modules("sympy.utilities._compilation Cython pyximport weave"),
            Modules("torch.utils.cpp_extension"),
            Objects("sympy.autowrap sympy.ufuncify"),
        ],
        why: "compiles, writes and loads machine code",
        remedy: "sympy.lambdify",
        matches: &["from sympy.utilities.autowrap import autowrap", "import pyximport"],
        misses: &["from sympy.utilities.lambdify import lambdify"],
    },
];
