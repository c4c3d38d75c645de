//! Reads the lines of a batch's input on a separate thread. Limits the length of a line and the number of waiting
//! lines. This module never parses a line.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use super::Shard;

/// The maximum length of a line, in bytes. A script's input files of 64 MiB in total, encoded as base64, fit in a line.
pub(crate) const LINE_BYTES_MAX: usize = 96 * 1024 * 1024;

/// The maximum number of lines that wait for a worker.
const LINES_AHEAD: usize = 4;

/// A line of the input that is not parsed yet.
#[derive(Debug)]
pub(super) struct RawLine {
    /// The number of the line in the input, counted from 1.
    pub(super) number: u64,
    /// The content of the line. `None` if the line is too long.
    pub(super) bytes: Option<Vec<u8>>,
}

/// The lines of a batch's input. Another thread reads the input and queues the lines.
#[derive(Debug)]
pub(crate) struct Input {
    lines: mpsc::Receiver<RawLine>,
    ended: oneshot::Receiver<io::Result<()>>,
    read: Arc<AtomicU64>,
}

/// The result of reading the input: `Ok` at the end of the input, or an error.
pub(crate) type InputEnd = io::Result<()>;

impl Input {
    /// Starts a thread that reads the lines of `source`, and queues the lines that belong to `shard`. The thread adds
    /// the length of each line to `read`.
    pub(crate) fn open(
        source: Box<dyn Read + Send>,
        shard: Shard,
        read: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(LINES_AHEAD);
        let (end, ended) = oneshot::channel();
        let counted = Arc::clone(&read);
        thread::Builder::new().name("input".to_owned()).spawn(move || {
            // Sending fails only if the receiver was dropped, which means that the result is not needed.
            let _ = end.send(read_lines(BufReader::new(source), shard, &sender, &counted));
        })?;
        Ok(Self { lines, ended, read })
    }

    /// Returns the next line. `None` at the end of the input. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<RawLine> {
        self.lines.recv().await
    }

    /// Returns the result of reading the input. Call this function after `next` has returned `None`.
    pub(super) async fn end(self) -> InputEnd {
        self.ended
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the reader stopped unexpectedly")))
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

fn read_lines(
    mut source: impl BufRead,
    shard: Shard,
    lines: &mpsc::Sender<RawLine>,
    read: &AtomicU64,
) -> io::Result<()> {
    let mut number = 0;
    loop {
        let mut bytes = Vec::new();
        let length = read_line(&mut source, &mut bytes, LINE_BYTES_MAX)?;
        if length == 0 {
            return Ok(());
        }
        number += 1;
        read.fetch_add(length, Ordering::Relaxed);
        let bytes = (bytes.len() <= LINE_BYTES_MAX).then_some(bytes);
        let is_blank = bytes.as_ref().is_some_and(|bytes| bytes.trim_ascii().is_empty());
        if is_blank || !shard.has(number) {
            continue;
        }
        if lines.blocking_send(RawLine { number, bytes }).is_err() {
            return Ok(());
        }
    }
}

/// Reads a line into `line`, without its line feed. If the line is longer than `bytes_max`, stores its first
/// `bytes_max` + 1 bytes, and skips the other bytes. Returns the length of the whole line including its line feed.
/// Returns 0 at the end of the input.
pub(super) fn read_line(
    source: &mut impl BufRead,
    line: &mut Vec<u8>,
    bytes_max: usize,
) -> io::Result<u64> {
    let mut length = 0_u64;
    loop {
        let part = match source.fill_buf() {
            Ok(part) => part,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = part.iter().position(|byte| *byte == b'\n');
        let (text, used) = match end {
            Some(end) => (part.get(..end).unwrap_or_default(), end + 1),
            None => (part, part.len()),
        };
        let room = (bytes_max + 1).saturating_sub(line.len()).min(text.len());
        line.extend_from_slice(text.get(..room).unwrap_or_default());
        source.consume(used);
        length += u64::try_from(used).unwrap_or(u64::MAX);
        if end.is_some() || used == 0 {
            return Ok(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], bytes_max: usize) -> Vec<(u64, Vec<u8>)> {
        let mut source = BufReader::with_capacity(3, text);
        let mut found = Vec::new();
        loop {
            let mut line = Vec::new();
            match read_line(&mut source, &mut line, bytes_max).unwrap() {
                0 => return found,
                length => found.push((length, line)),
            }
        }
    }

    #[test]
    fn lines_are_read_within_their_bound() {
        let found = lines(b"ab\n\nabcdefgh\nx", 4);
        let expected = [(3, &b"ab"[..]), (1, b""), (9, b"abcde"), (1, b"x")];
        assert_eq!(found, expected.map(|(length, line)| (length, line.to_vec())));
        assert_eq!(lines(b"", 4), []);
    }

    #[tokio::test]
    async fn blank_lines_and_other_shards_are_counted_and_left_out() {
        let text = b"{1}\n\n{3}\n{4}\n  \n{6}";
        let read = Arc::<AtomicU64>::default();
        let shard = "1/2".parse().unwrap();
        let mut input = Input::open(Box::new(&text[..]), shard, read).unwrap();
        let mut numbers = Vec::new();
        while let Some(line) = input.next().await {
            numbers.push((line.number, line.bytes.unwrap()));
        }
        assert_eq!(numbers, [(4, b"{4}".to_vec()), (6, b"{6}".to_vec())]);
        assert_eq!(input.bytes_read(), 19);
        input.end().await.unwrap();
    }
}
