//! Creates sources of any size that are slow to analyse, each for a different reason. The bench shows how the time
//! grows with the size. A unit test checks how the number of steps grows.

/// One shape of source: a start, a middle that is repeated, and an end. In the middle, `#` stands for the number of the
/// repetition, and `§` for the previous number.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    start: String,
    middle: &'static str,
    end: String,
}

impl Shape {
    /// Returns the longest source of this shape that has at most `bytes` bytes. The source contains the middle at least
    /// once, even if it is then longer.
    pub(crate) fn source(&self, bytes: usize) -> String {
        let mut source = self.start.clone();
        for number in 0.. {
            source.push_str(&numbered(self.middle, number));
            if source.len() + self.middle.len() + 8 + self.end.len() > bytes {
                break;
            }
        }
        source + &self.end
    }
}

/// Returns all shapes.
pub(crate) fn shapes() -> Vec<Shape> {
    let tables = [SHORT, LONG_TEXTS, MANY_VALUES, VALUE_FLOWS, DEEP_SCOPES].into_iter().flatten();
    let mut shapes: Vec<Shape> = tables
        .map(|(name, start, middle, end)| Shape {
            name,
            start: expanded(start),
            middle,
            end: expanded(end),
        })
        .collect();
    let functions =
        (0..100).fold("a = 1\n".to_owned(), |all, n| all + &" ".repeat(n) + "def f():\n");
    for (name, keyword) in [
        ("nonlocals in deep functions", "a = 1; nonlocal b"),
        ("globals in deep functions", "global b"),
    ] {
        let start = format!("{functions}{}{keyword}", " ".repeat(100));
        shapes.push(Shape { name, start, middle: ";b=b", end: "\n".to_owned() });
    }
    shapes
}

/// Repeats each part of the form `«count:part»` `count` times. Inner parts are repeated first.
fn expanded(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some((before, rest)) = text.rsplit_once('«') {
        let (inside, after) = rest.split_once('»').unwrap();
        let (count, part) = inside.split_once(':').unwrap();
        let parts = (0..count.parse().unwrap()).map(|number| numbered(part, number));
        text = format!("{before}{}{after}", parts.collect::<String>());
    }
    text
}

fn numbered(part: &str, number: usize) -> String {
    part.replace('#', &number.to_string()).replace('§', &number.saturating_sub(1).to_string())
}

type Row = (&'static str, &'static str, &'static str, &'static str);

/// Shapes with short parts. In this table and the following tables, each row has the name, the start, the middle and
/// the end of a shape.
const SHORT: &[Row] = &[
    // Nested sources. The analysis refuses most of them.
    ("minus signs", "x = ", "-", "1"),
    ("sum", "x = 1", "+1", ""),
    ("attributes", "x = a", ".b", ""),
    ("lambdas", "x = ", "lambda:", "0"),
    ("brackets", "x = ", "[", ""),
    ("unclosed calls", "", "print(", ""),
    ("elif chain", "if x: pass\n", "elif x == 1: pass\n", ""),
    ("decorators", "", "@a\n", "def f(): pass"),
    ("nested with", "", "with ((((a) as b), c)): pass\n", ""),
    ("match words", "", "match (match) [match]\nmatch x:\n case [a, *b]: pass\n", ""),
    // Plain statements.
    ("plain code", "import math\n", "x = math.sqrt(y) + max(a, b) * f(c, d=2)\n", ""),
    ("names", "", "a\n", ""),
    ("numbers", "x = [", "1,", "]"),
    ("assignments", "", "x# = #\n", ""),
    ("functions", "", "def f(a, b=1):\n    return g(a)\n", ""),
    ("functions calling each other", "", "def f#(a): return f(a) + g#(f#)\n", ""),
    ("classes", "", "class A:\n    x = 1\n    def f(self): return self.x\n", ""),
    ("class attributes", "class A:\n", "    a# = 1; b = a#\n", ""),
    (
        "nested class scopes",
        "class A:\n class B:\n  class C:\n",
        "   def f(self, a=x#): return a, x#\n",
        "",
    ),
    ("semicolons on one line", "x = 1", ";x = 1", ""),
    ("carriage returns", "", "x = 1\r\n", ""),
    ("lone carriage returns", "", "x = 1\r", ""),
    ("comments", "", "# os.system\n", ""),
    ("long text", "x = '", "eval() ", "'"),
    ("texts in a row", "x = (", "'a' ", ")"),
    ("f-strings", "", "x = f'{a}{b!r}{c:{d}}'\n", ""),
    ("comprehensions", "", "x = [chr(c) for c in [1, 2, 3, 4]]\n", ""),
    ("match cases", "match x:\n", "    case {'a': y#, **z}: y#\n", ""),
    ("imports", "", "import m#.a.b as n#\nn#.x\n", ""),
    ("wide call", "f(", "a,", ")"),
    ("wide dictionary", "x = {", "'k#': a,", "}"),
    ("wide display of getters", "x = [", "getattr(a, 'b'),", "]"),
    ("subscripts", "", "a[1][2:3]['x']\n", ""),
    ("tries", "", "try: a\nexcept E as e: e\nelse: e\n", ""),
    ("annotations", "", "a#: 'list[int]' = b\n", ""),
    ("typed subscripts", "import typing\n", "typing.Optional['list[a]']\n", ""),
    ("type parameters", "", "def f#[T, U](a: T) -> U: return a\n", ""),
    ("type aliases", "", "type X# = list[X#]\n", ""),
    ("docstrings", "import doctest\n", "'''\n>>> f(x)\n'''\n", ""),
    ("one long docstring", "import doctest\n'''", "\n>>> f(x)", "'''"),
    ("deleted names", "", "a = 1; del a; a\n", ""),
    // Sources that do not parse.
    ("no program", "", "x = (\nimport os\n", ""),
    ("no program, open", "", "open ", "("),
    ("no program, patterns", "", "subprocess. os.system ", "("),
    // Names that are bound to other names.
    ("names of names", "a = 0\n", "a = a.b(a)[a]\n", ""),
    ("unpacked names", "import os\n", "a, b, c = c, os, a\n", ""),
    ("two names swapped", "import os as a, re as b\n", "a, b = b, a\n", ""),
    ("chain of names", "import os as x0\nx = x0\n", "x# = x\nx = x#\n", ""),
    ("chain of names, one way", "import re as x\n", "x#, x = x, x\nx#\n", ""),
    ("conditional names", "import re as m\n", "if a: m = b\n", ""),
    ("uses after branches", "import re as m\n", "if a: m = b\nm\n", ""),
    ("conditional expressions", "import os as m\n", "m = m if m else m\n", ""),
    ("alternatives of modules", "", "import m# as m\nx = m or x\n", ""),
    ("names bound in loops", "", "for a in b: c = a; a = c\n", ""),
    ("one loop", "for i in r:\n", "    a = b; b = a; a\n", ""),
    ("targets of one loop", "", "for a in b: a\n", ""),
    ("walrus", "", "(a := b)\na\n", ""),
    ("walrus in comprehensions", "", "[a for b in c if (a := b)]\na\n", ""),
    ("globals bound in functions", "a = 1\n", "def f():\n global a\n a = #\na\n", ""),
    ("globals of all names", "", "def f():\n global a#\n a# = 1\na#\n", ""),
    ("namespace reads", "", "globals()['a#']\n", ""),
    ("namespace writes", "", "globals()['a#'] = a#\n", ""),
    ("namespace items in a loop", "for a in globals().values():\n", "    a\n", ""),
    ("nonlocals", "def f():\n a = 1\n", " def g():\n  nonlocal a\n  a = 2\n a\n", ""),
    // Star imports.
    ("star imports", "", "from m# import *\nx#\n", ""),
    ("star imports, then uses", "", "from m# import *\nx\ny\nz\n", ""),
    ("star imports of judged packages", "", "from sympy.x# import *\nsimplify\n", ""),
    ("star imports of known modules", "", "from sympy import *\nfrom os.path import *\nopen\n", ""),
    // Values that the analysis takes apart, computes or judges.
    ("wide unpacking", "", "x#,", "=a"),
    ("wide assignment", "a, b = (", "[x,#],", ")"),
    ("items of one call", "a, b, c, d = f(1)\n", "a; b; c; d\n", ""),
    ("many targets", "", "a# = ", "f(1)"),
    ("unpacked arguments", "a = (1, 2, 3, 4, 5, 6, 7, 8, 9)\nf(", "*a,", ")"),
    ("unknown unpacked arguments", "f(", "*a,", ")"),
    ("unpacked keywords", "f(", "**a,", ")"),
    ("formulas and functions", "import sympy\nS = sympy.S\nf(", "S,'f(x)',", ")"),
    ("formula functions", "import sympy\nS = sympy.S\nf(", "S,", ")"),
    ("small formulas", "import sympy\n", "sympy.S('f(x) + #')\n", ""),
    ("one small formula", "import sympy\n", "sympy.S('f(x)')\n", ""),
    ("small codes", "import timeit\n", "timeit.timeit('f(x) + #')\n", ""),
    (
        "codes in codes",
        "import timeit\n",
        "timeit.timeit('import timeit; timeit.timeit(\"f(#)\")')\n",
        "",
    ),
    ("texts put together", "t = 'a'\n", "t = t + 'b' + t[1:2]\n", ""),
    ("texts that double", "t = 'a'\n", "t = t + t\n", ""),
    ("texts formatted", "t = '%s-%s'\n", "t = t % (t, 'a')\n", ""),
    ("f-string chain", "x = 'a'\n", "x = f'{x}{x}'\n", ""),
    ("lists that double", "x = [1]\n", "x = [x, x]\n", ""),
    ("tuples that double", "x = 1,\n", "x = x + x\n", ""),
    ("getattr", "import os\n", "getattr(os, 'sys' + 'tem')\n", ""),
    ("getattr of unknown names", "import os\n", "getattr(os, x)\n", ""),
    ("calls of eval", "", "eval('1')\n", ""),
    ("different findings", "", "subprocess.f#()\n", ""),
    ("findings far along one line", "x = 0", "; subprocess.f#()", ""),
    ("findings written at length", "x = [", "eval(eval,aaaaaaaaaaaaaaaaaaaaaaaaaa),", "]"),
    ("imports found", "", "import socket, subprocess\n", ""),
    ("members imported", "from os import (", "a#,", ")"),
    ("parameters judged", "import os\nf(1)\ndef f(a):\n", "    getattr(os, a)\n", ""),
    (
        "functions whose parameters are judged",
        "import json\n",
        "def f#(a): json.dump(1, a)\nf#(b)\n",
        "",
    ),
    ("attributes of a path", "import os\n", "os.path.join.a.b.c.d\n", ""),
    ("modules behind modules", "import numpy as a\n", "a.os\na.random.sys\n", ""),
    ("private members", "import json._a as m\n", "m\nm._b\n", ""),
    ("paths", "from pathlib import Path\np = Path('a')\n", "p = p / 'a'; p.parent\n", ""),
    ("dictionary of code", "import timeit\n", "timeit.repeat(stmt='f(x)', setup='x = #')\n", ""),
];

/// Shapes that use one long string again and again. The string is short enough for the analysis to compute strings from
/// it.
const LONG_TEXTS: &[Row] = &[
    (
        "long text formats",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "t.format(1)\n",
        "",
    ),
    (
        "long text formatted",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "'{}'.format(t)\n",
        "",
    ),
    (
        "long text as SQL",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "c.execute(t)\n",
        "",
    ),
    (
        "long text as a query",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "c.query(t)\n",
        "",
    ),
    ("long formula", "import sympy, timeit, os\nt = 'x«3200:,f(x)»'\n", "sympy.S(t)\n", ""),
    (
        "long formulas in a tuple",
        "import sympy, timeit, os\nt = 'x«3200:,f(x)»'\nl = («8:t,»)\n",
        "sympy.S(l)\n",
        "",
    ),
    (
        "long formulas, each another",
        "import sympy, timeit, os\nt = 'x«3200:,f(x)»'\n",
        "sympy.S(t + '#')\n",
        "",
    ),
    ("long code", "import sympy, timeit, os\nt = 'x«3200:,f(x)»'\n", "timeit.timeit(t)\n", ""),
    (
        "long name of a module",
        "import sympy, timeit, os\nt = '«8000:a.»'\nfrom importlib import import_module as i\n",
        "i(t)\n",
        "",
    ),
    (
        "long name of an attribute",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "getattr(os, t)\n",
        "",
    ),
    (
        "long annotation",
        "import sympy, timeit, os\nt = 'x«3200:,f(x)»'\nimport typing\n",
        "typing.Optional[t]\n",
        "",
    ),
    (
        "long text in upper case",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "t.upper()\n",
        "",
    ),
    (
        "long text replaced",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "t.replace('a', 'b')\n",
        "",
    ),
    (
        "long text split",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "t.split('o')\n",
        "",
    ),
    (
        "long text stripped",
        "import sympy, timeit, os\nt = '«800:opqrstuvwxyz »'\n",
        "t.strip('abcdefghijklmnopqrstuvwxyz ')\n",
        "",
    ),
    (
        "long text stripped of itself",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "t.strip(t)\n",
        "",
    ),
    (
        "long text reversed",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "t = t[::-1]\nreversed(t)\n",
        "",
    ),
    (
        "long text put together",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "t + 'a'\n",
        "",
    ),
    (
        "long text in f-strings",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\n",
        "f'{t}'\n",
        "",
    ),
    (
        "long texts joined",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\nl = («16:t,»)\n",
        "t.join(l)\n",
        "",
    ),
    (
        "long texts formatted by %",
        "import sympy, timeit, os\nt = '«888:lorem ipsum (a.b) »'\np = '«60:%s»'\nl = («60:t,»)\n",
        "p % l\n",
        "",
    ),
    ("folded texts", "u = 'a' * 16000\n", "u\n", ""),
    ("folded texts, each another", "u = 'a' * 16000\n", "a# = u + '#'\n", ""),
    ("folded texts in tuples", "u = 'a' * 16000\nl = («60:u,»)\n", "l; l[1:]; (*l,)\n", ""),
    ("items of a text", "t = '«1000:a»'\n", "t[0]; t[1:]\n", ""),
    ("items of another text", "t = '«500:é»'\n", "t[0]; t[1:]\n", ""),
    ("characters of a text", "t = '«120:é»'\n", "[a for a in t]\nlist(t)\n", ""),
    ("bytes", "t = b'«16000:a»'\n", "t.decode()\nt + t\n", ""),
    ("long path of an import", "import os«2500:.a» as m\n", "m\nm.b\n", ""),
    ("long part of an import", "import os.«20000:a» as m\n", "m\nm.b\n", ""),
    ("members of a long module", "from a«20000:a» import (", "a,", ")"),
    ("found members of a long module", "from os«2500:.a» import (", "a,", ")"),
    ("white space in what is found", "x = eval,«20000: »eval\n", "[eval,					eval]\n", ""),
];

/// Shapes with values that have many parts or many alternatives.
const MANY_VALUES: &[Row] = &[
    ("joins of texts", "«16:if a: t = 'a' * 15000 + '#'\n»", "t or t\n", ""),
    (
        "joins of texts, named",
        "«16:if a: t = 'a' * 15000 + '#'\n»x = t\n",
        "x# = x or t\nx = x#\n",
        "",
    ),
    ("joins of modules", "«16:if a: import m# as m\n»", "m or m\n", ""),
    (
        "joins of known modules",
        "import os as m\nif a: import re as m\nif a: import io as m\nif a: import sys as m\nif a: import json as m\nif a: import math as m\nif a: import time as m\nif a: import types as m\nif a: import ast as m\nif a: import dis as m\nif a: import gzip as m\nif a: import cmd as m\nif a: import enum as m\nif a: import uuid as m\n",
        "m or m\n",
        "",
    ),
    (
        "members of many modules",
        "import os as m\nif a: import re as m\nif a: import io as m\nif a: import sys as m\nif a: import json as m\nif a: import math as m\nif a: import time as m\nif a: import types as m\nif a: import ast as m\nif a: import dis as m\nif a: import gzip as m\nif a: import cmd as m\nif a: import enum as m\nif a: import uuid as m\n",
        "m.a.b\n",
        "",
    ),
    (
        "calls of many modules",
        "import os as m\nif a: import re as m\nif a: import io as m\nif a: import sys as m\nif a: import json as m\nif a: import math as m\nif a: import time as m\nif a: import types as m\nif a: import ast as m\nif a: import dis as m\nif a: import gzip as m\nif a: import cmd as m\nif a: import enum as m\nif a: import uuid as m\n",
        "m(m)\nm.a(1)\n",
        "",
    ),
    ("joins of tuples", "«16:if a: l = («60:#,»)\n»", "l or l\n", ""),
    ("tuples of tuples", "«16:if a: l = («60:#,»)\n»k = («60:l,»)\n", "k; k[0]\n", ""),
    ("tuples made of tuples", "«16:if a: l = («60:#,»)\n»k = («60:l,»)\n", "(k,k)\n", ""),
    ("equal tuples joined", "l = («60:1,»)\nk = («60:l,»)\nj = («60:l,»)\n", "k or j\n", ""),
    ("slices of a tuple", "l = («60:1,»)\n", "l[1:]; l + l\n", ""),
    ("tuples unpacked", "l = («60:1,»)\n", "f(*l, *l)\n", ""),
    (
        "items of many alternatives",
        "«16:if a: t = 'a' * 15000 + '#'\n»",
        "x = [t,t,t,t,t,t,t,t]\n",
        "",
    ),
    ("many reaching bindings", "«60:if a: b = #\n»", "b\n", ""),
    ("many reaching texts", "«60:if a: b = 'a' * 9999 + '#'\n»", "b\n", ""),
    ("many reaching modules", "«60:if a: import m# as b\n»", "b\n", ""),
    (
        "getattr of many texts",
        "import os\n«16:if a: t = 'a' * 15000 + '#'\n»",
        "getattr(os, t)\n",
        "",
    ),
    (
        "nested comprehensions",
        "t = '«2:abcdefghijklmnopqrstuvwxyz»abcdefghijkl'\n",
        "[[a + b for a in 'abcdefghijklmnopqrstuvwxyz'] for b in t]\n",
        "",
    ),
    (
        "nested comprehensions of names",
        "t = '«2:abcdefghijklmnopqrstuvwxyz»abcdefghijkl'\n",
        "[[a + b for a in t] for b in t]\n",
        "",
    ),
    (
        "comprehensions in comprehensions",
        "t = '«2:abcdefghijklmnopqrstuvwxyz»abcdefghijkl'\n",
        "[[[[a + b for a in t] for b in t] for a in t] for b in t]\n",
        "",
    ),
    (
        "wide comprehensions",
        "t = '«2:abcdefghijklmnopqrstuvwxyz»abcdefghijkl'\n",
        "[(a,a,a,a,a,a,a,a,a,a,a,a,a) for a in t]\n",
        "",
    ),
    (
        "comprehensions of calls",
        "t = '«2:abcdefghijklmnopqrstuvwxyz»abcdefghijkl'\n",
        "''.join([chr(ord(a) + 1) for a in t])\n",
        "",
    ),
    (
        "callers with many arguments",
        "import json\n«32:f(«300:b,»)\n»def f(«300:p#,»):\n",
        "    json.dump(1, p299)\n",
        "",
    ),
    (
        "callers with long arguments",
        "import json\nf(«2000:b +»b)\ndef f(a):\n",
        "    json.dump(1, a)\n",
        "",
    ),
    (
        "many targets of a long value",
        "t = («2000:b,»)\n",
        "a#, b# = (t, f(t), t, f(t), t, f(t))\na#\n",
        "",
    ),
    ("long value of many targets", "(", "a#,", ") = («8:b + »b)\n"),
];

/// Shapes with values that flow through functions, attributes and containers.
const VALUE_FLOWS: &[Row] = &[
    ("chain of functions", "", "def f#(x): return f§(x)\n", "f9(1)\n"),
    ("chain of functions, twice", "", "def f#(x): return f§(x) + f§(x)\n", "f9(1)\n"),
    (
        "functions of functions",
        "",
        "def f#(x): return g§(x) or g#(x)\ndef g#(x): return f§(x) or f0(x)\n",
        "",
    ),
    (
        "calls of many parameters",
        "def f(«300:p#=1,»): return [«300:p#,»]\n«30:f(«300:'a',»)\n»",
        "f('a', p9='b')\n",
        "",
    ),
    ("decorators of many parameters", "", "@d#\n", "def f(«2000:p#,»): return p1\n"),
    ("lambdas of lambdas", "f = lambda x: x\n", "f = lambda x, f=f: f(x)\n", "f(1)\n"),
    ("results of a generator", "def g():\n", "    yield #\n", "for x in g(): print(x)\n"),
    (
        "chain of attributes",
        "class A:\n    def f(self):\n        self.x = []\n",
        "        self.a# = self.a§\n",
        "",
    ),
    ("attributes by name", "", "setattr(a, 'n#', a.n§)\n", "a.n5\n"),
    ("one attribute", "", "x.a = f(x.a); x.a\n", ""),
    ("many bases", "class A: pass\nclass B(«2000:A,»): pass\n", "B().x\n", ""),
    (
        "methods of many classes",
        "",
        "class C#:\n    def m(self): return self.m()\n    def __getattr__(self, n): return C#().z\n",
        "C1().q.m()\n",
    ),
    (
        "subclasses of parameters",
        "",
        "def f#(c):\n    for d in c.__subclasses__(): f#(d)\nf#(A)\n",
        "",
    ),
    ("container in itself", "d = []\n", "d.append(d)\nd.append('t#')\n", "getattr(d[0], d[1])\n"),
    ("container put into and used", "d = {}\n", "d['k#'] = 't#'\ngetattr(x, d['k#'])\n", ""),
    ("containers of containers", "a = [«64:['x#'],»]\nb = [«64:a,»]\n", "sympify(b)\n", ""),
    (
        "formulas in containers",
        "import sympy\na = («64:'x#',»)\nb = («64:a,»)\n",
        "sympy.sympify(b)\n",
        "",
    ),
    (
        "items of dictionaries",
        "a = {«64:'x#': 'y#',»}\nb = {«64:'z#': a,»}\n",
        "b['z9']['x3']\n",
        "",
    ),
    (
        "dictionaries put into a container",
        "a = {«64:'x#': 'y#',»}\nb = {«64:'z#': a,»}\n",
        "c.append(b)\n",
        "for v in c: print(getattr(o, v))\n",
    ),
    (
        "known parts of f-strings",
        "q = 'a' if z else 'b'\n",
        "x = f'{q}{q}{q}{q}{q!r}{a}b{a}b{a}b{q}{q}'\n",
        "",
    ),
    ("unpacked with a star", "l = [1, 2, 3]\n", "a#, ", "*r = l\n"),
    ("star patterns", "match x:\n", "    case [a#, *b#]: print(a#, b#)\n", ""),
    ("imports by unknown names", "", "import m#\nglobals()[n]\n", ""),
    ("text added to in a loop", "for c in x:\n", "    t += c; t = ''\n", ""),
    ("joins of results", "", "x = f#(x) if a else [x, f§]\n", ""),
];

/// Shapes with names that are used in deeply nested scopes.
const DEEP_SCOPES: &[Row] = &[
    ("names in deep lambdas", "x = «2000:lambda:»[", "x,", "]"),
    ("names in deep comprehensions", "x = «300:[»[", "x,", "]«300: for a in b]»"),
    ("walrus in deep comprehensions", "x = «300:[»[", "(x:=1),", "]«300: for a in b]»"),
];
