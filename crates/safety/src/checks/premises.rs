//! Judges whether the constraints that a script gives to a solver of Z3 contradict each other, or hold for every value.
//! Judges only propositions with few variables, and constraints that compare a value with a number.

#![expect(clippy::wildcard_enum_match_arm, reason = "other constraints are not decided")]

use std::collections::BTreeMap;

use ruff_python_ast::CmpOp;

use super::judge::Judge;
use super::values::{Id, Node, Op, mirrored};

/// The maximum number of propositional variables.
const VARIABLES_MAX: usize = 8;
/// The maximum nesting of a constraint.
const DEPTH_MAX: usize = 24;

/// The lower and the upper bound of a value. The second part of each bound is true if the value may equal the bound.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    lower: (f64, bool),
    upper: (f64, bool),
}

impl Judge<'_, '_> {
    /// Returns whether constraints contradict each other.
    pub(super) fn contradict(&self, constraints: &[Id]) -> bool {
        self.is_any_false(constraints)
            || self.bounds_contradict(constraints)
            || self.propositions_contradict(constraints)
    }

    /// Returns whether a constraint can never hold because of its form, for example `x != x`.
    pub(super) fn is_any_false(&self, constraints: &[Id]) -> bool {
        let is_false = |id: &Id| matches!(self.proposition(*id, &[], DEPTH_MAX), Some(false));
        constraints.iter().any(is_false)
    }

    /// Returns whether the last constraint, which is the negated claim, negates an earlier constraint. The claim is
    /// then one of its own premises.
    pub(super) fn negates_premise(&self, constraints: &[Id]) -> bool {
        let Some((last, premises)) = constraints.split_last() else { return false };
        let negated = match self.values.node(*last) {
            Node::Op(Op::Compare(CmpOp::NotEq), sides) => {
                return premises.iter().any(|premise| {
                    self.values.operands(*premise, Op::Compare(CmpOp::Eq)) == Some(sides)
                });
            }
            _ => self.values.call(*last).filter(|(path, _)| path == "z3.Not"),
        };
        negated.is_some_and(|(_, of)| of.first().is_some_and(|of| premises.contains(of)))
    }

    /// Returns whether every constraint holds for all values.
    pub(super) fn are_valid(&self, constraints: &[Id]) -> bool {
        let is_valid = |id: &Id| matches!(self.proposition(*id, &[], DEPTH_MAX), Some(true));
        !constraints.is_empty() && constraints.iter().all(is_valid)
    }

    /// Splits a constraint into constraints that must all hold.
    pub(super) fn parts_of_constraint(&self, id: Id) -> Vec<Id> {
        let parts = match self.values.node(id) {
            Node::Op(Op::List | Op::Tuple | Op::And, parts) => &**parts,
            Node::Op(Op::Call, _) => match self.values.call(id) {
                Some((path, arguments)) if path == "z3.And" => arguments,
                // The premise of a negated implication must hold, and its conclusion must not.
                Some((path, [of])) if path == "z3.Not" => match self.values.call(*of) {
                    Some((path, [premise, _])) if path == "z3.Implies" => {
                        let mut parts = self.parts_of_constraint(*premise);
                        parts.push(id);
                        return parts;
                    }
                    _ => return vec![id],
                },
                _ => return vec![id],
            },
            _ => return vec![id],
        };
        parts.to_vec()
    }

    fn bounds_contradict(&self, constraints: &[Id]) -> bool {
        let mut bounds: BTreeMap<Id, Bounds> = BTreeMap::new();
        for constraint in constraints {
            let Node::Op(Op::Compare(op), sides) = self.values.node(*constraint) else { continue };
            let [left, right] = **sides else { continue };
            if let Some(bound) = self.values.literal(right) {
                narrow(bounds.entry(left).or_insert(UNBOUNDED), *op, bound);
            } else if let Some(bound) = self.values.literal(left) {
                narrow(bounds.entry(right).or_insert(UNBOUNDED), mirrored(*op), bound);
            }
        }
        bounds.values().any(|Bounds { lower, upper }| {
            lower.0 > upper.0 || (lower.0 >= upper.0 && !(lower.1 && upper.1))
        })
    }

    fn propositions_contradict(&self, constraints: &[Id]) -> bool {
        let mut variables = Vec::new();
        for constraint in constraints {
            self.collect_variables(*constraint, &mut variables, DEPTH_MAX);
        }
        if variables.is_empty() || variables.len() > VARIABLES_MAX {
            return false;
        }
        (0_u32..1 << variables.len()).all(|world| {
            let known: Vec<(Id, bool)> = variables
                .iter()
                .zip(0_u32..)
                .map(|(variable, bit)| (*variable, (world >> bit) & 1 == 1))
                .collect();
            constraints.iter().any(|it| self.proposition(*it, &known, DEPTH_MAX) == Some(false))
        })
    }

    /// Returns whether a value is a propositional variable.
    fn is_variable(&self, id: Id) -> bool {
        if let Some([of, _]) = self.values.operands(id, Op::Item) {
            return self.values.call(*of).is_some_and(|(path, _)| path == "z3.Bools");
        }
        self.values.call(id).is_some_and(|(path, _)| path == "z3.Bool")
    }

    fn collect_variables(&self, id: Id, variables: &mut Vec<Id>, depth: usize) {
        if depth == 0 || variables.len() > VARIABLES_MAX || self.spend().is_none() {
            return;
        }
        if self.is_variable(id) {
            if !variables.contains(&id) {
                variables.push(id);
            }
        } else if let Node::Op(Op::Call | Op::Compare(_), parts) = self.values.node(id) {
            for part in parts {
                self.collect_variables(*part, variables, depth - 1);
            }
        }
    }

    /// Returns the truth value of a constraint, given the values of its variables in `known`.
    fn proposition(&self, id: Id, known: &[(Id, bool)], depth: usize) -> Option<bool> {
        let depth = depth.checked_sub(1)?;
        self.spend()?;
        if let Some((_, value)) = known.iter().find(|(variable, _)| *variable == id) {
            return Some(*value);
        }
        let of = |id: Id| self.proposition(id, known, depth);
        match self.values.node(id) {
            Node::True => return Some(true),
            Node::False => return Some(false),
            Node::Op(Op::Compare(op @ (CmpOp::Eq | CmpOp::NotEq)), sides) => {
                let [left, right] = **sides else { return None };
                if let (Some(left), Some(right)) = (of(left), of(right)) {
                    return Some((left == right) == (*op == CmpOp::Eq));
                }
            }
            _ => {}
        }
        if let Node::Op(Op::Compare(op), sides) = self.values.node(id) {
            let [left, right] = **sides else { return None };
            return self.compare(*op, left, right, 4).map(|(holds, _)| holds);
        }
        let (path, arguments) = self.values.call(id)?;
        let arguments: Vec<Id> = match arguments {
            [only] => self.parts_of_list(*only),
            _ => arguments.to_vec(),
        };
        let first = || of(*arguments.first()?);
        match &*path {
            "z3.BoolVal" => first(),
            "z3.Not" => first().map(|holds| !holds),
            "z3.Implies" => {
                let (premise, conclusion) = (first(), of(*arguments.get(1)?));
                match (premise, conclusion) {
                    (Some(false), _) | (_, Some(true)) => Some(true),
                    (Some(true), Some(false)) => Some(false),
                    _ => None,
                }
            }
            "z3.And" if arguments.iter().any(|it| of(*it) == Some(false)) => Some(false),
            "z3.And" => arguments.iter().all(|it| of(*it) == Some(true)).then_some(true),
            "z3.Or" if arguments.iter().any(|it| of(*it) == Some(true)) => Some(true),
            "z3.Or" if self.has_complement(&arguments) => Some(true),
            "z3.Or" => arguments.iter().all(|it| of(*it) == Some(false)).then_some(false),
            _ => None,
        }
    }

    fn parts_of_list(&self, id: Id) -> Vec<Id> {
        self.values.operands(id, Op::List).map_or_else(|| vec![id], <[Id]>::to_vec)
    }

    /// Returns whether the values include a value and its negation.
    fn has_complement(&self, all: &[Id]) -> bool {
        all.iter().any(|id| {
            self.values.call(*id).is_some_and(|(path, of)| {
                path == "z3.Not" && of.first().is_some_and(|of| all.contains(of))
            })
        })
    }
}

const UNBOUNDED: Bounds = Bounds { lower: (f64::NEG_INFINITY, true), upper: (f64::INFINITY, true) };

fn narrow(bounds: &mut Bounds, op: CmpOp, bound: f64) {
    let (lower, upper) = match op {
        CmpOp::Gt => (Some((bound, false)), None),
        CmpOp::GtE => (Some((bound, true)), None),
        CmpOp::Lt => (None, Some((bound, false))),
        CmpOp::LtE => (None, Some((bound, true))),
        CmpOp::Eq => (Some((bound, true)), Some((bound, true))),
        _ => (None, None),
    };
    if let Some(lower) =
        lower.filter(|it| it.0 > bounds.lower.0 || (it.0 >= bounds.lower.0 && !it.1))
    {
        bounds.lower = lower;
    }
    if let Some(upper) =
        upper.filter(|it| it.0 < bounds.upper.0 || (it.0 <= bounds.upper.0 && !it.1))
    {
        bounds.upper = upper;
    }
}
