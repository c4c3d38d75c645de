//! Advice for a script that imports a module that is not installed. The advice lists the installed modules, and the
//! command with which an admin can add the missing module.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::environments::{Lock, Requirement};
use crate::executor::{
    Ending, Installation, Outcome, Source, verification_modules, verification_package,
};

/// The beginning of the last line that Python prints when a module is not found.
const NOT_FOUND: &str = "ModuleNotFoundError: No module named '";

/// The maximum length of the name of a missing module, in bytes. Longer names get no advice.
const NAME_BYTES_MAX: usize = 100;
/// The maximum number of modules that the advice lists. It is small, because each name costs tokens of the model.
const MODULES_MAX: usize = 40;
/// The maximum number of dependencies that are read from the header of a script.
const DEPENDENCIES_MAX: usize = 10;

/// Modules that scripts often use, in addition to the verification libraries. The advice lists these modules before
/// other installed modules.
const USUAL: [&str; 6] = ["matplotlib", "mpmath", "networkx", "pandas", "pytest", "scipy"];

/// Installed modules that the advice omits, because scripts do not use them.
const TOOLS: [&str; 4] = ["pip", "setuptools", "pkg_resources", "wheel"];

/// The packages that a script requires, according to its header (PEP 723).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Dependencies {
    pub(super) packages: Vec<Requirement>,
    /// Whether the header lists further packages, which are not in `packages`.
    has_unread: bool,
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    dependencies: Vec<String>,
}

impl Dependencies {
    /// Reads the dependencies from the header of a script. An invalid header counts as a header without dependencies.
    pub(super) fn of(source: &str) -> Self {
        let mut lines = source.lines().skip_while(|line| line.trim_end() != "# /// script").skip(1);
        let mut header = String::new();
        let is_closed = lines.by_ref().map_while(|line| line.strip_prefix('#')).any(|line| {
            let is_end = line.trim_end() == " ///";
            if !is_end {
                header.push_str(line.strip_prefix(' ').unwrap_or(line));
                header.push('\n');
            }
            is_end
        });
        let header: Option<Header> = toml::from_str(&header).ok().filter(|_| is_closed);
        let named = header.map(|header| header.dependencies).unwrap_or_default();
        // Skip URLs, which do not parse as requirements. An admin should not copy a URL from a script into a command.
        let packages = named.iter().filter_map(|text| text.parse().ok());
        let packages: Vec<Requirement> = packages.take(DEPENDENCIES_MAX).collect();
        Self { has_unread: packages.len() < named.len(), packages }
    }
}

/// Returns the packages that are not installed. `installed` contains the folders of installed packages. Any version of
/// a package suffices.
pub(super) fn missing<'r>(
    packages: &'r [Requirement],
    installed: &[PathBuf],
) -> Vec<&'r Requirement> {
    packages.iter().filter(|it| !has_distribution(installed, it)).collect()
}

/// Returns the name of the missing module, if the script ended with a `ModuleNotFoundError`.
pub(super) fn missing_module(outcome: &Outcome) -> Option<String> {
    if outcome.ending != Ending::Exited(1) {
        return None;
    }
    let line = outcome.stderr.text.trim_end().lines().next_back()?;
    let (name, _) = line.strip_prefix(NOT_FOUND)?.split_once('\'')?;
    let is_name = name.split('.').all(is_identifier) && name.len() <= NAME_BYTES_MAX;
    is_name.then(|| name.to_owned())
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c == '_' || c.is_alphabetic())
        && text.chars().all(|c| c == '_' || c.is_alphanumeric())
}

/// The packages that the server installs for a script if the header of the script lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Installs {
    Nothing,
    /// The packages with these names. The script has no header with packages that the server installed.
    WithHeader(Vec<String>),
    /// The packages with these names. The server has already installed the packages in this script's header, so the
    /// package of the missing module is probably not in the header.
    WithLongerHeader(Vec<String>),
    /// The packages that this script lists could not be installed.
    Failed,
}

/// Returns the advice about a missing module. Reads folders, but starts no process.
pub(super) fn advice(
    module: &str,
    Dependencies { packages: dependencies, has_unread }: &Dependencies,
    installation: &Installation,
    installs: &Installs,
) -> String {
    let installed = modules(&installation.packages);
    let top = module.split('.').next().unwrap_or(module);
    if installed.contains(top) && top != module {
        return format!("{top} is installed for scripts, and has no module {module}.");
    }
    let known = verification_modules().chain(USUAL).filter(|known| installed.contains(*known));
    let known: Vec<&str> = known.collect();
    let others = installed.iter().map(String::as_str).filter(|other| !known.contains(other));
    let all: Vec<&str> = known.iter().copied().chain(others).collect();
    let listed = all.iter().take(MODULES_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = match all.len().saturating_sub(MODULES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let there = if all.is_empty() { "nothing".to_owned() } else { listed };
    let there = format!(
        "{module} is not installed for scripts. Besides the standard library, scripts can import: \
         {there}{more}."
    );
    let missing = missing(dependencies, &installation.packages);
    let unread = if *has_unread {
        format!(
            " A part of the script's header was not read: it may list {DEPENDENCIES_MAX} package \
             names, with conditions on the version, but without URLs and without conditions after \
             `;`."
        )
    } else {
        String::new()
    };
    let remedy = match (locked_package(top).filter(|_| missing.is_empty()), installs) {
        (_, Installs::Failed) => {
            "The packages in the script's header could not be installed; the admin finds the reason in the \
             server's log."
                .to_owned()
        }
        (_, Installs::WithLongerHeader(names)) => format!(
            "Add the package that contains it to the dependencies in the script's header. This \
             server may install {}, and the packages of `qwed-mcp env create`.{unread}",
            names.join(", ")
        ),
        (_, Installs::WithHeader(names)) if missing.is_empty() => listing(names, &unread),
        (Some(package), _) => remedy_of_locked(&package, &installation.source),
        (None, _) => remedy(&missing, &installation.source),
    };
    format!("{there} {remedy}")
}

fn listing(names: &[String], unread: &str) -> String {
    format!(
        "This server may install {}, and the packages of `qwed-mcp env create`, if the script begins with the lines \
         `# /// script`, `# dependencies = [\"NAME\"]` and `# ///`.{unread}",
        names.join(", ")
    )
}

/// Returns the package that contains a module, if `qwed-mcp env create` installs the package. A module and its package
/// may have different names: the module `z3` is in a package of another name, and the package `z3` on `PyPI` is not Z3.
pub(super) fn locked_package(module: &str) -> Option<String> {
    let package = verification_package(module).or_else(|| Lock::sdk_package(module));
    let package = package.unwrap_or(module);
    let package: Requirement = package.parse().ok()?;
    Lock::sdk_names().get(package.name()).cloned()
}

fn remedy_of_locked(package: &str, source: &Source) -> String {
    match source {
        Source::Configured => format!(
            "The admin can install {package} for the interpreter that QWED_MCP_PYTHON names."
        ),
        Source::Made(_) | Source::BesideProgram | Source::VirtualEnv | Source::Path => {
            "The admin can add it with the other packages: `qwed-mcp env create`.".to_owned()
        }
    }
}

fn remedy(missing: &[&Requirement], source: &Source) -> String {
    let names: Vec<&str> = missing.iter().map(|it| it.as_str()).collect();
    let words: Vec<String> = missing.iter().map(|it| format!("--with {}", it.quoted())).collect();
    let (names, words) = (names.join(", "), words.join(" "));
    match (source, missing.is_empty()) {
        (Source::Configured, true) => "The admin can install the package that contains it for the \
                                       interpreter that QWED_MCP_PYTHON names."
            .to_owned(),
        (Source::Configured, false) => format!(
            "The script's header asks for {names}; the admin can install that for the interpreter that \
             QWED_MCP_PYTHON names."
        ),
        (_, true) => "The admin can add the package that contains it: `qwed-mcp env create --with \
                      PACKAGE`."
            .to_owned(),
        (_, false) => format!(
            "The script's header asks for {names}; the admin can add that: `qwed-mcp env create {words}`."
        ),
    }
}

/// Returns the names of the modules in folders of installed packages.
fn modules(folders: &[PathBuf]) -> BTreeSet<String> {
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let module = |entry: fs::DirEntry| module_of(&entry.path());
    entries.filter_map(module).collect()
}

/// Returns the name of the module at this path, in a folder of installed packages. `None` if the path is not a module,
/// or if scripts do not use the module.
fn module_of(entry: &Path) -> Option<String> {
    let file = entry.file_name()?.to_str()?;
    let name = match file.split_once('.') {
        None => entry.join("__init__.py").is_file().then_some(file)?,
        Some((name, end)) => (end == "py" || end.ends_with("so")).then_some(name)?,
    };
    let is_for_scripts = is_identifier(name) && !name.starts_with('_') && !TOOLS.contains(&name);
    is_for_scripts.then(|| name.to_owned())
}

/// Returns whether `folders` contain any version of the package that `requirement` names.
fn has_distribution(folders: &[PathBuf], requirement: &Requirement) -> bool {
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    entries.into_iter().any(|entry| {
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".dist-info"));
        let name = name.and_then(|name| name.split_once('-'));
        name.is_some_and(|(name, _)| requirement.is_for(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Captured;

    fn failed(stderr: &str) -> Outcome {
        let stderr = Captured { text: stderr.to_owned(), ..Captured::default() };
        Outcome { ending: Ending::Exited(1), stderr, ..Outcome::never_started() }
    }

    #[test]
    fn a_missing_module_is_what_ended_the_script() {
        let traceback = "Traceback (most recent call last):\n  File \"<verification>\", line 1\n";
        for (line, module) in [
            ("ModuleNotFoundError: No module named 'polars'", Some("polars")),
            ("ModuleNotFoundError: No module named 'qwed_new.engines'", Some("qwed_new.engines")),
            ("ModuleNotFoundError: No module named 'z3.x'; 'z3' is not a package", Some("z3.x")),
            ("ModuleNotFoundError: No module named 'a b'", None),
            ("ModuleNotFoundError: No module named '`id`'", None),
            ("ModuleNotFoundError: No module named ''", None),
            ("ModuleNotFoundError: none", None),
            ("ValueError: ModuleNotFoundError: No module named 'polars'", None),
            ("", None),
        ] {
            let found = missing_module(&failed(&format!("{traceback}{line}\n")));
            assert_eq!(found.as_deref(), module, "{line}");
        }
        let caught = failed("ModuleNotFoundError: No module named 'polars'\nanother line");
        assert_eq!(missing_module(&caught), None);
        let killed = Outcome {
            ending: Ending::TimedOut,
            ..failed("ModuleNotFoundError: No module named 'x'")
        };
        assert_eq!(missing_module(&killed), None);
    }

    #[test]
    fn the_header_of_a_script_names_its_dependencies() {
        let of = |source: &str| {
            let found = Dependencies::of(source).packages;
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let header = "\"\"\"x\"\"\"\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \
                      \"polars >= 1\",\n#   'rich',\n#   \"x @ https://example.org/x.whl\",\n# ]\n# ///\nimport polars\n";
        assert_eq!(of(header), ["polars>=1", "rich"]);
        for source in [
            "import polars",
            "# /// script\n# dependencies = ['a']\nimport a\n# ///",
            "# /// script\n# dependencies = 7\n# ///",
            "# /// script\n# dependencies = ['a'\n# ///",
            "# /// other\n# dependencies = ['a']\n# ///",
            "# /// script\n#dependencies = ['a']\n",
        ] {
            assert_eq!(of(source), Vec::<String>::new(), "{source}");
        }
        let many = "'a',".repeat(50);
        assert_eq!(of(&format!("# /// script\n# dependencies = [{many}]\n# ///")).len(), 10);
    }

    #[test]
    fn packages_of_the_lock_are_found_by_their_modules() {
        for (module, package) in [
            ("PIL", Some("pillow")),
            ("yaml", Some("pyyaml")),
            ("dateutil", Some("python-dateutil")),
            ("jwt", Some("pyjwt")),
            ("dotenv", Some("python-dotenv")),
            ("z3", Some("z3-solver")),
            ("typing_extensions", Some("typing-extensions")),
            ("polars", None),
        ] {
            assert_eq!(locked_package(module).as_deref(), package, "{module}");
        }
    }

    #[test]
    fn what_is_there_is_told_and_the_admins_command() {
        let folder = tempfile::tempdir().unwrap();
        let packages = folder.path().to_owned();
        for name in ["sympy", "zoo", "pip", "_private", "no_package", "zoo-1.0.dist-info"] {
            fs::create_dir(packages.join(name)).unwrap();
            if name != "no_package" {
                fs::write(packages.join(name).join("__init__.py"), "").unwrap();
            }
        }
        for file in
            ["scipy.py", "six.py", "native.cpython-313-x86_64-linux-gnu.so", "x.pth", "README.txt"]
        {
            fs::write(packages.join(file), "").unwrap();
        }
        let installation = |source| Installation {
            source,
            program: "/python".into(),
            version: "3.13.0".to_owned(),
            packages: vec![packages.clone(), "/nonexistent".into()],
        };
        let none = Dependencies::default();
        let there =
            "Besides the standard library, scripts can import: sympy, scipy, native, six, zoo.";
        assert_eq!(
            advice("polars", &none, &installation(Source::Path), &Installs::Nothing),
            format!(
                "polars is not installed for scripts. {there} The admin can add the package that \
                 contains it: `qwed-mcp env create --with PACKAGE`."
            )
        );
        let asked =
            Dependencies::of("# /// script\n# dependencies = ['polars>=1', 'Zoo', 'rich']\n# ///");
        assert_eq!(
            advice("polars", &asked, &installation(Source::Path), &Installs::Nothing),
            format!(
                "polars is not installed for scripts. {there} The script's header asks for polars>=1, \
                 rich; the admin can add that: `qwed-mcp env create --with 'polars>=1' --with rich`."
            )
        );
        for module in
            ["z3", "z3.z3util", "qwed_new", "qwed_sdk.guards", "qwed_legal", "matplotlib.pyplot"]
        {
            let advice = advice(module, &none, &installation(Source::Path), &Installs::Nothing);
            let remedy = "The admin can add it with the other packages: `qwed-mcp env create`.";
            assert!(advice.ends_with(remedy), "{module}: {advice}");
        }
        for (module, package) in
            [("z3", "z3-solver"), ("qwed_new", "qwed"), ("qwed_ucp", "qwed-ucp")]
        {
            let advice =
                advice(module, &none, &installation(Source::Configured), &Installs::Nothing);
            let remedy =
                format!("can install {package} for the interpreter that QWED_MCP_PYTHON names.");
            assert!(advice.ends_with(&remedy), "{module}: {advice}");
        }
        let configured =
            advice("polars", &none, &installation(Source::Configured), &Installs::Nothing);
        assert!(
            configured.ends_with("for the interpreter that QWED_MCP_PYTHON names."),
            "{configured}"
        );
        assert_eq!(
            advice("zoo.lions", &none, &installation(Source::Path), &Installs::Nothing),
            "zoo is installed for scripts, and has no module zoo.lions."
        );
        for number in 0..50 {
            fs::write(packages.join(format!("m{number}.py")), "").unwrap();
        }
        let long = advice("polars", &none, &installation(Source::Path), &Installs::Nothing);
        assert!(long.contains(": sympy, scipy, m0, ") && long.contains(" and 15 more."), "{long}");
    }
}
