//! Calls: the callee, the rules about it, and the result as far as it is known.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use std::borrow::Cow;

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged as _;

use super::analyzer::Analyzer;
use super::conditions::Arguments;
use super::expressions::Role;
use super::is_surely_dangerous_formula;
use crate::safety::knowledge::index::INDEX;
use crate::safety::knowledge::value::{ITEMS_MAX, Value, Values};
use crate::safety::knowledge::{objects, stdlib, texts};
use crate::safety::rules::{Condition, Special};
use crate::safety::symbols;

/// Methods that evaluate no text, whatever has them.
#[rustfmt::skip]
const KEEPS_TEXT: &[&str] = &[
    "append", "debug", "endswith", "error", "execute", "extend", "format", "info", "join",
    "startswith", "warning", "write",
];
/// Builtins that pass their first argument on to nothing …
const KEEPS_FIRST: &[&str] =
    &["delattr", "getattr", "len", "list", "setattr", "sorted", "tuple", "vars"];
/// … and those that pass none on.
const KEEPS_ALL: &[&str] = &[
    "bool",
    "callable",
    "dir",
    "format",
    "hasattr",
    "help",
    "id",
    "isinstance",
    "issubclass",
    "print",
    "repr",
    "str",
];

impl<'a> Analyzer<'a, '_> {
    /// Evaluates a call: its result, as far as that is known.
    pub(super) fn call(&mut self, call: &'a ExprCall, expr: &'a Expr) -> Values<'a> {
        let (base, callee) = match &*call.func {
            Expr::Attribute(attribute) => {
                let (base, callee) = self.attribute(attribute);
                (Some((base, attribute.attr.as_str())), callee)
            }
            func => (None, self.evaluate(func, Role::Callee)),
        };
        let path: Option<Cow<'a, str>> = match callee.known.first() {
            Some(Value::Object(path)) => Some(path.clone()),
            _ => None,
        };
        let builtin = path.as_deref().and_then(|path| path.strip_prefix("builtins."));
        // For the value alone, what is passed to an unknown function does not matter.
        let is_of_interest = !callee.known.is_empty()
            || base.as_ref().is_some_and(|(base, name)| !base.known.is_empty() || is_getter(name));
        if self.is_quiet() && !is_of_interest {
            return Values::unknown();
        }
        let arguments = self.arguments(call, path.as_deref());
        if !self.is_quiet() {
            self.check_call(call, &callee, base.as_ref(), &arguments);
        }
        if let Some((base, name)) = &base {
            if is_getter(name) {
                return self.attribute_by_name(
                    base,
                    arguments.positional(0),
                    arguments.positional(1),
                    expr,
                );
            }
            if matches!(base.single(), Some(Value::Text(_) | Value::Bytes(_)))
                && arguments.are_plain()
            {
                let positional: Vec<Values<'a>> = arguments.positionals().cloned().collect();
                return folded_or_unknown(texts::method(base, name, &positional));
            }
            if *name == "fromhex" && builtin == Some("bytes.fromhex") {
                return folded_or_unknown(arguments.positional(0).and_then(texts::from_hex));
            }
        }
        self.result(&callee, builtin, &arguments, expr)
    }

    fn arguments(&mut self, call: &'a ExprCall, path: Option<&str>) -> Arguments<'a> {
        let builtin = path.and_then(|path| path.strip_prefix("builtins."));
        let first_is_kept = builtin.is_some_and(|name| KEEPS_FIRST.contains(&name));
        let all_are_kept = builtin.is_some_and(|name| KEEPS_ALL.contains(&name));
        // `reduce(getattr, …)` goes down a path of names.
        let reduces = path == Some("functools.reduce");
        // Whether what is passed decides.
        let is_judged =
            builtin == Some("getattr") || path.is_some_and(|path| INDEX.judges_calls_of(path));
        let mut arguments = Arguments::default();
        for (index, argument) in call.arguments.args.iter().enumerate() {
            let is_kept = all_are_kept || (first_is_kept && index == 0);
            let role = match builtin {
                _ if is_kept || (reduces && index == 0) => Role::Harmless,
                // The type of a module is harmless; that of a dangerous object makes others.
                Some("type") => Role::Alias,
                _ => Role::Value,
            };
            let values = self.argument(argument, role, is_judged);
            if let Expr::Starred(_) = argument {
                arguments.has_unpacked = true;
                // A known list of arguments stands for them.
                match values.elements().filter(|_| index < ITEMS_MAX) {
                    Some(elements) => {
                        for element in elements {
                            arguments.push(None, argument, element);
                        }
                    }
                    None => arguments.push_unknown(),
                }
            } else {
                arguments.push(None, argument, values);
            }
        }
        for keyword in &call.arguments.keywords {
            let values = self.argument(&keyword.value, Role::Value, is_judged);
            match &keyword.arg {
                Some(name) => arguments.push(Some(name.as_str()), &keyword.value, values),
                None => arguments.has_unpacked_keywords = true,
            }
        }
        arguments
    }

    /// Evaluates an argument. Where it decides, what the script's calls pass to a parameter counts.
    fn argument(&mut self, expr: &'a Expr, role: Role, is_judged: bool) -> Values<'a> {
        let values = self.evaluate(expr, role);
        if is_judged && values.is_open && !self.is_quiet() {
            return self.parameter_value(expr).unwrap_or(values);
        }
        values
    }

    /// Evaluates the parameter that `expr` names, if all calls of its function are seen.
    fn parameter_value(&mut self, expr: &'a Expr) -> Option<Values<'a>> {
        let Expr::Name(name) = expr else { return None };
        let function = self.symbols().parameter_of(name.id.as_str(), self.scope())?;
        if !function.decorator_list.is_empty() || self.symbols().has_dynamic_names {
            return None;
        }
        let calls = self.callers().calls_of(function.name.as_str())?.to_vec();
        let passed = calls.iter().map(|(_, call)| call.arguments.len());
        self.work().spend(passed.sum::<usize>() + calls.len() * function.parameters.len());
        let mut values = Values::default();
        for (scope, call) in calls {
            let argument = symbols::argument_for(function, name.id.as_str(), call)?;
            values.add(self.value_in(argument, scope));
        }
        (!values.known.is_empty()).then_some(values)
    }

    /// Reports the call if a rule finds it.
    fn check_call(
        &mut self,
        call: &'a ExprCall,
        callee: &Values<'a>,
        base: Option<&(Values<'a>, &'a str)>,
        arguments: &Arguments<'a>,
    ) {
        if let Some((name, rule)) = objects::dangerous(callee) {
            self.report_call(name, rule, &call.func);
            return;
        }
        for value in &callee.known {
            match value {
                Value::Object(path) => {
                    let rules = INDEX.calls(path);
                    let holding = rules.filter(|(_, on)| self.holds(*on, None, arguments));
                    // What blocks comes before what is only worth knowing.
                    if let Some((rule, _)) = holding.max_by_key(|(rule, _)| rule.severity) {
                        self.report_call(objects::shown(path), rule, &call.func);
                        return;
                    }
                }
                // `os.__dict__.values()` and the like.
                Value::Namespace(path) if objects::is_dangerous(path) => {
                    self.report_computed(path, call);
                }
                Value::Modules => self.report_computed("sys.modules", call),
                _ => {}
            }
        }
        self.check_passed(call, callee, arguments);
        // The SDK's verifiers are given code to judge.
        let judges = base.is_some_and(|(base, name)| {
            let is_text = |value: &Value<'_>| matches!(value, Value::Text(_) | Value::Bytes(_));
            name.starts_with("verify")
                || KEEPS_TEXT.contains(name)
                || base.known.iter().any(is_text)
        });
        if callee.known.is_empty()
            && !judges
            && self.symbols().evaluates_texts()
            && arguments.have_text(&|text| is_surely_dangerous_formula(text, self.work()))
            && let Some((rule, _)) = INDEX.calls("sympy").next()
        {
            let name = self.written(call.func.range());
            self.report_call(name, rule, &call.func);
            return;
        }
        let Some((base, name)) = base else { return };
        if self.symbols().own_attributes.contains(name) {
            return;
        }
        for (rule, condition) in INDEX.methods(name) {
            if self.holds(*condition, Some(base), arguments) {
                let name = self.written(call.func.range());
                self.report_call(name, rule, &call.func);
                return;
            }
        }
    }

    /// Judges what is passed: a formula with the function that evaluates it, and the name of an
    /// internal attribute that a function of the script may ask for.
    fn check_passed(&mut self, call: &'a ExprCall, callee: &Values<'a>, arguments: &Arguments<'a>) {
        let mut is_plain_formula = false;
        for values in arguments.all() {
            for value in &values.known {
                match value {
                    // The texts are the same for every function that would evaluate them.
                    Value::Object(path) if !is_plain_formula => {
                        let formula = INDEX.calls(path).find(|(_, on)| *on == Condition::Formula);
                        if let Some((rule, on)) = formula {
                            if self.holds(on, None, arguments) {
                                self.report_call(objects::shown(path), rule, &call.func);
                                return;
                            }
                            is_plain_formula = true;
                        }
                    }
                    Value::Text(text) if callee.known.contains(&Value::OwnFunction) => {
                        if let Some(rule) = INDEX.attribute(text).filter(|_| text.starts_with("__"))
                        {
                            let name = text.to_string();
                            self.report_reference(name, Some(rule), call.range());
                            return;
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Reports that any member of a namespace may be taken.
    fn report_computed(&mut self, namespace: &str, call: &'a ExprCall) {
        let rule = objects::rule_of_namespace(namespace);
        self.report_reference(format!("{namespace}[…]"), rule, call.range());
    }

    /// Evaluates the result of a call.
    fn result(
        &mut self,
        callee: &Values<'a>,
        builtin: Option<&str>,
        arguments: &Arguments<'a>,
        expr: &'a Expr,
    ) -> Values<'a> {
        let first = arguments.positional(0);
        if let Some(name) = builtin {
            return self.builtin_result(name, arguments, expr);
        }
        let mut values = Values::only_open(callee.is_open);
        for value in &callee.known {
            values.add(match value {
                Value::LookUp(namespace) => {
                    let key = first.cloned().unwrap_or_default();
                    let mut found = self.namespace_item(namespace, &key, expr.range());
                    found.add(arguments.positional(1).cloned().unwrap_or_else(Values::unknown));
                    found
                }
                Value::Object(path) if path == "importlib.import_module" => {
                    let unknown = Values::unknown();
                    let (names, is_complete) = first.unwrap_or(&unknown).texts();
                    let mut modules = Values::only_open(!is_complete);
                    for name in names {
                        modules.add(Values::object(name.to_owned()));
                    }
                    modules
                }
                Value::Object(path) if path == "inspect.getattr_static" => self.attribute_by_name(
                    first.unwrap_or(&Values::unknown()),
                    arguments.positional(1),
                    None,
                    expr,
                ),
                Value::Object(path) if path == "codecs.decode" => folded_or_unknown(
                    first.zip(arguments.positional(1)).and_then(|(t, c)| texts::rot13(t, c)),
                ),
                Value::Object(path) => match objects::instance_of(path) {
                    Some(class) => Values::one(Value::Instance(class)),
                    None => Values::unknown(),
                },
                // What a path's methods return is a path or harmless.
                Value::Instance(class) => Values::one(Value::Instance(class)),
                _ => Values::unknown(),
            });
        }
        values
    }

    fn builtin_result(
        &mut self,
        name: &str,
        arguments: &Arguments<'a>,
        expr: &'a Expr,
    ) -> Values<'a> {
        let Some(first) = arguments.positional(0) else {
            let is_namespace = matches!(name, "globals" | "locals" | "vars");
            return if is_namespace { Values::one(Value::Globals) } else { Values::unknown() };
        };
        let folded = match name {
            "getattr" => {
                if arguments.has_unpacked && arguments.positionals().count() < 2 {
                    let rule = INDEX.special(Special::ComputedName);
                    self.report_reference("getattr".to_owned(), rule, expr.range());
                }
                let default = arguments.positional(2);
                let Some(of) = arguments.positional(1) else { return Values::unknown() };
                return self.attribute_by_name(first, Some(of), default, expr);
            }
            "setattr" | "delattr" => {
                // What is set does not matter, but on what.
                self.attribute_by_name(first, arguments.positional(1), None, expr);
                None
            }
            "vars" => match first.known.first() {
                Some(Value::Object(path)) if path == "builtins.__builtins__" => {
                    Some(Values::one(Value::Namespace(Cow::Borrowed("builtins"))))
                }
                Some(Value::Object(path)) => Some(Values::one(Value::Namespace(path.clone()))),
                Some(Value::MaybeModule(module)) => {
                    Some(Values::one(Value::Namespace(Cow::Borrowed(module))))
                }
                _ => None,
            },
            "type" => match first.single() {
                Some(Value::Instance(class)) if *class != objects::IN_MEMORY => {
                    Some(Values::object(*class))
                }
                _ => None,
            },
            "chr" => texts::chr(first),
            "ord" => texts::ord(first),
            "str" if arguments.len() == 1 => texts::display(first).map(Values::text),
            "bytes" if arguments.len() == 1 => texts::bytes(first),
            "reversed" => texts::reversed(first),
            "list" | "tuple" => first.elements().map(Values::items),
            "map" if arguments.len() == 2 => Self::mapped(first, arguments.positional(1)),
            _ => None,
        };
        folded_or_unknown(folded)
    }

    /// Evaluates `map(chr, …)` and the like.
    fn mapped(function: &Values<'a>, over: Option<&Values<'a>>) -> Option<Values<'a>> {
        let Value::Object(path) = function.single()? else { return None };
        let apply = match path.as_ref() {
            "builtins.chr" => texts::chr,
            "builtins.ord" => texts::ord,
            _ => return None,
        };
        let mapped: Option<Vec<_>> = over?.elements()?.iter().map(apply).collect();
        mapped.map(Values::items)
    }

    /// Evaluates `getattr(base, name, default)`.
    fn attribute_by_name(
        &mut self,
        base: &Values<'a>,
        name: Option<&Values<'a>>,
        default: Option<&Values<'a>>,
        expr: &'a Expr,
    ) -> Values<'a> {
        let Some(name) = name else { return Values::unknown() };
        let (texts, is_complete) = name.texts();
        let mut values = Values::only_open(!is_complete);
        for text in texts {
            values.add(self.member_of(base, text, None));
            if let Some(rule) = INDEX.attribute(text)
                && !(text == "__subclasses__" && base.single() == Some(&Value::OwnClass))
            {
                let name = text.to_owned();
                self.report_reference(name, Some(rule), expr.range());
            }
        }
        if let Some(default) = default {
            values.add(default.clone());
        }
        if !is_complete && let Some((name, special)) = base.known.iter().find_map(hides) {
            let rule = INDEX.special(special);
            self.report_reference(format!("{name}.…"), rule, expr.range());
        }
        values
    }
}

/// Returns the object of which no attribute may be taken whose name is not known, with the danger.
fn hides(value: &Value<'_>) -> Option<(String, Special)> {
    match value {
        Value::Object(path) if INDEX.is_carrier(path) || INDEX.is_found(path) => {
            Some((path.to_string(), Special::ComputedName))
        }
        Value::Object(path) if stdlib::holds_modules(path) => {
            Some((path.to_string(), Special::ComputedNameElsewhere))
        }
        Value::MaybeModule(module) => Some(((*module).to_owned(), Special::ComputedName)),
        _ => None,
    }
}

/// Tells whether a method does what `getattr` does.
fn is_getter(name: &str) -> bool {
    name == "__getattribute__"
}

fn folded_or_unknown(folded: Option<Values<'_>>) -> Values<'_> {
    folded.unwrap_or_else(Values::unknown)
}
