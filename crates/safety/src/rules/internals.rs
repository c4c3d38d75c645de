//! Rules against use of the interpreter's internals, through which a script can reach every object under any name.

use super::{Condition, Rule, Severity, Special, Target};

use Target::{AllBut, Attributes, Calls, Methods, Objects};

const LEADS: &str = "leads to every object of the interpreter";
const PLAIN: &str = "name what you need, or import it";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "internals/builtins",
        severity: Severity::Block,
        targets: &[
            Target::Holder("builtins"),
            Objects("builtins.__builtins__ builtins.__build_class__ builtins.license"),
            Objects("builtins.copyright builtins.credits"),
            Attributes("__builtins__ __self__"),
        ],
        why: "contains all builtins, including the dangerous ones",
        remedy: "the builtin or the object by its own name",
        matches: &[
            "b = __builtins__",
            "globals()['__builtins__']",
            "f.__builtins__",
            "print.__self__",
            "import math\ngetattr(math, '__builtins__')",
        ],
        misses: &["import builtins\nbuiltins.print(1)", "x = '__builtins__'"],
    },
    Rule {
        id: "internals/globals",
        severity: Severity::Block,
        targets: &[Attributes("__globals__ func_globals")],
        why: LEADS,
        remedy: PLAIN,
        matches: &["f.__globals__['x']", "getattr(f, '__glob' + 'als__')"],
        misses: &["globals()['x']", "x = '__globals__'", "'a' in globals()"],
    },
    Rule {
        id: "internals/subclasses",
        severity: Severity::Block,
        targets: &[Attributes("__subclasses__")],
        why: "leads to every class of the interpreter",
        remedy: "A.__subclasses__() of your own class A, by its name",
        matches: &["object.__subclasses__()", "().__class__.__base__.__subclasses__()"],
        misses: &[
            "class A: pass\nprint(A.__subclasses__(), A.__bases__)",
            "def f(c):\n    for d in c.__subclasses__(): f(d)\ndef g(c):\n    for c in f(c): print(c)\ng(Exception)",
            "a.__class__.__name__",
            "type(a).__mro__[0].__name__",
        ],
    },
    Rule {
        id: "internals/frames",
        severity: Severity::Block,
        targets: &[
            Attributes("f_globals f_builtins f_locals f_back f_code tb_frame gi_frame gi_code"),
            Attributes("cr_frame cr_code ag_frame ag_code _getframe _current_frames"),
            Objects("sys._getframe sys._current_frames"),
        ],
        why: LEADS,
        remedy: "traceback.format_exc shows where an error happened",
        matches: &[
            "g.gi_frame.f_builtins",
            "e.__traceback__.tb_frame",
            "import sys\nsys._getframe()",
        ],
        misses: &[
            "import traceback\ntraceback.print_tb(e.__traceback__)",
            "e.__traceback__.tb_lineno",
        ],
    },
    Rule {
        id: "internals/code-objects",
        severity: Severity::Block,
        targets: &[
            Attributes("__code__ func_code"),
            Objects("types.FunctionType types.LambdaType types.CodeType types.CellType"),
        ],
        why: "creates or changes functions that the analysis cannot see",
        remedy: "inspect.signature(f), or f.__code__.co_argcount and the like in one expression",
        matches: &[
            "f.__code__ = g.__code__",
            "f.__code__.replace(co_names=('eval',))",
            "import types\ntypes.FunctionType(c, {})",
        ],
        misses: &[
            "print(f.__code__.co_argcount, f.__code__.co_varnames)",
            "import types\ntypes.SimpleNamespace(a=1)",
            "import types\nisinstance(f, types.FunctionType)",
            "import types\ntypes.MethodType(f, a)",
        ],
    },
    Rule {
        id: "internals/system",
        severity: Severity::Block,
        targets: &[AllBut("sys", SYS_HARMLESS)],
        why: "sys reaches the internals of the interpreter",
        remedy: "sys.argv, sys.exit, sys.version_info, sys.stdout and the limits are allowed",
        matches: &[
            "import sys\nsys.settrace(f)",
            "import sys\nsys.setprofile(f)",
            "import sys\nsys.addaudithook(f)",
            "from sys import *",
        ],
        misses: &[
            "import sys\nsys.exit(0)",
            "import sys\nprint(sys.version_info, sys.maxsize, sys.float_info.epsilon)",
            "import sys\nsys.setrecursionlimit(10000)",
            "import sys, io\nsys.stdout = io.StringIO()",
        ],
    },
    Rule {
        id: "internals/garbage-collector",
        severity: Severity::Block,
        targets: &[AllBut("gc", GC_HARMLESS)],
        why: LEADS,
        remedy: "gc.collect is allowed",
        matches: &["import gc\ngc.get_objects()", "from gc import get_referrers"],
        misses: &["import gc\ngc.collect()", "import gc\ngc.disable()"],
    },
    Rule {
        id: "internals/inspection",
        severity: Severity::Block,
        targets: &[
            Objects("inspect.currentframe inspect.stack inspect.trace inspect.getouterframes"),
            Objects("inspect.getinnerframes inspect.getframeinfo inspect.getattr_static"),
            Objects("inspect.getargvalues inspect.getclosurevars inspect.getgeneratorlocals"),
            Objects(
                "doctest.DocTestFinder inspect.getcoroutinelocals traceback.walk_stack traceback.walk_tb",
            ),
            Methods("_evaluate", Condition::Always),
        ],
        why: LEADS,
        remedy: "f.__name__, f.__closure__ and inspect.signature(f) describe a function f",
        matches: &[
            "import inspect\ninspect.currentframe()",
            "from inspect import stack",
            "import inspect\ninspect.getfile = g\ninspect.getfile(inspect.currentframe())",
            "import inspect\n(inspect.getfile if a else g)(inspect.currentframe())",
        ],
        misses: &[
            "import inspect\nprint(inspect.getfile(inspect.currentframe()))",
            "import inspect\ninspect.signature(f)",
            "import inspect\ninspect.isfunction(f)",
            "class A:\n    def __getattribute__(self, n): return super().__getattribute__(n)",
        ],
    },
    Rule {
        id: "internals/format-fields",
        severity: Severity::Block,
        targets: &[
            Calls("logging.basicConfig logging.Formatter", Condition::FormatsInternals),
            Methods("format format_map vformat", Condition::FormatsInternals),
            Calls("operator.attrgetter", Condition::NamesAttributes(0, usize::MAX)),
            Calls("operator.methodcaller", Condition::NamesAttributes(0, 1)),
            Methods("get_field", Condition::NamesAttributes(0, 1)),
            // The second argument contains the attribute names that the call follows: `reduce(getattr, names, start)`.
            Calls("functools.reduce", Condition::NamesAttributes(1, 1)),
        ],
        why: "a format string that names internal attributes of the interpreter",
        remedy: "plain names, as in {0.name} or attrgetter('name')",
        matches: &[
            "'{0.__init__.__globals__}'.format(x)",
            "getattr('{0.__init__.__globals__}', 'format')(x)",
            "'{0.__init__.__globals__}'.__getattribute__('format')(x)",
            "import operator\noperator.methodcaller('format', x)('{0.__init__.__globals__}')",
            "import operator\noperator.attrgetter('_os.system')(x)",
        ],
        misses: &[
            "'{0.name} {1[key]}'.format(x, y)",
            "'{}'.format(1)",
            "'{0.__class__.__name__}'.format(x)",
            "getattr('{0.name}', 'format')(x)",
        ],
    },
    Rule {
        id: "values/module",
        severity: Severity::Block,
        targets: &[Target::Special(Special::ModuleAsValue)],
        why: "the analysis cannot see how the module is used elsewhere",
        remedy: "use the module by its name",
        matches: &[
            "import os\n[os][0].system('id')",
            "import os\nf(os)",
            "import os\ndef f(): return os",
            "import os, operator\noperator.attrgetter('system')(os)",
            "class math:\n    import os as sqrt",
        ],
        misses: &[
            "import os\no = os\no.getcwd()",
            "import random\ndef f(rng=random): return rng.random()",
            "import math\nf(math)",
            "import sys\nprint(hasattr(sys, 'gettrace'), dir(sys)[:3])",
        ],
    },
    Rule {
        id: "values/computed-name",
        severity: Severity::Block,
        targets: &[
            Target::Special(Special::ComputedName),
            Calls("operator.attrgetter operator.methodcaller", Condition::UnknownName),
            Methods("get_field", Condition::UnknownName),
        ],
        why: "the analysis cannot see which member is used",
        remedy: "write the name out",
        matches: &[
            "import os\ngetattr(os, n)('id')",
            "import os\nos.__dict__[n]",
            "import os\nfor v in vars(os).values(): v()",
            "import builtins\ngetattr(builtins, f())",
            "__builtins__[n]('1')",
            "import random\ngetattr(random, n)(1, 2)",
            "getattr(print, n)",
            "def f(): pass\ngetattr(f, n)",
            "def f(): pass\nsetattr(f, n, g)",
            "globals()[n]",
            "import operator\noperator.attrgetter(n)(x)",
            "import inspect, random\ninspect.getmembers(random)",
            "import inspect, random\ninspect.getmembers(random, lambda m: True)",
            "import inspect, random\ninspect.getmembers(random, lambda m: isinstance(m, object))",
            "import inspect, zipfile\ninspect.getmembers(zipfile, inspect.isclass)",
            "import inspect\ndef f(): pass\ninspect.getmembers(f)",
            "import inspect, random\nlist(map(inspect.getmembers, [random]))",
            "from pathlib import Path\ngetattr(Path('x'), n)('y')",
            "from unittest import mock\nmock.patch.object(print, n)",
            "import typing\ngetattr(typing.cast(object, print), n)",
            "getattr(max([print], key=len), n)",
            "def f(x=print): pass\ngetattr(f.__defaults__[0], n)",
            "def f(*, x=print): pass\ngetattr(f.__kwdefaults__['x'], n)",
            "from functools import partial\ngetattr(partial(print).func, n)",
            "from functools import partial\ngetattr(partial(f, x=print).keywords['x'], n)",
            "try: raise ValueError(print)\nexcept ValueError as e: getattr(e.args[0], n)",
            "import inspect\ndef f(x=print): pass\ngetattr(inspect.signature(f).parameters['x'].default, n)",
            "def f(g): return lambda: g\ngetattr(f(print).__closure__[0].cell_contents, n)",
            "import random\ngetattr(random.choice([print]), n)",
            "from types import SimpleNamespace as S\ngetattr(S(a=print).a, n)",
            "import contextvars\nv = contextvars.ContextVar('v')\nv.set(print)\ngetattr(v.get(), n)",
        ],
        misses: &[
            "import math\nfor n in ['sin', 'cos']: getattr(math, n)(1)",
            "import os\nfor n in ['getcwd', 'getpid']: getattr(os, n)()",
            "getattr(a, n)",
            "globals()['problem_{}'.format(n)]",
            "class A: pass\ngetattr(A(), n)",
            "import operator\nfor n in ('x', 'y'): operator.attrgetter(n)(a)",
            "import sqlite3\nc = sqlite3.connect(':memory:')\ngetattr(c, n)",
            "import inspect\nclass A: pass\ninspect.getmembers(A)\ninspect.getmembers(A(), inspect.ismethod)",
            "import inspect\ndef f(): pass\ninspect.getmembers(f, lambda m: isinstance(m, tuple))",
            "import inspect, math\ninspect.getmembers(math, inspect.isbuiltin)\ninspect.getmembers(x)",
            "import inspect, statistics\ninspect.getmembers(statistics, inspect.isfunction)",
            "from unittest import mock\nclass A: x = 1\nmock.patch.object(A, n)\nmock.patch.object(a, n)",
            "import time\nfrom unittest import mock\nmock.patch.object(time, 'sleep')",
            "from functools import partial\ng = partial(int, base=2)\ngetattr(g, n)\ngetattr(g('1'), n)",
            "try: raise ValueError(f(1))\nexcept ValueError as e: getattr(e, n)\ngetattr(max(a, b), n)",
        ],
    },
];

/// Members of `gc` that are harmless, because they return none of the interpreter's objects.
const GC_HARMLESS: &str = "
    collect disable enable freeze get_count get_stats get_threshold isenabled
    is_tracked set_threshold unfreeze";

/// Members of `sys` that only describe the interpreter and how the script was started.
const SYS_HARMLESS: &str = "
    __excepthook__ __stderr__ __stdout__ _MEIPASS _git _is_gil_enabled abiflags activate_stack_trampoline
    api_version argv base_exec_prefix base_prefix builtin_module_names byteorder copyright
    displayhook dont_write_bytecode exc_info excepthook exception exec_prefix executable exit
    flags float_info float_repr_style get_asyncgen_hooks get_int_max_str_digits getallocatedblocks
    getdefaultencoding getfilesystemencodeerrors getfilesystemencoding getprofile
    getrecursionlimit getrefcount getsizeof getswitchinterval gettrace hash_info hexversion
    implementation int_info intern is_finalizing last_exc last_value maxint maxsize maxunicode modules
    orig_argv path platform platlibdir prefix ps1 pycache_prefix set_int_max_str_digits
    setrecursionlimit setswitchinterval stderr stdin stdlib_module_names stdout thread_info
    tracebacklimit unraisablehook version version_info warnoptions";
