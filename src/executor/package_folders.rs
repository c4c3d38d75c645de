//! Detects changes in the folders from which a fork server has loaded its modules. After a change, the fork server is
//! outdated, because a new interpreter would load other modules.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::sandbox::Plan;

use super::untrusted::{Untrusted, UntrustedFolder};

/// The interval between two checks for changed packages.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The folders that modules are loaded from, each with the time of its last change.
#[derive(Debug)]
pub(super) struct PackageFolders {
    folders: Vec<(PathBuf, Option<SystemTime>)>,
    /// The workspace at the time when the modules were loaded, and the function that looks up the current workspace. No
    /// module was loaded from the workspace.
    untrusted: (Option<UntrustedFolder>, Untrusted),
    looked: Instant,
    have_changed: bool,
}

impl PackageFolders {
    /// Saves the folders that scripts can read under `plan`, with the times of their last changes. Must be called
    /// before modules are loaded, so that a change during loading is detected. Returns `None` if modules could be
    /// loaded from the `untrusted` folder, and an error if the location of that folder is unknown.
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

    /// Returns whether packages were installed or removed, or the workspace was moved, since the call of [`Self::of`].
    pub(super) fn have_changed(&mut self) -> bool {
        if self.looked.elapsed() >= LOOK_INTERVAL {
            self.looked = Instant::now();
            let (before, now) = &self.untrusted;
            // A new workspace may contain modules that were loaded before.
            self.have_changed = now.folder().as_ref() != Ok(before)
                || self.folders.iter().any(|(folder, at)| modified_at(folder) != *at);
        }
        self.have_changed
    }
}

fn modified_at(folder: &Path) -> Option<SystemTime> {
    folder.metadata().ok()?.modified().ok()
}
