//! The steps by which each child of a fork server confines itself before it runs a script, as data.
//!
//! The fork server is Python (`executor/python/fork_server.py`). Its children make the system calls
//! that the launcher makes for a script that is started alone, in the same order; the values are
//! worked out here, from the tables that the launcher uses itself.

use std::os::fd::RawFd;
use std::path::PathBuf;

use nix::unistd::{getegid, geteuid};
use serde::Serialize;

use super::super::linux::syscalls::{self, Becomes, Filtered};
use super::super::supervisor::platform::file_tree;
use super::super::{LaunchError, Order};
use super::file_access::{self, RawRuleset};
use super::resources;

/// The layers of one child that it does not share with the others.
#[derive(Debug, Serialize)]
pub(super) struct Confinement {
    /// An open `/proc` of the machine, by which a child maps its user; closed before the script.
    proc: RawFd,
    /// The user and group that the child goes on being.
    uid: u32,
    gid: u32,
    /// The folder that it starts in.
    scratch: PathBuf,
    /// Each of its own file systems (tmpfs): where, and with which options.
    own_folders: Vec<(PathBuf, String)>,
    own_folder_flags: u64,
    /// `setrlimit(2)`: the name of a resource, and the most of it.
    limits: Vec<(String, u64)>,
    landlock: RawRuleset,
    /// The seccomp filters, in the order of their installation, as hexadecimal digits.
    filters: Vec<String>,
}

impl Confinement {
    /// Works out the steps for the children of this process, which is the launcher of `order`.
    pub(super) fn new(order: &Order, proc: RawFd) -> Result<Self, LaunchError> {
        let plan = &order.plan;
        let filters = syscalls::compile(Filtered::new(plan, Becomes::Nothing))?;
        let limits = resources::rows(plan, order.cpu_seconds);
        let own_folders = file_tree::own_folders(plan);
        Ok(Self {
            proc,
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            scratch: plan.scratch.clone(),
            own_folders: own_folders.map(|(at, options)| (at.to_owned(), options)).into(),
            own_folder_flags: file_tree::OWN_FOLDER.bits(),
            // nix calls them what the C headers do.
            limits: limits.map(|(resource, most)| (format!("{resource:?}"), most)).into(),
            landlock: file_access::ruleset(plan, &plan.scratch)?,
            filters: filters.bytes().iter().map(hex::encode).collect(),
        })
    }
}
