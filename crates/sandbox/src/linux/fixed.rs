//! Makes the dynamic loader load the library that answers a program's clocks and random bits from fixed values
//! (`fixed.c`). This module never decides which runs get the library.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};

use crate::{FixedClock, Order, Tier};

/// The name of the file. It is in the root of the run's file tree, or in the scratch folder.
const FILE: &str = ".fixed.so";

/// Returns the path at which the run finds the library. `None` if the run does not load it: the order has no fixed clock,
/// or the dynamic loader could not read the path.
pub(crate) fn library(order: &Order) -> Option<PathBuf> {
    order.fixed?.clock?;
    // At tier 3 programs cannot be loaded from the scratch folder.
    let folder = if order.plan.tier == Tier::T3 { Path::new("/") } else { &order.scratch };
    let path = folder.join(FILE);
    // These characters separate the entries of LD_PRELOAD (ld.so(8)).
    let is_one_entry = path.to_str().is_some_and(|path| !path.contains([' ', ':']));
    // Otherwise the dynamic loader would write an error to the standard error of each script.
    let is_loadable = order.plan.tier == Tier::T3
        || statvfs(&order.scratch).is_ok_and(|it| !it.flags().contains(FsFlags::ST_NOEXEC));
    (is_one_entry && is_loadable).then_some(path)
}

/// Returns the variables with which the dynamic loader loads the library. The library removes both from `environ`; where the
/// program can read `/proc`, they are still in `/proc/self/environ`.
pub(crate) fn variables(order: &Order) -> Vec<(&'static str, String)> {
    let clock = order.fixed.and_then(|fixed| fixed.clock);
    let Some((path, FixedClock { start_ns, seed })) = library(order).zip(clock) else {
        return Vec::new();
    };
    let preload = path.to_string_lossy().into_owned();
    vec![("LD_PRELOAD", preload), ("FIXED_VALUES", format!("{start_ns}:{seed}"))]
}
