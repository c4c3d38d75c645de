//! Converts the end of a job into columns of the database and back. The metadata is one column of JSON. Output and
//! plots have their own columns.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_postgres::Row;

use crate::executor::Outcome;
use crate::gateway::{AuthorizedScript, Inputs};

use super::super::job::JobEnd;

/// The first byte of the column `script` if the script has inputs. No UTF-8 text starts with this byte.
const WITH_INPUTS: u8 = 0xff;

/// Returns the value of the column `script`: the source, or [`WITH_INPUTS`] and a JSON array of the source and inputs.
pub(super) fn stored(script: &AuthorizedScript) -> Cow<'_, [u8]> {
    let source = script.source().as_str();
    if script.inputs().is_empty() {
        return Cow::Borrowed(source.as_bytes());
    }
    let both = json!([source, script.inputs().to_json()]).to_string();
    Cow::Owned([&[WITH_INPUTS], both.as_bytes()].concat())
}

/// Parses a value of the column `script` into the source and the inputs. The gateway checks both again, so a
/// manipulated value does no harm.
pub(super) fn script_of(stored: &[u8]) -> (String, Inputs) {
    let with_inputs = stored.strip_prefix(&[WITH_INPUTS]);
    let both = with_inputs.and_then(|both| serde_json::from_slice::<(String, Value)>(both).ok());
    let both = both.and_then(|(source, inputs)| Some((source, Inputs::from_json(inputs).ok()?)));
    both.unwrap_or_else(|| (String::from_utf8_lossy(stored).into_owned(), Inputs::default()))
}

/// The end of a job in the form of the database: one field for each column.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Kept {
    /// The column `result`: a value of the type [`End`] as JSON.
    pub(super) result: String,
    pub(super) stdout: Option<Vec<u8>>,
    pub(super) stderr: Option<Vec<u8>>,
    pub(super) pictures: Option<Vec<Vec<u8>>>,
}

/// The content of the column `result`.
#[derive(Debug, Serialize, Deserialize)]
enum End {
    /// The outcome of the run. The output and the plots are not part of it, because they have their own columns.
    Ran(Box<Outcome>),
    NotRun(String),
    Lost(String),
    Cancelled,
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
                kept.pictures = (!pictures.is_empty())
                    .then(|| pictures.iter().map(|picture| picture.png.clone()).collect());
                let mut outcome = Outcome::clone(outcome);
                // Drop the counts of checks and the value in the end report. They may be large, and only batches use
                // them.
                outcome.check_counts = None;
                outcome.end_report.value = None;
                for (stream, column) in [
                    (&mut outcome.stdout, &mut kept.stdout),
                    (&mut outcome.stderr, &mut kept.stderr),
                ] {
                    *column = Some(mem::take(&mut stream.text).into());
                    stream.bytes = None;
                }
                End::Ran(Box::new(outcome))
            }
        };
        // Serialization cannot fail for any `End`. Readers would report an empty string as an unreadable result.
        kept.result = serde_json::to_string(&end).unwrap_or_default();
        kept
    }

    pub(super) fn into_end(self) -> JobEnd {
        match serde_json::from_str(&self.result) {
            Ok(End::Cancelled) => JobEnd::Cancelled,
            Ok(End::NotRun(reason)) => JobEnd::NotRun(reason.into()),
            Ok(End::Lost(worker)) => JobEnd::Lost(worker.into()),
            Ok(End::Ran(mut outcome)) => {
                outcome.stdout.text = text(self.stdout);
                outcome.stderr.text = text(self.stderr);
                let pngs = self.pictures.unwrap_or_default();
                let pictures = &mut Arc::make_mut(&mut outcome.pictures).all;
                // If the column has fewer PNGs than the outcome has pictures, drop the pictures without a PNG.
                pictures.truncate(pngs.len());
                for (picture, png) in pictures.iter_mut().zip(pngs) {
                    picture.png = png;
                }
                JobEnd::Ran(Arc::from(outcome))
            }
            // A newer version of this program wrote the result.
            Err(_) => JobEnd::NotRun("its result cannot be read by this server".into()),
        }
    }
}

fn text(column: Option<Vec<u8>>) -> String {
    String::from_utf8_lossy(&column.unwrap_or_default()).into_owned()
}
