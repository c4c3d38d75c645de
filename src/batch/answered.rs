//! The lines that have been answered, kept small: whatever its length, a batch has to know them all.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::Status;
use super::input::read_line;

/// The longest line of answers that is read again. An answer has two streams of 1 MiB at most, of which JSON
/// makes six times as much at worst, and the `meta` of a line.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What every answer begins with.
const BEGINNING: &[u8] = br#"{"id":"#;

/// A set of ids. Those that are numbers, as all are that lines have by default, take no room while they
/// follow each other; of others 16 bytes of their hash are kept, 40 bytes with the room of the set.
#[derive(Debug, Default)]
pub(super) struct Ids {
    numbers: Numbers,
    hashes: HashSet<[u8; 16]>,
}

/// A set of numbers: the first of each sequence, and the one behind it.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<u64, u64>);

/// The answers of an earlier run.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    ids: Ids,
    /// The numbers of lines that were not understood.
    invalid: Numbers,
    /// The number of answers.
    pub(crate) count: u64,
}

/// Results that cannot be gone on with.
#[derive(Debug, Error)]
pub(crate) enum ResultsError {
    /// Something else than results.
    #[error("line {0} is no result of a batch")]
    Foreign(u64),
    #[error(transparent)]
    Read(#[from] io::Error),
}

#[derive(Deserialize)]
struct Written {
    id: Option<String>,
    status: String,
    line: Option<u64>,
}

impl Ids {
    /// Adds an id. Returns `false` if it was there.
    pub(super) fn insert(&mut self, id: &str) -> bool {
        match as_number(id) {
            Some(number) => self.numbers.insert(number),
            None => self.hashes.insert(hash(id)),
        }
    }

    /// Returns whether an id is there.
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
    /// Reads the answers of an earlier run, and returns them and the bytes that they take: what is behind is a
    /// line that was not finished.
    pub(crate) fn read(results: &File) -> Result<(Self, u64), ResultsError> {
        let mut source = BufReader::new(results);
        let (mut answered, mut bytes, mut line) = (Self::default(), 0, Vec::new());
        for number in 1.. {
            line.clear();
            let length = read_line(&mut source, &mut line, ANSWER_BYTES_MAX)?;
            let is_whole = u64::try_from(line.len()).is_ok_and(|text| text < length);
            if !is_whole {
                // The end, or the line that was being written; what is neither is somebody's.
                if !BEGINNING.starts_with(&line) && !line.starts_with(BEGINNING) {
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
            (_, Some(id)) => self.ids.insert(id),
            (_, None) => return Err(ResultsError::Foreign(number)),
        };
        self.count += 1;
        Ok(())
    }

    /// Returns whether the line of this number was answered, as one that is not understood.
    pub(super) fn has_line(&self, number: u64) -> bool {
        self.invalid.contains(number)
    }

    /// Returns whether the line of this id was answered.
    pub(super) fn has_id(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}

/// Returns the number that is written exactly so.
fn as_number(id: &str) -> Option<u64> {
    let is_canonical = id == "0" || !id.starts_with(['0', '+']);
    id.parse().ok().filter(|number| is_canonical && *number < u64::MAX)
}

fn hash(id: &str) -> [u8; 16] {
    let digest: [u8; 32] = Sha256::digest(id).into();
    let (halves, _) = digest.as_chunks::<16>();
    halves.first().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

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
        // One sequence, in whatever order.
        assert_eq!(ids.numbers.0, BTreeMap::from([(0, 5)]));
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
        for torn in [&b""[..], b"{\"i", b"{\"id\":\"b\",\"sta", b"{\"id\":\"b\",\"status\":\"ok\"}"]
        {
            let (answered, bytes) = read(&[whole, torn].concat()).unwrap();
            assert_eq!((answered.count, bytes), (2, u64::try_from(whole.len()).unwrap()));
            assert!(answered.has_id("a") && !answered.has_id("b"));
            // An invalid line answers for its number, not for an id.
            assert!(answered.has_line(7) && !answered.has_id("7"));
        }
        // A note of somebody, without the end of a line, is not a torn answer.
        for foreign in [
            "x",
            "{}",
            "\0\0",
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
