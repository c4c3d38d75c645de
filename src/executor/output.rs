//! Captures an output stream of a script, up to a limit.

use std::os::fd::AsFd;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::echo::{Echo, Stream};
use super::outcome::Captured;

/// Returns the notice at the end of a stream that was truncated to this many bytes.
fn truncation(bytes_max: usize) -> String {
    let megabytes = bytes_max.div_ceil(1024 * 1024);
    format!("\n\n[WARNING: OUTPUT TRUNCATED DUE TO {megabytes}MB SIZE CAP. PROCESS TERMINATED.]")
}

/// Returns `bytes` without trailing white space. Streams are reported in this form.
pub(crate) fn without_end_space(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    let is_space = |end: &[u8]| {
        std::str::from_utf8(end).is_ok_and(|end| !end.is_empty() && end.trim_end().is_empty())
    };
    // In UTF-8 a character has at most four bytes, so the last character is among the last four bytes.
    while let Some((before, _)) = (1..=4)
        .filter_map(|count| rest.split_at_checked(rest.len().checked_sub(count)?))
        .find(|(_, end)| is_space(end))
    {
        rest = before;
    }
    rest
}

/// The state of reading one stream. The state is not part of the future that reads, so that reading can continue after
/// the future is dropped.
#[derive(Debug)]
pub(super) struct Capture<R> {
    stream: R,
    bytes: Vec<u8>,
    bytes_max: usize,
    end: Option<ReadEnd>,
    /// The name of the stream, and the receiver of a copy of its output.
    listener: Option<(Stream, Echo)>,
}

/// The reason why reading stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// All writers have closed the stream.
    Eof,
    /// The stream exceeds the limit.
    Capped,
}

impl<R: AsyncRead + Unpin> Capture<R> {
    pub(super) fn new(stream: R, bytes_max: usize) -> Self {
        Self { stream, bytes: Vec::new(), bytes_max, end: None, listener: None }
    }

    /// Passes everything that is read from now on to `echo`, as output of the stream `name`.
    pub(super) fn pass_on_to(&mut self, name: Stream, echo: &Echo) {
        self.listener = Some((name, echo.clone()));
    }

    /// Reads until the end of the stream, or until the stream exceeds the limit. A read error counts as the end of the
    /// stream. Cancel-safe.
    pub(super) async fn read(&mut self) -> ReadEnd {
        loop {
            if let Some(end) = self.end {
                return end;
            }
            // Reads one byte more than the limit, to distinguish a stream that is exactly full from a longer stream.
            let room = (self.bytes_max + 1).saturating_sub(self.bytes.len());
            let known = self.bytes.len();
            let mut limited = (&mut self.stream).take(u64::try_from(room).unwrap_or(u64::MAX));
            match limited.read_buf(&mut self.bytes).await {
                Ok(0) | Err(_) => self.end = Some(ReadEnd::Eof),
                Ok(_) => self.keep_up_to_cap(known),
            }
        }
    }

    /// Reads until the stream exceeds the limit. Does not return at the end of the stream, because a script that has
    /// closed its stream may continue to run.
    pub(super) async fn until_capped(&mut self) {
        if self.read().await == ReadEnd::Eof {
            std::future::pending::<()>().await;
        }
    }

    /// Returns whether the stream exceeded the limit.
    pub(super) fn is_capped(&self) -> bool {
        self.end == Some(ReadEnd::Capped)
    }

    /// Returns the bytes that were read, unchanged.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn finish(self) -> Captured {
        let is_truncated = self.is_capped();
        let mut bytes = self.bytes;
        if is_truncated {
            bytes.extend_from_slice(truncation(self.bytes_max).as_bytes());
        }
        bytes.truncate(without_end_space(&bytes).len());
        match String::from_utf8(bytes) {
            Ok(text) => Captured { text, bytes: None, is_truncated },
            Err(error) => Captured {
                text: String::from_utf8_lossy(error.as_bytes()).into_owned(),
                bytes: Some(error.into_bytes()),
                is_truncated,
            },
        }
    }
}

impl<R> Capture<R> {
    /// Truncates the bytes at the limit. Passes the new bytes, which begin at index `known`, to the listener.
    fn keep_up_to_cap(&mut self, known: usize) {
        if self.bytes.len() > self.bytes_max {
            self.bytes.truncate(self.bytes_max);
            self.end = Some(ReadEnd::Capped);
        }
        if let Some((name, echo)) = &self.listener {
            echo.pass_on(*name, self.bytes.get(known..).unwrap_or_default());
        }
    }
}

impl<R: AsFd> Capture<R> {
    /// Reads the available output, without waiting for more.
    pub(super) fn read_available(&mut self) {
        let mut block = [0; 16 * 1024];
        while self.end.is_none() {
            // Reads the descriptor directly, because the async runtime may not have noticed the latest output.
            match nix::unistd::read(self.stream.as_fd(), &mut block) {
                Ok(count @ 1..) => self.push(block.get(..count).unwrap_or_default()),
                Ok(0) | Err(_) => return,
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let known = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.keep_up_to_cap(known);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    async fn capture(bytes: &[u8]) -> (Captured, ReadEnd) {
        let mut capture = Capture::new(bytes, 8);
        let end = capture.read().await;
        assert_eq!(capture.read().await, end, "reading on changes nothing");
        (capture.finish(), end)
    }

    #[tokio::test]
    async fn a_stream_is_cut_after_the_cap_and_not_at_it() {
        let cut = truncation(8);
        assert!(cut.contains("TO 1MB SIZE CAP"), "{cut}");
        for (bytes, text, end) in [
            (&b""[..], String::new(), ReadEnd::Eof),
            (b"  a\n\n", "  a".to_owned(), ReadEnd::Eof),
            (b"12345678", "12345678".to_owned(), ReadEnd::Eof),
            (b"123456789", format!("12345678{cut}"), ReadEnd::Capped),
            (b"1234567\xc3\xa9", format!("1234567\u{fffd}{cut}"), ReadEnd::Capped),
            (b"a\xff\xfeb", "a\u{fffd}\u{fffd}b".to_owned(), ReadEnd::Eof),
        ] {
            let (captured, reached) = capture(bytes).await;
            assert_eq!((captured.text, reached), (text, end), "{bytes:?}");
            assert_eq!(captured.is_truncated, end == ReadEnd::Capped);
        }
    }

    #[tokio::test]
    async fn the_bytes_of_a_stream_are_known_where_its_text_was_repaired() {
        let cut = truncation(8);
        for (bytes, content) in [
            (&b"a\n"[..], b"a".to_vec()),
            (b"a\xff \n", b"a\xff".to_vec()),
            ("\u{fffd}".as_bytes(), "\u{fffd}".as_bytes().to_vec()),
            (
                b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe.",
                [&[0xff, 0xfe].repeat(4), cut.as_bytes()].concat(),
            ),
        ] {
            let (captured, _) = capture(bytes).await;
            assert_eq!(captured.content(), content, "{bytes:?}");
            assert_eq!(captured.text, String::from_utf8_lossy(&content));
        }
    }

    #[test]
    fn white_space_at_the_end_is_that_of_unicode() {
        for (stream, expected) in [
            (&b""[..], &b""[..]),
            (b" \r\n\t", b""),
            (b" a \n b \x0b\x0c", b" a \n b"),
            ("a\u{a0}\u{2003}\u{3000} ".as_bytes(), b"a"),
            (b"\xff\xc2\xa0", b"\xff"),
            // An incomplete UTF-8 sequence is not white space.
            (b"a\xa0", b"a\xa0"),
            (b"a\x80\x83", b"a\x80\x83"),
        ] {
            assert_eq!(without_end_space(stream), expected, "{stream:?}");
            let lossy = String::from_utf8_lossy(stream);
            assert_eq!(String::from_utf8_lossy(expected), lossy.trim_end(), "{stream:?}");
        }
    }

    #[tokio::test]
    async fn what_is_read_is_passed_on_as_far_as_the_cap() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&heard);
        let echo = Echo::to(move |stream, bytes| {
            assert_eq!(stream, Stream::Stderr);
            listener.lock().unwrap().extend_from_slice(bytes);
        });
        let mut capture = Capture::new(&b"12345"[..], 8);
        capture.pass_on_to(Stream::Stderr, &echo);
        assert!(!echo.has_begun());
        capture.read().await;
        assert_eq!(*heard.lock().unwrap(), b"12345");
        assert!(echo.has_begun());
        let mut capture = Capture::new(&b"123456789"[..], 8);
        capture.pass_on_to(Stream::Stderr, &echo);
        capture.read().await;
        assert_eq!(*heard.lock().unwrap(), b"1234512345678");
        assert!(capture.is_capped());
    }
}
