//! The supervisor's part of a launch: namespaces, file tree, and the two processes of our own.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, chown, getegid, geteuid, sethostname};

use super::identity::{self, NOBODY, OwnProcess};
use super::tree::FileTree;
use super::{INIT_ARGUMENT, LAUNCHER_ARGUMENT, LaunchError, Order, OsError, Tier, capabilities};

/// What the run's machine is called, inside.
const HOST_NAME: &str = "sandbox";

/// The longest error that a launcher writes.
const ERROR_BYTES_MAX: u64 = 16 * 1024;

/// A run that was started.
#[derive(Debug)]
pub(crate) struct Launched {
    /// Python's process, a child of this one.
    pub(crate) python: Child,
    /// Process 1 of the run, a child of this one too: killing it kills the run.
    pub(crate) init: Option<Init>,
}

/// Process 1 of a run's process numbers.
#[derive(Debug)]
pub(crate) struct Init {
    pub(crate) process: Child,
    /// Process 1 ends when this is closed.
    lifeline: UnixStream,
}

/// Starts Python as `order` says, with `input` as its standard input and this process's standard
/// output and error.
///
/// This process changes for good: at tier 3 it is in the run's file tree afterwards, with the run's
/// network, host name and shared memory.
pub(crate) fn launch(order: &Order, input: &[u8]) -> Result<Launched, LaunchError> {
    let message =
        order.to_bytes(&[input]).map_err(|error| LaunchError::StoreScript(OsError::from(error)))?;
    if order.plan.tier < Tier::T3 {
        if identity::is_root() {
            let nobody = (Some(Uid::from_raw(NOBODY)), Some(Gid::from_raw(NOBODY)));
            chown(&order.scratch, nobody.0, nobody.1)
                .map_err(|error| LaunchError::CreateScratch(error.into()))?;
        }
        let launcher = Launcher::start()?;
        return Ok(Launched { python: launcher.send(&message)?, init: None });
    }
    create_namespaces()?;
    // Both start while the tree is laid out; it takes as long as they do.
    let (ours, theirs) = socket_pair(LaunchError::StartInit)?;
    let init = Init { process: start_init(theirs)?, lifeline: ours };
    let launcher = Launcher::start()?;
    let tree = FileTree::lay_out(&order.plan, identity::is_root().then_some(NOBODY))?;
    // Not before they have everything that they need of the machine's tree.
    wait_for_word(&init.lifeline, LaunchError::StartInit)?;
    wait_for_word(&launcher.socket, LaunchError::StartLauncher)?;
    tree.enter()?;
    Ok(Launched { python: launcher.send(&message)?, init: Some(init) })
}

/// Puts this process into namespaces of its own; what it starts will have process numbers of
/// their own too.
fn create_namespaces() -> Result<(), LaunchError> {
    let (uid, gid) = (geteuid(), getegid());
    let is_root = identity::is_root();
    let mut namespaces = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    // Root has the right to all of it, and gives itself up in the launcher. An ordinary user gets
    // the right from a user namespace, in which it is the only user.
    if !is_root {
        namespaces |= CloneFlags::CLONE_NEWUSER;
    }
    let own_process = OwnProcess::open()?;
    unshare(namespaces).map_err(|error| LaunchError::CreateNamespaces(error.into()))?;
    if !is_root {
        own_process.map_to_itself(uid, gid)?;
        capabilities::empty_bounding_set()?;
    }
    sethostname(HOST_NAME).map_err(|error| LaunchError::NameHost(error.into()))
}

fn start_init(lifeline: UnixStream) -> Result<Child, LaunchError> {
    own_program(INIT_ARGUMENT)
        .stdin(OwnedFd::from(lifeline))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| LaunchError::StartInit(error.into()))
}

fn own_program(argument: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(argument).env_clear();
    command
}

/// A launcher that waits for its order.
struct Launcher {
    process: Child,
    socket: UnixStream,
}

impl Launcher {
    fn start() -> Result<Self, LaunchError> {
        let (socket, theirs) = socket_pair(LaunchError::StartLauncher)?;
        let process = own_program(LAUNCHER_ARGUMENT)
            .stdin(OwnedFd::from(theirs))
            // A group of its own: what the script sends to "its group" does not reach the
            // supervisor.
            .process_group(0)
            .spawn()
            .map_err(|error| LaunchError::StartLauncher(error.into()))?;
        Ok(Self { process, socket })
    }

    /// Sends the order, and comes back when the launcher has become Python.
    fn send(mut self, message: &[u8]) -> Result<Child, LaunchError> {
        // If this fails the launcher has ended, and says below why.
        let _ = self.socket.write_all(message);
        let mut answer = Vec::new();
        let read = (&self.socket).take(ERROR_BYTES_MAX).read_to_end(&mut answer);
        // Its end of the socket closes when it executes Python. Before that it has said that it
        // is there, once, and nothing else unless something went wrong.
        let error = answer.strip_prefix(&READY).unwrap_or(&answer);
        match read {
            Ok(_) if error.is_empty() => Ok(self.process),
            Ok(_) => Err(serde_json::from_slice(error).unwrap_or(LaunchError::LauncherEnded)),
            Err(error) => Err(LaunchError::StartLauncher(error.into())),
        }
    }
}

/// What init and launcher say when they are loaded.
pub(super) const READY: [u8; 1] = *b"\n";

fn wait_for_word(
    mut socket: &UnixStream,
    failed: fn(OsError) -> LaunchError,
) -> Result<(), LaunchError> {
    let mut word = READY;
    socket.read_exact(&mut word).map_err(|error| failed(error.into()))
}

fn socket_pair(
    failed: fn(OsError) -> LaunchError,
) -> Result<(UnixStream, UnixStream), LaunchError> {
    UnixStream::pair().map_err(|error: io::Error| failed(error.into()))
}
