//! Follows values that reach their use in other ways than by a name: the results and arguments of the script's own
//! functions, attributes, and the contents of containers.
//!
//! A followed value joins all alternatives that occur anywhere in the script. The value is open if alternatives may
//! exist that the analysis does not know. Attributes and containers are distinguished only by their last name, so `a.x`
//! and `b.x` are treated as the same attribute.

#![expect(clippy::wildcard_enum_match_arm, reason = "the script's own values are of interest")]

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged as _;

use super::analyzer::{Analyzer, Flow};
use crate::knowledge::objects;
use crate::knowledge::value::{Value, Values};
use crate::symbols::{self, Binding, Definition, Passed, ScopeId};

/// The maximum number of calls of one function that are evaluated.
const CALLS_MAX: usize = 32;
/// The name of the object that stands for an unknown attribute of an unknown object.
pub(super) const UNKNOWN_MEMBER: &str = "….…";
/// Decorators that do not change a function, its parameters or its result.
#[rustfmt::skip]
const TRANSPARENT: &[&str] = &[
    "abstractmethod", "asynccontextmanager", "cache", "cached_property", "classmethod",
    "contextmanager", "dataclass", "lru_cache", "njit", "override", "property", "staticmethod",
];

impl<'a> Analyzer<'a, '_> {
    /// Returns the result of calling a function of the script.
    pub(super) fn function_result(&mut self, function: ScopeId) -> Values<'a> {
        self.flowing(Flow::Result(function), |this| {
            let (results, yields) = this.symbols.results(function);
            let mut values: Values<'a> = results.iter().map(|id| this.binding_value(*id)).collect();
            if results.is_empty() {
                values = Values::one(Value::Plain);
            }
            if yields {
                values = Values::container(values);
            }
            values.is_open |= this.is_decorated(function);
            // The result of a function is not treated as an unknown attribute, because many honest functions take
            // attributes by name from any object.
            values.known.retain(|value| *value != Value::Object(UNKNOWN_MEMBER.into()));
            values
        })
    }

    /// Returns whether a decorator may replace a function or class.
    pub(super) fn is_decorated(&self, definition: ScopeId) -> bool {
        self.decorators(definition).any(|name| !TRANSPARENT.contains(&name))
    }

    fn decorators(&self, definition: ScopeId) -> impl Iterator<Item = &'a str> {
        let decorators = self.symbols.definition(definition).decorators();
        decorators.inspect(|_| self.work().spend(1))
    }

    fn has_decorator(&self, definition: ScopeId, names: &[&str]) -> bool {
        self.decorators(definition).any(|name| names.contains(&name))
    }

    /// Returns the value of an attribute with this name on any object of the script. Returns `None` if the script gives
    /// no object such an attribute.
    pub(super) fn attribute_value(&mut self, name: &str) -> Option<Values<'a>> {
        let uses = self.symbols.uses(name).filter(|uses| !uses.attribute.is_empty())?;
        Some(self.flowing(Flow::Attribute(uses.id), |this| {
            let stored: Values<'a> =
                uses.attribute.iter().map(|id| this.binding_value(*id)).collect();
            let has_dynamic = this.symbols.has_dynamic_attributes;
            let mut values = Values::only_open(stored.is_open || has_dynamic);
            for value in stored.known.iter().cloned() {
                values.add(match value {
                    Value::OwnFunction(of)
                        if this.has_decorator(of, &["property", "cached_property"]) =>
                    {
                        this.function_result(of)
                    }
                    // The stored object may be a descriptor, so the attribute may also be the result of its `__get__`.
                    Value::Own(_) if name != "__get__" => {
                        let mut values = this.call_method("__get__").unwrap_or_default();
                        values.add(Values::one(value));
                        values
                    }
                    value => Values::one(value),
                });
            }
            values
        }))
    }

    /// Returns the result of calling a method with this name on any object of the script.
    pub(super) fn call_method(&mut self, name: &str) -> Option<Values<'a>> {
        let methods = self.attribute_value(name)?;
        Some(self.call_own(&methods))
    }

    /// Returns the result of calling the values among `callee` that are the script's own functions, classes or objects.
    pub(super) fn call_own(&mut self, callee: &Values<'a>) -> Values<'a> {
        let mut values = Values::only_open(callee.is_open);
        for value in &callee.known {
            values.add(match value {
                Value::OwnFunction(function) => self.function_result(*function),
                Value::OwnClass(class) => self.instance(*class),
                Value::Own(_) => self.call_method("__call__").unwrap_or_else(Values::unknown),
                _ => Values::unknown(),
            });
        }
        values
    }

    /// Returns an instance of a class of the script. If the analysis follows instances of an external base class, the
    /// alternatives include an instance of this base class.
    fn instance(&mut self, class: ScopeId) -> Values<'a> {
        let mut values = Values::one(Value::Own(class));
        let Definition::Class(definition) = self.symbols.definition(class) else { return values };
        for base in definition.bases() {
            let of = self.flowing_value(base, self.symbols.parent(class));
            values.is_open |= of.is_open;
            for value in &of.known {
                match value {
                    Value::Object(path) => match objects::instance_of(path) {
                        Some(of) => values.add(Values::one(Value::Instance(of))),
                        None => values.is_open |= path != "builtins.object",
                    },
                    Value::OwnClass(_) => {}
                    _ => values.is_open = true,
                }
            }
        }
        values
    }

    /// Returns the values that the script puts, or may put, into the container with the name of `binding`. Returns
    /// `None` if the script puts nothing into the container and creates no alias of the container.
    pub(super) fn put_into(&mut self, binding: &Binding<'a>) -> Option<Values<'a>> {
        let symbols = self.symbols;
        let uses = symbols.uses_of(binding);
        if uses.contents.is_empty() && !uses.is_aliased() {
            return None;
        }
        Some(self.flowing(Flow::Contents(uses.id), |this| {
            let mut values: Values<'a> =
                uses.contents.iter().map(|id| this.binding_value(*id)).collect();
            values.is_open |= uses.is_aliased();
            values
        }))
    }

    /// Returns the results of calling `methods`, such as `__iter__` or `__enter__`, on the script's own objects among
    /// `values`.
    pub(super) fn own_items(&mut self, values: &Values<'a>, methods: &[&str]) -> Values<'a> {
        let mut items = Values::default();
        if values.known.iter().any(|value| matches!(value, Value::Own(_) | Value::OwnClass(_))) {
            for method in methods {
                items.add(self.call_method(method).unwrap_or_default());
            }
        }
        items
    }

    /// Returns the possible values of a parameter: the arguments in all visible calls of the function.
    pub(super) fn parameter(
        &mut self,
        name: &'a str,
        default: Option<&'a Expr>,
        function: ScopeId,
    ) -> Values<'a> {
        let symbols = self.symbols;
        let definition = symbols.definition(function);
        let is_method = symbols.class_around(function).is_some()
            && !self.has_decorator(function, &["staticmethod"]);
        let first = definition.parameters().and_then(|all| all.iter_non_variadic_params().next());
        if let Some(class) = symbols.class_around(function).filter(|_| is_method)
            && first.is_some_and(|first| first.name().as_str() == name)
        {
            const OF_CLASS: &[&str] =
                &["classmethod", "__new__", "__init_subclass__", "__class_getitem__"];
            let is_class = self.has_decorator(function, OF_CLASS)
                || definition.name().is_some_and(|name| OF_CLASS.contains(&name));
            if is_class {
                return Values::one(Value::OwnClass(class));
            }
            let mut object = self.instance(class);
            object.is_open = false;
            return object;
        }
        let mut values = Values::default();
        if let Definition::Lambda(lambda, None, Some(call)) = definition {
            // The function that receives the `lambda` may pass its other arguments to the `lambda`.
            for argument in call.arguments.args.iter().filter(|of| of.range() != lambda.range()) {
                values.add(self.flowing_value(argument, symbols.parent(function)).within());
            }
        }
        let mut uses_default = false;
        let asks_for_subclasses = symbols.uses("__subclasses__").is_some();
        let is_seen = self.calls_of(function, |this, call, scope, bound| {
            let parameters = definition.parameters()?;
            this.work().spend(parameters.len());
            match symbols::argument_for(parameters, name, call, bound) {
                Passed::Argument(argument) => {
                    let is_below =
                        |this: &mut Self| this.is_below_parameter(argument, name, function);
                    if !asks_for_subclasses || !this.in_scope(scope, is_below) {
                        values.add(this.flowing_value(argument, scope));
                    }
                }
                Passed::Default => uses_default = true,
                Passed::Unseen => return None,
            }
            Some(())
        });
        let uses_only_default = values.known.is_empty();
        if let Some(default) = default.filter(|_| uses_default || !is_seen) {
            let outer = symbols.parent(function);
            values.add(self.flowing_value(default, outer));
        }
        if !is_seen {
            // Besides the arguments in the visible calls, the parameter may be any string that an unseen call passes.
            if !values.known.is_empty() && !uses_only_default {
                values.add(Values::one(Value::Start("".into())));
            }
            values.is_open = true;
        }
        values
    }

    /// Returns a container of the arguments that a function's `*` or `**` parameter takes: the remaining positional
    /// arguments, or the remaining keyword arguments.
    pub(super) fn rest_parameter(&mut self, function: ScopeId, is_named: bool) -> Values<'a> {
        let definition = self.symbols.definition(function);
        let mut values = Values::default();
        let is_seen = self.calls_of(function, |this, call, scope, bound| {
            let positional = symbols::rest_of(definition.parameters()?, call, bound);
            let named = call.arguments.keywords.iter().map(|keyword| &keyword.value);
            let (positional, named) =
                if is_named { (&[][..], Some(named)) } else { (positional, None) };
            for argument in positional.iter().chain(named.into_iter().flatten()) {
                values.add(this.flowing_value(argument, scope));
            }
            Some(())
        });
        values.is_open |= !is_seen || is_named;
        Values::container(values)
    }

    /// Returns the possible values of a field of a class: the arguments that calls of the class pass for the field.
    pub(super) fn field(&mut self, name: &str, class: ScopeId, place: usize) -> Values<'a> {
        let mut values = Values::default();
        let symbols = self.symbols;
        let Definition::Class(definition) = symbols.definition(class) else { return values };
        let Some(uses) = symbols.uses(definition.name.as_str()) else { return values };
        if definition.decorator_list.is_empty() && definition.bases().is_empty() {
            return values;
        }
        for (scope, call) in uses.calls.iter().take(CALLS_MAX) {
            self.work().spend(1 + call.arguments.len());
            let named = call.arguments.find_keyword(name).map(|keyword| &keyword.value);
            if let Some(argument) = named.or_else(|| call.arguments.args.get(place)) {
                values.add(self.flowing_value(argument, *scope));
            }
        }
        values.is_open |= uses.is_passed_on() || uses.calls.len() > CALLS_MAX;
        values
    }

    /// Runs `work` for each call of a function. `work` receives the call, the scope of the call, and the number of
    /// parameters that precede the arguments of the call, for example 1 for `self`. Returns whether all calls are
    /// visible and `work` returned `Some` for each call.
    fn calls_of(
        &mut self,
        function: ScopeId,
        mut work: impl FnMut(&mut Self, &'a ExprCall, ScopeId, usize) -> Option<()>,
    ) -> bool {
        let symbols = self.symbols;
        let class = symbols.class_around(function);
        let definition = symbols.definition(function);
        let Some(own_name) = definition.name() else { return false };
        let is_constructor = matches!(own_name, "__init__" | "__new__");
        let name = match class.filter(|_| is_constructor) {
            Some(class) => symbols.definition(class).name().unwrap_or_default(),
            None => own_name,
        };
        let Some(uses) = symbols.uses(name) else { return false };
        let is_hidden = uses.is_passed_on()
            || uses.calls.is_empty()
            || uses.calls.len() > CALLS_MAX
            || symbols.has_dynamic_names
            || (class.is_some() && symbols.has_computed_members)
            || (own_name.starts_with("__") && !is_constructor)
            || (is_constructor && symbols.uses("cls").is_some_and(|uses| !uses.calls.is_empty()))
            || self.is_decorated(function);
        let is_bound = class.is_some() && !self.has_decorator(function, &["staticmethod"]);
        let mut is_seen = !is_hidden;
        // If the script uses the function as a value, a call without a name, such as `f()()` or `d[k]()`, may be a call
        // of this function.
        let indirect = symbols.uses("").filter(|_| uses.is_passed_on());
        let indirect = indirect.into_iter().flat_map(|uses| &uses.calls).take(CALLS_MAX);
        for (scope, call) in uses.calls.iter().take(CALLS_MAX).chain(indirect) {
            if self.work().is_spent() {
                return false;
            }
            self.work().spend(1 + call.arguments.len());
            is_seen &= work(self, call, *scope, usize::from(is_bound)).is_some();
        }
        is_seen
    }

    /// Returns the value of an expression, which is evaluated at most once. Reports no findings.
    pub(super) fn flowing_value(&mut self, expr: &'a Expr, scope: ScopeId) -> Values<'a> {
        // Names are not cached here, because their bindings are cached.
        if expr.is_name_expr() || expr.is_literal_expr() {
            return self.value_in(expr, scope);
        }
        self.flowing(Flow::Expression(expr.range()), |this| this.value_in(expr, scope))
    }
}
