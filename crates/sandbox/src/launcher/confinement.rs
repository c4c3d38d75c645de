//! Computes, as data, the steps by which each child of a fork server confines itself before it runs a script. This
//! module applies none of the steps.
//!
//! The fork server is Python (`executor/python/fork_server.py`). Its children make the same system calls as a launcher,
//! in the same order. The arguments of these calls come from the tables that the launcher itself uses.

use std::os::fd::RawFd;
use std::path::PathBuf;

use nix::unistd::{getegid, geteuid};
use serde::Serialize;

use super::super::linux::libraries::FORKS_PATH;
use super::super::linux::syscalls::{self, Becomes, Filtered};
use super::super::supervisor::platform::file_tree;
use super::super::{LaunchError, Order};
use super::file_access::{self, RawRuleset};
use super::resources;

/// The data for the layers that each child of the fork server applies to itself.
#[derive(Debug, Serialize)]
pub(super) struct Confinement {
    /// A descriptor of the machine's `/proc`, through which a child maps its UID and GID. The child closes the
    /// descriptor before the script runs.
    proc: RawFd,
    /// The path of the library with the main loop of the fork server.
    forks: &'static str,
    /// The UID that the child keeps.
    uid: u32,
    /// The GID that the child keeps.
    gid: u32,
    /// The folder in which the child starts.
    scratch: PathBuf,
    /// The mount point and the options of each tmpfs of the child.
    own_folders: Vec<(PathBuf, String)>,
    /// The mount flags of each tmpfs.
    own_folder_flags: u64,
    /// The name and the value of each limit (`setrlimit(2)`).
    limits: Vec<(String, u64)>,
    landlock: RawRuleset,
    /// The seccomp filters in the order of their installation, as hexadecimal digits.
    filters: Vec<String>,
}

impl Confinement {
    /// Computes the steps for the children of a fork server. `order` describes the fork server that this process
    /// becomes.
    pub(super) fn new(order: &Order, proc: RawFd) -> Result<Self, LaunchError> {
        let plan = &order.plan;
        let filters = syscalls::compile(Filtered::new(plan, Becomes::Nothing))?;
        let limits = resources::rows(plan, order.cpu_seconds);
        let own_folders = file_tree::own_folders(plan);
        Ok(Self {
            proc,
            forks: FORKS_PATH,
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            scratch: plan.scratch.clone(),
            own_folders: own_folders.map(|(at, options)| (at.to_owned(), options)).into(),
            own_folder_flags: file_tree::OWN_FOLDER.bits(),
            // The `Debug` text of nix's `Resource` is the name from the C headers, such as `RLIMIT_AS`.
            limits: limits.map(|(resource, most)| (format!("{resource:?}"), most)).into(),
            landlock: file_access::ruleset(plan, &plan.scratch)?,
            filters: filters.bytes().iter().map(hex::encode).collect(),
        })
    }
}
