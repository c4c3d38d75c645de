//! Judges whether a condition always has the same truth value.
//!
//! | file | responsibility |
//! |---|---|
//! | `comparisons` | comparisons of equal values, and comparisons that hold because of a value's type or operation |
//! | `tolerances` | comparisons with a tolerance, and of rounded values |
//! | `collections` | conditions about all elements of a collection, and about empty collections |
//! | `disjunctions` | disjunctions that always hold |
//! | `calls` | calls, attributes and types |

#![expect(clippy::wildcard_enum_match_arm, reason = "few conditions are always true")]

mod calls;
mod collections;
mod comparisons;
mod disjunctions;
mod tolerances;

use std::cell::Cell;

use foldhash::HashSet;
use ruff_python_ast::{CmpOp, Operator};

use super::vacuity::Vacuity;
use super::values::{Id, Node, Of, Op, Type, Values};
use crate::work::Work;

/// The maximum depth to which the operands of a condition are followed.
const DEPTH_MAX: usize = 40;

/// The maximum number of values that the judgement of one condition visits.
pub(super) const BUDGET: u32 = 2_000;

/// The truth value of a condition, with the reason for this value. `None` if the truth value is unknown.
pub(super) type Truth = Option<(bool, Vacuity)>;

pub(super) struct Judge<'v, 'a> {
    pub(super) values: &'v Values<'a>,
    /// The facts about the classes of the script, by class index.
    pub(super) classes: &'v [ClassFacts<'a>],
    pub(super) work: &'v Work,
    /// The number of values that may still be visited.
    pub(super) budget: Cell<u32>,
}

#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct ClassFacts<'a> {
    /// Whether all objects of the class are true, because neither the class nor a base defines `__bool__` or `__len__`.
    pub(super) is_true: bool,
    /// Whether the class has a method `__eq__` that returns true for all objects of the class.
    pub(super) equals_all: bool,
    /// Whether the method `__exit__` of the class suppresses every exception.
    pub(super) suppresses: bool,
    /// Whether no base of the class can add `__bool__` or `__len__`. False if a base is unknown.
    pub(super) is_plain: bool,
    /// The names of the methods without decorators.
    pub(super) methods: HashSet<&'a str>,
}

impl Judge<'_, '_> {
    /// Counts the visit of a value. Returns `None` if the budget is spent. The budget prevents exponential time for
    /// chains such as `x = x + x`, in which each value uses the previous value twice.
    pub(super) fn spend(&self) -> Option<()> {
        self.budget.set(self.budget.get().checked_sub(1)?);
        Some(())
    }

    /// Counts the work for reading `bytes` bytes of a text. Returns `None` if the analysis has reached its limit.
    pub(super) fn spend_bytes(&self, bytes: usize) -> Option<()> {
        self.work.spend(bytes / 16);
        (!self.work.is_spent()).then_some(())
    }

    /// Returns the truth value of a value; `None` if the truth value is unknown.
    pub(super) fn truth(&self, id: Id) -> Truth {
        self.truth_at(id, DEPTH_MAX)
    }

    fn truth_at(&self, id: Id, depth: usize) -> Truth {
        let depth = depth.checked_sub(1)?;
        self.spend()?;
        let known = self.truth_of_node(id, depth);
        if known.is_none() { self.by_samples(id) } else { known }
    }

    fn truth_of_node(&self, id: Id, depth: usize) -> Truth {
        let values = self.values;
        match values.node(id) {
            Node::True => Some((true, Vacuity::Constant)),
            Node::False | Node::None => Some((false, Vacuity::Constant)),
            Node::Number(bits, _) => Some((f64::from_bits(*bits) != 0.0, Vacuity::Constant)),
            Node::Text(text) | Node::Bytes(text) => Some((!text.is_empty(), Vacuity::Constant)),
            Node::Function(_) | Node::Class(_) => Some((true, Vacuity::TrueObject)),
            Node::Unknown(_, Type::Solver | Type::CheckResult | Type::Object) => {
                Some((true, Vacuity::TrueObject))
            }
            Node::Path(path) => match &**path {
                "sympy.true" | "z3.sat" | "z3.unsat" => Some((true, Vacuity::Constant)),
                "sympy.false" => Some((false, Vacuity::Constant)),
                _ => None,
            },
            Node::Instance(class, _) => {
                let is_true = self.classes.get(*class).is_some_and(|class| class.is_true);
                is_true.then_some((true, Vacuity::TrueObject))
            }
            Node::Op(op, operands) => self.truth_of_op(id, *op, operands, depth),
            _ => None,
        }
    }

    fn truth_of_op(&self, id: Id, op: Op<'_>, operands: &[Id], depth: usize) -> Truth {
        let truth = |id: Id| self.truth_at(id, depth);
        match op {
            Op::Tuple if !operands.is_empty() => Some((true, Vacuity::Tuple)),
            Op::List | Op::Set | Op::Dict if !operands.is_empty() => {
                Some((true, Vacuity::TrueObject))
            }
            Op::Tuple | Op::List | Op::Set | Op::Dict => Some((false, Vacuity::Constant)),
            Op::Comprehension(Of::Generator) => Some((true, Vacuity::TrueObject)),
            Op::Comprehension(_) if self.is_filled(id) => Some((true, Vacuity::TrueObject)),
            Op::Comprehension(_) => {
                self.reason_for_no_element(operands, depth).map(|why| (false, why))
            }
            Op::Zero => Some((false, Vacuity::SameValue)),
            Op::Flag => Some((truth(*operands.first()?)?.0, Vacuity::NoException)),
            Op::Copy => truth(*operands.first()?),
            Op::OneOf(_) => {
                let mut all = operands.iter().map(|it| truth(*it));
                let first = all.next()??;
                all.all(|it| it.is_some_and(|it| it.0 == first.0)).then_some(first)
            }
            Op::Formatted => {
                let is_filled = operands.iter().any(|it| self.has_text(*it));
                is_filled.then_some((true, Vacuity::TrueObject))
            }
            Op::Not => truth(*operands.first()?).map(|(holds, why)| (!holds, why)),
            Op::And => self.conjunction(operands, depth),
            Op::Or => self.disjunction(operands, depth),
            Op::IfElse if truth(*operands.first()?).is_some_and(|it| it.1 == Vacuity::Constant) => {
                let place = if truth(*operands.first()?)?.0 { 1 } else { 2 };
                truth(*operands.get(place)?).map(|(holds, _)| (holds, Vacuity::Constant))
            }
            Op::IfElse => match (truth(*operands.get(1)?)?, truth(*operands.get(2)?)?) {
                ((one, _), (other, _)) if one == other => Some((one, Vacuity::OrTrue)),
                _ => None,
            },
            Op::Compare(op) => self.compare(op, *operands.first()?, *operands.get(1)?, depth),
            Op::Binary(Operator::BitOr) => operands.iter().find_map(|operand| {
                let is_set = self.values.literal(*operand)? != 0.0;
                is_set.then_some((true, Vacuity::OrTrue))
            }),
            Op::Call => self.truth_of_call(id, depth),
            Op::Attribute(name) => match self.values.path_of(id).as_deref() {
                Some("sympy.S.true") => Some((true, Vacuity::Constant)),
                Some("sympy.S.false") => Some((false, Vacuity::Constant)),
                Some(_) => None,
                None => {
                    self.is_method(*operands.first()?, name).then_some((true, Vacuity::TrueObject))
                }
            },
            _ => None,
        }
    }

    fn conjunction(&self, operands: &[Id], depth: usize) -> Truth {
        // If a premise is false for every element of a loop, the conjunction is false too.
        if operands.iter().any(|it| self.holds_for_none(*it)) {
            return Some((false, Vacuity::Premises));
        }
        let mut last = None;
        for operand in operands {
            match self.truth_at(*operand, depth) {
                Some((false, why)) => return Some((false, why)),
                Some((true, why)) if last != Some(None) => last = Some(Some(why)),
                Some((true, _)) => {}
                None => last = Some(None),
            }
        }
        last.flatten().map(|why| (true, why))
    }

    /// Returns whether `id` compares the variable of a loop over literals with another literal, and the comparison is
    /// false for each element of the loop.
    fn holds_for_none(&self, id: Id) -> bool {
        let Node::Op(Op::Compare(op), sides) = self.values.node(id) else { return false };
        let [left, right] = **sides else { return false };
        let Node::Op(Op::OneOf(_), all) = self.values.node(left) else { return false };
        all.len() > 1
            && all.iter().all(|it| match op {
                CmpOp::Eq => {
                    self.values.is_literal(*it) && self.values.is_literal(right) && *it != right
                }
                _ => self.compare_literals(*op, *it, right) == Some(false),
            })
    }
}
