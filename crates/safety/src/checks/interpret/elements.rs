//! Finds the collections whose elements a check reads, if the check also holds for an empty collection. A run of the
//! script counts the elements of these collections.

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are unknown")]

use ruff_python_ast::CmpOp;
use ruff_text_size::TextRange;

use super::super::CheckKind;
use super::super::values::{Id, Node, Op};
use super::Interpreter;

/// Functions that return zero, false or an empty collection for an empty collection.
const COUNTING: &[&str] = &["bool", "frozenset", "len", "list", "set", "sorted", "sum", "tuple"];

impl Interpreter<'_, '_> {
    /// Records the collection that a check is about, if the check holds for an empty collection.
    pub(super) fn note_elements(&mut self, range: TextRange, condition: Id) {
        let place = self.places.get(&range.start()).copied();
        let Some(place) = place.filter(|place| self.conditions.get(*place) == Some(&range)) else {
            return;
        };
        let is_failure = self.kinds.get(place).is_some_and(|(kind, _)| *kind == CheckKind::FailsIf);
        let found = self.collection_of(condition, !is_failure);
        if let Some(elements) = self.elements.get_mut(place)
            && elements.is_none()
        {
            *elements = found;
        }
    }

    /// Returns the expression that a run evaluates once for each element of the collection in a condition. Returns
    /// `None` if the check fails for an empty collection. `holds` is the truth value of the condition for which the
    /// check succeeds.
    pub(super) fn collection_of(&self, condition: Id, holds: bool) -> Option<TextRange> {
        let values = &self.values;
        let (mut condition, mut holds) = (condition, holds);
        while let Some([of]) = values.operands(condition, Op::Not) {
            (condition, holds) = (*of, !holds);
        }
        // Returns the expression that runs once for each element that a comprehension reads. Counting the yielded
        // elements would be wrong, because a comprehension that searches for violations yields no element if the check
        // succeeds.
        let taken = |id: Id| {
            let mut of = id;
            for _ in 0..2 {
                of = match values.call(of) {
                    Some((path, [inner])) if COUNTING.contains(&&*path) => *inner,
                    _ => of,
                };
            }
            self.comprehensions.get(&values.original(of)).map(|[taken, _]| *taken)
        };
        let given = |id: Id| self.comprehensions.get(&values.original(id)).map(|[_, given]| *given);
        match values.node(condition) {
            Node::Op(Op::Call, _) => match values.call(condition)? {
                (path, [of]) if path == "all" && holds => given(*of),
                (path, [of]) if path == "any" && !holds => given(*of),
                _ if !holds => taken(condition),
                _ => None,
            },
            Node::Op(Op::Compare(op), sides) => {
                let [left, right] = **sides else { return None };
                let is_none = values.literal(right) == Some(0.0)
                    || matches!(values.node(right), Node::Op(Op::List | Op::Tuple | Op::Set | Op::Dict, items) if items.is_empty())
                    || values.call(right).is_some_and(|(path, of)| path == "set" && of.is_empty());
                match op {
                    CmpOp::Eq if holds && is_none => taken(left),
                    CmpOp::NotEq | CmpOp::Gt if !holds && is_none => taken(left),
                    CmpOp::LtE | CmpOp::Lt if holds => {
                        let of = values.call(left).and_then(|(_, of)| of.first().copied());
                        given(left).or_else(|| given(of?))
                    }
                    _ => None,
                }
            }
            _ if !holds => taken(condition),
            _ => None,
        }
    }
}
