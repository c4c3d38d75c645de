//! Judges the checks that the interpreter reaches, and combines the judgements of all calls.

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are unknown")]

use ruff_python_ast::{CmpOp, Expr, ExprCall};
use ruff_text_size::{Ranged as _, TextRange};

use super::super::CheckKind;
use super::super::judge::Truth;
use super::super::vacuity::Vacuity;
use super::super::values::{Id, Node, Op, Type};
use super::{Interpreter, Verdict};

impl<'a> Interpreter<'a, '_> {
    /// Judges the check whose condition is at `range`, if there is one. `truth` is the condition's truth value.
    pub(super) fn check(&mut self, range: TextRange, truth: Truth) {
        let Some(place) = self.places.get(&range.start()).copied() else { return };
        if self.conditions.get(place) != Some(&range) {
            return;
        }
        if self.general_loops > 0
            && let Some(general) = self.general.get_mut(place)
        {
            *general = true;
        }
        let Some((kind, fails_by)) = self.kinds.get(place) else { return };
        let holds_if = !matches!(kind, CheckKind::FailsIf | CheckKind::Exit);
        let why = match truth {
            _ if *kind == CheckKind::Tuple => Some(Vacuity::Tuple),
            Some((truth, why)) if truth == holds_if => Some(why),
            _ => None,
        };
        let is_swallowed = self.catches.iter().any(|catch| catch.catches(fails_by));
        let why = why.or(is_swallowed.then_some(Vacuity::Swallowed));
        if let Some(verdict) = self.verdicts.get_mut(place) {
            *verdict = match (*verdict, why) {
                (Verdict::CanFail, _) | (_, None) => Verdict::CanFail,
                (Verdict::Unseen, Some(why)) => Verdict::Vacuous(why),
                (known @ Verdict::Vacuous(_), Some(_)) => known,
            };
        }
    }

    pub(super) fn is_check(&self, range: TextRange) -> bool {
        self.places
            .get(&range.start())
            .is_some_and(|place| self.conditions.get(*place) == Some(&range))
    }

    /// Like [`check`](Self::check), and records whether `condition` is about a generated collection.
    pub(super) fn check_condition(&mut self, range: TextRange, condition: Id, truth: Truth) {
        if let Some(place) = self.places.get(&range.start()).copied()
            && self.judge().is_general(condition)
            && let Some(general) = self.general.get_mut(place)
        {
            *general = true;
        }
        self.check(range, truth);
    }

    pub(super) fn check_call(&mut self, call: &'a ExprCall) {
        if !self.is_check(call.range()) {
            return;
        }
        let arguments = self.arguments(call);
        let name = match &*call.func {
            Expr::Attribute(attribute) => attribute.attr.as_str(),
            Expr::Name(name) => name.id.as_str(),
            _ => "",
        };
        let truth = match self.replacement(&call.func) {
            Some(function) if self.may_fail(function) => None,
            Some(_) => Some((true, Vacuity::Replaced)),
            None => self.truth_of_assertion(name, &arguments),
        };
        let all = self.values.op(Op::Tuple, arguments);
        self.check_condition(call.range(), all, truth);
    }

    pub(super) fn truth_of_assertion(&mut self, name: &str, arguments: &[Id]) -> Truth {
        let op = match name {
            "assertTrue" => return self.judge().truth(*arguments.first()?),
            "assertFalse" => {
                return self.judge().truth(*arguments.first()?).map(|(of, why)| (!of, why));
            }
            "assertIsNone" => {
                let none = self.values.add(Node::None);
                let condition = self.values.op(Op::Compare(CmpOp::Is), [*arguments.first()?, none]);
                return self.judge().truth(condition);
            }
            "assertIsNotNone" => {
                let of = self.values.type_of(*arguments.first()?);
                let is_known = !matches!(of, Type::Unknown | Type::None);
                return is_known.then_some((true, Vacuity::AlwaysTrue));
            }
            "assertAlmostEqual" | "assert_almost_equal" | "assert_approx_equal" => {
                return self.truth_of_almost_equal(arguments);
            }
            "assert_allclose" => {
                let function = self.values.path("numpy.allclose");
                let call = self.values.op(Op::Call, [&[function], arguments].concat());
                return self.judge().truth(call);
            }
            "assertNotEqual" => CmpOp::NotEq,
            "assertGreater" => CmpOp::Gt,
            "assertGreaterEqual" => CmpOp::GtE,
            "assertLess" | "assert_array_less" => CmpOp::Lt,
            "assertLessEqual" => CmpOp::LtE,
            "assertIs" => CmpOp::Is,
            "assertIsNot" => CmpOp::IsNot,
            "assertIn" => CmpOp::In,
            "assertNotIn" => CmpOp::NotIn,
            "assertEqual"
            | "assertListEqual"
            | "assertSequenceEqual"
            | "assertDictEqual"
            | "assertSetEqual"
            | "assertTupleEqual"
            | "assertCountEqual"
            | "assert_equal"
            | "assert_array_equal"
            | "assert_frame_equal"
            | "assert_series_equal" => CmpOp::Eq,
            _ => return None,
        };
        let condition = self.values.op(Op::Compare(op), [*arguments.first()?, *arguments.get(1)?]);
        self.judge().truth(condition)
    }

    pub(super) fn truth_of_almost_equal(&self, arguments: &[Id]) -> Truth {
        let (values, judge) = (&self.values, self.judge());
        let (left, right) = (*arguments.first()?, *arguments.get(1)?);
        if let Some(truth) = judge.compare(CmpOp::Eq, left, right, 8).filter(|(holds, _)| *holds) {
            return Some(truth);
        }
        let places = ["places", "decimal"]
            .into_iter()
            .find_map(|name| values.number(values.keyword(arguments, name)?));
        let places = places.or_else(|| values.literal(*arguments.get(2)?));
        let delta = values.keyword(arguments, "delta").and_then(|it| values.number(it));
        let claims = [left, right].into_iter().filter_map(|it| values.number(it));
        let is_wide = delta.is_some_and(|delta| {
            claims.into_iter().any(|claim| claim != 0.0 && delta >= claim.abs())
        });
        (is_wide || places.is_some_and(|places| places < 0.0)).then_some((true, Vacuity::Tolerance))
    }
}
