//! The tests as a list: each with a name, what it needs of the machine, and what it does.
//!
//! Rust's own harness cannot report a test as ignored at run time. This one does, by name and with
//! the reason, and a test that is not listed is dead code, of which the compiler warns.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::thread;

use libtest_mimic::{Arguments, Failed, Trial};

use super::machine::{self, Need};

/// A test that can be run, or ignored by its name.
pub(crate) struct Test {
    name: String,
    needs: Vec<Need>,
    run: Box<dyn FnOnce() + Send>,
}

impl Test {
    /// `module` is a `module_path!()`.
    pub(crate) fn new(
        module: &str,
        name: &str,
        needs: &[Need],
        run: impl FnOnce() + Send + 'static,
    ) -> Self {
        let group = module.split_once("::").map_or("", |(_, group)| group);
        Self { name: format!("{group}::{name}"), needs: needs.to_vec(), run: Box::new(run) }
    }

    /// The module of the test.
    fn group(&self) -> &str {
        self.name.rsplit_once("::").map_or("", |(group, _)| group)
    }
}

/// Lists the tests of a module: the function `tests` for `main`.
///
/// ```ignore
/// tests! {
///     needs []: imports_go_one_way;
///     needs [Tier3, Root]: nothing_gets_out, limits_hold;
/// }
/// ```
macro_rules! tests {
    ($(needs $needs:tt: $($(#[$attribute:meta])* $name:ident),+ $(,)?;)+) => {
        /// The tests of this module.
        pub(crate) fn tests() -> Vec<$crate::harness::Test> {
            Vec::from([$($(
                $(#[$attribute])*
                $crate::harness::Test::new(
                    module_path!(),
                    stringify!($name),
                    &needs!($needs),
                    $name,
                )
            ),+),+])
        }
    };
}

macro_rules! needs {
    ([$($need:ident),*]) => { [$($crate::harness::Need::$need),*] };
}

/// Runs the tests that the command line selects.
pub(crate) fn run(tests: Vec<Test>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    if arguments.test_threads.is_none() {
        let threads = std::env::var("RUST_TEST_THREADS").ok();
        arguments.test_threads = threads.and_then(|threads| threads.parse().ok());
    }
    let selected: Vec<Test> =
        tests.into_iter().filter(|test| is_selected(&arguments, test)).collect();
    // Now, and not silently within the first test: it takes minutes.
    let uses_python = selected.iter().any(|test| test.needs.iter().any(Need::takes_python));
    if uses_python && !arguments.list {
        super::python();
    }
    let fails_instead = std::env::var_os("CI").is_some();
    if !arguments.list {
        report_obstacles(&selected, fails_instead);
    }
    let trials = selected.into_iter().map(|test| trial(test, fails_instead)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn is_selected(arguments: &Arguments, test: &Test) -> bool {
    // Whether it will be ignored is not known yet, and asking can take an interpreter.
    let trial = Trial::test(&test.name, || Ok(())).with_ignored_flag(true);
    !arguments.is_filtered_out(&trial)
}

/// Says what the machine lacks, in a line each: which tests are ignored for it, and why.
#[expect(clippy::print_stderr, reason = "a harness reports")]
fn report_obstacles(tests: &[Test], fails_instead: bool) {
    let mut lacking: BTreeMap<&Need, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        for need in test.needs.iter().filter(|need| machine::obstacle(need).is_some()) {
            lacking.entry(need).or_default().push(test);
        }
    }
    for (need, tests) in lacking {
        let reason = machine::obstacle(need).unwrap_or_default();
        let groups: BTreeSet<&str> = tests.iter().map(|test| test.group()).collect();
        let groups = groups.into_iter().collect::<Vec<_>>().join(", ");
        let end = if fails_instead { "fail, because CI is set" } else { "are ignored" };
        eprintln!("no {need} here ({reason}): {} tests of {groups} need it and {end}", tests.len());
    }
}

fn trial(test: Test, fails_instead: bool) -> Trial {
    let lacking = test.needs.iter().filter(|need| machine::obstacle(need).is_some());
    let lacking = lacking.map(Need::to_string).collect::<Vec<_>>().join(" and ");
    if lacking.is_empty() {
        return Trial::test(&test.name, named(test.name.clone(), test.run));
    }
    if fails_instead {
        let reason = format!("it must not be ignored where CI is set, and needs {lacking}");
        return Trial::test(test.name, move || Err(reason.into()));
    }
    Trial::test(&test.name, named(test.name.clone(), test.run))
        .with_kind(format!("needs {lacking}"))
        .with_ignored_flag(true)
}

/// The test in a thread with its name, which panics tell.
fn named(name: String, run: Box<dyn FnOnce() + Send>) -> impl FnOnce() -> Result<(), Failed> {
    move || {
        let thread = thread::Builder::new().name(name).spawn(run)?;
        thread.join().map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Failed::from(text.unwrap_or("it panicked"))
        })
    }
}
