//! Evaluates values that functions of the standard library store and return later, for example the function in a
//! `partial`, a default in a signature, or the argument of an exception.

#![expect(clippy::wildcard_enum_match_arm, reason = "a few kinds of values are of interest")]

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged as _;

use super::analyzer::{Analyzer, Flow};
use super::conditions::Arguments;
use super::expressions::{Role, escaping};
use super::flow::UNKNOWN_MEMBER;
use super::getters;
use crate::knowledge::index::INDEX;
use crate::knowledge::objects::{self, Passing};
use crate::knowledge::value::{Value, Values};
use crate::rules::{Condition, Rule};
use crate::symbols::{Definition, ScopeId};

/// The maximum number of classes in a hierarchy that are searched for external bases.
const BASES_MAX: usize = 16;
/// The maximum number of `raise` statements that are searched for arguments.
const RAISED_MAX: usize = 32;
/// The number of functions and modules in the script's attributes at which the analysis replaces all of them by one
/// unknown attribute.
const CONTENTS_MAX: usize = 15;

/// Predicates of `inspect`. Members for which one of these predicates holds do not lead to other modules.
#[rustfmt::skip]
const HARMLESS_PREDICATES: &[&str] = &[
    "inspect.isabstract", "inspect.isbuiltin", "inspect.isclass", "inspect.iscoroutinefunction",
    "inspect.isdatadescriptor", "inspect.isfunction", "inspect.isgeneratorfunction",
    "inspect.ismethod", "inspect.isroutine",
];

impl<'a> Analyzer<'a, '_> {
    /// Evaluates the result of an external function that returns some of its arguments. Returns `None` for any other
    /// function.
    pub(super) fn passed_back(
        &mut self,
        path: &str,
        arguments: &Arguments<'a>,
        expr: &'a Expr,
    ) -> Option<Values<'a>> {
        let at = |place| arguments.positional(place).cloned().unwrap_or_default();
        match path {
            "inspect.classify_class_attrs" | "inspect.getmembers" | "inspect.getmembers_static" => {
                return Some(self.members(arguments, expr));
            }
            "inspect.signature" | "inspect.getfullargspec" => {
                return Some(self.defaults_of(&at(0))?.or_others());
            }
            "types.new_class" => return Some(self.class_from(&at(1))),
            "operator.attrgetter" => return Some(getters::getter(arguments, usize::MAX)),
            "operator.methodcaller" => return Some(getters::getter(arguments, 1)),
            "unittest.mock.patch.object" | "mock.patch.object" => {
                self.check_patched(arguments, expr);
            }
            _ => {}
        }
        let passed = match objects::passing(path)? {
            Passing::Argument(place) => at(place),
            Passing::Element(place) => {
                let mut element = self.any_element(&at(place));
                element.add(at(place + 1));
                element
            }
            Passing::Elements => {
                let all = arguments.positionals().map(|part| self.any_element(part));
                Values::container(all.collect())
            }
            Passing::Kept => argument_values(arguments)?,
            Passing::Named => arguments.as_map(),
            Passing::Wrapped => {
                let mut wrapped = arguments.get(3, "wraps")?.clone();
                wrapped.known.retain(|value| matches!(value, Value::Object(_)));
                wrapped
            }
        };
        Some(passed.or_others())
    }

    /// Evaluates a class that a call creates from `bases`. The result contains the bases that a rule finds, and the
    /// bases with a rule about their calls, so that these rules also apply to the new class.
    pub(super) fn class_from(&mut self, bases: &Values<'a>) -> Values<'a> {
        let mut bases = self.any_element(bases).or_others();
        bases.known.retain(|base| {
            matches!(base, Value::Object(path)
                if INDEX.judges_calls_of(path) || INDEX.is_found(path))
        });
        bases
    }

    /// Returns the functions and modules that the script stores in attributes of its classes and objects.
    pub(super) fn own_contents(&mut self) -> Values<'a> {
        self.flowing(Flow::Members, |this| {
            let mut values = Values::default();
            for name in this.symbols.attributes() {
                if this.work().is_spent() {
                    break;
                }
                let stored = this.attribute_value(name).unwrap_or_default();
                this.work().spend(1 + stored.weight());
                values.add(leading(&stored));
                if values.known.len() >= CONTENTS_MAX {
                    // If there are too many values, return an unknown attribute. A truncated list would depend on the
                    // order of the attributes.
                    return Values::object(UNKNOWN_MEMBER).or_others();
                }
            }
            values
        })
    }

    /// Evaluates `inspect.getmembers(of, predicate)`, which returns all attributes of an object. On a module, a
    /// function or an external class, the call is treated like a call of `getattr` with an unknown name.
    fn members(&mut self, arguments: &Arguments<'a>, expr: &'a Expr) -> Values<'a> {
        let of = arguments.get(0, "object").cloned().unwrap_or_else(Values::unknown);
        let predicate = arguments.get(1, "predicate");
        let are_harmless =
            predicate.is_some_and(|predicate| self.is_harmless_predicate(predicate, &of));
        let unknown = Values::unknown();
        let member = if are_harmless {
            Values::unknown()
        } else {
            let mut member = self.attribute_by_name(&of, Some(&unknown), None, expr);
            if of.known.iter().any(is_own) {
                member.add(self.own_contents());
                member.add(Values::object(UNKNOWN_MEMBER));
            }
            member
        };
        Values::container(Values::items([unknown, member]))
    }

    /// Returns whether the members of `of` that `predicate` accepts do not lead to other objects. Returns true if the
    /// predicate is in [`HARMLESS_PREDICATES`] and no rule is about a member of `of`, or if the predicate accepts only
    /// data of a builtin type.
    fn is_harmless_predicate(&mut self, predicate: &Values<'a>, of: &Values<'a>) -> bool {
        match predicate.single() {
            Some(Value::Object(path)) => {
                let is_named = |value: &Value<'_>| matches!(value, Value::Object(path) if INDEX.names_member_of(path));
                HARMLESS_PREDICATES.contains(&&**path) && !of.known.iter().any(is_named)
            }
            Some(Value::OwnFunction(scope)) => match self.symbols.definition(*scope) {
                Definition::Lambda(lambda, ..) => self.asks_for_data(&lambda.body, *scope),
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns whether `expr` is `isinstance(x, T)`, where `T` is a builtin type with instances that hold data.
    fn asks_for_data(&mut self, expr: &'a Expr, scope: ScopeId) -> bool {
        let Expr::Call(call) = expr else { return false };
        let [_, of] = &*call.arguments.args else { return false };
        let callee = self.value_in(&call.func, scope);
        let of = self.value_in(of, scope).within();
        let is_data = |value: &Value<'_>| {
            matches!(value, Value::Object(path)
                if path.strip_prefix("builtins.").is_some_and(objects::is_type_of_data))
        };
        callee.single() == Some(&Value::Object("builtins.isinstance".into()))
            && !of.is_open
            && !of.known.is_empty()
            && of.known.iter().all(is_data)
    }

    /// Judges `patch.object(of, name)` like `getattr(of, name)`. A dangerous method of a class is not reported, because
    /// a test that patches the method does not use the original.
    fn check_patched(&mut self, arguments: &Arguments<'a>, expr: &'a Expr) {
        let Some(of) = arguments.get(0, "target").cloned() else { return };
        let name = arguments.get(1, "attribute").cloned();
        let member = self.attribute_by_name(&of, name.as_ref(), None, expr);
        if of.known.iter().any(objects::is_class) {
            return;
        }
        if let Some((name, rule)) = member.known.iter().find_map(|of| escaping(of, Role::Value)) {
            self.report_reference(name, rule, expr.range());
        }
    }

    /// Evaluates the attribute `name` of an object that stores other objects, for example the function of a `partial`
    /// or the defaults of a function.
    pub(super) fn stored_as(&mut self, base: &Values<'a>, name: &str) -> Values<'a> {
        let mut values = Values::default();
        match name {
            "__defaults__" | "__kwdefaults__" => {
                values.add(self.defaults_of(base).unwrap_or_default());
            }
            "args" | "arguments" | "defaults" | "keywords" | "kwonlydefaults" | "maps"
            | "parameters" => {
                let containers = base.known.iter().filter(|value| value.is_container());
                values.extend(containers.cloned().map(Values::one));
            }
            "__func__" | "__wrapped__" | "default" | "fdel" | "fget" | "fset" | "func" => {
                let containers = base.known.iter().filter(|value| value.is_container());
                values.extend(containers.map(|of| Values::one(of.clone()).within()));
            }
            _ => {
                for value in &base.known {
                    let Value::Map(items) = value else { continue };
                    self.work().spend(items.len());
                    let named = items.iter().filter(|(key, _)| key.as_text() == Some(name));
                    values.extend(named.map(|(_, item)| item.clone()));
                }
            }
        }
        values
    }

    /// Returns a container of the parameter defaults of the script's own functions among `functions`.
    fn defaults_of(&mut self, functions: &Values<'a>) -> Option<Values<'a>> {
        let mut defaults = Values::default();
        for value in &functions.known {
            let Value::OwnFunction(scope) = value else { continue };
            let Some(parameters) = self.symbols.definition(*scope).parameters() else { continue };
            self.work().spend(parameters.len());
            let around = self.symbols.parent(*scope);
            for default in parameters.iter_non_variadic_params().filter_map(|of| of.default()) {
                defaults.add(self.flowing_value(default, around));
            }
        }
        (!defaults.known.is_empty()).then(|| Values::container(defaults))
    }

    /// Evaluates a caught exception. The known alternative is a container of the functions and modules that the script
    /// passes as arguments to raised exceptions.
    pub(super) fn caught(&mut self) -> Values<'a> {
        self.flowing(Flow::Caught, |this| {
            let symbols = this.symbols;
            let mut passed = Values::default();
            for (scope, call) in symbols.raised.iter().take(RAISED_MAX) {
                for argument in call.arguments.args.iter().filter(|of| !of.is_literal_expr()) {
                    let values = this.flowing_value(argument, *scope);
                    passed.add(leading(&values));
                }
            }
            let mut values = Values::unknown();
            if !passed.known.is_empty() {
                values.add(Values::container(passed));
            }
            values
        })
    }

    /// Reports a call that constructs an instance of a script's class, if a rule is about the constructor of one of the
    /// class's external bases. Also checks calls of `__init__`, which can initialise an instance again.
    pub(super) fn check_own_constructor(
        &mut self,
        call: &'a ExprCall,
        callee: &Values<'a>,
        base: Option<&(Values<'a>, &'a str)>,
        arguments: &Arguments<'a>,
    ) {
        let is_constructor = base.is_some_and(|(_, name)| *name == "__init__");
        let of_super = if is_constructor { self.class_of_super(call) } else { None };
        let made = base.filter(|_| is_constructor).map_or(callee, |(of, _)| of);
        let classes: Vec<ScopeId> = match of_super {
            Some(class) => vec![class],
            None => made
                .known
                .iter()
                .filter_map(|value| match value {
                    Value::OwnClass(class) => Some(*class),
                    Value::Own(class) if is_constructor => Some(*class),
                    _ => None,
                })
                .collect(),
        };
        for class in classes {
            let (bases, has_constructor) = self.bases_from_outside(class);
            // The call passes its arguments to the class's own constructor. If this constructor calls the constructor
            // of a base, that call is judged separately.
            if has_constructor && of_super.is_none() {
                continue;
            }
            let mut passed = arguments.clone();
            if of_super.is_some() {
                passed.forget_unpacked();
            }
            for path in bases {
                if self.check_function(call, &path, &passed) {
                    return;
                }
            }
        }
    }

    /// If `call` is a method call on `super()`, returns the class that defines the method in which the call occurs.
    fn class_of_super(&self, call: &ExprCall) -> Option<ScopeId> {
        let of = call.func.as_attribute_expr()?.value.as_call_expr()?;
        let is_super = matches!(&*of.func, Expr::Name(name) if name.id.as_str() == "super");
        is_super.then(|| self.symbols.class_around(self.scope)).flatten()
    }

    /// Returns the external bases of a script's class. Also returns whether the class, or one of its bases in the
    /// script, has a constructor.
    pub(super) fn bases_from_outside(&mut self, class: ScopeId) -> (Vec<String>, bool) {
        let mut paths = Vec::new();
        let mut has_constructor = false;
        let mut classes = vec![class];
        let mut next = 0;
        while let Some(class) = classes.get(next).copied() {
            next += 1;
            let Definition::Class(definition) = self.symbols.definition(class) else { continue };
            self.work().spend(1 + definition.body.len());
            has_constructor |= definition.body.iter().any(|stmt| {
                stmt.as_function_def_stmt()
                    .is_some_and(|function| function.name.as_str() == "__init__")
            });
            for base in definition.bases() {
                let of = self.flowing_value(base, self.symbols.parent(class));
                for value in &of.known {
                    match value {
                        Value::Object(path) => paths.push(path.to_string()),
                        Value::OwnClass(of)
                            if classes.len() < BASES_MAX && !classes.contains(of) =>
                        {
                            classes.push(*of);
                        }
                        _ => {}
                    }
                }
            }
        }
        (paths, has_constructor)
    }

    /// Reports a call of the function with this path, and returns true, if a rule finds the call.
    pub(super) fn check_function(
        &mut self,
        call: &'a ExprCall,
        path: &str,
        arguments: &Arguments<'a>,
    ) -> bool {
        if let Some(rule) = self.rule_of_call(path, arguments) {
            self.report_call(objects::shown(path), rule, &call.func);
            return true;
        }
        for (rule, condition) in INDEX.calls(path) {
            if let Condition::Sets(attribute) = condition {
                self.report_if_set(attribute, objects::shown(path), rule, &call.func);
            }
        }
        false
    }
}

/// Returns whether a value is an object or a class of the script.
pub(super) fn is_own(value: &Value<'_>) -> bool {
    matches!(value, Value::Own(_) | Value::OwnClass(_))
}

/// Returns the rule about one of the keywords of a call. Returns `None` for the script's own functions, and for
/// functions of `NumPy`, which have their own rules.
pub(super) fn rule_of_keyword(
    callee: &Values<'_>,
    arguments: &Arguments<'_>,
) -> Option<&'static Rule> {
    let is_judged = |value: &Value<'_>| match value {
        Value::Object(path) => path.starts_with("numpy."),
        value => matches!(value, Value::OwnFunction(_)),
    };
    let rule = arguments.keyword_rule()?;
    (!callee.known.iter().any(is_judged)).then_some(rule)
}

/// Returns a container of the functions and modules among the arguments, because an external function may store its
/// arguments and return them later.
pub(super) fn argument_values<'a>(arguments: &Arguments<'a>) -> Option<Values<'a>> {
    let kept: Values<'a> = arguments.all().map(leading).collect();
    (!kept.known.is_empty()).then(|| Values::container(kept))
}

/// Returns the functions and modules among `values` and in their containers. The attributes of functions and modules
/// lead directly to other objects.
pub(super) fn leading<'a>(values: &Values<'a>) -> Values<'a> {
    let mut all = values.within();
    all.is_open = false;
    all.known.retain(|value| match value {
        Value::Object(path) => {
            let is_type = path.strip_prefix("builtins.").is_some_and(objects::is_type_of_data);
            !is_type
                && !objects::is_class(value)
                && !objects::is_plain(path)
                && path != UNKNOWN_MEMBER
        }
        Value::OwnFunction(_) => true,
        _ => false,
    });
    all
}
