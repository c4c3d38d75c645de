use super::*;

fn texts(source: &str) -> Vec<String> {
    let findings = analyze(source).unwrap().findings;
    findings.into_iter().map(|finding| Finding { remedy: None, ..finding }.to_string()).collect()
}

#[test]
fn every_rule_finds_its_matches_and_nothing_finds_its_misses() {
    let mut wrong = Vec::new();
    for rule in rules::all() {
        assert!(!rule.matches.is_empty() && !rule.misses.is_empty(), "{} has no examples", rule.id);
        let of_severity = |snippet: &str| {
            let Analysis { findings, notes, .. } = analyze(snippet).unwrap();
            match rule.severity {
                Severity::Block => findings,
                Severity::Note => notes,
            }
        };
        for snippet in rule.matches {
            let found = of_severity(snippet);
            if !found.iter().any(|finding| finding.rule_id() == Some(rule.id)) {
                wrong.push(format!("{} misses {snippet:?}: {found:?}", rule.id));
            }
        }
        for snippet in rule.misses {
            let found = of_severity(snippet);
            if !found.is_empty() {
                wrong.push(format!("{} finds {snippet:?}: {}", rule.id, found[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rule_ids_are_unique_and_every_rule_says_why_and_what_instead() {
    let mut ids: Vec<_> = rules::all().map(|rule| rule.id).collect();
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all);
    for rule in rules::all() {
        assert!(!rule.why.is_empty() && !rule.remedy.is_empty() && !rule.targets.is_empty());
    }
}

#[test]
fn findings_name_what_was_resolved_what_was_written_and_the_line_in_source_order() {
    for (source, expected) in [
        ("eval('1')", vec!["Dangerous function call: eval() (line 1)"]),
        (
            "import os as x\n\nx.system('id')",
            vec!["Dangerous function call: os.system() (line 3, written x.system)"],
        ),
        (
            "from os import popen as op\nop('id')\n",
            vec![
                "Dangerous import detected: from os import popen (line 1)",
                "Dangerous function call: os.popen() (line 2, written op)",
            ],
        ),
        (
            "import subprocess\r\nsubprocess.run([])\rsubprocess.run([])",
            vec![
                "Dangerous import detected: subprocess (line 1)",
                "Dangerous function call: subprocess.run() (lines 2-3)",
            ],
        ),
        (
            "from subprocess import run\nrun(['id'])",
            vec![
                "Dangerous import detected: from subprocess import ... (line 1)",
                "Dangerous function call: subprocess.run() (line 2, written run)",
            ],
        ),
        (
            "from builtins import eval as e\ne('1')",
            vec![
                "Dangerous import detected: from builtins import eval (line 1)",
                "Dangerous function call: eval() (line 2, written e)",
            ],
        ),
        ("__import__('os')", vec!["Dangerous function call: __import__() (line 1)"]),
        ("i = __import__", vec!["Dangerous name reference detected: __import__ (line 1)"]),
        (
            "b = exec('1')\na = eval('1')",
            vec![
                "Dangerous function call: exec() (line 1)",
                "Dangerous function call: eval() (line 2)",
            ],
        ),
    ] {
        assert_eq!(texts(source), expected, "{source:?}");
    }
}

#[test]
fn everything_in_the_table_of_libraries_is_found_where_it_is_given_a_file() {
    let table = include_str!("knowledge/libraries.txt");
    let mut judged = 0;
    for line in table.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (module, kind) = (words[0], words[1]);
        let calls: Vec<String> = match kind {
            "own" => Vec::new(),
            "holds" => words[2..]
                .iter()
                .map(|word| word.split_once('=').unwrap())
                .map(|(name, home)| match home {
                    "pathlib.Path" => format!("{module}.{name}('x').read_text()"),
                    "importlib.import_module" => format!("{module}.{name}(x)"),
                    "tarfile.TarFile" => format!("{module}.{name}('x')"),
                    _ => format!("{module}.{name}"),
                })
                .collect(),
            "file" => {
                let arguments = format!("{}'x'", "None, ".repeat(words[2].parse().unwrap()));
                let call = |name: &&str| match name.strip_prefix('.') {
                    Some(method) => {
                        format!("x.{method}({arguments})\nx.{method}({}='x')", words[3])
                    }
                    None => format!("{module}.{name}({arguments})"),
                };
                words[4..].iter().map(call).collect()
            }
            kind => panic!("{kind}: {line}"),
        };
        for call in calls {
            let source = format!("import {module}\n{call}");
            assert!(!texts(&source).is_empty(), "{source}");
            judged += 1;
        }
    }
    assert!(judged > 300, "{judged}");
}

/// Scripts may use the functions of libraries that open no file, and members that only share their name with a
/// dangerous module.
#[test]
fn libraries_pass_without_files() {
    for source in [
        "import io, networkx as nx\nnx.read_gml(io.BytesIO(b'x'))",
        "import networkx as nx\nnx.readwrite.json_graph.node_link_data(g)",
        "import numpy as np\nnp.trace(a)\nnp.linalg.trace(a)\nnp.random.seed(1)",
        "from scipy import signal, stats\nsignal.resample(x, 3)\nstats.trim_mean(x, 0.1)",
        "import sympy\nsympy.trace(m)\nsympy.core.add.operator",
        "import sqlalchemy as sa\nsa.inspect(x)\nsa.types.String",
        "import matplotlib.pyplot as plt\nplt.style.use('ggplot')\nplt.title('open(x)')",
        "from matplotlib.path import Path\nPath([(0, 0)]).copy()",
        "import pandas as pd\npd.DataFrame({'a': [1]}).to_string(index=False)",
        "import yaml\nyaml.safe_load('a: 1')",
        "import sympy\nfrom qwed_new import guard\nguard.verify_code(\"eval('1')\")",
        "from numpy.testing import assert_allclose\nassert_allclose(1, 1)",
    ] {
        assert_eq!(texts(source), [""; 0], "{source:?}");
    }
}

/// A name is the script's own only if a statement that binds the name has certainly run before the use. Otherwise the
/// name may be a builtin.
#[test]
fn an_own_name_shadows_a_builtin_only_where_it_certainly_does() {
    for (source, is_blocked) in [
        ("def open(x):\n    return x\nopen(1)", false),
        ("def open(x):\n    return x\ndel open\nopen('/etc/passwd')", true),
        ("if x:\n    def open(x): pass\nopen('/etc/passwd')", true),
        ("if x:\n    def open(x): pass\n    open('a')", false),
        ("def f():\n    def open(x): pass\nopen('/etc/passwd')", true),
        ("def open(x): pass\nfrom builtins import open\nopen('/etc/passwd')", true),
        ("def f(): return open(1)\ndef open(x): return x\nf()", false),
        ("def f(): return open('a')\nf()\ndef open(x): return x", true),
        ("def open(x):\n    return open(x - 1) if x else 0\nopen(3)", false),
        ("@f\ndef open(x):\n    return open(x)\n", true),
        ("class A:\n    def open(self): return open('a')", true),
        ("class A:\n    open = 1\n    x = [open]", false),
        ("for open, high in rows:\n    print(open)", false),
        ("for open in rows: pass\nopen('a')", true),
        ("try:\n    f()\nexcept E as open:\n    print(open)", false),
        ("try:\n    f()\nexcept E as open: pass\nopen('a')", true),
        ("match x:\n    case [open]: print(open)", false),
        ("match x:\n    case [open]: pass\nopen('a')", true),
        ("with f() as open:\n    open(1)", false),
        ("0 and (open := len)\nopen('a')", true),
        ("(open := len)\nopen('a')", false),
        ("x = [open for y in z if (open := y)]", false),
        ("[0 for y in z if (open := y)]\nopen('a')", true),
        ("def f():\n    global open\n    open = len\nopen('a')", true),
        ("def f():\n    open('a')\n    open = len", false),
        ("open = len\nglobals().pop('open')\nopen('a')", true),
        ("open = len\nprint('open' in globals())\nopen('a')", false),
        ("def f[open](x: open) -> open: return open", false),
        ("type open = int\nx: open = 1", false),
        ("lambda open: open(1)", false),
        ("lambda x, y=open: y(1)", true),
    ] {
        assert_eq!(!texts(source).is_empty(), is_blocked, "{source:?}: {:?}", texts(source));
    }
}

/// A name may have the value of each assignment that reaches the use of the name.
#[test]
fn names_are_followed_to_what_they_may_stand_for() {
    for (source, is_blocked) in [
        ("import os\nx = os\ny = x\ny.system('id')", true),
        ("import os\nx = os\nx = A()\nx.system('id')", false),
        ("import os\nx = os\nif y:\n    x = A()\nx.system('id')", true),
        ("import os\nfor i in y:\n    x.system('id')\n    x = os", true),
        ("import os\nx = A()\ndef f(): x.system('id')\nx = os\nf()", true),
        ("import os\nd = os\nd = d.__dict__\nd['system']('id')", true),
        ("import os\ndef f(m=os): m.system('id')", true),
        ("import os\ndef f():\n    global x\n    x = os\nf()\nx.system('id')", true),
        (
            "def f():\n    x = 1\n    def g():\n        nonlocal x\n        import os as x\n    g()\n    \
          x.system('id')",
            true,
        ),
        ("import os, sys\no, s = os, sys\no.system('id')", true),
        (
            "try:\n    import fast as m\nexcept ImportError:\n    import os as m\nm.system('id')",
            true,
        ),
        ("from os import path as p\np.os.system('id')", true),
        ("import os\nname = 'sys'\nname += 'tem'\ngetattr(os, name)('id')", true),
        ("import os\nfor n in ('getcwd', 'getpid'): print(getattr(os, n)())", false),
        ("import os\nn = 'getcwd'\nprint(getattr(os, n)())", false),
        ("import os\nn = ('getcwd',)\nprint(getattr(os, n[0])())", false),
        ("import os\nn = ['getcwd']\nn[0] = 'system'\ngetattr(os, n[0])('id')", true),
        ("import os\nn = list('getcwd')\nn[:] = 'system'\ngetattr(os, ''.join(n))('id')", true),
        ("import os\ngetattr(os, 'getcwdx'.replace('x', '', 0))", true),
        ("import os\ngetattr(os, 'getcwd,x'.split(',', 0)[0])", true),
        ("import os\ngetattr(os, f'{name=}')", true),
        ("import os\nx = os\nif a: pass\nelif (x := b): pass\nx.system('id')", true),
        ("import os\nx = os\nif 1 > 2 > (x := 3): pass\nx.system('id')", true),
        ("import os\nx = os\nassert 1, (x := 3)\nx.system('id')", true),
        ("import os\nn = 'getcwd'\nglobals()['n'] = 'system'\ngetattr(os, n)('id')", true),
    ] {
        assert_eq!(!texts(source).is_empty(), is_blocked, "{source:?}: {:?}", texts(source));
    }
}

/// Attacks that passed earlier versions of the analysis, one for each cause.
#[test]
fn ways_past_that_were_found_are_closed() {
    for source in [
        "map(getattr, [random], ['_os'])",
        "import functools\nfunctools.partial(getattr, print, '__self__')()",
        "type(f).__dict__['__globals__'].__get__(f)",
        "f = lambda *a: getattr(*a)\nf(f, '__globals__')",
        "def ga(o, n): return getattr(o, n)\nga(print, '__self__').open('x')",
        "import importlib\nimportlib.import_module(**{'name': 'os'}).system('id')",
        "import sqlite3\nsqlite3.connect(**{'database': 'x'})",
        "import timeit\ntimeit.timeit(**{'stmt': 'open(1)'})",
        "import timeit\ntimeit.timeit(**f())",
        "import builtins\ng = lambda: ['open']\ngetattr(builtins, *g(), 'print')('x')",
        "from sympy import *\nsympify(\"open('x', 'w')\")",
        "from sqlite3 import *\nconnect('x')",
        "from z3 import *\nio.open('x', 'w')",
        "from matplotlib.pyplot import *\nnp.lib.format.open_memmap('x.npy', mode='w+', shape=(2,))",
        "from matplotlib.figure import *\ncbook.open_file_cm('x', 'w')",
        "from matplotlib.pyplot import *\nlogging.FileHandler('x')",
        "from numpy.lib import *\nformat.open_memmap('x', mode='w+')",
        "from numpy import *\nlib.format.open_memmap('x')",
        "def open(*a): pass\nfrom codecs import *\nopen('x', 'w')",
        "import importlib\nmap(importlib.import_module, ['os'])",
        "class A:\n    from importlib import import_module as i",
        "import sympy\nlist(map(sympy.sympify, [\"open('x')\"]))",
        "import os\nfor f in os.supports_fd: f('x')",
        "import importlib.metadata\nimportlib.metadata.import_module('os')",
        "import importlib.util\nimportlib.util.find_spec('json').loader.set_data('x', b'')",
        "import sys\ntype(sys.__stdout__.buffer.raw)('x', 'w')",
        "global o\nimport os as o\no.system('id')",
        "import random\ndict(vars(random))['_os']",
        "import random\n{**vars(random)}['_os']",
        "import random\nfor k, v in vars(random).items(): v.system('id')",
        "import os\ngetattr(os, sorted(['umask', 'system'])[0])('id')",
        "import os\ngetattr(os, b'x'.decode('utf-16'))",
        "import sqlite3\nsqlite3.connect(f\"{':memory:'=}\")",
        "for open in [1]:\n    del open\n    open('x')",
        "if True:\n    def f(): open('x')\n    f()\n    def open(*a): pass",
        "def f(): open('x')\nclass B(f()): pass\ndef open(*a): pass",
        "def f(): open('x')\ndef g(x: f()): pass\ndef open(*a): pass",
        "with suppress(E), g() as open: pass\nopen('x')",
        "import inspect\ninspect.getmodule(print).open('x')",
        "import cProfile\ncProfile.Profile().run(\"open('x')\")",
        "f.__annotations__ = {'x': \"open('x')\"}",
        "import doctest\n__test__ = {'a': '>>> open(1)'}\ndoctest.testmod()",
        "c.execute(\"/**/ATTACH 'x' AS y\")",
        "c.execute(\"ATTACH'x'AS y\")",
        "import sqlite3\nsqlite3.connect('file::memory:x')",
        "import zipfile, io\ntype(zipfile.ZipFile(io.BytesIO(), 'w'))('x', 'w')",
        "import numpy as np\nnp._core._methods.pickle.loads(b'')",
        "import sqlite3\ndef mk(path=':memory:'): return sqlite3.connect(path)\nmk('x.db')",
        "import sqlite3\ndef mk(path): return sqlite3.connect(path)\nmk(':memory:')\nmap(mk, ['x'])",
        "import os\ndef show(name): return getattr(os, name)\nshow('sep')\nshow('system')('id')",
        "import os\ndef show(name): return getattr(os, name)\nshow('sep')\nshow(*x)",
        "import os\nclass A:\n    def show(self, n): return getattr(os, n)\nA().show('system')",
        "class Box: pass\nfor Box.f in [eval]: Box.f('1')",
    ] {
        assert!(!texts(source).is_empty(), "{source:?}");
    }
}

#[test]
fn false_alarms_that_were_found_are_gone() {
    for source in [
        "import sys\nn = int(sys.stdin.readline())",
        "import sys\ninput = sys.stdin.readline\nprint(input())",
        "import timeit\nn = 100\ntimeit.timeit(f'sum(range({n}))', number=10)",
        "import types\nprint(isinstance(f, (types.FunctionType, types.MethodType)))",
        "from types import FunctionType\nprint(isinstance(f, FunctionType))",
        "import io, pickle\npickle.dump([1], io.BytesIO())",
        "import sqlite3\ndef connect(path=':memory:'): return sqlite3.connect(path)\nconnect()",
        "import numpy as np\nnp.loadtxt('1 2\\n3 4'.splitlines())",
        "import sys, numpy as np\nnp.savetxt(sys.stdout, x)",
        "import io, xml.etree.ElementTree as ET\nET.ElementTree(r).write(io.BytesIO())",
        "import gzip, io\ngzip.open(io.BytesIO(d), 'rt')",
        "import numpy as np\ndef p(x): return x.ctypes.data",
        "import cProfile\ncProfile.run('sum(range(10))')",
        "import os\nfor name in os.environ: print(name)",
        "import functools\nfunctools.reduce(getattr, 'a.b'.split('.'), x)",
        "import sqlite3\ndef mk(path): return sqlite3.connect(path)\nmk(':memory:')",
        "import io, pandas as pd\ndef parse(fh): return pd.read_csv(fh)\nparse(io.StringIO('a'))",
        "import os\ndef show(name): print(getattr(os, name))\nshow('sep')\nshow(name='name')",
        "import importlib\ndef has(m): return importlib.import_module(m)\nhas('sympy')",
        "for open, high in rows: print(open)\ndel open",
        "def g(x: int, y: list[int] = None) -> dict[str, int]: return open(x)\n\
         def open(x): return x\ng(1)",
    ] {
        assert_eq!(texts(source), [""; 0], "{source:?}");
    }
}

/// The analysis follows an instance wherever the script stores it. In each source, `P` is `pathlib.Path`, and the
/// script calls `open("w")` on an instance of `P`.
#[test]
fn instances_are_followed_through_the_scripts_own_code() {
    for source in [
        "def f(): return P('x')\nf().open('w')",
        "def f(): yield P('x')\nfor p in f(): p.open('w')",
        "f = lambda: P('x')\nf().open('w')",
        "def f(p): p.open('w')\nf(P('x'))",
        "def f(*p): p[0].open('w')\nf(P('x'))",
        "def f(**p): p['a'].open('w')\nf(a=P('x'))",
        "def f(p=P('x')): p.open('w')\nf()",
        "async def f(): return P('x')\nasync def g():\n    p = await f()\n    p.open('w')",
        "list(map(lambda p: p.open('w'), [P('x')]))",
        "class A:\n    def __init__(self, p): self.p = p\nA(P('x')).p.open('w')",
        "class A: p = P('x')\nA.p.open('w')",
        "class A:\n    def m(self): return P('x')\nA().m().open('w')",
        "class A:\n    @property\n    def p(self): return P('x')\nA().p.open('w')",
        "class A:\n    @classmethod\n    def m(cls): return P('x')\nA.m().open('w')",
        "class A:\n    def __call__(self): return P('x')\nA()().open('w')",
        "class A:\n    def __enter__(self): return P('x')\nwith A() as p: p.open('w')",
        "class A:\n    def __iter__(self): yield P('x')\nfor p in A(): p.open('w')",
        "class A:\n    def __getitem__(self, i): return P('x')\nA()[0].open('w')",
        "class A:\n    def __getattr__(self, n): return P('x')\nA().p.open('w')",
        "class A:\n    def __get__(self, o, t): return P('x')\nclass B: p = A()\nB().p.open('w')",
        "class A(P): pass\nA('x').open('w')",
        "class A(P):\n    def m(self): super().open('w')\n    def n(self): self.open('w')",
        "@dataclass\nclass A:\n    p: P\nA(P('x')).p.open('w')",
        "class A: pass\nsetattr(A, 'p', P('x'))\nA.p.open('w')",
        "p = [P('x')]\np[0].open('w')",
        "p = []\np.append(P('x'))\np[0].open('w')",
        "p = {}\np['a'] = P('x')\nfor k, v in p.items(): v.open('w')",
        "p = {'a': P('x')}\np.get('a').open('w')",
        "for p in {P('x')}: p.open('w')",
        "for p in [P(n) for n in names]: p.open('w')",
        "for i, p in enumerate([P('x')]): p.open('w')",
        "a, (b, p) = 1, (2, P('x'))\np.open('w')",
        "a, *p = 1, P('x')\np[0].open('w')",
        "match [1, P('x')]:\n    case [a, p]: p.open('w')",
        "if (p := P('x')): p.open('w')",
        "next(iter([P('x')])).open('w')",
        "from collections import deque\ndeque([P('x')]).popleft().open('w')",
        "from collections import namedtuple\nN = namedtuple('N', 'p')\nN(P('x')).p.open('w')",
        "p = P('x')\ntype(p)('y').open('w')",
        "p = P('x')\np.__class__('y').open('w')",
        "from contextlib import contextmanager\n@contextmanager\ndef f(): yield P('x')\n\
         with f() as p: p.open('w')",
    ] {
        let attack =
            format!("from pathlib import Path as P\nfrom dataclasses import dataclass\n{source}");
        assert!(!texts(&attack).is_empty(), "{source:?}");
        // The same script is honest if `P` is a class of the script with its own `open` method.
        let own = "class P:\n    def __init__(self, n): pass\n    def open(self, m): pass\n    def read(self): pass";
        let honest = format!("from dataclasses import dataclass\n{own}\n{source}");
        assert_eq!(texts(&honest), [""; 0], "{source:?}");
    }
}

#[test]
fn texts_are_followed_through_the_scripts_own_code() {
    for (source, is_blocked) in [
        ("def n(): return '__self__'\ngetattr(x, n())", true),
        ("def n(): return 'name'\ngetattr(x, n())", false),
        ("d = {'a': 'real', 'b': '__self__'}\ngetattr(x, d['b'])", true),
        ("d = {'a': 'real', 'b': '__self__'}\ngetattr(x, d['a'])", false),
        ("class A: n = '__globals__'\ngetattr(x, A.n)", true),
        ("n = '__self'\nn += '__'\ngetattr(x, n)", true),
        ("import timeit\ndef t(): return 'import os; os.system(1)'\ntimeit.timeit(t())", true),
        ("import timeit\ndef t(): return 'sum(range(9))'\ntimeit.timeit(t())", false),
        (
            "import timeit\ndef f(s, /, **k): timeit.timeit(s)\nf('import os; os.system(1)', s='1')",
            true,
        ),
        (
            "import timeit\ndef f(s, /, **k): timeit.timeit(s)\nf('1', s='import os; os.system(1)')",
            false,
        ),
        ("import timeit\ntimeit.timeit(b64decode(t).decode())", true),
        ("import timeit\ntimeit.timeit(partial(f, 1))", false),
        ("import sqlite3\ndef q(): return \"ATTACH 'x' AS y\"\nc.execute(q())", true),
        ("import sqlite3\ndef q(): return 'select 1'\nc.execute(q())", false),
        ("import sqlite3\nc.execute(q)", true),
        ("import sqlite3\nc.execute(f'insert into {t} values (?)', [1])", false),
        ("import sympy\nd = {'f': sympy.sympify}\nd['f'](\"open('x')\")", true),
        ("import sympy\nd = {'f': sympy.sympify}\nd['f']('x + 1')", false),
        ("import sympy\ndef t(): return \"open('x')\"\nsympy.lambdify([], t())", true),
        ("import pandas as pd\nd = {'x': 'read_csv'}\ngetattr(pd, d['x'])('f')", true),
        ("import pandas\nw = df.to_csv\nw('x')", true),
        ("import pandas\nlist(map(df.to_csv, ['x']))", true),
        ("import pandas\ndf.to_csv(**{'path_or_buf': 'x'})", true),
        ("import pandas\ndf.to_csv(**{'sep': ';'})", false),
        ("x = 'a' if y else 'b'\nprint(getattr(x, 'upper')())", false),
    ] {
        assert_eq!(!texts(source).is_empty(), is_blocked, "{source:?}: {:?}", texts(source));
    }
}

/// `getattr` with an unknown name is refused only on objects whose attributes may lead to modules.
#[test]
fn computed_names_are_refused_where_they_lead_out() {
    for (source, is_blocked) in [
        ("getattr(print, n)", true),
        ("getattr(len, q.get())", true),
        ("def f(): pass\ngetattr(f, n)", true),
        ("getattr(lambda: 0, n)", true),
        ("import numpy as np\ngetattr(np, n)", true),
        ("from fractions import Fraction\ngetattr(Fraction, n)", true),
        ("def get(o, *p): return getattr(o, ''.join(p))\nget(print, '__se', 'lf__')", true),
        ("def get(o, n, f=getattr): return f(o, n)\nget(print, '__self__')", true),
        ("object.__getattribute__(print, n)", true),
        ("import operator\noperator.attrgetter(n)(x)", true),
        (
            "class X:\n    def __init__(self, o): self.o = o\n    def __getattr__(self, n): \
          return X(getattr(self.o, n.replace('q', '_')))\nX(print).qqselfqq",
            true,
        ),
        ("getattr(getattr(q.get(), q.get()), q.get())", true),
        ("import os as x, __main__\nvars(__main__)['x'].system('id')", true),
        ("import os as x, sys\nsys.modules[__name__].x.system('id')", true),
        ("import os as x\nfrom __main__ import x as y\ny.system('id')", true),
        ("import __main__\ngetattr(__main__, n)", true),
        ("import sys\nt = sys.modules[__name__]\nprint(t.__doc__)\nx = 1\nprint(t.x)", false),
        ("def f(): pass\nf.__class__(c, {})", true),
        ("def mk(n):\n    def g(o): return getattr(o, n)\n    return g\nmk(q.get())(print)", true),
        ("from functools import reduce\nreduce(getattr, x.split(','), print)", true),
        ("from functools import reduce\nreduce(getattr, x.split(','), y)", false),
        ("try: f()\nexcept E as e: getattr(e.__traceback__, n)", true),
        (
            "class P:\n    def __init__(self, o): self.o = o\n    def __getattr__(self, n): \
          return getattr(self.o, n)\nP([1]).append(2)",
            false,
        ),
        ("vars(random_module_like)", false),
        ("import random\nvars(random)[n]", true),
        ("globals()[n]()", true),
        ("globals()[f'task_{n}']()", false),
        ("import os as task_os\nglobals()[f'task_{n}']", true),
        ("import os as x\nfor v in globals().values(): v.system('id')", true),
        ("getattr(x, n)", false),
        ("class A:\n    def v(self, n): return getattr(self, 'visit_' + n)", false),
        ("class A: pass\ngetattr(A(), n)\ngetattr(A, n)", false),
        ("import math\ngetattr(math, n)(1)\nenv = dict(vars(math))", false),
        ("import math\ngetattr(getattr(math, n), m)", true),
        (
            "import math\nt = {'a': 'sin', 'b': 'cos'}\nfor k, v in t.items(): getattr(math, v)",
            false,
        ),
        ("class M(type): pass\nclass C(metaclass=M): __match_args__ = ('__self__',)", true),
        ("class C: __match_args__ = ('x', 'y')\nprint(C.__match_args__.index(n))", false),
        ("class C: __match_args__ = f()", true),
    ] {
        assert_eq!(!texts(source).is_empty(), is_blocked, "{source:?}: {:?}", texts(source));
    }
}

#[test]
fn a_danger_is_not_lost_among_many_alternatives() {
    let many = |of: &str| {
        let names: String =
            (0..30).fold(String::new(), |all, n| format!("{all}m{n} if x == {n} else "));
        format!("import os\nm = {names}{of}\nm.system('id')")
    };
    let imports: String = (0..30).fold(String::new(), |all, n| format!("{all}import m{n}\n"));
    assert!(!texts(&format!("{imports}{}", many("os"))).is_empty());
    assert_eq!(texts(&format!("{imports}{}", many("m0"))), [""; 0]);
}

#[test]
fn texts_in_place_of_types_and_examples_are_judged_however_they_are_put_together() {
    for (source, is_blocked) in [
        ("A = \"open('x')\"\ndef f(x: A): pass", true),
        ("A = 'list[int]'\ndef f(x: A): pass", false),
        ("def f(x: \"op\" + \"en('x')\"): pass", true),
        ("p = 'open'\ndef f(x: f\"{p}('x')\"): pass", true),
        ("f.__annotations__.update(x=\"open('x')\")", true),
        ("f.__annotations__['x'] = \"open('x')\"", true),
        ("f.__annotations__['x'] = 'int'", false),
        ("C = type('C', (), {'__annotations__': {'x': \"open('x')\"}})", true),
        ("class C:\n    __annotations__ = {'x': \"open('x')\"}", true),
        ("setattr(f, '__annotations__', {'x': \"open('x')\"})", true),
        ("A = list[\"open('x')\"]", true),
        ("from typing import NamedTuple\nNamedTuple('N', [('a', \"open('x')\")])", true),
        ("from typing import NamedTuple\nNamedTuple('N', [('a', 'int')])", false),
        ("from typing import TypeVar\nTypeVar('T', bound=\"open('x')\")", true),
        ("import dataclasses\ndataclasses.make_dataclass('C', [('a', \"open('x')\")])", true),
        ("import doctest\nf.__doc__ = '>>' + '> open(1)'", true),
        ("import doctest\nf.__doc__ = text()", true),
        ("import doctest\nf.__doc__ = '>>' + '> 1 + 1'", false),
        ("import doctest\n__test__ = {}\n__test__['a'] = '>>' + '> open(1)'", true),
        ("f.__doc__ = g.__doc__", false),
    ] {
        assert_eq!(!texts(source).is_empty(), is_blocked, "{source:?}: {:?}", texts(source));
    }
}

#[test]
fn code_objects_may_be_read_and_classes_of_instances_are_what_they_are() {
    for (source, is_blocked) in [
        ("c = f.__code__\nprint(c.co_argcount)", false),
        ("def f(): pass\nprint(f.__code__.co_varnames, type(f).__name__)", false),
        ("f.__code__ = c", true),
        ("c = f.__code__\nc.replace(co_names=('eval',))", true),
        ("f.__code__.co_consts[1].replace(co_names=('eval',))", true),
        ("g(f.__code__)", true),
        ("F = type(lambda: 0)\nF(c, {})", true),
        ("isinstance(x, type(lambda: 0))", false),
        ("import tempfile\nt = tempfile.TemporaryFile()\ntype(t.raw)('x', 'w')", true),
        ("import sqlite3\nC = type(sqlite3.connect(':memory:'))\nC('x')", true),
        ("import sys\ns = [sys.stdout]\ns[0].buffer.raw.__class__('x')", true),
        ("from unittest.mock import patch\npatch('os.getcwd').getter().system('id')", true),
        (
            "from unittest.mock import patch\nwith patch('builtins.print') as p: print(p.called)",
            false,
        ),
    ] {
        assert_eq!(!texts(source).is_empty(), is_blocked, "{source:?}: {:?}", texts(source));
    }
}

#[test]
fn what_is_in_memory_stays_so_through_the_scripts_own_code() {
    for source in [
        "class A:\n    def __init__(self, t): self.b = io.StringIO(t)\n    def go(self): \
         return pd.read_csv(self.b)",
        "def buf(t): return io.StringIO(t)\npd.read_csv(buf('a'))",
        "d = {'a': io.StringIO('x'), 'b': 'file.csv'}\npd.read_csv(d['a'])",
        "np.loadtxt(['1 2', '3 4'][1:])\nlines = ['1 2', '3 4']\nnp.loadtxt(lines[1:])",
        "cfg = {'db': ':memory:', 'log': 'x'}\nsqlite3.connect(cfg['db'])",
        "class A: DB = ':memory:'\nsqlite3.connect(A.DB)",
        "import os\nsqlite3.connect(os.environ.get('DB', ':memory:'))",
        "try:\n    from StringIO import StringIO\nexcept ImportError:\n    from io import StringIO\n\
         pd.read_csv(StringIO('a,b'))",
        "import zipfile\nclass A:\n    def __init__(self): self.b = io.BytesIO()\n    def go(self):\n\
        \x20       with zipfile.ZipFile(self.b, 'w') as z: z.writestr('a', 'b')",
        "b = io.StringIO() if x else io.BytesIO()\ndf.to_csv(b)",
    ] {
        let source =
            format!("import io, sqlite3\nimport numpy as np\nimport pandas as pd\n{source}");
        assert_eq!(texts(&source), [""; 0], "{source:?}");
        let of_file = source
            .replace("io.StringIO(t)", "t")
            .replace("io.StringIO('x')", "'x'")
            .replace("':memory:'", "'x.db'")
            .replace("StringIO('a,b')", "'a,b'")
            .replace("io.BytesIO()", "'x.zip'")
            .replace("['1 2', '3 4']", "'x.txt'");
        assert!(!texts(&of_file).is_empty(), "{of_file:?}");
    }
}

#[test]
fn names_that_lead_to_names_without_end_are_refused_and_crash_nothing() {
    use std::fmt::Write as _;
    for count in [10, 60, 200, 5_000] {
        let mut chain = "import os\na0 = os\n".to_owned();
        for n in 0..count {
            writeln!(chain, "a{} = ({})", n + 1, format_args!("((a{n}))")).unwrap();
        }
        // In `forwards`, the value of each name is already computed when the next line uses the name. In `backwards`, a
        // function above the chain uses the last name, so the analysis must follow the whole chain.
        let forwards = format!("{chain}a{count}.system('id')");
        assert!(texts(&forwards)[0].contains("os.system"), "{count}");
        let backwards = format!("def f(): a{count}.system('id')\n{chain}f()");
        assert!(!texts(&backwards).is_empty(), "{count}");
    }
    // The script assigns the same name repeatedly, and each use may read the value of any earlier assignment.
    let mut crowded = "import os\nx = os\n".to_owned();
    crowded.push_str(&"if y: x = x.path\n".repeat(500));
    crowded.push_str("x.system('id')");
    assert!(!texts(&crowded).is_empty());
}

#[test]
fn an_encoding_that_is_not_utf_8_is_refused() {
    for (source, is_blocked) in [
        ("# coding: utf-7\n", true),
        ("#!/usr/bin/python\n# -*- coding: latin-1 -*-\nx = 'é'\n", true),
        ("#!/usr/bin/python\n# -*- coding: latin-1 -*-\nx = 'e'\n", false),
        ("# coding: ISO8859_15\n", false),
        ("# coding: iso-2022-jp\n", true),
        ("\u{feff}# coding: cp1252\n", true),
        ("# x\r# vim: set fileencoding=gbk :\r", true),
        ("# x\r\n# coding=gbk\r\n", true),
        ("\t\u{c} # coding:raw_unicode_escape", true),
        ("# coding: UTF_8\n", false),
        ("# coding: us-ascii\n", false),
        ("x = 1\n# coding: utf-7\n", false),
        ("\n\n# coding: utf-7\n", false),
        ("x = '# coding: utf-7'\n", false),
        ("# the coding is done: by hand\n", false),
    ] {
        assert_eq!(!texts(source).is_empty(), is_blocked, "{source:?}: {:?}", texts(source));
    }
}

#[test]
fn a_source_that_does_not_parse_is_searched_for_patterns() {
    let found = texts("import os\nos.system('id'\nopen ('x')");
    assert!(found[0].starts_with("Syntax error in code: "), "{found:?}");
    assert!(found[0].ends_with(" (line 3)") || found[0].contains("(line "), "{found:?}");
    assert_eq!(
        found[1..],
        ["Potentially dangerous pattern: os.system", "Potentially dangerous pattern: open()"]
    );
    assert_eq!(texts("reopen(x").len(), 1, "a word that only ends in open is not a call of it");
}

fn safety_notes(source: &str) -> Vec<String> {
    analyze(source).unwrap().notes.iter().map(ToString::to_string).collect()
}

#[test]
fn repeats_are_folded_and_the_list_is_cut() {
    let repeated = texts(&"eval('1')\n".repeat(1000));
    assert_eq!(repeated, ["Dangerous function call: eval() (lines 1-1000)"]);
    for (lines, expected) in [
        ("e", "line 1"),
        ("ee", "line 1"),
        ("\r\n\r\re", "line 4"),
        ("\re\r\ne\n\n\ne", "lines 2-3, 6"),
        ("e\n\ne\n\n\n\nee\ne", "lines 1, 3, 7-8"),
    ] {
        let found = texts(&lines.replace('e', "eval('1');"));
        assert_eq!(found, [format!("Dangerous function call: eval() ({expected})")], "{lines:?}");
    }
    let scattered = texts(&"eval('1')\n\n".repeat(50));
    assert!(scattered[0].ends_with(" 37, 39, …)"), "{scattered:?}");
    let notes = safety_notes("import sys\nsys.path.insert(0, '.')\nsys.path.insert(0, '.')");
    assert!(notes[0].starts_with("sys.path.insert (lines 2-3): "), "{notes:?}");
    let many: String = (0..50).fold(String::new(), |all, n| all + &format!("subprocess.f{n}()\n"));
    let found = texts(&many);
    assert_eq!(found.len(), 21);
    assert_eq!(found[20], "30 more findings");
}

#[test]
fn a_long_name_is_not_repeated_in_full() {
    let found = texts(&format!("subprocess.{}()", "x".repeat(500_000)));
    assert!(found[0].len() < 200, "{} bytes", found[0].len());
}

#[test]
fn the_size_bound_is_a_finding() {
    let fits = format!("x = 1{}", " ".repeat(SOURCE_BYTES_MAX - 5));
    assert_eq!(texts(&fits), [""; 0]);
    assert_eq!(
        texts(&format!("{fits} ")),
        ["Code too large: 1048577 bytes, at most 1048576 are accepted"]
    );
}

#[test]
fn a_call_is_one_finding_and_a_text_that_grows_in_a_loop_is_none() {
    assert_eq!(texts("import sys\nsys._getframe()").len(), 1);
    let grows = format!("for c in x:\n{}", "    t += c\n    t = ''\n".repeat(100));
    assert_eq!(texts(&grows), [""; 0]);
    let changes = format!("import os as t\nfor c in x:\n{}", "    t = t if c else c\n".repeat(100));
    assert!(!texts(&changes).is_empty());
}

#[path = "../benches/analysis/shapes.rs"]
mod shapes;

#[test]
fn steps_grow_with_the_source_and_no_faster() {
    let mut wrong = Vec::new();
    for shape in shapes::shapes() {
        // The size and the steps of a source's start are subtracted, because the start is not repeated. The sources are
        // short, so that few of them reach the limit of steps.
        let of = |source: String| (source.len(), analyze(&source).unwrap().steps);
        let start = of(shape.source(0));
        let [small, large] = [8, 16].map(|kib| of(shape.source(start.0 + kib * 1024)));
        let (bytes, steps) = (small.0 - start.0, small.1.saturating_sub(start.1));
        let (more_bytes, more_steps) = (large.0 - start.0, large.1.saturating_sub(start.1));
        // The test allows a third more steps, because larger sources contain longer numbers.
        if more_steps * bytes > more_bytes * (steps + steps / 3 + 1) {
            wrong.push(format!("{}: {start:?}, {small:?}, {large:?}", shape.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_analysis_ends_at_its_bound_of_steps() {
    let indirect = "Code too indirect: what its names stand for is lost; name things directly";
    let mut ended = 0;
    for shape in shapes::shapes() {
        let source = shape.source(32 * 1024);
        let Analysis { steps, findings, .. } = analyze(&source).unwrap();
        let max = steps_max(source.len());
        assert!(steps <= max + NESTING_MAX, "{}: {steps} steps of {max}", shape.name);
        if steps > max {
            ended += 1;
            let is_refused = findings.iter().any(|finding| finding.to_string() == indirect);
            assert!(is_refused, "{}: {findings:?}", shape.name);
        }
    }
    assert!(ended > 10, "{ended}");
}

#[test]
fn a_text_is_judged_once_and_each_time_in_the_same_way() {
    let uses = "timeit.timeit(t)\nsympy.S(t)\n'{}'.format(t)\nc.execute(t)\n";
    let of = |text: &str, count| {
        let source = format!("import sympy, timeit\nt = '{text}'\n{}", uses.repeat(count));
        (analyze(&source).unwrap(), texts(&source))
    };
    let harmless = "f(x),".repeat(1_000);
    let ((once, _), (often, found)) = (of(&harmless, 1), of(&harmless, 11));
    assert_eq!(found, [""; 0]);
    // Judging the string takes at least two steps for each byte, because the string is parsed as code and as a formula.
    // Each further use must cost less, because the result is cached.
    let of_each_use = (often.steps - once.steps) / 10;
    assert!(of_each_use < 2 * harmless.len(), "{of_each_use} steps");
    let (_, found) = of("eval(1)", 3);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_star_import_counts_among_any_number_of_others() {
    let stars = (0..100).fold(String::new(), |all, n| all + &format!("from m{n} import *\n"));
    for (known, name, expected) in [
        ("numpy", "load", "Dangerous function call: numpy.load() (line 102, written load)"),
        (
            "zipfile",
            "ZipFile",
            "Dangerous function call: zipfile.ZipFile() (line 102, written ZipFile)",
        ),
    ] {
        let source = format!("{stars}from {known} import *\n{name}('a')\n{stars}");
        assert_eq!(texts(&source), [expected], "{known}");
    }
}

/// Sources that nest deeper with every repetition of the middle part. Each row has the start, the middle and the end of
/// a source.
const WORST: &[(&str, &str, &str)] = &[
    ("", "-", "1"),
    ("", "not ", "x"),
    ("", "~", "1"),
    ("1", "+1", ""),
    ("1", "**1", ""),
    ("a", ".b", ""),
    ("a", "()", ""),
    ("a", "[0]", ""),
    ("a", "[", ""),
    ("", "(", ""),
    ("", "[", ""),
    ("", "{", ""),
    ("", "{1:", ""),
    ("", "f(", ""),
    ("", "lambda:", "0"),
    ("", "lambda a, b:", "0"),
    ("", "-lambda a, b:", "0"),
    ("", "lambda a=", "0"),
    ("", "x if y else ", "z"),
    ("", "await ", "x"),
    ("x = ", "yield ", "x"),
    ("", "*", "x"),
    ("", "a := ", "1"),
    ("x", " < x", ""),
    ("x", " and x", ""),
    ("x", " if x else x", ""),
    ("", "f'{", ""),
    ("", "f\"{f'{", ""),
    ("f'{x:", "{x:", ""),
    ("", "@a\n", "def f(): pass"),
    ("if x: pass\n", "elif x: pass\n", ""),
    ("", "if x:\n", ""),
    ("", "for x in ", ""),
    ("", "try:\n", ""),
    ("match x:\n case ", "[", ""),
    ("match x:\n case ", "A(", ""),
    ("match x:\n case a", "|a", ""),
    ("", "a = ", "1"),
    ("def f[", "T: ", ""),
    ("type X = ", "A[", ""),
    ("\"a\"", " \"a\"", ""),
    ("", "print(", ")"),
    ("with ", "(", ""),
    ("", "import a.", "b"),
    ("from ", ".", " import x"),
    ("", "global x\n", ""),
    ("", "\\\n", "x"),
    ("", "a:", "b"),
    ("x[", ":", "]"),
    ("x = ", "[y for y in ", "z"),
    ("import os\n", "os = os.path\n", ""),
    ("", "import os as a, sys as b\n", ""),
    ("", "def f(a=b): global a\n", ""),
    ("x = 'a'\n", "x = f'{x}{x}'\n", ""),
    ("x = 'a'\n", "x = x + x\n", ""),
    ("x = [1]\n", "x = [x, x]\n", ""),
    ("import sympy\n", "sympy.S('f(x)')\n", ""),
    ("import timeit\n", "timeit.timeit('f(x)')\n", ""),
    ("import timeit\ntimeit.timeit('", "(", "')"),
    ("import sympy\nsympy.S('", "-", "1')"),
    ("x: '", "a[", "'"),
];

#[test]
fn no_worst_case_source_crashes_the_analysis() {
    for (start, middle, end) in WORST {
        for count in [10, 99, 1_000, 2_900, 20_000, SOURCE_BYTES_MAX / middle.len()] {
            let source = format!("{start}{}{end}", middle.repeat(count));
            analyze(&source).unwrap();
        }
    }
    // Blocks nest by their indentation, which grows with every level, so the table `WORST` cannot contain such sources.
    for count in [10, 99, 1_000] {
        let source: String =
            (0..count).fold(String::new(), |all, n| all + &" ".repeat(n) + "if x:\n");
        analyze(&source).unwrap();
    }
}

/// Pieces of text that a test combines into random sources. Some pieces change how the lexer reads the pieces after
/// them.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "(", ")", "[", "]", "{", "}", "a", "1", "0or", " or ", "lambda:", "not ", "-", ".b", ",", ":",
    " ", "\n", "\n ", "\n  ", "\r", "\r ", ";", "#", "'", "\"", "'''", "\"\"\"", "f'", "f\"",
    "rf'''", "t'", "r'", "{a", "{(", "[0]", "}}", "{{", "\\", "\\'", "\\N{", "\\\n ", "!r", "if x:",
    "é", "\t", "x = ", "f'{d[\"k\"]}'", "f\"{x:.2f}\"", "{x:)", "\u{c}", "×",
];

#[test]
fn what_is_surely_shallow_is_shallow() {
    let mut shallow = 0;
    let mut check = |source: &str| {
        for max in [40, bounds::NESTING_SHALLOW_MAX] {
            if bounds::is_surely_within(source, max) {
                let depth = bounds::deepest(source, usize::MAX);
                assert!(depth <= max, "{depth}: {source:?}");
                shallow += 1;
            }
        }
    };
    for (start, middle, end) in WORST {
        for count in 0..200 {
            check(&format!("{start}{}{end}", middle.repeat(count)));
        }
    }
    for rule in rules::all() {
        rule.matches.iter().chain(rule.misses).for_each(|snippet| check(snippet));
    }
    // A quick scan could misread these sources: the scan could take a part of an expression for a string, or ignore
    // blanks that indent a block.
    for start in ["f\"{([')']}", "f\"{'}'", "f\"{x:)}{(", "f'{a['b']", "rf'\\{", "'\\''f'{", "1f'{"]
    {
        check(&format!("{start}{}\"", "[".repeat(200)));
        check(&format!("{start}{}'", "[".repeat(200)));
    }
    for end in ["\n", "\r", "\n\u{c}", "\n\\\n"] {
        let blocks = (0..120).map(|level| format!("{end}{}if x:", " ".repeat(level)));
        check(&blocks.collect::<String>());
    }
    check(&"1if 0else ".repeat(150));
    // Checks random combinations of pieces, each repeated a random number of times.
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..60_000 {
        let pieces = (0..=random(12)).map(|_| {
            let times = [1, 1, 1, 2, 40, 120][random(6)];
            PIECES[random(PIECES.len())].repeat(times)
        });
        check(&pieces.collect::<String>());
    }
    assert!(shallow > 6_000, "{shallow}");
    assert!(!bounds::is_surely_within(&"-".repeat(100), bounds::NESTING_SHALLOW_MAX));
}

#[test]
fn nesting_beyond_the_bound_is_a_finding_and_honest_data_is_not() {
    let expected = "Code nested too deeply: more than 3000 levels; split long chains and nests";
    for (start, middle, end) in
        [("", "-", "1"), ("1", "+1", ""), ("a", ".b", ""), ("", "lambda:", "0")]
    {
        assert_eq!(texts(&format!("{start}{}{end}", middle.repeat(5_000))), [expected]);
        assert_eq!(texts(&format!("{start}{}{end}", middle.repeat(2_500))), [""; 0]);
    }
    let table = format!("x = [{}]", "-1, (2, -3), {'a': 1 + 2}, ".repeat(20_000));
    assert_eq!(texts(&table), [""; 0]);
    let lines = "x = a.b.c(1 + 2)[3]\n".repeat(40_000);
    assert_eq!(texts(&lines), [""; 0]);
    let elifs = format!("if x: pass\n{}", "elif x == 1: pass\n".repeat(20_000));
    assert_eq!(texts(&elifs), [""; 0]);
}

#[test]
fn imports_are_told_by_qualified_names() {
    for (source, expected) in [
        ("", [].as_slice()),
        ("import sympy as sp, a.b", &["sympy", "a.b"]),
        ("def f():\n    from qwed_legal import A, B as b", &["qwed_legal.A", "qwed_legal.B"]),
        ("if 1:\n    from z3 import *", &["z3"]),
        ("from . import x\nfrom .y import z", &[]),
        ("import importlib\nm = importlib.import_module('sympy.abc')", &["importlib", "sympy.abc"]),
        (
            "from importlib import import_module as i\nfor n in ('a', 'b'):\n    i(n)",
            &["importlib.import_module", "a", "b"],
        ),
        ("import (", &[]),
    ] {
        assert_eq!(analyze(source).unwrap().imports, expected, "{source}");
    }
}

/// More examples for the rules. Each row has the identifier of a rule, sources that the rule finds, and similar sources
/// that the rule does not find.
const EXAMPLES: &[(&str, &[&str], &[&str])] = &[
    (
        "execution/import-function",
        &[
            "__import__('os.path')",
            "__import__(name)",
            "__import__('posix')",
            "__import__('_io')",
            "__import__('random')._os.system('id')\n__import__('o' + 's')",
            "f = {**globals()}\nf['__import__']('os')",
        ],
        &[
            "__import__('math').sqrt(2)",
            "__import__('doctest').testmod()",
            "d = {'__import__': 1}\nprint(d['__import__'])",
        ],
    ),
    (
        "execution/code-modules",
        &["def f():\n    '''>>> open('x')'''\n__import__('doctest').testmod()"],
        &[],
    ),
    (
        "execution/code-text",
        &[
            "import timeit\nn = input()\nc = f'{n}'\ndef f():\n    n = 1\n    timeit.timeit(f'{c}')",
            "import timeit\nfor f in ('a', 'open'): timeit.timeit(f'{f}(1)')",
            "import timeit\ntimeit.timeit(f'{input()}(1)')",
            "import timeit\ndef g(n): timeit.timeit(f'{n}(1)')\ng('open')",
            "import timeit\ndef f(): pass\nf.__name__ = x\ntimeit.timeit(f'{f.__name__}()')",
            "import timeit\ndef open(): pass\ntimeit.timeit(f'{open.__name__}()')",
            "import timeit\nwhile 1: x = f'{x}'; timeit.timeit(f'{x}')",
        ],
        &[
            "import timeit\ndef f(): pass\ndef g(h, n):\n    c = f'{h.__name__}({n})'\n    \
             timeit.timeit(f'm.{c}', 'import __main__ as m')\nfor n in (1, 99999999999999999999): g(f, n)",
            "import timeit\nfor f in ('a', 'b'): timeit.timeit(f'{f}(1)', globals=globals())",
        ],
    ),
    (
        "execution/evaluated-text",
        &["import sympy\nsympy.sympify('2 x.__class__')", "df.query('a b.f_globals')"],
        &["import sympy\nsympy.symbols('a__0, b__:3')", "c.query('select * from __t where a = 1')"],
    ),
    (
        "files/readers",
        &[],
        &[
            "import tracemalloc, json, io\njson.dump({}, io.StringIO())",
            "import faulthandler\nfaulthandler.enable()",
        ],
    ),
    (
        "files/data",
        &[],
        &["from networkx.readwrite import json_graph\njson_graph.adjacency_data(g)"],
    ),
    (
        "files/databases",
        &[],
        &[
            "import sqlite3 as s\ndef f(c: s.Connection | None, d: list['s.Connection']): pass",
            "import sqlite3\nfrom typing import *\nx: Callable[[sqlite3.Connection], int] = f",
        ],
    ),
    (
        "imports/importlib",
        &[],
        &[
            "import os\nfrom unittest.mock import patch\nwith patch.dict(os.environ, {'A': '1'}): pass",
        ],
    ),
    (
        "imports/private-module",
        &["import _pytest.pytester"],
        &["import _heapq\n_heapq.heappush(h, 1)", "import __hello__"],
    ),
    (
        "imports/private-member",
        &["import bz2\ndef f(x: list[bz2._builtin_open]): pass"],
        &["import argparse\ndef f(s: 'list' | argparse._SubParsersAction): pass"],
    ),
    (
        "internals/builtins",
        &["p = print\np.__self__"],
        &["class A:\n    def f(self): pass\na = A()\nm = a.f\nprint(m.__self__ is a)"],
    ),
    (
        "internals/subclasses",
        &[
            "D = object\nC = D\ndef f():\n    class D: pass\n    C.__subclasses__()",
            "class M(type): pass\nM.__subclasses__(object)",
            "class M(type): pass\ns = M.__subclasses__\ns(object)",
            "if 1: XError = object\nXError.__subclasses__()",
            "globals()['XError'] = object\nXError.__subclasses__()",
            "def f():\n    global XError\n    XError = object\nf()\nXError.__subclasses__()",
            "d = {}\nd.update(type.__dict__)\nd['__subclasses__'](object)",
            "d = {}\nfor k, v in type.__dict__.items(): d[k] = v\nd['__subclasses__'](object)",
            "def f(cls): return cls.__subclasses__()\nf(object)",
            "def f(cls): return cls.__subclasses__()\nf(Exception)\ng = f\ng(object)",
            "def f(cls): return cls.__subclasses__()\nf(Exception)\nglobals()['f'](object)",
            "class A:\n    def f(self): return self.__subclasses__()\nA.f(object)",
            "class A:\n    @classmethod\n    def f(cls): return cls.__subclasses__()\nA.f.__func__(object)",
            "for c in [object]: c.__subclasses__()",
            "def f(c, d): return f(e, e) if (e := c.__base__) else d.__subclasses__()\nf(int, int)",
            "def f(c, d):\n    for e in d.__subclasses__(): f(e, object)\nf(int, int)",
        ],
        &[
            "class A:\n    @classmethod\n    def f(cls): return cls.__subclasses__()\nA.f()",
            "class A: pass\nfor B in A.__subclasses__():\n    for C in B.__subclasses__(): pass",
            "def f(c):\n    for d in c.__subclasses__(): f(d)\nf(BaseException)",
            "def f(c): return {e for d in c.__subclasses__() for e in f(d)}\nf(Exception)",
        ],
    ),
    (
        "internals/code-objects",
        &[],
        &["from types import FunctionType\nf: dict[str, FunctionType | None] = {}"],
    ),
    (
        "internals/inspection",
        &[
            "import inspect\ninspect.currentframe().f_back.f_builtins",
            "import inspect\ninspect.stack()[0].frame",
            "import inspect\ninspect.getclosurevars(f).builtins",
        ],
        &[
            "import inspect\nprint(inspect.currentframe().f_code.co_name)",
            "import inspect\nprint(inspect.currentframe().f_back.f_lineno)",
            "import inspect\nprint(inspect.stack()[1].function)",
            "import inspect\ninspect.getclosurevars(f).nonlocals",
        ],
    ),
    (
        "internals/format-fields",
        &[
            "'{:{0.__globals__}}'.format(x)",
            "'{{}}{x[a].__globals__}'.format(x=x)",
            "'{0[!].__globals__}'.format(x)",
            "'{0[:]}{0[}].__globals__}'.format(x)",
            "'{0[{].a[!].__globals__}'.format(x)",
            "'[ {0.__globals__} ]'.format(x)",
            "'{{[ {0.__globals__} ]'.format(x)",
            "'{0:[{1.__globals__}]}'.format(x, y)",
            "str.format('{0.__globals__}', f)",
            "import string\nstring.Formatter().format('{0.__globals__}', f)",
            "import string\nstring.Formatter().get_field('0.__globals__', (f,), {})",
            "import logging\nlogging.basicConfig(format='{args[0].__globals__}', style='{')",
            "import operator\noperator.methodcaller('__subclasses__')(x)",
            "from functools import reduce\nreduce(getattr, ['__class__', '__globals__'], x)",
        ],
        &[
            "'{}'.format('Did Columbus discover America in 1492? See os.path.')",
            "'{} __globals__ {{0.__globals__}}'.format('do not touch, I like a pickle.')",
            "'{}'.format('{0.__globals__}')",
            "import logging\nlogging.basicConfig(format='%(asctime)s discover %(message)s')",
            "from functools import reduce\nreduce(lambda a, b: a + b, ['x'], 'see os.path')",
            "import operator\noperator.methodcaller('replace', '__self__', 'os.path')('x')",
            "import operator\noperator.attrgetter('name', 'owner.name')(x)",
        ],
    ),
    ("values/module", &["import os\ndef f(x: list[os]): pass"], &[]),
    ("values/computed-name", &[], &["import random\nnames = set(vars(random))"]),
    (
        "process/multiprocessing",
        &[
            "import multiprocessing\nmultiprocessing.Pool()",
            "import multiprocessing as mp\nmp.Process(target=f).start()",
            "from multiprocessing.pool import Pool",
            "from multiprocessing.pool import util",
            "from multiprocessing import shared_memory",
            "from multiprocessing.pool import ThreadPool\nThreadPool()._ctx.set_executable('x')",
        ],
        &[
            "from multiprocessing.pool import ThreadPool\nThreadPool(4).map(f, range(3))",
            "from multiprocessing.dummy import Pool\nPool(4).map(f, range(3))",
            "import multiprocessing\nprint(multiprocessing.cpu_count())",
        ],
    ),
];

#[test]
fn what_only_looks_dangerous_passes_and_its_siblings_do_not() {
    for (rule, matches, misses) in EXAMPLES {
        for source in *matches {
            let found = analyze(source).unwrap().findings;
            let is_found = found.iter().any(|finding| finding.rule_id() == Some(rule));
            assert!(is_found, "{rule} does not find {source:?}: {found:?}");
        }
        for source in *misses {
            assert_eq!(texts(source), [""; 0], "{source:?}");
        }
    }
}

/// Asserts that the analysis finds each attack, and finds nothing in the similar honest script.
fn assert_told_apart(pairs: &[(&str, &str)]) {
    for (attack, honest) in pairs {
        assert_ne!(texts(attack), [""; 0], "{attack:?}");
        assert_eq!(texts(honest), [""; 0], "{honest:?}");
    }
}

#[test]
fn sql_texts_and_methods_of_instances_are_judged_and_honest_siblings_pass() {
    assert_told_apart(&[
        // A comment delimiter does not start a comment inside of an SQL string or a quoted SQL name.
        (
            "import sqlite3\nc = sqlite3.connect(':memory:')\n\
             c.executescript(\"select 'a--b'; attach '/tmp/x' as z\")",
            "import sqlite3\nc = sqlite3.connect(':memory:')\n\
             c.executescript(\"select ';attach /* it''s'; select \\\"--\\\"; -- attach 'x'\\nselect 1\")",
        ),
        (
            "import sqlite3\nc = sqlite3.connect(':memory:')\n\
             c.execute('vacuum/* -- */main into \"x\"')",
            "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('vacuum -- into x')",
        ),
        // The script composes the string, or stores it in a list, before a function evaluates it.
        (
            "from sympy import Matrix\nMatrix([['open(1)' + '']])",
            "from sympy import Matrix\nMatrix([['x' + '1']])",
        ),
        (
            "from sympy import Matrix\nt = ['open(1)']\nMatrix([t])",
            "from sympy import Matrix\nt = ['sin(1)']\nMatrix([t])",
        ),
        // The call passes a relative module name together with its package.
        (
            "import importlib\nimportlib.import_module('.request', 'urllib').urlopen(u)",
            "import importlib\nimportlib.import_module('urllib.parse').quote(u)",
        ),
        // The script uses a method of an instance, or of its class, as a value.
        (
            "import sqlite3\nex = sqlite3.connect(':memory:').execute\nex('attach \"x\" as z')",
            "import sqlite3\nex = sqlite3.connect(':memory:').execute\nex('select 1')",
        ),
        (
            "import sqlite3\nc = sqlite3.connect(':memory:')\n\
             list(map(c.execute, ['attach \"x\" as z']))",
            "import sqlite3\nc = sqlite3.connect(':memory:')\nlist(map(c.execute, ['select 1']))",
        ),
        (
            "import sqlite3\nsqlite3.Connection.execute(c, 'attach \"x\" as z')",
            "import sqlite3\nsqlite3.Connection.execute(c, 'select 1')",
        ),
        (
            "import pandas as pd\npd.DataFrame.to_csv(df, '/tmp/x')",
            "import pandas as pd\nprint(pd.DataFrame.to_csv(df))",
        ),
    ]);
}

#[test]
fn functions_that_are_values_are_judged_and_honest_siblings_pass() {
    assert_told_apart(&[
        // The script uses a function that works like `getattr` as a value.
        (
            "g = len.__getattribute__",
            "class A:\n    def f(self): return map(self.__getattribute__, n)",
        ),
        ("list(map(object.__getattribute__, [len], [n]))", "object.__getattribute__(self, 'n')"),
        (
            "import operator\nmap(operator.attrgetter, [n])",
            "import operator\nmap(operator.attrgetter('n'), x)",
        ),
        // The script passes a function to other code, together with arguments for a later call. A rule judges the
        // function by these arguments.
        (
            "import argparse, functools\n\
             functools.partial(argparse.ArgumentParser, fromfile_prefix_chars='%')()",
            "import argparse, functools\nfunctools.partial(argparse.ArgumentParser, prog='x')()",
        ),
        ("list(map(help, ['antigravity']))", "list(map(help, [len]))"),
        (
            "from unittest.mock import patch\nfrom functools import partial\n\
             partial(patch, 'os.getcwd')()",
            "from unittest.mock import patch\npatch('os.getcwd')",
        ),
        (
            "import operator, pandas\noperator.methodcaller('to_csv', '/tmp/x')(df)",
            "import operator, pandas\noperator.methodcaller('to_csv', index=False)(df)",
        ),
    ]);
}

#[test]
fn settings_streams_and_modules_are_judged_and_honest_siblings_pass() {
    assert_told_apart(&[
        // The script changes a setting without an assignment to an attribute.
        (
            "import argparse\np = argparse.ArgumentParser()\n\
             setattr(p, 'fromfile_prefix_chars', '%')",
            "import argparse\np = argparse.ArgumentParser()\nsetattr(p, 'prog', '%')",
        ),
        (
            "import xml.sax\nfor f in json.loads(s): xml.sax.make_parser().setFeature(f, True)",
            "import xml.sax.handler as h\np.setFeature(h.feature_namespaces, True)",
        ),
        // The script initialises an instance again, or takes the raw file of a stream.
        (
            "import zipfile\nz = zipfile.ZipFile(io.BytesIO(), 'w')\nz.__init__('/tmp/x', 'w')",
            "class A(B):\n    def __init__(self): super().__init__('/tmp/x', 'w')",
        ),
        (
            "import logging\nlogging.lastResort.stream.buffer.raw.__class__('/tmp/x', 'w')",
            "import sys\nsys.stdout.buffer.write(b'x')",
        ),
        ("f().stream.buffer.raw.__class__('/tmp/x', 'w')", "f().raw.write(type(x.raw).__name__)"),
        // The script reaches a module as an attribute of another module.
        ("e.obj.io.open('/tmp/x', 'w')", "e.obj.io.StringIO('/tmp/x')"),
        ("e.obj.codecs.open('/tmp/x', 'w')", "e.obj.codecs.encode(x.code.lower(), 'rot13')"),
        // The script takes members without writing their names.
        (
            "import inspect\nb = inspect.getmembers(len, inspect.ismodule)[0][1]\n\
             dict(inspect.getmembers(b))['eval']",
            "import inspect, math\nfor n, f in inspect.getmembers(math, inspect.isbuiltin): f(n)",
        ),
    ]);
}

#[test]
fn the_scripts_own_names_and_texts_of_code_are_judged_and_honest_siblings_pass() {
    assert_told_apart(&[
        // The metaclass of a class may choose the attributes that a class pattern reads.
        (
            "class M(type): pass\nclass C(metaclass=M): pass\nmatch len:\n    case C(b): pass",
            "import abc\nclass C(metaclass=abc.ABCMeta):\n    __match_args__ = ('x',)\n\
             match c:\n    case C(b) | int(b): pass",
        ),
        (
            "class M(type): pass\nC = M('C', (), d)\nmatch len:\n    case C(b): pass",
            "from collections import namedtuple\nC = namedtuple('C', 'x')\nmatch c:\n    case C(b): pass",
        ),
        // The parameter is named `self`, but the function is not a method.
        (
            "import pandas\ndef w(self):\n    f = self.to_csv\n    f('/tmp/x')",
            "import pandas\nclass A(B):\n    def w(self):\n        f = self.to_csv\n        f('/tmp/x')",
        ),
        // The string of code uses names of the surrounding script.
        (
            "import timeit\ns = json.loads(t)\ntimeit.timeit(s)",
            "import timeit\ndef b(f): timeit.timeit(f)\nb(len)\nfor s in ['1', 'f()']: timeit.timeit(s)",
        ),
        (
            "import timeit, pandas\ntimeit.timeit('df.to_csv(\"/tmp/x\")', globals=globals())",
            "import timeit, pandas\ntimeit.timeit('df.to_csv()', globals=globals())",
        ),
        (
            "import pandas\ndf.eval('a.to_csv(\"/tmp/x\")')",
            "import pandas\ndf.eval('a.str.contains(\"x\")')",
        ),
    ]);
}

#[test]
fn only_one_expression_is_an_expression() {
    for (source, is_one) in [
        ("solve(3)", true),
        ("Solution().f([1, 2], {'a': None})  # of a class", true),
        ("f(\n1)", true),
        ("1, 2", true),
        ("", false),
        ("x = 1", false),
        ("f(1); g(2)", false),
        ("f(1)\ng(2)", false),
        ("f(1)) + (g(2)", false),
        ("import os", false),
        ("x := 1", false),
        ("f(", false),
        ("\"\"\"", false),
    ] {
        assert_eq!(crate::is_expression(source), is_one, "{source:?}");
    }
    assert!(!crate::is_expression(&"(".repeat(100_000)));
}

/// The names of the inputs in the tests below.
const INPUTS: &[&str] = &["orders.csv", "data.json", "t.db"];

fn with_inputs(source: &str) -> Vec<String> {
    let analysis = crate::analyze_with_inputs(source, INPUTS).unwrap();
    analysis.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn inputs_may_be_read() {
    for source in [
        "print(open('orders.csv').read(), open('./orders.csv'))",
        "with open('orders.csv', newline='', encoding='utf-8') as f:\n    print(f.readline())",
        "import csv\nwith open('orders.csv') as f:\n    rows = list(csv.DictReader(f))",
        "import json\nwith open('data.json', 'rb') as f: print(json.load(f))",
        "import io\nio.open(file='orders.csv', mode='r')",
        "def load():\n    return open('orders.csv')\nload()",
        "class A:\n    def __init__(self): self._n = 0\n    def open(self): return open('orders.csv')\nA().open()",
        "from pathlib import Path\nprint(Path('orders.csv').read_text(), Path('t.db').read_bytes())",
        "from pathlib import Path\nwith Path('orders.csv').open() as f: print(f.read())",
        "import pandas as pd\npd.read_csv('orders.csv', sep=';').sum()",
        "import pandas as pd\nd = pd.read_csv('orders.csv')\nd.columns = ['a']\nprint(getattr(d, 'a'))",
        "import pandas\npandas.read_csv(filepath_or_buffer='orders.csv')",
        "import pandas as pd\nwith open('orders.csv') as f: pd.read_csv(f)",
        "import pandas as pd\nclass A:\n    def __init__(self): self._d = pd.read_csv(open('orders.csv'))",
        "import pandas as pd\npd.read_json('data.json')\npd.read_excel('t.db', sheet_name=0)",
        "import numpy as np\nnp.loadtxt('orders.csv', delimiter=',')\nnp.genfromtxt('orders.csv')",
        "import numpy as np\nnp.load('t.db', mmap_mode='r')\nnp.load('t.db', mmap_mode=None)",
        "import sqlite3\nc = sqlite3.connect('t.db')\nprint(c.execute('select 1').fetchall())",
        "import zipfile\nwith zipfile.ZipFile('t.db') as z: print(z.namelist(), z.read('a'))",
        "import zipfile\nwith zipfile.ZipFile(open('t.db', 'rb')) as z: print(z.namelist())",
        "import gzip\nwith gzip.open('t.db', 'rt') as f: print(f.read())",
        "import xml.etree.ElementTree as ET\nprint(ET.parse('orders.csv').getroot())",
        "print(inputs['orders.csv'], len(inputs))",
    ] {
        assert_eq!(with_inputs(source), [""; 0], "{source}");
        // Without inputs, the analysis refuses each source that opens a file.
        let refused = !source.contains("inputs[");
        assert_eq!(!analyze(source).unwrap().findings.is_empty(), refused, "{source}");
    }
}

#[test]
fn a_file_beside_the_inputs_has_a_remedy_of_its_own() {
    for source in ["open(name)", "import pandas as pd\npd.read_csv(name)"] {
        let [finding] = &with_inputs(source)[..] else { panic!("{source}") };
        assert!(
            finding.ends_with("f = open(\"data.csv\"), and pass f to other readers"),
            "{finding}"
        );
        assert!(!texts(source)[0].contains("pass f"), "{source}");
    }
}

/// Scripts that try to open a file that is not an input, or to do more with an input than to read it.
#[rustfmt::skip]
const NOT_READING_INPUTS: &[&str] = &[
    "open('/etc/passwd')",
    "open('../orders.csv')",
    "open('orders.csv/')",
    "open('ORDERS.CSV')",
    "open('orders.csv\\0')",
    "open(b'orders.csv')",
    "open(f'orders.csv{x}')",
    "open('orders.csv' + x)",
    "open('orders.csv', 'w')",
    "open('orders.csv', 'r+')",
    "open('orders.csv', mode)",
    "open('orders.csv', mode='a')",
    "open('orders.csv', 'rb', 0)",
    "open('orders.csv', 'rb', buffering=0)",
    "open('orders.csv', opener=f)",
    "open('orders.csv', closefd=False)",
    "open('orders.csv', *a)",
    "open('orders.csv', **k)",
    "open(*['orders.csv'], **k)",
    "open('orders.csv', file='/etc/passwd')",
    "open(name)",
    "n = 'orders.csv'\nn = '/etc/passwd'\nopen(n)",
    "n = 'orders.csv'\nglobals()['n'] = '/etc/passwd'\nopen(n)",
    "n = 'orders.csv'\ndef f():\n    global n\n    n = g()\nf()\nopen(n)",
    "n = 'orders.csv'\nimport __main__\n__main__.n = '/etc/passwd'\nopen(n)",
    "def f(n='orders.csv'): return open(n)\nf('/etc/passwd')",
    "for n in ['orders.csv', '/etc/passwd']: open(n)",
    "for n in names: open(n)",
    "names = ['orders.csv']\nnames[0] = '/etc/passwd'\nfor n in names: open(n)",
    "def f():\n    n = 'orders.csv'\n    def g():\n        nonlocal n\n        n = h()\n    g()\n    open(n)",
    "n = 'orders.csv'\nwith x as n: open(n)",
    "n = 'orders.csv'\nn += '/../x'\nopen(n)",
    "(n := 'orders.csv')\nif x: n = y\nopen(n)",
    "f = open\nf('/etc/passwd')",
    "map(open, ['orders.csv'])",
    "type(open('orders.csv').buffer.raw)('/etc/passwd')",
    "type(open('orders.csv').detach())('/etc/passwd')",
    "type(open('orders.csv').buffer.detach())('/etc/passwd')",
    "type(open('orders.csv', 'rb').detach())('/etc/passwd')",
    "f = open('orders.csv', 'rb')\nr = f.raw\ntype(r)('/etc/passwd')",
    "open('orders.csv').buffer.raw.__init__('/etc/passwd')",
    "open('orders.csv', 'rb').raw.__init__('/etc/passwd')",
    "with open('orders.csv', 'rb') as f: type(f.raw)('/etc/passwd')",
    "from pathlib import Path\nPath('orders.csv').write_text('x')",
    "from pathlib import Path\nPath('orders.csv').unlink()",
    "from pathlib import Path\nPath('orders.csv').open('w')",
    "from pathlib import Path\nPath('orders.csv').open('rb', 0)",
    "from pathlib import Path\nPath('orders.csv').parent.iterdir()",
    "from pathlib import Path\n(Path('orders.csv') / '/etc/passwd').read_text()",
    "from pathlib import Path\n('/etc/passwd' / Path('orders.csv')).read_text()",
    "from pathlib import Path\np = Path('orders.csv')\np /= '/etc/passwd'\np.read_text()",
    "from pathlib import Path\nPath('orders.csv').with_name('x').read_text()",
    "from pathlib import Path\nPath('orders.csv').joinpath('/etc/passwd').read_text()",
    "from pathlib import Path\nPath('orders.csv', '/etc/passwd').read_text()",
    "from pathlib import Path\nPath('/etc', 'orders.csv').read_text()",
    "from pathlib import Path\np = Path('orders.csv')\nif x: p = Path('/etc/passwd')\np.read_text()",
    "from pathlib import Path\np = Path('orders.csv')\np._raw_paths = ['/etc/passwd']\np.read_text()",
    "from pathlib import Path\nPath.__str__ = f\nPath('orders.csv').read_text()",
    "from pathlib import Path\nPath.__fspath__ = f\nopen(Path('orders.csv'))",
    "from pathlib import Path\np = Path('orders.csv')\nPath.__init__(p, '/etc/passwd')\np.read_text()",
    "from pathlib import Path\np = Path('orders.csv')\ngetattr(Path, '__in' + 'it__')(p, '/x')\np.read_text()",
    "import os, numpy as np\nos.fspath = f\nnp.loadtxt('orders.csv')",
    "import os, numpy as np\nsetattr(os, 'fspath', f)\nnp.loadtxt('orders.csv')",
    "import os, numpy as np\nos.path.join = f\nnp.loadtxt('orders.csv')",
    "import numpy as np\nfrom unittest.mock import patch\nwith patch('os.fspath', f): np.loadtxt('orders.csv')",
    "from unittest.mock import patch as p\nimport os\nwith p.object(os, 'fspath', f): open('orders.csv')",
    "from pathlib import Path\ntype(Path('orders.csv'))('/etc/passwd').read_text()",
    "from pathlib import Path\nPath('orders.csv').__class__('/etc/passwd').read_text()",
    "from pathlib import Path\np = Path('orders.csv')\np.__init__('/etc/passwd')\np.read_text()",
    "from pathlib import Path\nf = Path('orders.csv').read_text\nprint(f.__self__)",
    "from pathlib import Path\nfor p in [Path('orders.csv'), x]: p.read_text()",
    "from pathlib import Path\nPath('orders.csv').chmod(0o777)",
    "from pathlib import Path\nPath('x').symlink_to('orders.csv')",
    "import pandas as pd\npd.read_csv('other.csv')",
    "import pandas as pd\npd.read_csv(*['orders.csv'], **k)",
    "import pandas as pd\npd.read_pickle('orders.csv')",
    "import pandas as pd\npd.read_hdf('t.db')",
    "import pandas as pd\npd.DataFrame().to_csv('orders.csv')",
    "import numpy as np\nnp.load('t.db', allow_pickle=True)",
    "import numpy as np\nnp.memmap('t.db')",
    "import numpy as np\nnp.savetxt('orders.csv', a)",
    "import sqlite3\nc = sqlite3.connect('t.db')\nc.execute(\"ATTACH '/x.db' AS y\")",
    "import sqlite3\nsqlite3.connect('t.db').enable_load_extension(True)",
    "import zipfile\nzipfile.ZipFile('t.db').extractall('/tmp')",
    "import zipfile\nzipfile.ZipFile('t.db').extract('a', '/tmp')",
    "import zipfile\nzipfile.Path('t.db')",
    "import ctypes\nctypes.CDLL('t.db')",
    "import runpy\nrunpy.run_path('orders.csv')",
    "import pickle\npickle.load(open('t.db', 'rb'))",
    "import marshal\nmarshal.load(open('t.db', 'rb'))",
    "exec(open('orders.csv').read())",
    "eval(inputs['orders.csv'])",
    "import os\nos.chdir('/etc')\nopen('orders.csv')",
    "import contextlib\nwith contextlib.chdir('/etc'): open('orders.csv')",
    "import os\nos.rename('orders.csv', 'x')",
    "n = 'orders.csv'\nprint(open(n).read())",
    "from pathlib import Path\np = Path('orders.csv')\nprint(p.read_text())",
    "from pathlib import Path\nopen(Path('orders.csv'))",
    "from pathlib import Path\ndef hack(self): self._str = '/x'\nhack(Path)\nprint(Path('orders.csv').read_text())",
    "from pathlib import Path as self\nself.__fspath__ = f\nself('orders.csv').read_text()",
    "import pathlib\npathlib.reversed = f\npathlib.Path('orders.csv').read_text()",
    "import pathlib\npathlib.sys = F\npathlib.Path('orders.csv').read_text()",
    "import os.path, urllib.parse, numpy as np\nurllib.parse.urlparse = f\nos.path.splitdrive = f\nnp.loadtxt('orders.csv')",
    "import functools\nfrom pathlib import Path\nfunctools.update_wrapper(Path, X, assigned=('__fspath__',), updated=())\nPath('orders.csv').read_text()",
    "import argparse\nfrom pathlib import Path\nargparse.ArgumentParser().parse_args([], namespace=Path)\nPath('orders.csv').read_text()",
    "import timeit, numpy as np\ntimeit.timeit('import os\\nos.fspath = f')\nnp.loadtxt('orders.csv')",
    "from pathlib import Path\nmatch Path:\n    case object(_str=d): d.__set__(p, 'x')\nPath('orders.csv').read_text()",
    "for pathlib.sys in [F]: pass\nimport pathlib\npathlib.Path('orders.csv').read_text()",
    "f = open('orders.csv', 'rb')\nmatch f:\n    case object(raw=r): print(type(r)('/x').read())",
    "match open('orders.csv'):\n    case object(buffer=b): pass",
    "import io\ntype(io.BufferedReader.detach(open('orders.csv', 'rb')))('/x')",
    "import io\nio.BufferedReader.raw.__get__(open('orders.csv', 'rb'))",
    "f = open('orders.csv', 'rb')\n[getattr(f, n) for n in dir(f)]",
    "f = open('orders.csv', 'rb')\nlist(map(type, [f.raw]))[0]('/x')",
    "import zipfile\nlist(map(type, [zipfile.ZipFile('orders.csv').fp.raw]))[0]('/x')",
    "import inspect\ndict(inspect.getmembers(open('orders.csv', 'rb')))['raw']",
    "import tarfile\nt = tarfile.open('t.db')\nt.makelink(m, 'orders.csv')",
    "import tarfile\ntarfile.open('t.db')._extract_member(m, 'orders.csv')",
    "import pytest\npytest.main(['-q'])",
    "from pytest import main\nmain()",
    "import zipfile\nzipfile.ZipFile('t.db', 'w')",
    "import zipfile\nzipfile.ZipFile('t.db', mode='a')",
    "import gzip\ngzip.open('t.db', 'wb')",
    "import tarfile\ntarfile.open('t.db', 'w')",
    "import wave\nwave.open('t.db', 'wb')",
    "import numpy as np\nnp.load('t.db', mmap_mode='r+')",
    "import pandas as pd\npd.read_xml('orders.csv', stylesheet='/x')",
    "import pandas as pd\npd.ExcelFile('/x')",
    "class A:\n    def write(self, n): print(open(n).read())\nA().write('orders.csv')",
    "import fileinput\nfileinput.input(['orders.csv'])",
];

#[test]
fn inputs_open_no_other_file() {
    let opens = |source: &&&str| with_inputs(source).is_empty();
    assert_eq!(NOT_READING_INPUTS.iter().filter(opens).collect::<Vec<_>>(), [&""; 0]);
}
