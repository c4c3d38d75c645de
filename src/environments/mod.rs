//! Environments for scripts: virtual environments with the QWED packages, in the data folder.
//!
//! Each environment is a folder of its own, such as `environments/env-1`. `builder` makes a new environment, and
//! writes its `marker` last. A complete environment never changes. Servers use the newest environment with a marker.
//! The folder `environments/scripts` contains the environments for packages that scripts list in their headers.
//!
//! A process that uses an environment holds a lock on the environment's marker. A process that removes the environment
//! must get this lock first. Only one process at a time makes and removes environments.
//!
//! This module never runs code of a package. It installs packages only from wheels, which are unpacked without running
//! code. The modules of the packages are compiled by the Python from which the environment was made, and not by the
//! environment's own interpreter. A wheel could change files that this interpreter reads at startup, so `startup`
//! detects such wheels. The caller of this module tests inside the sandbox whether packages can be imported.

mod builder;
mod listing;
mod lock;
mod marker;
mod package;
mod startup;
mod step;
mod tool;

pub(crate) use builder::{BuildError, Builder, Order};
pub(crate) use listing::{
    ChangeError, Environment, Environments, FOLDER, InUse, Removal, Turn, Unusable,
};
pub(crate) use lock::{Lock, LockError};
pub(crate) use package::Requirement;
pub(crate) use step::Progress;
pub(crate) use tool::PythonWanted;
