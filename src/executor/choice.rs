//! Chooses the fork server for a script by the script's imports.
//!
//! A wrong choice only costs time, because a forked child imports the modules that its fork server has not loaded.

use crate::safety::is_in_standard_library;

/// The index of the default fork server. A script gets the default fork server if it imports a package that no fork
/// server has loaded. Such a package probably depends on modules that the default fork server has loaded.
const USUAL: usize = 1;

/// Pairs of a top-level module and one of its dependencies. No fork server loads the first module of a pair. A script
/// that imports the first module gets the first fork server that has loaded the dependency.
const BUILT_ON: [(&str, &str); 5] = [
    ("mpl_toolkits", "matplotlib"),
    ("pylab", "matplotlib"),
    ("seaborn", "matplotlib"),
    ("qwed", "qwed_new"),
    ("qwed_sdk", "qwed_new"),
];

/// Returns the index of the fork server for a script. `imports` is `None` if the script's imports are unknown. `loaded`
/// lists the modules of each fork server. Each list includes the previous list.
///
/// Chooses the first fork server that has loaded all imports of the script. Ignores imports of the standard library
/// that no fork server has loaded, because most of these modules load quickly.
pub(super) fn of(imports: Option<&[String]>, loaded: &[&[String]]) -> usize {
    let usual = USUAL.min(loaded.len().saturating_sub(1));
    let has = |name: &str| {
        loaded.iter().position(|modules| modules.iter().any(|module| topmost(module) == name))
    };
    let needed = |name: &str| {
        let below = || BUILT_ON.iter().find(|(built, _)| *built == name).map(|(_, on)| *on);
        match has(name) {
            Some(first) => first,
            None if is_in_standard_library(name) => 0,
            None => below().and_then(has).unwrap_or(usual),
        }
    };
    let Some(imports) = imports else { return usual };
    imports.iter().map(|name| needed(topmost(name))).max().unwrap_or(0)
}

fn topmost(name: &str) -> &str {
    name.split_once('.').map_or(name, |(topmost, _)| topmost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_gets_the_first_that_has_what_it_imports() {
        let list = |names: &str| names.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let light = list("json collections.abc math");
        let usual = [&light[..], &list("numpy sympy")].concat();
        let guards = [&usual[..], &list("qwed_legal qwed_new")].concat();
        let drawing = [&guards[..], &list("matplotlib.pyplot")].concat();
        for (imports, among_four, among_two) in [
            ("math", 0, 0),
            ("collections.deque json weakref.ref", 0, 0),
            ("json sympy.abc.x", 1, 1),
            ("numpy.linalg", 1, 1),
            ("pandas", 1, 1),
            ("math mathematics", 1, 1),
            ("numpy qwed_legal.DeadlineGuard", 2, 1),
            ("pandas qwed_new", 2, 1),
            ("qwed_sdk.QWEDLocal", 2, 1),
            ("matplotlib", 3, 1),
            ("qwed_legal matplotlib.pyplot", 3, 1),
            ("seaborn.lineplot", 3, 1),
            ("mpl_toolkits.mplot3d numpy", 3, 1),
        ] {
            let imports = list(imports);
            let four = [&light[..], &usual, &guards, &drawing];
            let of = |loaded: &[&[String]]| of(Some(&imports), loaded);
            assert_eq!(of(&four), among_four, "{imports:?}");
            assert_eq!(of(&four[..2]), among_two, "{imports:?}");
            assert_eq!(of(&four[..1]), 0, "{imports:?}");
        }
        let four = [&light[..], &usual, &guards, &drawing];
        assert_eq!((of(Some(&[]), &four), of(None, &four), of(None, &four[..1])), (0, 1, 0));
    }
}
