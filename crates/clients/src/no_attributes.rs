//! Replaces the module `attributes` on systems other than Linux, and in portable builds. This module never reads or
//! writes an attribute.

use std::fs::File;
use std::io;

/// An empty set of extended attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attributes;

impl Attributes {
    #[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(crate) fn read(_file: &File) -> io::Result<Self> {
        Ok(Self)
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(super) fn put_on(&self, _file: &File) -> io::Result<()> {
        Ok(())
    }
}
