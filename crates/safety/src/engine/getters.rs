//! Evaluates functions that take attributes by attribute paths: the results of `operator.attrgetter` and
//! `operator.methodcaller`, and the fields of a format string. Each attribute is judged as if `getattr` took it from
//! the objects that the function receives.

#![expect(clippy::wildcard_enum_match_arm, reason = "a few kinds of values are of interest")]

use std::rc::Rc;

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged as _;

use super::analyzer::Analyzer;
use super::calls::GETTER;
use super::conditions::Arguments;
use super::expressions::{Role, escaping};
use crate::knowledge::fields::{fields, parts};
use crate::knowledge::index::{INDEX, Verdict};
use crate::knowledge::objects;
use crate::knowledge::value::{Getter, Value, Values};
use crate::rules::{Rule, Special};
use crate::symbols::ScopeId;

impl<'a> Analyzer<'a, '_> {
    /// Evaluates a call of `getter` with the argument `of`. The getter is the result of `attrgetter` or `methodcaller`.
    pub(super) fn taken(
        &mut self,
        getter: &Getter<'a>,
        of: &Values<'a>,
        expr: &'a Expr,
    ) -> Values<'a> {
        let mut all = Vec::with_capacity(getter.names.len());
        for name in &getter.names {
            let taken = self.taken_by_path(name, of, expr);
            all.push(if getter.is_calling { self.called_by_name(&taken, expr) } else { taken });
        }
        match all.len() {
            1 => all.pop().unwrap_or_default(),
            _ => Values::items(all),
        }
    }

    /// Evaluates the attributes on an attribute path, one after the other, starting at `of`.
    fn taken_by_path(&mut self, path: &Values<'a>, of: &Values<'a>, expr: &'a Expr) -> Values<'a> {
        let unknown = Values::unknown();
        let (paths, is_complete) = path.texts();
        let mut values = Values::default();
        // An attribute with an unknown name is evaluated too if a path is unknown or is `__getattribute__`. A later
        // call of `__getattribute__` receives the name of another attribute.
        let mut is_computed = !is_complete;
        for path in paths {
            is_computed |= path == GETTER;
            let mut at = of.clone();
            for name in path.split('.') {
                self.work().spend(2 + at.weight());
                at = self.attribute_by_name(&at, Some(&Values::text(name.to_owned())), None, expr);
            }
            values.add(at);
        }
        if is_computed {
            values.add(self.attribute_by_name(of, Some(&unknown), None, expr));
        }
        values
    }

    /// Evaluates a call of a member that a getter has taken by name. The analysis does not know the arguments of this
    /// call.
    fn called_by_name(&mut self, callee: &Values<'a>, expr: &'a Expr) -> Values<'a> {
        if !self.is_quiet {
            let mut hidden = Arguments::default();
            hidden.push_unknown();
            hidden.has_unpacked_keywords = true;
            for value in &callee.known {
                let Value::Object(path) = value else { continue };
                let found = match INDEX.verdict(path) {
                    Verdict::Found(rule) => Some(rule),
                    Verdict::Clear | Verdict::Carrier => self.rule_of_call(path, &hidden),
                };
                if let Some(rule) = found {
                    self.report_reference(objects::shown(path), Some(rule), expr.range());
                }
            }
        }
        self.call_own(callee).or_others()
    }

    /// Reports a getter that a call receives together with an object, if the getter takes a module from the object. The
    /// callee may call the getter with the object.
    pub(super) fn check_passed_getter(
        &mut self,
        getter: &Getter<'a>,
        others: &Arguments<'a>,
        call: &'a ExprCall,
    ) {
        for of in others.all() {
            let mut objects = of.within();
            objects.known.retain(|value| !matches!(value, Value::Getter(_)));
            if objects.known.is_empty() {
                continue;
            }
            objects.is_open = false;
            let taken = self.taken(getter, &objects, &call.func).within();
            if let Some(name) = taken.known.iter().find_map(module_of_rules) {
                let rule = INDEX.special(Special::ModuleAsValue);
                self.report_reference(name, rule, call.range());
                return;
            }
        }
    }

    /// Judges a getter that the script passes to code that the analysis does not follow. Returns the attribute's name
    /// and the rule, if the getter may take a dangerous module or any attribute.
    pub(super) fn escaping_getter(&self, getter: &Getter<'a>) -> Option<(String, &'static Rule)> {
        getter.names.iter().flat_map(|name| name.texts().0).find_map(|name| {
            let special = match name {
                GETTER if getter.is_calling => Special::ComputedName,
                _ if self.symbols.own_attributes.contains(name) => return None,
                _ => objects::far_reaching(name).map(|_| Special::ModuleAsValue)?,
            };
            Some((name.to_owned(), INDEX.special(special)?))
        })
    }

    /// Reports a format string, or an attribute path, that leads from one of the arguments to a module. A formatter
    /// class of the script could then use the module, because its methods receive the objects that the fields name.
    pub(super) fn check_fields(
        &mut self,
        call: &'a ExprCall,
        base: &Values<'a>,
        method: &str,
        arguments: &Arguments<'a>,
    ) {
        let Some(format) = arguments.get(0, "format_string").cloned() else { return };
        let prints = |value: &Value<'_>| match value {
            Value::Text(_) | Value::Start(_) => true,
            Value::Object(path) => path == "builtins.str",
            _ => false,
        };
        if method == "format" && !base.is_open && base.known.iter().all(prints) {
            return;
        }
        let formatted = Formatted {
            positional: match method {
                "format" => None,
                _ => Some(arguments.get(1, "args").cloned().unwrap_or_else(Values::unknown)),
            },
            named: match method {
                "format" => arguments.as_map(),
                _ => arguments.get(2, "kwargs").cloned().unwrap_or_else(Values::unknown),
            },
            all: arguments,
        };
        let (texts, is_complete) = format.texts();
        for text in texts {
            self.work().spend(text.len() / 4);
            let is_found = match method {
                "get_field" => self.field_leads_out(text, &formatted, &call.func),
                _ => fields(text).any(|field| self.field_leads_out(field, &formatted, &call.func)),
            };
            if is_found {
                let rule = INDEX.formatting("format");
                self.report_reference(text.to_owned(), rule, call.range());
                return;
            }
        }
        if !is_complete && self.is_formatter(base) {
            let name = Values::unknown();
            for of in arguments.all() {
                self.attribute_by_name(&of.within(), Some(&name), None, &call.func);
            }
        }
    }

    /// Returns whether a replacement field such as `0.name[key]` leads from the formatted objects to a module.
    fn field_leads_out(
        &mut self,
        field: &str,
        formatted: &Formatted<'a, '_>,
        expr: &'a Expr,
    ) -> bool {
        let mut names = parts(field);
        let first = names.next().unwrap_or_default();
        let mut names = names.filter(|name| !name.is_empty()).peekable();
        if names.peek().is_none() {
            return false;
        }
        let mut at = formatted.object(first);
        for name in names {
            self.work().spend(2 + at.weight());
            if objects::far_reaching(name).is_some() && !self.symbols.own_attributes.contains(name)
            {
                return true;
            }
            let inside = at.within();
            at = self.attribute_by_name(&inside, Some(&Values::text(name.to_owned())), None, expr);
            if at.known.iter().any(|value| module_of_rules(value).is_some()) {
                return true;
            }
        }
        false
    }

    /// Returns whether `base` may be an instance of a script's class that is derived from `string.Formatter`.
    fn is_formatter(&mut self, base: &Values<'a>) -> bool {
        let classes: Vec<ScopeId> = base
            .known
            .iter()
            .filter_map(|value| match value {
                Value::Own(class) | Value::OwnClass(class) => Some(*class),
                _ => None,
            })
            .collect();
        classes.into_iter().any(|class| {
            let (bases, _) = self.bases_from_outside(class);
            bases.iter().any(|base| base == "string.Formatter")
        })
    }
}

/// The arguments that the replacement fields of a format string may name.
struct Formatted<'a, 'r> {
    /// The objects for positional fields, if the call passes these objects in one argument. `None` if the objects are
    /// the arguments after the format string.
    positional: Option<Values<'a>>,
    named: Values<'a>,
    all: &'r Arguments<'a>,
}

impl<'a> Formatted<'a, '_> {
    /// Returns the possible values of the object that the first part of a field names.
    fn object(&self, name: &str) -> Values<'a> {
        let place = name.parse::<usize>();
        match (&self.positional, place) {
            (None, Ok(place)) => self.all.positional(place.saturating_add(1)).cloned(),
            // A field with an empty name takes the next argument. The index of that argument is unknown here, so any
            // argument is possible.
            (None, Err(_)) if name.is_empty() => {
                Some(self.all.positionals().skip(1).cloned().collect())
            }
            (Some(all), Ok(_)) => Some(all.clone()),
            (Some(all), Err(_)) if name.is_empty() => Some(all.clone()),
            (_, Err(_)) => Some(self.named.item(&Values::text(name.to_owned()))),
        }
        .unwrap_or_else(Values::unknown)
    }
}

/// Creates the result of `attrgetter` or `methodcaller`. The first `count` arguments are the attribute names.
pub(super) fn getter<'a>(arguments: &Arguments<'a>, count: usize) -> Values<'a> {
    let only_texts = |name: &Values<'a>| {
        let mut texts = name.clone();
        texts.is_open |= !name.texts().1;
        texts.known.retain(|value| matches!(value, Value::Text(_)));
        texts
    };
    let mut names: Vec<_> = arguments.positionals().take(count).map(only_texts).collect();
    if arguments.has_unpacked() {
        names.push(Values::unknown());
    }
    let getter = Getter { names, is_calling: count == 1 };
    Values::one(Value::Getter(Rc::new(getter)))
}

/// Returns the name of the object if a rule finds the object, or if it is a module and a rule is about one of its
/// members.
fn module_of_rules(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Object(path) => {
            let is_found = escaping(value, Role::Value).is_some();
            let is_module = INDEX.names_member_of(path) && !objects::is_class(value);
            (is_found || is_module).then(|| objects::shown(path))
        }
        value => escaping(value, Role::Value).map(|(name, _)| name),
    }
}
