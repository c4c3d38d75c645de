//! Evaluates expressions. One walk computes the possible values and reports the references that the rules find, so that
//! each expression is visited once. The value of a name comes from the bindings of the name. A binding may use further
//! names.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use std::borrow::Cow;
use std::rc::Rc;

use ruff_python_ast::visitor::{self, Visitor as _};
use ruff_python_ast::{
    Expr, ExprAttribute, ExprBinOp, ExprContext, ExprDict, ExprFString, ExprLambda, ExprName,
    ExprSubscript, FStringPart, Int, InterpolatedStringElement, Operator, StmtAugAssign,
};
use ruff_text_size::{Ranged as _, TextRange, TextSize};
use smallvec::SmallVec;

use super::addresses::{SET_OF_OBJECTS, has_address};
use super::analyzer::{Analyzer, Flow};
use super::flow::UNKNOWN_MEMBER;
use super::is_dangerous_formula;
use crate::finding::FindingKind;
use crate::knowledge::index::{INDEX, Verdict};
use crate::knowledge::top;
use crate::knowledge::value::{MODULES, START_BYTES_MAX, Value, Values};
use crate::knowledge::{objects, texts};
use crate::rules::{Condition, Rule, Special};
use crate::symbols::{self, Binding, BindingId, ScopeId, ScopeKind, Source, Symbol, Uses};

/// The maximum number of imported names that a computed name is compared with.
const IMPORTS_MAX: usize = 256;

/// The maximum number of operands that are checked in a union of types such as `int | None`.
const TYPES_MAX: usize = 16;

/// Functions that take attributes of any object by name.
#[rustfmt::skip]
const GETTERS: &[&str] = &[
    "builtins.getattr", "inspect.classify_class_attrs", "inspect.getattr_static",
    "inspect.getmembers", "inspect.getmembers_static", "operator.attrgetter",
    "operator.methodcaller",
];

/// The way in which the script uses the value of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The value is passed on into a call, a container or a result.
    Value,
    /// The value is bound to a name. An object that a rule finds is reported here. Other values are judged where the
    /// name is used.
    Alias,
    /// An attribute or an item is taken from the value.
    Base,
    /// The value is called.
    Callee,
    /// The value is compared, printed, or otherwise only read.
    Harmless,
    /// The value is a type, or a part of a type, in an annotation.
    Annotation,
}

impl<'a> Analyzer<'a, '_> {
    /// Checks `expr` and its subexpressions. Returns the possible values of `expr`.
    pub(super) fn evaluate(&mut self, expr: &'a Expr, role: Role) -> Values<'a> {
        if self.work().is_spent() {
            return Values::unknown();
        }
        self.level += 1;
        let values = self.evaluate_one(expr, role);
        if matches!(expr, Expr::BinOp(_) | Expr::Call(_) | Expr::FString(_) | Expr::Subscript(_)) {
            self.note_settable(&values);
        }
        self.level -= 1;
        self.record_values(&values);
        if matches!(expr, Expr::Set(_) | Expr::SetComp(_)) {
            self.record_use("builtins.set");
            let holds_none =
                matches!(expr, Expr::Set(set) if set.iter().any(Expr::is_none_literal_expr));
            if holds_none || values.any(&mut has_address) {
                self.record_use(SET_OF_OBJECTS);
            }
        }
        self.work().spend(1 + values.weight());
        values
    }

    fn evaluate_one(&mut self, expr: &'a Expr, role: Role) -> Values<'a> {
        match expr {
            Expr::Name(name) => self.name(name, expr, role),
            Expr::Attribute(attribute) => {
                let (base, values) = self.attribute(attribute);
                self.report_attribute(attribute, &base, role);
                self.report_escape(values, expr, role)
            }
            Expr::If(_) | Expr::BoolOp(_) | Expr::Named(_) | Expr::Starred(_) => {
                self.alternatives(expr, role)
            }
            Expr::Lambda(lambda) => {
                self.lambda(lambda);
                Values::one(Value::OwnFunction(self.symbols.scope_of(expr.range())))
            }
            Expr::ListComp(_) | Expr::Generator(_) | Expr::SetComp(_) | Expr::DictComp(_) => {
                self.comprehension(expr)
            }
            Expr::Subscript(subscript) => {
                let values = self.subscript(subscript, role);
                self.report_escape(values, expr, role)
            }
            Expr::Call(call) => {
                let values = self.call(call, expr);
                self.report_escape(values, expr, role)
            }
            Expr::StringLiteral(literal) => {
                self.check_text(literal.value.to_str(), expr);
                Values::text(literal.value.to_str())
            }
            Expr::NumberLiteral(literal) => literal
                .value
                .as_int()
                .and_then(Int::as_i64)
                .map_or(Values::one(Value::Plain), |int| Values::one(Value::Number(int))),
            Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) | Expr::EllipsisLiteral(_) => {
                Values::one(Value::Plain)
            }
            Expr::Await(awaited) => self.evaluate(&awaited.value, role),
            Expr::Set(set) => {
                let elements = set.elts.iter();
                Values::container(elements.map(|of| self.evaluate(of, Role::Value)).collect())
            }
            Expr::Dict(dict) => self.dict(dict),
            Expr::Tuple(_) | Expr::List(_) => {
                // If a tuple or list is only read, its elements are only read too, as in `isinstance(x, (int, str))`.
                let is_passed_on = !matches!(role, Role::Harmless | Role::Annotation);
                let role = if is_passed_on { Role::Value } else { role };
                self.sequence(symbols::elements(expr), role)
            }
            Expr::BinOp(operation) => {
                // `A | None` may be a type. Its operands then have the same role as the type.
                let is_type = operation.op == Operator::BitOr
                    && (role == Role::Annotation
                        || role == Role::Harmless && self.is_union_of_types(operation));
                self.operation(operation, if is_type { role } else { Role::Value })
            }
            Expr::FString(f_string) => self.f_string(f_string),
            Expr::Compare(_) if self.is_quiet => Values::one(Value::Plain),
            Expr::Compare(compare) => {
                // A name that is only compared is never a finding, so the name is skipped.
                let sides = std::iter::once(&*compare.left).chain(&compare.comparators);
                for side in sides.filter(|side| !side.is_name_expr()) {
                    self.evaluate(side, Role::Harmless);
                }
                Values::one(Value::Plain)
            }
            // The values of all other expressions are unknown, but their parts must be checked.
            _ => {
                if !self.is_quiet {
                    visitor::walk_expr(self, expr);
                }
                Values::unknown()
            }
        }
    }

    fn sequence(&mut self, elements: &'a [Expr], role: Role) -> Values<'a> {
        if !elements.iter().any(Expr::is_starred_expr) {
            let items = elements.iter().map(|element| self.evaluate(element, role));
            return Values::items(items.collect::<Rc<[_]>>());
        }
        let mut items = Vec::with_capacity(elements.len());
        let mut is_known = true;
        for element in elements {
            let values = self.evaluate(element, role);
            if !element.is_starred_expr() {
                items.push(values);
            } else if let Some(parts) = values.elements() {
                items.extend(parts);
            } else {
                is_known = false;
                items.push(self.any_element(&values));
            }
        }
        if is_known { Values::items(items) } else { Values::container(items.into_iter().collect()) }
    }

    fn dict(&mut self, dict: &'a ExprDict) -> Values<'a> {
        let mut items = Vec::with_capacity(dict.items.len());
        let mut others = Values::default();
        for item in &dict.items {
            let key = item.key.as_ref().map(|key| self.evaluate(key, Role::Value));
            let value = self.evaluate(&item.value, Role::Value);
            if let Some(name) = key.as_ref().and_then(Values::as_text) {
                self.check_special(name, &value, &item.value);
            }
            match key {
                Some(key) => items.push((key, value)),
                None => others.add(value.within().or_others()),
            }
        }
        if others.is_open {
            others.extend(items.into_iter().flat_map(|(key, value)| [key, value]));
            return Values::container(others);
        }
        Values::map(items)
    }

    /// Evaluates a conditional expression, a Boolean operation, an assignment expression or a starred expression. The
    /// value of such an expression is the value of one of its parts.
    fn alternatives(&mut self, expr: &'a Expr, role: Role) -> Values<'a> {
        match expr {
            Expr::If(if_expr) => {
                self.evaluate(&if_expr.test, Role::Harmless);
                match self.is_true(&if_expr.test) {
                    Some(true) => return self.evaluate(&if_expr.body, role),
                    Some(false) => return self.evaluate(&if_expr.orelse, role),
                    None => {}
                }
                let mut values = self.evaluate(&if_expr.body, role);
                values.add(self.evaluate(&if_expr.orelse, role));
                values
            }
            Expr::BoolOp(bool_op) => {
                bool_op.values.iter().map(|operand| self.evaluate(operand, role)).collect()
            }
            Expr::Named(named) => {
                let values = self.evaluate(&named.value, Role::Alias);
                if let Some(name) = symbols::last_name(&named.target) {
                    self.check_special(name, &values, &named.value);
                }
                self.report_escape(values, &named.value, role)
            }
            Expr::Starred(starred) => self.evaluate(&starred.value, role),
            _ => Values::unknown(),
        }
    }

    /// Returns the value of an expression in `scope`. Reports no findings.
    pub(super) fn value_in(&mut self, expr: &'a Expr, scope: ScopeId) -> Values<'a> {
        self.in_scope(scope, |this| this.quietly(|this| this.evaluate(expr, Role::Alias)))
    }

    fn name(&mut self, name: &'a ExprName, expr: &'a Expr, role: Role) -> Values<'a> {
        let known = self.symbols.known_here(name);
        let values = self.resolve_as(name.id.as_str(), known, name.start(), true);
        if values.is_open && !self.symbols.star_imports.modules.is_empty() {
            self.record_member(name.id.as_str());
            self.record_use(&["*.", name.id.as_str()].concat());
        }
        if self.pass.is_formula && role != Role::Callee {
            return values;
        }
        self.report_escape(values, expr, role)
    }

    /// Evaluates a name that is used at `offset`.
    fn resolve(&mut self, name: &str, offset: TextSize) -> Values<'a> {
        self.resolve_as(name, self.symbols.known(name), offset, true)
    }

    /// Evaluates a name that is used at `offset`. If the name has too many bindings to distinguish, all bindings are
    /// possible. If the name then depends on its own earlier value and `matters` is true, the script is refused.
    fn resolve_as(
        &mut self,
        name: &str,
        known: Option<&Uses<'a>>,
        offset: TextSize,
        matters: bool,
    ) -> Values<'a> {
        let symbols = self.symbols;
        self.work().spend(symbols.depth(self.scope));
        let mut values = Values::default();
        let mut first = None;
        let is_certain = symbols.look_up(known, self.scope, offset, |symbol, is_same_scope| {
            first.get_or_insert(symbol);
            if is_same_scope && let Some(only) = symbol.only() {
                if symbols.reaches(only, offset) {
                    self.join_binding(only, &mut values);
                }
                return;
            }
            match is_same_scope.then(|| symbols.reaching(symbol, offset)).flatten() {
                Some(reaching) => {
                    for id in reaching {
                        self.join_binding(id, &mut values);
                    }
                }
                None => values.add(self.any_binding_of(symbol, matters && is_same_scope)),
            }
        });
        // A star import after the first binding may replace the binding.
        let is_later = |last| first.and_then(|symbol| symbols.first_bound(symbol)) < Some(last);
        if is_certain && symbols.star_imports.last.is_some_and(is_later) {
            values.add(self.star_imported(name));
        }
        if !is_certain {
            values.add(self.resolve_unbound(name, first.is_some()));
        }
        values
    }

    fn join_binding(&mut self, id: BindingId, values: &mut Values<'a>) {
        if !self.join_done(Flow::Binding(id), values) {
            values.add(self.binding_value(id));
        }
    }

    /// Evaluates a name that the script does not bind, or may not have bound yet at the use.
    fn resolve_unbound(&self, name: &str, is_bound_somewhere: bool) -> Values<'a> {
        let stars = &self.symbols.star_imports;
        let is_from_re = name == "compile" && stars.modules.contains_key("re");
        if let Some(builtin) = objects::builtin(name)
            && !is_from_re
        {
            let mut values = Values::object(builtin);
            let imported = self.star_imported(name);
            if !imported.known.is_empty() {
                values.add(imported);
            }
            return values;
        }
        if name == "__name__" {
            return Values::text("__main__");
        }
        if !is_bound_somewhere {
            let alias = || objects::module_by_alias(name).filter(|_| !stars.modules.is_empty());
            if let Some(module) = objects::well_known_module(name).or_else(alias) {
                return Values::object(module);
            }
        }
        // If the name is unbound at run time, the use of the name is an error. So the name has no value.
        if is_bound_somewhere && stars.modules.is_empty() && !self.symbols.has_dynamic_names {
            return Values::default();
        }
        let mut values = Values::unknown();
        values.add(self.star_imported(name));
        values
    }

    /// Evaluates a name that a star import may bind. The known alternatives are the members with this name that a rule
    /// is about. Other values are always possible.
    fn star_imported(&self, name: &str) -> Values<'a> {
        let mut values = Values::only_open(true);
        let stars = &self.symbols.star_imports;
        if stars.modules.is_empty() {
            return values;
        }
        let mut modules: SmallVec<[(usize, &str); 4]> = SmallVec::new();
        for module in objects::modules_with(name) {
            modules.extend(stars.modules.get_key_value(module).map(|(name, at)| (*at, *name)));
        }
        // For each module in `judged_whole`, one rule covers the calls of all members. So `name` may be a member of
        // such a module, even if no rule mentions `name`.
        modules.extend(stars.judged_whole.iter().copied());
        self.work().spend(modules.len());
        modules.sort_unstable();
        modules.dedup();
        for (_, module) in modules {
            values.add(objects::member_of_object(module, name));
        }
        values
    }

    /// Evaluates a name with all its bindings, regardless of their order. Used if the use is in another scope, or if
    /// the name has too many bindings to distinguish (`is_crowded`).
    fn any_binding_of(&mut self, symbol: &Symbol, is_crowded: bool) -> Values<'a> {
        let flow = Flow::Symbol(symbol.id);
        if is_crowded && self.is_pending(flow) {
            // The name depends on its own earlier value, which the analysis does not know. So the script is refused.
            self.report(FindingKind::TooIndirect, None, None);
        }
        self.flowing(flow, |this| symbol.all().map(|id| this.binding_value(id)).collect())
    }

    /// Returns the value of a binding. Evaluates each binding only once.
    pub(super) fn binding_value(&mut self, id: BindingId) -> Values<'a> {
        self.flowing(Flow::Binding(id), |this| {
            let mut values = this.evaluate_binding(this.symbols.binding(id));
            // If the script may change names in ways that the analysis cannot follow, other values are possible too.
            values.is_open |= this.symbols.has_dynamic_names;
            values
        })
    }

    fn evaluate_binding(&mut self, binding: &Binding<'a>) -> Values<'a> {
        let scope = binding.evaluated_in;
        let values = match binding.source {
            Source::Unknown => Values::unknown(),
            Source::Caught => self.caught(),
            Source::Member("__main__", name) => self.of_script(name),
            Source::Import(module) => Values::object(module),
            Source::Member(module, member) => objects::member(&Values::object(module), member),
            Source::Value(expr) => {
                let mut kept = Values::default();
                let is_kept = self.join_done(Flow::Expression(expr.range()), &mut kept);
                if is_kept { kept } else { self.value_in(expr, scope) }
            }
            Source::Item(expr, index) => self.flowing_value(expr, scope).item(&place(index)),
            Source::Element(expr) => {
                let over = self.flowing_value(expr, scope);
                self.any_element(&over)
            }
            Source::ElementItem(expr, index) => {
                let over = self.flowing_value(expr, scope);
                self.any_element(&over).item(&place(index))
            }
            Source::Within(expr) => {
                let whole = self.flowing_value(expr, scope);
                let mut values = whole.within();
                values.add(whole);
                values.or_others()
            }
            Source::Entered(expr) => {
                let manager = self.value_in(expr, scope);
                let mut values = self.own_items(&manager, &["__enter__", "__aenter__"]);
                values.add(manager.entered());
                values
            }
            Source::Augmented(assign) => self.augmented(assign, scope),
            Source::Parameter(default, function) => self.parameter(binding.name, default, function),
            Source::Rest(function, is_named) => self.rest_parameter(function, is_named),
            Source::Field(class, place) => self.field(binding.name, class, place),
            Source::Definition(range) => self.defined(self.symbols.scope_of(range)),
        };
        self.with_contents(values, binding)
    }

    fn defined(&self, scope: ScopeId) -> Values<'a> {
        let value = match self.symbols.kind(scope) {
            ScopeKind::Class => Value::OwnClass(scope),
            ScopeKind::Module | ScopeKind::Function | ScopeKind::Comprehension => {
                Value::OwnFunction(scope)
            }
        };
        let mut values = Values::one(value);
        values.is_open = self.is_decorated(scope);
        values
    }

    /// Adds to the containers in `values` the items that the script puts into the variable of `binding`, for example
    /// with `append`. An unknown value may also be a container. All other values are returned unchanged.
    fn with_contents(&mut self, values: Values<'a>, binding: &Binding<'a>) -> Values<'a> {
        let is_tuple = matches!(binding.source, Source::Value(Expr::Tuple(_)));
        if is_tuple
            || binding.name.is_empty()
            || !(values.is_open || values.known.iter().any(Value::is_container))
        {
            return values;
        }
        let Some(put) = self.put_into(binding) else { return values };
        if put.known.is_empty() && !values.known.iter().any(Value::is_container) {
            return values;
        }
        let mut with_put = Values::only_open(values.is_open);
        if values.is_open && !put.known.is_empty() {
            with_put.add(Values::container(put.clone()));
        }
        for value in values.known.iter().cloned() {
            if !value.is_container() {
                with_put.add(Values::one(value));
                continue;
            }
            let mut contents = put.clone();
            if let Value::Map(items) = &value {
                items.iter().for_each(|(_, item)| contents.add(item.clone()));
            }
            contents.add(Values::one(value).any_element());
            with_put.add(Values::container(contents));
        }
        with_put
    }

    /// Evaluates the value of the name `a` after `a += b`.
    fn augmented(&mut self, assign: &'a StmtAugAssign, scope: ScopeId) -> Values<'a> {
        let added = self.value_in(&assign.value, scope);
        let Expr::Name(name) = &*assign.target else { return Values::unknown() };
        let before = self.in_scope(scope, |this| {
            this.quietly(|this| {
                let known = this.symbols.known(name.id.as_str());
                this.resolve_as(name.id.as_str(), known, name.start(), false)
            })
        });
        texts::combined(&before, assign.op, &added).unwrap_or_else(|| {
            let mut values = Values::unknown();
            for side in [before, added] {
                let containers = side.known.iter().filter(|value| value.is_container());
                values.extend(containers.cloned().map(Values::one));
            }
            values
        })
    }

    /// Evaluates the values that one step of an iteration over `over` may yield. Includes the script's own iterators.
    pub(super) fn any_element(&mut self, over: &Values<'a>) -> Values<'a> {
        let mut elements = over.any_element();
        let iterators = self.own_items(over, &["__iter__", "__aiter__", "__next__", "__anext__"]);
        elements.add(iterators.any_element());
        elements
    }

    /// Evaluates an attribute in the source. Returns the values of the object before the dot, and the values of the
    /// attribute.
    pub(super) fn attribute(&mut self, attribute: &'a ExprAttribute) -> (Values<'a>, Values<'a>) {
        let name = attribute.attr.as_str();
        self.record_member(name);
        if self.is_harmless_reading(attribute) {
            return (Values::unknown(), Values::unknown());
        }
        let base = self.evaluate(&attribute.value, Role::Base);
        if !self.is_quiet {
            // A script may read `__code__`, because the properties of a code object are harmless to read.
            let is_read = name == "__code__" && attribute.ctx == ExprContext::Load;
            if let Some(rule) = INDEX.attribute(name)
                && !is_read
                && !self.is_own_attribute(&base, attribute)
            {
                self.report_reference(name.to_owned(), Some(rule), attribute.range());
            }
            self.check_format(&base, name, attribute.range());
        }
        let values = self.member_of(&base, name, Some(&attribute.value));
        self.record_values(&values);
        (base, values)
    }

    /// Reports a reference to a formatting method of a dangerous format string. The reference is dangerous even if the
    /// script does not call the method here, because other code may call it.
    pub(super) fn check_format(&mut self, base: &Values<'a>, name: &str, range: TextRange) {
        if !base.known.is_empty()
            && let Some(rule) = INDEX.formatting(name)
            && base.texts().0.any(|text| self.takes_internals(text))
        {
            self.report_reference(name.to_owned(), Some(rule), range);
        }
    }

    /// Returns the possible values of the member `name` of `base`. `from` is the expression of `base` in the source, if
    /// there is one.
    pub(super) fn member_of(
        &mut self,
        base: &Values<'a>,
        name: &str,
        from: Option<&Expr>,
    ) -> Values<'a> {
        match name {
            "__code__" => return Values::one(Value::Instance(objects::CODE)),
            "__traceback__" | "tb_next" => return Values::object("types.TracebackType"),
            // Under these names, a method returns itself or the same method in another form.
            "__call__" | "__func__" | "__get__" | "__wrapped__" => {
                let is_method = |value: &&Value<'a>| matches!(value, Value::Method(_));
                if let Some(method) = base.known.iter().find(is_method) {
                    return Values::one(method.clone());
                }
            }
            // `cell_contents` is a variable of an enclosing function, which may be anything.
            "cell_contents" => return Values::object(UNKNOWN_MEMBER).or_others(),
            _ => {}
        }
        let mut values = objects::member(base, name);
        values.add(self.stored_as(base, name));
        let is_script =
            |value: &Value<'_>| matches!(value, Value::Object(path) if path == "__main__");
        if base.known.iter().any(is_script) {
            values.add(self.of_script(name));
        }
        if let Some(of_own) = self.own_member(base, name) {
            values.add(of_own);
        }
        let has_methods = |value: &Value<'_>| {
            objects::is_class(value)
                || matches!(value, Value::Instance(class) if !objects::is_stream(class))
        };
        if !(base.is_open || base.known.iter().any(has_methods))
            || self.symbols.own_attributes.contains(name)
            || from.is_some_and(|from| self.is_self(from))
        {
            return values;
        }
        if let Some(method) = INDEX.method(name) {
            values.add(Values::one(Value::Method(method)));
        }
        if !base.is_open {
            return values;
        }
        if matches!(name, "detach" | "raw") {
            values.add(Values::one(Value::Instance(objects::FILE)));
        }
        // Most modules have other modules as attributes, such as `json.codecs`. So in `x.codecs.open`, `x.codecs` may
        // be the module.
        if let Some(module) = from.and_then(Expr::as_attribute_expr)
            && let Some(member) = objects::member_behind(module.attr.as_str(), name)
            && !self.is_self(&module.value)
        {
            values.add(member);
        }
        if let Some(module) = objects::far_reaching(name) {
            // In a formula, the attribute is treated as the module, because an honest formula has no attribute with
            // such a name.
            let value = if self.pass.is_formula {
                Value::Object(Cow::Borrowed(module))
            } else {
                Value::MaybeModule(module)
            };
            values.add(Values::one(value));
        }
        values
    }

    /// Returns the possible values of the attribute `name` on an object of the script. Returns `None` if `base` cannot
    /// be such an object, or if `base` is unknown and the script defines no attribute with this name.
    fn own_member(&mut self, base: &Values<'a>, name: &str) -> Option<Values<'a>> {
        let own = base.known.iter().find_map(|value| match value {
            Value::Own(class) | Value::OwnClass(class) => Some((value, *class)),
            _ => None,
        });
        if own.is_none() && !base.is_open {
            return None;
        }
        let stored = self.attribute_value(name);
        let Some((own, class)) = own else { return stored.map(Values::or_others) };
        match (own, name) {
            (Value::Own(_), "__class__") => return Some(Values::one(Value::OwnClass(class))),
            (_, "__dict__") => {
                let contents = self.own_contents();
                if !contents.known.is_empty() {
                    return Some(Values::container(contents.or_others()).or_others());
                }
            }
            _ if stored.is_some() => return stored,
            _ => {}
        }
        let by_name = self.call_method("__getattr__");
        Some(by_name.unwrap_or_default().or_others())
    }

    fn subscript(&mut self, subscript: &'a ExprSubscript, role: Role) -> Values<'a> {
        let base = self.evaluate(&subscript.value, Role::Base);
        let of_key = if role == Role::Annotation { role } else { Role::Value };
        let key = self.evaluate(&subscript.slice, of_key);
        let is_namespace = |of: &Expr| match of {
            Expr::Attribute(attribute) => attribute.attr.as_str() == "__dict__",
            Expr::Call(call) => symbols::last_name(&call.func) == Some("vars"),
            _ => false,
        };
        let names_member = |text: &str| text.starts_with("__") || is_namespace(&subscript.value);
        if let Some(text) = key.as_text().filter(|text| names_member(text))
            && let Some(rule) = INDEX.attribute(text)
            // A key of a dictionary literal is not the name of an attribute.
            && (text == "__builtins__" || !matches!(base.single(), Some(Value::Map(_))))
        {
            self.report_reference(text.to_owned(), Some(rule), subscript.range());
        }
        if let Some(folded) = texts::sliced(&base, &subscript.slice, &key) {
            return folded;
        }
        let mut values = self.own_items(&base, &["__getitem__", "__class_getitem__"]);
        values.is_open |= base.is_open;
        for value in &base.known {
            if let Value::Object(path) = value
                && (top(path).starts_with("typing") || path.starts_with("builtins."))
            {
                self.check_types(&key, &subscript.slice);
            }
            values.add(match value {
                value if value.is_container() => {
                    let container = Values::one(value.clone());
                    if subscript.slice.is_slice_expr() {
                        Values::container(container.any_element())
                    } else {
                        container.item(&key)
                    }
                }
                Value::Own(_) | Value::OwnClass(_) => Values::default(),
                Value::Namespace(path) => self.namespace_item(path, &key, subscript.range()),
                // `__builtins__` can be a dictionary instead of a module. Its items are then the members of `builtins`.
                Value::Object(path) if path == "builtins.__builtins__" => {
                    self.namespace_item("builtins", &key, subscript.range())
                }
                // The items of a refused attribute such as `__bases__` are classes. Each item is treated like the
                // attribute itself.
                Value::Object(path) if path.ends_with("__") && INDEX.is_found(path) => {
                    Values::one(value.clone())
                }
                // Some attributes of a path contain further paths. So an item of a path is treated as a path.
                Value::Instance(class) if objects::is_sticky(class) => Values::one(value.clone()),
                _ => Values::unknown(),
            });
        }
        values
    }

    /// Looks `key` up in a namespace. `namespace` is a module's qualified name, `sys.modules`, or empty for the
    /// script's own namespace.
    pub(super) fn namespace_item(
        &mut self,
        namespace: &str,
        key: &Values<'a>,
        at: TextRange,
    ) -> Values<'a> {
        let (texts, is_complete) = key.texts();
        let mut values = Values::only_open(!is_complete);
        for text in texts {
            let text: Cow<'a, str> = Cow::Owned(text.to_owned());
            values.add(match namespace {
                "" if text == "__builtins__" => Values::object("builtins.__builtins__"),
                "" => self.resolve(&text, TextSize::new(u32::MAX)),
                "__main__" => self.of_script(&text),
                MODULES => Values::one(Value::Object(text)),
                module => objects::member_of_object(module, &text),
            });
        }
        let is_plain = objects::is_plain(namespace) || namespace.is_empty() && self.names_own(key);
        if !is_complete && !is_plain {
            let rule = objects::rule_of_namespace(namespace);
            let name = if namespace.is_empty() { "globals()" } else { namespace };
            self.report_reference(format!("{name}[…]"), rule, at);
        }
        values
    }

    /// Returns the values in the script's own namespace. The known values are the imported modules through which a
    /// script can reach everything (`objects::far_reaching`). All other values are unknown.
    pub(super) fn own_namespace(&mut self) -> Values<'a> {
        self.flowing(Flow::Namespace, |this| {
            let end = TextSize::new(u32::MAX);
            let mut values = Values::unknown();
            for name in this.symbols.imports.iter().take(IMPORTS_MAX) {
                let imported = this.in_scope(symbols::MODULE, |this| this.resolve(name, end));
                let modules = imported.known.iter().filter_map(|value| match value {
                    Value::Object(path) => objects::far_reaching(path).map(Value::MaybeModule),
                    _ => None,
                });
                values.extend(modules.map(Values::one));
            }
            let pair = Values::items([Values::unknown(), values.clone()]);
            let mut of_either = Values::container(pair);
            of_either.add(Values::container(values));
            of_either
        })
    }

    /// Evaluates `name` as a member of the script's own module.
    pub(super) fn of_script(&mut self, name: &str) -> Values<'a> {
        self.in_scope(symbols::MODULE, |this| this.resolve(name, TextSize::new(u32::MAX)))
    }

    /// Returns whether a computed name can only be the name of an object of the script, judging by the start of the
    /// name.
    pub(super) fn names_own(&self, name: &Values<'a>) -> bool {
        self.work().spend(self.symbols.imports.len().min(IMPORTS_MAX));
        let is_own = |start: &str| {
            !start.starts_with('_') && !self.symbols.imports.iter().any(|of| of.starts_with(start))
        };
        !name.is_open
            && self.symbols.imports.len() < IMPORTS_MAX
            && name.known.iter().all(|value| match value {
                Value::Start(start) => is_own(start),
                value => matches!(value, Value::Text(_)),
            })
    }

    /// Reports `__subclasses__` or `__getattribute__` if the script uses the method as a value. Direct calls are judged
    /// elsewhere, because some direct calls are harmless: a call on a class of the script, or with a known name.
    fn report_attribute(&mut self, attribute: &'a ExprAttribute, base: &Values<'a>, role: Role) {
        let name = attribute.attr.as_str();
        let is_own = |value: &Value<'_>| matches!(value, Value::Own(_) | Value::OwnClass(_));
        let found = match name {
            "__subclasses__" => INDEX.attribute(name),
            "__getattribute__" if !base.known.iter().any(is_own) => {
                INDEX.special(Special::ComputedName)
            }
            _ => return,
        };
        if matches!(role, Role::Value | Role::Alias) {
            self.report_reference(name.to_owned(), found, attribute.range());
        }
    }

    /// Reports the first dangerous object among `values`, and returns `values`. Values that the script only reads,
    /// calls or takes members of are not judged here.
    fn report_escape(&mut self, values: Values<'a>, expr: &'a Expr, role: Role) -> Values<'a> {
        let is_judged = matches!(role, Role::Value | Role::Alias | Role::Annotation);
        if self.is_quiet || !is_judged {
            return values;
        }
        if let Some((name, rule)) = values.known.iter().find_map(|value| escaping(value, role)) {
            self.report_reference(name, rule, expr.range());
        }
        if role == Role::Value {
            for value in &values.known {
                if let Value::Getter(getter) = value
                    && let Some((name, rule)) = self.escaping_getter(getter)
                {
                    self.report_reference(name, Some(rule), expr.range());
                }
            }
        }
        values
    }

    /// Returns whether all operands of `a | b | c` are `None` or external classes, so that the operator joins them to a
    /// type.
    fn is_union_of_types(&mut self, operation: &'a ExprBinOp) -> bool {
        let mut left = &*operation.left;
        let mut parts: SmallVec<[&'a Expr; 4]> = SmallVec::from_iter([&*operation.right]);
        while let Expr::BinOp(inner) = left
            && inner.op == Operator::BitOr
            && parts.len() < TYPES_MAX
        {
            parts.push(&inner.right);
            left = &inner.left;
        }
        parts.push(left);
        self.work().spend(parts.len());
        parts.into_iter().all(|part| {
            let is_type = |value: &Value<'_>| match value {
                Value::Object(path) => {
                    let builtin = path.strip_prefix("builtins.");
                    builtin.is_some_and(objects::is_type_of_data) || objects::is_class(value)
                }
                _ => false,
            };
            part.is_none_literal_expr()
                || self
                    .quietly(|this| this.evaluate(part, Role::Harmless))
                    .single()
                    .is_some_and(is_type)
        })
    }

    /// Evaluates `+` for strings and sequences, and `/` for paths.
    fn operation(&mut self, operation: &'a ExprBinOp, role: Role) -> Values<'a> {
        // A sum of many terms nests to the left, so this call recurses once for each term.
        let left = self.evaluate(&operation.left, role);
        let right = self.evaluate(&operation.right, role);
        for side in [&left, &right] {
            if let Some(Value::Instance(class)) = side.known.first()
                && objects::is_sticky(class)
            {
                return Values::one(Value::Instance(class));
            }
        }
        texts::combined(&left, operation.op, &right).unwrap_or_else(Values::unknown)
    }

    fn f_string(&mut self, f_string: &'a ExprFString) -> Values<'a> {
        let mut whole = vec![String::new()];
        let mut start = String::new();
        for part in &f_string.value {
            match part {
                FStringPart::Literal(literal) => texts::push(&mut whole, &[literal.as_str()]),
                FStringPart::FString(f_string) => {
                    for element in &f_string.elements {
                        if let [only] = whole.as_slice()
                            && start.len() < START_BYTES_MAX
                        {
                            start.clone_from(only);
                        }
                        self.f_string_element(element, &mut whole);
                    }
                }
            }
        }
        if whole.is_empty() {
            Values::start(&start)
        } else {
            whole.into_iter().map(Values::text).collect()
        }
    }

    fn f_string_element(
        &mut self,
        element: &'a InterpolatedStringElement,
        whole: &mut Vec<String>,
    ) {
        match element {
            InterpolatedStringElement::Literal(literal) => texts::push(whole, &[&literal.value]),
            InterpolatedStringElement::Interpolation(interpolation) => {
                let values = if self.code_depth > 0 {
                    self.part_of_code(&interpolation.expression)
                } else {
                    self.evaluate(&interpolation.expression, Role::Harmless)
                };
                self.record_shown(&values);
                let is_plain = interpolation.conversion.is_none()
                    && interpolation.format_spec.is_none()
                    && interpolation.debug_text.is_none();
                let shown = if is_plain { texts::displays(&values) } else { Vec::new() };
                texts::push(whole, &shown);
                if let Some(spec) = &interpolation.format_spec {
                    for element in &spec.elements {
                        self.f_string_element(element, &mut Vec::new());
                    }
                }
            }
        }
    }

    /// Reports a string that is dangerous code: a type in an annotation, or an example for doctest.
    fn check_text(&mut self, text: &'a str, expr: &'a Expr) {
        if self.is_annotation {
            self.check_types(&Values::one(Value::Text(Cow::Borrowed(text))), expr);
        }
        if !self.is_quiet
            && self.has_doctest
            && text.contains(">>> ")
            && self.has_dangerous_examples(text)
        {
            let rule = INDEX.special(Special::Examples);
            self.report_reference("doctest".to_owned(), rule, expr.range());
        }
    }

    /// Returns the name of the attribute or variable `holder`. If the script uses `__annotations__` anywhere, returns
    /// `__annotations__` for every variable, because any variable may refer to that dictionary.
    pub(super) fn target_name(&self, holder: &'a Expr) -> Option<&'a str> {
        let name = symbols::last_name(holder)?;
        let is_alias = holder.is_name_expr() && self.symbols.uses("__annotations__").is_some();
        Some(if is_alias { "__annotations__" } else { name })
    }

    /// Judges a value that is assigned under a name with a special meaning, such as `__doc__`.
    pub(super) fn check_special(&mut self, name: &str, values: &Values<'a>, expr: &'a Expr) {
        match name {
            _ if self.is_quiet => {}
            "__annotations__" => self.check_types(values, expr),
            // `case C(a)` reads the attribute with the first name in `__match_args__`.
            "__match_args__" => {
                let names = values.within();
                let (mut texts, is_complete) = names.texts();
                if let Some(rule) = texts.find_map(|name| self.attribute_rule(name)) {
                    self.report_reference(name.to_owned(), Some(rule), expr.range());
                } else if !is_complete && !values.known.contains(&Value::Items([].into())) {
                    let rule = INDEX.special(Special::ComputedName);
                    self.report_reference(name.to_owned(), rule, expr.range());
                }
            }
            "__doc__" | "__test__" if self.has_doctest => {
                let is_hidden = |value: &Value<'_>| matches!(value, Value::Start(_));
                let is_known = !values.is_open
                    && !values.known.is_empty()
                    && !values.any(&mut { is_hidden })
                    && !values.within().is_open;
                let is_dangerous = |text: &str| self.has_dangerous_examples(text);
                if !is_known || values.any_text(&mut { is_dangerous }) {
                    let rule = INDEX.special(Special::Examples);
                    self.report_reference("doctest".to_owned(), rule, expr.range());
                }
            }
            _ => {}
        }
    }

    /// Returns the rule against taking an attribute with this name from an unknown object.
    pub(super) fn attribute_rule(&self, name: &str) -> Option<&'static Rule> {
        if self.symbols.own_attributes.contains(name) && !name.starts_with("__") {
            return None;
        }
        let of_method = || INDEX.methods(name).first().map(|(rule, _)| *rule);
        let of_module =
            || objects::far_reaching(name).and_then(|_| INDEX.special(Special::ModuleAsValue));
        INDEX.attribute(name).or_else(of_method).or_else(of_module)
    }

    /// Reports dangerous strings that are used as types, regardless of how the script composed them.
    pub(super) fn check_types(&mut self, types: &Values<'a>, expr: &'a Expr) {
        let mut is_dangerous = |text: &str| is_dangerous_formula(text, self.work());
        if !self.is_quiet && types.any_text(&mut is_dangerous) {
            let rule = INDEX.special(Special::Annotation);
            self.report_reference("annotation".to_owned(), rule, expr.range());
        }
    }

    /// Evaluates the iterable of a loop. Its elements are bound to the loop's target, which may be an attribute or an
    /// item.
    pub(super) fn iterated(&mut self, expr: &'a Expr) -> Values<'a> {
        let is_display = !symbols::elements(expr).is_empty();
        let values = self.evaluate(expr, if is_display { Role::Value } else { Role::Alias });
        self.remember(expr, &values);
        values
    }

    fn lambda(&mut self, lambda: &'a ExprLambda) {
        if self.is_quiet {
            return;
        }
        if let Some(parameters) = &lambda.parameters {
            self.visit_parameters(parameters);
        }
        self.in_scope_of(lambda.range(), |this| {
            this.evaluate(&lambda.body, Role::Value);
        });
    }

    fn comprehension(&mut self, expr: &'a Expr) -> Values<'a> {
        let (parts, generators) = symbols::comprehension(expr);
        let Some(first) = generators.first() else { return Values::unknown() };
        let is_quiet = self.is_quiet;
        if !is_quiet {
            self.iterated(&first.iter);
        }
        self.in_scope_of(expr.range(), |this| {
            for (index, generator) in generators.iter().enumerate().filter(|_| !is_quiet) {
                this.visit_expr(&generator.target);
                if index > 0 {
                    this.iterated(&generator.iter);
                }
                for condition in &generator.ifs {
                    this.visit_expr(condition);
                }
            }
            let parts = parts.into_iter().flatten();
            Values::container(parts.map(|part| this.evaluate(part, Role::Value)).collect())
        })
    }
}

/// Converts an index to a value.
fn place<'a>(index: usize) -> Values<'a> {
    i64::try_from(index).map_or_else(|_| Values::unknown(), |at| Values::one(Value::Number(at)))
}

/// Judges a value that is passed to code which the analysis does not follow. Returns the name to report, and the rule.
pub(super) fn escaping(
    value: &Value<'_>,
    used_as: Role,
) -> Option<(String, Option<&'static Rule>)> {
    // An object in an annotation is treated as a value, because the script can read the object from `__annotations__`.
    // A class in an annotation is an exception: it is judged where the script calls it.
    let is_type = used_as == Role::Annotation;
    let is_value = used_as == Role::Value || is_type;
    match value {
        Value::Object(path) => match INDEX.verdict(path) {
            Verdict::Found(rule) if is_type && is_type_of_others(rule, path) => None,
            Verdict::Found(rule) => Some((objects::shown(path), Some(rule))),
            Verdict::Carrier if is_value => {
                Some((path.clone().into_owned(), INDEX.special(Special::ModuleAsValue)))
            }
            // The function is a getter such as `getattr`. Other code could call the function with any object and any
            // attribute name.
            Verdict::Clear if is_value && GETTERS.contains(&&**path) => {
                Some((objects::shown(path), INDEX.special(Special::ComputedName)))
            }
            // The rules judge these functions by their arguments. The arguments are unknown if other code calls the
            // functions, so passing the functions on is a finding.
            Verdict::Clear if is_value && !is_type => INDEX
                .calls(path)
                .find(|(_, condition)| {
                    matches!(
                        condition,
                        Condition::NamesFile(..)
                            | Condition::SavesElsewhere(_)
                            | Condition::DatabaseFile
                            | Condition::ImportsModule
                            | Condition::NamesObject
                            | Condition::Code
                    )
                })
                .map(|(rule, _)| (objects::shown(path), Some(rule))),
            Verdict::Carrier | Verdict::Clear => None,
        },
        Value::Instance(objects::CODE) if is_value => {
            Some(("__code__".to_owned(), INDEX.attribute("__code__")))
        }
        Value::Namespace(path) if path.is_empty() => None,
        Value::Namespace(path) if is_value && path == MODULES => {
            Some((MODULES.to_owned(), objects::rule_of_namespace(MODULES)))
        }
        Value::Namespace(path) | Value::LookUp(path) if is_value && !objects::is_plain(path) => {
            Some((format!("{path}.__dict__"), objects::rule_of_namespace(path)))
        }
        _ => None,
    }
}

/// Returns whether an object that `rule` finds is harmless in an annotation. This applies to the types of functions and
/// code objects, and to private classes.
fn is_type_of_others(rule: &Rule, path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or_default().trim_start_matches('_');
    match rule.id {
        "internals/code-objects" => true,
        "imports/private-member" => name.starts_with(|c: char| c.is_ascii_uppercase()),
        _ => false,
    }
}
