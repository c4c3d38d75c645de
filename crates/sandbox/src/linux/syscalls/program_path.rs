//! The path by which the filters recognise the one allowed `execveat`. This module never opens or executes a program.
//!
//! `execveat` executes a descriptor if the path is empty, but ignores the descriptor if the path is absolute. A filter
//! sees the path's address and not its text. So a rule about the descriptor alone would allow
//! `execveat(1000, "/bin/sh", …)`, whether descriptor 1000 is open or not. Therefore the filter also requires the
//! address that this module chose. Executing a program replaces the memory, so the script can neither read the address
//! nor inherit it. It can only guess, with one system call per guess, among about 2^40 addresses: 28 bits of the
//! kernel's random placement of mappings and 12 bits within a page. If that placement is switched off, 20 bits remain.
//! Even a correct guess still needs Landlock's right to execute.

use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::num::TryFromIntError;

/// The size of the memory in which the path has a random position, in bytes. 20 random bits can select each position.
/// The size is less than a huge page, which the kernel would align, and fill with zeros at the first access. Small
/// pages that are never accessed take only address space.
const ROOM_BYTES: usize = 1 << 20;

/// An empty text at an address that the script cannot know.
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

    /// Returns the empty path at the random position. The position is always inside of `zeros`, so the default is never
    /// used.
    pub(super) fn as_c_str(&self) -> &CStr {
        let rest = self.zeros.get(self.position..).unwrap_or_default();
        CStr::from_bytes_until_nul(rest).unwrap_or_default()
    }

    pub(super) fn address(&self) -> Result<u64, TryFromIntError> {
        u64::try_from(self.as_c_str().as_ptr().addr())
    }
}
