//! Runs scripts from the bodies of HTTP requests: one script, or a stream of lines. Each script is answered when its
//! run has ended. This module never handles HTTP itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::answered::Ids;
use super::ask::{Ask, Invalid, Test};
use super::pump::{to_line, with_new_id};
use super::{Bounds, Status, Verifier};
use crate::gateway::{DecisionFinding, Inputs};
use crate::ledger::Presented;
use crate::scripts::ScriptError;
use crate::shares::Held;
use crate::verdict::Verdict;

/// The maximum number of ids that are remembered for one batch. They take 40 MB. A sequence of consecutive numbers
/// counts as one id.
const IDS_MAX: usize = 1_000_000;

/// A part of a stream, and the memory that is reserved for its bytes.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) room: Held,
}

/// An answer as a line, and the memory that is reserved until the client has read the answer.
#[derive(Debug)]
pub(crate) struct AnswerLine {
    pub(crate) bytes: Vec<u8>,
    pub(crate) room: Option<Held>,
}

/// The maximum length of a line of a stream, in bytes. A script of 1 MiB with its tests fits. The maximum is lower
/// than for a file, because the lines of several clients share the memory of the server.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The maximum length of a line that is parsed on the current thread, in bytes. Parsing such a line takes less than a
/// millisecond.
const SHORT_LINE_BYTES_MAX: usize = 256 * 1024;

/// A line of a stream: its number, its bytes, and the memory that is reserved for the bytes. If the line is too long,
/// the bytes are `None`.
type Line = (u64, Option<Vec<u8>>, Held);

/// Splits the chunks of a stream into lines. Buffers the incomplete last line.
#[derive(Debug, Default)]
struct Lines {
    begun: Vec<u8>,
    room: Held,
    is_too_long: bool,
    number: u64,
}

/// A batch that reads its lines from a request's body, and writes its answers to the response's body.
pub(crate) struct Batch {
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) bounds: Bounds,
    pub(crate) workers: usize,
    pub(crate) presented: Presented,
    /// Cancelled when the client no longer reads the answers, or when the server shuts down.
    pub(crate) stop: CancellationToken,
}

impl Batch {
    /// Answers each line of `chunks` when its run has ended. Takes no further chunk while all workers are busy, or
    /// while the client does not read answers. If the caller's token was revoked or has expired, sends an error as an
    /// answer and takes no further line. Runs that have started continue to their end.
    pub(crate) async fn run(
        self,
        mut chunks: mpsc::Receiver<Chunk>,
        answers: mpsc::Sender<AnswerLine>,
    ) {
        let presented = Arc::new(self.presented);
        let (mut lines, mut ids, mut running) =
            (Lines::default(), Ids::at_most(IDS_MAX), JoinSet::new());
        loop {
            let chunk = chunks.recv().await;
            let is_end = chunk.is_none();
            if let Err(error @ ScriptError::NotLetIn) = self.verifier.may_run(&presented).await {
                let gone = Answer {
                    error: Some(error.to_string()),
                    ..Answer::bare(None, Status::InfraError)
                };
                drop(answers.send(AnswerLine::small(to_line(&gone))).await);
                break;
            }
            for (number, bytes, room) in lines.split(chunk.unwrap_or_default(), is_end) {
                let parsed = parse(number, bytes, self.bounds).await;
                let ask = match parsed.and_then(|ask| with_new_id(ask, number, &mut ids)) {
                    Ok(ask) => ask,
                    Err(invalid) => {
                        let line = AnswerLine::small(to_line(&invalid.into()));
                        if answers.send(line).await.is_err() {
                            self.stop.cancel();
                        }
                        continue;
                    }
                };
                while running.len() >= self.workers && running.join_next().await.is_some() {}
                if self.stop.is_cancelled() {
                    break;
                }
                let (verifier, presented) = (Arc::clone(&self.verifier), Arc::clone(&presented));
                let (answers, stop) = (answers.clone(), self.stop.clone());
                running.spawn(async move {
                    let answer =
                        verifier.answer(ask, &presented, Instant::now(), stop.clone()).await;
                    drop(room);
                    if answer.status == Status::Cancelled {
                        return;
                    }
                    let bytes = to_line(&answer);
                    drop(answer);
                    let room = verifier.room_for(&presented, bytes.len());
                    let Some(room) = stop.run_until_cancelled(room).await else { return };
                    if answers.send(AnswerLine { bytes, room }).await.is_err() {
                        stop.cancel();
                    }
                });
            }
            if is_end || self.stop.is_cancelled() {
                break;
            }
        }
        while running.join_next().await.is_some() {}
    }
}

impl AnswerLine {
    /// Creates a short answer, for which no memory is reserved.
    fn small(bytes: Vec<u8>) -> Self {
        Self { bytes, room: None }
    }
}

impl Lines {
    /// Returns the lines that `chunk` completes, with their numbers. A line that is too long has no bytes. Blank lines
    /// are left out. If `is_end` is `true`, also returns the last line, even if it has no line feed.
    fn split(&mut self, chunk: Chunk, is_end: bool) -> Vec<Line> {
        let Chunk { bytes, mut room } = chunk;
        let mut whole = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = rest.split_at(end);
            self.push(line, &mut room);
            whole.extend(self.take());
            rest = behind.get(1..).unwrap_or_default();
        }
        self.push(rest, &mut room);
        if is_end {
            whole.extend(self.take());
        }
        whole
    }

    fn push(&mut self, part: &[u8], room: &mut Held) {
        self.is_too_long |= self.begun.len() + part.len() > LINE_BYTES_MAX;
        if self.is_too_long {
            (self.begun, self.room) = (Vec::new(), Held::default());
        } else {
            self.begun.extend_from_slice(part);
            self.room.merge(room.split(part.len()));
        }
    }

    fn take(&mut self) -> Option<Line> {
        let line = std::mem::take(&mut self.begun);
        let room = std::mem::take(&mut self.room);
        self.number += 1;
        if std::mem::take(&mut self.is_too_long) {
            return Some((self.number, None, Held::default()));
        }
        (!line.trim_ascii().is_empty()).then_some((self.number, Some(line), room))
    }
}

/// A single script from a request, with the limits that the request asks for. Used if the request is not in the format
/// of a batch line.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) code: String,
    pub(crate) stdin: String,
    pub(crate) inputs: Inputs,
    /// The requested timeout. It is reduced to the maximum if it is higher.
    pub(crate) timeout: Option<Duration>,
    /// The requested memory, in MiB. It is reduced to the maximum if it is higher.
    pub(crate) memory_mb: Option<u64>,
}

#[derive(Debug)]
pub(crate) enum Single {
    /// A script in the format of a line of a batch.
    Line(Vec<u8>),
    Wanted(Wanted),
}

#[derive(Debug)]
pub(crate) struct OneAnswer {
    answer: Answer,
}

impl OneAnswer {
    pub(crate) fn status(&self) -> Status {
        self.answer.status
    }

    /// Returns the answer as a line in the format of a batch.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        to_line(&self.answer)
    }

    /// Returns the exit code, the standard output and the standard error of the run. `None` if no run has ended.
    pub(crate) fn end(&self) -> Option<(i32, &str, &str)> {
        let end = self.answer.end.as_ref()?;
        Some((end.exit_code, &end.stdout, &end.stderr))
    }

    /// Returns the verdict on the run, or on a script that was refused. `None` for an invalid or cancelled script,
    /// and if this machine could not run the script.
    pub(crate) fn verdict(&self) -> Option<&Verdict> {
        self.answer.verification.as_deref()
    }

    /// Returns the findings that made the gateway refuse the script.
    pub(crate) fn findings(&self) -> &[DecisionFinding] {
        &self.answer.findings
    }

    /// Returns the duration of the run, or zero if no run has ended.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_millis(self.answer.duration_ms.unwrap_or_default())
    }

    /// Returns the reason why the script was not run, or why the result of its run cannot be used.
    pub(crate) fn error(&self) -> Option<&str> {
        self.answer.error.as_deref()
    }
}

pub(crate) async fn answer_one(
    verifier: &Verifier,
    single: Single,
    bounds: Bounds,
    presented: &Presented,
    cancel: CancellationToken,
) -> OneAnswer {
    let ask = match single {
        Single::Line(line) => parse(1, Some(line), bounds).await,
        Single::Wanted(wanted) => Ok(Ask::wanted(wanted, bounds)),
    };
    let answer = match ask {
        Ok(ask) => verifier.answer(ask, presented, Instant::now(), cancel).await,
        Err(invalid) => invalid.into(),
    };
    OneAnswer { answer }
}

/// Parses the line with this number. `line` is `None` if the line is too long. A long line is parsed on another
/// thread, so that the server can answer other requests meanwhile.
async fn parse(number: u64, line: Option<Vec<u8>>, bounds: Bounds) -> Result<Ask, Invalid> {
    let take = move |line: Option<Vec<u8>>| {
        Ask::take(number, line.as_deref().ok_or(LINE_BYTES_MAX), bounds)
    };
    if line.as_ref().is_none_or(|line| line.len() <= SHORT_LINE_BYTES_MAX) {
        return take(line);
    }
    let parsed = spawn_blocking(move || take(line)).await;
    parsed.unwrap_or_else(|_| {
        Err(Invalid { number, id: None, reason: "the line could not be read".to_owned() })
    })
}

impl Ask {
    fn wanted(wanted: Wanted, most: Bounds) -> Self {
        let Wanted { code, stdin, inputs, timeout, memory_mb } = wanted;
        Self {
            id: "1".to_owned(),
            code,
            tests: vec![Test::Output { stdin, stdout: None }],
            has_tests: false,
            inputs,
            bounds: Bounds {
                timeout: timeout.map_or(most.timeout, |asked| asked.min(most.timeout)),
                memory_mb: memory_mb.map_or(most.memory_mb, |asked| asked.min(most.memory_mb)),
            },
            meta: None,
            line_sha256: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::Pool;

    fn of(bytes: &[u8]) -> Chunk {
        Chunk { bytes: bytes.to_vec(), room: Held::default() }
    }

    #[test]
    fn a_line_keeps_the_room_of_its_bytes_and_no_more() {
        let pool = Pool::new(100, 100);
        let free = || (0..=100).rev().find(|it| pool.take(None, *it).is_ok()).unwrap();
        let chunk = |bytes: &[u8]| {
            let room = pool.take(None, bytes.len()).unwrap();
            Chunk { bytes: bytes.to_vec(), room }
        };
        let mut lines = Lines::default();
        assert!(lines.split(chunk(b"{123"), false).is_empty());
        assert_eq!(free(), 96);
        let mut found = lines.split(chunk(b"56}\n\n  \n{2}\n{"), false);
        // Memory is reserved for two lines of seven and three bytes, and for one byte of an unfinished line.
        assert_eq!((found.len(), free()), (2, 100 - 7 - 3 - 1));
        found.pop();
        assert_eq!(free(), 100 - 7 - 1);
        drop((found, lines));
        assert_eq!(free(), 100);
    }

    #[test]
    fn lines_are_put_together_from_chunks_of_any_length() {
        let text = b"{1}\n\n{3}\r\n  \n{5}";
        for length in 1..text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for chunk in text.chunks(length) {
                found.extend(lines.split(of(chunk), false));
            }
            found.extend(lines.split(of(b""), true));
            let found: Vec<_> =
                found.into_iter().map(|(number, line, _)| (number, line.unwrap())).collect();
            let expected = [(1, &b"{1}"[..]), (3, b"{3}\r"), (5, b"{5}")];
            assert_eq!(found, expected.map(|(number, line)| (number, line.to_vec())), "{length}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_not_held() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; LINE_BYTES_MAX / 2 + 1];
        assert!(lines.split(of(&chunk), false).is_empty());
        assert!(lines.split(of(&chunk), false).is_empty());
        assert_eq!(lines.begun.capacity(), 0);
        let found = lines.split(of(b"\n{2}\n"), false);
        let found: Vec<_> = found.into_iter().map(|(number, line, _)| (number, line)).collect();
        assert_eq!(found, [(1, None), (2, Some(b"{2}".to_vec()))]);
    }
}
