//! Judges conditions about all elements of a collection, and about empty collections.

#![expect(clippy::wildcard_enum_match_arm, reason = "few conditions are always true")]

use super::super::vacuity::Vacuity;
use super::super::values::{Id, Node, Of, Op, Type};
use super::{Judge, Truth};

impl Judge<'_, '_> {
    /// Returns the truth value of `all(…)` or `any(…)`.
    pub(super) fn quantified(&self, is_all: bool, of: Id, depth: usize) -> Truth {
        let values = self.values;
        if self.is_empty(of) {
            return Some((is_all, Vacuity::Empty));
        }
        match values.node(of) {
            Node::Op(Op::Comprehension(Of::Generator | Of::List), parts) => {
                if let Some(why) = self.reason_for_no_element(parts, depth) {
                    let why = if is_all { Vacuity::Premises } else { why };
                    return Some((is_all, why));
                }
                // This result is also correct if the collection is empty: then `all` is true, and `any` is false.
                self.truth_at(*parts.first()?, depth).filter(|(holds, _)| *holds == is_all)
            }
            Node::Op(Op::List | Op::Tuple | Op::Set, items) => {
                let truths = items.iter().map(|item| self.truth_at(*item, depth));
                quantify(is_all, truths)
            }
            _ => None,
        }
    }

    /// Returns whether a value is certainly a collection with elements.
    pub(super) fn is_filled(&self, id: Id) -> bool {
        let values = self.values;
        if self.spend().is_none() {
            return false;
        }
        match values.node(values.original(id)) {
            Node::Op(Op::Tuple | Op::List | Op::Set | Op::Dict, items) => {
                !items.iter().any(|it| values.operands(*it, Op::Starred).is_some())
                    && !items.is_empty()
            }
            Node::Op(Op::Comprehension(of), parts) => {
                let tests = parts.iter().any(|it| values.operands(*it, Op::Test).is_some());
                !tests && self.iterables(*of, parts).all(|it| self.is_filled(it))
            }
            Node::Op(Op::Call, _) => match (values.call(id), values.method(id)) {
                (Some((path, [of, ..])), _)
                    if matches!(&*path, "list" | "tuple" | "set" | "sorted" | "enumerate") =>
                {
                    self.is_filled(*of)
                }
                (_, Some((object, "items" | "values" | "keys", []))) => self.is_filled(object),
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns the iterables of a comprehension. `parts` are the operands of the comprehension: the element, or the key
    /// and the value of a dictionary, and then the iterables and the conditions.
    fn iterables(&self, of: Of, parts: &[Id]) -> impl Iterator<Item = Id> {
        let elements = if of == Of::Dict { 2 } else { 1 };
        let rest = parts.iter().skip(elements).copied();
        rest.filter(|part| self.values.operands(*part, Op::Test).is_none())
    }

    /// Returns the reason why a comprehension yields no element, if one of its conditions is always false.
    pub(super) fn reason_for_no_element(&self, parts: &[Id], depth: usize) -> Option<Vacuity> {
        parts.iter().find_map(|part| {
            let [test] = self.values.operands(*part, Op::Test)? else { return None };
            self.truth_at(*test, depth).filter(|(holds, _)| !holds).map(|(_, why)| why)
        })
    }

    /// Returns whether a value is certainly an empty collection.
    pub(in super::super) fn is_empty(&self, id: Id) -> bool {
        let values = self.values;
        if self.spend().is_none() {
            return false;
        }
        match values.node(values.original(id)) {
            Node::Op(Op::Tuple | Op::List | Op::Set | Op::Dict, items) => items.is_empty(),
            Node::Op(Op::Comprehension(of), parts) => {
                self.iterables(*of, parts).any(|iterable| self.is_empty(iterable))
            }
            Node::Text(text) => text.is_empty(),
            Node::Op(Op::Call, _) => values.call(id).is_some_and(|(path, arguments)| {
                let number = |place: usize| values.number(*arguments.get(place)?);
                match (&*path, arguments.len()) {
                    ("range", 1) => number(0).is_some_and(|end| end <= 0.0),
                    ("range", 2) => number(0).zip(number(1)).is_some_and(|(from, to)| from >= to),
                    (
                        "list" | "tuple" | "set" | "dict" | "sorted" | "iter" | "reversed"
                        | "enumerate",
                        1,
                    ) => arguments.first().is_some_and(|it| self.is_empty(*it)),
                    ("list" | "tuple" | "set" | "dict", 0) => true,
                    _ => false,
                }
            }),
            _ => false,
        }
    }

    /// Returns the reason why a comprehension yields no element, if the comparison of `left` and `right` tests whether
    /// the comprehension is empty. `left` is the comprehension and `right` an empty collection, or `left` is the
    /// comprehension's length or sum and `right` is 0.
    pub(super) fn reason_for_emptiness(
        &self,
        left: Id,
        right: Id,
        depth: usize,
    ) -> Option<Vacuity> {
        let values = self.values;
        let none = values.literal(right).is_some_and(|it| it == 0.0);
        let counted = match values.call(left) {
            Some((path, [of])) if none && matches!(&*path, "len" | "sum") => *of,
            _ => left,
        };
        let is_empty = none && counted != left || self.is_empty(right);
        let Node::Op(Op::Comprehension(_), parts) = values.node(counted) else { return None };
        if is_empty { self.reason_for_no_element(parts, depth) } else { None }
    }

    /// Judges `value in container`.
    pub(super) fn contains(&self, value: Id, container: Id) -> Truth {
        let values = self.values;
        if matches!(values.node(container), Node::Class(_)) && !values.is_literal(value) {
            // The container is a class that the script defines. Assume that the class is an enumeration, because `in`
            // raises an error for an ordinary class. Also assume that the value is a member of the enumeration.
            return Some((true, Vacuity::AlwaysTrue));
        }
        let items = match (values.node(container), values.node(value)) {
            (Node::Op(Op::Tuple | Op::List | Op::Set, items), _) => items,
            (Node::Op(Op::Dict, items), _) if values.is_literal(value) => {
                let keys: Vec<Id> = items.iter().copied().step_by(2).collect();
                if !keys.iter().all(|key| values.is_literal(*key)) {
                    return None;
                }
                return Some((self.includes(&keys, value)?, Vacuity::Constant));
            }
            (Node::Text(all), Node::Text(part)) => {
                self.spend_bytes(all.len() + part.len())?;
                return Some((all.contains(&**part), Vacuity::Constant));
            }
            _ => return None,
        };
        if values.is_literal(value) && values.is_literal(container) {
            return Some((self.includes(items, value)?, Vacuity::Constant));
        }
        let has = |node: &Node<'_>| items.iter().any(|item| values.node(*item) == node);
        let has_path = |path: &str| {
            items.iter().any(|item| values.path_of(*item).is_some_and(|of| of == path))
        };
        let is_all = match values.type_of(value) {
            Type::Bool => has(&Node::True) && has(&Node::False),
            Type::CheckResult => ["z3.sat", "z3.unsat", "z3.unknown"].into_iter().all(has_path),
            _ => false,
        };
        if is_all {
            return Some((true, Vacuity::AlwaysTrue));
        }
        items.iter().any(|item| self.is_same(value, *item)).then_some((true, Vacuity::SameValue))
    }
}

/// Returns whether all, or any, of the elements of a collection are true.
pub(super) fn quantify(is_all: bool, truths: impl Iterator<Item = Truth>) -> Truth {
    let truths: Vec<Truth> = truths.collect();
    match truths.iter().flatten().find(|(holds, _)| *holds != is_all) {
        Some((holds, _)) => Some((*holds, Vacuity::OrTrue)),
        None => truths.into_iter().collect::<Option<Vec<_>>>()?.pop(),
    }
}
