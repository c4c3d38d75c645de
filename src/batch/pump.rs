//! Runs a batch: keeps as many lines in progress as there are workers, and answers each line once. Only the gateway
//! decides whether a script is allowed.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::answered::{Answered, Earlier, Ids, NotAdded};
use super::ask::{Ask, Invalid};
use super::input::{Input, InputEnd, LINE_BYTES_MAX, RawLine};
use super::output::Writer;
use super::{Bounds, Output, Progress, Status, Verifier};
use crate::ledger::Presented;
use crate::terminal;

/// The maximum number of lines of an ordered batch that were taken from the input but have no written answer. At this
/// number, no further line is taken.
const ORDERED_ANSWERS_MAX: u64 = 10_000;
/// The maximum total size in bytes of the answers that wait in an ordered batch. An answer waits until all earlier
/// lines have been answered. At this size, no further line is taken from the input.
const ORDERED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The interval at which the progress is reported.
const TICK: Duration = Duration::from_secs(1);

/// The settings of a batch.
pub(crate) struct Pump {
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) bounds: Bounds,
    pub(crate) workers: usize,
    /// Whether answers are written in the order of the lines.
    pub(crate) is_ordered: bool,
    /// Cancelled to stop the batch: no further line is taken from the input, and running scripts are killed.
    pub(crate) stop: CancellationToken,
}

#[derive(Debug)]
pub(crate) struct Pumped {
    pub(crate) progress: Progress,
    pub(crate) ended: Ended,
}

#[derive(Debug)]
pub(crate) enum Ended {
    /// All lines have an answer.
    Complete,
    /// The batch was stopped before all lines had an answer.
    Stopped,
    /// An earlier run has answered a different line with the same id. The batch ended at this line. The values are the
    /// number and the id of the line.
    Changed(u64, String),
    /// The input could not be read to its end.
    Input(io::Error),
    /// The answers could not be written.
    Output(io::Error),
}

/// A line of the input after it was parsed and compared with the answers of an earlier run.
enum Taken {
    Ask(Ask),
    /// The line is invalid, so it is not run. The value is its answer.
    Answered(Box<Answer>),
    /// An earlier run has answered the line, so it is skipped.
    Skipped,
    /// An earlier run has answered a different line with this id.
    Changed(String),
}

/// Counts the answers of this batch, and passes them to the writer. In an ordered batch, also puts them into the order
/// of the lines.
struct Answers {
    writer: Writer,
    progress: Progress,
    order: Option<Order>,
    /// Whether answers to cancelled lines are also written. This is `false` if the batch can be resumed, because
    /// `--resume` then runs these lines.
    writes_cancelled: bool,
}

/// The answers of an ordered batch that wait for the answers to earlier lines.
#[derive(Default)]
struct Order {
    begun: u64,
    /// The number of finished lines. The answer to a finished line was passed to the writer, or was dropped.
    written: u64,
    waiting: BTreeMap<u64, Option<Vec<u8>>>,
    bytes: usize,
}

impl Pump {
    /// Answers every line of `input` that has no answer in `output`. Calls `show` with the progress each second.
    pub(crate) async fn run(
        &self,
        mut input: Input,
        output: Output,
        mut show: impl FnMut(&Progress),
    ) -> io::Result<Pumped> {
        let writes_cancelled = !output.can_be_resumed();
        let (writer, answered) = output.start()?;
        let order = self.is_ordered.then(Order::default);
        let mut answers = Answers { writer, progress: Progress::new(), order, writes_cancelled };
        let (mut running, mut ids) = (JoinSet::new(), Ids::default());
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_more = true;
        let mut changed = None;
        while has_more || !running.is_empty() {
            let is_taking = has_more && !self.stop.is_cancelled() && running.len() < self.workers;
            tokio::select! {
                biased;
                () = answers.writer.failed(), if !self.stop.is_cancelled() => self.stop.cancel(),
                () = self.stop.cancelled(), if has_more => has_more = false,
                Some(ended) = running.join_next(), if !running.is_empty() => {
                    let (place, answer) = ended.map_err(io::Error::from)?;
                    answers.take(place, answer).await;
                }
                _ = ticks.tick() => show(&answers.progress),
                line = input.next(), if is_taking && answers.has_room() => match line {
                    None => has_more = false,
                    Some(line) => {
                        answers.progress.bytes_read = input.bytes_read();
                        match self.check(&line, &mut ids, &answered) {
                            Taken::Skipped => answers.progress.skipped += 1,
                            Taken::Changed(id) => {
                                changed = Some((line.number, id));
                                has_more = false;
                            }
                            Taken::Answered(answer) => {
                                let place = answers.begin();
                                answers.take(place, *answer).await;
                            }
                            Taken::Ask(ask) => {
                                let (place, stop) = (answers.begin(), self.stop.clone());
                                let (verifier, taken) = (Arc::clone(&self.verifier), Instant::now());
                                running.spawn(async move {
                                    let nobody = Presented::default();
                                    (place, verifier.answer(ask, &nobody, taken, stop).await)
                                });
                            }
                        }
                    }
                },
            }
        }
        // Include the blank lines at the end of the input, which `next` does not return.
        answers.progress.bytes_read = input.bytes_read();
        let is_over = !self.stop.is_cancelled() && changed.is_none();
        let end = if is_over { Some(input.end().await) } else { None };
        show(&answers.progress);
        let Answers { writer, progress, .. } = answers;
        let ended = match (ended(end, writer.finish().await), changed) {
            (Ended::Stopped, Some((number, id))) => Ended::Changed(number, id),
            (ended, _) => ended,
        };
        Ok(Pumped { progress, ended })
    }

    fn check(&self, line: &RawLine, ids: &mut Ids, answered: &Answered) -> Taken {
        let number = line.number;
        match take_up(number, line.bytes.as_deref().ok_or(LINE_BYTES_MAX), self.bounds, ids) {
            Ok(ask) => match answered.to_script(number, &ask) {
                Earlier::Unanswered => Taken::Ask(ask),
                Earlier::Answered => Taken::Skipped,
                Earlier::OtherAnswered => Taken::Changed(ask.id),
            },
            Err(invalid) => {
                // If the id of a line cannot be read, use the number of the line, as for a line without an id.
                let id = invalid.id.clone().unwrap_or_else(|| number.to_string());
                // If an earlier line has the same id, an answer with this id belongs to the earlier line.
                let own = Some(id.as_str()).filter(|id| !ids.contains(id));
                match answered.to_invalid(number, own) {
                    Earlier::Unanswered => Taken::Answered(Box::new(invalid.into())),
                    Earlier::Answered => Taken::Skipped,
                    Earlier::OtherAnswered => Taken::Changed(id),
                }
            }
        }
    }
}

/// Parses a line, and refuses the line if an earlier line has the same id. For a line that is too long, `line` is an
/// error with the maximum length in bytes.
fn take_up(
    number: u64,
    line: Result<&[u8], usize>,
    bounds: Bounds,
    ids: &mut Ids,
) -> Result<Ask, Invalid> {
    with_new_id(Ask::take(number, line, bounds)?, number, ids)
}

/// Refuses a line with the id of an earlier line.
pub(super) fn with_new_id(ask: Ask, number: u64, ids: &mut Ids) -> Result<Ask, Invalid> {
    let reason = match ids.add(&ask.id) {
        Ok(()) => return Ok(ask),
        Err(NotAdded::Known) => "an earlier line has the same id".to_owned(),
        Err(NotAdded::Full(most)) => {
            format!("earlier lines have {most} ids, the limit of one batch on this machine")
        }
    };
    Err(Invalid { number, id: Some(ask.id), reason })
}

/// Returns the reason why a batch ended. `input` is `None` if the input was not read to its end.
fn ended(input: Option<InputEnd>, output: io::Result<()>) -> Ended {
    match (input, output) {
        (_, Err(error)) => Ended::Output(error),
        (Some(Err(error)), Ok(())) => Ended::Input(error),
        (Some(Ok(())), Ok(())) => Ended::Complete,
        (None, Ok(())) => Ended::Stopped,
    }
}

impl Answers {
    /// Returns whether another line may be taken from the input. In an ordered batch, the waiting answers must be below
    /// both limits.
    fn has_room(&self) -> bool {
        self.order.as_ref().is_none_or(|order| {
            order.begun - order.written < ORDERED_ANSWERS_MAX && order.bytes < ORDERED_BYTES_MAX
        })
    }

    /// Counts a line that was taken from the input. Returns the position of the line's answer in an ordered batch, and
    /// otherwise 0.
    fn begin(&mut self) -> u64 {
        self.order.as_mut().map_or(0, |order| {
            order.begun += 1;
            order.begun - 1
        })
    }

    /// Counts an answer and passes it to the writer. In an ordered batch, the answer first waits for the answers to
    /// earlier lines. `place` is the position that `begin` returned.
    async fn take(&mut self, place: u64, answer: Answer) {
        let is_told = answer.status != Status::Cancelled || self.writes_cancelled;
        if is_told {
            self.progress.count(&answer);
        }
        let line = is_told.then(|| to_line(&answer));
        let Some(order) = &mut self.order else {
            if let Some(line) = line {
                self.writer.write(line).await;
            }
            return;
        };
        order.bytes += line.as_ref().map_or(0, Vec::len);
        order.waiting.insert(place, line);
        while let Some(line) = order.waiting.remove(&order.written) {
            order.written += 1;
            order.bytes -= line.as_ref().map_or(0, Vec::len);
            if let Some(line) = line {
                self.writer.write(line).await;
            }
        }
    }
}

impl From<Invalid> for Answer {
    fn from(Invalid { number, id, reason }: Invalid) -> Self {
        Self { error: Some(reason), line: Some(number), ..Self::bare(id, Status::Invalid) }
    }
}

/// Returns an answer as one line of JSON. Escapes control characters, which terminals obey, and all characters at
/// which some readers end a line.
pub(super) fn to_line(answer: &Answer) -> Vec<u8> {
    // Serialization cannot fail for parsed or captured data.
    let text = serde_json::to_string(answer).unwrap_or_default();
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            // These characters occur only between the JSON values in `meta`, which is copied unchanged from the line.
            '\t' | '\n' | '\r' => line.push(' '),
            // The characters in the next two branches occur only inside JSON strings. Each of them has an escape of
            // four digits.
            '\u{2028}' | '\u{2029}' => line.push_str(&escape(c)),
            c if terminal::is_obeyed(c) => line.push_str(&escape(c)),
            c => line.push(c),
        }
    }
    line.push('\n');
    line.into_bytes()
}

fn escape(c: char) -> String {
    format!("\\u{:04x}", u32::from(c))
}
