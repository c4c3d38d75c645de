//! The evaluation of expressions: the values that each may have, and the references in it that the
//! rules find. One walk does both, so that every expression is visited once. A name leads to what
//! binds it, and that to further names.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use std::borrow::Cow;

use ruff_python_ast::visitor::{self, Visitor as _};
use ruff_python_ast::{
    Expr, ExprAttribute, ExprBinOp, ExprFString, ExprLambda, ExprName, ExprSubscript, FStringPart,
    Int, InterpolatedStringElement,
};
use ruff_text_size::{Ranged as _, TextRange, TextSize};
use smallvec::SmallVec;

use super::analyzer::Analyzer;
use super::is_dangerous_formula;
use crate::safety::finding::FindingKind;
use crate::safety::knowledge::index::{INDEX, Verdict, top};
use crate::safety::knowledge::value::{ITEMS_MAX, Value, Values};
use crate::safety::knowledge::{objects, texts};
use crate::safety::rules::{Condition, Rule, Special};
use crate::safety::symbols::{self, Binding, BindingId, ScopeId, Source, Symbol};

/// The most targets of comprehensions that are unrolled one within the other.
const UNROLLED_MAX: usize = 2;

/// The use that is made of the value of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Passed on: into a call, a container, a result.
    Value,
    /// Bound to a name, and found again under it.
    Alias,
    /// The object of which an attribute or an item is taken.
    Base,
    /// Called.
    Callee,
    /// Compared, printed, or otherwise only read.
    Harmless,
}

impl<'a> Analyzer<'a, '_> {
    /// Checks `expr` and everything in it, and returns what it may evaluate to.
    pub(super) fn evaluate(&mut self, expr: &'a Expr, role: Role) -> Values<'a> {
        if self.work().is_spent() {
            return Values::unknown();
        }
        let values = self.one_level_deeper(|this| this.evaluate_one(expr, role));
        self.work().spend(1 + values.weight());
        values
    }

    fn evaluate_one(&mut self, expr: &'a Expr, role: Role) -> Values<'a> {
        match expr {
            Expr::Name(name) => self.name(name, expr, role),
            Expr::Attribute(attribute) => {
                let (_, values) = self.attribute(attribute);
                self.report_escape(values, expr, role)
            }
            Expr::If(_) | Expr::BoolOp(_) | Expr::Named(_) | Expr::Starred(_) => {
                self.alternatives(expr, role)
            }
            Expr::Lambda(lambda) => {
                self.lambda(lambda);
                Values::one(Value::OwnFunction)
            }
            Expr::ListComp(_) | Expr::Generator(_) | Expr::SetComp(_) | Expr::DictComp(_) => {
                self.comprehension(expr)
            }
            Expr::Subscript(subscript) => {
                let values = self.subscript(subscript);
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
            Expr::BytesLiteral(literal) => Values::bytes(literal.value.bytes().collect()),
            Expr::NumberLiteral(literal) => literal
                .value
                .as_int()
                .and_then(Int::as_i64)
                .map_or_else(Values::unknown, |int| Values::one(Value::Number(int))),
            Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) | Expr::EllipsisLiteral(_) => {
                Values::unknown()
            }
            Expr::Tuple(_) | Expr::List(_) => {
                let elements = symbols::elements(expr).iter();
                // Several types to compare with are only read, too.
                let role = if role == Role::Harmless { role } else { Role::Value };
                Values::items(elements.map(|element| self.evaluate(element, role)).collect())
            }
            Expr::BinOp(operation) => self.operation(operation),
            Expr::FString(f_string) => self.f_string(f_string),
            Expr::Compare(compare) => {
                self.evaluate(&compare.left, Role::Harmless);
                for comparator in &compare.comparators {
                    self.evaluate(comparator, Role::Harmless);
                }
                Values::unknown()
            }
            // Nothing is known of the others, but what is in them has to be checked.
            _ => {
                if !self.is_quiet() {
                    visitor::walk_expr(self, expr);
                }
                Values::unknown()
            }
        }
    }

    /// Evaluates expressions whose value is that of one of their parts.
    fn alternatives(&mut self, expr: &'a Expr, role: Role) -> Values<'a> {
        match expr {
            Expr::If(if_expr) => {
                self.evaluate(&if_expr.test, Role::Harmless);
                let mut values = self.evaluate(&if_expr.body, role);
                values.add(self.evaluate(&if_expr.orelse, role));
                values
            }
            Expr::BoolOp(bool_op) => {
                bool_op.values.iter().map(|operand| self.evaluate(operand, role)).collect()
            }
            Expr::Named(named) => {
                let values = self.evaluate(&named.value, Role::Alias);
                self.report_escape(values, &named.value, role)
            }
            Expr::Starred(starred) => self.evaluate(&starred.value, role),
            _ => Values::unknown(),
        }
    }

    /// Evaluates for the value alone, in `scope`.
    pub(super) fn value_in(&mut self, expr: &'a Expr, scope: ScopeId) -> Values<'a> {
        self.in_scope(scope, |this| this.quietly(|this| this.evaluate(expr, Role::Alias)))
    }

    fn name(&mut self, name: &'a ExprName, expr: &'a Expr, role: Role) -> Values<'a> {
        let values = self.resolve(name.id.as_str(), name.start());
        if self.pass().is_formula && role != Role::Callee {
            return values;
        }
        self.report_escape(values, expr, role)
    }

    /// Evaluates a name where it is used.
    fn resolve(&mut self, name: &str, offset: TextSize) -> Values<'a> {
        if let Some(values) = self.target(name) {
            return values.clone();
        }
        let symbols = self.symbols();
        self.work().spend(symbols.depth(self.scope()));
        let mut found: SmallVec<[(&Symbol, bool); 2]> = SmallVec::new();
        let is_certain = symbols.look_up(name, self.scope(), offset, |symbol, is_same_scope| {
            found.push((symbol, is_same_scope));
        });
        let mut values = Values::default();
        for (symbol, is_same_scope) in &found {
            match symbols.reaching(symbol, offset).filter(|_| *is_same_scope) {
                Some(reaching) => {
                    for id in reaching {
                        values.add(self.binding_value(id));
                    }
                }
                None => values.add(self.any_binding_of(symbol, *is_same_scope)),
            }
        }
        // What is imported with a star later takes the place of what was bound before.
        let first = found.first().and_then(|(symbol, _)| symbols.first_bound(symbol));
        if is_certain && symbols.star_imports.last > first {
            values.add(self.star_imported(name));
        }
        if !is_certain {
            values.add(self.resolve_unbound(name, !found.is_empty()));
        }
        values
    }

    /// Evaluates a name that the script does not bind, or may not have bound.
    fn resolve_unbound(&self, name: &str, is_bound_somewhere: bool) -> Values<'a> {
        let stars = &self.symbols().star_imports;
        let is_from_re = name == "compile" && stars.modules.contains_key("re");
        if let Some(builtin) = objects::builtin(name)
            && !is_from_re
        {
            return Values::object(builtin);
        }
        if name == "__name__" {
            return Values::text("__main__");
        }
        if !is_bound_somewhere && let Some(module) = objects::well_known_module(name) {
            return Values::object(module);
        }
        let mut values = Values::unknown();
        values.add(self.star_imported(name));
        values
    }

    /// Evaluates a name by the star imports, as far as the rules know what they bring in.
    fn star_imported(&self, name: &str) -> Values<'a> {
        let mut values = Values::only_open(true);
        let stars = &self.symbols().star_imports;
        let mut modules: SmallVec<[(usize, &str); 4]> = SmallVec::new();
        for module in objects::modules_with(name) {
            modules.extend(stars.modules.get_key_value(module).map(|(name, at)| (*at, *name)));
        }
        // What no row names in particular is one of several anyway.
        modules.extend(stars.judged_whole.iter().copied());
        self.work().spend(modules.len());
        modules.sort_unstable();
        modules.dedup();
        for (_, module) in modules {
            values.add(Values::object(format!("{module}.{name}")));
        }
        values
    }

    /// Evaluates a name for any time: seen from another scope, or bound so often that its bindings
    /// are not told apart.
    fn any_binding_of(&mut self, symbol: &Symbol, is_crowded: bool) -> Values<'a> {
        let followed = self
            .following_all(symbol, |this| symbol.all().map(|id| this.binding_value(id)).collect());
        if followed.is_none() && is_crowded {
            // What it was before matters, and is not known.
            self.report(FindingKind::TooIndirect, None, None);
        }
        followed.unwrap_or_else(Values::unknown)
    }

    /// Evaluates what a binding binds its name to.
    fn binding_value(&mut self, id: BindingId) -> Values<'a> {
        self.following(id, |this| {
            let mut values = this.evaluate_binding(this.symbols().binding(id));
            // Where names change unseen, a text is only one of several.
            values.is_open |= this.symbols().has_dynamic_names;
            values
        })
    }

    fn evaluate_binding(&mut self, binding: Binding<'a>) -> Values<'a> {
        let scope = binding.evaluated_in;
        let mut values = match binding.source {
            Source::Import("__main__") | Source::Parameter(None, _) | Source::Unknown => {
                Values::unknown()
            }
            Source::Import(module) => Values::object(module),
            Source::Member(module, member) => objects::member(&Values::object(module), member),
            Source::Value(expr) => self.value_in(expr, scope),
            Source::Item(expr, index) => {
                let elements = self.value_in(expr, scope).elements();
                elements.and_then(|e| e.get(index).cloned()).unwrap_or_else(Values::unknown)
            }
            Source::Element(expr) => self.value_in(expr, scope).any_element(),
            Source::Parameter(Some(default), _) => self.value_in(default, scope).or_others(),
            Source::Class => Values::one(Value::OwnClass),
            Source::Function => Values::one(Value::OwnFunction),
        };
        // What is in a list may be changed by its name.
        if !matches!(binding.source, Source::Value(Expr::Tuple(_))) {
            for value in &mut values.known {
                if matches!(value, Value::Items(_)) {
                    *value = Value::List;
                }
            }
        }
        values
    }

    /// Evaluates an attribute as it stands in the source: its object, and itself.
    pub(super) fn attribute(&mut self, attribute: &'a ExprAttribute) -> (Values<'a>, Values<'a>) {
        let name = attribute.attr.as_str();
        // Reading the properties of a code object is harmless.
        if name.starts_with("co_")
            && let Expr::Attribute(code) = &*attribute.value
            && code.attr.as_str() == "__code__"
        {
            self.evaluate(&code.value, Role::Base);
            return (Values::unknown(), Values::unknown());
        }
        let base = self.evaluate(&attribute.value, Role::Base);
        if !self.is_quiet() {
            if let Some(rule) = INDEX.attribute(name)
                && !self.is_own_attribute(&base, attribute)
            {
                self.report_reference(name.to_owned(), Some(rule), attribute.range());
            }
            // `format` is dangerous with its text alone, wherever it is called.
            if let Some(rule) = INDEX.formatting(name)
                && base.texts().0.any(|text| self.names_internals(text))
            {
                self.report_reference(name.to_owned(), Some(rule), attribute.range());
            }
        }
        let values = self.member_of(&base, name, Some(&attribute.value));
        (base, values)
    }

    /// Tells whether an attribute with the name of an internal one is the script's own.
    fn is_own_attribute(&self, base: &Values<'a>, attribute: &'a ExprAttribute) -> bool {
        let own = &self.symbols().own_attributes;
        match attribute.attr.as_str() {
            "__subclasses__" => base.single() == Some(&Value::OwnClass),
            "__self__" => matches!(&*attribute.value, Expr::Attribute(method)
                if own.contains(method.attr.as_str())),
            name => (!name.starts_with("__") || name == "__import__") && own.contains(name),
        }
    }

    /// Returns the member `name` of what `base` may be; `from` is the base as it stands in the
    /// source.
    pub(super) fn member_of(
        &self,
        base: &Values<'a>,
        name: &str,
        from: Option<&Expr>,
    ) -> Values<'a> {
        let mut values = objects::member(base, name);
        let is_self = from
            .and_then(Expr::as_name_expr)
            .is_some_and(|name| matches!(name.id.as_str(), "self" | "cls"));
        let is_own = self.symbols().own_attributes.contains(name) || is_self;
        if base.is_open
            && !is_own
            && let Some(module) = objects::far_reaching(name)
        {
            // A formula has no honest use for an attribute of such a name.
            let value = if self.pass().is_formula {
                Value::Object(Cow::Borrowed(module))
            } else {
                Value::MaybeModule(module)
            };
            values.add(Values::one(value));
        }
        values
    }

    fn subscript(&mut self, subscript: &'a ExprSubscript) -> Values<'a> {
        let base = self.evaluate(&subscript.value, Role::Base);
        let key = self.evaluate(&subscript.slice, Role::Value);
        if let Some(text) = key.as_text().filter(|text| text.starts_with("__"))
            && let Some(rule) = INDEX.attribute(text)
        {
            self.report_reference(text.to_owned(), Some(rule), subscript.range());
        }
        if let Some(folded) = texts::sliced(&base, &subscript.slice, &key) {
            return folded;
        }
        let mut values = Values::only_open(base.is_open);
        for value in &base.known {
            if let (Value::Object(path), Some(text)) = (value, key.as_text())
                && top(path).starts_with("typing")
            {
                self.check_annotation(text, &subscript.slice);
            }
            values.add(match value {
                Value::Namespace(path) => self.namespace_item(path, &key, subscript.range()),
                Value::Modules => self.namespace_item("sys.modules", &key, subscript.range()),
                Value::Globals => self.namespace_item("", &key, subscript.range()),
                // `__builtins__` is a namespace or a module, as it pleases.
                Value::Object(path) if path == "builtins.__builtins__" => {
                    self.namespace_item("builtins", &key, subscript.range())
                }
                // An item of a path's children is a path.
                Value::Instance(class) if objects::is_sticky(class) => Values::one(value.clone()),
                _ => Values::unknown(),
            });
        }
        values
    }

    /// Looks `key` up in a namespace: that of a module, `sys.modules`, or, without a name, of the
    /// script.
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
                "sys.modules" if text == "__main__" => Values::unknown(),
                "sys.modules" => Values::one(Value::Object(text)),
                module => objects::member_of_object(module, &text),
            });
        }
        let is_dangerous = objects::is_dangerous(namespace);
        if !is_complete && is_dangerous {
            let rule = objects::rule_of_namespace(namespace);
            self.report_reference(format!("{namespace}[…]"), rule, at);
        }
        values
    }

    /// Reports what `values` refers to, as far as a rule finds it and its role does not defer it.
    fn report_escape(&mut self, values: Values<'a>, expr: &'a Expr, role: Role) -> Values<'a> {
        if self.is_quiet() || !matches!(role, Role::Value | Role::Alias) {
            return values;
        }
        if let Some((name, rule)) = values.known.iter().find_map(|value| escaping(value, role)) {
            self.report_reference(name, rule, expr.range());
        }
        values
    }

    /// Evaluates `+`, `%`, `*` of texts and sequences, and `/` of paths.
    fn operation(&mut self, operation: &'a ExprBinOp) -> Values<'a> {
        // A sum of many terms nests to the left.
        let left = self.evaluate(&operation.left, Role::Value);
        let right = self.evaluate(&operation.right, Role::Value);
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
        let mut text = Some(String::new());
        for part in &f_string.value {
            match part {
                FStringPart::Literal(literal) => texts::push(&mut text, Some(literal.as_str())),
                FStringPart::FString(f_string) => {
                    for element in &f_string.elements {
                        self.f_string_element(element, &mut text);
                    }
                }
            }
        }
        text.map_or_else(Values::unknown, Values::text)
    }

    fn f_string_element(
        &mut self,
        element: &'a InterpolatedStringElement,
        text: &mut Option<String>,
    ) {
        match element {
            InterpolatedStringElement::Literal(literal) => texts::push(text, Some(&literal.value)),
            InterpolatedStringElement::Interpolation(interpolation) => {
                let values = self.evaluate(&interpolation.expression, Role::Harmless);
                let is_plain = interpolation.conversion.is_none()
                    && interpolation.format_spec.is_none()
                    && interpolation.debug_text.is_none();
                let known = texts::display(&values).filter(|_| is_plain);
                texts::push(text, known.as_deref());
                if let Some(spec) = &interpolation.format_spec {
                    for element in &spec.elements {
                        self.f_string_element(element, &mut None);
                    }
                }
            }
        }
    }

    /// Reports a text that is code where it stands: a type, or an example of doctest.
    fn check_text(&mut self, text: &str, expr: &'a Expr) {
        if self.is_annotation() {
            self.check_annotation(text, expr);
        }
        if !self.is_quiet()
            && text.contains(">>> ")
            && self.symbols().imported.contains("doctest")
            && self.has_dangerous_examples(text)
        {
            let rule = INDEX.special(Special::Examples);
            self.report_reference("doctest".to_owned(), rule, expr.range());
        }
    }

    /// Reports a text in place of a type: it is evaluated by whoever asks for the type.
    fn check_annotation(&mut self, text: &str, expr: &'a Expr) {
        if !self.is_quiet() && is_dangerous_formula(text, self.work()) {
            let rule = INDEX.special(Special::Annotation);
            self.report_reference("annotation".to_owned(), rule, expr.range());
        }
    }

    /// Evaluates what is iterated over: its elements go to the target, wherever that is.
    pub(super) fn iterated(&mut self, expr: &'a Expr) -> Values<'a> {
        let is_display = !symbols::elements(expr).is_empty();
        self.evaluate(expr, if is_display { Role::Value } else { Role::Alias })
    }

    fn lambda(&mut self, lambda: &'a ExprLambda) {
        if self.is_quiet() {
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
        let over = self.iterated(&first.iter);
        if !self.is_quiet() {
            self.in_scope_of(expr.range(), |this| {
                for (index, generator) in generators.iter().enumerate() {
                    this.visit_expr(&generator.target);
                    if index > 0 {
                        this.iterated(&generator.iter);
                    }
                    for condition in &generator.ifs {
                        this.visit_expr(condition);
                    }
                }
                for part in parts.into_iter().flatten() {
                    this.visit_expr(part);
                }
            });
        }
        // Of more elements than a sequence keeps, nothing would be known in the end.
        match (parts, generators, over.elements().filter(|all| all.len() <= ITEMS_MAX)) {
            // A set has an order of its own.
            ([Some(element), None], [only], Some(elements))
                if only.ifs.is_empty() && !expr.is_set_comp_expr() =>
            {
                self.unroll(&only.target, elements, element).unwrap_or_else(Values::unknown)
            }
            _ => Values::unknown(),
        }
    }

    /// Follows a comprehension over a known sequence, so that text put together by one is known.
    fn unroll(
        &mut self,
        target: &'a Expr,
        elements: Vec<Values<'a>>,
        element: &'a Expr,
    ) -> Option<Values<'a>> {
        let Expr::Name(name) = target else { return None };
        if self.targets_len() == UNROLLED_MAX {
            return None;
        }
        let values_of = |this: &mut Self, value| {
            this.with_target(name.id.as_str(), value, |this| this.evaluate(element, Role::Alias))
        };
        let results =
            self.quietly(|this| elements.into_iter().map(|value| values_of(this, value)).collect());
        Some(Values::items(results))
    }
}

/// Judges a value that goes where it is not followed: the name to report, and the rule.
pub(super) fn escaping(
    value: &Value<'_>,
    used_as: Role,
) -> Option<(String, Option<&'static Rule>)> {
    let is_value = used_as == Role::Value;
    match value {
        Value::Object(path) => match INDEX.verdict(path) {
            Verdict::Found(rule) => Some((objects::shown(path), Some(rule))),
            Verdict::Carrier if is_value => {
                Some((path.clone().into_owned(), INDEX.special(Special::ModuleAsValue)))
            }
            // Called elsewhere, it takes any name of anything.
            Verdict::Clear if is_value && path == "builtins.getattr" => {
                Some((objects::shown(path), INDEX.special(Special::ComputedName)))
            }
            // Without its arguments a function cannot be judged.
            Verdict::Clear if is_value => INDEX
                .calls(path)
                .find(|(_, condition)| {
                    matches!(
                        condition,
                        Condition::NamesFile(_)
                            | Condition::NamesFileAt(..)
                            | Condition::DatabaseFile
                            | Condition::ImportsModule
                            | Condition::Code
                    )
                })
                .map(|(rule, _)| (objects::shown(path), Some(rule))),
            Verdict::Carrier | Verdict::Clear => None,
        },
        Value::Modules if is_value => {
            Some(("sys.modules".to_owned(), objects::rule_of_namespace("sys.modules")))
        }
        Value::Namespace(path) | Value::LookUp(path) if is_value && objects::is_dangerous(path) => {
            Some((format!("{path}.__dict__"), objects::rule_of_namespace(path)))
        }
        _ => None,
    }
}
