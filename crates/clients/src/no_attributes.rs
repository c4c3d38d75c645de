//! The extended attributes of a file, where they are not kept: elsewhere than on Linux.

use std::fs::File;
use std::io;

/// No attributes.
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
