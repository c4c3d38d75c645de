//! Executes identical runs only once, if the admin wants it (`QWED_MCP_ANSWER_ONCE`, `run --batch --once`).
//!
//! | file | responsibility |
//! |---|---|
//! | `key` | computes the key of a run: a digest of everything that its result depends on |
//! | `sharing` | decides which runs and results other calls may use |
//! | `answers` | remembers results, and the runs that other calls wait for |
//!
//! Results are kept in memory. If the server writes receipts for scripts, results are also stored in files next to the
//! receipts, for other processes.
//!
//! This module never decides whether a script is allowed, and never starts a run. A call that uses an earlier result is
//! checked by the gateway, is audited, and gets a receipt, like every other call.

mod answers;
mod key;
mod sharing;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::executor::{
    Cached, EnvironmentCache, EnvironmentDigest, Executor, Outcome, Surroundings,
};
use crate::gateway::AuthorizedScript;
use crate::receipt::{AnswerFiles, Receipts};
use crate::verification::differences::Differences;

use super::missing_module::missing_module;
use answers::{Answers, Ended, Found, Leader};
use key::{Key, Keys};

pub(super) use key::Asked;

/// The results of this process, and the keys by which they are found.
#[derive(Debug)]
pub(super) struct Once {
    answers: Arc<Answers>,
    /// The files with results that other processes can use too. These files are next to the receipts of scripts, so
    /// this field is `None` if the server writes no receipts.
    files: Option<Arc<AnswerFiles>>,
    keys: Keys,
}

/// A run that a call requests. An earlier run may already have its result.
#[derive(Debug)]
pub(super) struct Lookup {
    key: Key,
    environment: EnvironmentDigest,
    /// The time limit of the run.
    timeout: Duration,
    script: AuthorizedScript,
    surroundings: Arc<Surroundings>,
    /// The reasons why runs of the script may differ, computed on first use. `None` if they are unknown.
    differences: OnceLock<Option<Differences>>,
    begun: Instant,
}

impl Lookup {
    fn differences(&self) -> Option<&Differences> {
        self.differences.get_or_init(|| sharing::differences(&self.script)).as_ref()
    }

    /// Returns whether all runs of the script should have the same result. If runs are deterministic, ignores the
    /// causes of differences that determinism removes.
    fn may_be_shared(&self) -> bool {
        let determinism = self.surroundings.determinism;
        self.differences().is_some_and(|of| of.before_run(determinism).is_empty())
    }
}

/// The role of a call among concurrent calls with the same script.
#[derive(Debug)]
pub(super) enum Part {
    /// The call runs the script for itself.
    Alone,
    /// The call runs the script, and other calls may wait for the result.
    First(First),
    /// The call uses the result of an earlier run.
    Later(Later),
}

/// The run for which other calls may wait. If this value is dropped before [`Once::conclude`], one of these calls runs
/// the script.
#[derive(Debug)]
pub(super) struct First {
    leader: Leader,
    lookup: Box<Lookup>,
}

/// The result of an earlier run, and the time that the lookup took.
#[derive(Debug, Clone)]
pub(super) struct Later {
    outcome: Arc<Outcome>,
    lookup: Duration,
}

/// The result of the search for an earlier run. A call searches before it waits for its turn.
pub(super) enum Before {
    /// A result exists.
    Later(Later),
    /// The script must be run, and other calls may use the result. If another call begins the same run first, this call
    /// waits for that run.
    Shared,
    /// The script must be run, for this call only.
    Alone,
}

impl Once {
    /// Creates a value without results. Returns `None` if the admin does not want to reuse results, or if runs are not
    /// deterministic. Also returns `None` if the admin allows scripts to read further paths, because files at these
    /// paths may change between two runs.
    pub(super) fn new(settings: &Settings, environment: &Arc<EnvironmentCache>) -> Option<Self> {
        if !settings.answer_once {
            return None;
        }
        if settings.deterministic.is_none() {
            tracing::warn!("results are not used again, because QWED_MCP_DETERMINISTIC is off");
            return None;
        }
        if !settings.read_paths.is_empty() {
            tracing::warn!("results are not used again, because QWED_MCP_READ_PATHS is set");
            return None;
        }
        let keys = Keys::new(settings, Arc::clone(environment));
        Some(Self { answers: Arc::default(), files: None, keys })
    }

    /// Stores results not only in memory, but also in files next to the receipts.
    pub(super) fn with_receipts(self, receipts: &Arc<Receipts>) -> Self {
        Self { files: Some(Arc::new(AnswerFiles::new(receipts))), ..self }
    }

    /// Begins the lookup of a run's result. Returns `None` if no earlier result can be used. For example, the
    /// interpreter is unknown, or two runs may have different clocks, addresses or files.
    pub(super) async fn lookup(
        &self,
        script: AuthorizedScript,
        asked: Asked<'_>,
        executor: &dyn Executor,
    ) -> Option<Box<Lookup>> {
        let begun = Instant::now();
        let surroundings = executor.surroundings().await.filter(|of| sharing::is_fixed(of))?;
        let environment = self.keys.environment(&surroundings).await?;
        let key = self.keys.key(&script, asked, environment)?;
        Some(Box::new(Lookup {
            key,
            environment,
            timeout: asked.limits.timeout,
            script,
            surroundings,
            differences: OnceLock::new(),
            begun,
        }))
    }

    /// Returns a result, or whether the script must be run. If the same run is in progress, waits for its result. The
    /// wait ends after the time limit of the run, or when `cancel` is cancelled.
    pub(super) async fn before_turn(&self, lookup: &Lookup, cancel: &CancellationToken) -> Before {
        match self.answers.find(&lookup.key) {
            Found::Stored(outcome) => later(outcome, lookup.begun.elapsed()),
            Found::Running(running) => {
                let looked_up = lookup.begun.elapsed();
                let ended = timeout(lookup.timeout, running.ended());
                match cancel.run_until_cancelled(ended).await {
                    Some(Ok(Ended::Shared(outcome))) => later(outcome, looked_up),
                    Some(Ok(Ended::GivenUp)) => Before::Shared,
                    Some(Ok(Ended::NotShared) | Err(_)) | None => Before::Alone,
                }
            }
            Found::Nothing if lookup.may_be_shared() => match self.stored(lookup.key).await {
                Some(outcome) => later(outcome, lookup.begun.elapsed()),
                None => Before::Shared,
            },
            Found::Nothing => Before::Alone,
        }
    }

    /// Reads the result from the files next to the receipts, and keeps it in memory. `None` if the result does not
    /// exist or cannot be read.
    async fn stored(&self, key: Key) -> Option<Arc<Outcome>> {
        let files = Arc::clone(self.files.as_ref()?);
        let outcome = spawn_blocking(move || {
            let content = files.read(&key.0)?;
            serde_json::from_slice::<Outcome>(&content).ok()
        });
        let outcome = Arc::new(outcome.await.ok().flatten()?);
        self.answers.remember(key, &outcome);
        Some(outcome)
    }

    /// Stores a result in the files next to the receipts, if the server writes receipts for scripts. If this fails,
    /// other processes cannot reuse the result.
    async fn store(&self, key: Key, outcome: Arc<Outcome>) {
        // Do not store pictures, because they are not serialized. Do not store advice about a missing module, because
        // it depends on the settings of this process.
        let is_whole = outcome.pictures.all.is_empty() && missing_module(&outcome).is_none();
        let Some(files) = self.files.clone().filter(|_| is_whole) else { return };
        let writer = Arc::clone(&files);
        let write = move || writer.write(&key.0, &serde_json::to_vec(&outcome)?);
        let stored = spawn_blocking(write);
        match stored.await.map_err(io::Error::other).flatten() {
            // Do not wait until the oldest results are removed.
            Ok(is_limit_near) if is_limit_near => {
                drop(spawn_blocking(move || files.remove_oldest()));
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "cannot store the result of a run"),
        }
    }

    /// Claims the run for a call that has its turn. Returns the lookup if another call has claimed the run meanwhile.
    pub(super) fn claim(&self, lookup: Box<Lookup>) -> Result<Part, Box<Lookup>> {
        match self.answers.claim(lookup.key) {
            Some(leader) => Ok(Part::First(First { leader, lookup })),
            None => Err(lookup),
        }
    }

    /// If the result of the first run can be reused, passes it to the waiting calls and stores it.
    pub(super) async fn conclude(&self, first: &First, outcome: &Outcome, is_cancelled: bool) {
        let First { leader, lookup } = first;
        if is_cancelled {
            return leader.give_up();
        }
        let is_used_again = lookup.differences().is_some_and(|differences| {
            sharing::may_be_used_again(outcome, differences, &lookup.surroundings)
        });
        // The environment may have changed between the lookup and the run.
        let environment = lookup.environment;
        if !is_used_again || self.keys.environment(&lookup.surroundings).await != Some(environment)
        {
            return leader.end_without_sharing();
        }
        let receipt = outcome.receipt.as_ref().and_then(|receipt| receipt.get("sha256"));
        let cached = Cached { receipt: receipt.and_then(|it| it.as_str()).map(str::to_owned) };
        let outcome = Outcome { receipt: None, cached: Some(cached), ..outcome.clone() };
        let outcome = Arc::new(outcome);
        leader.share(Arc::clone(&outcome));
        self.store(lookup.key, outcome).await;
    }
}

fn later(outcome: Arc<Outcome>, lookup: Duration) -> Before {
    Before::Later(Later { outcome, lookup })
}

impl Later {
    /// Returns the outcome for this call. Its duration is the duration of the lookup.
    pub(super) fn outcome(&self) -> Outcome {
        Outcome { duration: self.lookup, ..Outcome::clone(&self.outcome) }
    }
}
