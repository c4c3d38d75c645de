//! Remembers the answered lines of a batch, in a compact form because their number has no limit. This module never
//! writes answers.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::Status;
use super::ask::Ask;
use super::input::{LINE_BYTES_MAX, read_line};

/// The maximum length of an answer in a results file, in bytes. An answer contains the `meta` of its line, which may be
/// as long as the line. It also contains two output streams of at most 1 MiB each. Escapes in JSON can make a stream
/// six times as long.
const ANSWER_BYTES_MAX: usize = LINE_BYTES_MAX + 32 * 1024 * 1024;

/// The bytes with which every answer begins.
const BEGINNING: &[u8] = br#"{"id":"#;

/// A set of ids. By default, the ids of lines are consecutive numbers. A sequence of consecutive numbers takes only as
/// much memory as one number. Any other id is stored as the first 16 bytes of its hash. These bytes take 40 bytes of
/// memory in the hash set.
#[derive(Debug, Default)]
pub(super) struct Ids {
    numbers: Numbers,
    hashes: HashSet<[u8; 16]>,
    /// The limit on the number of hashes and sequences together. If the set exceeds the limit, no further id is added.
    /// `None` means no limit.
    at_most: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAdded {
    /// The id is already in the set.
    Known,
    /// The set is full. The value is the limit.
    Full(usize),
}

/// A set of numbers, as sequences of consecutive numbers. Maps the first number of each sequence to the last number
/// plus one.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<u64, u64>);

/// The answers that an earlier run has written.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    ids: Ids,
    /// One hash for each answer to a valid line, computed from the id and the digest in the answer. Current versions
    /// write the digest of the whole line. Older versions wrote the digest of the script, or no digest. Without a
    /// digest, only the id is hashed.
    scripts: HashSet<[u8; 16]>,
    /// The numbers of the lines that were answered as invalid.
    invalid: Numbers,
    pub(crate) count: u64,
}

/// The result of comparing a line with the answers of an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Earlier {
    /// The earlier run has not answered the line.
    Unanswered,
    /// The earlier run has answered this line. An answer without a digest is compared by its id only.
    Answered,
    /// The earlier run has answered a different line with the same id or number.
    OtherAnswered,
}

/// The reason why a file of results cannot be resumed.
#[derive(Debug, Error)]
pub(crate) enum ResultsError {
    /// The line with this number is not a result of a batch.
    #[error("line {0} is not a result of a batch")]
    Foreign(u64),
    #[error(transparent)]
    Read(#[from] io::Error),
}

#[derive(Deserialize)]
struct Written {
    id: Option<String>,
    status: String,
    line: Option<u64>,
    code_sha256: Option<String>,
    line_sha256: Option<String>,
}

/// The digest by which an answer is matched with a line of the input.
#[derive(Debug, Clone, Copy)]
enum Compared<'a> {
    Line(&'a str),
    Code(&'a str),
    Nothing,
}

impl Ids {
    /// Creates a set with a limit on its hashes and sequences. A sequence of consecutive numbers counts as one id.
    pub(super) fn at_most(count: usize) -> Self {
        Self { at_most: Some(count), ..Self::default() }
    }

    /// Adds an id. Fails if the id is in the set, or if the set is full.
    pub(super) fn add(&mut self, id: &str) -> Result<(), NotAdded> {
        let held = self.hashes.len() + self.numbers.0.len();
        if let Some(most) = self.at_most.filter(|most| held > *most) {
            return Err(if self.contains(id) { NotAdded::Known } else { NotAdded::Full(most) });
        }
        if self.insert(id) { Ok(()) } else { Err(NotAdded::Known) }
    }

    /// Adds an id, without a limit. Returns `false` if the id was already in the set.
    fn insert(&mut self, id: &str) -> bool {
        match as_number(id) {
            Some(number) => self.numbers.insert(number),
            None => self.hashes.insert(hash(id)),
        }
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        match as_number(id) {
            Some(number) => self.numbers.contains(number),
            None => self.hashes.contains(&hash(id)),
        }
    }
}

impl Numbers {
    fn contains(&self, number: u64) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, behind)| number < *behind)
    }

    fn insert(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        let behind = self.0.remove(&(number + 1)).unwrap_or(number + 1);
        match self.0.range_mut(..number).next_back() {
            Some((_, before)) if *before == number => *before = behind,
            Some(_) | None => {
                self.0.insert(number, behind);
            }
        }
        true
    }
}

impl Answered {
    /// Reads the answers of an earlier run. Returns the answers, and the total length of their lines in bytes. If the
    /// file is longer than this length, it ends with an unfinished line.
    pub(crate) fn read(results: &File) -> Result<(Self, u64), ResultsError> {
        let mut source = BufReader::new(results);
        let (mut answered, mut bytes, mut line) = (Self::default(), 0, Vec::new());
        for number in 1.. {
            line.clear();
            let length = read_line(&mut source, &mut line, ANSWER_BYTES_MAX)?;
            let is_whole = u64::try_from(line.len()).is_ok_and(|text| text < length);
            if !is_whole {
                // The file may end with an answer that the earlier run did not finish writing. Refuse a file that
                // ends with other content.
                if !is_torn(&line, number) {
                    return Err(ResultsError::Foreign(number));
                }
                break;
            }
            let result: Written =
                serde_json::from_slice(&line).map_err(|_| ResultsError::Foreign(number))?;
            answered.add(&result, number)?;
            bytes += length;
        }
        Ok((answered, bytes))
    }

    fn add(&mut self, result: &Written, number: u64) -> Result<(), ResultsError> {
        let is_status = Status::ALL.iter().any(|status| status.as_str() == result.status);
        match (result.line, &result.id) {
            _ if !is_status => return Err(ResultsError::Foreign(number)),
            (Some(line), _) if line < u64::MAX => self.invalid.insert(line),
            (_, Some(id)) => {
                self.scripts.insert(hash_of_script(id, result.compared()));
                self.ids.insert(id)
            }
            (_, None) => return Err(ResultsError::Foreign(number)),
        };
        self.count += 1;
        Ok(())
    }

    /// Compares the invalid line `number` with the answers of the earlier run. `id` is the line's id. If a preceding
    /// line of the input has the same id, `id` must be `None`, because an answer with this id then belongs to the
    /// preceding line.
    pub(super) fn to_invalid(&self, number: u64, id: Option<&str>) -> Earlier {
        if self.invalid.contains(number) {
            Earlier::Answered
        } else if id.is_some_and(|id| self.ids.contains(id)) {
            // The earlier run has run a script with this id, so the line was valid before.
            Earlier::OtherAnswered
        } else {
            Earlier::Unanswered
        }
    }

    /// Compares the valid line `number` with the answers of the earlier run. `ask` is the script in the line.
    pub(super) fn to_script(&self, number: u64, ask: &Ask) -> Earlier {
        // The line was invalid in the earlier run, so it has changed.
        if self.invalid.contains(number) {
            return Earlier::OtherAnswered;
        }
        if !self.ids.contains(&ask.id) {
            return Earlier::Unanswered;
        }
        let code = hex::encode(Sha256::digest(&ask.code));
        let line = ask.line_sha256.as_deref().map_or(Compared::Nothing, Compared::Line);
        let is_same = |digest| self.scripts.contains(&hash_of_script(&ask.id, digest));
        if [line, Compared::Code(&code), Compared::Nothing].into_iter().any(is_same) {
            Earlier::Answered
        } else {
            Earlier::OtherAnswered
        }
    }
}

/// Returns whether a line without a line feed, at the end of a file, is an answer that was not completely written.
/// After a power failure, some file systems leave zeros instead of the last bytes. Returns `false` for a file that
/// contains only zeros.
fn is_torn(line: &[u8], number: u64) -> bool {
    let length = line.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let has_zeros = length < line.len();
    let text = line.get(..length).unwrap_or_default();
    let is_answer = BEGINNING.starts_with(text) || text.starts_with(BEGINNING);
    is_answer && (!has_zeros || !text.is_empty() || number > 1)
}

/// Parses an id as a number. `None` if the id is not the shortest form of a number, or if the number is too large.
fn as_number(id: &str) -> Option<u64> {
    let is_canonical = id == "0" || !id.starts_with(['0', '+']);
    id.parse().ok().filter(|number| is_canonical && *number < u64::MAX)
}

impl Written {
    /// Returns the digest of the line, if the answer contains it, or else the digest of the script. Returns `Nothing`
    /// if the answer contains no digest.
    fn compared(&self) -> Compared<'_> {
        match (&self.line_sha256, &self.code_sha256) {
            (Some(line), _) => Compared::Line(line),
            (None, Some(code)) => Compared::Code(code),
            (None, None) => Compared::Nothing,
        }
    }
}

fn hash_of_script(id: &str, compared: Compared<'_>) -> [u8; 16] {
    // A digest contains no line feed, so different ids or digests never give the same text to hash.
    hash(&match compared {
        Compared::Line(digest) => format!("line\n{digest}\n{id}"),
        Compared::Code(digest) => format!("code\n{digest}\n{id}"),
        Compared::Nothing => format!("\n{id}"),
    })
}

fn hash(text: &str) -> [u8; 16] {
    let digest: [u8; 32] = Sha256::digest(text).into();
    let (halves, _) = digest.as_chunks::<16>();
    halves.first().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use super::super::Bounds;
    use super::*;

    /// Returns the script of a line with the number 7.
    fn ask(line: &str) -> Ask {
        let bounds = Bounds { timeout: Duration::from_secs(30), memory_mb: 1024 };
        Ask::parse(7, line.as_bytes(), bounds).unwrap()
    }

    #[test]
    fn ids_are_remembered_exactly() {
        let mut ids = Ids::default();
        for id in
            ["1", "2", "01", "+1", "-1", "4", "3", "a", "", "1.0", "0", "18446744073709551615"]
        {
            assert!(!ids.contains(id), "{id}");
            assert!(ids.insert(id), "{id}");
            assert!(ids.contains(id) && !ids.insert(id), "{id}");
        }
        assert!(!ids.contains("5"));
        // All numbers are in one sequence, although they were not added in order.
        assert_eq!(ids.numbers.0, BTreeMap::from([(0, 5)]));
    }

    #[test]
    fn an_answer_is_one_to_its_own_script() {
        let digest = hex::encode(Sha256::digest("print(1)"));
        let mut file = tempfile::tempfile().unwrap();
        let line = ask(r#"{"id":"c","code":"1","expect":{"stdout":"1"}}"#).line_sha256.unwrap();
        writeln!(file, r#"{{"id":"a","status":"ok","code_sha256":"{digest}"}}"#).unwrap();
        writeln!(file, r#"{{"id":"7","status":"invalid","line":7}}"#).unwrap();
        let code = hex::encode(Sha256::digest("1"));
        let both = format!(r#""code_sha256":"{code}","line_sha256":"{line}""#);
        writeln!(file, r#"{{"id":"c","status":"ok",{both}}}"#).unwrap();
        io::Seek::rewind(&mut file).unwrap();
        let (answered, _) = Answered::read(&file).unwrap();
        for (number, line, expected) in [
            (1, r#"{"id":"a","code":"print(1)"}"#, Earlier::Answered),
            // An older version wrote the answer to `a`, with only the digest of the script. So a changed `stdin` is
            // not detected.
            (1, r#"{"id":"a","code":"print(1)","stdin":"x"}"#, Earlier::Answered),
            (1, r#"{"id":"a","code":"print(2)"}"#, Earlier::OtherAnswered),
            (2, r#"{"id":"b","code":"print(1)"}"#, Earlier::Unanswered),
            (3, r#"{"id":"c","code":"1","expect":{"stdout":"1"}}"#, Earlier::Answered),
            (3, r#"{"id":"c","code":"1","expect":{"stdout":"2"}}"#, Earlier::OtherAnswered),
            (3, r#"{"id":"c","code":"1"}"#, Earlier::OtherAnswered),
            // Line 7 was invalid in the earlier run, and is corrected now.
            (7, r#"{"code":"print(1)"}"#, Earlier::OtherAnswered),
        ] {
            assert_eq!(answered.to_script(number, &ask(line)), expected, "{number} {line}");
        }
        for (number, id, expected) in [
            (7, Some("7"), Earlier::Answered),
            (1, Some("a"), Earlier::OtherAnswered),
            // The id is `None`, because an earlier line has the same id.
            (2, None, Earlier::Unanswered),
            (2, Some("b"), Earlier::Unanswered),
        ] {
            assert_eq!(answered.to_invalid(number, id), expected, "{number} {id:?}");
        }
    }

    #[test]
    fn ids_are_bounded_where_that_is_wanted() {
        let mut ids = Ids::at_most(3);
        // The sequence of consecutive numbers counts as one id.
        for id in (0..1000).map(|number| number.to_string()) {
            assert_eq!(ids.add(&id), Ok(()));
        }
        assert_eq!(ids.add("7"), Err(NotAdded::Known));
        for id in ["a", "b", "c"] {
            assert_eq!(ids.add(id), Ok(()));
        }
        assert_eq!(ids.add("d"), Err(NotAdded::Full(3)));
        assert_eq!(ids.add("a"), Err(NotAdded::Known));
        assert_eq!(ids.hashes.len(), 3);
    }

    #[test]
    fn the_line_that_was_being_written_is_none() {
        let read = |text: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text).unwrap();
            io::Seek::rewind(&mut file).unwrap();
            Answered::read(&file)
        };
        let whole = br#"{"id":"a","status":"ok","stdout":"x"}
{"id":"7","status":"invalid","line":7}
"#;
        for torn in [
            &b""[..],
            b"{\"i",
            b"{\"id\":\"b\",\"sta",
            b"{\"id\":\"b\",\"status\":\"ok\"}",
            &[0; 4096],
            b"{\"id\":\"b\",\"sta\0\0\0",
        ] {
            let (answered, bytes) = read(&[whole, torn].concat()).unwrap();
            assert_eq!((answered.count, bytes), (2, u64::try_from(whole.len()).unwrap()));
            let earlier = |number, id: &str| {
                answered.to_script(number, &ask(&format!(r#"{{"id":"{id}","code":"x"}}"#)))
            };
            assert_eq!(earlier(1, "a"), Earlier::Answered);
            assert_eq!(earlier(2, "b"), Earlier::Unanswered);
            // The answer to an invalid line is found by the number of the line, not by its id.
            assert_eq!(answered.to_invalid(7, Some("7")), Earlier::Answered);
            assert_eq!(earlier(8, "7"), Earlier::Unanswered);
        }
        // A file that contains anything except answers is refused, even if its last line has no line feed.
        for foreign in [
            "x",
            "{}",
            "\0\0",
            "\0{\"id\":",
            "x\0",
            "x\n",
            "{}\n",
            "{\"id\":null,\"status\":\"ok\"}\n",
            "\n",
            "{\"id\":\"a\",\"status\":\"fine\"}\n",
            "[]\n{\"id\"\n",
        ] {
            let error = read(foreign.as_bytes()).unwrap_err();
            assert!(matches!(error, ResultsError::Foreign(1)), "{foreign:?}");
        }
        assert_eq!(read(b"").unwrap().1, 0);
    }
}
