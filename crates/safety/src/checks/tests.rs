//! Tests the search for checks, and the reasons why checks cannot fail.

use super::{CheckKind, Vacuity, check_plan};
use crate::{Check, analyze};

fn checks(source: &str) -> Vec<Check> {
    let analysis = analyze(source).unwrap();
    assert_eq!(analysis.findings, [], "{source}");
    analysis.checks
}

/// Asserts the kinds and the lines of the checks in a source.
#[track_caller]
fn assert_kinds(source: &str, expected: &[(CheckKind, usize)]) {
    let found: Vec<_> = checks(source).iter().map(|check| (check.kind, check.line)).collect();
    assert_eq!(found, expected, "{source}");
}

/// Asserts the reason why the only check of a source cannot fail.
#[track_caller]
fn assert_vacuous(source: &str, expected: Option<Vacuity>) {
    let found: Vec<_> = checks(source).iter().map(|check| check.vacuous).collect();
    assert_eq!(found, [expected], "{source}");
}

#[test]
fn every_form_of_check_is_found() {
    use CheckKind::{Assert, Call, Exit, FailsIf, FailsUnless, Skipped, Tuple};
    for (source, expected) in [
        ("assert f(1) == 2", &[(Assert, 1)][..]),
        ("assert (f(1) == 2, 'm')", &[(Tuple, 1)]),
        ("if f(1) != 2:\n    raise ValueError", &[(FailsIf, 1)]),
        ("if f(1) == 2:\n    print('ok')\nelse:\n    raise SystemExit(1)", &[(FailsUnless, 1)]),
        ("import sys\nif f(1):\n    pass\nelif f(2):\n    sys.exit('no')", &[(FailsIf, 4)]),
        ("from sys import exit as stop\nif f(1):\n    stop(3)", &[(FailsIf, 2)]),
        ("import sys\nsys.exit(f(1))", &[(Exit, 2)]),
        ("raise SystemExit(not f(1))", &[(Exit, 1)]),
        ("for x in f(1):\n    if x:\n        break\nelse:\n    raise ValueError", &[(Skipped, 5)]),
        (
            "match f(1):\n    case 1:\n        pass\n    case _:\n        raise ValueError",
            &[(Skipped, 5)],
        ),
        (
            "try:\n    f(1)\nexcept ValueError:\n    pass\nelse:\n    raise AssertionError",
            &[(Skipped, 6)],
        ),
        ("import numpy as np\nnp.testing.assert_allclose(f(1), 2)", &[(Call, 2)]),
        ("from numpy.testing import assert_array_equal as same\nsame(f(1), 2)", &[(Call, 2)]),
        ("def fail(m):\n    raise AssertionError(m)\nif f(1):\n    fail('m')", &[(FailsIf, 3)]),
        (
            "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(1), 2)\n",
            &[(Call, 4)],
        ),
        (
            "import unittest\nclass Base(unittest.TestCase): pass\nclass T(Base):\n    def test(self):\n        self.assertEqual(f(1), 2)\n",
            &[(Call, 5)],
        ),
        ("import unittest\nt = unittest.TestCase()\nt.assertEqual(f(1), 2)", &[(Call, 3)]),
        ("from numpy.testing import *\nassert_allclose(f(1), 2)", &[(Call, 2)]),
        ("from pandas.testing import *\nassert_index_equal(f(1), x)", &[(Call, 2)]),
        ("import unittest\nunittest.TestCase().assertEqual(f(1), 2)", &[(Call, 2)]),
        (
            "import unittest\nclass A:\n    def __init__(self):\n        self.tc = unittest.TestCase()\n    \
             def run(self):\n        self.tc.assertEqual(f(1), 2)\n",
            &[(Call, 6)],
        ),
        (
            "import unittest\nclass T(unittest.TestCase):\n    def assertEqual(self, a, b, msg=None):\n        \
             super().assertEqual(a, b, msg)\n",
            &[(Call, 4)],
        ),
        (
            "from unittest.mock import Mock\nm = Mock()\nm.post(1)\nm.post.assert_called_once_with(1)",
            &[(Call, 4)],
        ),
        (
            "from unittest.mock import AsyncMock\nm = AsyncMock()\nm.assert_awaited_once_with(1)",
            &[(Call, 3)],
        ),
        (
            "import time, unittest\ndef f():\n    t = time.time()\nt = unittest.TestCase()\nt.assertEqual(f(1), 2)",
            &[(Call, 5)],
        ),
        (
            "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        with self.assertRaises(E):\n            \
             f(1)\n",
            &[(Call, 4)],
        ),
    ] {
        assert_kinds(source, expected);
    }
}

#[test]
fn other_statements_are_no_checks() {
    for source in [
        "print('VERIFIED')",
        "x = f(1) == 2",
        "f(1) == 2",
        "import sys\nsys.exit(0)",
        "import sys\nif f(1):\n    sys.exit()",
        "raise SystemExit",
        "raise ValueError",
        "def f(x):\n    raise ValueError(x)",
        // A `raise` in a handler is not a check, because it only reports an exception.
        "try:\n    f(1)\nexcept ValueError:\n    raise AssertionError",
        "class T:\n    def assertEqual(self, a, b):\n        pass\n    def test(self):\n        self.assertEqual(1, 2)",
        // These objects have methods with the names of assertions, but the methods check nothing.
        "import unittest\nfrom types import SimpleNamespace\nt = SimpleNamespace(assertEqual=print)\nt.assertEqual(1, 2)",
        "import unittest.mock\nt = unittest.mock.Mock()\nt.assertEqual(1, 2)",
        "import unittest\nt = type('T', (), {'assertEqual': print})()\nt.assertEqual(1, 2)",
        "import unittest\nclass Soft:\n    def __getattr__(self, n):\n        return print\nt = Soft()\nt.assertEqual(1, 2)",
        "from numpy.testing import *\ndef assert_close(a, b):\n    pass\nassert_close(1, 2)",
    ] {
        assert_kinds(source, &[]);
    }
}

#[test]
fn a_plan_names_statements_as_python_does() {
    let source = "if a:\n    pass\nelif b:\n    raise ValueError\nelse:\n    assert c == 1\n";
    assert_eq!(check_plan(&checks(source)), "2 t1:b0.o0.o0 f0:b0.o0");
    let source = "try:\n    f()\nexcept E:\n    assert a == 1\nfinally:\n    assert b == 1\n";
    assert_eq!(check_plan(&checks(source)), "2 t1:b0.f0 t0:b0.h0.b0");
    let source = "for x in y:\n    pass\nelse:\n    print()\n    raise E\n";
    assert_eq!(check_plan(&checks(source)), "1 y0:b0 x0:b0.o1");
    // The path of an element edit ends with the lines and columns of the element.
    let source = "x = [n for n in y if n > 0 and odd(n)]\nassert not x\n";
    assert_eq!(check_plan(&checks(source)), "1 e0:b0@1-31-1-37 t0:b1");
    assert_eq!(check_plan(&[]), "");
}

#[test]
fn a_plan_without_edits_needs_quick_asserts_of_the_module() {
    let source = "x = f(1)\nassert x == 2, f'{x}'\nassert (len(x)\n  == 3 ** 2)\nprint(x)\n";
    assert_eq!(check_plan(&checks(source)), "2 i1:3-4 i0:2-2");
    for others in [
        // The condition may have side effects, or may take long.
        "assert g(x) == 2",
        "assert next(x) == 2",
        "assert x.pop() == 2",
        "assert (y := x) == 2",
        "assert max(x, key=g) == 2",
        "assert x ** x == 2",
        "assert 2 ** 65 == x",
        "assert x ** 5 == 2",
        "assert sum(x, []) == [2]",
        "assert [n for n in x] == [2]",
        "assert (lambda: x) == 2",
        "assert x == 2, g(x)",
        // The line does not determine which of the checks held.
        "assert x == 2; assert x == 3",
        "print(x); assert x == 3",
        "assert x == 2; print(x)",
        "x; \\\n assert x == 3",
        "assert x == 2; \\\nprint(x)",
        // The compiler may warn.
        "assert x is 2",
        "assert x == '\\d'",
        // The statement is not in the body of the module, or is another form of a check.
        "for y in x:\n    assert y == 2",
        "def g():\n    assert x == 2",
        "try:\n    assert x == 2\nfinally:\n    print(x)",
        "if x != 2:\n    raise ValueError",
        "assert (x == 2, 'm')",
        "import sys\nsys.exit(x)",
        // The operators of a class may have effects.
        "class C:\n    pass\nassert x == 2",
        "import sympy\nassert x == 2",
        "import collections\nP = collections.namedtuple('P', 'x')\nassert x == 2",
    ] {
        let source = format!("x = f(1)\nassert x == 2\n{others}\n");
        let plan = check_plan(&checks(&source));
        assert!(!plan.contains('i'), "{source}: {plan}");
    }
}

#[test]
fn a_check_is_shown_on_one_line() {
    for (condition, expected) in [
        ("f(1)\n    ==   'a  b'", "f(1) == 'a  b'"),
        ("f(1)  # don't  \n  == (1, \\\n 2)", "f(1) == (1, 2)"),
        ("f(1) == \"\"\"a\n  b\\n\r\nc\"\"\"", "f(1) == \"\"\"a\\n  b\\n\\nc\"\"\""),
        ("f(1) == '''a\\\n'b\\'\\\\\nc'''", "f(1) == '''a\\x27b\\'\\\\\\nc'''"),
        ("f(1) == '\\1\\\r\n2'", "f(1) == '\\1\\x32'"),
        ("f(1) == 'a\\\nb'", "f(1) == 'ab'"),
        ("f(1) == Rb\"\"\"\\d\"'\n\\\n\"\"\"", "f(1) == b\"\"\"\\\\d\\\"\\'\\n\\\\\\n\"\"\""),
        // A literal without line breaks is not changed.
        ("f(1)\n == r'\\d'", "f(1) == r'\\d'"),
        ("f(1) == f'''{{{x  +  1:>\n}\n{'a  b'}'''", "f(1) == f'''{{{x + 1:>\\n}\\n{'a  b'}'''"),
        ("f(1) == fr'''\\{x}\n'''", "f(1) == f'''\\\\{x}\\n'''"),
        ("f(1) == f\"{d[\"a  b\"]}  {x  + 1}\"", "f(1) == f\"{d[\"a  b\"]}  {x + 1}\""),
    ] {
        assert_eq!(checks(&format!("assert (\n    {condition}\n)"))[0].text, expected);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn checks_that_cannot_fail_have_a_reason() {
    use Vacuity::{
        AlwaysTrue, Constant, Empty, NoException, OrTrue, Premises, Rounding, SameValue, Swallowed,
        Tolerance, TrueObject, Tuple,
    };
    for (source, expected) in [
        ("assert (f(1) == 2, 'm')", Tuple),
        ("assert 1 == 1", Constant),
        ("due = '2024-06-30'\nlimit = '2024-12-31'\nassert due <= limit", Constant),
        ("version = (3, 11)\nassert version >= (3, 8)", Constant),
        ("a = {'b': 2, 'a': 1}\nb = {'a': 1.0, 'b': 2}\nassert a == b", Constant),
        ("a = {'a', 'b'}\nassert a < {'a', 'b', 'c'}", Constant),
        ("assert [1, (2, 3)] == [1.0, (2, 3)]", Constant),
        ("assert [1, 2] != [1, 3]", Constant),
        ("assert True == 1", Constant),
        ("assert 1e999 == 1e999", Constant),
        ("assert 2 in [1, 2.0]", Constant),
        ("assert 'b' in 'abc'", Constant),
        ("assert 'x' in {'x': f(1)}", Constant),
        ("import numpy as np\nassert np.all([True, 1])", Constant),
        ("ok = f(1) == 2\nok = True\nassert ok", Constant),
        ("def check(a, b):\n    assert a == b\ncheck(5050, 5050)", Constant),
        ("def total(n):\n    return 5050\nassert total(100) == 5050", Constant),
        ("errors = []\nerrors.append(f(1))\nerrors.clear()\nassert not errors", Constant),
        ("total = f(1)\nassert total == total", SameValue),
        ("a = f(1)\nb = a\nassert a <= b", SameValue),
        (
            "expected = {'a': f(1)}\nactual = dict(expected)\nassert actual['a'] == expected['a']",
            SameValue,
        ),
        (
            "claim = 8311.9\ndeposit = 8000\ninterest = claim - deposit\nassert deposit + interest == claim",
            SameValue,
        ),
        (
            "def a(x):\n    return sorted(x)\ndef b(x):\n    return a(x)\ny = f(1)\nassert a(y) == b(y)",
            SameValue,
        ),
        ("x = f(1)\nif x != x:\n    raise ValueError", SameValue),
        ("error = abs(f(1))\nassert error <= error * 1.01", SameValue),
        ("from z3 import Solver\ns = Solver()\nassert s", TrueObject),
        ("from z3 import *\ns = Solver()\ns.add(Int('x') > 3)\nassert s.check()", TrueObject),
        (
            "from z3 import Solver, Int\ns = Solver()\ns.add(Int('x') > 3)\nassert s.check()",
            TrueObject,
        ),
        ("assert (f(x) for x in y)", TrueObject),
        ("assert lambda: f(1)", TrueObject),
        ("assert {'verified': f(1)}", TrueObject),
        ("assert {k: f(k) for k in [1, 2]}", TrueObject),
        ("assert all(f(k) for k in {k: [1] for a in y for k in []})", Empty),
        ("assert 1.0 == 1", Constant),
        ("assert len(f(1)) >= 0", AlwaysTrue),
        ("assert abs(f(1)) >= 0", AlwaysTrue),
        ("x = f(1)\nassert max(x) >= min(x)", AlwaysTrue),
        ("assert isinstance(1500 * 1.02 ** 12, (int, float))", AlwaysTrue),
        ("assert f(1) == 2 or True", OrTrue),
        ("assert f(1) == 2 or 'must be two'", OrTrue),
        ("p = f(1)\nassert p or not p", OrTrue),
        ("a = f(1)\nassert a > 2 or a < 2 or a == 2", OrTrue),
        ("assert abs(f(1) - 0.85) <= 2", Tolerance),
        ("import math\nassert math.isclose(f(1), 3.5, rel_tol=2)", Tolerance),
        ("assert abs(f(1) - 3.5) < float('inf')", Tolerance),
        ("assert int(0.0725) == int(0.0199)", Rounding),
        ("assert round(f(1), -4) == round(999.99, -4)", Rounding),
        ("assert bool(f(1)) == bool(0.05)", Rounding),
        ("try:\n    assert f(1) == 2\nexcept AssertionError:\n    print('no')", Swallowed),
        (
            "import contextlib\nwith contextlib.suppress(Exception):\n    assert f(1) == 2",
            Swallowed,
        ),
        (
            "import contextlib\nwith contextlib.suppress(Exception):\n    x = f(1)\n    assert x == 2",
            Swallowed,
        ),
        ("import sys\ntry:\n    assert f(1) == 2\nfinally:\n    sys.exit(0)", Swallowed),
        (
            "import sys\ntry:\n    if f(1) != 2:\n        sys.exit(1)\nexcept AssertionError:\n    raise\nexcept SystemExit:\n    print('no')",
            Swallowed,
        ),
        (
            "class Quiet:\n    def __enter__(self):\n        return self\n    def __exit__(self, *of):\n        return True\n\
             with Quiet():\n    assert f(1) == 2",
            Swallowed,
        ),
        (
            "ok = False\ntry:\n    f(1)\n    ok = True\nexcept ValueError:\n    ok = False\nassert ok",
            NoException,
        ),
        (
            "from z3 import Bool, Not, Solver, unsat\np = Bool('p')\ns = Solver()\ns.add(p)\ns.add(Not(p))\ns.add(f(p))\n\
             assert s.check() == unsat",
            Premises,
        ),
    ] {
        assert_vacuous(source, Some(expected));
    }
}

#[test]
fn checks_that_can_fail_have_no_reason() {
    for source in [
        "assert 2 ** 10 == 1024",
        // A check that certainly fails is not vacuous: it fails when the script runs.
        "a = 'ab'\nassert a > 'b'",
        "a = {1, 2}\nassert a < {1, 2}",
        "assert [1, 2] == [1, 3]",
        "assert 'd' in 'abc'",
        // The operands of some additions cannot change places.
        "a = 'ab'\nb = g(1) * 'ab'\nassert a + b == b + a",
        "x = list(f(1))\ny = list(f(2))\nassert x + y == y + x",
        "class P:\n    @classmethod\n    def of(cls, x):\n        return cls()\n    def __add__(self, o):\n        \
         return f(self, o)\np = P.of(1)\nq = P.of(2)\nassert p + q == q + p",
        "import numpy as np\nx = f(1)\nassert np.all([abs(x) < 1e-9, x > 0])",
        "import numpy as np\nassert np.any([f(n) == 2 for n in (1, 2)])",
        "import numpy as np\nassert np.all(np.array([f(1) == 2, f(2) == 3]))",
        "import numpy as np\nx = f(1)\nassert np.all([[x == 1], [g(x) == 2]])",
        "a, b = f(1), f(2)\nassert a == b or a - b",
        "assert f(1) == 2",
        "x = f(1)\ny = f(2)\nassert x == y",
        "import random\nassert random.random() != random.random()",
        "x = f(1)\nx = g(x)\nassert x == 3",
        // The list changes between the two uses.
        "before = list(x)\nx.sort()\nassert x == before",
        "a = []\nb = a\nc = list(a)\nb.append(1)\nassert a == c",
        "total = 0\nfor n in y:\n    total += n\nassert total == 0",
        "for a in y:\n    for b in y:\n        assert a == b",
        "def check(a, b):\n    assert a == b\ncheck(f(1), 5050)\ncheck(1, 1)",
        "assert isinstance(f(1), int)",
        "assert len(f(1)) > 0",
        "assert abs(f(1) - 0.85) <= 0.01",
        "assert round(f(1), 2) == 3.14",
        "assert bool(f(1))",
        "assert f(1) == 2 or f(2) == 3",
        "a = f(1)\nassert a > 2 or a < 2",
        // The handler ends the script unsuccessfully.
        "import sys\ntry:\n    assert f(1) == 2\nexcept AssertionError:\n    sys.exit(1)",
        // The check requires an exception.
        "raised = False\ntry:\n    f(1)\nexcept ValueError:\n    raised = True\nassert raised",
        "from z3 import Int, Solver, unsat\nx = Int('x')\ns = Solver()\ns.add(x > 5)\ns.add(x < 3)\nassert s.check() == unsat",
        "import re\nassert re.match('a', f(1)) is not None",
        // The library calls the function, which changes the variable.
        "n = 0\ndef key(x):\n    global n\n    n += 1\n    return x\nsorted([3, 1], key=key)\nassert n == 2",
        // A function can return any value.
        "def root(n):\n    r = n\n    while r * r > n:\n        r = (r + n // r) // 2\n    return r\n\
         n = f(1)\nr = root(n)\nassert r * r <= n < (r + 1) * (r + 1)",
        // The class defines the operator.
        "class V:\n    def __init__(self, x):\n        self.x = x\n    def __add__(self, o):\n        return V(self.x)\n\
         u, v = V(f(1)), V(f(2))\nassert u + v == v + u",
        "import re\np = re.compile(f(1))\nassert bool(p.match(f(2))) == bool(g(2))",
        // Whether these comprehensions have elements depends on the result of `f`.
        "assert {k: [1] for k in f(1)}",
        "assert [1 for a in [0] for b in f(a)]",
        "assert not {k: [] for k in f(1)}",
        "assert all(g(k) for k in {k: [] for k in f(1)})",
    ] {
        let reasons: Vec<_> = checks(source).iter().map(|check| check.vacuous).collect();
        assert!(reasons.iter().all(Option::is_none), "{source}: {reasons:?}");
    }
}

#[test]
fn a_replaced_assertion_can_fail_only_if_its_replacement_can() {
    let numpy =
        "import numpy as np\nfrom numpy import testing\nfrom numpy.testing import assert_equal\n";
    let of_numpy = "np.testing.assert_equal(f(1), 2)";
    let unittest = "import unittest\nfrom unittest import TestCase, mock\nclass T(TestCase):\n    def test(self):\n        \
                    self.assertEqual(f(1), 2)\n";
    for (replaced, check) in [
        ("np.testing.assert_equal = lambda *a, **k: None", of_numpy),
        ("testing.assert_equal = print", of_numpy),
        (
            "def same(a, b):\n    print(a, b)\n    log.append(a == b)\nnp.testing.assert_equal = same",
            of_numpy,
        ),
        (
            "def same(a, b):\n    return np.allclose(a, b)\nnp.testing.assert_equal = lambda a, b: same(a, b)",
            of_numpy,
        ),
        ("setattr(np.testing, 'assert_equal', lambda a, b: True)", of_numpy),
        ("from unittest import mock\nnp.testing.assert_equal = mock.Mock()", of_numpy),
        (
            "from unittest.mock import patch\nwith patch('numpy.testing.assert_equal'):\n    pass",
            of_numpy,
        ),
        ("assert_equal = print", "assert_equal(f(1), 2)"),
        ("def assert_equal(a, b):\n    print(a == b)", "assert_equal(f(1), 2)"),
    ] {
        assert_vacuous(&format!("{numpy}{replaced}\n{check}"), Some(Vacuity::Replaced));
    }
    for replaced in [
        "TestCase.assertEqual = lambda *a: None",
        "unittest.TestCase.assertEqual = print",
        "T.assertEqual = lambda *a: print(a)",
        "mock.patch.object(TestCase, 'assertEqual').start()",
    ] {
        assert_vacuous(&format!("{unittest}{replaced}\nunittest.main()"), Some(Vacuity::Replaced));
    }
    let in_pytest = "import contextlib, pytest\npytest.raises = contextlib.nullcontext\nwith pytest.raises(ValueError):\n    f(1)";
    assert_vacuous(in_pytest, Some(Vacuity::Replaced));
    for (replaced, check) in [
        ("", of_numpy),
        ("np.testing.assert_equal = testing.assert_array_equal", of_numpy),
        (
            "own = np.testing.assert_equal\nnp.testing.assert_equal = print\nnp.testing.assert_equal = own",
            of_numpy,
        ),
        (
            "own = np.testing.assert_equal\nnp.testing.assert_equal = lambda a, b: own(a, b)",
            of_numpy,
        ),
        ("np.testing.assert_equal = lambda a, b: 1 / (a == b)", of_numpy),
        ("np.testing.assert_equal = make()", of_numpy),
        ("np.testing.assert_array_equal = print", of_numpy),
        (
            "from unittest import mock\nnp.testing.assert_equal = mock.Mock(side_effect=make())",
            of_numpy,
        ),
    ] {
        assert_vacuous(&format!("{numpy}{replaced}\n{check}"), None);
    }
    // The replacement contains a check of its own.
    let raises =
        "def same(a, b):\n    if a != b:\n        raise ValueError\nnp.testing.assert_equal = same";
    let found: Vec<_> =
        checks(&format!("{numpy}{raises}\n{of_numpy}")).iter().map(|it| it.vacuous).collect();
    assert_eq!(found, [None, None]);
    assert_kinds(&unittest.replace("    def", "    assertEqual = print\n    def"), &[]);
}

#[test]
fn a_failure_that_a_later_check_reads_is_not_swallowed() {
    let source = "failures = []\nfor x in y:\n    try:\n        assert f(x) == 2\n    except AssertionError as error:\n        \
                  failures.append(error)\nif failures:\n    raise SystemExit(1)\n";
    let reasons: Vec<_> = checks(source).iter().map(|check| check.vacuous).collect();
    assert_eq!(reasons, [None, None]);
    // Without the later check, the failure is swallowed.
    let source = source.replace("raise SystemExit(1)", "print(failures)");
    assert_vacuous(&source, Some(Vacuity::Swallowed));
}

#[test]
fn a_failure_that_an_earlier_handler_raises_again_is_not_swallowed() {
    let exits = "import sys\ntry:\n    if f(1) != 2:\n        sys.exit(1)\nexcept SystemExit:\n    raise\nexcept BaseException:\n    pass";
    assert_vacuous(exits, None);
    // `except AssertionError` catches no exit, and nothing catches `os._exit`.
    let exits = "import sys\ntry:\n    if f(1) != 2:\n        sys.exit(1)\nexcept AssertionError:\n    pass";
    assert_vacuous(exits, None);
    let exits =
        "import os\ntry:\n    if f(1) != 2:\n        os._exit(1)\nexcept BaseException:\n    pass";
    assert_vacuous(exits, None);
    let exceptions =
        "try:\n    if f(1) != 2:\n        raise ValueError\nexcept KeyError:\n    print('no')";
    assert_vacuous(exceptions, None);
    let exceptions = "try:\n    if f(1) != 2:\n        raise ValueError\nexcept ValueError:\n    raise\nexcept Exception:\n    pass";
    assert_vacuous(exceptions, None);
    let other = exceptions.replace("except ValueError", "except KeyError");
    assert_vacuous(&other, Some(Vacuity::Swallowed));
    // The second `try` has no handlers, so its exception ends the script.
    let without_handlers = "x = f(1)\nfailed = False\ntry:\n    assert x == 2\nexcept AssertionError:\n    failed = True\n\
                            try:\n    if failed:\n        raise ValueError\nfinally:\n    print(x)";
    let reasons: Vec<_> = checks(without_handlers).iter().map(|check| check.vacuous).collect();
    assert_eq!(reasons, [None, None]);
}

#[test]
fn a_failure_that_ends_the_script_later_is_not_swallowed() {
    let caught = "failures = []\nfor x in y:\n    try:\n        assert f(x) == 2\n    except AssertionError as error:\n        failures.append(error)\n";
    let in_function = "def run(errors):\n    try:\n        assert f(1) == 2\n    except AssertionError as error:\n        errors.append(error)\n";
    let in_method = "class Run:\n    def run(self):\n        try:\n            assert f(1) == 2\n        except AssertionError:\n            self.ok = False\n";
    for (caught, end) in [
        (caught, "for failure in failures:\n    raise failure"),
        (caught, "while failures:\n    raise failures.pop()"),
        (caught, "import sys\nfor failure in failures:\n    sys.exit(1)"),
        (caught, "match failures:\n    case [first, *_]:\n        raise first"),
        (in_function, "found = []\nrun(found)\nif found:\n    raise SystemExit(1)"),
        (in_method, "it = Run()\nit.run()\nif not it.ok:\n    raise SystemExit(1)"),
    ] {
        let source = format!("{caught}{end}\n");
        assert!(checks(&source).iter().all(|check| check.vacuous.is_none()), "{source}");
        // If the statements at the end print instead of raising, the failure is swallowed.
        let source = source.replace("raise failures.pop()", "print(failures.pop())");
        let source = source.replace("sys.exit(1)", "print(1)");
        let source =
            source.replace("raise SystemExit(1)", "print(1)").replace("raise f", "print(f)\n    #");
        assert_vacuous(&source, Some(Vacuity::Swallowed));
    }
}

#[test]
fn a_check_in_a_function_is_judged_by_all_its_calls() {
    let source = "def run(claim):\n    try:\n        claim()\n    except AssertionError:\n        print('no')\n\
                  def one():\n    assert f(1) == 2\ndef two():\n    assert f(2) == 3\nrun(one)\n";
    let reasons: Vec<_> = checks(source).iter().map(|check| check.vacuous).collect();
    assert_eq!(reasons, [Some(Vacuity::Swallowed), None]);
    let reasons: Vec<_> =
        checks(&format!("{source}one()\n")).iter().map(|check| check.vacuous).collect();
    assert_eq!(reasons, [None, None]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn checks_that_hold_with_other_numbers_have_a_reason() {
    use Vacuity::{
        AlwaysTrue, Constant, NoException, OrTrue, Premises, Rounding, SameValue, Tolerance,
        TrueObject,
    };
    let mut wrong = Vec::new();
    for (source, expected) in [
        // The script computes a value from the claim, and then the claim from this value.
        (
            "import math\nstart, claim = 800.0, 95.0\nrate = math.log(start / claim)\n\
             left = start * math.exp(-rate)\nassert abs(left - claim) < 1e-6",
            SameValue,
        ),
        (
            "claim = 12750.0\nbooks = {'rent': 5200.0, 'wages': 4875.5}\nbooks['other'] = claim - sum(books.values())\n\
             assert abs(sum(books.values()) - claim) < 0.005",
            SameValue,
        ),
        ("x = f(1)\nlow, high = x * 0.95, x * 1.05\nassert low <= x <= high", SameValue),
        // The same expression occurs in a loop, in a comprehension and in `map`.
        (
            "again = []\nfor x in y:\n    again.append(round((x - 30) / 2, 1))\n\
             assert [round((x - 30) / 2, 1) for x in y] == again",
            SameValue,
        ),
        (
            "y = f(1)\ng = lambda a, b: a / b\nassert [g(*p) for p in y] == list(map(lambda p: g(*p), y))",
            SameValue,
        ),
        ("import math\nassert f'{f(1) * 0:.0f}' == f'{0.31:.0f}'", Rounding),
        ("assert (273.15 + 78.37) // 1000 == (273.15 + 64.7) // 1000", Rounding),
        (
            "for ms, claim in {180: 220.0}.items():\n    assert round(ms, -4) == round(claim, -4)",
            Rounding,
        ),
        (
            "a = {'water': 100.0, 'ether': 34.6}\nfor k, v in a.items():\n    \
          assert abs(v - {'water': 90.0, 'ether': 60.0}[k]) < 500",
            Tolerance,
        ),
        (
            "p = 0.16\nlow, high = 0.25 - 100, 0.25 + 100\nif p < low or p > high:\n    raise ValueError",
            Tolerance,
        ),
        // These conditions always hold, because of the types of values or the results of functions.
        ("import math\nL, G = 1.2, 9.81\nassert 2 * math.pi * math.sqrt(L / G) >= 0", AlwaysTrue),
        ("x = [f(n) for n in y]\nassert len(set(x)) <= len(x)", AlwaysTrue),
        ("x = f(1)\nassert 0 <= min(1.0, max(0.0, x)) <= 1", AlwaysTrue),
        (
            "x = int(f(1))\nassert all(0 <= (x >> n) % 256 <= 255 for n in (24, 16, 8, 0))",
            AlwaysTrue,
        ),
        (
            "h = {k: f(k) for k in y}\nlow, high = min(h.values()), max(h.values())\n\
             assert not [k for k, v in h.items() if v < low or v > high]",
            AlwaysTrue,
        ),
        ("d = f(1)\nassert 1 <= d.isoweekday() <= 7", AlwaysTrue),
        ("assert str(f(1)) != ''", AlwaysTrue),
        // These conditions depend on objects, classes or functions that the script defines or calls.
        (
            "class P:\n    def __init__(self, s):\n        self.s = s\n    def get(self, k):\n        return self.s[k]\n\
             claim = {'a': 0.36}\nassert P(dict(claim)).get('a') == claim['a']",
            Constant,
        ),
        (
            "class P:\n    def __init__(self):\n        self._p = f(1)\n    @property\n    def p(self):\n        \
             return self._p\nx = P()\nassert x.p == x._p",
            SameValue,
        ),
        (
            "class R:\n    @staticmethod\n    def f(a):\n        return g(a)\ndef g(a):\n    return a * 2 + 1\n\
             x = h(1)\nassert g(x) == R.f(x)",
            SameValue,
        ),
        (
            "from collections import namedtuple\nR = namedtuple('R', 'ok text')\nassert R(f(1), 'no')",
            TrueObject,
        ),
        ("assert filter(f, y)", TrueObject),
        ("async def g():\n    return f(1)\nassert g()", TrueObject),
        ("a = f(1)\nassert a.overlaps", TrueObject),
        (
            "import math\nmath.isclose = lambda a, b, **o: True\nassert math.isclose(f(1), 2)",
            Constant,
        ),
        // These conditions are disjunctions, or have premises that contradict each other.
        ("x = f(1)\nif not (x < 8 or x > 6):\n    raise ValueError", OrTrue),
        ("x = f(1)\nassert x % 2 == 0 or x % 2 == 1", OrTrue),
        ("total = f(1) * 3\nassert total == 897.25 or total", OrTrue),
        ("a = f(1)\nassert a == 1 or a - 1", OrTrue),
        // An operator of an unrelated class.
        (
            "class V:\n    def __add__(self, o):\n        return f(o)\nx, y = f(1), f(2)\nassert abs(x - y) < 1e12",
            Tolerance,
        ),
        ("assert any([f(1) == 2, True])", OrTrue),
        (
            "def implies(a, b):\n    return (not a) or b\nfor n in range(1, 2000):\n    \
             assert implies(n % 4 == 0 and n % 2 == 1, n % 16 == 0)",
            Premises,
        ),
        (
            "from z3 import And, Implies, Not, Real, Solver, unsat\nt = Real('t')\ns = Solver()\n\
             s.add(Not(Implies(And(t > 30, t < 10), f(t))))\nassert s.check() == unsat",
            Premises,
        ),
        // In these scripts, a name, an object or an attribute may change before the check.
        ("x = f(1)\nclaim = 340\nif x != claim:\n    claim = x\nassert x == claim", SameValue),
        (
            "e = {'a': 2}\na = g(1)\ne.update(a)\nassert not {k for k in a if e[k] != a[k]}",
            SameValue,
        ),
        (
            "class P:\n    def __init__(self):\n        self.errors = []\n    def feed(self, t):\n        try:\n            f(t)\n        \
             except ValueError as e:\n            self.errors.append(e)\np = P()\np.feed(1)\nassert not p.errors",
            NoException,
        ),
    ] {
        let reasons: Vec<_> = checks(source).iter().map(|check| check.vacuous).collect();
        if reasons != [Some(expected)] {
            wrong.push(format!("{source}\n-> {reasons:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn claims_that_samples_cannot_judge_have_no_reason() {
    let mut wrong = Vec::new();
    for source in [
        // These conditions are theorems about all elements of a loop.
        "for n in range(50):\n    assert (n + 1) ** 2 == n ** 2 + 2 * n + 1",
        "for a in y:\n    for b in y:\n        assert (a + b) ** 2 == a * a + 2 * a * b + b * b",
        "for n in range(1, 99):\n    assert 2 ** n > n",
        "for n in range(1, 200):\n    assert n % 2 == 1 or (n * n) % 4 == 0",
        // The checks fail with other numbers.
        "assert 3 * 19.99 == 59.97",
        "assert round(3 * 19.99 * 1.19, 2) == 71.36",
        "price, count = 19.99, 3\nassert price * count <= 100",
        "a, b, c = 1, 2, -3\nassert b * b - 4 * a * c > 0",
        "x = f(1)\nassert 3.1 < x < 3.2",
        "x = f(1)\nassert x > 2 or x < 1",
        "c = {n: f(n) for n in y}\nassert max(c.values()) / min(c.values()) < 1.01",
        // The numbers are equal by chance.
        "class V:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def dot(self, o):\n        \
         return self.x * o.x + self.y * o.y\nassert V(3, 4).dot(V(-4, 3)) == 0",
        "class S:\n    def __init__(self, a, b):\n        self.a = a\n        self.b = b\n    def meets(self, o):\n        \
         return self.a < o.b and o.a < self.b\nassert not S(6, 14).meets(S(14, 22))",
        "assert abs(-3) == 3",
        "assert min(8, 3) == 3",
        // The checks test which branch a function takes.
        "def sign(x):\n    if x < 0:\n        return -1\n    return 1\nassert sign(-3) == -1",
        "def eligible(age, income):\n    return age >= 18 and income < 30000\nassert eligible(25, 20000)",
        "def my_abs(x):\n    return -x if x < 0 else x\nv = f(1)\nassert my_abs(v) >= 0",
        "import sympy as sp\nx = sp.symbols('x', real=True)\nassert sp.sqrt(x ** 2) == sp.Abs(x)",
        // A function changes a name outside of the function.
        "fails = []\ndef check(got, want):\n    if got != want:\n        fails.append(got)\ncheck(17 * 19, 323)\nassert not fails",
        "ok = True\ndef check(got, want):\n    global ok\n    if got != want:\n        ok = False\n\
         check(17 * 19, 323)\nassert ok",
        // A method changes its object, or a statement changes an attribute.
        "class A:\n    def __init__(self):\n        self.n = 0\n    def add(self, x):\n        self.n += x\n\
         a = A()\na.add(5)\nassert a.n == 5",
        "a = f(1)\nbefore = a.total()\na.add(5)\nassert a.total() == before",
        "class A:\n    expected = 3\na = A()\na.expected = f(1)\nassert a.expected == 3",
    ] {
        let reasons: Vec<_> = checks(source).iter().map(|check| check.vacuous).collect();
        if reasons.iter().any(Option::is_some) {
            wrong.push(format!("{source}\n-> {reasons:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn checks_about_all_elements_of_a_range_are_general() {
    for (source, expected) in [
        ("for n in range(9):\n    assert f(n) == 2", true),
        ("assert all(f(n) == 2 for n in range(9))", true),
        (
            "import itertools\nx = [f(a) for a in itertools.product('ab', 'cd')]\nassert len(set(x)) == 4",
            true,
        ),
        ("bad = 0\nfor n in range(9):\n    bad += f(n) != 2\nassert bad == 0", true),
        ("for n in (1, 2):\n    assert f(n) == 2", false),
        ("assert f(1) == 2", false),
    ] {
        let found: Vec<_> = checks(source).iter().map(|check| check.is_general).collect();
        assert_eq!(found, [expected], "{source}");
    }
}

/// The search must not take exponential time for chains such as `x = x + x`, in which each value uses the previous
/// value twice.
#[test]
fn the_search_is_linear() {
    let doubled = "x = x + x\n".repeat(2_000);
    let either = "x = x or x\n".repeat(2_000);
    let mut calls = String::new();
    for number in 1..200 {
        let other = number - 1;
        let body = format!("    f{other}(x)\n    f{other}(x)\n    assert x == x\n");
        calls += "def f";
        calls += &number.to_string();
        calls += "(x):\n";
        calls += &body;
    }
    let branches = "if y:\n    z = 1\n".repeat(5_000);
    // Each of many calls judges many conditions about a long text.
    let text = "a".repeat(100_000);
    let conditions = format!("    assert '{}b' in s\n", "a".repeat(21)).repeat(300);
    let elifs = "elif g(i):\n    assert all(h(x) for x in xs)\n".repeat(3_000);
    let classes = (0..4_000).fold(String::new(), |all, n| {
        all + &format!("class C{n}:\n    def m{n}(self):\n        pass\n")
    });
    for source in [
        format!("s = '{text}'\ndef c():\n{conditions}{}", "c()\n".repeat(900)),
        format!("if f(0):\n    assert f(1)\n{elifs}"),
        format!("{classes}assert f(1)"),
        format!("x = f(1)\n{doubled}assert x == x"),
        format!("x = f(1)\n{either}assert x"),
        format!("def f0(x):\n    assert x == 1\n{calls}f199(1)\n"),
        format!("{branches}assert z == 1"),
        "assert f(1) == 2\n".repeat(30_000),
    ] {
        let analysis = analyze(&source).unwrap();
        assert!(!analysis.checks.is_empty());
        assert!(analysis.checks.len() <= 1_000);
    }
}

/// Values that refer to each other in long chains must not exhaust the stack.
#[test]
fn long_chains_of_values_are_followed_a_little_way() {
    let chain =
        |first: &str, line: &str| format!("{first}\n{}", format!("{line}\n").repeat(20_000));
    for (source, condition) in [
        (chain("import math\ny = math", "y = y.a"), "y.b(1) == 2"),
        (chain("t = int", "t = (t, int)"), "isinstance(1, t)"),
        (chain("x = f(1)", "x = enumerate(x)"), "all(x)"),
        (chain("x = f(1)", "x = not x"), "not x"),
        (chain("x = f(1)", "x = (x, x)"), "x == x"),
        (chain("x = f(1)", "x = [x for _ in x]"), "all(x)"),
        (chain("x = f(1)", "x = x if x else x"), "x"),
        (chain("x = f(1)", "x = list(x)"), "x == f(2)"),
        (chain("x = f(1)", "x = x - 1 + x"), "x == 1"),
    ] {
        let analysis = analyze(&format!("{source}assert {condition}\n")).unwrap();
        assert_eq!(analysis.checks.len(), 1, "{condition}");
    }
}

/// Nested loops over the variables of outer loops must not take exponential time.
#[test]
fn loops_over_variables_of_loops_are_followed_once() {
    let mut source = "def f():\n    assert g(1) == 2\nv0 = u0 = f\n".to_owned();
    for level in 1..=40 {
        let (indent, below) = (" ".repeat(level - 1), level - 1);
        let [one, other] = if level % 2 == 0 { ["u", "v"] } else { ["v", "u"] };
        let lines = [
            format!("{indent}for {one}{level} in [v{below}, u{below}, f]:"),
            format!("{indent} {other}{level} = {one}{level}"),
        ];
        source += &lines.join("\n");
        source += "\n";
    }
    source += &" ".repeat(40);
    source += "v40()\n";
    assert_eq!(analyze(&source).unwrap().checks.len(), 1);
}

#[test]
fn every_reason_has_an_identifier_and_an_explanation() {
    let mut ids: Vec<_> = Vacuity::all().map(Vacuity::id).collect();
    assert!(Vacuity::all().all(|reason| !reason.why().is_empty()));
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}
