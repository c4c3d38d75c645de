//! The extended attributes of a file: its access control list, and what programs keep there. Without the
//! list, the group's part of the mode, which is the mask of a list, would be rights of the group.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;

/// The most bytes of all names, and of a value (`xattr(7)`).
const BYTES_MAX: usize = 64 * 1024;

/// The access control list of a file (`acl(5)`).
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
/// Names of users' programs begin so. Others are the system's, which a new file gets from that.
const OF_USERS: &[u8] = b"user.";

/// Extended attributes by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attributes(BTreeMap<Vec<u8>, Vec<u8>>);

impl Attributes {
    pub(crate) fn read(file: &File) -> io::Result<Self> {
        let mut buffer = vec![0; BYTES_MAX];
        let names = match flistxattr(file, buffer.as_mut_slice()) {
            Ok(length) => buffer.get(..length).unwrap_or_default().to_vec(),
            // A file system without them.
            Err(Errno::NOTSUP) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let is_kept = |name: &&[u8]| *name == ACCESS_LIST || name.starts_with(OF_USERS);
        let mut attributes = BTreeMap::new();
        for name in names.split(|byte| *byte == 0).filter(is_kept) {
            let length = fgetxattr(file, name, buffer.as_mut_slice())?;
            attributes.insert(name.to_owned(), buffer.get(..length).unwrap_or_default().to_vec());
        }
        Ok(Self(attributes))
    }

    /// Gives a file these, and takes away those that it has besides: a folder hands a list down.
    pub(super) fn put_on(&self, file: &File) -> io::Result<()> {
        let Self(now) = Self::read(file)?;
        for name in now.keys().filter(|name| !self.0.contains_key(*name)) {
            fremovexattr(file, name.as_slice())?;
        }
        for (name, value) in self.0.iter().filter(|(name, value)| now.get(*name) != Some(value)) {
            fsetxattr(file, name.as_slice(), value, XattrFlags::empty())?;
        }
        Ok(())
    }
}
