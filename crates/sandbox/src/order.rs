//! The order for a run, as it goes from the server to the supervisor, and on to the launcher.

use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Plan;

/// Python's command: it runs the compiled bootstrap, which finds the script behind itself.
///
/// The bootstrap has a namespace of its own: what it leaves in the interpreter's hooks must not hold
/// the script's names when the interpreter ends.
pub(crate) const PYTHON_COMMAND: &str = "script = open(0, 'rb', closefd=False)
exec(__import__('marshal').load(script), {'main': globals()})";

/// The role of the interpreter that is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Runs one script, and has no rights but the script's.
    Script,
    /// Forks itself for each script, and each of its children takes its rights away from itself.
    /// Tier 3 only.
    ForkServer,
}

/// The runs of a server that share its processors, and the pipes of their user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbours {
    /// Those that there are, this one included.
    pub now: u64,
    /// The most that there can be.
    pub most: u64,
}

impl Default for Neighbours {
    /// Returns the neighbours of a run that is alone.
    fn default() -> Self {
        Self { now: 1, most: 1 }
    }
}

/// One run, but for its script. Sent as a line of JSON; what Python reads comes behind it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The reach and the limits of the run.
    pub plan: Plan,
    pub role: Role,
    /// The folder to create for the run where it has no file tree of its own.
    pub scratch: PathBuf,
    /// The whole environment of the script, but for what points into the scratch folder.
    pub environment: Vec<(String, String)>,
    /// The CPU time that each process of the run gets.
    pub cpu_seconds: u64,
    pub neighbours: Neighbours,
    /// The control group to make for the run.
    pub group: Option<GroupOrder>,
    /// What macOS needs besides.
    pub seatbelt: Option<SeatbeltOrder>,
    /// True if addresses are to be the same in each run.
    pub fixes_addresses: bool,
    /// The bytes that follow: the bootstrap's marshalled code, and the script.
    pub input_bytes: usize,
}

/// The parts of macOS that hold a run, and where they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatbeltOrder {
    /// The program that sets the memory limit of another one.
    pub taskpolicy: PathBuf,
    /// The library with the calls of the sandbox.
    pub library: PathBuf,
    /// The file that the interpreter really is, where the one that is called only executes that.
    pub program_file: Option<PathBuf>,
    /// The first bytes of the input: the marshalled code by which Python enters the sandbox.
    pub(crate) entry_bytes: usize,
}

impl SeatbeltOrder {
    /// Returns the order for macOS itself; tests have a folder with stand-ins.
    pub fn new(
        stand_ins: Option<&Path>,
        program_file: Option<PathBuf>,
        entry_bytes: usize,
    ) -> Self {
        let place = |name, path: &str| {
            stand_ins.map_or_else(|| PathBuf::from(path), |folder| folder.join(name))
        };
        Self {
            taskpolicy: place("taskpolicy", "/usr/sbin/taskpolicy"),
            library: place("library", "/usr/lib/libSystem.B.dylib"),
            program_file,
            entry_bytes,
        }
    }
}

/// A control group that is to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOrder {
    /// The folder to make it in, in the machine's file tree.
    pub place: PathBuf,
    /// Its name there.
    pub name: String,
    pub limits: GroupLimits,
}

/// The limits of a control group, for all its processes together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLimits {
    /// Everything that the kernel counts: what is resident, page tables, sockets, pipes, files in
    /// a tmpfs. Above it, all of the group's processes are killed at once; on kernels before 4.19 one
    /// of them is.
    pub memory_bytes: Option<u64>,
    /// Processes and threads; a fork above it fails.
    pub pids: Option<u64>,
}

impl Order {
    /// Returns the order as bytes, with `input` behind it.
    pub fn to_bytes(&self, input: &[&[u8]]) -> io::Result<Vec<u8>> {
        let mut message = serde_json::to_vec(self)?;
        message.push(b'\n');
        for part in input {
            message.extend_from_slice(part);
        }
        Ok(message)
    }

    /// Reads an order and its input. [`io::ErrorKind::UnexpectedEof`] if there is none.
    pub fn receive(source: impl Read) -> io::Result<(Self, Vec<u8>)> {
        let mut reader = BufReader::new(source);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let order: Self = serde_json::from_str(&line)?;
        let mut input = vec![0; order.input_bytes];
        reader.read_exact(&mut input)?;
        Ok((order, input))
    }
}
