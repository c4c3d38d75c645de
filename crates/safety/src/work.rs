//! Counts the work of an analysis in steps. It never measures time, so a source gets the same result on every machine.
//!
//! A step takes at most about 0.1 µs: one expression evaluated, one name followed to a binding, one value joined, or a
//! few bytes of a string folded or judged. Any operation that may cost more than linear time in the source must be
//! counted.

use foldhash::HashMap;
use std::cell::{Cell, RefCell};

/// The steps that every source may take.
const STEPS_MIN: usize = 400_000;
/// The additional steps for each byte of the source. Of 61,000 honest scripts, none takes more than a quarter of its
/// limit.
const STEPS_PER_BYTE: usize = 3;
/// The longest part of a string, in bytes, that may be split into characters.
const TAKEN_APART_BYTES: usize = 1024;
/// The fixed cost of analysing a string, in steps.
const STARTED: usize = 32;

/// Returns the number of steps after which the analysis of a source stops and refuses it as too indirect.
#[must_use]
pub const fn steps_max(source_bytes: usize) -> usize {
    STEPS_MIN + STEPS_PER_BYTE * source_bytes
}

/// Returns the steps for folding a string of this many bytes.
pub(super) const fn folding(bytes: usize) -> usize {
    let apart = if bytes < TAKEN_APART_BYTES { bytes } else { TAKEN_APART_BYTES };
    apart / 4 + bytes / 16
}

/// The way in which a string is judged. Each string is judged once in each way, and the result is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Judgement {
    /// As a path of attribute names.
    Attributes,
    /// As SQL.
    Sql,
    /// As a formula.
    Formula,
    /// Parsed as code, at this nesting depth of strings.
    Code(usize),
}

/// The step counter of an analysis and of the strings of code in it, with the cached judgements of strings.
#[derive(Debug)]
pub(super) struct Work {
    steps: Cell<usize>,
    max: usize,
    judged: RefCell<HashMap<Judgement, HashMap<Box<str>, bool>>>,
}

impl Work {
    pub(super) fn new(source: &str) -> Self {
        let max = steps_max(source.len());
        Self { steps: Cell::new(0), max, judged: RefCell::default() }
    }

    pub(super) fn steps(&self) -> usize {
        self.steps.get()
    }

    #[inline]
    pub(super) fn spend(&self, steps: usize) {
        let spent = self.steps.get();
        // After the limit each call counts one step, so that a test can check that the analysis stops.
        let total = if spent > self.max { spent + 1 } else { (spent + steps).min(self.max + 1) };
        self.steps.set(total);
    }

    /// Returns whether the analysis must stop. The source is then refused, regardless of its other findings.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.steps.get() > self.max
    }

    /// Returns the judgement of `text`, calling `judge` the first time.
    pub(super) fn judge(
        &self,
        judgement: Judgement,
        text: &str,
        judge: impl FnOnce() -> bool,
    ) -> bool {
        self.spend(1 + text.len() / 64);
        let remembered = self.judged.borrow().get(&judgement).and_then(|of| of.get(text).copied());
        if let Some(judged) = remembered {
            return judged;
        }
        self.spend(match judgement {
            Judgement::Attributes | Judgement::Sql => text.len() / 4,
            Judgement::Formula | Judgement::Code(_) => STARTED + text.len(),
        });
        // A source that is refused anyway needs no judgement.
        let judged = !self.is_spent() && judge();
        self.judged.borrow_mut().entry(judgement).or_default().insert(text.into(), judged);
        judged
    }
}
