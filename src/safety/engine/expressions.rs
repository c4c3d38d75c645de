//! What an expression may evaluate to, and which references in it the rules find: one walk does
//! both, so that every expression is looked at once.
//!
//! Any use of a dangerous object is a finding, called or not; so it does not matter where it goes
//! from there, and only what leads to such objects has to be followed: modules, namespaces, and
//! the texts that name attributes.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use std::borrow::Cow;

use ruff_python_ast::visitor;
use ruff_python_ast::{Expr, ExprAttribute, ExprName, ExprSubscript, Number, Stmt};
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use super::callers::Callers;
use super::conditions::names_internals;
use super::statements::Pass;
use super::texts;
use crate::safety::finding::{FindingKind, Found};
use crate::safety::knowledge::index::{INDEX, Verdict, top};
use crate::safety::knowledge::objects;
use crate::safety::knowledge::value::{Value, Values};
use crate::safety::rules::Rule;
use crate::safety::symbols::{self, ScopeId, Symbols};

/// How deep expressions and the names in them are followed on an ordinary stack.
pub(in crate::safety) const LEVEL_MAX: usize = 150;
/// The most findings that are collected; one is enough to refuse.
const FOUND_MAX: usize = 1_000;
/// How much of the source a finding repeats, in bytes.
const WRITTEN_BYTES: usize = 120;

/// What becomes of the value of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::safety) enum Role {
    /// It goes somewhere: into a call, a container, a result.
    Value,
    /// It gets a name, and is found again under it.
    Alias,
    /// A part of it is taken: an attribute or an item.
    Base,
    /// It is called.
    Callee,
    /// It is compared, printed, or otherwise only looked at.
    Harmless,
}

/// What is known of a binding.
#[derive(Debug, Clone)]
pub(super) enum Memo<'a> {
    NotYet,
    /// Being worked out: it depends on itself.
    Pending,
    Done(Values<'a>),
}

/// The analysis of one syntax tree.
pub(super) struct Analyzer<'a, 's> {
    pub(super) source: &'a str,
    pub(super) symbols: &'s Symbols<'a>,
    /// The scope that is walked, or that the current binding is evaluated in.
    pub(super) scope: ScopeId,
    pub(super) found: Vec<Found>,
    pub(super) imports: Vec<String>,
    /// Above zero while only a value is wanted: nothing is reported.
    pub(super) quiet: usize,
    pub(super) pass: Pass,
    /// Whether this is an annotation, in which texts are types.
    pub(super) is_annotation: bool,
    /// Targets of comprehensions that are being unrolled, with their current values.
    pub(super) unrolled: Vec<(&'a str, Values<'a>)>,
    /// What is known of each binding, and of each symbol seen as a whole.
    pub(super) memo: Vec<Memo<'a>>,
    pub(super) memo_of_symbols: Vec<Memo<'a>>,
    /// The statements of the script, and who calls what in them, once that was asked for.
    pub(super) body: &'a [Stmt],
    pub(super) callers: Option<Callers<'a>>,
    /// How many names are being followed.
    pub(super) depth: usize,
    /// How many expressions are being evaluated, one in the other.
    pub(super) level: usize,
}

impl<'a, 's> Analyzer<'a, 's> {
    pub(super) fn new(
        source: &'a str,
        body: &'a [Stmt],
        symbols: &'s Symbols<'a>,
        pass: Pass,
    ) -> Self {
        Self {
            source,
            symbols,
            scope: symbols::MODULE,
            found: Vec::new(),
            imports: Vec::new(),
            quiet: 0,
            pass,
            is_annotation: false,
            unrolled: Vec::new(),
            memo: vec![Memo::NotYet; symbols.bindings_len()],
            body,
            callers: None,
            memo_of_symbols: vec![Memo::NotYet; symbols.symbols_len()],
            depth: 0,
            level: 0,
        }
    }

    /// Looks at `expr` and everything in it, and returns what it may evaluate to.
    pub(super) fn evaluate(&mut self, expr: &'a Expr, role: Role) -> Values<'a> {
        self.level += 1;
        let values = match expr {
            Expr::Name(name) => self.name(name, expr, role),
            Expr::Attribute(attribute) => {
                let (_, values) = self.attribute(attribute);
                self.settle(values, expr, role)
            }
            Expr::If(_) | Expr::BoolOp(_) | Expr::Named(_) | Expr::Starred(_) => {
                self.alternatives(expr, role)
            }
            Expr::Lambda(_) => {
                self.lambda(expr);
                Values::one(Value::OwnFunction)
            }
            Expr::ListComp(_) | Expr::Generator(_) | Expr::SetComp(_) | Expr::DictComp(_) => {
                self.comprehension(expr)
            }
            Expr::Subscript(subscript) => {
                let values = self.subscript(subscript);
                self.settle(values, expr, role)
            }
            Expr::Call(call) => {
                let values = self.call(call, expr);
                self.settle(values, expr, role)
            }
            Expr::StringLiteral(literal) => {
                self.check_text(literal.value.to_str(), expr);
                Values::text(literal.value.to_str())
            }
            Expr::BytesLiteral(literal) => Values::bytes(literal.value.bytes().collect()),
            Expr::NumberLiteral(literal) => Self::number(&literal.value),
            Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) | Expr::EllipsisLiteral(_) => {
                Values::unknown()
            }
            Expr::Tuple(_) | Expr::List(_) => {
                let elements = symbols::elements(expr).iter();
                // Several types to compare with are only looked at, too.
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
            // Nothing is known of the others, but what is in them has to be looked at.
            _ => {
                if self.quiet == 0 {
                    visitor::walk_expr(self, expr);
                }
                Values::unknown()
            }
        };
        self.level -= 1;
        values
    }

    /// Expressions that evaluate to one of their parts.
    fn alternatives(&mut self, expr: &'a Expr, role: Role) -> Values<'a> {
        match expr {
            Expr::If(if_expr) => {
                self.evaluate(&if_expr.test, Role::Harmless);
                let mut values = self.evaluate(&if_expr.body, role);
                values.add(self.evaluate(&if_expr.orelse, role));
                values
            }
            Expr::BoolOp(bool_op) => {
                let mut values = Values::default();
                for operand in &bool_op.values {
                    values.add(self.evaluate(operand, role));
                }
                values
            }
            Expr::Named(named) => {
                let values = self.evaluate(&named.value, Role::Alias);
                self.settle(values, &named.value, role)
            }
            Expr::Starred(starred) => self.evaluate(&starred.value, role),
            _ => Values::unknown(),
        }
    }

    /// Evaluates for the value alone, in the scope of `scope`.
    pub(super) fn value_in(&mut self, expr: &'a Expr, scope: ScopeId) -> Values<'a> {
        let outer = std::mem::replace(&mut self.scope, scope);
        self.quiet += 1;
        let values = self.evaluate(expr, Role::Alias);
        self.quiet -= 1;
        self.scope = outer;
        values
    }

    fn number(number: &Number) -> Values<'a> {
        match number {
            Number::Int(int) => {
                int.as_i64().map_or_else(Values::unknown, |int| Values::one(Value::Number(int)))
            }
            _ => Values::unknown(),
        }
    }

    fn name(&mut self, name: &'a ExprName, expr: &'a Expr, role: Role) -> Values<'a> {
        let values = self.named(name.id.as_str(), name.start());
        if self.pass.is_formula && role != Role::Callee {
            return values;
        }
        self.settle(values, expr, role)
    }

    /// An attribute as it stands in the source: what its object may be, and what it may be itself.
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
        if self.quiet == 0
            && let Some(rule) = INDEX.attribute(name)
            && !self.is_own_attribute(&base, attribute)
        {
            self.report_reference(name.to_owned(), Some(rule), attribute.start(), attribute.end());
        }
        // `format` is dangerous with its text alone, wherever it is called.
        if self.quiet == 0
            && let Some(rule) = INDEX.formatting(name)
            && base.texts().0.any(names_internals)
        {
            self.report_reference(name.to_owned(), Some(rule), attribute.start(), attribute.end());
        }
        let values = self.member_of(&base, name, Some(&attribute.value));
        (base, values)
    }

    /// Whether an attribute with the name of an internal one is the script's own.
    fn is_own_attribute(&self, base: &Values<'a>, attribute: &'a ExprAttribute) -> bool {
        let own = &self.symbols.own_attributes;
        match attribute.attr.as_str() {
            "__subclasses__" => base.single() == Some(&Value::OwnClass),
            "__self__" => matches!(&*attribute.value, Expr::Attribute(method)
                if own.contains(method.attr.as_str())),
            name => (!name.starts_with("__") || name == "__import__") && own.contains(name),
        }
    }

    /// The member `name` of what `base` may be; `from` is the base as it stands in the source.
    pub(super) fn member_of(
        &self,
        base: &Values<'a>,
        name: &str,
        from: Option<&Expr>,
    ) -> Values<'a> {
        let mut values = objects::member(base, name);
        let is_self = |expr: &Expr| matches!(expr, Expr::Name(name) if matches!(name.id.as_str(), "self" | "cls"));
        let is_own = self.symbols.own_attributes.contains(name) || from.is_some_and(is_self);
        if base.is_open
            && !is_own
            && let Some(module) = objects::far_reaching(name)
        {
            // A formula has no honest use for an attribute of such a name.
            let value = if self.pass.is_formula {
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
            let range = subscript.range();
            self.report_reference(text.to_owned(), Some(rule), range.start(), range.end());
        }
        if let Some(folded) = texts::sliced(&base, &subscript.slice, &key) {
            return folded;
        }
        let mut values = Values { is_open: base.is_open, ..Values::default() };
        for value in &base.known {
            if let (Value::Object(path), Some(text)) = (value, key.as_text())
                && top(path).starts_with("typing")
            {
                self.check_annotation(text, &subscript.slice);
            }
            values.add(match value {
                Value::Namespace(path) => self.looked_up(path, &key, subscript.range()),
                Value::Modules => self.looked_up("sys.modules", &key, subscript.range()),
                Value::Globals => self.looked_up("", &key, subscript.range()),
                // `__builtins__` is a namespace or a module, as it pleases.
                Value::Object(path) if path == "builtins.__builtins__" => {
                    self.looked_up("builtins", &key, subscript.range())
                }
                // An item of a path's children is a path.
                Value::Instance(class) if objects::is_sticky(class) => Values::one(value.clone()),
                _ => Values::unknown(),
            });
        }
        values
    }

    /// What a namespace holds under a key: that of a module, `sys.modules`, or, without a name, of
    /// the script.
    pub(super) fn looked_up(
        &mut self,
        namespace: &str,
        key: &Values<'a>,
        at: TextRange,
    ) -> Values<'a> {
        let (texts, is_complete) = key.texts();
        let mut values = Values { is_open: !is_complete, ..Values::default() };
        for text in texts {
            let text: Cow<'a, str> = Cow::Owned(text.to_owned());
            values.add(match namespace {
                "" if text == "__builtins__" => {
                    Values::one(Value::Object(Cow::Borrowed("builtins.__builtins__")))
                }
                "" => self.named(&text, TextSize::new(u32::MAX)),
                "sys.modules" if text == "__main__" => Values::unknown(),
                "sys.modules" => Values::one(Value::Object(text)),
                module => objects::member_of_object(module, &text),
            });
        }
        let is_dangerous = objects::is_dangerous(namespace);
        if !is_complete && is_dangerous {
            let rule = objects::rule_of_namespace(namespace);
            self.report_reference(format!("{namespace}[…]"), rule, at.start(), at.end());
        }
        values
    }

    /// Reports what `values` refers to, as far as a rule finds it and its role does not defer it.
    fn settle(&mut self, values: Values<'a>, expr: &'a Expr, role: Role) -> Values<'a> {
        if self.quiet > 0 || !matches!(role, Role::Value | Role::Alias) {
            return values;
        }
        if let Some((name, rule)) =
            values.known.iter().find_map(|value| objects::escaping(value, role))
        {
            self.report_reference(name, rule, expr.start(), expr.end());
        }
        values
    }

    /// The first of the values that a rule finds.
    pub(super) fn dangerous(values: &Values<'a>) -> Option<(String, &'static Rule)> {
        values.known.iter().find_map(|value| match value {
            Value::Object(path) => match INDEX.verdict(path) {
                Verdict::Found(rule) => Some((objects::shown(path), rule)),
                Verdict::Clear | Verdict::Carrier => None,
            },
            _ => None,
        })
    }

    pub(super) fn report_reference(
        &mut self,
        name: String,
        rule: Option<&'static Rule>,
        start: TextSize,
        end: TextSize,
    ) {
        if self.quiet > 0 {
            return;
        }
        let written = self.written(start, end);
        self.report(FindingKind::NameReference { name, written }, rule, Some(start));
    }

    pub(super) fn report(
        &mut self,
        kind: FindingKind,
        rule: Option<&'static Rule>,
        offset: Option<TextSize>,
    ) {
        // A hostile source has any number; the list is cut anyway, and one is enough to refuse.
        if self.found.len() < FOUND_MAX {
            self.found.push(Found { kind, rule, offset });
        }
    }

    /// The source between two places, on one line and not much of it.
    pub(super) fn written(&self, start: TextSize, end: TextSize) -> String {
        let text = self.source.get(start.to_usize()..end.to_usize()).unwrap_or_default();
        let mut written = String::new();
        for word in text.split_whitespace() {
            if !written.is_empty() {
                written.push(' ');
            }
            written.push_str(word);
            if written.len() > WRITTEN_BYTES {
                break;
            }
        }
        written
    }
}
