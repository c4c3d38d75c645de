//! The frames on the side channel of a run: a letter, a length of four bytes (little-endian), and the content.

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

/// Returns the content of the frame with a letter, if there is exactly one.
pub(super) fn only_frame(bytes: &[u8], kind: u8) -> Option<&[u8]> {
    let mut found = frames(bytes).filter(|(letter, _)| *letter == kind);
    let (_, content) = found.next()?;
    found.next().is_none().then_some(content)
}
