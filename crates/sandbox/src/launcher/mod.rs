//! The launcher: takes everything away from itself, in order, and then becomes Python.
//!
//! It is our own binary, started again before any runtime exists: single-threaded, and with
//! nothing open but its standard streams.

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
use super::linux::{READY, addresses, capabilities, processor, signal_scope};
use super::order::PYTHON_COMMAND;
use super::plan::Programs;
use super::{LaunchError, Order, Plan, Role, SIGNAL_SCOPE_ABI, Tier, passing};
use confinement::Confinement;

/// The hidden first argument that makes our binary the launcher of a run.
pub(super) const LAUNCHER_ARGUMENT: &str = "__sandbox";

/// Waits for an order on standard input and carries it out. Returns only if that failed, with the
/// error sent to the supervisor.
///
/// `proc` is where `/proc` is: at tier 3 a copy of it that hangs in no tree.
pub(crate) fn become_python(proc: &Path) -> ExitCode {
    let Ok(supervisor) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    let error = match carry_out(&supervisor, proc) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    // If nobody reads it any more, nobody needs it.
    let _ = serde_json::to_writer(&supervisor, &error);
    ExitCode::FAILURE
}

/// The result of an `exec` that succeeded, which never returns.
type Never = std::convert::Infallible;

fn carry_out(mut supervisor: &UnixStream, proc: &Path) -> Result<Never, LaunchError> {
    // A group of its own: what the script sends to "its group" does not reach the supervisor. And a
    // session of its own, because many kernels are fair between sessions (`sched(7)`, autogroup):
    // there the supervisor gets its turn however many processes the run has in one.
    setsid().or_fail(LaunchError::StartLauncher)?;
    let parent = getppid();
    // At tier 3 the machine's /proc is gone when the order comes.
    let user = RunUser::of_server();
    let own_process = OwnProcess::open(proc)?;
    supervisor.write_all(&READY).or_fail(LaunchError::StartLauncher)?;
    let pictures = passing::receive(supervisor).or_fail(LaunchError::StartLauncher)?;
    let (order, input) = Order::receive(supervisor).or_fail(LaunchError::StartLauncher)?;
    // Open until this process becomes Python, which has it from then on.
    let numbered = pictures.as_ref().map(passing::hand_down).transpose();
    let _numbered = numbered.or_fail(LaunchError::PrepareProcess)?;
    prefer_for_oom_killer(&own_process);
    processor::lower_own(&own_process, order.neighbours.now);
    if order.fixes_addresses {
        addresses::fix().or_fail(LaunchError::PrepareProcess)?;
    }
    match order.role {
        Role::Script if order.plan.tier == Tier::Off => become_unconfined(&order, &input, parent),
        Role::Script => become_script(&order, &input, user, own_process, parent),
        Role::ForkServer => become_fork_server(&order, input, user, own_process),
    }
}

/// Makes the run the first to end where the machine runs out of memory
/// (`proc_pid_oom_score_adj(5)`). This is no layer: a run without it is as good.
fn prefer_for_oom_killer(own_process: &OwnProcess) {
    let _ = own_process.write("oom_score_adj", "1000");
}

/// Ends this process, and Python that it becomes, when the supervisor ends, by whatever death. To be
/// called when the user does not change any more, which undoes it (`PR_SET_PDEATHSIG(2const)`).
fn end_with_supervisor(supervisor: Pid) -> Result<(), LaunchError> {
    prctl::set_pdeathsig(Signal::SIGKILL).or_fail(LaunchError::PrepareProcess)?;
    // It may have ended before.
    let is_there = if getppid() == supervisor { Ok(()) } else { Err(Errno::ESRCH) };
    is_there.or_fail(LaunchError::PrepareProcess)
}

/// Becomes Python with the rights of the server's user, because the admin wants it so.
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

/// Becomes Python that runs one script: all layers are in force when it starts.
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
        // While it may: another user has no right to.
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
    // Every page of the run takes a fault, by which its memory is watched.
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
    // Landlock before seccomp: the filter refuses the calls that set it up.
    file_access::restrict(plan, scratch)?;
    filters.install()?;
    execute(&program, filters.program_path(), &arguments, &environment)
}

/// Becomes Python that forks itself for each script, and whose children take the other layers on
/// themselves. It may make namespaces and mounts in a user namespace of its own, and nothing else
/// that another process of the user may not. It sees what every run sees, read-only.
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
    // One more, also where there is one already: what is mounted read-only in a namespace above
    // cannot be made writable again from below.
    own_process.enter_user_namespace()?;
    // Process numbers too: from such that belong to its user namespace, others can be made.
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

/// Checks that the program is there: Python looks for its library from here. Better said now than
/// by Python in its own words.
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

/// A file without a name that holds what Python reads, at its start.
fn input_file(content: &[u8]) -> Result<OwnedFd, LaunchError> {
    let stored = || -> io::Result<OwnedFd> {
        let mut file = File::from(memfd_create(c"verification", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(content)?;
        file.rewind()?;
        Ok(file.into())
    };
    stored().or_fail(LaunchError::StoreScript)
}

/// Opens the interpreter under the one number from which the filter lets a program be executed.
/// While this process still has all rights: where the server is root, its folder may be private.
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

/// Returns the run's variables, and those of these names, which say where its scratch folder is.
fn environment(
    order: &Order,
    scratch_names: &[&str],
    scratch: &Path,
) -> Result<Vec<CString>, LaunchError> {
    let mut variables: Vec<Vec<u8>> = Vec::new();
    for (name, value) in &order.environment {
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
