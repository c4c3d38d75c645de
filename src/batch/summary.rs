//! Counts the answers of a batch while it runs, and summarises them at its end. This module never displays them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::answer::Answer;
use super::{Analysis, Status};

/// The counts of a batch so far, for the display of its progress.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    counts: [u64; Status::ALL.len()],
    /// The number of lines with a script that passed.
    pub(crate) passed: u64,
    /// The number of lines that were skipped, because an earlier run has answered them.
    pub(crate) skipped: u64,
    /// The number of bytes of the input that were read.
    pub(crate) bytes_read: u64,
    durations: Durations,
}

/// The settings of a batch that are copied into its summary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunBy {
    pub(crate) workers: usize,
    /// The maximum memory of each run, in MiB.
    pub(crate) memory_mb: u64,
    pub(crate) analysis: Analysis,
}

/// The summary of a batch. It is written as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    /// The number of lines that this run has answered.
    pub(crate) lines: u64,
    pub(crate) statuses: BTreeMap<&'static str, u64>,
    pub(crate) passed: u64,
    pub(crate) skipped: u64,
    pub(crate) seconds: f64,
    pub(crate) scripts_per_second: f64,
    /// The median duration of a line, in milliseconds. The duration of a line is the total duration of its runs.
    pub(crate) p50_ms: f64,
    /// The 99th percentile of the durations of lines, in milliseconds.
    pub(crate) p99_ms: f64,
    pub(crate) workers: usize,
    pub(crate) memory_mb: u64,
    /// `report` if findings of the analysis did not block scripts, and otherwise `default`.
    pub(crate) analysis: &'static str,
    /// Whether every line of the input has an answer. With `--shard`, only the lines of the shard count.
    pub(crate) complete: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            counts: [0; Status::ALL.len()],
            passed: 0,
            skipped: 0,
            bytes_read: 0,
            durations: Durations::default(),
        }
    }

    pub(super) fn count(&mut self, answer: &Answer) {
        let counts = Status::ALL.iter().zip(&mut self.counts);
        counts.filter(|(status, _)| **status == answer.status).for_each(|(_, count)| *count += 1);
        self.passed += u64::from(answer.passed == Some(true));
        if let Some(milliseconds) = answer.duration_ms {
            self.durations.add(milliseconds);
        }
    }

    pub(crate) fn of(&self, status: Status) -> u64 {
        let counts = Status::ALL.iter().zip(&self.counts);
        counts.filter(|(one, _)| **one == status).map(|(_, count)| count).sum()
    }

    pub(crate) fn lines(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the number of answered lines per second since the start of the batch.
    #[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "a rate for people")]
    pub(crate) fn rate(&self) -> f64 {
        self.lines() as f64 / self.elapsed().as_secs_f64().max(f64::MIN_POSITIVE)
    }

    pub(crate) fn summary(&self, run: &RunBy, complete: bool) -> Summary {
        let counts = Status::ALL.iter().zip(&self.counts).filter(|(_, count)| **count > 0);
        Summary {
            lines: self.lines(),
            statuses: counts.map(|(status, count)| (status.as_str(), *count)).collect(),
            passed: self.passed,
            skipped: self.skipped,
            seconds: rounded(self.elapsed().as_secs_f64()),
            scripts_per_second: rounded(self.rate()),
            p50_ms: self.durations.quantile(50),
            p99_ms: self.durations.quantile(99),
            workers: run.workers,
            memory_mb: run.memory_mb,
            analysis: match run.analysis {
                Analysis::Blocks => "default",
                Analysis::Reports => "report",
            },
            complete,
        }
    }
}

fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

/// A histogram of durations in milliseconds. Durations up to 64 ms are exact. Longer durations are rounded down by at
/// most 1/32.
#[derive(Debug, Default)]
struct Durations(BTreeMap<u64, u64>);

impl Durations {
    fn add(&mut self, milliseconds: u64) {
        // Keep the six highest bits and clear the others.
        let dropped = (u64::BITS - milliseconds.leading_zeros()).saturating_sub(6);
        *self.0.entry(milliseconds >> dropped << dropped).or_default() += 1;
    }

    /// Returns the percentile `percent` of the durations, in milliseconds.
    #[expect(
        clippy::cast_precision_loss,
        clippy::as_conversions,
        reason = "milliseconds for people"
    )]
    fn quantile(&self, percent: u64) -> f64 {
        let total: u64 = self.0.values().sum();
        let wanted = (total * percent).div_ceil(100);
        let mut seen = 0;
        let found = self.0.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        found.map_or(0.0, |(milliseconds, _)| *milliseconds as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_counted() {
        let mut durations = Durations::default();
        assert_eq!(durations.quantile(50).to_bits(), 0.0_f64.to_bits());
        (1..=50).for_each(|milliseconds| durations.add(milliseconds));
        assert!((durations.quantile(50) - 25.0).abs() < f64::EPSILON);
        assert!((durations.quantile(99) - 50.0).abs() < f64::EPSILON);
        (0..1000).for_each(|_| durations.add(123_456));
        assert!((durations.quantile(99) / 123_456.0 - 1.0).abs() < 1.0 / 32.0);
        // The size of the histogram is limited for any number of durations.
        (0..1_000_000).for_each(|milliseconds| durations.add(milliseconds));
        assert!(durations.0.len() < 600);
    }
}
