//! The package folders of a fork server. They show whether a new interpreter would load the same modules.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::sandbox::Plan;

use super::untrusted::{Untrusted, UntrustedFolder};

/// The interval between two checks for changed packages.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The folders that modules are loaded from, with the time of the last change of each.
#[derive(Debug)]
pub(super) struct PackageFolders {
    folders: Vec<(PathBuf, Option<SystemTime>)>,
    /// The untrusted folder from which nothing was loaded, and the lookup of its current path.
    untrusted: (Option<UntrustedFolder>, Untrusted),
    looked: Instant,
    have_changed: bool,
}

impl PackageFolders {
    /// Records the folders of a plan. Must be called before modules are loaded, so that a change during loading is
    /// detected. Returns `None` if modules could be loaded from the `untrusted` folder, and an error if that is
    /// unknown.
    pub(super) fn of(plan: &Plan, untrusted: &Untrusted) -> Result<Option<Self>, String> {
        let folder = untrusted.folder()?;
        let mut open = plan.readable.iter().chain(plan.links.iter().map(|(link, _)| link));
        if folder.as_ref().is_some_and(|folder| open.any(|path| folder.overlaps(path))) {
            return Ok(None);
        }
        let folders = plan.readable.iter().map(|folder| (folder.clone(), modified_at(folder)));
        Ok(Some(Self {
            folders: folders.collect(),
            untrusted: (folder, untrusted.clone()),
            looked: Instant::now(),
            have_changed: false,
        }))
    }

    /// Returns whether packages were installed or removed, or the workspace moved, since [`Self::of`].
    pub(super) fn have_changed(&mut self) -> bool {
        if self.looked.elapsed() >= LOOK_INTERVAL {
            self.looked = Instant::now();
            let (before, now) = &self.untrusted;
            // The admin may have named another folder as the workspace.
            self.have_changed = now.folder().as_ref() != Ok(before)
                || self.folders.iter().any(|(folder, at)| modified_at(folder) != *at);
        }
        self.have_changed
    }
}

/// Returns the time of the last change of a folder.
fn modified_at(folder: &Path) -> Option<SystemTime> {
    folder.metadata().ok()?.modified().ok()
}
