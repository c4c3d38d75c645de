//! Encodes the input of a run: the source of the script, and the data that the script reads.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use crate::gateway::{AuthorizedScript, Form, Inputs};

use super::determinism::Determinism;

/// The input that Python receives for a run.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) source: &'a str,
    /// The edits of the script's syntax tree that make the script count its checks (`python/checks.py`). Empty if
    /// nothing is counted.
    pub(super) plan: &'a str,
    /// The expression of a batch test, which Python evaluates after the script; empty if there is none.
    pub(super) call: &'a str,
    /// The data that the script reads from its standard input.
    pub(super) stdin: &'a [u8],
    /// The files that the script may read; `None` for the server's own scripts.
    inputs: Option<&'a Inputs>,
    /// The client's script, with its byte order mark if it has one; `None` for the server's own scripts.
    script: Option<&'a str>,
}

impl<'a> Given<'a> {
    /// Creates the input for an authorized script. Removes a byte order mark, which Python accepts at the start of a
    /// file but not at the start of a string.
    pub(super) fn to(script: &'a AuthorizedScript) -> Self {
        let script_text = script.source().as_str();
        let source = script_text.strip_prefix('\u{feff}').unwrap_or(script_text);
        Self {
            source,
            plan: script.check_plan(),
            call: script.call(),
            stdin: script.stdin(),
            inputs: Some(script.inputs()),
            script: Some(script_text),
        }
    }

    /// Creates the input for one of the server's own scripts. These scripts read nothing from their standard input.
    pub(super) fn source(source: &'a str) -> Self {
        Self { source, plan: "", call: "", stdin: &[], inputs: None, script: None }
    }

    /// Returns the seed of the script's random numbers: the SHA-256 of the script. `None` for the server's own scripts.
    pub(super) fn seed(&self) -> Option<[u8; 32]> {
        self.script.map(|script| Sha256::digest(script).into())
    }

    /// Returns the bytes that a forked child receives before [`Self::input`] in a deterministic run: the start time of
    /// the clocks (nanoseconds since 1970, `u64`), the seed of the kernel's random bits (`u64`), and the seed of the
    /// random number generators (32 bytes). Both `u64` are little-endian.
    pub(super) fn fixed_values(&self, determinism: Determinism) -> Vec<u8> {
        let seed = self.seed().unwrap_or_default();
        let clock = determinism.of_run(&seed).clock.unwrap_or_default();
        [&clock.start_ns.to_le_bytes()[..], &clock.seed.to_le_bytes(), &seed].concat()
    }

    /// Returns whether the process must report the end of the script and the counts of its checks. The server's own
    /// scripts get no verdict, so they need no report.
    pub(super) fn has_end_report(&self) -> bool {
        self.script.is_some()
    }

    /// Encodes this value for Python: first the lengths of the source, the plan, the call, the standard input and the
    /// input files (each `u64` in little-endian order), then these five contents.
    pub(super) fn input(&self) -> Vec<Cow<'a, [u8]>> {
        let Self { source, plan, call, stdin, inputs, script: _ } = *self;
        let parts = [source.as_bytes(), plan.as_bytes(), call.as_bytes(), stdin];
        let inputs = inputs.map(packed).unwrap_or_default();
        let of_inputs = inputs.iter().map(|part| part.len()).sum();
        let lengths = parts.iter().map(|part| part.len()).chain([of_inputs]);
        let lengths: Vec<u8> = lengths.flat_map(length_bytes).collect();
        let parts = parts.into_iter().map(Cow::Borrowed);
        [Cow::Owned(lengths)].into_iter().chain(parts).chain(inputs).collect()
    }
}

/// Encodes the input files for `give_inputs` in `python/bootstrap.py`. Each file consists of a letter for its form
/// (text, bytes or JSON), the length of its name (one byte), the length of its content (`u64` in little-endian order),
/// its name and its content.
fn packed<'a>(inputs: &'a Inputs) -> Vec<Cow<'a, [u8]>> {
    let of_file = |(name, form, content): (&'a str, Form, &'a [u8])| {
        let form = match form {
            Form::Text => b't',
            Form::Bytes => b'b',
            Form::Json => b'j',
        };
        // Names have at most 100 bytes.
        let name_length = u8::try_from(name.len()).unwrap_or(u8::MAX);
        let header =
            [&[form, name_length], &length_bytes(content.len())[..], name.as_bytes()].concat();
        [Cow::Owned(header), Cow::Borrowed(content)]
    };
    inputs.files().flat_map(of_file).collect()
}

/// Returns a length as `u64` in little-endian order.
fn length_bytes(length: usize) -> [u8; 8] {
    u64::try_from(length).unwrap_or(u64::MAX).to_le_bytes()
}
