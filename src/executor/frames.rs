//! Separates the frames on the side channel, a pipe from a script's process to the server. A frame consists of a
//! letter, a length of four bytes (little-endian), and the content. This module never decodes a content.

/// The letters that identify the kinds of frames. Each kind has its own letter.
pub(super) mod letter {
    /// The letter of a frame with a picture.
    pub(in crate::executor) const PICTURE: u8 = b'P';
    /// The letter of a frame with the size and the name of a picture that was too large to send.
    pub(in crate::executor) const LARGE_PICTURE: u8 = b'L';
    /// The letter of the frame with the number of pictures that were left out.
    pub(in crate::executor) const OMITTED_PICTURES: u8 = b'O';
    /// The letter of the frame with the counts of the script's checks.
    pub(in crate::executor) const COUNTS: u8 = b'C';
    /// The letter of the frame with the values that the failed check has compared.
    pub(in crate::executor) const COMPARED: u8 = b'V';
    /// The letter of the empty frame that a script's process sends after the last statement of the script.
    pub(in crate::executor) const END: u8 = b'E';
    /// The letter of the frame with the value of a batch test's expression.
    pub(in crate::executor) const VALUE: u8 = b'R';
    /// The letter of the frame with the value that the script has assigned to `result`.
    pub(in crate::executor) const RETURNED: u8 = b'J';
    /// The letter of the frame with the observations of a deterministic run.
    pub(in crate::executor) const OBSERVED: u8 = b'D';
    /// The letter of the frame with the members of an object that the script has used wrongly.
    pub(in crate::executor) const MEMBERS: u8 = b'M';
}

/// The size of a frame's letter and length, in bytes.
pub(super) const HEAD_BYTES: usize = 5;

/// Returns the letters and contents of the frames, up to the first incomplete frame.
pub(super) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (content, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        Some((*kind, content))
    })
}

/// Returns the content of the frame with the letter `kind`; `None` unless exactly one frame has this letter.
pub(super) fn only_frame(bytes: &[u8], kind: u8) -> Option<&[u8]> {
    let mut found = frames(bytes).filter(|(letter, _)| *letter == kind);
    let (_, content) = found.next()?;
    found.next().is_none().then_some(content)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::letter::{
        COMPARED, COUNTS, END, LARGE_PICTURE, MEMBERS, OBSERVED, OMITTED_PICTURES, PICTURE,
        RETURNED, VALUE,
    };

    #[test]
    fn python_sends_each_kind_of_frame_with_a_letter_of_its_own() {
        let letters = [
            PICTURE,
            LARGE_PICTURE,
            OMITTED_PICTURES,
            COUNTS,
            COMPARED,
            END,
            VALUE,
            RETURNED,
            OBSERVED,
            MEMBERS,
        ];
        let sources = concat!(
            include_str!("python/bootstrap.py"),
            include_str!("python/checks.py"),
            include_str!("python/pictures.py")
        );
        let sent = sources.split("send(b\"").skip(1).map(|rest| rest.as_bytes()[0]);
        let mut sent: Vec<u8> = sent.collect();
        sent.sort_unstable();
        let all: Vec<u8> = letters.iter().copied().collect::<BTreeSet<u8>>().into_iter().collect();
        assert_eq!(all.len(), letters.len());
        assert_eq!(sent, all);
    }
}
