//! Names the theories and the packages on which the checks of a script rely.

use std::collections::BTreeSet;

use crate::executor::Package;

/// A theory: a package on which the checks of a script rely if the script imports the package. The Verification Context
/// of the run names the package in a label such as `SMT (z3 4.13.0)`.
struct Theory {
    /// The module that scripts import. A name that ends with `_` stands for all modules with this prefix.
    module: &'static str,
    /// The name of the distribution. Empty for modules that end with `_`.
    distribution: &'static str,
    /// The first part of the label: the kind of theory.
    label: &'static str,
    /// The second part of the label: the name of the package. The version of the package follows.
    name: &'static str,
}

/// The packages that a document can name as theories.
#[rustfmt::skip]
const THEORIES: [Theory; 9] = [
    Theory { module: "z3", distribution: "z3-solver", label: "SMT", name: "z3" },
    Theory { module: "sympy", distribution: "sympy", label: "computer algebra", name: "SymPy" },
    Theory { module: "mpmath", distribution: "mpmath", label: "arbitrary-precision arithmetic", name: "mpmath" },
    Theory { module: "numpy", distribution: "numpy", label: "arrays of floating-point numbers", name: "NumPy" },
    Theory { module: "scipy", distribution: "scipy", label: "numerical methods", name: "SciPy" },
    Theory { module: "pandas", distribution: "pandas", label: "data tables", name: "pandas" },
    Theory { module: "networkx", distribution: "networkx", label: "graph algorithms", name: "NetworkX" },
    Theory { module: "pint", distribution: "pint", label: "units of measurement", name: "Pint" },
    Theory { module: "qwed_", distribution: "", label: "QWED guards", name: "" },
];

/// Modules whose name differs from the name of their distribution.
const DISTRIBUTIONS: [(&str, &str); 8] = [
    ("z3", "z3-solver"),
    ("PIL", "pillow"),
    ("yaml", "pyyaml"),
    ("sklearn", "scikit-learn"),
    ("dateutil", "python-dateutil"),
    ("bs4", "beautifulsoup4"),
    ("cv2", "opencv-python"),
    ("mpl_toolkits", "matplotlib"),
];

/// Returns the labels of the theories on which a script's checks rely, as one text. `imports` are the qualified names
/// that the script imports.
pub(super) fn theory(imports: &[String], packages: &[Package], source: &str) -> String {
    let modules = top_modules(imports);
    let mut labels = BTreeSet::new();
    for Theory { module, distribution, label, name } in &THEORIES {
        if module.ends_with('_') {
            for import in modules.iter().filter(|import| import.starts_with(module)) {
                let distribution = import.replace('_', "-");
                labels.insert(with_version(label, &distribution, version(packages, &distribution)));
            }
        } else if modules.contains(module) {
            let version = version(packages, distribution);
            let version = if *module == "z3" { version.map(three_parts) } else { version };
            labels.insert(with_version(label, name, version));
        }
    }
    if !labels.is_empty() {
        return Vec::from_iter(labels).join("; ");
    }
    let is_exact = !has_floats(source) && modules.iter().all(|module| *module != "math");
    let label =
        if is_exact { "exact integer and rational arithmetic" } else { "Python arithmetic" };
    label.to_owned()
}

/// Returns the distributions of the packages that a script imports, as `NAME==VERSION`, sorted. Omits packages that
/// are not installed and modules of the standard library.
pub(super) fn dependencies(imports: &[String], packages: &[Package]) -> Vec<String> {
    let distributions = top_modules(imports).into_iter().map(|module| {
        let renamed = DISTRIBUTIONS.iter().find(|(known, _)| *known == module);
        renamed.map_or_else(|| module.to_lowercase().replace('_', "-"), |(_, of)| (*of).to_owned())
    });
    let names: BTreeSet<String> = distributions.collect();
    let found = names.iter().filter_map(|name| Some((name, version(packages, name)?)));
    found.map(|(name, version)| format!("{name}=={version}")).collect()
}

fn top_modules(imports: &[String]) -> BTreeSet<&str> {
    imports.iter().map(|import| import.split('.').next().unwrap_or(import)).collect()
}

fn version<'a>(packages: &'a [Package], distribution: &str) -> Option<&'a str> {
    let is_it = |name: &str| {
        name.len() == distribution.len()
            && name.to_lowercase().replace(['_', '.'], "-") == distribution
    };
    packages.iter().find(|package| is_it(&package.name)).map(|package| &*package.version)
}

/// Returns the first three numbers of a version. The version of Z3's distribution has four numbers, but Z3 itself
/// reports only three.
fn three_parts(version: &str) -> &str {
    let end = version.match_indices('.').nth(2).map_or(version.len(), |(end, _)| end);
    version.get(..end).unwrap_or(version)
}

fn with_version(label: &str, name: &str, version: Option<&str>) -> String {
    match version {
        Some(version) => format!("{label} ({name} {version})"),
        None => format!("{label} ({name})"),
    }
}

/// Returns whether a script may compute with floating-point numbers. Searches the source for literals with a decimal
/// point or an exponent, true divisions, and the name `float`. A comment or a string can also match.
fn has_floats(source: &str) -> bool {
    let bytes = source.as_bytes();
    let at = |index: usize| bytes.get(index).copied().unwrap_or_default();
    let is_float = |(index, byte): (usize, &u8)| match byte {
        b'.' => at(index + 1).is_ascii_digit() || at(index.wrapping_sub(1)).is_ascii_digit(),
        b'e' | b'E' => {
            at(index.wrapping_sub(1)).is_ascii_digit()
                && (at(index + 1).is_ascii_digit() || matches!(at(index + 1), b'-' | b'+'))
        }
        b'/' => at(index + 1) != b'/' && at(index.wrapping_sub(1)) != b'/',
        _ => false,
    };
    source.contains("float") || bytes.iter().enumerate().any(is_float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages() -> Vec<Package> {
        [("z3_solver", "5.1.0.0"), ("SymPy", "1.14.0"), ("qwed-tax", "0.2.1"), ("pillow", "12.0")]
            .map(|(name, version)| Package { name: name.to_owned(), version: version.to_owned() })
            .to_vec()
    }

    fn imports(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn theories_have_fixed_labels_and_versions() {
        let theory = |names: &[&str], source| theory(&imports(names), &packages(), source);
        assert_eq!(
            theory(&["z3.Int", "sympy", "fractions"], ""),
            "SMT (z3 5.1.0); computer algebra (SymPy 1.14.0)"
        );
        assert_eq!(theory(&["qwed_tax.GSTGuard"], ""), "QWED guards (qwed-tax 0.2.1)");
        assert_eq!(theory(&["numpy"], ""), "arrays of floating-point numbers (NumPy)");
        for exact in ["assert 7 // 2 == 3", "assert x.real == 1", ""] {
            assert_eq!(theory(&[], exact), "exact integer and rational arithmetic", "{exact}");
        }
        for inexact in ["x = 1.5", "x = 1.", "x = .5", "x = 1e5", "x = a / b", "float(x)"] {
            assert_eq!(theory(&[], inexact), "Python arithmetic", "{inexact}");
        }
    }

    #[test]
    fn dependencies_are_distributions() {
        let names = ["z3", "PIL.Image", "sympy.abc", "sympy", "math", "unknown"];
        assert_eq!(
            dependencies(&imports(&names), &packages()),
            ["pillow==12.0", "sympy==1.14.0", "z3-solver==5.1.0.0"]
        );
    }
}
