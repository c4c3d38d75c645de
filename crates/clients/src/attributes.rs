//! Copies the extended attributes of a file: its access control list, and the attributes of user programs. If a file
//! has an access control list, the group bits of the file's mode contain the mask of this list. In a copy without the
//! list, the group bits would give rights to the file's group. This module never touches attributes that belong to the
//! system.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;

/// The maximum size of the list of attribute names, and of each attribute value, in bytes (`xattr(7)`).
const BYTES_MAX: usize = 64 * 1024;

/// The name of the attribute that contains the access control list (`acl(5)`).
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
/// The prefix of the attributes that user programs set. Apart from the access control list, attributes without this
/// prefix are not copied, because the system sets them on each new file.
const OF_USERS: &[u8] = b"user.";

/// The extended attributes of a file: their names and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attributes(BTreeMap<Vec<u8>, Vec<u8>>);

impl Attributes {
    pub(crate) fn read(file: &File) -> io::Result<Self> {
        let mut buffer = vec![0; BYTES_MAX];
        let names = match flistxattr(file, buffer.as_mut_slice()) {
            Ok(length) => buffer.get(..length).unwrap_or_default().to_vec(),
            // The file system does not support extended attributes, so the file has none.
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

    /// Sets these attributes on a file, and removes other attributes of the same kinds, such as an access control list
    /// that the file inherited from its folder.
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
