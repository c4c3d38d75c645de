//! Defines the types of the table of system calls. The rows of the table are in the other modules of this folder. This
//! module never compiles a filter.
//!
//! A call without a row fails with `ENOSYS`, as if the kernel did not have the call. Then libraries that probe for a
//! newer call use their fallback. The following calls have no row, for these reasons:
//!
//! - `clone3`: its flags are in memory, which a filter cannot read; glibc falls back to `clone`.
//! - `seccomp` and `landlock_*`: only the launcher needs them, and only before the last filter is installed.
//! - `openat2`, `io_setup` and its family, `timerfd_*`, `signalfd*`, `pkey_*`, `futex_waitv`, `map_shadow_stack`,
//!   `statmount`, `listmount`: no script that we know of needs them.
//! - `inotify_*`: watches count against a limit that all programs of the user share.
//! - `setxattrat`, `removexattrat`, `file_setattr`: newer versions of calls that tier 2 denies.
//!
//! Arguments that the kernel declares as `int` or `unsigned int` are compared by their lower 32 bits. The kernel
//! ignores the upper half, so a comparison of all 64 bits would miss an equal value with other upper bits. Pointers are
//! compared completely.

/// A system call, and the rule of the filters for this call.
pub(super) struct Row {
    pub call: i64,
    pub name: &'static str,
    pub rule: Rule,
    /// The reason for the rule: the programs that need an allowed call, or the use of a denied call for an attacker.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "written for readers, and checked by a test")
    )]
    pub why: &'static str,
}

/// The rule for a call of the table: it runs, fails, or is answered without running.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    Allow,
    /// Fails with `EPERM`.
    Deny,
    /// Denied if any of the conditions holds.
    DenyIf(&'static [Condition]),
    /// Denied at tier 2, where the machine provides no namespaces. Otherwise a script could change the metadata of
    /// every file of the user, because Landlock does not control metadata.
    DenyAtTier2,
    /// Denied if the run must stay one process.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "other architectures fork by `clone` alone")
    )]
    DenyInOneProcess,
    /// Denied, or answered with success, under conditions that depend on the run.
    ByRun(&'static RunConditions),
    /// The call does not run. The script gets this error (`errno(3)`), or success if the error is 0.
    Answer(i32),
    /// Fails with `ENOSYS` for scripts, as if the call did not exist. Allowed for the tests of a project.
    AbsentForScripts,
}

/// Groups of conditions for one call. Each group applies to certain runs.
pub(super) struct RunConditions {
    /// The call is denied in every run if one of these conditions holds.
    pub always: &'static [Condition],
    /// The call is denied if one of these conditions holds and the run must stay one process.
    pub(super) in_one_process: &'static [Condition],
    /// The call is denied to scripts if one of these conditions holds, but allowed for the tests of a project.
    pub(super) for_scripts: &'static [Condition],
    /// If one of these conditions holds, scripts get success, and the kernel does nothing.
    pub(super) answered_for_scripts: &'static [Condition],
}

/// A condition for the arguments of a call. It holds if all of its tests hold.
pub(super) type Condition = &'static [Test];

/// A test of one argument of a call. Arguments are counted from 0.
pub(super) struct Test {
    pub argument: u8,
    pub(super) comparison: Comparison,
}

/// The comparison of an argument with a value.
pub(super) enum Comparison {
    /// The lower 32 bits are this value.
    Equals(u32),
    /// The lower 32 bits are not this value.
    NotEquals(u32),
    /// The lower 32 bits, combined with the mask by a bitwise AND, are this value.
    MaskedEquals { mask: u32, value: u32 },
    /// The argument, a 64-bit pointer, is not null.
    NotNull,
    /// The argument, a 64-bit pointer, is not the address of the empty path that the launcher passes to `execveat` (see
    /// `program_path`).
    NotProgramPath,
}

/// Builds rows from calls, rules and reasons. A call is the name of its constant in `libc`. If `libc` lacks the
/// constant, `= CONSTANT` follows the name.
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
