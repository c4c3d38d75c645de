def load(modules, threads):
    # Imports the modules, and uses some of them once, because many objects are created only at the first use. Returns
    # objects that must stay alive. `threads` returns the number of threads of this process, which must remain 1.
    import os, sys

    uses = {
        "sympy": """
import sympy as s
x, y = s.symbols("x y")
f = s.sin(x) ** 2 * s.exp(x) + x ** 3 / (1 + x)
s.diff(f, x); s.integrate(x ** 2 * s.exp(x), x); s.integrate(s.sin(x), (x, 0, s.pi))
s.solve(x ** 2 - 2, x); s.solve([x + y - 1, x - y], [x, y]); s.limit(s.sin(x) / x, x, 0)
s.series(s.exp(x), x, 0, 4); s.simplify(s.sin(x) ** 2 + s.cos(x) ** 2); s.factor(x ** 2 - 1)
s.expand((x + 1) ** 3); s.Matrix([[1, 2], [3, 4]]).det(); s.N(s.pi, 20); s.latex(f); str(f)
s.Eq(x, y); s.Rational(1, 3) + s.sqrt(2); s.apart(1 / (x ** 2 - 1)); s.isprime(97)
s.summation(x, (x, 1, 10)); s.sympify("x**2 + 1"); s.lambdify(x, x ** 2)(3)
for g in (s.sin, s.cos, s.tan, s.exp, s.log, s.sqrt, s.atan):
    str(s.diff(g(x) * x, x)); str(s.diff(g(x) * s.exp(x), x)); str(s.integrate(x ** 2 + x, x))
""",
        # Each problem here has a solution. For a problem without a solution, Z3 starts a thread, which a fork would
        # not have.
        "z3": """
import z3
# A context of its own: which solution is found first depends on what the context has seen. The
# one that scripts use is only made.
z3.main_ctx()
context = z3.Context()
a, b, p = z3.Int("a", context), z3.Real("b", context), z3.Bool("p", context)
for claims in ([a > 1, a < 3], [b > 1, p], [z3.BitVec("c", 8, context) == 3]):
    solver = z3.Solver(ctx=context); solver.add(*claims)
    solver.check() == z3.sat and str(solver.model())
z3.simplify(a + a)
# A context takes 17 MB.
del a, b, p, claims, solver, context
""",
        # The first deadline loads the holidays of all countries.
        "qwed_legal": """
import qwed_legal
qwed_legal.DeadlineGuard(country="US").verify("2026-01-15", "30 business days", "2026-02-14")
""",
        # Finds fonts, creates glyphs and ticks, and loads the compressor. Closing the figure makes the figures of
        # scripts start with number 1.
        "matplotlib.pyplot": """
import io, matplotlib.pyplot as plt
figure, axes = plt.subplots()
axes.plot([1, 2], [0.5, -4], label="a"); axes.bar([1, 2], [3, 4]); axes.set_title("a 1"); axes.legend()
axes.set_xlabel("$x^2$"); axes.grid(True)
figure.savefig(io.BytesIO(), format="png")
plt.close(figure)
""",
        "numpy": """
import numpy as n, numpy.linalg, numpy.random
n.linalg.solve(n.eye(2), n.ones(2)); str(n.arange(3) / 2); n.random.rand(1); n.fft.fft(n.ones(2))
""",
    }

    def settings():
        # Returns the global settings for the precision of computations. The default of mpmath is 53 bits.
        import decimal

        c = decimal.getcontext()
        traps = tuple(sorted(str(signal) for signal, is_on in c.traps.items() if is_on))
        mpmath = sys.modules.get("mpmath")
        precision = mpmath.mp.prec if mpmath else 53
        return (c.prec, c.rounding, c.Emin, c.Emax, c.capitals, c.clamp, traps), precision

    def restore(precision):
        import decimal

        decimal.setcontext(decimal.Context())
        if "mpmath" in sys.modules:
            sys.modules["mpmath"].mp.prec = precision

    def unload(name):
        # Unloads a module that changes global settings. The settings must not affect a script that does not import the
        # module. A script that imports the module loads it again, which applies the settings.
        for module in list(sys.modules):
            if module == name or module.startswith(name + "."):
                file = getattr(sys.modules[module], "__file__", None)
                if file and not file.endswith((".py", ".pyc")):
                    # Native code must not be loaded twice.
                    print("%s changes how numbers are computed; leave it out of the list" % name,
                          file=sys.stderr)
                    os._exit(1)
                del sys.modules[module]

    kept = []
    for name in modules:
        before = settings()
        try:
            __import__(name)
            if name in uses:
                kept.append({"__name__": "preload"})
                exec(uses[name], kept[-1])
        except ImportError:
            # The module is not installed. A script that imports it gets the same error.
            pass
        except Exception as error:
            print("%s could not be loaded: %r" % (name, error), file=sys.stderr)
        if settings() != before:
            restore(before[1])
            unload(name)
        if threads() != 1:
            # A fork would not have the thread, but would have the locks that the thread holds.
            print("%s starts a thread; leave it out of the list" % name, file=sys.stderr)
            os._exit(1)
    return kept
