//! Splits a stream into lines of limited length. This module never parses a line.

use memchr::memchr;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// The maximum length of a line, in bytes. A line contains at most one script. A script is at most 1 MiB long, and JSON
/// escapes can make it a few MiB long.
pub(super) const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The maximum capacity in bytes of a line buffer that is reused for the next line. A larger buffer is freed.
const LINE_BYTES_KEPT: usize = 64 * 1024;

const READ_BUFFER_BYTES: usize = 64 * 1024;

/// The result of reading the next line.
#[derive(Debug)]
pub(super) enum Line {
    /// A line, without its line feed.
    Complete(Vec<u8>),
    /// A line that is too long. The reader returns `TooLong` before the end of the line. It then skips the remaining
    /// bytes of the line without storing them.
    TooLong,
    /// The end of the stream. No more lines follow.
    End,
}

/// A reader that splits a stream into lines.
pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    is_skipping: bool,
    has_ended: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader: BufReader::with_capacity(READ_BUFFER_BYTES, reader),
            line: Vec::new(),
            is_skipping: false,
            has_ended: false,
        }
    }

    /// Reads the next line. Cancel-safe: if only a part of a line was read, the part stays in `self`.
    pub(super) async fn next(&mut self) -> Line {
        while !self.has_ended {
            let available = match self.reader.fill_buf().await {
                Ok(available) => available,
                // Treat an error as the end of the stream.
                Err(error) => {
                    tracing::warn!(%error, "standard input cannot be read");
                    &[]
                }
            };
            let newline = memchr(b'\n', available);
            let part = available.get(..newline.unwrap_or(available.len())).unwrap_or_default();
            let taken = newline.map_or(available.len(), |newline| newline + 1);
            if available.is_empty() {
                self.has_ended = true;
                // The last line may have no line feed.
                if !self.line.is_empty() {
                    return Line::Complete(std::mem::take(&mut self.line));
                }
                break;
            }
            let is_too_long = !self.is_skipping && self.line.len() + part.len() > LINE_BYTES_MAX;
            if !self.is_skipping && !is_too_long {
                self.line.extend_from_slice(part);
            }
            self.reader.consume(taken);
            if is_too_long {
                self.line = Vec::new();
                self.is_skipping = newline.is_none();
                return Line::TooLong;
            }
            if newline.is_some() && !std::mem::take(&mut self.is_skipping) {
                return Line::Complete(std::mem::take(&mut self.line));
            }
        }
        Line::End
    }

    /// Reuses the buffer of a handled line for the next line.
    pub(super) fn recycle(&mut self, mut line: Vec<u8>) {
        if self.line.is_empty() && line.capacity() <= LINE_BYTES_KEPT {
            line.clear();
            self.line = line;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8]) -> Vec<String> {
        let mut reader = LineReader::new(input);
        let mut lines = Vec::new();
        loop {
            match reader.next().await {
                Line::Complete(line) => lines.push(format!("{} bytes", line.len())),
                Line::TooLong => lines.push("too long".to_owned()),
                Line::End => return lines,
            }
        }
    }

    #[tokio::test]
    async fn lines_are_split_and_a_long_one_is_skipped() {
        let long = vec![b'x'; LINE_BYTES_MAX];
        for (input, expected) in [
            (b"".to_vec(), vec![]),
            (b"ab\n\ncd".to_vec(), vec!["2 bytes", "0 bytes", "2 bytes"]),
            ([&long[..], b"\na\n"].concat(), vec!["4194304 bytes", "1 bytes"]),
            ([&long[..], b"x\na\n"].concat(), vec!["too long", "1 bytes"]),
            ([&long[..], &long[..], &long[..], b"\na\n"].concat(), vec!["too long", "1 bytes"]),
            ([&long[..], b"x"].concat(), vec!["too long"]),
        ] {
            assert_eq!(lines(&input).await, expected, "{} bytes", input.len());
        }
    }

    /// A terminal. After the end of its input, the user can type more.
    struct Terminal(u8);

    impl AsyncRead for Terminal {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buffer: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            self.0 += 1;
            buffer.put_slice(if self.0 == 2 { b"" } else { b"typed\n" });
            std::task::Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn nothing_is_read_after_the_end() {
        let mut reader = LineReader::new(Terminal(0));
        assert!(matches!(reader.next().await, Line::Complete(line) if line == b"typed"));
        assert!(matches!(reader.next().await, Line::End));
        assert!(matches!(reader.next().await, Line::End));
    }

    #[tokio::test]
    async fn a_buffer_is_used_again_and_its_content_is_not() {
        let mut reader = LineReader::new(&b"ab\ncd"[..]);
        let Line::Complete(first) = reader.next().await else { panic!("a line") };
        reader.recycle(first);
        assert!(reader.line.is_empty() && reader.line.capacity() > 0);
        reader.recycle(Vec::with_capacity(LINE_BYTES_KEPT + 1));
        assert!(reader.line.capacity() <= LINE_BYTES_KEPT, "a large one is not kept");
        assert!(matches!(reader.next().await, Line::Complete(line) if line == b"cd"));
        // A recycled buffer does not replace a line that is only partly read.
        reader.line = b"begun".to_vec();
        reader.recycle(Vec::new());
        assert_eq!(reader.line, b"begun");
    }
}
