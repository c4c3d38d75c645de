//! Counts the work of an analysis in steps. It never measures time, so a source gets the same result on every machine.
//!
//! One step is one evaluated expression, one name followed to a binding, one merge of values, or a few bytes of a
//! string that the analysis computes or judges. A step takes at most about 0.1 µs. Any operation that may take more
//! than linear time in the size of the source must be counted.

use foldhash::HashMap;
use std::cell::{Cell, RefCell};

/// The number of steps that the analysis of every source may take, regardless of the source's size.
const STEPS_MIN: usize = 400_000;
/// The number of additional steps for each byte of the source. Of 61,000 honest scripts, none takes more than a quarter
/// of its limit.
const STEPS_PER_BYTE: usize = 3;
/// The length of a string, in bytes, up to which each byte costs additional steps, because the analysis may split the
/// string into characters.
const TAKEN_APART_BYTES: usize = 1024;
/// The fixed cost of parsing a string as a formula or as code, in steps.
const PARSE_STEPS: usize = 32;

/// Returns the maximum number of steps for a source of `source_bytes` bytes. An analysis that takes more steps stops,
/// and refuses the source as too indirect.
#[must_use]
pub const fn steps_max(source_bytes: usize) -> usize {
    STEPS_MIN + STEPS_PER_BYTE * source_bytes
}

/// Returns the number of steps for computing a string from a known string of `bytes` bytes.
pub(super) const fn folding_steps(bytes: usize) -> usize {
    let apart = if bytes < TAKEN_APART_BYTES { bytes } else { TAKEN_APART_BYTES };
    apart / 4 + bytes / 16
}

/// The way in which a string is judged. Each string is judged once in each way, and the result is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Judgement {
    /// The string is judged as a format string, which may name attributes.
    Attributes,
    Sql,
    Formula,
    /// The string is parsed as code. The number is the nesting depth of the code: 1 for a string in the script, 2 for a
    /// string in that code, and so on.
    Code(usize),
}

/// Counts the steps of the analysis of a script, including the strings that the script runs as code. Also caches the
/// judgements of strings.
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

    /// Creates the step counter of the search for a script's checks, which has its own limit of steps.
    pub(super) fn for_checks(source: &str) -> Self {
        Self { max: 20_000 + 20 * source.len(), ..Self::new(source) }
    }

    pub(super) fn steps(&self) -> usize {
        self.steps.get()
    }

    #[inline]
    pub(super) fn spend(&self, steps: usize) {
        let spent = self.steps.get();
        // After the limit is exceeded, each further call of `spend` adds one step. A test reads this number to check
        // that the analysis stops soon after the limit.
        let total = if spent > self.max { spent + 1 } else { (spent + steps).min(self.max + 1) };
        self.steps.set(total);
    }

    /// Returns whether the analysis has exceeded its limit of steps and must stop. The source is then refused,
    /// regardless of its other findings.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.steps.get() > self.max
    }

    /// Returns the cached judgement of `text`. If there is none, calls `judge` and caches its result.
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
            Judgement::Formula | Judgement::Code(_) => PARSE_STEPS + text.len(),
        });
        // If the limit is exceeded, the source is refused anyway, so the string needs no judgement.
        let judged = !self.is_spent() && judge();
        self.judged.borrow_mut().entry(judgement).or_default().insert(text.into(), judged);
        judged
    }
}
