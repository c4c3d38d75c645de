//! Converts the end of a job into columns of the database and back. The metadata is one column of JSON. Output and
//! plots have their own columns.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_postgres::Row;

use crate::executor::{
    Cached, Captured, EndReport, Ending, LeftOut, MemoryBound, Outcome, Picture, Pictures,
    Returned, Start,
};
use crate::gateway::{AuthorizedScript, Inputs};
use crate::sandbox::Tier;
use crate::verdict::Verdict;

use super::super::job::JobEnd;

/// The first byte of the column `script` if the script has inputs. No UTF-8 text starts with this byte.
const WITH_INPUTS: u8 = 0xff;

/// Returns the value of the column `script`: the source, or [`WITH_INPUTS`] and a JSON array of the source and the inputs.
pub(super) fn stored(script: &AuthorizedScript) -> Cow<'_, [u8]> {
    let source = script.source().as_str();
    if script.inputs().is_empty() {
        return Cow::Borrowed(source.as_bytes());
    }
    let both = json!([source, script.inputs().to_json()]).to_string();
    Cow::Owned([&[WITH_INPUTS], both.as_bytes()].concat())
}

/// Returns the source and the inputs in a column `script`. The gateway checks both again, so bytes that a server has not
/// written do no harm.
pub(super) fn script_of(stored: &[u8]) -> (String, Inputs) {
    let with_inputs = stored.strip_prefix(&[WITH_INPUTS]);
    let both = with_inputs.and_then(|both| serde_json::from_slice::<(String, Value)>(both).ok());
    let both = both.and_then(|(source, inputs)| Some((source, Inputs::from_json(inputs).ok()?)));
    both.unwrap_or_else(|| (String::from_utf8_lossy(stored).into_owned(), Inputs::default()))
}

/// The end of a job, as the values of its columns.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Kept {
    /// The column with an `End` as JSON.
    pub(super) result: String,
    pub(super) stdout: Option<Vec<u8>>,
    pub(super) stderr: Option<Vec<u8>>,
    pub(super) pictures: Option<Vec<Vec<u8>>>,
}

/// The content of the column `result`.
#[derive(Debug, Serialize, Deserialize)]
enum End {
    Ran(Box<Figures>),
    NotRun(String),
    Lost(String),
    Cancelled,
}

/// The metadata of a run, without its output and plots.
#[derive(Debug, Serialize, Deserialize)]
struct Figures {
    ending: Ending,
    stdout_truncated: bool,
    stderr_truncated: bool,
    pictures: Vec<Picture>,
    left_out: Vec<LeftOut>,
    duration: Duration,
    /// Whether the run was starved. Rows of earlier versions do not have this field.
    #[serde(default)]
    is_starved: bool,
    tier: Option<Tier>,
    memory_bound: Option<MemoryBound>,
    start: Start,
    advice: Option<String>,
    /// Rows of earlier versions do not have this field.
    #[serde(default)]
    returned: Option<Returned>,
    /// Rows of earlier versions do not have this field.
    #[serde(default)]
    verdict: Option<Arc<Verdict>>,
    receipt: Option<Value>,
    /// Rows of earlier versions do not have this field.
    #[serde(default)]
    cached: Option<Cached>,
}

impl Kept {
    pub(super) fn of_row(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            result: row.try_get::<_, Option<String>>("result")?.unwrap_or_default(),
            stdout: row.try_get("stdout")?,
            stderr: row.try_get("stderr")?,
            pictures: row.try_get("pictures")?,
        })
    }

    pub(super) fn of_end(end: &JobEnd) -> Self {
        let mut kept = Self::default();
        let end = match end {
            JobEnd::Cancelled => End::Cancelled,
            JobEnd::NotRun(reason) => End::NotRun(reason.to_string()),
            JobEnd::Lost(worker) => End::Lost(worker.to_string()),
            JobEnd::Ran(outcome) => {
                let pictures = &outcome.pictures.all;
                kept.stdout = Some(outcome.stdout.text.clone().into());
                kept.stderr = Some(outcome.stderr.text.clone().into());
                kept.pictures = (!pictures.is_empty())
                    .then(|| pictures.iter().map(|picture| picture.png.clone()).collect());
                End::Ran(Box::new(Figures::of(outcome)))
            }
        };
        // Serialization cannot fail for any `End`. If it did, readers would report the empty string as an unreadable
        // result.
        kept.result = serde_json::to_string(&end).unwrap_or_default();
        kept
    }

    pub(super) fn into_end(self) -> JobEnd {
        match serde_json::from_str(&self.result) {
            Ok(End::Cancelled) => JobEnd::Cancelled,
            Ok(End::NotRun(reason)) => JobEnd::NotRun(reason.into()),
            Ok(End::Lost(worker)) => JobEnd::Lost(worker.into()),
            Ok(End::Ran(figures)) => {
                let (stdout, stderr) = (self.stdout, self.stderr);
                let pictures = self.pictures.unwrap_or_default();
                JobEnd::Ran(Arc::new(figures.into_outcome(stdout, stderr, pictures)))
            }
            // A newer version of this program wrote the result.
            Err(_) => JobEnd::NotRun("its result cannot be read by this server".into()),
        }
    }
}

impl Figures {
    fn of(outcome: &Outcome) -> Self {
        Self {
            ending: outcome.ending,
            stdout_truncated: outcome.stdout.is_truncated,
            stderr_truncated: outcome.stderr.is_truncated,
            pictures: outcome.pictures.all.clone(),
            left_out: outcome.pictures.left_out.clone(),
            duration: outcome.duration,
            is_starved: outcome.is_starved,
            tier: outcome.tier,
            memory_bound: outcome.memory_bound,
            start: outcome.start,
            advice: outcome.advice.clone(),
            returned: outcome.end_report.returned.clone(),
            verdict: outcome.verdict.clone(),
            receipt: outcome.receipt.clone(),
            cached: outcome.cached.clone(),
        }
    }

    fn into_outcome(
        self,
        stdout: Option<Vec<u8>>,
        stderr: Option<Vec<u8>>,
        pngs: Vec<Vec<u8>>,
    ) -> Outcome {
        let captured = |bytes: Option<Vec<u8>>, is_truncated| {
            let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
            Captured { text, is_truncated, ..Captured::default() }
        };
        let all = self.pictures.into_iter().zip(pngs);
        let all = all.map(|(picture, png)| Picture { png, ..picture }).collect();
        Outcome {
            ending: self.ending,
            stdout: captured(stdout, self.stdout_truncated),
            stderr: captured(stderr, self.stderr_truncated),
            pictures: Arc::new(Pictures { all, left_out: self.left_out }),
            check_counts: None,
            end_report: EndReport { returned: self.returned, ..EndReport::default() },
            duration: self.duration,
            took_pipes: false,
            is_starved: self.is_starved,
            has_slept: false,
            tier: self.tier,
            memory_bound: self.memory_bound,
            start: self.start,
            advice: self.advice,
            verdict: self.verdict,
            receipt: self.receipt,
            cached: self.cached,
        }
    }
}
