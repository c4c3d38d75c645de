//! The counts of a script's checks, as `python/checks.py` sends them.
//!
//! A script can forge its counts, as it can forge its checks. A forged count never changes the result of the static
//! analysis.

use serde::{Deserialize, Serialize};

use super::frames::{HEAD_BYTES, frames};

/// The letter of the frame with the counts.
pub(super) const KIND: u8 = b'C';

/// The size of the three counts of a check, in bytes.
const CHECK_BYTES: usize = 24;

/// The maximum number of bytes of the frame with the counts. The analysis finds at most 1,000 checks.
pub(super) const FRAMES_BYTES_MAX: usize = HEAD_BYTES + 1_000 * CHECK_BYTES;

/// The maximum of a count. All integers up to this one have an exact representation in JSON.
const COUNT_MAX: u64 = (1 << 53) - 1;

/// The counts of each check of a script, in the order of [`Analysis::checks`](crate::safety::Analysis::checks).
/// [`CheckKind`](crate::safety::CheckKind) defines the meaning of the first two counts. The third one counts the elements that a check is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckCounts(Vec<[u64; 3]>);

impl CheckCounts {
    /// Returns the counts, if exactly one frame has counts. A script that sends a frame of its own makes the counts
    /// unusable, because the server cannot distinguish the frames.
    pub(super) fn from_frames(bytes: &[u8]) -> Option<Self> {
        let mut found = frames(bytes).filter(|(kind, _)| *kind == KIND);
        let (_, content) = found.next().filter(|_| found.next().is_none())?;
        let (counts, rest) = content.as_chunks::<8>();
        let (triples, odd) = counts.as_chunks::<3>();
        let is_whole = rest.is_empty() && odd.is_empty();
        let count = |bytes: [u8; 8]| u64::from_le_bytes(bytes).min(COUNT_MAX);
        is_whole.then(|| Self(triples.iter().map(|three| three.map(count)).collect()))
    }

    #[cfg(test)]
    pub(crate) fn for_test(counts: &[[u64; 3]]) -> Self {
        Self(counts.to_vec())
    }

    /// Returns the counts, if there are `checks` of them.
    pub(crate) fn of(&self, checks: usize) -> Option<&[[u64; 3]]> {
        (self.0.len() == checks).then_some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        [&[kind][..], &length, content].concat()
    }

    fn counts(counts: &[u64]) -> Vec<u8> {
        counts.iter().flat_map(|count| count.to_le_bytes()).collect()
    }

    #[test]
    fn counts_are_read_beside_pictures() {
        let sent = [frame(b'L', b"any"), frame(KIND, &counts(&[3, 0, 0, u64::MAX, 1, 7]))].concat();
        let read = CheckCounts::from_frames(&sent).unwrap();
        assert_eq!(read.of(2).unwrap(), [[3, 0, 0], [COUNT_MAX, 1, 7]]);
        assert_eq!(read.of(3), None);
    }

    #[test]
    fn forged_or_broken_counts_are_not_used() {
        let one = frame(KIND, &counts(&[1, 0, 0]));
        assert!(CheckCounts::from_frames(&one).is_some());
        let twice = [&one[..], &one].concat();
        let wrong = [&b""[..], &twice, &frame(KIND, &counts(&[1])), &frame(KIND, b"seven b")];
        for sent in wrong.into_iter().chain([&one[..one.len() - 1]]) {
            assert_eq!(CheckCounts::from_frames(sent), None, "{sent:?}");
        }
    }
}
