//! Evaluates calls: finds the called object, checks the rules about calls of this object, and computes the result as
//! far as it is known.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use std::borrow::Cow;

use ruff_python_ast::{Expr, ExprCall, Identifier};
use ruff_text_size::Ranged as _;

use super::analyzer::Analyzer;
use super::conditions::Arguments;
use super::expressions::Role;
use super::flow::UNKNOWN_MEMBER;
use super::inputs::Opened;
use super::{is_dangerous_formula, passing};
use crate::finding::UNSEEN;
use crate::knowledge::index::INDEX;
use crate::knowledge::top;
use crate::knowledge::value::{ITEMS_MAX, Value, Values};
use crate::knowledge::{objects, texts};
use crate::rules::inputs::WITH_INPUTS;
use crate::rules::{Condition, Rule, Severity, Special};
use crate::symbols::last_name;

/// Methods that do not evaluate the strings in their arguments, whichever object they belong to.
#[rustfmt::skip]
const KEEPS_TEXT: &[&str] = &[
    "append", "debug", "endswith", "error", "execute", "extend", "format", "info", "join",
    "startswith", "warning", "write",
];
/// Returns whether a builtin returns a number, a Boolean or `None`.
#[rustfmt::skip]
fn is_plain(builtin: &str) -> bool {
    matches!(builtin,
        "abs" | "all" | "any" | "bool" | "callable" | "complex" | "float" | "hasattr" | "hash"
        | "id" | "int" | "isinstance" | "issubclass" | "len" | "ord" | "print" | "round")
}

/// Returns whether a builtin only reads its argument at index `place`, and does not pass the argument on to other code.
#[rustfmt::skip]
fn keeps(builtin: &str, place: usize) -> bool {
    match builtin {
        "delattr" | "getattr" | "len" | "list" | "setattr" | "sorted" | "tuple" | "vars" => place == 0,
        "bool" | "callable" | "dir" | "format" | "hasattr" | "help" | "id" | "isinstance"
        | "issubclass" | "print" | "repr" | "str" => true,
        _ => false,
    }
}

/// The name of a method that every object has and that works like `getattr`.
pub(super) const GETTER: &str = "__getattribute__";

impl<'a> Analyzer<'a, '_> {
    pub(super) fn call(&mut self, call: &'a ExprCall, expr: &'a Expr) -> Values<'a> {
        if self.describes_frame(call) {
            return Values::unknown();
        }
        let (base, callee) = match &*call.func {
            Expr::Attribute(attribute) => {
                let (base, callee) = self.attribute(attribute);
                (Some((base, attribute.attr.as_str())), callee)
            }
            func => (None, self.evaluate(func, Role::Callee)),
        };
        let path = callee.known.iter().find_map(|value| match value {
            Value::Object(path) => Some(&**path),
            _ => None,
        });
        let builtin = path.and_then(|path| path.strip_prefix("builtins."));
        if self.is_quiet && builtin.is_some_and(is_plain) {
            return Values::one(Value::Plain);
        }
        // If only the value of the call is needed, the arguments of an unknown function are not evaluated, because the
        // result does not depend on them.
        let needs_arguments = path.is_some()
            || callee
                .known
                .iter()
                .any(|value| matches!(value, Value::LookUp(_) | Value::Getter(_)))
            || base.as_ref().is_some_and(|(base, name)| !base.known.is_empty() || *name == GETTER);
        if self.is_quiet && !needs_arguments {
            return self.call_own(&callee);
        }
        let mut arguments = self.arguments(call, path);
        match self.opened_input(call, &callee, &arguments) {
            Some(Opened::Returns(values)) => return values,
            Some(Opened::Takes(keyword, values)) => arguments.replace_first(keyword, values),
            None => {}
        }
        if !self.is_quiet {
            let method = base.as_ref().map(|(_, name)| *name);
            self.record_addresses(path, method, &arguments);
            self.check_call(call, &callee, base.as_ref(), &arguments);
            self.check_special_arguments(call, &callee, &arguments);
        }
        if let Some((base, name)) = &base {
            if *name == GETTER {
                return self.looked_up(base, &arguments, expr);
            }
            if let Some(text) = base.as_text()
                && arguments.are_plain()
            {
                let positional: Vec<Values<'a>> = arguments.positionals().cloned().collect();
                return folded_or_unknown(texts::method(text, name, &positional));
            }
            if base.known.iter().any(Value::is_globals) && *name != "keys" && !callee.is_look_up() {
                return self.own_namespace();
            }
            if *name == "__subclasses__" && objects::are_own_classes(base) {
                return Values::container(base.clone());
            }
            if let Some(taken) = of_container(base, name, &arguments) {
                return taken;
            }
            // The parts of an unknown string are unknown strings.
            if callee.is_open && matches!(*name, "split" | "splitlines") {
                return Values::container(Values::unknown());
            }
        }
        self.result(&callee, builtin, &arguments, expr)
    }

    /// Evaluates `base.__getattribute__(name)`. On a class, the object is the first argument:
    /// `C.__getattribute__(object, name)`.
    fn looked_up(
        &mut self,
        base: &Values<'a>,
        arguments: &Arguments<'a>,
        expr: &'a Expr,
    ) -> Values<'a> {
        let is_unbound = arguments.positional(1).is_some();
        let base = arguments.positional(0).filter(|_| is_unbound).unwrap_or(base).clone();
        let name = arguments.positional(usize::from(is_unbound));
        self.attribute_by_name(&base, name, None, expr)
    }

    pub(super) fn arguments(&mut self, call: &'a ExprCall, path: Option<&str>) -> Arguments<'a> {
        let builtin = path.and_then(|path| path.strip_prefix("builtins."));
        // `reduce(getattr, …)` follows a list of attribute names, which is judged as a whole. So `getattr` is not a
        // finding here.
        let reduces = path == Some("functools.reduce");
        let mut arguments = Arguments::default();
        for (index, argument) in call.arguments.args.iter().enumerate() {
            let is_kept = builtin.is_some_and(|name| keeps(name, index));
            let role = match builtin {
                _ if is_kept || (reduces && index == 0) => Role::Harmless,
                // A set of a namespace, such as `set(vars(os))`, contains the names and not the objects, so it is
                // harmless.
                Some("frozenset" | "set") if argument.is_call_expr() => Role::Harmless,
                // A module is harmless as the argument of `type`. A dangerous object is not, because its type can
                // create more dangerous objects.
                Some("type") => Role::Alias,
                _ => Role::Value,
            };
            let values = self.evaluate(argument, role);
            if let Expr::Starred(_) = argument {
                // If the elements of a starred list are known, they are the arguments.
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
        if call.arguments.find_keyword("where").is_some()
            && call.arguments.find_keyword("out").is_none()
        {
            let name = last_name(&call.func).unwrap_or_default();
            self.record_member(&["where=", name].concat());
        }
        for keyword in &call.arguments.keywords {
            if let Some(name @ ("random_state" | "seed")) =
                keyword.arg.as_ref().map(Identifier::as_str)
            {
                let function = last_name(&call.func).unwrap_or_default();
                self.record_member(&[name, "=", function].concat());
            }
            let values = self.evaluate(&keyword.value, Role::Value);
            match &keyword.arg {
                Some(name) => arguments.push(Some(name.as_str()), &keyword.value, values),
                None => arguments.push_keywords(&keyword.value, &values),
            }
        }
        arguments
    }

    fn check_call(
        &mut self,
        call: &'a ExprCall,
        callee: &Values<'a>,
        base: Option<&(Values<'a>, &'a str)>,
        arguments: &Arguments<'a>,
    ) {
        let runs_files = callee.known.iter().find_map(|value| match value {
            Value::Object(path) if self.runs_inputs(path) => Some(objects::shown(path)),
            _ => None,
        });
        if let Some(name) = runs_files {
            return self.report_call(name, &WITH_INPUTS, &call.func);
        }
        if let Some((name, rule)) = objects::dangerous(callee) {
            if self.imports_harmless(callee, arguments.positional(0)) {
                return;
            }
            self.report_call(name, rule, &call.func);
            return;
        }
        self.check_own_constructor(call, callee, base, arguments);
        for value in &callee.known {
            match value {
                Value::Object(path) if self.check_function(call, path, arguments) => return,
                // The callee is a method of a namespace, such as `os.__dict__.values()`.
                Value::Namespace(path) if !value.is_globals() && !objects::is_plain(path) => {
                    let rule = objects::rule_of_namespace(path);
                    self.report_reference(format!("{path}[…]"), rule, call.range());
                }
                // The callee is a method that the script has bound to a name.
                Value::Method(name)
                    if base.is_none_or(|(_, of)| of != name)
                        && self.check_method(call, &Values::unknown(), name, arguments) =>
                {
                    return;
                }
                _ => {}
            }
        }
        if let Some(rule) = passing::rule_of_keyword(callee, arguments) {
            let name = self.written(call.func.range());
            self.report_call(name, rule, &call.func);
            return;
        }
        self.check_passed(call, callee, arguments);
        // `judges` is true if the called method does not evaluate the strings in its arguments. For example, the
        // verifiers of the QWED SDK only judge the code that they receive.
        let judges = base.is_some_and(|(base, name)| {
            let is_text = |value: &Value<'_>| matches!(value, Value::Text(_));
            name.starts_with("verify")
                || KEEPS_TEXT.contains(name)
                || base.known.iter().any(is_text)
        });
        if callee.known.iter().all(Value::is_container)
            && !judges
            && self.symbols.evaluates_texts()
            && arguments.have_text(&mut |text| is_dangerous_formula(text, self.work()))
            && let Some((rule, _)) = INDEX.calls("sympy").next()
        {
            let name = self.written(call.func.range());
            self.report_call(name, rule, &call.func);
            return;
        }
        let Some((base, name)) = base else { return };
        if matches!(*name, "format" | "get_field" | "vformat") {
            self.check_fields(call, base, name, arguments);
        }
        // With an argument, `__subclasses__` returns the subclasses of the argument, regardless of the object before
        // the dot.
        if *name == "__subclasses__" && arguments.len() > 0 {
            self.report_reference((*name).to_owned(), INDEX.attribute(name), call.func.range());
        }
        if self.symbols.own_attributes.contains(name) {
            return;
        }
        let is_text = |of: &Values<'_>| of.any_text(&mut |_| true);
        if base.known.iter().any(objects::is_class) && !arguments.positional(0).is_some_and(is_text)
        {
            self.check_method(call, &Values::unknown(), name, &arguments.without(0));
        } else {
            self.check_method(call, base, name, arguments);
        }
    }

    /// If a rule about methods with this name finds `call`, reports the call and returns true.
    fn check_method(
        &mut self,
        call: &'a ExprCall,
        base: &Values<'a>,
        name: &str,
        arguments: &Arguments<'a>,
    ) -> bool {
        let rule = self.rule_of_method(name, base, arguments);
        if let Some(rule) = rule {
            let name = self.written(call.func.range());
            self.report_call(name, rule, &call.func);
        }
        rule.is_some()
    }

    /// Returns the rule that finds a call of the function with this path. If several rules find the call, prefers a
    /// rule that blocks.
    pub(super) fn rule_of_call(
        &mut self,
        path: &str,
        arguments: &Arguments<'a>,
    ) -> Option<&'static Rule> {
        let rules = INDEX.calls(path).filter(|(_, on)| self.holds(*on, None, arguments));
        rules.map(|(rule, _)| rule).max_by_key(|rule| rule.severity)
    }

    /// Returns the rule that finds a call of a method with this name.
    fn rule_of_method(
        &mut self,
        name: &str,
        base: &Values<'a>,
        arguments: &Arguments<'a>,
    ) -> Option<&'static Rule> {
        let mut rules = INDEX.methods(name).iter();
        rules.find(|(_, on)| self.holds(*on, Some(base), arguments)).map(|(rule, _)| *rule)
    }

    /// Reports a decorator if a rule finds a call of the decorator with an unknown argument. The argument is the
    /// decorated object.
    pub(super) fn check_decorating(&mut self, expr: &'a Expr, decorator: &Values<'a>) {
        let mut arguments = Arguments::default();
        arguments.push(None, expr, Values::unknown());
        for value in &decorator.known {
            let rule = match value {
                Value::Object(path) => self.rule_of_call(path, &arguments),
                Value::Method(name) => self.rule_of_method(name, &Values::unknown(), &arguments),
                _ => None,
            };
            if let Some(rule) = rule {
                let name = self.written(expr.range());
                return self.report_call(name, rule, expr);
            }
        }
    }

    /// Judges the values that a call stores under special names such as `__doc__`. Such a value may be a keyword
    /// argument, an argument of a method such as `update`, or the third argument of a function such as `setattr`.
    fn check_special_arguments(
        &mut self,
        call: &'a ExprCall,
        callee: &Values<'a>,
        arguments: &Arguments<'a>,
    ) {
        for (name, expr, values) in arguments.keywords() {
            self.check_special(name, values, expr);
        }
        // The constructors of properties and modules receive the docstring as an argument.
        let docstring = match callee.known.first() {
            Some(Value::Object(path)) if path == "builtins.property" => arguments.get(3, "doc"),
            Some(Value::Object(path)) if path == "types.ModuleType" => arguments.get(1, "doc"),
            _ => None,
        };
        if let Some(values) = docstring {
            self.check_special("__doc__", values, &call.func);
        }
        if let Expr::Attribute(method) = &*call.func
            && matches!(method.attr.as_str(), "update" | "setdefault" | "__setitem__")
            && let Some(name) = self.target_name(&method.value)
        {
            for (values, expr) in arguments.all().zip(&call.arguments.args) {
                self.check_special(name, values, expr);
            }
            for (_, expr, values) in arguments.keywords() {
                self.check_special(name, values, expr);
            }
        } else if let [_, _, value] = &*call.arguments.args
            && let (Some(names), Some(values)) = (arguments.positional(1), arguments.positional(2))
        {
            for name in names.texts().0 {
                self.check_special(name, values, value);
            }
        }
    }

    /// Judges the functions and methods among the arguments, as if the callee called them with the other arguments. If
    /// the callee is a function of the script, also reports a string that is the name of one of the interpreter's
    /// internals, because the function may take the attribute with this name.
    fn check_passed(&mut self, call: &'a ExprCall, callee: &Values<'a>, arguments: &Arguments<'a>) {
        let mut is_plain_formula = false;
        let calls_own_function =
            callee.known.iter().any(|value| matches!(value, Value::OwnFunction(_)));
        let builtin = callee.single().and_then(|value| match value {
            Value::Object(path) => path.strip_prefix("builtins."),
            _ => None,
        });
        for (place, values) in arguments.all().enumerate() {
            // The builtin compares or prints the argument, and does not call it.
            if builtin.is_some_and(|name| keeps(name, place)) {
                continue;
            }
            for value in &values.known {
                match value {
                    Value::Object(path) => {
                        for (rule, on) in INDEX.calls(path) {
                            // Several functions among the arguments may evaluate strings as formulas. The strings are
                            // judged for the first such function only, because the result is the same for the others.
                            let is_judged = is_plain_formula && on == Condition::Formula;
                            if rule.severity == Severity::Block
                                && !is_judged
                                && self.holds(on, None, &arguments.without(place))
                            {
                                self.report_call(objects::shown(path), rule, &call.func);
                                return;
                            }
                            is_plain_formula |= on == Condition::Formula;
                        }
                    }
                    Value::Method(name) => {
                        let has_text = arguments.all().any(|of| of.any_text(&mut |_| true));
                        let mut refuses = |on: &Condition| match on {
                            Condition::Always | Condition::UnknownName => true,
                            Condition::TakesTextAt(library, ..) if !self.imports(library) => false,
                            Condition::TakesText(_)
                            | Condition::SavesElsewhere(_)
                            | Condition::TakesTextAt(..)
                            | Condition::IsTextAt(..) => has_text,
                            Condition::ReachingSql(_) | Condition::ReachingScript if has_text => {
                                arguments.all().any(|values| self.reaches_files(values))
                            }
                            // A function of the script receives the method. The calls in the function's body are judged
                            // there.
                            Condition::ReachingSql(_) if calls_own_function => false,
                            _ => self.holds(*on, None, arguments),
                        };
                        let mut rules = INDEX.methods(name).iter();
                        let is_blocking = |rule: &Rule| rule.severity == Severity::Block;
                        if let Some((rule, _)) =
                            rules.find(|(rule, on)| is_blocking(rule) && refuses(on))
                        {
                            self.report_call((*name).to_owned(), rule, &call.func);
                            return;
                        }
                    }
                    Value::Getter(getter) => {
                        self.check_passed_getter(getter, &arguments.without(place), call);
                    }
                    Value::Text(text) if calls_own_function => {
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

    /// Evaluates the result of a call, without judging the call.
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
                    let (names, is_complete) = arguments.get(0, "name").unwrap_or(&unknown).texts();
                    let mut modules = Values::only_open(!is_complete);
                    for name in names {
                        modules.add(Values::object(name.to_owned()));
                    }
                    modules
                }
                Value::Object(path)
                    if path == "functools.reduce"
                        && first == Some(&Values::object("builtins.getattr")) =>
                {
                    let names = arguments.positional(1).map(|names| self.any_element(names));
                    let base = arguments.positional(2).cloned().unwrap_or_default();
                    self.attribute_by_name(&base, names.as_ref(), None, expr)
                }
                Value::Object(path) if path == "inspect.getattr_static" => self.attribute_by_name(
                    first.unwrap_or(&Values::unknown()),
                    arguments.positional(1),
                    None,
                    expr,
                ),
                Value::Object(path) if matches!(&**path, "os.getenv" | "os.environ.get") => {
                    arguments.positional(1).cloned().unwrap_or_default().or_others()
                }
                Value::Object(path) => {
                    match (objects::instance_of(path), self.passed_back(path, arguments, expr)) {
                        (Some(class), _) => Values::one(Value::Instance(class)),
                        (None, Some(passed)) => passed,
                        (None, None) if objects::keeps(path) => carried(arguments).or_others(),
                        (None, None) => Values::unknown(),
                    }
                }
                Value::Getter(getter) => {
                    let of = first.cloned().unwrap_or_else(Values::unknown);
                    self.taken(getter, &of, expr)
                }
                // A method of a path returns a path or a harmless value, so its result is treated as a path.
                Value::Instance(class) => Values::one(Value::Instance(class)),
                Value::OwnFunction(_) | Value::OwnClass(_) | Value::Own(_) => {
                    self.call_own(&Values::one(value.clone()))
                }
                _ => Values::unknown(),
            });
        }
        if callee.is_open {
            values.add(carried(arguments));
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
            return match name {
                "globals" | "locals" | "vars" => Values::one(Value::Namespace(Cow::Borrowed(""))),
                "dict" => arguments.as_map(),
                "list" | "set" | "tuple" => Values::items([]),
                _ => Values::unknown(),
            };
        };
        let folded = match name {
            "__import__" => Some(imported(first, arguments.len() > 1)),
            "getattr" => {
                if arguments.has_unpacked() && arguments.positionals().count() < 2 {
                    let rule = INDEX.special(Special::ComputedName);
                    self.report_reference("getattr".to_owned(), rule, expr.range());
                }
                let default = arguments.positional(2);
                let Some(of) = arguments.positional(1) else { return Values::unknown() };
                return self.attribute_by_name(first, Some(of), default, expr);
            }
            "setattr" | "delattr" => {
                // The first argument is the object with the attribute. Only modules and functions among its possible
                // values are judged. The value that `setattr` stores in the attribute is not judged.
                let mut led_to = first.clone();
                led_to.known.retain(|value| {
                    may_be_dangerous(value) || matches!(value, Value::OwnFunction(_))
                });
                self.attribute_by_name(&led_to, arguments.positional(1), None, expr);
                None
            }
            "vars" => first.known.iter().find_map(|value| match value {
                Value::Object(path) if path == "builtins.__builtins__" => {
                    Some(Values::one(Value::Namespace(Cow::Borrowed("builtins"))))
                }
                Value::Object(path) => Some(Values::one(Value::Namespace(path.clone()))),
                Value::MaybeModule(name) => {
                    Some(Values::one(Value::Namespace(Cow::Borrowed(name))))
                }
                Value::Instance(class) if objects::leads_out(class) => {
                    Some(Values::one(Value::Namespace(Cow::Borrowed(class))))
                }
                value if passing::is_own(value) => {
                    let contents = self.own_contents();
                    (!contents.known.is_empty())
                        .then(|| Values::container(contents.or_others()).or_others())
                }
                _ => None,
            }),
            "type" if arguments.len() == 1 => Some(class_of(first)),
            "type" => arguments.positional(1).map(|bases| self.class_from(bases)),
            "classmethod" | "property" | "staticmethod" => {
                self.passed_back(&["builtins.", name].concat(), arguments, expr)
            }
            "str" if arguments.len() == 1 => texts::display(first).map(Values::text),
            _ if is_plain(name) => Some(Values::one(Value::Plain)),
            _ if objects::is_exception(name) => passing::argument_values(arguments),
            _ => self.of_elements(name, first, arguments, expr),
        };
        folded_or_unknown(folded)
    }

    /// Evaluates a builtin that takes or returns elements of its arguments.
    fn of_elements(
        &mut self,
        name: &str,
        first: &Values<'a>,
        arguments: &Arguments<'a>,
        expr: &'a Expr,
    ) -> Option<Values<'a>> {
        Some(match name {
            "next" => {
                let mut element = self.any_element(first);
                element.add(arguments.positional(1).cloned().unwrap_or_default());
                element
            }
            "max" | "min" => {
                let mut others = arguments.positionals().skip(1).peekable();
                let mut values =
                    if others.peek().is_some() { first.clone() } else { self.any_element(first) };
                values.extend(others.chain(arguments.get(usize::MAX, "default")).cloned());
                values
            }
            "map" => {
                let mut values = self.call_own(first);
                let over = arguments.positional(1).cloned().unwrap_or_default();
                let element = self.any_element(&over);
                if first == &Values::object("builtins.type") {
                    values.add(class_of(&element));
                }
                for value in &first.known {
                    if let Value::Getter(getter) = value {
                        values.add(self.taken(getter, &element, expr));
                    }
                }
                Values::container(values)
            }
            "dict" if first.known.iter().any(Value::is_globals) => first.clone(),
            "iter" if first.elements().is_some() => first.clone(),
            "list" | "tuple" if first.elements().is_some() => Values::items(first.elements()?),
            "list" | "tuple" | "iter" | "sorted" | "reversed" | "set" | "frozenset" => {
                Values::container(self.any_element(first))
            }
            "filter" => Values::container(self.any_element(arguments.positional(1)?)),
            "range" => Values::container(Values::one(Value::Plain)),
            "enumerate" => {
                let pair = [Values::one(Value::Plain), self.any_element(first)];
                Values::container(Values::items(pair))
            }
            "zip" => {
                let parts = arguments.positionals().map(|part| self.any_element(part));
                Values::container(Values::items(parts.collect::<Vec<_>>()))
            }
            _ => return None,
        })
    }

    /// Evaluates `getattr(base, name, default)`.
    pub(super) fn attribute_by_name(
        &mut self,
        base: &Values<'a>,
        name: Option<&Values<'a>>,
        default: Option<&Values<'a>>,
        expr: &'a Expr,
    ) -> Values<'a> {
        let Some(name) = name else { return Values::unknown() };
        let (texts, is_complete) = name.texts();
        let mut values = Values::only_open(!is_complete);
        if !is_complete {
            self.record_use(UNSEEN);
        }
        for text in texts {
            self.record_member(text);
            values.add(self.member_of(base, text, None));
            if let Some(rule) = INDEX.attribute(text)
                && !(text == "__subclasses__" && matches!(base.single(), Some(Value::OwnClass(_))))
            {
                let name = text.to_owned();
                self.report_reference(name, Some(rule), expr.range());
            }
            self.check_format(base, text, expr.range());
        }
        if let Some(default) = default {
            values.add(default.clone());
        }
        // A member that is taken from an unknown object by an unknown name may be anything. Mark it with `UNKNOWN_MEMBER`, so
        // that the analysis can judge attributes that are taken from the member.
        if name.is_open && name.known.is_empty() {
            if base.known.iter().any(passing::is_own) {
                let mut contents = self.own_contents();
                contents.known.retain(|value| matches!(value, Value::Object(_)));
                values.add(contents);
            } else {
                values.add(Values::object(UNKNOWN_MEMBER));
            }
        }
        // True for a known string, which is judged above. Also true for a string with a known start, if no name of the
        // interpreter's internals has this start. A function of the script leads to other objects only through the
        // interpreter's internals.
        let is_no_internal = |name: &Value<'_>| {
            matches!(name, Value::Text(_))
                || matches!(name, Value::Start(start) if INDEX.starts_no_attribute(start))
        };
        let is_none = !name.is_open && name.known.iter().all(is_no_internal);
        let is_harmless = |of: &Value<'_>| is_none && matches!(of, Value::OwnFunction(_));
        if !is_complete
            && let Some(name) = base.known.iter().filter(|of| !is_harmless(of)).find_map(hides)
        {
            let rule = INDEX.special(Special::ComputedName);
            self.report_reference(format!("{name}.…"), rule, expr.range());
        }
        values
    }
}

/// Searches the arguments, and the containers among the arguments, for instances of external classes. Returns these
/// instances, except streams. An unknown function may return such an instance, alone or in a container.
fn carried<'a>(arguments: &Arguments<'a>) -> Values<'a> {
    let mut values = Values::default();
    for passed in arguments.all() {
        passed.any(&mut |value| {
            if matches!(value, Value::Instance(class) if !objects::is_stream(class)) {
                values.add(Values::one(value.clone()));
            }
            false
        });
    }
    if !values.known.is_empty() {
        values.add(Values::container(values.clone()));
    }
    values
}

/// Returns the classes of the values, as `type(value)` does.
fn class_of<'a>(values: &Values<'a>) -> Values<'a> {
    let mut classes = Values::only_open(values.is_open);
    // The class of functions is returned only if all alternatives are functions. If other values are possible, the
    // script probably calls `type` only to test the value, so the class counts as unknown.
    let is_function = |value: &Value<'_>| matches!(value, Value::OwnFunction(_));
    let are_functions = !values.is_open && values.known.iter().all(is_function);
    for value in &values.known {
        classes.add(match value {
            Value::Instance(class) => Values::object(*class),
            Value::Own(class) => Values::one(Value::OwnClass(*class)),
            Value::OwnFunction(_) if are_functions => Values::object("types.FunctionType"),
            Value::Object(_) => Values::object("builtins.object").or_others(),
            _ => Values::unknown(),
        });
    }
    classes
}

/// Evaluates a method that takes elements out of a container.
fn of_container<'a>(
    base: &Values<'a>,
    name: &str,
    arguments: &Arguments<'a>,
) -> Option<Values<'a>> {
    if !base.known.iter().any(Value::is_container) {
        return None;
    }
    let key = arguments.positional(0).cloned().unwrap_or_else(Values::unknown);
    let items = || {
        base.known.iter().filter_map(|value| match value {
            Value::Map(items) => Some(items),
            _ => None,
        })
    };
    Some(match name {
        "get" | "pop" | "popleft" | "popitem" | "setdefault" | "__getitem__" | "__next__" => {
            let mut item = base.item(&key);
            item.add(arguments.positional(1).cloned().unwrap_or_default());
            item
        }
        "copy" => base.clone(),
        "values" if items().count() == base.known.len() => Values::container(
            items().flat_map(|items| items.iter().map(|(_, value)| value.clone())).collect(),
        ),
        "items" if items().count() == base.known.len() => Values::container(
            items()
                .flat_map(|items| items.iter())
                .map(|(key, value)| Values::items([key.clone(), value.clone()]))
                .collect(),
        ),
        "keys" | "__iter__" | "values" => Values::container(base.any_element()),
        "items" => {
            let part = base.any_element();
            Values::container(Values::items([part.clone(), part]))
        }
        _ => return None,
    })
}

/// Returns whether a rule exists for a value or its members, or the value may be a module.
fn may_be_dangerous(value: &Value<'_>) -> bool {
    match value {
        Value::Object(path) => INDEX.is_carrier(path) || INDEX.is_found(path),
        Value::MaybeModule(_) => true,
        _ => false,
    }
}

/// If `value` is an object that leads to other objects, returns the object's name. A script must not take an attribute
/// of such an object by an unknown name.
fn hides(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Object(path) => Some(objects::shown(path)).filter(|_| !objects::is_plain(path)),
        Value::MaybeModule(module) => Some((*module).to_owned()),
        Value::Instance(class) => Some((*class).to_owned()).filter(|_| objects::leads_out(class)),
        Value::OwnFunction(_) => Some("function".to_owned()),
        _ => None,
    }
}

/// Evaluates `__import__`, which returns the topmost module. If the call has more arguments, one may be a `fromlist`,
/// and the call may return the module with the full name. The result then contains both modules. Modules that must not
/// be imported are skipped, because they are already reported.
fn imported<'a>(name: &Values<'a>, has_more: bool) -> Values<'a> {
    let (names, is_complete) = name.texts();
    let mut modules = Values::only_open(!is_complete || has_more);
    for name in names.filter(|name| objects::is_harmless_module(name)) {
        modules.add(Values::object(top(name).to_owned()));
        if has_more {
            modules.add(Values::object(name.to_owned()));
        }
    }
    modules
}

fn folded_or_unknown(folded: Option<Values<'_>>) -> Values<'_> {
    folded.unwrap_or_else(Values::unknown)
}
