//! Environments for scripts: virtual environments with the QWED packages, in the data folder.
//!
//! An environment is a folder of its own, `environments/env-1`, `env-2` …, that is never changed once it
//! is complete: `builder` makes a new one, and writes `marker` last. Only what has a marker is ever used,
//! and the newest of these is. Whoever uses one holds a lock on its marker, and whoever removes one has to
//! get that lock. One process at a time makes and removes.
//!
//! Nothing of a package runs here: packages are wheels, which are unpacked, and compiled by the Python that the
//! environment was made from. `startup` keeps a wheel from changing what the environment's interpreter starts
//! with. Whether packages can be imported is tried by the caller, inside of the sandbox.

mod builder;
mod listing;
mod lock;
mod marker;
mod package;
mod startup;
mod step;
mod tool;

pub(crate) use builder::{Builder, Order};
pub(crate) use listing::{
    ChangeError, Environment, Environments, FOLDER, InUse, Removal, Turn, Unusable,
};
pub(crate) use lock::Lock;
pub(crate) use package::Requirement;
pub(crate) use step::Progress;
pub(crate) use tool::PythonWanted;
