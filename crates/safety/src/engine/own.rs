//! Evaluates the script's own classes and methods, the strings of code that the script composes, and harmless reads of
//! the interpreter's internals.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use ruff_python_ast::{
    BoolOp, CmpOp, Expr, ExprAttribute, ExprCall, ExprCompare, ExprName, UnaryOp,
};
use ruff_text_size::Ranged as _;
use smallvec::SmallVec;

use super::analyzer::Analyzer;
use super::expressions::Role;
use crate::knowledge::objects;
use crate::knowledge::value::{Value, Values};
use crate::symbols::{Binding, BindingId, Definition, ScopeId, ScopeKind, Source, last_name};

/// The maximum number of bindings of one name that are checked.
const SOURCES_MAX: usize = 64;
/// The maximum length of a chain of f-strings in which each f-string contains a name that is bound to the next
/// f-string.
const CODE_DEPTH_MAX: usize = 4;

/// External functions, each with the members of its result that are harmless to read. The result of such a function
/// describes a frame, a stack or the variables of a closure. Through the other members of the result, a script can
/// reach every object.
const READ_OF: &[(&str, &[&str])] = &[
    ("inspect.currentframe", OF_FRAME),
    ("sys._getframe", OF_FRAME),
    ("inspect.stack", &["function", "lineno", "filename", "index", "code_context"]),
    ("inspect.getclosurevars", &["nonlocals", "unbound"]),
];
const OF_FRAME: &[&str] = &["f_lineno", "co_name", "co_qualname", "co_firstlineno", "co_filename"];

/// Names with which a script can reach an object in a way that the analysis does not follow. Examples are names that
/// lead from a method to the method's function, and functions that take an object by a computed name.
#[rustfmt::skip]
const TAKING_OUT: &[&str] = &[
    "__dict__", "__func__", "__get__", "__getattribute__", "__wrapped__", "attrgetter", "getattr",
    "globals", "inspect", "locals", "methodcaller", "vars",
];

/// Names with which a script can assign to a variable in a way that the analysis cannot follow. Functions with these
/// names set an attribute, or run other code that may assign to the variable.
#[rustfmt::skip]
const SETTING: &[&str] = &[
    "Timer", "__import__", "__setattr__", "import_module", "mock", "patch", "repeat", "setattr",
    "timeit",
];

impl<'a> Analyzer<'a, '_> {
    pub(super) fn uses_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.symbols.uses(name).is_some())
    }

    /// Returns whether an attribute with the name of one of the interpreter's internals is harmless, because it belongs
    /// to the script's own objects.
    pub(super) fn is_own_attribute(
        &mut self,
        base: &Values<'a>,
        attribute: &'a ExprAttribute,
    ) -> bool {
        match attribute.attr.as_str() {
            "__subclasses__" => {
                objects::are_own_classes(base)
                    && (!self.uses_any(TAKING_OUT)
                        || self.all_sources_are(&attribute.value, |_, binding| {
                            matches!(binding.source, Source::Definition(_))
                        }))
            }
            "__self__" => self.is_own_method(&attribute.value),
            name => {
                (!name.starts_with("__") || name == "__import__")
                    && self.symbols.own_attributes.contains(name)
            }
        }
    }

    /// Returns whether `expr` is a method that the script defines, or a name that is bound to such a method.
    fn is_own_method(&mut self, expr: &Expr) -> bool {
        let symbols = self.symbols;
        let is_own = |expr: &Expr| {
            matches!(expr, Expr::Attribute(method)
                if symbols.own_attributes.contains(method.attr.as_str()))
        };
        is_own(expr)
            || self.all_sources_are(
                expr,
                |_, binding| matches!(binding.source, Source::Value(value) if is_own(value)),
            )
    }

    /// Returns the bindings that may have given `name` its value at this place in the source. Returns `None` if the
    /// name may be unbound, if the script may change names in ways that the analysis cannot follow, or if more than
    /// [`SOURCES_MAX`] bindings are possible.
    fn sources_of(&self, name: &ExprName) -> Option<SmallVec<[BindingId; 4]>> {
        let symbols = self.symbols;
        let mut sources = SmallVec::new();
        let at = name.start();
        self.work().spend(symbols.depth(self.scope));
        let is_certain =
            symbols.look_up(symbols.known_here(name), self.scope, at, |symbol, is_same_scope| {
                match is_same_scope.then(|| symbols.reaching(symbol, at)).flatten() {
                    Some(reaching) => sources.extend(reaching),
                    None => sources.extend(symbol.all().take(SOURCES_MAX + 1)),
                }
            });
        self.work().spend(sources.len());
        let are_few = (1..=SOURCES_MAX).contains(&sources.len());
        (is_certain && !symbols.has_dynamic_names && are_few).then_some(sources)
    }

    /// Returns whether `expr` is a name, and `is_such` holds for all bindings that the name may have.
    fn all_sources_are(
        &mut self,
        expr: &Expr,
        is_such: impl Fn(&mut Self, &Binding<'a>) -> bool,
    ) -> bool {
        let Expr::Name(name) = expr else { return false };
        let Some(sources) = self.sources_of(name) else { return false };
        sources.into_iter().all(|id| {
            let binding = self.symbols.binding(id);
            self.in_scope(binding.evaluated_in, |this| is_such(this, binding))
        })
    }

    /// Returns whether `expr` is `self` or `cls` as a parameter of a method, which stands for the object on which the
    /// method is called.
    pub(super) fn is_self(&mut self, expr: &Expr) -> bool {
        matches!(expr, Expr::Name(name) if matches!(name.id.as_str(), "self" | "cls"))
            && self.all_sources_are(expr, |this, binding| {
                matches!(binding.source, Source::Parameter(_, function)
                    if this.symbols.class_around(function).is_some())
            })
    }

    /// Returns whether a metaclass of the script creates the class. Such a metaclass decides which objects are
    /// instances of the class.
    pub(super) fn has_own_metaclass(&mut self, class: &'a Expr) -> bool {
        let classes = self.quietly(|this| this.evaluate(class, Role::Callee));
        classes.known.iter().any(|value| match value {
            Value::Own(_) => true,
            Value::OwnClass(scope) => {
                let Definition::Class(class) = self.symbols.definition(*scope) else {
                    return false;
                };
                let arguments = class.arguments.as_deref();
                arguments.and_then(|of| of.find_keyword("metaclass")).is_some_and(|metaclass| {
                    let of = self.value_in(&metaclass.value, self.symbols.parent(*scope));
                    !matches!(of.single(), Some(Value::Object(_)))
                })
            }
            _ => false,
        })
    }

    /// Returns whether `expr` is always a subclass of `parameter`, like `sub` in
    /// `for sub in cls.__subclasses__(): walk(sub)`. If a function calls itself with such a class, it receives only
    /// subclasses of a class that it has already received.
    pub(super) fn is_below_parameter(
        &mut self,
        expr: &Expr,
        parameter: &str,
        function: ScopeId,
    ) -> bool {
        self.all_sources_are(expr, |this, binding| match binding.source {
            Source::Element(Expr::Call(call)) => this.calls_subclasses(call, parameter, function),
            Source::Element(list) => this.all_sources_are(list, |this, binding| {
                matches!(binding.source, Source::Value(Expr::Call(call))
                    if this.calls_subclasses(call, parameter, function))
            }),
            _ => false,
        })
    }

    fn calls_subclasses(&mut self, call: &ExprCall, parameter: &str, function: ScopeId) -> bool {
        let Expr::Attribute(method) = &*call.func else { return false };
        let is_given = |binding: &Binding<'a>| {
            binding.name == parameter
                && matches!(binding.source, Source::Parameter(_, of) if of == function)
        };
        method.attr.as_str() == "__subclasses__"
            && self.all_sources_are(&method.value, |_, binding| is_given(binding))
    }

    /// Returns whether `attribute` is a harmless read of the interpreter's internals, for example
    /// `inspect.currentframe().f_code.co_name`. For a harmless read, also evaluates the arguments of the call in
    /// `attribute`.
    pub(super) fn is_harmless_reading(&mut self, attribute: &'a ExprAttribute) -> bool {
        let Some(call) = source_of_reading(&attribute.value) else { return false };
        let name = attribute.attr.as_str();
        if !READ_OF.iter().any(|(_, harmless)| harmless.contains(&name)) {
            return false;
        }
        let callee = self.quietly(|this| this.evaluate(&call.func, Role::Callee));
        let is_read = matches!(callee.single(), Some(Value::Object(path))
            if READ_OF.iter().any(|(of, harmless)| of == path && harmless.contains(&name)));
        if is_read {
            self.arguments(call, None);
        }
        is_read
    }

    /// Returns whether `call` only reads the location of a frame: `inspect.getfile(inspect.currentframe())`.
    pub(super) fn describes_frame(&mut self, call: &'a ExprCall) -> bool {
        let name = last_name(&call.func).unwrap_or_default();
        if !matches!(name, "getfile" | "getsource") || self.symbols.own_attributes.contains(name) {
            return false;
        }
        let [Expr::Call(frame)] = &*call.arguments.args else { return false };
        let mut is_member = |expr, paths: &[&str]| {
            let values = self.quietly(|this| this.evaluate(expr, Role::Callee));
            matches!(values.single(), Some(Value::Object(path)) if paths.contains(&&**path))
        };
        is_member(&call.func, &["inspect.getfile", "inspect.getsource"])
            && is_member(&frame.func, &["inspect.currentframe", "sys._getframe"])
            && frame.arguments.is_empty()
    }

    /// Returns whether `expr` is a string that Z3 itself makes from a problem, or a concatenation of such strings.
    pub(super) fn is_text_of_solver(&mut self, expr: &'a Expr) -> bool {
        match expr {
            Expr::Call(call) => {
                let name = last_name(&call.func).filter(|_| call.func.is_attribute_expr());
                name.is_some_and(|name| {
                    matches!(name, "sexpr" | "to_smt2")
                        && !self.symbols.own_attributes.contains(name)
                })
            }
            Expr::BinOp(sum) => {
                self.is_text_of_solver(&sum.left) && self.is_text_of_solver(&sum.right)
            }
            _ => self.all_sources_are(expr, |this, binding| {
                matches!(binding.source, Source::Value(value)
                    if value.is_call_expr() && this.is_text_of_solver(value))
            }),
        }
    }

    /// Returns the truth value of a condition. Returns `None` if the truth value is not certain. The truth value can be
    /// certain for a constant, a name that is bound only to constants, a comparison with the version of Python, and for
    /// `not`, `and` and `or` of such conditions.
    pub(super) fn is_true(&mut self, test: &'a Expr) -> Option<bool> {
        match test {
            Expr::UnaryOp(not) if not.op == UnaryOp::Not => Some(!self.is_true(&not.operand)?),
            Expr::BoolOp(bool_op) => {
                // One operand can decide the result, regardless of its position: a true operand of `or`, or a false
                // operand of `and`.
                let decides = bool_op.op == BoolOp::Or;
                let mut parts = bool_op.values.iter().map(|part| self.is_true(part));
                let all = parts.try_fold(true, |all, part| match part {
                    Some(of) if of == decides => Err(()),
                    part => Ok(all && part.is_some()),
                });
                match all {
                    Err(()) => Some(decides),
                    Ok(all_known) => all_known.then_some(!decides),
                }
            }
            // A metaclass may change the names in the body of a class, so a condition in the body is never certain.
            Expr::Name(_)
                if self.symbols.star_imports.modules.is_empty()
                    && self.symbols.kind(self.scope) != ScopeKind::Class
                    && !self.sets_unseen() =>
            {
                let is = |of: bool| move |_: &mut Self, binding: &Binding<'a>| matches!(binding.source, Source::Value(value) if is_constant(value) == Some(of));
                let is_false = self.all_sources_are(test, is(false));
                is_false.then_some(false).or_else(|| {
                    let is_true = self.all_sources_are(test, is(true));
                    is_true.then_some(true)
                })
            }
            Expr::Compare(compare) => self.is_version(compare),
            test => is_constant(test),
        }
    }

    /// Returns whether the script may set a global variable in a way that the analysis cannot follow. Judges by the
    /// names that the script uses, such as `setattr`.
    fn sets_unseen(&self) -> bool {
        self.uses_any(TAKING_OUT) || self.uses_any(SETTING)
    }

    /// Returns the result of a comparison with the version of Python, if the result is the same for every version 3.
    fn is_version(&mut self, compare: &'a ExprCompare) -> Option<bool> {
        let ([op], [right]) = (&*compare.ops, &*compare.comparators) else { return None };
        let (version, is_number) = match &*compare.left {
            Expr::Subscript(item) if is_constant(&item.slice) == Some(false) => {
                (&*item.value, true)
            }
            Expr::Attribute(major) if major.attr.as_str() == "major" => (&*major.value, true),
            version => (version, false),
        };
        let number = |expr: &Expr| expr.as_number_literal_expr()?.value.as_int()?.as_u8();
        let (with, is_whole) = match right {
            Expr::Tuple(tuple) if !is_number => {
                let (first, rest) = tuple.elts.split_first()?;
                // A comparison of the version with `(3, 0)` has the same result as a comparison with `(3,)`.
                (number(first)?, rest.len() < 3 && rest.iter().all(|part| number(part) == Some(0)))
            }
            right if is_number => (number(right)?, true),
            _ => return None,
        };
        let holds = match op {
            CmpOp::Lt if with <= 3 && (with < 3 || is_whole) => false,
            CmpOp::Lt if with > 3 => true,
            CmpOp::LtE | CmpOp::Eq if with < 3 => false,
            CmpOp::Gt | CmpOp::GtE | CmpOp::NotEq if with < 3 => true,
            CmpOp::GtE if with == 3 && is_whole => true,
            CmpOp::Eq if with == 3 && is_number => true,
            CmpOp::NotEq if with == 3 && is_number => false,
            _ => return None,
        };
        if self.sets_unseen() || self.symbols.own_attributes.contains("version_info") {
            return None;
        }
        let of = self.quietly(|this| this.evaluate(version, Role::Base));
        matches!(of.single(), Some(Value::Object(path)) if path == "sys.version_info")
            .then_some(holds)
    }

    /// Returns whether a call of `__import__` can import only harmless modules. If so, records the imports.
    pub(super) fn imports_harmless(
        &mut self,
        callee: &Values<'a>,
        name: Option<&Values<'a>>,
    ) -> bool {
        let is_import = |value: &Value<'_>| matches!(value, Value::Object(path) if path == "builtins.__import__");
        if !callee.known.iter().all(is_import) {
            return false;
        }
        let Some(name) = name else { return false };
        let (names, is_complete) = name.texts();
        let names: Vec<&str> = names.collect();
        let is_harmless = is_complete
            && !names.is_empty()
            && names.iter().all(|name| objects::is_harmless_module(name));
        if is_harmless && !self.is_quiet {
            for name in names {
                self.record_import(name.to_owned());
            }
        }
        is_harmless
    }

    /// Evaluates a part of an f-string that runs as code. Plain data with an unknown value, such as a float, becomes
    /// the number 0. If `f` is a function of the script, `f.__name__` is the name of `f`.
    pub(super) fn part_of_code(&mut self, expr: &'a Expr) -> Values<'a> {
        match expr {
            Expr::Attribute(name) if name.attr.as_str() == "__name__" => {
                let of = self.evaluate(&name.value, Role::Harmless);
                return self.names_of_functions(&of);
            }
            Expr::Name(name) if self.code_depth < CODE_DEPTH_MAX => {
                if let Some([only]) = self.sources_of(name).as_deref()
                    && let Binding { source: Source::Value(value), evaluated_in, .. } =
                        self.symbols.binding(*only)
                    && (value.is_f_string_expr() || value.is_attribute_expr())
                {
                    let value = *value;
                    return self.in_scope(*evaluated_in, |this| {
                        this.as_code(|this| match value {
                            Expr::FString(_) => this.evaluate(value, Role::Harmless),
                            _ => this.part_of_code(value),
                        })
                    });
                }
            }
            _ => {}
        }
        let mut values = self.evaluate(expr, Role::Harmless);
        if values.known.contains(&Value::Plain) {
            let shown = |value: &Value<'a>| match value {
                Value::Plain => Value::Number(0),
                value => value.clone(),
            };
            values.known = values.known.iter().map(shown).collect();
        }
        values
    }

    /// Returns the names of the functions, or an unknown value if the script may change these names.
    fn names_of_functions(&self, functions: &Values<'a>) -> Values<'a> {
        let changes = self.symbols.own_attributes.contains("__name__")
            || self.uses_any(&["setattr", "__setattr__", "__set__", "update_wrapper", "wraps"]);
        let name = |value: &Value<'a>| match value {
            Value::OwnFunction(scope) => self.symbols.definition(*scope).name(),
            _ => None,
        };
        let names: Option<Vec<_>> = functions.known.iter().map(name).collect();
        match names {
            Some(names) if !changes && !functions.is_open => {
                names.into_iter().map(Values::text).collect()
            }
            _ => Values::unknown(),
        }
    }
}

/// Returns the truth value of a constant. Returns `None` for any other expression.
fn is_constant(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::BooleanLiteral(literal) => Some(literal.value),
        Expr::NoneLiteral(_) => Some(false),
        Expr::NumberLiteral(literal) => Some(literal.value.as_int()?.as_u8() != Some(0)),
        _ => None,
    }
}

/// Removes `.f_back`, `.f_code` and list indexes from the end of an expression. Returns the call that remains, for
/// example `inspect.stack()` for `inspect.stack()[0]`.
fn source_of_reading(mut expr: &Expr) -> Option<&ExprCall> {
    loop {
        expr = match expr {
            Expr::Call(call) => return Some(call),
            Expr::Attribute(of) if matches!(of.attr.as_str(), "f_back" | "f_code") => &of.value,
            Expr::Subscript(item) if item.slice.is_number_literal_expr() => &item.value,
            _ => return None,
        }
    }
}
