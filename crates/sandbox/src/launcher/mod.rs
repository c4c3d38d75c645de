//! The launcher: a process that gives up its own rights step by step, and then becomes Python. This module never
//! decides which layers a run has; the order from the server decides that.
//!
//! The launcher is our own binary, started again. It works before any async runtime exists, so it has only one thread.
//! Only its standard streams are open.

mod confinement;
mod file_access;
mod resources;

pub use file_access::supported_abi;

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open};
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, chdir, dup2_stdin, execve, execveat, getppid, setsid};

use super::error::OrFail as _;
use super::linux::identity::{self, OwnProcess, RunUser};
use super::linux::syscalls::{self, Becomes, Filtered, PROGRAM_FD};
use super::linux::{READY, addresses, capabilities, fixed, processor, signal_scope};
use super::order::PYTHON_COMMAND;
use super::plan::Programs;
use super::{LaunchError, Order, Plan, Role, SIGNAL_SCOPE_ABI, Tier, passing};
use confinement::Confinement;

/// The hidden first argument that makes our binary the launcher of a run.
pub(super) const LAUNCHER_ARGUMENT: &str = "__sandbox";

/// Reads an order from standard input and carries it out. After a success this process is Python, so this function
/// returns only after an error, which it sends to the supervisor.
///
/// `proc` is the path of the proc file system. At tier 3 the path leads to a detached copy of the `/proc` mount.
pub(crate) fn become_python(proc: &Path) -> ExitCode {
    let Ok(supervisor) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    let error = match carry_out(&supervisor, proc) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    // Ignore a failed write: the supervisor has ended, so it needs no error.
    let _ = serde_json::to_writer(&supervisor, &error);
    ExitCode::FAILURE
}

/// The result of a successful `exec`, which never returns.
type Never = std::convert::Infallible;

fn carry_out(mut supervisor: &UnixStream, proc: &Path) -> Result<Never, LaunchError> {
    // Start a new session, so that the script's signals to its own process group do not reach the supervisor. Also,
    // many kernels divide CPU time fairly between sessions (`sched(7)`, autogroup). So the supervisor gets its share,
    // however many processes the run has.
    setsid().or_fail(LaunchError::StartLauncher)?;
    let parent = getppid();
    // Choose the user by `/proc/self/uid_map` and open `/proc` now, because at tier 3 the machine's `/proc` no longer
    // exists when the order arrives.
    let user = RunUser::of_server();
    let own_process = OwnProcess::open(proc)?;
    supervisor.write_all(&READY).or_fail(LaunchError::StartLauncher)?;
    let pictures = passing::receive(supervisor).or_fail(LaunchError::StartLauncher)?;
    let (order, input) = Order::receive(supervisor).or_fail(LaunchError::StartLauncher)?;
    // Give the side channel its fixed number (`SIDE_CHANNEL_FD`). Keep this descriptor open until this process becomes
    // Python, which inherits it.
    let numbered = pictures.as_ref().map(passing::hand_down).transpose();
    let _numbered = numbered.or_fail(LaunchError::PrepareProcess)?;
    prefer_for_oom_killer(&own_process);
    processor::lower_own(&own_process, order.neighbours.now);
    if let Some(fixed) = order.fixed {
        if fixed.addresses {
            addresses::fix().or_fail(LaunchError::PrepareProcess)?;
        }
        // Do not pin a fork server, because each of its children chooses a processor after the fork.
        if order.role == Role::Script {
            processor::pin_to_current_processor();
        }
    }
    match order.role {
        Role::Script if order.plan.tier == Tier::Off => become_unconfined(&order, &input, parent),
        Role::Script => become_script(&order, &input, user, own_process, parent),
        Role::ForkServer => become_fork_server(&order, input, user, own_process),
    }
}

/// Makes the OOM killer choose this run first if the machine runs out of memory (`proc_pid_oom_score_adj(5)`).
/// Ignores a failure, because this setting is not a layer of the sandbox.
fn prefer_for_oom_killer(own_process: &OwnProcess) {
    let _ = own_process.write("oom_score_adj", "1000");
}

/// Makes the kernel kill this process, and the Python that it becomes, when the supervisor dies for any reason. Call
/// this after the last change of the user, because a change of the user resets the setting
/// (`PR_SET_PDEATHSIG(2const)`).
fn end_with_supervisor(supervisor: Pid) -> Result<(), LaunchError> {
    prctl::set_pdeathsig(Signal::SIGKILL).or_fail(LaunchError::PrepareProcess)?;
    // Fail if the parent has changed: the supervisor died before the call above, so the kernel sends no signal.
    let is_there = if getppid() == supervisor { Ok(()) } else { Err(Errno::ESRCH) };
    is_there.or_fail(LaunchError::PrepareProcess)
}

/// Becomes Python with the rights of the server's user. Used only if the admin has turned the sandbox off.
fn become_unconfined(order: &Order, input: &[u8], supervisor: Pid) -> Result<Never, LaunchError> {
    let plan = &order.plan;
    dup2_stdin(input_file(input)?).or_fail(LaunchError::StoreScript)?;
    chdir(&order.scratch).or_fail(LaunchError::EnterScratch)?;
    end_with_supervisor(supervisor)?;
    if plan.landlock_abi >= SIGNAL_SCOPE_ABI {
        signal_scope::restrict()?;
    }
    let program = strings([plan.program.as_os_str().as_bytes()])?;
    let arguments = arguments(plan)?;
    let environment = environment(order, &["TMPDIR"], &order.scratch)?;
    let program = program.first().map_or(c"", CString::as_c_str);
    execve(program, &arguments, &environment).or_fail(LaunchError::Execute)
}

/// Becomes a Python process that runs one script. All layers are in force when Python starts.
fn become_script(
    order: &Order,
    input: &[u8],
    user: RunUser,
    own_process: OwnProcess,
    supervisor: Pid,
) -> Result<Never, LaunchError> {
    let plan = &order.plan;
    let scratch = if plan.tier == Tier::T3 { &plan.scratch } else { &order.scratch };

    dup2_stdin(input_file(input)?).or_fail(LaunchError::StoreScript)?;
    let program = open_program(&plan.program_file)?;
    if user == RunUser::Nobody {
        // Empty the bounding set before the change of user, because the user `nobody` is not allowed to change the set.
        capabilities::empty_bounding_set()?;
        identity::become_nobody()?;
        if plan.tier == Tier::T3 {
            own_process.enter_user_namespace()?;
        }
    }
    drop(own_process);
    if plan.tier < Tier::T3 {
        end_with_supervisor(supervisor)?;
    }
    // Turn off transparent huge pages, so that every new page causes one page fault. The memory watch counts these
    // faults.
    prctl::set_thp_disable(true).or_fail(LaunchError::LimitResources)?;
    check_program(plan)?;
    chdir(scratch).or_fail(LaunchError::EnterScratch)?;
    let arguments = arguments(plan)?;
    let environment = environment(order, &["HOME", "TMPDIR"], scratch)?;
    let becomes = match plan.programs {
        Programs::None => Becomes::Program,
        Programs::Executable => Becomes::Executable,
    };
    let filters = syscalls::compile(Filtered::new(plan, becomes))?;

    resources::limit(plan, order.cpu_seconds)?;
    capabilities::drop_all()?;
    // Landlock comes before seccomp, because the seccomp filter refuses the calls that set up Landlock.
    file_access::restrict(plan, scratch, fixed::library(order).as_deref())?;
    filters.install()?;
    execute(&program, filters.program_path(), &arguments, &environment)
}

/// Becomes the fork server: a Python process that forks for each script. Each child applies the remaining layers to
/// itself. The fork server may create namespaces and mounts in its own user namespace. Apart from that, it has only the
/// rights of an ordinary process of its user. It can read the same files as every run, but cannot write to any of them.
fn become_fork_server(
    order: &Order,
    mut input: Vec<u8>,
    user: RunUser,
    own_process: OwnProcess,
) -> Result<Never, LaunchError> {
    let plan = &order.plan;
    let program = open_program(&plan.program_file)?;
    if user == RunUser::Nobody {
        identity::become_nobody()?;
    }
    // Enter a new user namespace, even if this process is in a user namespace already. In a child namespace, this
    // process cannot make the read-only mounts of the parent namespace writable.
    own_process.enter_user_namespace()?;
    // The PID namespace must belong to this user namespace, so that the children can create PID namespaces of their
    // own.
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID)
        .or_fail(LaunchError::CreateNamespaces)?;
    check_program(plan)?;
    chdir(&plan.scratch).or_fail(LaunchError::EnterScratch)?;
    let confinement = Confinement::new(order, own_process.leave_open()?)?;
    serde_json::to_writer(&mut input, &confinement)
        .map_err(io::Error::from)
        .or_fail(LaunchError::StoreScript)?;
    dup2_stdin(input_file(&input)?).or_fail(LaunchError::StoreScript)?;
    capabilities::keep_only_namespaces()?;
    execute(
        &program,
        c"",
        &arguments(plan)?,
        &environment(order, &["HOME", "TMPDIR"], &plan.scratch)?,
    )
}

/// Checks that the interpreter exists at `plan.program`, because Python locates its library from this path. The error
/// of this check is clearer than Python's own error.
fn check_program(plan: &Plan) -> Result<(), LaunchError> {
    fs::metadata(&plan.program).map(drop).or_fail(LaunchError::OpenProgram)
}

fn execute(
    program: &OwnedFd,
    path: &CStr,
    arguments: &[CString],
    environment: &[CString],
) -> Result<Never, LaunchError> {
    execveat(program, path, arguments, environment, AtFlags::AT_EMPTY_PATH)
        .or_fail(LaunchError::Execute)
}

/// Creates an unnamed file with Python's input. The first read from the returned descriptor starts at the beginning.
fn input_file(content: &[u8]) -> Result<OwnedFd, LaunchError> {
    let stored = || -> io::Result<OwnedFd> {
        let mut file = File::from(memfd_create(c"verification", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(content)?;
        file.rewind()?;
        Ok(file.into())
    };
    stored().or_fail(LaunchError::StoreScript)
}

/// Opens the interpreter as [`PROGRAM_FD`], the only descriptor from which the seccomp filter allows a program to be
/// executed. Call this before the change of the user: if the server runs as root, the folder of the interpreter may be
/// private to root.
fn open_program(path: &Path) -> Result<OwnedFd, LaunchError> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let file = open(path, flags, Mode::empty()).or_fail(LaunchError::OpenProgram)?;
    rustix::io::fcntl_dupfd_cloexec(&file, PROGRAM_FD).or_fail(LaunchError::ReserveDescriptor)
}

fn arguments(plan: &Plan) -> Result<Vec<CString>, LaunchError> {
    let isolation: &[&[u8]] = if plan.is_isolated { &[b"-I", b"-S"] } else { &[] };
    let program =
        [plan.program.as_os_str().as_bytes()].into_iter().chain(isolation.iter().copied());
    strings(program.chain([b"-c".as_slice(), PYTHON_COMMAND.as_bytes()]))
}

/// Returns the run's environment. Each variable in `scratch_names` has the path of the scratch folder as its value.
fn environment(
    order: &Order,
    scratch_names: &[&str],
    scratch: &Path,
) -> Result<Vec<CString>, LaunchError> {
    let mut variables: Vec<Vec<u8>> = Vec::new();
    for (name, value) in &order.environment {
        variables.push(format!("{name}={value}").into_bytes());
    }
    for (name, value) in fixed::variables(order) {
        variables.push(format!("{name}={value}").into_bytes());
    }
    for name in scratch_names {
        let mut variable = format!("{name}=").into_bytes();
        variable.extend_from_slice(scratch.as_os_str().as_bytes());
        variables.push(variable);
    }
    strings(variables)
}

fn strings<T: Into<Vec<u8>>>(
    texts: impl IntoIterator<Item = T>,
) -> Result<Vec<CString>, LaunchError> {
    let strings = texts.into_iter().map(CString::new).collect::<Result<_, _>>();
    strings.map_err(|_| LaunchError::Execute(Errno::EINVAL.into()))
}
