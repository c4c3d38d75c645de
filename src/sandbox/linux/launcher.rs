//! The launcher: takes everything away from itself, in order, and then becomes Python.
//!
//! It is our own binary, started again before any runtime exists: single-threaded, and with
//! nothing open but its standard streams.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;
use nix::unistd::{chdir, dup2_stdin, execveat};

use super::identity::{self, OwnProcess};
use super::launch::READY;
use super::syscalls::{self, PROGRAM_FD};
use super::{
    LaunchError, Order, OsError, PYTHON_COMMAND, Tier, capabilities, file_access, resources,
};

/// Waits for an order on standard input and carries it out. Comes back only if that failed; the
/// supervisor has been told why.
pub(crate) fn become_python() -> ExitCode {
    let Ok(supervisor) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    let error = match carry_out(&supervisor) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    // If nobody hears it any more, there is nobody to tell.
    let _ = serde_json::to_writer(&supervisor, &error);
    ExitCode::FAILURE
}

fn carry_out(mut supervisor: &UnixStream) -> Result<std::convert::Infallible, LaunchError> {
    // At tier 3 the machine's /proc is gone when the order comes.
    let is_root = identity::is_root();
    let own_process = if is_root { Some(OwnProcess::open()?) } else { None };
    let started = |error: io::Error| LaunchError::StartLauncher(error.into());
    supervisor.write_all(&READY).map_err(started)?;
    let (order, input) = Order::receive(supervisor).map_err(started)?;
    let plan = &order.plan;
    let scratch = if plan.tier == Tier::T3 { &plan.scratch } else { &order.scratch };

    dup2_stdin(input_file(&input)?).map_err(|error| LaunchError::StoreScript(error.into()))?;
    let program = open_program(&plan.program_file)?;
    if is_root {
        // While it may: another user has no right to.
        capabilities::empty_bounding_set()?;
        identity::become_nobody(own_process.as_ref().filter(|_| plan.tier == Tier::T3))?;
    }
    drop(own_process);
    // Python looks for its library from here. Better said now than by Python in its own words.
    fs::metadata(&plan.program).map_err(|error| LaunchError::OpenProgram(error.into()))?;
    chdir(scratch).map_err(|error| LaunchError::EnterScratch(error.into()))?;
    let arguments =
        strings([plan.program.as_os_str().as_bytes(), b"-c", PYTHON_COMMAND.as_bytes()])?;
    let environment = environment(&order, scratch)?;
    let filters = syscalls::compile(plan.tier == Tier::T3)
        .map_err(|error| LaunchError::FilterCalls(error.to_string()))?;

    resources::limit(&plan.limits, plan.tier, order.cpu_seconds)?;
    capabilities::drop_all()?;
    // Landlock before seccomp: the filter refuses the calls that set it up.
    file_access::restrict(plan, scratch)?;
    filters.install().map_err(|error| LaunchError::FilterCalls(error.to_string()))?;
    match execveat(
        &program,
        filters.program_path(),
        &arguments,
        &environment,
        AtFlags::AT_EMPTY_PATH,
    ) {
        Ok(never) => Ok(never),
        Err(error) => Err(LaunchError::Execute(error.into())),
    }
}

/// A file without a name that holds what Python reads, at its start.
pub(crate) fn input_file(content: &[u8]) -> Result<OwnedFd, LaunchError> {
    let stored = || -> io::Result<OwnedFd> {
        let mut file = File::from(memfd_create(c"verification", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(content)?;
        file.rewind()?;
        Ok(file.into())
    };
    stored().map_err(|error| LaunchError::StoreScript(error.into()))
}

/// Opens the interpreter under the one number from which the filter lets a program be executed.
/// While this process still has all rights: where the server is root, its folder may be private.
fn open_program(path: &Path) -> Result<OwnedFd, LaunchError> {
    let failed = |error: OsError| LaunchError::OpenProgram(error);
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let file = rustix::io::fcntl_dupfd_cloexec(&file, PROGRAM_FD)
        .map_err(|error| LaunchError::ReserveDescriptor(io::Error::from(error).into()))?;
    Ok(file)
}

fn environment(order: &Order, scratch: &Path) -> Result<Vec<CString>, LaunchError> {
    let mut variables: Vec<Vec<u8>> = Vec::new();
    for (name, value) in &order.environment {
        variables.push(format!("{name}={value}").into_bytes());
    }
    for name in ["HOME", "TMPDIR"] {
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
