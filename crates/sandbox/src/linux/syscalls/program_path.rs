//! Stores the empty path for the one allowed `execveat` at a random address, by which the filters recognise the call.
//! This module never opens or executes a program.
//!
//! `execveat` executes a descriptor if the path is empty, but ignores the descriptor if the path is absolute. A filter
//! can check the path's address, but not its text. So a rule about the descriptor alone would allow
//! `execveat(1000, "/bin/sh", …)`, even if descriptor 1000 is not open. Therefore the filter also requires the address
//! that this module chose. The script can neither read nor inherit the address, because executing a program replaces
//! the memory. The script can only guess, with one system call per guess, among about 2^40 addresses: 28 bits of
//! address space randomization and 12 bits within a page. If the randomization is off, 20 bits remain. Even a correct
//! guess still needs Landlock's right to execute.

use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::num::TryFromIntError;

/// The size of the memory that contains the path at a random offset, in bytes. 20 random bits select the offset. The
/// size is less than a huge page, because the kernel would align a huge page and fill it with zeros at the first
/// access.
const ROOM_BYTES: usize = 1 << 20;

/// An empty string at an address that the script cannot know.
pub(super) struct ProgramPath {
    zeros: Vec<u8>,
    position: usize,
}

impl ProgramPath {
    pub(super) fn new() -> Self {
        // The standard library seeds this hash with random bytes from the kernel.
        let [low, middle, high, ..] = RandomState::new().hash_one(()).to_le_bytes();
        let position = usize::from(low) | usize::from(middle) << 8 | usize::from(high & 0xF) << 16;
        Self { zeros: vec![0; ROOM_BYTES], position }
    }

    /// Returns the empty path at the random offset. The offset is always inside of `zeros`, so the default is never
    /// used.
    pub(super) fn as_c_str(&self) -> &CStr {
        let rest = self.zeros.get(self.position..).unwrap_or_default();
        CStr::from_bytes_until_nul(rest).unwrap_or_default()
    }

    pub(super) fn address(&self) -> Result<u64, TryFromIntError> {
        u64::try_from(self.as_c_str().as_ptr().addr())
    }
}
