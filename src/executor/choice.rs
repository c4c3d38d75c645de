//! Chooses the fork server for a script by the script's imports.
//!
//! A wrong choice only costs time, because a child imports the modules that its fork server has not loaded.

use crate::safety::is_in_standard_library;

/// The top-level modules of the libraries that scripts draw with.
const DRAWING: [&str; 4] = ["matplotlib", "mpl_toolkits", "pylab", "seaborn"];

/// Returns the index of the fork server for a script. `imports` is `None` if the script's imports are unknown. `loaded`
/// lists the modules of each fork server. Each list includes the previous list.
///
/// Chooses the first fork server that has loaded all imports of the script. Modules of the standard library do not
/// count, because most of them load in no time. If no fork server has loaded all imports, or if the imports are
/// unknown, chooses the last fork server without a drawing library, because other packages probably need the modules
/// that it has loaded. A script that draws gets the last fork server.
pub(super) fn of(imports: Option<&[String]>, loaded: &[&[String]]) -> usize {
    let imported: Vec<&str> =
        imports.unwrap_or_default().iter().map(|name| topmost(name)).collect();
    let last = loaded.len().saturating_sub(1);
    let drawing = loaded
        .iter()
        .position(|modules| modules.iter().any(|name| DRAWING.contains(&topmost(name))));
    if drawing.is_some() && imported.iter().any(|name| DRAWING.contains(name)) {
        return last;
    }
    let usual = drawing.map_or(last, |drawing| drawing.saturating_sub(1));
    if imports.is_none() {
        return usual;
    }
    let has_all = |modules: &&[String]| {
        imported.iter().all(|name| {
            modules.iter().any(|module| topmost(module) == *name) || is_in_standard_library(name)
        })
    };
    loaded.iter().position(has_all).map_or(usual, |first| first.min(usual))
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
        let drawing = [&usual[..], &list("matplotlib.pyplot")].concat();
        for (imports, among_three, among_two) in [
            ("math", 0, 0),
            ("collections.deque json weakref.ref", 0, 0),
            ("json sympy.abc.x", 1, 1),
            ("numpy.linalg", 1, 1),
            ("pandas", 1, 1),
            ("math mathematics", 1, 1),
            ("matplotlib", 2, 1),
            ("seaborn.lineplot", 2, 1),
            ("mpl_toolkits.mplot3d numpy", 2, 1),
        ] {
            let imports = list(imports);
            let three = [&light[..], &usual, &drawing];
            let of = |loaded: &[&[String]]| of(Some(&imports), loaded);
            assert_eq!(of(&three), among_three, "{imports:?}");
            assert_eq!(of(&three[..2]), among_two, "{imports:?}");
            assert_eq!(of(&three[..1]), 0, "{imports:?}");
        }
        let three = [&light[..], &usual, &drawing];
        assert_eq!((of(Some(&[]), &three), of(None, &three), of(None, &three[..1])), (0, 1, 0));
    }
}
