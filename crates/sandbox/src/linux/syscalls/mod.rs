//! Compiles the system calls that a script may make into seccomp filters.
//!
//! The table ([`table`]) decides the result of each call:
//!
//! | the call                                   | its result                      |
//! |--------------------------------------------|---------------------------------|
//! | is not in the table                        | `ENOSYS`, so libraries fall back |
//! | is in the table and its rule denies it     | `EPERM`                         |
//! | is in the table and its rule allows it     | runs                            |
//! | is in the table and its rule answers it    | the rule's error or success; the kernel does nothing |
//! | is made for another architecture, or x32   | kills the process with `SIGSYS` |
//!
//! A run has up to three filters. The *argument filter* denies calls with certain arguments. It also checks the
//! machine's architecture. The *answer filter* lets calls with certain arguments succeed without running them. The
//! *number filter* contains the number and the result of every call. The crate `seccompiler` builds the first two
//! filters. This module builds the number filter itself, because a filter of `seccompiler` has only one action for all
//! matches. It also compares the call with one number after the other, which would make the installation take a
//! millisecond (see `number_filter`). The kernel runs all filters for a call and applies the strictest result.
//!
//! This module never restricts files, because Landlock does that. If a filter cannot be installed, this module only
//! returns an error. The launcher must then stop.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::ffi::CStr;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

use self::program_path::ProgramPath;
use self::table::{Comparison, Condition, Row, Rule, Test};
use super::{LaunchError, Plan, Tier};

mod administration;
mod files;
mod memory;
mod metadata;
mod processes;
mod program_path;
mod sockets;
mod table;
#[cfg(test)]
mod tests;

/// The descriptor of the interpreter. The launcher opens this descriptor, close-on-exec, before it installs the
/// filters. The script's descriptors have lower numbers, because the hard `RLIMIT_NOFILE` is lower than this number,
/// and the filters deny changing the limit. So the limit must be set before the filters are installed.
pub(crate) const PROGRAM_FD: i32 = 1000;

/// The maximum length of a filter program that the kernel accepts, in instructions (`BPF_MAXINSNS`).
const INSTRUCTIONS_MAX: usize = 4096;

/// The filters, compiled for this machine's architecture and for this process.
///
/// The filters are valid only in the process that compiled them, because they recognise the one allowed `execveat` by
/// an address in this process's memory.
pub(crate) struct Filters {
    arguments: BpfProgram,
    /// The filter that lets certain calls succeed without running them. It is empty if the run needs none.
    answers: BpfProgram,
    numbers: BpfProgram,
    program_path: ProgramPath,
}

/// The program that the filters allow a process to execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Becomes {
    /// Only the interpreter, by the descriptor [`PROGRAM_FD`]. The filters recognise the call by the address of
    /// [`Filters::program_path`].
    Program,
    /// No program: the process already runs the interpreter.
    Nothing,
    /// Every program that Landlock allows.
    Executable,
}

/// The properties of a run on which its filters depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filtered {
    /// True if the run cannot reach files outside of its own file tree by a path (tier 3). Such a run may safely change
    /// modes and times of files.
    pub(crate) has_own_tree: bool,
    /// True if the run must stay one process.
    pub is_one_process: bool,
    pub becomes: Becomes,
}

impl Filtered {
    /// Returns the properties of a run with the plan `plan`. `becomes` is the program that its process may execute.
    pub(crate) fn new(plan: &Plan, becomes: Becomes) -> Self {
        Self { has_own_tree: plan.tier == Tier::T3, is_one_process: plan.is_one_process(), becomes }
    }

    /// Returns whether the run is a script and not the tests of a project. Tests may execute programs, and have further
    /// rights.
    fn is_script(self) -> bool {
        self.becomes != Becomes::Executable
    }

    fn verdict(self, row: &Row) -> Verdict {
        match row.rule {
            _ if row.call == libc::SYS_execveat && self.becomes == Becomes::Nothing => {
                Verdict::Refuse
            }
            _ if is_exec(row.call) && !self.is_script() => Verdict::Pass,
            Rule::DenyAtTier2 if self.has_own_tree => Verdict::Pass,
            Rule::DenyInOneProcess if !self.is_one_process => Verdict::Pass,
            Rule::AbsentForScripts if self.is_script() => Verdict::Unknown,
            Rule::Deny | Rule::DenyAtTier2 | Rule::DenyInOneProcess => Verdict::Refuse,
            Rule::Answer(error) => Verdict::Answer(error),
            Rule::Allow | Rule::DenyIf(_) | Rule::ByRun(_) | Rule::AbsentForScripts => {
                Verdict::Pass
            }
        }
    }

    /// Returns the conditions under which the call of `row` is denied, although the row's rule allows the call in
    /// general.
    fn denied(self, row: &Row) -> Vec<Condition> {
        match row.rule {
            _ if is_exec(row.call) && !self.is_script() => Vec::new(),
            Rule::DenyIf(conditions) => conditions.to_vec(),
            Rule::ByRun(by_run) => {
                let in_one_process = self.is_one_process.then_some(by_run.in_one_process);
                let for_scripts = self.is_script().then_some(by_run.for_scripts);
                let groups = [Some(by_run.always), in_one_process, for_scripts];
                groups.into_iter().flatten().flatten().copied().collect()
            }
            Rule::Allow
            | Rule::Deny
            | Rule::DenyAtTier2
            | Rule::DenyInOneProcess
            | Rule::Answer(_)
            | Rule::AbsentForScripts => Vec::new(),
        }
    }

    /// Returns the conditions under which a call with this rule succeeds without running, although the rule allows the
    /// call in general.
    fn answered(self, rule: Rule) -> &'static [Condition] {
        match rule {
            Rule::ByRun(by_run) if self.is_script() => by_run.answered_for_scripts,
            Rule::ByRun(_)
            | Rule::DenyIf(_)
            | Rule::Allow
            | Rule::Deny
            | Rule::DenyAtTier2
            | Rule::DenyInOneProcess
            | Rule::Answer(_)
            | Rule::AbsentForScripts => &[],
        }
    }
}

/// Returns the system calls and rules from the tables of all modules, in no particular order.
fn rows() -> impl Iterator<Item = &'static Row> {
    [
        files::ROWS,
        metadata::ROWS,
        memory::ROWS,
        processes::ROWS,
        sockets::ROWS,
        administration::ROWS,
        #[cfg(target_arch = "x86_64")]
        files::LEGACY_ROWS,
        #[cfg(target_arch = "x86_64")]
        metadata::LEGACY_ROWS,
        #[cfg(target_arch = "x86_64")]
        processes::LEGACY_ROWS,
        #[cfg(target_arch = "x86_64")]
        sockets::LEGACY_ROWS,
        #[cfg(target_arch = "x86_64")]
        administration::LEGACY_ROWS,
    ]
    .into_iter()
    .flatten()
}

/// Returns the error for a failed step of building or installing a filter. The cause is a mistake in the table of
/// system calls or an unsupported machine, never the script.
fn failed(step: impl Into<String>) -> LaunchError {
    LaunchError::FilterCalls(step.into())
}

/// Compiles the filters of a run.
pub(crate) fn compile(run: Filtered) -> Result<Filters, LaunchError> {
    let architecture = TargetArch::try_from(ARCH)
        .map_err(|_| failed(format!("build system call filters for the architecture {ARCH}")))?;
    let program_path = ProgramPath::new();
    let path_address = program_path.address();
    let path_address =
        path_address.map_err(|_| failed("note the address of the program's path"))?;

    let (mut denied, mut answered) = (BTreeMap::new(), BTreeMap::new());
    let mut verdicts = BTreeMap::new();
    for row in rows() {
        let verdict = run.verdict(row);
        if verdict == Verdict::Pass {
            let conditions = run.denied(row);
            for (conditions, rules_of) in
                [(conditions.as_slice(), &mut denied), (run.answered(row.rule), &mut answered)]
            {
                if !conditions.is_empty() {
                    rules_of.insert(row.call, rules(row.name, conditions, path_address)?);
                }
            }
        }
        let number = u32::try_from(row.call)
            .map_err(|_| failed(format!("use the number of {}", row.name)))?;
        verdicts.insert(number, verdict);
    }

    let by_arguments = |rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32| {
        let action = SeccompAction::Errno(error.cast_unsigned());
        SeccompFilter::new(rules, SeccompAction::Allow, action, architecture)
            .and_then(BpfProgram::try_from)
            .map_err(|_| failed("build the argument filters"))
            .and_then(checked_length)
    };
    Ok(Filters {
        arguments: by_arguments(denied, libc::EPERM)?,
        answers: if answered.is_empty() { Vec::new() } else { by_arguments(answered, 0)? },
        numbers: checked_length(number_filter(&verdicts)?)?,
        program_path,
    })
}

fn is_exec(call: libc::c_long) -> bool {
    matches!(call, libc::SYS_execve | libc::SYS_execveat)
}

impl Filters {
    /// Installs the filters in the calling thread, irrevocably. The caller must be single-threaded and must have
    /// completed all other steps of the launch: only the `execveat` of [`PROGRAM_FD`] can follow.
    ///
    /// The number filter, which filters by the number of the system call, must be installed last. It blocks `seccomp`,
    /// because `seccomp` is not in the table of system calls (`table.rs`). The other filters allow the two calls that
    /// install a filter: `prctl(PR_SET_NO_NEW_PRIVS)` and `seccomp`.
    pub(crate) fn install(&self) -> Result<(), LaunchError> {
        let install = |filter, step| seccompiler::apply_filter(filter).map_err(|_| failed(step));
        install(&self.arguments, "install the argument filter")?;
        if !self.answers.is_empty() {
            install(&self.answers, "install the answer filter")?;
        }
        install(&self.numbers, "install the number filter")
    }

    /// Returns the filters in the kernel's format (`struct sock_filter`, seccomp(2)), in the order of their
    /// installation.
    pub(crate) fn bytes(&self) -> Vec<Vec<u8>> {
        let programs = [&self.arguments, &self.answers, &self.numbers];
        let programs = programs.into_iter().filter(|program| !program.is_empty());
        let bytes = programs.map(|program| {
            let bytes = program.iter().flat_map(|instruction| {
                let sock_filter { code, jt, jf, k } = instruction;
                let [first, second] = code.to_ne_bytes();
                [first, second, *jt, *jf].into_iter().chain(k.to_ne_bytes())
            });
            bytes.collect()
        });
        bytes.collect()
    }

    /// Returns the empty path that the launcher passes to `execveat` together with [`PROGRAM_FD`] and `AT_EMPTY_PATH`.
    /// The filters refuse an empty path at another address.
    pub(crate) fn program_path(&self) -> &CStr {
        self.program_path.as_c_str()
    }

    /// Returns the numbers of instructions of the argument filter, the answer filter and the number filter.
    #[cfg(test)]
    fn instructions(&self) -> [usize; 3] {
        [self.arguments.len(), self.answers.len(), self.numbers.len()]
    }
}

/// The number filter's action for a call. The action does not depend on the arguments of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Refuse,
    Unknown,
    /// The call does not run. It fails with this error, or succeeds if the error is 0.
    Answer(i32),
    Kill,
}

impl Verdict {
    fn action(self) -> SeccompAction {
        match self {
            Self::Pass => SeccompAction::Allow,
            Self::Refuse => SeccompAction::Errno(libc::EPERM.cast_unsigned()),
            Self::Unknown => SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
            Self::Answer(error) => SeccompAction::Errno(error.cast_unsigned()),
            Self::Kill => SeccompAction::KillProcess,
        }
    }
}

fn rules(
    call: &'static str,
    conditions: &[Condition],
    path_address: u64,
) -> Result<Vec<SeccompRule>, LaunchError> {
    conditions
        .iter()
        .map(|condition| conjunction(condition, path_address))
        .collect::<Result<_, _>>()
        .map_err(|_| failed(format!("express the rule for {call}")))
}

fn conjunction(condition: Condition, path_address: u64) -> Result<SeccompRule, BackendError> {
    let tests = condition.iter().map(|test| comparison(test, path_address));
    SeccompRule::new(tests.collect::<Result<_, _>>()?)
}

fn comparison(test: &Test, path_address: u64) -> Result<SeccompCondition, BackendError> {
    let (length, operator, value) = match test.comparison {
        Comparison::Equals(value) => (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(value)),
        Comparison::NotEquals(value) => {
            (SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, u64::from(value))
        }
        Comparison::MaskedEquals { mask, value } => {
            (SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(u64::from(mask)), u64::from(value))
        }
        Comparison::NotNull => (SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0),
        Comparison::NotProgramPath => (SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, path_address),
    };
    SeccompCondition::new(test.argument, length, operator, value)
}

fn checked_length(program: BpfProgram) -> Result<BpfProgram, LaunchError> {
    let instructions = program.len();
    if instructions > INSTRUCTIONS_MAX {
        return Err(failed(format!(
            "keep a filter of {instructions} instructions within {INSTRUCTIONS_MAX}"
        )));
    }
    Ok(program)
}

/// Builds the number filter. The filter does a binary search for the range of numbers that contains the call's number,
/// because adjacent numbers mostly share a verdict. The filter must be fast, because the kernel evaluates it once for
/// each number when the filter is installed.
///
/// For calls of the x32 ABI, which form the highest range, the filter kills the process. The numbers of these calls
/// have a bit that no call of the 64-bit ABI has (CVE-2014-0038 was in an x32 call). No other check would notice these
/// calls, because both ABIs have the same architecture value. On other architectures no call has this bit.
///
/// The number filter does not check the architecture. For any other architecture, the argument filter kills the
/// process, and no result of the number filter is stricter.
fn number_filter(verdicts: &BTreeMap<u32, Verdict>) -> Result<BpfProgram, LaunchError> {
    const X32_SYSCALL_BIT: u32 = 0x4000_0000;
    // The call's number is the first field of `struct seccomp_data`.
    const NUMBER_OFFSET: u32 = 0;

    let mut program = vec![sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: NUMBER_OFFSET }];
    program.extend(search(&runs(verdicts, X32_SYSCALL_BIT))?);
    Ok(program)
}

// The instruction codes are written out, because the constants in `libc` have a type that would need a conversion.
const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP_IF_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// Returns the instructions that find the verdict for the loaded number among the ranges `runs`.
fn search(runs: &[(u32, Verdict)]) -> Result<BpfProgram, LaunchError> {
    let (lower, upper) = runs.split_at(runs.len() / 2);
    let [(first, _), ..] = upper else {
        // Unreachable, because the ranges cover every number.
        return Err(failed("find a verdict for every number"));
    };
    let [(_, verdict)] = runs else {
        let lower = search(lower)?;
        // A jump skips at most 255 instructions, so the filter may have about 255 ranges.
        let over = u8::try_from(lower.len()).map_err(|_| failed("jump over half of the runs"))?;
        let mut program = vec![sock_filter { code: JUMP_IF_AT_LEAST, jt: over, jf: 0, k: *first }];
        program.extend(lower);
        program.extend(search(upper)?);
        return Ok(program);
    };
    Ok(vec![sock_filter { code: RETURN, jt: 0, jf: 0, k: u32::from(verdict.action()) }])
}

/// Returns the first number and the verdict of each range, in ascending order. Numbers without a row are
/// [`Verdict::Unknown`], and numbers from `killed_from` on are [`Verdict::Kill`].
fn runs(verdicts: &BTreeMap<u32, Verdict>, killed_from: u32) -> Vec<(u32, Verdict)> {
    let mut runs = Vec::new();
    let mut next = 0;
    for (&number, &verdict) in verdicts {
        if number > next {
            runs.push((next, Verdict::Unknown));
        }
        runs.push((number, verdict));
        next = number.saturating_add(1);
    }
    runs.extend([(next, Verdict::Unknown), (killed_from, Verdict::Kill)]);
    runs.dedup_by_key(|(_, verdict)| *verdict);
    runs
}
