//! The folders that modules are loaded from ahead of a script: whether a new interpreter would load the same.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::sandbox::Plan;

use super::untrusted::{Untrusted, UntrustedFolder};

/// The interval between two looks at whether the installed packages have changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The folders that modules are loaded from, and when each was last changed.
#[derive(Debug)]
pub(super) struct PackageFolders {
    folders: Vec<(PathBuf, Option<SystemTime>)>,
    /// The folder of which nothing was loaded, and where to ask for that of now.
    untrusted: (Option<UntrustedFolder>, Untrusted),
    looked: Instant,
    have_changed: bool,
}

impl PackageFolders {
    /// Notes the folders of a plan. To be called before anything is loaded: what is changed meanwhile is a
    /// change. `None` where modules could be loaded from the `untrusted` folder; an error where that cannot
    /// be known.
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

    /// Returns whether packages were installed or removed since.
    pub(super) fn have_changed(&mut self) -> bool {
        if self.looked.elapsed() >= LOOK_INTERVAL {
            self.looked = Instant::now();
            let (before, now) = &self.untrusted;
            // An admin may have named another folder as the workspace.
            self.have_changed = now.folder().as_ref() != Ok(before)
                || self.folders.iter().any(|(folder, at)| modified_at(folder) != *at);
        }
        self.have_changed
    }
}

/// Returns when a folder was last changed.
fn modified_at(folder: &Path) -> Option<SystemTime> {
    folder.metadata().ok()?.modified().ok()
}
