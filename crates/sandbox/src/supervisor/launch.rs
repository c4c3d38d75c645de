//! The supervisor's part of a launch: namespaces, file tree, and the two processes of our own.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Gid, Pid, Uid, chdir, chown, fchdir, getegid, geteuid, sethostname};
use rustix::mount::{OpenTreeFlags, open_tree};

use super::file_tree::FileTree;
use crate::error::{OrFail as _, OsError};
use crate::init::INIT_ARGUMENT;
use crate::launcher::LAUNCHER_ARGUMENT;
use crate::linux::identity::{OwnProcess, RunUser};
use crate::linux::{READY, SignalScope, capabilities};
use crate::{ControlGroup, LaunchError, NOBODY, Order, SIGNAL_SCOPE_ABI, Tier, passing};

/// The host name inside the run.
const HOST_NAME: &str = "sandbox";

/// The longest wait for an answer of init or the launcher, which takes milliseconds on a machine
/// that is not out of memory or CPU.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest error that a launcher writes.
const ERROR_BYTES_MAX: u64 = 16 * 1024;

/// A run that was started.
#[derive(Debug)]
pub(crate) struct Launched {
    /// Python's process, a child of this one.
    pub python: Pid,
    /// Process 1 of the run, a child of this one too: killing it kills the run.
    pub init: Option<Init>,
    /// The signal scope that ends the run where there is no process 1; `None` on a kernel without
    /// it.
    pub scope: Option<SignalScope>,
    /// The control group that Python is in, if one was ordered.
    pub group: Option<ControlGroup>,
}

/// Process 1 of a run's process numbers.
#[derive(Debug)]
pub(crate) struct Init {
    pub pid: Pid,
    /// Process 1 ends when this is closed.
    _lifeline: UnixStream,
}

/// Starts Python as `order` says, with `input` as its standard input and this process's standard
/// output and error. It alone has `pictures` afterwards.
///
/// This process changes for good: at tier 3 it is in the run's file tree afterwards, with the run's
/// network, host name and shared memory; at the others its signals stay within the run, where the
/// kernel can do that.
pub(super) fn launch(
    order: &Order,
    input: &[u8],
    pictures: Option<OwnedFd>,
) -> Result<Launched, LaunchError> {
    let message = order.to_bytes(&[input]).or_fail(LaunchError::StoreScript)?;
    // Before the machine's tree is left; it is ended last if anything fails.
    let group = order.group.as_ref().map(ControlGroup::create).transpose();
    let group = group.or_fail(LaunchError::JoinControlGroup)?;
    let user = RunUser::of_server();
    if order.plan.tier < Tier::T3 {
        if order.plan.tier > Tier::Off && user == RunUser::Nobody {
            // The run will be another user's, and its end is a signal.
            capabilities::require_kill()?;
            let artifacts = order.plan.artifacts.as_ref().map(|artifacts| &artifacts.path);
            for folder in artifacts.into_iter().chain([&order.scratch]) {
                give_to_nobody(folder)?;
            }
        }
        let has_scope = order.plan.landlock_abi >= SIGNAL_SCOPE_ABI;
        let scope = if has_scope { Some(SignalScope::enter()?) } else { None };
        let launcher = start_launcher("/proc")?;
        launcher.join(group.as_ref())?;
        let python = launcher.become_python(&message, pictures)?;
        return Ok(Launched { python, init: None, scope, group });
    }
    create_namespaces(user)?;
    // Both start while the tree is laid out; it takes as long as they do. If anything fails, the
    // launcher is dropped first: process 1 ends after all others of its namespace.
    let mut init = own_program(INIT_ARGUMENT);
    // The output is Python's alone: its end is the end of Python.
    init.stdout(Stdio::null()).stderr(Stdio::null());
    let init = Starting::new(&mut init, LaunchError::StartInit)?;
    // Where the launcher finds /proc.
    enter_copy_of_proc()?;
    let launcher = start_launcher(".")?;
    chdir("/").or_fail(LaunchError::IsolateMounts)?;
    let tree = FileTree::lay_out(&order.plan, (user == RunUser::Nobody).then_some(NOBODY))?;
    // Not before they have everything that they need of the machine's tree.
    init.wait_ready(LaunchError::StartInit)?;
    launcher.wait_ready(LaunchError::StartLauncher)?;
    tree.enter()?;
    launcher.join(group.as_ref())?;
    let python = launcher.become_python(&message, pictures)?;
    let Starting { process, socket } = init;
    let init = Init { pid: process.release(), _lifeline: socket };
    Ok(Launched { python, init: Some(init), scope: None, group })
}

fn give_to_nobody(folder: &Path) -> Result<(), LaunchError> {
    chown(folder, Some(Uid::from_raw(NOBODY)), Some(Gid::from_raw(NOBODY)))
        .or_fail(LaunchError::CreateScratch)
}

/// Puts this process into namespaces of its own; what it starts will have process numbers of
/// their own too.
fn create_namespaces(user: RunUser) -> Result<(), LaunchError> {
    let (uid, gid) = (geteuid(), getegid());
    let mut namespaces = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    // Root has the right to all of it, and gives itself up in the launcher. An ordinary user gets
    // the right from a user namespace, in which it is the only user.
    if user == RunUser::Server {
        namespaces |= CloneFlags::CLONE_NEWUSER;
    }
    let own_process = OwnProcess::open(Path::new("/proc"))?;
    unshare(namespaces).or_fail(LaunchError::CreateNamespaces)?;
    if user == RunUser::Server {
        own_process.map_to_itself(uid, gid)?;
        capabilities::empty_bounding_set()?;
    }
    sethostname(HOST_NAME).or_fail(LaunchError::NameHost)
}

fn own_program(argument: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(argument).env_clear();
    command
}

/// Makes a copy of the machine's `/proc` this process's current folder: a mount by itself, which
/// hangs in no tree. A descriptor of the machine's own one would be a way out: `..` of it is the
/// machine's root, also after `pivot_root(2)`, as long as anything holds that.
fn enter_copy_of_proc() -> Result<(), LaunchError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let copy = open_tree(rustix::fs::CWD, "/proc", flags).or_fail(LaunchError::IsolateMounts)?;
    fchdir(copy).or_fail(LaunchError::IsolateMounts)
}

/// Starts a launcher, which finds `/proc` at `proc`.
fn start_launcher(proc: &str) -> Result<Starting, LaunchError> {
    let mut command = own_program(LAUNCHER_ARGUMENT);
    command.arg(proc);
    // The standard streams of Python.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    Starting::new(&mut command, LaunchError::StartLauncher)
}

/// A process of our own that is not yet what it is to become.
struct Starting {
    process: KilledOnDrop,
    /// The other end of its standard input.
    socket: UnixStream,
}

impl Starting {
    fn new(command: &mut Command, failed: fn(OsError) -> LaunchError) -> Result<Self, LaunchError> {
        let (socket, theirs) = UnixStream::pair().or_fail(failed)?;
        // A process that was stopped must not hold up the end of the run.
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).or_fail(failed)?;
        socket.set_write_timeout(Some(ANSWER_TIMEOUT)).or_fail(failed)?;
        let process = command.stdin(OwnedFd::from(theirs)).spawn().or_fail(failed)?;
        Ok(Self { process: KilledOnDrop(pid(&process)), socket })
    }

    fn wait_ready(&self, failed: fn(OsError) -> LaunchError) -> Result<(), LaunchError> {
        let mut ready = READY;
        (&self.socket).read_exact(&mut ready).or_fail(failed)
    }

    /// Moves the process to the run's group, before it has started anything.
    fn join(&self, group: Option<&ControlGroup>) -> Result<(), LaunchError> {
        group
            .map_or(Ok(()), |group| group.add(self.process.0))
            .or_fail(LaunchError::JoinControlGroup)
    }

    /// Sends a launcher its order, and returns when it has become Python.
    fn become_python(
        mut self,
        message: &[u8],
        pictures: Option<OwnedFd>,
    ) -> Result<Pid, LaunchError> {
        // If this fails the launcher has ended, and says below why.
        let _ = passing::send(&self.socket, pictures.as_ref().map(OwnedFd::as_fd))
            .and_then(|()| self.socket.write_all(message));
        drop(pictures);
        let mut answer = Vec::new();
        let read = (&self.socket).take(ERROR_BYTES_MAX).read_to_end(&mut answer);
        // Its end of the socket closes when it executes Python. Before that it has said that it
        // is there, once, and nothing else unless something went wrong.
        let error = answer.strip_prefix(&READY).unwrap_or(&answer);
        match read {
            Ok(_) if error.is_empty() => Ok(self.process.release()),
            Ok(_) => Err(serde_json::from_slice(error).unwrap_or(LaunchError::LauncherEnded)),
            Err(error) => Err(LaunchError::StartLauncher(error.into())),
        }
    }
}

/// A child that is killed and reaped unless it is released.
struct KilledOnDrop(Pid);

impl KilledOnDrop {
    fn release(self) -> Pid {
        let pid = self.0;
        std::mem::forget(self);
        pid
    }
}

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // It may have ended by itself; it is reaped in any case.
        let _ = kill(self.0, Signal::SIGKILL);
        while waitpid(self.0, None) == Err(Errno::EINTR) {}
    }
}

/// Returns the number of a child.
fn pid(process: &Child) -> Pid {
    // A process number is an int everywhere in the kernel.
    Pid::from_raw(i32::try_from(process.id()).unwrap_or(i32::MAX))
}
