//! Makes the dynamic loader load `fixed.c`, the library that replaces a program's clocks and random bits by fixed
//! values. This module never decides which runs get the library.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};

use crate::{FixedClock, Order, Tier};

/// The file name of the library. At tier 3 the file is in the root of the run's file tree, otherwise in the scratch
/// folder.
const FILE: &str = ".fixed.so";

/// Returns the path from which a run loads the library. `None` if the order has no fixed clock, or if the dynamic
/// loader could not load a library from this path.
pub(crate) fn library(order: &Order) -> Option<PathBuf> {
    order.fixed?.clock?;
    // At tier 3 the scratch folder is mounted `noexec`.
    let folder = if order.plan.tier == Tier::T3 { Path::new("/") } else { &order.scratch };
    let path = folder.join(FILE);
    // These characters separate the entries of LD_PRELOAD (ld.so(8)).
    let is_one_entry = path.to_str().is_some_and(|path| !path.contains([' ', ':']));
    // The dynamic loader cannot load a library from a `noexec` folder, and would write an error to the standard error
    // of each script.
    let is_loadable = order.plan.tier == Tier::T3
        || statvfs(&order.scratch).is_ok_and(|it| !it.flags().contains(FsFlags::ST_NOEXEC));
    (is_one_entry && is_loadable).then_some(path)
}

/// Returns the environment variables that make the dynamic loader load the library. The library removes both variables
/// from `environ`. A program that can read `/proc` still finds them in `/proc/self/environ`.
pub(crate) fn variables(order: &Order) -> Vec<(&'static str, String)> {
    let clock = order.fixed.and_then(|fixed| fixed.clock);
    let Some((path, FixedClock { start_ns, seed })) = library(order).zip(clock) else {
        return Vec::new();
    };
    let preload = path.to_string_lossy().into_owned();
    vec![("LD_PRELOAD", preload), ("FIXED_VALUES", format!("{start_ns}:{seed}"))]
}
