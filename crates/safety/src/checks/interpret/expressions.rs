//! Determines the value of each expression, as an [`Id`].

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are unknown")]

use ruff_python_ast::{
    BoolOp, CmpOp, Comprehension, Expr, InterpolatedElement, InterpolatedStringElement, Number,
    UnaryOp,
};
use ruff_text_size::Ranged as _;

use super::super::values::{Id, Node, Of, Op, Type};
use super::{Callable, Interpreter, LEVEL_MAX};

impl<'a> Interpreter<'a, '_> {
    pub(super) fn expression(&mut self, expr: &'a Expr) -> Id {
        self.work.spend(1);
        if self.level > LEVEL_MAX || self.is_over() {
            return self.fresh();
        }
        self.level += 1;
        let id = self.expression_at_level(expr);
        self.level -= 1;
        id
    }

    pub(super) fn expressions(&mut self, all: impl IntoIterator<Item = &'a Expr>) -> Vec<Id> {
        all.into_iter().map(|expr| self.expression(expr)).collect()
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each kind of expression")]
    fn expression_at_level(&mut self, expr: &'a Expr) -> Id {
        match expr {
            Expr::Name(name) => self.read(name.id.as_str()),
            Expr::NumberLiteral(it) => self.number(&it.value, expr),
            Expr::StringLiteral(it) => {
                let text = it.value.to_str().to_owned();
                self.values.add(Node::Text(text.into()))
            }
            Expr::BytesLiteral(it) => {
                let text =
                    String::from_utf8_lossy(&it.value.bytes().collect::<Vec<u8>>()).into_owned();
                self.values.add(Node::Bytes(text.into()))
            }
            Expr::BooleanLiteral(it) => {
                self.values.add(if it.value { Node::True } else { Node::False })
            }
            Expr::NoneLiteral(_) => self.values.add(Node::None),
            Expr::EllipsisLiteral(_) => self.values.add(Node::Ellipsis),
            Expr::Tuple(it) => self.display(Op::Tuple, &it.elts),
            Expr::List(it) => self.display(Op::List, &it.elts),
            Expr::Set(it) => self.display(Op::Set, &it.elts),
            Expr::Dict(it) => {
                let mut items = Vec::with_capacity(2 * it.items.len());
                for item in &it.items {
                    let Some(key) = &item.key else { return self.values.unknown_of(Type::Dict) };
                    items.push(self.expression(key));
                    items.push(self.expression(&item.value));
                }
                self.values.op(Op::Dict, items)
            }
            Expr::BoolOp(it) => {
                let op = if it.op == BoolOp::And { Op::And } else { Op::Or };
                let operands = self.expressions(&it.values);
                self.values.op(op, operands)
            }
            Expr::UnaryOp(it) => {
                let operand = self.expression(&it.operand);
                let op = match it.op {
                    UnaryOp::Not => Op::Not,
                    UnaryOp::USub => Op::Negative,
                    UnaryOp::Invert => Op::Invert,
                    UnaryOp::UAdd => return operand,
                };
                self.values.op(op, [operand])
            }
            Expr::BinOp(it) => {
                let (left, right) = (self.expression(&it.left), self.expression(&it.right));
                self.binary(it.op, left, right)
            }
            Expr::Compare(it) => self.comparison(&it.left, &it.ops, &it.comparators),
            Expr::If(it) => {
                let parts = self.expressions([&*it.test, &*it.body, &*it.orelse]);
                match parts[..] {
                    [_, one, other] if one == other => one,
                    _ => self.values.op(Op::IfElse, parts),
                }
            }
            Expr::Named(it) => {
                let value = self.expression(&it.value);
                self.bind_target(&it.target, value);
                value
            }
            Expr::Lambda(it) => {
                let function = Callable::Lambda(it.parameters.as_deref(), &it.body);
                self.values_of_closure(function)
            }
            Expr::Attribute(it) => {
                let object = self.expression(&it.value);
                self.attribute(object, it.attr.as_str())
            }
            Expr::Subscript(it) => {
                let container = self.expression(&it.value);
                let key = self.expression(&it.slice);
                self.item(container, key)
            }
            Expr::Slice(it) => {
                let none = self.values.add(Node::None);
                let mut parts = Vec::new();
                for part in [&it.lower, &it.upper, &it.step] {
                    parts.push(part.as_deref().map_or(none, |part| self.expression(part)));
                }
                self.values.op(Op::Slice, parts)
            }
            Expr::Starred(it) => {
                let value = self.expression(&it.value);
                self.values.op(Op::Starred, [value])
            }
            Expr::FString(it) => {
                let mut parts = Vec::new();
                for part in it.value.elements() {
                    match part {
                        InterpolatedStringElement::Literal(text) => {
                            parts.push(self.values.add(Node::Text(text.value.to_string().into())));
                        }
                        InterpolatedStringElement::Interpolation(of) => {
                            parts.push(self.expression(&of.expression));
                            parts.push(self.format_of(of));
                        }
                    }
                }
                self.values.op(Op::Formatted, parts)
            }
            Expr::ListComp(it) => self.comprehension(Of::List, &[&it.elt], &it.generators),
            Expr::SetComp(it) => self.comprehension(Of::Set, &[&it.elt], &it.generators),
            Expr::Generator(it) => self.comprehension(Of::Generator, &[&it.elt], &it.generators),
            Expr::DictComp(it) => match it.key.as_deref() {
                Some(key) => self.comprehension(Of::Dict, &[key, &it.value], &it.generators),
                None => self.values.unknown_of(Type::Dict),
            },
            Expr::Call(call) => self.expression_of_call(call),
            Expr::Await(it) => {
                self.expression(&it.value);
                self.fresh()
            }
            _ => self.fresh(),
        }
    }

    /// Returns a value that represents the conversion and the format of a replacement field in an f-string, for example
    /// `!r` and `>8` in `{x!r:>8}`.
    fn format_of(&mut self, part: &InterpolatedElement) -> Id {
        let Some(format) = &part.format_spec else {
            return self.values.add(Node::Text(format!("{:?}", part.conversion).into()));
        };
        let mut text = format!("{:?}", part.conversion);
        for part in &format.elements {
            match part {
                InterpolatedStringElement::Literal(literal) => text.push_str(&literal.value),
                InterpolatedStringElement::Interpolation(_) => return self.fresh(),
            }
        }
        self.values.add(Node::Text(text.into()))
    }

    pub(super) fn number(&mut self, number: &Number, expr: &Expr) -> Id {
        match number {
            Number::Int(int) => match int.as_i64().and_then(|int| i32::try_from(int).ok()) {
                Some(int) => self.values.add(Node::Number(f64::from(int).to_bits(), true)),
                None => self.large_number(&int.to_string()),
            },
            Number::Float(float) => self.values.add(Node::Number(float.to_bits(), false)),
            Number::Complex { .. } => {
                let start = u32::from(expr.start());
                self.values.add(Node::Bytes(format!("complex {start}").into()))
            }
        }
    }

    /// Returns the value of an integer that does not fit in 32 bits.
    fn large_number(&mut self, digits: &str) -> Id {
        match digits.parse::<f64>() {
            // A float represents an integer of at most 15 digits exactly.
            Ok(number) if digits.len() <= 15 => {
                self.values.add(Node::Number(number.to_bits(), true))
            }
            _ => self.values.add(Node::Bytes(digits.to_owned().into())),
        }
    }

    pub(super) fn display(&mut self, op: Op<'a>, elements: &'a [Expr]) -> Id {
        let items = self.expressions(elements);
        if items.iter().any(|item| self.values.operands(*item, Op::Starred).is_some()) {
            let of = self.values.op(op, items);
            let kept = self.values.type_of(of);
            return self.values.unknown_of(kept);
        }
        self.values.op(op, items)
    }

    pub(super) fn binary(&mut self, op: ruff_python_ast::Operator, left: Id, right: Id) -> Id {
        use ruff_python_ast::Operator;
        if op == Operator::Sub && left == right && !self.values.is_literal(left) {
            return self.values.op(Op::Zero, []);
        }
        if op == Operator::Div && left == right && !self.values.is_literal(left) {
            return self.values.add(Node::Number(1.0_f64.to_bits(), true));
        }
        // A sum or a product of numbers has the same value for both orders of its operands, so the operands are sorted.
        let is_number = |id: Id| {
            matches!(
                self.values.type_of(id),
                Type::Int | Type::Float | Type::Fraction | Type::Decimal
            )
        };
        let mut operands = [left, right];
        if matches!(op, Operator::Add | Operator::Mult) && is_number(left) && is_number(right) {
            operands.sort_unstable();
        }
        self.values.op(Op::Binary(op), operands)
    }

    pub(super) fn comparison(&mut self, left: &'a Expr, ops: &[CmpOp], others: &'a [Expr]) -> Id {
        let mut left = self.expression(left);
        let mut parts = Vec::new();
        for (op, other) in ops.iter().zip(others) {
            let right = self.expression(other);
            parts.push(self.values.op(Op::Compare(*op), [left, right]));
            left = right;
        }
        match parts[..] {
            [only] => only,
            _ => self.values.op(Op::And, parts),
        }
    }

    pub(super) fn item(&mut self, container: Id, key: Id) -> Id {
        let (container, key) = (self.values.original(container), self.values.field(key));
        let none = self.values.add(Node::None);
        if self.values.operands(key, Op::Slice) == Some(&[none; 3]) {
            return self.values.op(Op::Copy, [container]);
        }
        if let Some([of, value, ..]) = self.values.operands(container, Op::Comprehension(Of::Dict))
            && *of == key
        {
            return *value;
        }
        if let Some([_, with]) = self.values.operands(container, Op::Merged) {
            let with = *with;
            if self.is_key_of(key, with) {
                return self.item(with, key);
            }
        }
        if let Node::Op(Op::OneOf(number), keys) = self.values.node(key)
            && self.values.operands(container, Op::Dict).is_some()
        {
            let (number, keys) = (*number, keys.to_vec());
            self.work.spend(keys.len() * self.values.operand_count(container) / 2);
            let items: Vec<Id> = keys.into_iter().map(|key| self.item(container, key)).collect();
            return self.values.op(Op::OneOf(number), items);
        }
        if self.values.is_literal(key) {
            if let Some(items) = self.values.operands(container, Op::Dict) {
                let mut pairs = items.chunks_exact(2);
                let found = pairs.find(|pair| pair.first() == Some(&key));
                if let Some(value) = found.and_then(|pair| pair.get(1)) {
                    return *value;
                }
            }
            if let Some(items) = self
                .values
                .operands(container, Op::List)
                .or(self.values.operands(container, Op::Tuple))
                && let Some(place) = self.values.literal(key)
                && let Some(item) = items
                    .iter()
                    .zip(0_u32..)
                    .find(|(_, at)| f64::from(*at).to_bits() == place.to_bits())
            {
                return *item.0;
            }
        }
        self.values.op(Op::Item, [container, key])
    }

    pub(super) fn comprehension(
        &mut self,
        of: Of,
        elements: &[&'a Expr],
        generators: &'a [Comprehension],
    ) -> Id {
        let before = self.names_now();
        let bound = self.bound;
        let mut parts = Vec::new();
        for generator in generators {
            parts.push(self.expression(&generator.iter));
            let iterable = parts.last().copied().unwrap_or_default();
            let literal = self.elements(iterable).and_then(|items| {
                let first = *items.first()?;
                (items.iter().all(|item| *item == first)).then_some(first)
            });
            let literal = literal.filter(|it| self.values.is_literal(*it));
            let element = literal.unwrap_or_else(|| {
                self.bound += 1;
                self.any_element(iterable, self.bound)
            });
            self.bind_target(&generator.target, element);
            for test in &generator.ifs {
                let test = self.expression(test);
                parts.push(self.values.op(Op::Test, [test]));
            }
        }
        let mut all: Vec<Id> = elements.iter().map(|element| self.expression(element)).collect();
        all.extend(parts);
        self.bound = bound;
        self.set_names(before);
        let id = match self.copied_by(of, &all) {
            Some(copied) => self.values.op(Op::Copy, [copied]),
            None => self.values.op(Op::Comprehension(of), all),
        };
        if let Some(given) = elements.last().map(ruff_text_size::Ranged::range) {
            let tests = generators.iter().flat_map(|generator| &generator.ifs);
            let taken = tests.last().map_or(given, |test| last_condition(test).range());
            self.comprehensions.entry(id).or_insert([taken, given]);
        }
        id
    }

    /// Returns whether a value is the key in a loop over the dictionary `of`.
    fn is_key_of(&self, key: Id, of: Id) -> bool {
        let of = self.values.original(of);
        let pair = match self.values.operands(key, Op::Item) {
            Some([pair, place]) if self.values.literal(*place) == Some(0.0) => *pair,
            _ => key,
        };
        let Node::Op(Op::Element(_), all) = self.values.node(pair) else { return false };
        let all = all.first().copied().unwrap_or_default();
        all == of || self.values.method(all).is_some_and(|(object, ..)| object == of)
    }

    /// Returns the collection that a comprehension copies, for example `d` for `{k: v for k, v in d.items()}`.
    fn copied_by(&self, of: Of, parts: &[Id]) -> Option<Id> {
        let element_of = |id: Id| match self.values.node(id) {
            Node::Op(Op::Element(_), of) => of.first().copied(),
            _ => None,
        };
        match (of, parts) {
            (Of::List, [element, iterable]) => {
                let copied = element_of(*element)?;
                (copied == self.values.original(*iterable)
                    && self.values.type_of(copied) == Type::List)
                    .then_some(copied)
            }
            (Of::Dict, [key, value, iterable]) => {
                let (copied, name, _) = self.values.method(*iterable)?;
                if !matches!(name, "items" | "most_common") {
                    return None;
                }
                let place = |id: Id, place: f64| {
                    let [of, key] = self.values.operands(id, Op::Item)? else { return None };
                    (self.values.literal(*key) == Some(place)).then_some(*of)
                };
                let is_value = match self.values.operands(*value, Op::Item) {
                    Some([of, by]) => {
                        (*of == copied && by == key) || place(*value, 1.0) == place(*key, 0.0)
                    }
                    _ => false,
                };
                let pair = place(*key, 0.0)?;
                (is_value && element_of(pair) == Some(*iterable)).then_some(copied)
            }
            _ => None,
        }
    }

    /// Returns a value that stands for any element of an iterable. `number` identifies the loop.
    pub(super) fn any_element(&mut self, iterable: Id, number: u32) -> Id {
        let iterable = self.values.original(iterable);
        let element = self.values.op(Op::Element(number), [iterable]);
        if let Some((object, "items", [])) = self.values.method(iterable) {
            // An element of `items()` is a pair of a key and a value.
            if let Some([key, value, ..]) =
                self.values.operands(object, Op::Comprehension(Of::Dict))
            {
                // Use the key and the value of the comprehension, because they belong to the same element.
                let pair = [*key, *value];
                return self.values.op(Op::Tuple, pair);
            }
            let key = self.part(element, 0, 2);
            let value = self.item(object, key);
            return self.values.op(Op::Tuple, [key, value]);
        }
        let Some((path, arguments)) = self.values.call(iterable) else { return element };
        let (path, arguments) = (path.into_owned(), arguments.to_vec());
        match (&*path, &arguments[..]) {
            ("zip", [_, ..]) => {
                let parts: Vec<Id> =
                    arguments.iter().map(|each| self.any_element(*each, number)).collect();
                self.values.op(Op::Tuple, parts)
            }
            ("enumerate", [of, ..]) => {
                let place = self.part(element, 0, 2);
                let part = self.any_element(*of, number);
                self.values.op(Op::Tuple, [place, part])
            }
            ("sorted" | "list" | "tuple" | "set" | "reversed", [of, ..]) => {
                self.any_element(*of, number)
            }
            _ => element,
        }
    }
}

/// Returns the last operand of an `and`, because the operands before the last operand are only premises. Returns any
/// other condition unchanged.
fn last_condition(test: &Expr) -> &Expr {
    match test {
        Expr::BoolOp(it) if it.op == BoolOp::And => it.values.last().unwrap_or(test),
        _ => test,
    }
}
