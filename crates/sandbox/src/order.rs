//! Encodes and decodes the order for a run. The server sends the order to the supervisor, which sends it to the
//! launcher. This module never carries out an order.

use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Plan;

/// The command that Python executes (`-c`). It runs the bootstrap, the compiled Python code at the start of standard
/// input. The bootstrap then reads the script from the rest of standard input.
///
/// The bootstrap has a global namespace of its own. Its hooks live until the interpreter ends. In the script's
/// namespace, they would keep the script's objects alive until then.
pub(crate) const PYTHON_COMMAND: &str = "script = open(0, 'rb', closefd=False)
exec(__import__('marshal').load(script), {'main': globals()})";

/// The role of the launched interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Runs one script, and has only the rights of a script.
    Script,
    /// Forks a child for each script. Each child gives up its own rights before the script runs. This role exists only
    /// at tier 3.
    ForkServer,
}

/// The number of concurrent runs of a server. These runs share the processors and their user's limit for pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbours {
    /// The current number of runs, including this one.
    pub now: u64,
    /// The maximum number of concurrent runs.
    pub most: u64,
}

impl Default for Neighbours {
    /// Returns the neighbours of a run that is alone.
    fn default() -> Self {
        Self { now: 1, most: 1 }
    }
}

/// The description of one run, without its script. It is sent as one line of JSON, followed by Python's input.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The readable paths and the limits of the run.
    pub plan: Plan,
    pub role: Role,
    /// The scratch folder to create, if the run has no file tree of its own.
    pub scratch: PathBuf,
    /// The script's whole environment, except for variables that contain the path of the scratch folder.
    pub environment: Vec<(String, String)>,
    /// The limit for the CPU time of each process of the run, in seconds.
    pub cpu_seconds: u64,
    pub neighbours: Neighbours,
    /// The control group to create for the run, if any.
    pub group: Option<GroupOrder>,
    /// The settings that only a run in Seatbelt needs.
    pub seatbelt: Option<SeatbeltOrder>,
    /// The properties that are the same each time the script runs. `None` for an ordinary run.
    pub fixed: Option<Fixed>,
    /// The length of the input that follows the order, in bytes. The input is the bootstrap's marshalled code, and the
    /// script.
    pub input_bytes: usize,
}

/// The properties of a run that are the same each time the script runs. All threads of the run share one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fixed {
    /// True if memory addresses are the same, without address space randomization.
    pub addresses: bool,
    /// The time at which the clocks start, and the seed of the random bits. `None` if the run uses the machine's clocks
    /// and random bits.
    pub clock: Option<FixedClock>,
}

/// The values that determine the clocks and the random bits of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedClock {
    /// The time at which the run starts, in nanoseconds since 1970.
    pub start_ns: u64,
    pub seed: u64,
}

/// The settings of a run in Seatbelt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatbeltOrder {
    /// Apple's program that sets the memory limit of the program that it executes.
    pub taskpolicy: PathBuf,
    /// The library that contains the sandbox functions.
    pub library: PathBuf,
    /// The real interpreter, if the plan's program is a wrapper that executes it.
    pub program_file: Option<PathBuf>,
    /// The length of the marshalled code by which Python enters the sandbox, in bytes. The input starts with this code.
    pub(crate) entry_bytes: usize,
}

impl SeatbeltOrder {
    /// Returns the order with the paths of Apple's files. In tests, `stand_ins` is a folder with replacements for these
    /// files.
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

/// A control group to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOrder {
    /// The folder of the parent group, in the machine's file tree.
    pub place: PathBuf,
    /// The name of the group in this folder.
    pub name: String,
    pub limits: GroupLimits,
}

/// The limits of a control group, for all its processes together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLimits {
    /// The limit for all memory that the kernel counts, in bytes: resident pages, page tables, sockets, pipes, files in
    /// a tmpfs. If the limit is exceeded, the kernel kills all processes of the group at once. Before Linux 4.19 it
    /// kills only one of them.
    pub memory_bytes: Option<u64>,
    /// The maximum number of processes and threads together. A fork above this number fails.
    pub pids: Option<u64>,
}

impl Order {
    /// Returns the order as bytes, followed by `input`.
    pub fn to_bytes(&self, input: &[&[u8]]) -> io::Result<Vec<u8>> {
        let mut message = serde_json::to_vec(self)?;
        message.push(b'\n');
        for part in input {
            message.extend_from_slice(part);
        }
        Ok(message)
    }

    /// Reads an order and its input. Returns [`io::ErrorKind::UnexpectedEof`] if either is missing or incomplete.
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
