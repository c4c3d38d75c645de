//! The input of a run: the source of the script, and the data that it reads.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use crate::gateway::AuthorizedScript;

/// The input that Python receives for a run.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) source: &'a str,
    /// The plan by which the run counts the checks of the script; empty if nothing is counted.
    pub(super) plan: &'a str,
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
        Self { source, plan: script.check_plan(), stdin: script.stdin(), script: Some(script_text) }
    }

    /// Creates the input for one of the server's own scripts, which reads nothing from its standard input.
    pub(super) fn source(source: &'a str) -> Self {
        Self { source, plan: "", stdin: &[], script: None }
    }

    /// Returns the seed of the script's random numbers: the SHA-256 of the script. `None` for the server's own scripts.
    pub(super) fn seed(&self) -> Option<[u8; 32]> {
        self.script.map(|script| Sha256::digest(script).into())
    }

    /// Returns the part of Python's input that begins with the script: the lengths of the source, of the plan and of the
    /// standard input, as `u64` in little-endian order, and then the three of them.
    pub(super) fn input(&self) -> [Cow<'a, [u8]>; 4] {
        let parts = [self.source.as_bytes(), self.plan.as_bytes(), self.stdin];
        let lengths = parts.map(|part| u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        let [source, plan, stdin] = parts.map(Cow::Borrowed);
        [Cow::Owned(lengths.concat()), source, plan, stdin]
    }
}
