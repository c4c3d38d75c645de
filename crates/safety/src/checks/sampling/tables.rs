//! Lists the functions that samples compute. The functions belong to Python, its standard library or mathematical
//! packages.

/// A function of one number, by its qualified name.
type Named = (&'static str, fn(f64) -> f64);

/// Functions of one number that samples compute.
pub(super) const MATH: &[Named] = &[
    ("abs", f64::abs),
    ("float", |it| it),
    ("int", f64::trunc),
    ("sympy.Integer", |it| it),
    ("sympy.Float", |it| it),
    ("sympy.Rational", |it| it),
    ("sympy.N", |it| it),
    ("sympy.simplify", |it| it),
    ("sympy.expand", |it| it),
    ("sympy.nsimplify", |it| it),
    ("sympy.sympify", |it| it),
    ("sympy.S", |it| it),
    ("sympy.sqrt", f64::sqrt),
    ("sympy.exp", f64::exp),
    ("sympy.log", f64::ln),
    ("sympy.Abs", f64::abs),
    ("fractions.Fraction", |it| it),
    ("decimal.Decimal", |it| it),
    ("math.fabs", f64::abs),
    ("math.sqrt", f64::sqrt),
    ("math.exp", f64::exp),
    ("math.expm1", f64::exp_m1),
    ("math.log", f64::ln),
    ("math.log10", f64::log10),
    ("math.log2", f64::log2),
    ("math.log1p", f64::ln_1p),
    ("math.sin", f64::sin),
    ("math.cos", f64::cos),
    ("math.tan", f64::tan),
    ("math.asin", f64::asin),
    ("math.acos", f64::acos),
    ("math.atan", f64::atan),
    ("math.sinh", f64::sinh),
    ("math.cosh", f64::cosh),
    ("math.tanh", f64::tanh),
    ("math.radians", f64::to_radians),
    ("math.degrees", f64::to_degrees),
    ("math.floor", f64::floor),
    ("math.ceil", f64::ceil),
    ("math.trunc", f64::trunc),
    ("numpy.abs", f64::abs),
    ("numpy.sqrt", f64::sqrt),
    ("numpy.exp", f64::exp),
    ("numpy.log", f64::ln),
    ("numpy.log10", f64::log10),
    ("numpy.sin", f64::sin),
    ("numpy.cos", f64::cos),
    ("numpy.radians", f64::to_radians),
    ("numpy.float64", |it| it),
    ("numpy.floor", f64::floor),
    ("numpy.ceil", f64::ceil),
    ("numpy.sign", f64::signum),
];

/// Functions of [`MATH`] that drop the sign or the decimals of a number.
pub(super) const LOSSY: &[&str] = &[
    "abs",
    "int",
    "math.ceil",
    "math.fabs",
    "math.floor",
    "math.trunc",
    "numpy.abs",
    "numpy.ceil",
    "numpy.floor",
    "numpy.sign",
    "sympy.Abs",
];

/// Numeric constants of modules, by qualified name.
pub(super) const CONSTANTS: &[(&str, f64)] = &[
    ("math.pi", std::f64::consts::PI),
    ("math.e", std::f64::consts::E),
    ("math.tau", std::f64::consts::TAU),
    ("math.inf", f64::INFINITY),
    ("numpy.pi", std::f64::consts::PI),
    ("numpy.inf", f64::INFINITY),
    ("sympy.pi", std::f64::consts::PI),
];

/// Functions with results that are never negative.
pub(super) const NOT_NEGATIVE: &[&str] = &[
    "len",
    "ord",
    "statistics.variance",
    "statistics.pvariance",
    "statistics.stdev",
    "statistics.pstdev",
    "numpy.std",
    "numpy.var",
    "numpy.linalg.norm",
    "numpy.count_nonzero",
    "math.comb",
    "math.perm",
    "math.factorial",
    "math.isqrt",
    "math.gcd",
    "math.lcm",
    "math.dist",
    "math.hypot",
    "time.perf_counter",
    "time.monotonic",
];

/// Methods with results that are never negative.
pub(super) const NOT_NEGATIVE_METHODS: &[&str] =
    &["count", "total_seconds", "bit_length", "std", "var", "index", "timestamp", "__len__"];

/// Attributes with integer values, each with its minimum and its maximum.
pub(super) const ATTRIBUTES: &[(&str, u8, u8)] = &[
    ("month", 1, 12),
    ("day", 1, 31),
    ("hour", 0, 23),
    ("minute", 0, 59),
    ("second", 0, 59),
    ("denominator", 1, 60),
];

/// Functions that return a collection of the distinct elements of their argument.
pub(super) const SETS: &[&str] = &["set", "frozenset", "collections.Counter"];

/// Functions that return symbols of a computer algebra system.
pub(super) const SYMBOLS: &[&str] =
    &["sympy.symbols", "sympy.Symbol", "sympy.Dummy", "sympy.Function", "sympy.var"];
