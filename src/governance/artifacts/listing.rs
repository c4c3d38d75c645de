//! Lists runs and their files in pages.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;
use uuid::Uuid;

use super::reading::{is_readable, media_type};
use super::{ArtifactError, Artifacts, RunState};
use super::{failed_to, is_internal, run_id_of, state_of, time_of};
use crate::folder::{Bounds, Folder, Kind, Reach, Stat};
use crate::governance::evidence::Timestamp;

/// The default number of items on a page.
pub(crate) const LIST_LIMIT_DEFAULT: usize = 50;
/// The maximum number of items on a page.
pub(crate) const LIST_LIMIT_MAX: usize = 200;
/// The server visits at most this number of files and folders of a run, because tests can leave millions of files.
pub(crate) const ENTRIES_MAX: usize = 10_000;
/// The maximum number of runs in a list. Older runs can still be read by their ids.
pub(crate) const RUNS_LISTED_MAX: usize = 10_000;
const DEPTH_MAX: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// The offset of the next page; `None` for the last page.
    pub(crate) next_offset: Option<usize>,
    /// Whether the list is incomplete, because a limit was reached or a folder cannot be read. No page has the missing
    /// items.
    pub(crate) truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RunEntry {
    pub(crate) run_id: Uuid,
    pub(crate) state: RunState,
    /// The time at which the run ended. If the run has no evidence, this is the modification time of the run's folder.
    pub(crate) finished: Timestamp,
    pub(crate) files: usize,
    /// The size of all files together, in bytes.
    pub(crate) bytes: u64,
    /// Whether the run has files that `files` and `bytes` do not include, because a limit was reached or a folder
    /// cannot be read.
    pub(crate) has_more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FileEntry {
    /// The path relative to the run's folder.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// The media type for the file extension.
    pub(crate) media_type: &'static str,
    /// Whether [`Artifacts::read`] can read the file. This requires a regular file with one hard link, and a path that
    /// [`Artifacts::read`] accepts.
    pub(crate) readable: bool,
}

/// The sort key of a run in lists.
type ByTime = (Reverse<SystemTime>, Uuid);

impl Artifacts {
    /// Lists the runs, newest first.
    pub(crate) fn list_runs(
        &self,
        offset: usize,
        limit: Option<usize>,
    ) -> Result<Page<RunEntry>, ArtifactError> {
        let limit = page_size(limit)?;
        let Some(root) = self.opened_root()? else {
            return Ok(Page { items: Vec::new(), next_offset: None, truncated: false });
        };
        let listed = newest(&root, RUNS_LISTED_MAX);
        let (runs, truncated) = listed.map_err(failed_to("list the runs"))?;
        let page: Page<ByTime> = page(runs, offset, limit, truncated);
        let entries_max = ENTRIES_MAX / page.items.len().max(1);
        let entry =
            |(Reverse(time), run_id): &ByTime| run_entry(&root, *run_id, *time, entries_max).ok();
        let items = page.items.iter().filter_map(entry).collect();
        Ok(Page { items, next_offset: page.next_offset, truncated })
    }

    /// Lists the newest runs, newest first. Also returns whether more runs exist. Slower than [`Self::list_runs`],
    /// because this method counts up to [`ENTRIES_MAX`] files of each run, not of all runs together.
    pub(crate) fn newest_runs(&self, limit: usize) -> Result<(Vec<RunEntry>, bool), ArtifactError> {
        let Some(root) = self.opened_root()? else { return Ok((Vec::new(), false)) };
        let (runs, has_more) = newest(&root, limit).map_err(failed_to("list the runs"))?;
        let entry =
            |(Reverse(time), run_id): ByTime| run_entry(&root, run_id, time, ENTRIES_MAX).ok();
        Ok((runs.into_iter().filter_map(entry).collect(), has_more))
    }

    /// Calls `each` with the ids of all runs, in no particular order.
    pub(crate) fn each_run(&self, mut each: impl FnMut(Uuid)) -> Result<(), ArtifactError> {
        let Some(root) = self.opened_root()? else { return Ok(()) };
        let listed = root.each_name(|name| {
            if let Some(run_id) = run_id_of(&name) {
                each(run_id);
            }
            ControlFlow::Continue(())
        });
        listed.map_err(failed_to("list the runs"))
    }

    /// Opens the folder of all runs; `None` before the first run.
    fn opened_root(&self) -> Result<Option<Folder>, ArtifactError> {
        match Folder::open(&self.root) {
            Ok(root) => Ok(Some(root)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed_to("list the runs")(error)),
        }
    }

    /// Lists the files of a run, sorted by path.
    pub(crate) fn list_files(
        &self,
        run_id: Uuid,
        offset: usize,
        limit: Option<usize>,
    ) -> Result<Page<FileEntry>, ArtifactError> {
        let limit = page_size(limit)?;
        let folder = self.run(run_id)?;
        let mut files = Vec::new();
        let bounds = Bounds { entries_max: ENTRIES_MAX, depth_max: DEPTH_MAX };
        let reach = folder.walk(bounds, |path, stat| {
            if is_listed(path, stat) {
                files.push(FileEntry {
                    path: path.to_string_lossy().into_owned(),
                    bytes: stat.bytes,
                    media_type: media_type(path),
                    readable: stat.is_plain_file() && is_readable(path),
                });
            }
        });
        let reach = reach.map_err(failed_to("list the files of the run"))?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(page(files, offset, limit, reach == Reach::Part))
    }
}

/// Finds the newest runs, newest first. Also returns whether more runs exist. Examines all runs, because the folder is
/// not sorted by time.
fn newest(root: &Folder, runs_max: usize) -> io::Result<(Vec<ByTime>, bool)> {
    // Returns `None` for a name that is not a run id, and for a run that was removed meanwhile.
    let run = |name: &OsStr| {
        let run_id = run_id_of(name)?;
        let folder = root.folder(name).ok()?;
        Some((Reverse(time_of(&folder).ok()?), run_id))
    };
    let mut newest = BinaryHeap::new();
    let mut truncated = false;
    root.each_name(|name| {
        newest.extend(run(&name));
        if newest.len() > runs_max {
            newest.pop();
            truncated = true;
        }
        ControlFlow::Continue(())
    })?;
    Ok((newest.into_sorted_vec(), truncated))
}

fn run_entry(
    root: &Folder,
    run_id: Uuid,
    time: SystemTime,
    entries_max: usize,
) -> io::Result<RunEntry> {
    let folder = root.folder(OsStr::new(&run_id.hyphenated().to_string()))?;
    let (mut files, mut bytes) = (0, 0_u64);
    let bounds = Bounds { entries_max, depth_max: DEPTH_MAX };
    let reach = folder.walk(bounds, |path, stat| {
        if is_listed(path, stat) {
            files += 1;
            bytes = bytes.saturating_add(stat.bytes);
        }
    })?;
    let state = state_of(&folder)?;
    let finished = Timestamp::from(time);
    Ok(RunEntry { run_id, state, finished, files, bytes, has_more: reach == Reach::Part })
}

/// Returns whether an entry appears in lists. Folders and the server's internal files do not.
fn is_listed(path: &Path, stat: &Stat) -> bool {
    stat.kind != Kind::Folder && !is_internal(path)
}

fn page_size(limit: Option<usize>) -> Result<usize, ArtifactError> {
    match limit.unwrap_or(LIST_LIMIT_DEFAULT) {
        limit @ ..=LIST_LIMIT_MAX => Ok(limit.max(1)),
        _ => Err(ArtifactError::TooLarge { max: LIST_LIMIT_MAX }),
    }
}

fn page<T>(all: Vec<T>, offset: usize, limit: usize, truncated: bool) -> Page<T> {
    let end = offset.saturating_add(limit);
    let next_offset = (end < all.len()).then_some(end);
    let items = all.into_iter().skip(offset).take(limit).collect();
    Page { items, next_offset, truncated }
}
