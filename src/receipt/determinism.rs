//! The reasons why two runs of the same script may differ.

use std::borrow::Cow;

/// The word for numbers of the machine where the script sets no seed.
pub(super) const RANDOM: &str = "random";

/// Modules whose use makes a script differ from run to run, and the reason. A part of what a receipt says of a
/// script: that it imports one of them is no proof that it does differ.
const SOURCES: [(&str, &[&str], &str); 7] = [
    // Of logging a format has the time.
    ("time", &["time", "datetime", "calendar", "zoneinfo", "logging"], "the clock goes on"),
    (
        RANDOM,
        &["random", "numpy.random"],
        "numbers from the machine, unless the script sets a seed",
    ),
    ("secrets", &["secrets", "ssl"], "random bits of the machine"),
    ("uuid", &["uuid"], "random bits of the machine, or its clock"),
    (
        "threads",
        &["threading", "concurrent", "multiprocessing", "asyncio", "queue", "_thread"],
        "the kernel chooses who is next",
    ),
    ("files", &["tempfile", "os", "pathlib", "glob"], "names of scratch files, and their times"),
    ("memory", &["gc", "weakref", "ctypes", "tracemalloc"], "addresses, and when objects die"),
];

/// Returns by what a script may differ, of what it imports.
pub(super) fn may_differ_by(imports: &[String]) -> Vec<Cow<'static, str>> {
    let is_of = |import: &str, module: &str| {
        import.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let is_used = |modules: &[&str]| {
        modules.iter().any(|module| imports.iter().any(|import| is_of(import, module)))
    };
    let used = SOURCES.iter().filter(|(_, modules, _)| is_used(modules));
    used.map(|(word, _, _)| Cow::Borrowed(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_of_modules_count() {
        let found = |imports: &[&str]| {
            let imports: Vec<String> = imports.iter().map(|import| (*import).to_owned()).collect();
            may_differ_by(&imports).join(" ")
        };
        for (imports, expected) in [
            (&["math", "sympy"][..], ""),
            (&["time"], "time"),
            (&["timeit"], ""),
            (&["datetime.date", "numpy.random.default_rng"], "time random"),
            (&["numpy"], ""),
            (&["concurrent.futures", "uuid.uuid4", "secrets"], "secrets uuid threads"),
        ] {
            assert_eq!(found(imports), expected, "{imports:?}");
        }
        assert!(SOURCES.iter().all(|(_, modules, why)| !modules.is_empty() && !why.is_empty()));
    }
}
