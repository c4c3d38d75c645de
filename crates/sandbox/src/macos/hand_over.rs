//! The second half of a spare's order, which comes when the spare is ready: its script.

use std::io::{self, Read};

/// The line by which a spare says that it waits for its script: Python to the supervisor, and that to the
/// server.
#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
pub const IS_READY: &[u8] = b"ready\n";

/// Returns the message that brings a spare what it waits for.
pub fn message(parts: &[&[u8]]) -> Vec<u8> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let length = u64::try_from(bytes).unwrap_or(u64::MAX).to_le_bytes();
    [&[&length[..]], parts].concat().concat()
}

/// Reads such a message, and returns what is for the spare. [`io::ErrorKind::UnexpectedEof`] if there is no
/// whole one.
pub fn receive(mut source: impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    source.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let mut given = Vec::new();
    let received = source.take(length).read_to_end(&mut given)?;
    if u64::try_from(received).is_ok_and(|received| received == length) {
        Ok(given)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spare_gets_arrives_whole_or_not_at_all() {
        let message = message(&[b"two", b"", b"parts"]);
        let more = [&message[..], b"x"].concat();
        assert_eq!(receive(&more[..]).unwrap(), b"twoparts");
        for end in 0..message.len() {
            let error = receive(&message[..end]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{end}");
        }
    }
}
