//! Tests of the table of system calls and of the compiled filter programs. Integration tests run scripts under the
//! filters, to check the kernel's results.

use std::collections::{BTreeMap, BTreeSet};

use nix::libc;
use seccompiler::sock_filter;

use super::Verdict::{Answer, Kill, Pass, Refuse, Unknown};
use super::table::{Row, Rule};
use super::{
    Becomes, Filtered, INSTRUCTIONS_MAX, JUMP_IF_AT_LEAST, LOAD_WORD, RETURN, compile, files,
    processes, rows, runs,
};

/// The filters for a script at tier 3, before the launcher executes Python.
const SCRIPT: Filtered =
    Filtered { has_own_tree: true, is_one_process: false, becomes: Becomes::Program };
/// The filters for a script at tier 2, which must stay one process.
const LONE_SCRIPT: Filtered = Filtered { has_own_tree: false, is_one_process: true, ..SCRIPT };
/// The filters for the tests of a project at tier 2.
const PROJECT: Filtered =
    Filtered { has_own_tree: false, is_one_process: false, becomes: Becomes::Executable };

fn row(name: &str) -> Option<&'static Row> {
    rows().find(|row| row.name == name)
}

#[test]
fn every_call_has_one_row() {
    let mut calls = BTreeSet::new();
    let mut names = BTreeSet::new();
    for row in rows() {
        assert!(calls.insert(row.call), "two rows for the number of {}", row.name);
        assert!(names.insert(row.name), "two rows for the name {}", row.name);
    }
}

#[test]
fn every_row_has_a_reason() {
    for row in rows() {
        assert!(row.why.len() > 3, "{} has no reason", row.name);
        if let Rule::DenyIf(conditions) = row.rule {
            assert!(!conditions.is_empty(), "{} is denied if nothing", row.name);
            assert!(conditions.iter().all(|tests| !tests.is_empty()), "{}", row.name);
        }
    }
}

#[test]
fn calls_whose_absence_others_rely_on_are_not_in_the_table() {
    for name in ["clone3", "seccomp", "landlock_restrict_self", "openat2", "io_setup"] {
        assert!(row(name).is_none(), "{name} is in the table");
    }
}

#[test]
fn nothing_that_starts_a_program_is_allowed() {
    assert!(matches!(row("execve").unwrap().rule, Rule::Deny));
    assert!(
        matches!(row("execveat").unwrap().rule, Rule::DenyIf(conditions) if conditions.len() == 3)
    );
}

#[test]
fn all_programs_fit_into_the_kernel() {
    for run in [SCRIPT, LONE_SCRIPT, PROJECT] {
        for instructions in compile(run).unwrap().instructions() {
            assert!(instructions < INSTRUCTIONS_MAX, "{run:?}: {instructions}");
        }
    }
}

#[test]
fn a_rule_depends_on_the_run_as_it_says() {
    let verdicts =
        |name: &str| [SCRIPT, LONE_SCRIPT, PROJECT].map(|run| run.verdict(row(name).unwrap()));
    assert_eq!(verdicts("fchmod"), [Pass, Refuse, Refuse]);
    assert_eq!(verdicts("flock"), [Unknown, Unknown, Pass]);
    assert_eq!(verdicts("fsync"), [Answer(0); 3]);
    assert_eq!(verdicts("setsid"), [Answer(0); 3]);
    assert_eq!(verdicts("sendfile"), [Answer(libc::ENOTSOCK); 3]);
    assert_eq!(verdicts("execve"), [Refuse, Refuse, Pass]);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(verdicts("fork"), [Pass, Refuse, Pass]);
        assert_eq!(verdicts("vfork"), [Unknown, Unknown, Pass]);
    }
    let denied =
        |name: &str| [SCRIPT, LONE_SCRIPT, PROJECT].map(|run| run.denied(row(name).unwrap()).len());
    let [with_children, alone, project] = denied("clone");
    assert_eq!((with_children, alone), (project + 1, project + 2));
    let [script, lone_script, project] = denied("fcntl");
    assert_eq!((lone_script, script), (script, project + 2));
    let answered =
        [SCRIPT, LONE_SCRIPT, PROJECT].map(|run| run.answered(row("fcntl").unwrap().rule).len());
    assert_eq!(answered, [2, 2, 0]);
}

#[test]
fn runs_cover_all_numbers() {
    let verdicts = BTreeMap::from([(0, Pass), (1, Pass), (2, Refuse), (5, Pass), (6, Unknown)]);
    assert_eq!(
        runs(&verdicts, 100),
        [(0, Pass), (2, Refuse), (3, Unknown), (5, Pass), (6, Unknown), (100, Kill)]
    );
    assert_eq!(runs(&BTreeMap::new(), 7), [(0, Unknown), (7, Kill)]);
    assert_eq!(
        runs(&BTreeMap::from([(3, Pass)]), 7),
        [(0, Unknown), (3, Pass), (4, Unknown), (7, Kill)]
    );
}

/// Returns the result of the number filter `program` for the call `number`, as the kernel would compute it.
fn result_of(program: &[sock_filter], number: u32) -> u32 {
    assert_eq!((program[0].code, program[0].k), (LOAD_WORD, 0));
    let mut at = 1;
    loop {
        let instruction = &program[at];
        at += 1;
        match instruction.code {
            RETURN => return instruction.k,
            JUMP_IF_AT_LEAST if number >= instruction.k => at += usize::from(instruction.jt),
            JUMP_IF_AT_LEAST => at += usize::from(instruction.jf),
            code => panic!("instruction {code:#x}"),
        }
    }
}

#[test]
fn the_number_filter_finds_the_verdict_of_every_number() {
    const X32: u32 = 0x4000_0000;
    for run in [SCRIPT, LONE_SCRIPT, PROJECT] {
        let filters = compile(run).unwrap();
        let verdicts: BTreeMap<u32, _> =
            rows().map(|row| (u32::try_from(row.call).unwrap(), run.verdict(row))).collect();
        let edges = [X32 - 1, X32, X32 + 1, X32 + 60, u32::MAX];
        for number in (0..2000).chain(edges) {
            let is_x32 = number >= X32;
            let otherwise = if is_x32 { Kill } else { Unknown };
            let verdict = verdicts.get(&number).copied().unwrap_or(otherwise);
            let expected = u32::from(verdict.action());
            assert_eq!(result_of(&filters.numbers, number), expected, "{run:?} {number}");
        }
    }
}

#[test]
fn each_compilation_chooses_another_address_of_an_empty_path() {
    let (one, other) = (compile(SCRIPT).unwrap(), compile(SCRIPT).unwrap());
    assert!(one.program_path().is_empty());
    assert_ne!(one.program_path().as_ptr(), other.program_path().as_ptr());
    assert_ne!(one.arguments, other.arguments);
}

#[test]
fn the_path_stays_where_it_is_when_the_filters_move() {
    let filters = compile(SCRIPT).unwrap();
    let address = filters.program_path().as_ptr();
    let moved = Box::new(filters);
    assert_eq!(moved.program_path().as_ptr(), address);
}

// The test needs glibc, because the constants in `libc` have other types with musl.
#[cfg(target_env = "gnu")]
#[test]
fn numbers_that_are_written_out_are_those_of_libc() {
    assert_eq!(u64::from(files::TCGETS), libc::TCGETS);
    assert_eq!(u64::from(files::TIOCGWINSZ), libc::TIOCGWINSZ);
    assert_eq!(u64::from(files::FIONREAD), libc::FIONREAD);
    assert_eq!(u64::from(files::FIONBIO), libc::FIONBIO);
    assert_eq!(u64::from(files::FIOCLEX), libc::FIOCLEX);
    assert_eq!(u64::from(files::FIONCLEX), libc::FIONCLEX);
    assert_eq!(processes::RLIMIT_NOFILE, libc::RLIMIT_NOFILE);
}
