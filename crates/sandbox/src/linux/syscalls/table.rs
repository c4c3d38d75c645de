//! The rows of the table, and the table itself: the rows of all groups.
//!
//! A call that no row names does not exist for the script (`ENOSYS`). That is the better answer
//! wherever libraries probe for a newer call and have a fallback, and for what nobody misses. Left
//! out for a reason:
//!
//! - `clone3`: its flags are in memory, where no filter sees them; glibc falls back to `clone`.
//! - `seccomp` and `landlock_*`: the launcher is done with them, and nothing else needs them.
//! - `openat2`, `io_setup` and its family, `timerfd_*`, `signalfd*`, `pkey_*`, `futex_waitv`,
//!   `map_shadow_stack`, `statmount`, `listmount`: no workload of ours needs them.
//! - `inotify_*`: watches count against a limit of the user, which the script shares with others.
//! - `setxattrat`, `removexattrat`, `file_setattr`: newer twins of calls that tier 2 denies.
//!
//! Arguments that the kernel declares as `int` or `unsigned int` are compared by their lower 32
//! bits: the kernel drops the upper half, so a comparison of all 64 bits would miss the same value
//! with rubbish above it. Pointers are compared whole.

/// A system call, and the filters' rule for it.
pub(super) struct Row {
    pub call: i64,
    pub name: &'static str,
    pub rule: Rule,
    /// For an allowed call what needs it; for a denied one what it would give an attacker.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "written for readers, and checked by a test")
    )]
    pub why: &'static str,
}

/// The rule for a call of the table: it runs, fails, or is answered without being run.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    Allow,
    /// Fails with `EPERM`.
    Deny,
    /// Denied when any of the conditions holds.
    DenyIf(&'static [Condition]),
    /// Denied where the machine gives no namespaces (tier 2): Landlock does not control metadata,
    /// so that every file of the user could be changed by its path.
    DenyAtTier2,
    /// Denied where the run has to stay one process.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "other architectures fork by `clone` alone")
    )]
    DenyInOneProcess,
    /// Denied and answered by conditions that depend on the run.
    ByRun(&'static RunConditions),
    /// Not run; the caller gets this error (`errno(3)`), or success where it is 0.
    Answer(i32),
    /// Does not exist for scripts (`ENOSYS`); allowed for projects.
    AbsentForScripts,
}

/// Conditions of which each group counts for some runs only.
pub(super) struct RunConditions {
    /// Deny it in every run.
    pub always: &'static [Condition],
    /// Deny it where the run has to stay one process.
    pub(super) in_one_process: &'static [Condition],
    /// Deny it to scripts; projects may.
    pub(super) for_scripts: &'static [Condition],
    /// Scripts get success for it, and the kernel does nothing.
    pub(super) answered_for_scripts: &'static [Condition],
}

/// Holds when all of its tests hold.
pub(super) type Condition = &'static [Test];

/// A test of one argument, counted from 0.
pub(super) struct Test {
    pub argument: u8,
    pub(super) comparison: Comparison,
}

/// The comparison of an argument.
pub(super) enum Comparison {
    /// The lower 32 bits are this value.
    Equals(u32),
    /// The lower 32 bits are not this value.
    NotEquals(u32),
    /// Those of the lower 32 bits that are in the mask are this value.
    MaskedEquals { mask: u32, value: u32 },
    /// The argument, a pointer of 64 bits, is not null.
    NotNull,
    /// The argument, a pointer of 64 bits, is not the launcher's path (see `program_path`).
    NotProgramPath,
}

/// Makes rows: a call by its constant in `libc`, or `= CONSTANT` where that has none, the rule, and the
/// reason.
macro_rules! rows {
    ($($call:ident $(= $number:ident)?: $rule:expr, $why:literal;)*) => {
        &[$($crate::linux::syscalls::table::Row {
            call: rows!(@number $call $(= $number)?),
            name: stringify!($call).split_at("SYS_".len()).1,
            rule: $rule,
            why: $why,
        }),*]
    };
    (@number $call:ident) => { nix::libc::$call };
    (@number $call:ident = $number:ident) => { $number };
}
pub(super) use rows;

pub(super) const fn is(argument: u8, value: u32) -> Test {
    Test { argument, comparison: Comparison::Equals(value) }
}

pub(super) const fn is_not(argument: u8, value: u32) -> Test {
    Test { argument, comparison: Comparison::NotEquals(value) }
}

pub(super) const fn has_bit(argument: u8, bit: u32) -> Test {
    Test { argument, comparison: Comparison::MaskedEquals { mask: bit, value: bit } }
}

pub(super) const fn lacks_bit(argument: u8, bit: u32) -> Test {
    Test { argument, comparison: Comparison::MaskedEquals { mask: bit, value: 0 } }
}

pub(super) const fn not_null(argument: u8) -> Test {
    Test { argument, comparison: Comparison::NotNull }
}

pub(super) const fn is_not_program_path(argument: u8) -> Test {
    Test { argument, comparison: Comparison::NotProgramPath }
}
