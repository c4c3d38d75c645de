//! Which Python and pytest the runs are made with: asked for by the server, not told by tests.

use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::evidence::PythonRecord;
use crate::executor::Executor;

/// How long an answer is good for: to ask takes as long as a short script.
const FRESH: Duration = Duration::from_secs(60);

/// The last answer.
#[derive(Debug, Default)]
pub(super) struct Python {
    last: Mutex<Option<(Instant, PythonRecord)>>,
}

impl Python {
    /// Asks, if it was not asked for a while. None if there is no answer before `cancel`.
    pub(super) async fn ask(
        &self,
        executor: &dyn Executor,
        cancel: &CancellationToken,
    ) -> Option<PythonRecord> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            answer = self.answer(executor) => answer,
        }
    }

    async fn answer(&self, executor: &dyn Executor) -> Option<PythonRecord> {
        let mut last = self.last.lock().await;
        if let Some((since, record)) = &*last
            && since.elapsed() < FRESH
        {
            return Some(record.clone());
        }
        let (since, asked) = (Instant::now(), SystemTime::now().into());
        let inventory = executor.inventory(vec!["pytest".to_owned()]).await?;
        let record = PythonRecord {
            program: inventory.program.to_string_lossy().into_owned(),
            version: inventory.python,
            pytest: inventory.packages.get("pytest").map(|package| package.version.clone()),
            asked,
        };
        // What is missing may be there at the next run.
        *last = record.pytest.is_some().then(|| (since, record.clone()));
        Some(record)
    }
}
