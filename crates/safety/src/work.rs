//! The work of an analysis, counted in steps and not in time, so that the answer to a source is the
//! same on every machine.
//!
//! A step stands for at most about 0.1 µs: one expression evaluated, one name followed to a binding,
//! one value joined, or a few bytes of a text folded or judged. Whatever may cost more than the
//! source is long has to be counted.

use foldhash::HashMap;
use std::cell::{Cell, RefCell};

/// The steps that every source may take.
const STEPS_MIN: usize = 400_000;
/// The steps that each byte of the source allows in addition. Of 61,000 honest scripts, none
/// takes more than a quarter of its bound.
const STEPS_PER_BYTE: usize = 3;
/// The longest part of a text that may be taken apart into its characters, in bytes.
const TAKEN_APART_BYTES: usize = 1024;
/// The steps of starting an analysis of a text, however short.
const STARTED: usize = 32;

/// Returns the most steps that the analysis of a source takes before it is refused as too indirect.
#[must_use]
pub const fn steps_max(source_bytes: usize) -> usize {
    STEPS_MIN + STEPS_PER_BYTE * source_bytes
}

/// Returns the steps that it takes to fold a text of this many bytes.
pub(super) const fn folding(bytes: usize) -> usize {
    let apart = if bytes < TAKEN_APART_BYTES { bytes } else { TAKEN_APART_BYTES };
    apart / 4 + bytes / 16
}

/// A judgement of a text, which is made once for each text and then remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Judgement {
    /// As the names of attributes.
    Attributes,
    /// As SQL.
    Sql,
    /// As a formula.
    Formula,
    /// As code, within so many other texts.
    Code(usize),
}

/// The count of steps of an analysis, with the texts of code in it, and what it remembers of texts.
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
        // From then on the calls are counted, by which a test sees that the analysis ends.
        let total = if spent > self.max { spent + 1 } else { (spent + steps).min(self.max + 1) };
        self.steps.set(total);
    }

    /// Tells whether the analysis has to end: the source is refused, whatever else is in it.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.steps.get() > self.max
    }

    /// Returns the judgement of `text`, which `judge` makes if it is the first.
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
        // What is refused anyway needs no judgement.
        let judged = !self.is_spent() && judge();
        self.judged.borrow_mut().entry(judgement).or_default().insert(text.into(), judged);
        judged
    }
}
