//! Environments for scripts: virtual environments with the QWED packages, in the data folder.
//!
//! Each environment is a folder of its own, such as `environments/env-1`. `builder` makes a new environment, and
//! writes its `marker` last. A complete environment never changes. Servers use the newest environment with a marker.
//! The folder `environments/scripts` contains the environments for packages that scripts list.
//!
//! A process that uses an environment holds a lock on its marker. A process that removes the environment must get this
//! lock first. Only one process at a time makes and removes environments.
//!
//! No code of a package runs in this module. Packages are wheels. The Python from which the environment was made
//! compiles the unpacked wheels. `startup` detects wheels that change the files that the environment's interpreter
//! starts with. The caller of this module tests inside the sandbox whether packages can be imported.

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
