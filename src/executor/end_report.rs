//! Reads the report that a script's process sends when the script ends (`python/bootstrap.py`).
//!
//! The process writes the report to the side channel (`side_channel`), a pipe to which the script can also write. A
//! script can forge the report, so the report never makes a result better.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::frames::letter::{END, MEMBERS, OBSERVED, RETURNED, VALUE};
use super::frames::{HEAD_BYTES, only_frame};
use super::members::{self, Members};
use super::returned::{self, Returned};

/// The maximum size, in bytes, of the text in which a run reports its observations ([`Observed`]).
const OBSERVED_BYTES_MAX: usize = 1 << 16;

/// The maximum number of package names in [`Observed::native`].
const NATIVE_MAX: usize = 500;

/// The maximum number of bytes of a value, as `python/values.py` encodes it.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// The maximum total size, in bytes, of the frames that this module reads.
pub(super) const FRAMES_BYTES_MAX: usize = 5 * HEAD_BYTES
    + VALUE_BYTES_MAX
    + returned::ENCODED_BYTES_MAX
    + OBSERVED_BYTES_MAX
    + members::BYTES_MAX;

/// The report that a script's process sends when the script ends.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndReport {
    /// Whether the script ran to its last statement. `false` if it ended in another way: `sys.exit`, an exception, a
    /// signal, a timeout.
    pub(crate) reached_end: bool,
    /// The value of a batch test's expression, encoded by `python/values.py`. The module `batch` decodes the value.
    /// `None` unless the run has sent exactly one value.
    pub(crate) value: Option<Vec<u8>>,
    /// The value that the script has assigned to `result`. `None` unless the run has sent exactly one value.
    pub(crate) returned: Option<Returned>,
    /// The observations of a deterministic run. `None` unless the run has sent exactly one frame with observations.
    pub(crate) observed: Option<Observed>,
    /// The members of an object of a QWED package, if the script has used the object wrongly. `None` unless the run has
    /// sent exactly one list.
    pub(crate) members: Option<Members>,
}

/// The observations that the process of a deterministic run reports about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Observed {
    /// The number of threads and processes that the script has started. `None` if the library that replaces clocks and
    /// random bits was not loaded.
    pub(crate) started: Option<u64>,
    /// The names of the installed packages with native code that the script has loaded.
    pub(crate) native: BTreeSet<String>,
}

impl Observed {
    /// Parses the text from the function `observed` in `python/determinism.py`.
    fn parse(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok().filter(|text| text.len() <= OBSERVED_BYTES_MAX)?;
        let mut words = text.split(' ');
        let started = match words.next()? {
            "-" => None,
            number => Some(number.parse().ok()?),
        };
        let native: BTreeSet<String> = words.map(str::to_owned).collect();
        (native.len() <= NATIVE_MAX).then_some(Self { started, native })
    }
}

/// Returns whether this module decodes the frames with the letter `kind`.
pub(super) fn is_own(kind: u8) -> bool {
    matches!(kind, END | VALUE | RETURNED | OBSERVED | MEMBERS)
}

impl EndReport {
    /// Reads the report from the frames that a run has sent. If two frames have the same letter, ignores both, because
    /// the script has forged at least one of them.
    pub(super) fn from_frames(bytes: &[u8]) -> Self {
        let value = only_frame(bytes, VALUE).filter(|value| value.len() <= VALUE_BYTES_MAX);
        Self {
            reached_end: only_frame(bytes, END).is_some_and(<[u8]>::is_empty),
            value: value.map(<[u8]>::to_vec),
            returned: only_frame(bytes, RETURNED).map(Returned::decode),
            observed: only_frame(bytes, OBSERVED).and_then(Observed::parse),
            members: only_frame(bytes, MEMBERS).and_then(Members::parse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_reported_exactly_once() {
        for (bytes, reached_end) in [
            (&b"E\0\0\0\0"[..], true),
            (b"", false),
            (b"E\0\0\0\0E\0\0\0\0", false),
            (b"E\x01\0\0\0x", false),
            (b"E\0\0\0", false),
            (b"C\x01\0\0\0xE\0\0\0\0", true),
        ] {
            assert_eq!(EndReport::from_frames(bytes).reached_end, reached_end, "{bytes:?}");
        }
    }

    #[test]
    fn observations_are_read_if_they_have_the_right_form() {
        let read = |text: &[u8]| {
            let length = u32::try_from(text.len()).unwrap().to_le_bytes();
            EndReport::from_frames(&[b"D", &length[..], text].concat()).observed
        };
        let observed = |started, native: &[&str]| {
            Some(Observed { started, native: native.iter().map(ToString::to_string).collect() })
        };
        assert_eq!(read(b"0"), observed(Some(0), &[]));
        assert_eq!(read(b"3 numpy pandas"), observed(Some(3), &["numpy", "pandas"]));
        assert_eq!(read(b"- numpy"), observed(None, &["numpy"]));
        let names: Vec<String> = (0..=NATIVE_MAX).map(|number| number.to_string()).collect();
        let many = format!("0 {}", names.join(" ")).into_bytes();
        for wrong in [&b""[..], b"x", b"-1", b"\xff", &b"0 ".repeat(OBSERVED_BYTES_MAX), &many] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        assert_eq!(EndReport::from_frames(&b"D\x01\0\0\x000".repeat(2)).observed, None);
    }

    #[test]
    fn a_value_is_sent_exactly_once_and_bounded() {
        let frame = |length: usize| {
            let head = [b"R", &u32::try_from(length).unwrap().to_le_bytes()[..]].concat();
            [head, vec![b'N'; length]].concat()
        };
        let value = |bytes: &[u8]| EndReport::from_frames(bytes).value;
        assert_eq!(value(&frame(1)), Some(b"N".to_vec()));
        assert_eq!(value(b"E\0\0\0\0"), None);
        assert_eq!(value(&frame(1).repeat(2)), None);
        assert!(value(&frame(VALUE_BYTES_MAX)).is_some());
        assert_eq!(value(&frame(VALUE_BYTES_MAX + 1)), None);
        assert!(include_str!("python/values.py").contains(
            "VALUE_BYTES_MAX, RESULT_BYTES_MAX, DEPTH_MAX, NAME_MAX = 1 << 20, 1 << 17, 128, 80"
        ));
    }
}
