//! The path by which the one allowed `execveat` is recognised.
//!
//! `execveat` starts a file by its descriptor when the path is empty, but it ignores the descriptor
//! when the path is absolute. A filter sees the path's address and not its text, so a rule about
//! the descriptor alone would let `execveat(1000, "/bin/sh", …)` pass, whether 1000 is open or not.
//! Hence the filter also wants the address that this module chose. Executing a program replaces the
//! memory, so the script can neither read the address nor inherit it; it can only guess, one system
//! call a guess, among about 2^40 addresses: 28 bits of the kernel's random placement of mappings
//! and 12 bits within a page (20 bits altogether if that placement is switched off). Landlock's
//! right to execute is what a right guess still meets.

use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::num::TryFromIntError;

/// Every position that 20 random bits can name. Less than a huge page, which the kernel would align
/// and fill with zeros at the first touch; untouched small pages cost address space only.
const ROOM_BYTES: usize = 1 << 20;

/// An empty text at an address that the script cannot know.
pub(super) struct ProgramPath {
    zeros: Vec<u8>,
    position: usize,
}

impl ProgramPath {
    pub(super) fn new() -> Self {
        // The standard library keys this hash with random bytes of the kernel.
        let [low, middle, high, ..] = RandomState::new().hash_one(()).to_le_bytes();
        let position = usize::from(low) | usize::from(middle) << 8 | usize::from(high & 0xF) << 16;
        Self { zeros: vec![0; ROOM_BYTES], position }
    }

    /// Returns the path. The default is empty too, but elsewhere: if the position were ever wrong,
    /// the filter would refuse the launcher.
    pub(super) fn as_c_str(&self) -> &CStr {
        let rest = self.zeros.get(self.position..).unwrap_or_default();
        CStr::from_bytes_until_nul(rest).unwrap_or_default()
    }

    pub(super) fn address(&self) -> Result<u64, TryFromIntError> {
        u64::try_from(self.as_c_str().as_ptr().addr())
    }
}
