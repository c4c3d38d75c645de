//! The input of a run: the source of the script, and the data that it reads.

use sha2::{Digest as _, Sha256};

use crate::gateway::AuthorizedScript;

/// The input that Python receives for a run.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) source: &'a str,
    /// The data that the script reads from its standard input.
    pub(super) stdin: &'a [u8],
    /// The unchanged script, as it is signed; `None` if the source is one of the server's own scripts.
    script: Option<&'a str>,
}

impl<'a> Given<'a> {
    /// Creates the input for an authorized script. Removes a byte order mark, which Python accepts at the start of a
    /// file but not at the start of a string.
    pub(super) fn to(script: &'a AuthorizedScript) -> Self {
        let script_text = script.source().as_str();
        let source = script_text.strip_prefix('\u{feff}').unwrap_or(script_text);
        Self { source, stdin: script.stdin(), script: Some(script_text) }
    }

    /// Creates the input for one of the server's own scripts, which reads nothing from its standard input.
    pub(super) fn source(source: &'a str) -> Self {
        Self { source, stdin: &[], script: None }
    }

    /// Returns the seed of the script's random numbers: the SHA-256 of the script. `None` for the server's own scripts.
    pub(super) fn seed(&self) -> Option<[u8; 32]> {
        self.script.map(|script| Sha256::digest(script).into())
    }

    /// Returns the lengths of the source and of the standard input, which precede both: two `u64` in little-endian
    /// order.
    pub(super) fn lengths(&self) -> [u8; 16] {
        let length = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes();
        let mut lengths = [0; 16];
        let (of_source, of_stdin) = lengths.split_at_mut(8);
        of_source.copy_from_slice(&length(self.source.as_bytes()));
        of_stdin.copy_from_slice(&length(self.stdin));
        lengths
    }
}
