//! Implements the supervisor's steps of a launch: creates namespaces and the file tree, and starts init and the
//! launcher. This module never applies the launcher's layers.

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
use crate::linux::libraries::Library;
use crate::linux::{READY, SignalScope, capabilities};
use crate::{ControlGroup, LaunchError, NOBODY, Order, SIGNAL_SCOPE_ABI, Tier, passing};

/// The host name inside the run.
const HOST_NAME: &str = "sandbox";

/// The maximum time to wait for a message of init or the launcher. A message takes milliseconds unless the machine
/// lacks memory or CPU.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum length of an error that a launcher sends, in bytes.
const ERROR_BYTES_MAX: u64 = 16 * 1024;

/// A run that was started.
#[derive(Debug)]
pub(crate) struct Launched {
    /// The PID of Python, which is a child of this process.
    pub python: Pid,
    /// Process 1 of the run's PID namespace, also a child of this process. Killing process 1 kills the run. `None`
    /// below tier 3.
    pub init: Option<Init>,
    /// The Landlock signal scope of this process, which limits `kill(-1)` to the processes of the run. `None` if the
    /// run has a process 1, because killing process 1 kills the run. Also `None` if the kernel has no signal scopes.
    pub scope: Option<SignalScope>,
    /// Python's control group. `None` if no group was ordered.
    pub group: Option<ControlGroup>,
}

/// Process 1 of a run's PID namespace.
#[derive(Debug)]
pub(crate) struct Init {
    pub pid: Pid,
    /// Process 1 ends when this socket is closed.
    _lifeline: UnixStream,
}

/// Starts Python according to `order`. Python reads `input` from standard input, and inherits standard output and error
/// from this process. After this call, only Python holds `pictures`, its end of the side channel.
///
/// The call changes this process permanently. At tier 3 this process enters the run's file tree, and the run's
/// namespaces for network, host name and shared memory. At the other tiers this process can then send signals only to
/// the run, if the kernel supports that.
pub(super) fn launch(
    order: &Order,
    input: &[u8],
    pictures: Option<OwnedFd>,
) -> Result<Launched, LaunchError> {
    let message = order.to_bytes(&[input]).or_fail(LaunchError::StoreScript)?;
    // Create the group before this process leaves the machine's file tree. If the launch fails, the launcher is dropped
    // and killed before the group is dropped. So the group is empty when it is removed.
    let group = order.group.as_ref().map(ControlGroup::create).transpose();
    let group = group.or_fail(LaunchError::JoinControlGroup)?;
    let user = RunUser::of_server();
    if order.plan.tier < Tier::T3 {
        // Write the libraries before the scratch folder gets another owner, because the new owner could replace the
        // folder with a symlink.
        for library in Library::of(order) {
            library.place(&library.path).or_fail(LaunchError::CreateScratch)?;
        }
        if order.plan.tier > Tier::Off && user == RunUser::Nobody {
            // The run's processes will belong to another user, so this process needs the right to kill them with a
            // signal.
            capabilities::require_kill()?;
            let artifacts = order.plan.artifacts.as_ref().map(|artifacts| &artifacts.path);
            for folder in artifacts.into_iter().chain([&order.scratch]) {
                change_owner_to_nobody(folder)?;
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
    // Start init and the launcher now, so that they start while this process lays out the tree, which takes about as
    // long. If a later step fails, the launcher is dropped before init, because process 1 cannot be reaped before all
    // other processes of its namespace.
    let mut init = own_program(INIT_ARGUMENT);
    // Init must not inherit the output streams, so that they close when Python ends.
    init.stdout(Stdio::null()).stderr(Stdio::null());
    let init = Starting::new(&mut init, LaunchError::StartInit)?;
    // The launcher finds `/proc` as its current folder, which it inherits from this process.
    enter_copy_of_proc()?;
    let launcher = start_launcher(".")?;
    chdir("/").or_fail(LaunchError::IsolateMounts)?;
    let owner = (user == RunUser::Nobody).then_some(NOBODY);
    let tree = FileTree::lay_out(&order.plan, owner, &Library::of(order))?;
    // Enter the tree only after init and the launcher are ready, because until then they need the machine's file
    // tree.
    init.wait_ready(LaunchError::StartInit)?;
    launcher.wait_ready(LaunchError::StartLauncher)?;
    tree.enter()?;
    launcher.join(group.as_ref())?;
    let python = launcher.become_python(&message, pictures)?;
    let Starting { process, socket } = init;
    let init = Init { pid: process.release(), _lifeline: socket };
    Ok(Launched { python, init: Some(init), scope: None, group })
}

fn change_owner_to_nobody(folder: &Path) -> Result<(), LaunchError> {
    chown(folder, Some(Uid::from_raw(NOBODY)), Some(Gid::from_raw(NOBODY)))
        .or_fail(LaunchError::CreateScratch)
}

/// Moves this process into new namespaces. Its children will be in a new PID namespace too.
fn create_namespaces(user: RunUser) -> Result<(), LaunchError> {
    let (uid, gid) = (geteuid(), getegid());
    let mut namespaces = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    // Root may create all of these namespaces. The launcher later gives up root's rights. An ordinary user may create
    // them only in a new user namespace, which maps only this user.
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

/// Changes this process's current folder to a detached copy of the machine's `/proc` mount. Through a descriptor of
/// the original mount, a process could leave the run's file tree: the descriptor's `..` is the machine's root, even
/// after `pivot_root(2)`.
fn enter_copy_of_proc() -> Result<(), LaunchError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let copy = open_tree(rustix::fs::CWD, "/proc", flags).or_fail(LaunchError::IsolateMounts)?;
    fchdir(copy).or_fail(LaunchError::IsolateMounts)
}

/// Starts a launcher. `proc` is the path at which the launcher finds the `/proc` mount.
fn start_launcher(proc: &str) -> Result<Starting, LaunchError> {
    let mut command = own_program(LAUNCHER_ARGUMENT);
    command.arg(proc);
    // Pass on the output streams, because the launcher becomes Python, which inherits them.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    Starting::new(&mut command, LaunchError::StartLauncher)
}

/// A process of our own, init or a launcher, during its start.
struct Starting {
    process: KilledOnDrop,
    /// The supervisor's socket of a pair. The other socket is the process's standard input.
    socket: UnixStream,
}

impl Starting {
    fn new(command: &mut Command, failed: fn(OsError) -> LaunchError) -> Result<Self, LaunchError> {
        let (socket, theirs) = UnixStream::pair().or_fail(failed)?;
        // Set timeouts, because a stopped process must not delay the end of the run.
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).or_fail(failed)?;
        socket.set_write_timeout(Some(ANSWER_TIMEOUT)).or_fail(failed)?;
        let process = command.stdin(OwnedFd::from(theirs)).spawn().or_fail(failed)?;
        Ok(Self { process: KilledOnDrop(pid(&process)), socket })
    }

    fn wait_ready(&self, failed: fn(OsError) -> LaunchError) -> Result<(), LaunchError> {
        let mut ready = READY;
        (&self.socket).read_exact(&mut ready).or_fail(failed)
    }

    /// Moves the process to the run's control group. Call this before the process starts another process.
    fn join(&self, group: Option<&ControlGroup>) -> Result<(), LaunchError> {
        group
            .map_or(Ok(()), |group| group.add(self.process.0))
            .or_fail(LaunchError::JoinControlGroup)
    }

    /// Sends the launcher its order. Returns after the launcher has become Python.
    fn become_python(
        mut self,
        message: &[u8],
        pictures: Option<OwnedFd>,
    ) -> Result<Pid, LaunchError> {
        // Ignore a failure: the launcher has ended, and its error is read below.
        let _ = passing::send(&self.socket, pictures.as_ref().map(OwnedFd::as_fd))
            .and_then(|()| self.socket.write_all(message));
        drop(pictures);
        let mut answer = Vec::new();
        let read = (&self.socket).take(ERROR_BYTES_MAX).read_to_end(&mut answer);
        // The launcher's socket closes when the launcher executes Python. Before that, the launcher sends one `READY`,
        // which may already have been read. Any further bytes are the launcher's error.
        let error = answer.strip_prefix(&READY).unwrap_or(&answer);
        match read {
            Ok(_) if error.is_empty() => Ok(self.process.release()),
            Ok(_) => Err(serde_json::from_slice(error).unwrap_or(LaunchError::LauncherEnded)),
            Err(error) => Err(LaunchError::StartLauncher(error.into())),
        }
    }
}

/// A child that is killed and reaped on drop unless it is released.
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
        // Ignore a failure: the process may have ended by itself. Reap it in any case.
        let _ = kill(self.0, Signal::SIGKILL);
        while waitpid(self.0, None) == Err(Errno::EINTR) {}
    }
}

fn pid(process: &Child) -> Pid {
    // A PID is an `int` everywhere in the kernel, so the conversion does not fail.
    Pid::from_raw(i32::try_from(process.id()).unwrap_or(i32::MAX))
}
