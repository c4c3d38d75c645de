//! Checks the structure of the code. A module imports only from lower modules, files do not import each other in a
//! circle, and only certain folders use a heavy dependency.
//!
//! Cargo enforces the order of the crates and their dependencies. These tests enforce the same for the modules of the
//! root package. They also search each crate for circles of imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::root;

tests! {
    needs []:
        imports_go_one_way,
        files_import_in_no_circle,
        a_crate_is_named_in_its_own_folders_only,
        a_place_is_found_as_a_whole_path_only,
        only_batches_have_the_gateway_that_reports,
        one_place_confirms_decisions_and_one_hands_scripts_to_the_executor,
        every_integration_test_is_listed,
        no_file_names_a_place_of_the_machine_it_was_written_on;
}

/// The modules of the root package from top to bottom. A module may import only from modules below it.
const ORDER: &[&str] = &[
    "main",
    "cli",
    "http",
    "server",
    "transport",
    "jobs",
    "batch",
    "scripts",
    "bearer",
    "governance",
    "receipt",
    "recipes",
    "skill",
    "oidc",
    "verification",
    "executor",
    "environments",
    "gateway",
    "strict_modes",
    "data_folder",
    "aibom",
    "verdict",
    "folder",
    "config",
    "traces",
    "https",
    "shares",
    "logging",
    "terminal",
    "plain_text",
];

/// For each heavy dependency, the folders of the root package that may use it.
const OWNERS: &[(&str, &[&str])] = &[
    ("anstream", &["cli", "logging", "terminal"]),
    ("anstyle", &["cli", "terminal"]),
    ("strsim", &["cli"]),
    ("indicatif", &["cli"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("rmcp", &["server", "transport"]),
    (
        "nix",
        &[
            "batch",
            "environments",
            "executor",
            "governance",
            "jobs",
            "receipt",
            "sandbox",
            "transport",
        ],
    ),
    ("ed25519_dalek", &["receipt"]),
    ("toml", &["governance", "scripts"]),
    ("hyper", &["http"]),
    ("hyper_util", &["http"]),
    ("http_body_util", &["http"]),
    ("metrics_exporter_prometheus", &["http"]),
    ("tokio_io_timeout", &["http"]),
    ("jsonwebtoken", &["oidc"]),
    ("ring", &["https", "oidc"]),
    ("ureq", &["https", "oidc", "traces"]),
    ("opentelemetry", &["traces"]),
    ("opentelemetry_http", &["traces"]),
    ("opentelemetry_otlp", &["traces"]),
    ("opentelemetry_sdk", &["traces"]),
    ("tracing_opentelemetry", &["traces"]),
    ("tokio_postgres", &["jobs"]),
    ("rustls", &["https"]),
];

/// The permitted circles of imports within a crate, each with its reason.
const CIRCLES: &[(&[&str], &str)] = &[
    (&["engine::"], "statements, expressions and calls are one recursion"),
    (
        &["executor::containment", "executor::one_shot"],
        "what contains a script is found out by running one",
    ),
];

/// The folders in the documents' examples. No file may contain the path of the checkout, unless the checkout is in one
/// of these folders.
const EXAMPLES: [&str; 5] = ["/srv", "/path", "/opt/rules", "/home/nobody", "/Users/ann"];

fn imports_go_one_way() {
    let mut checked = 0;
    for file in sources(&root().join("src")) {
        let module = module_of(&file);
        let Some(level) = ORDER.iter().position(|name| *name == module) else {
            assert_eq!(module, "lib", "{} is in no module of the order", file.display());
            continue;
        };
        for line in code_lines(&file) {
            for imported in line.split("crate::").skip(1) {
                let imported: String =
                    imported.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let Some(below) = ORDER.iter().position(|name| *name == imported) else { continue };
                assert!(
                    below >= level,
                    "{}: {module} imports from {imported}: {line}",
                    file.display()
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked} imports checked");
}

/// `ReportingGateway` lets scripts run in spite of findings. Only the command line of batches may use it, so that no
/// client can request it.
fn only_batches_have_the_gateway_that_reports() {
    let is_named = |line: &str| line.contains("ReportingGateway");
    let named: BTreeSet<_> = places(is_named).into_iter().collect();
    assert_eq!(named, ["cli/run/batch.rs".to_owned()].into());
}

/// All runs must use the same code to confirm a decision and to start a script, because two versions would diverge.
fn one_place_confirms_decisions_and_one_hands_scripts_to_the_executor() {
    assert_eq!(places(|line| line.contains("confirm(")), ["scripts/decide.rs"]);
    assert_eq!(places(|line| line.contains("executor.run(")), ["scripts/run.rs"]);
    let makes_permit = |line: &str| line.contains("Permit {") && !line.contains("struct Permit");
    let made: BTreeSet<_> = places(makes_permit).into_iter().collect();
    assert_eq!(made, ["scripts/decide.rs".to_owned()].into());
}

/// Returns the file of each line for which `is_such` is true, as a path below `src`. Skips tests and the files of the
/// gateway.
fn places(is_such: impl Fn(&str) -> bool) -> Vec<String> {
    let src = root().join("src");
    let mut places = Vec::new();
    for file in sources(&root().join("src")) {
        let below = file.strip_prefix(&src).unwrap();
        if below.starts_with("gateway") || below.iter().any(|name| name == "tests") {
            continue;
        }
        let lines = code_lines(&file).into_iter().filter(|line| is_such(line));
        places.extend(lines.map(|_| below.display().to_string()));
    }
    places
}

/// If files import each other in a circle, a reader must understand all of them at once. A module and the files in its
/// folder may import each other, because the module is their interface.
fn files_import_in_no_circle() {
    let crates: Vec<Modules> =
        source_folders().iter().map(|folder| Modules::read(folder)).collect();
    let files: usize = crates.iter().map(|modules| modules.imports.len()).sum();
    assert!(files > 150, "{files} files");
    let circles = crates.iter().flat_map(Modules::circles);
    let allowed = |circle: &BTreeSet<String>| {
        CIRCLES.iter().any(|(allowed, _)| {
            circle.iter().all(|module| allowed.iter().any(|start| module.starts_with(start)))
        })
    };
    let circles: Vec<_> = circles.filter(|circle| !allowed(circle)).collect();
    assert_eq!(circles, Vec::<BTreeSet<String>>::new());
}

/// The imports of the files of a crate. The key is the module path of a file, and the value is the list of paths that
/// this file imports.
struct Modules {
    imports: BTreeMap<String, Vec<Vec<String>>>,
    /// The re-exported paths (`pub use`), with their original paths.
    passed_on: BTreeMap<Vec<String>, Vec<String>>,
}

impl Modules {
    fn read(folder: &Path) -> Self {
        let mut named = BTreeMap::new();
        let mut passed_on = BTreeMap::new();
        for file in sources(folder) {
            let below = file.strip_prefix(folder).unwrap().with_extension("");
            let mut path: Vec<String> =
                below.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
            if path.last().is_some_and(|name| name == "mod") {
                path.pop();
            }
            if ["lib", "main"].contains(&path[0].as_str())
                || path.iter().any(|name| name == "tests")
            {
                continue;
            }
            let code = code_lines(&file).join("\n");
            let passing = ["pub(crate) use ", "pub use "];
            for from in passing.into_iter().flat_map(|start| code.split(start).skip(1)) {
                let statement = from.split(';').next().unwrap();
                let is_rooted =
                    ["crate::", "super::", "self::"].iter().any(|s| statement.starts_with(s));
                let statement = format!("{}{statement}", if is_rooted { "" } else { "self::" });
                for from in imports(&statement, &path) {
                    let name = from.last().unwrap().clone();
                    passed_on.insert(path.iter().cloned().chain([name]).collect(), from);
                }
            }
            named.insert(path.join("::"), imports(&code, &path));
        }
        Self { imports: named, passed_on }
    }

    /// Returns the module that a path belongs to. Follows re-exports.
    fn module(&self, path: &[String]) -> Option<String> {
        let mut path = path.to_vec();
        // A re-export can refer to another re-export.
        for _ in 0..8 {
            // A function may have the same path as a module. If a file has this path, treat the path as the module.
            let is_file = |end: usize| self.imports.contains_key(&path[..end].join("::"));
            let passed_on = (1..=path.len())
                .find_map(|end| Some((end, self.passed_on.get(&path[..end])?)))
                .filter(|(end, _)| !is_file(*end));
            match passed_on {
                Some((end, from)) if *from != path[..end] => {
                    path = from.iter().chain(&path[end..]).cloned().collect();
                }
                Some(_) | None => break,
            }
        }
        let starts = (1..=path.len()).rev().map(|end| path[..end].join("::"));
        starts.into_iter().find(|name| self.imports.contains_key(name))
    }

    fn imported_by(&self, module: &str) -> BTreeSet<String> {
        let is_related = |other: &str| {
            let inside =
                |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with("::"));
            other == module || inside(other, module) || inside(module, other)
        };
        let imported = self.imports[module].iter().filter_map(|path| self.module(path));
        imported.filter(|other| !is_related(other)).collect()
    }

    fn reachable(&self, from: &str) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<String> = self.imported_by(from).into_iter().collect();
        while let Some(module) = next.pop() {
            if reached.insert(module.clone()) {
                next.extend(self.imported_by(&module));
            }
        }
        reached
    }

    /// Returns the sets of modules in which each module reaches every other module.
    fn circles(&self) -> BTreeSet<BTreeSet<String>> {
        let reachable: BTreeMap<&str, BTreeSet<String>> =
            self.imports.keys().map(|module| (module.as_str(), self.reachable(module))).collect();
        let mut circles = BTreeSet::new();
        for (module, reached) in &reachable {
            let circle: BTreeSet<String> = reached
                .iter()
                .filter(|other| reachable[other.as_str()].contains(*module))
                .cloned()
                .collect();
            if !circle.is_empty() {
                circles.insert(circle);
            }
        }
        circles
    }
}

/// Returns the paths that a file imports, each as a full path from the root of the crate. `module` is the path of the
/// file's module.
fn imports(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let rest = &code[at..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c)));
            let (head, tail) = rest.split_at(end.unwrap_or(rest.len()));
            let names = match tail.strip_prefix('{') {
                Some(group) if head.ends_with("::") => group_of(group),
                Some(_) | None => vec![String::new()],
            };
            paths.extend(names.iter().map(|name| absolute(&format!("{head}{name}"), module)));
        }
    }
    paths
}

/// Returns the names in a group of imports. For a nested group, returns only the path before the group.
fn group_of(text: &str) -> Vec<String> {
    let (mut names, mut depth) = (vec![String::new()], 0);
    for c in text.chars() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(String::new()),
            _ if depth == 0 && !c.is_whitespace() => names.last_mut().unwrap().push(c),
            _ => {}
        }
    }
    names
}

fn absolute(path: &str, module: &[String]) -> Vec<String> {
    let mut base = module.to_vec();
    let mut names: Vec<&str> = path.split("::").filter(|name| !name.is_empty()).collect();
    match names.remove(0) {
        "crate" => base.clear(),
        "super" => drop(base.pop()),
        _ => {}
    }
    while names.first() == Some(&"super") {
        base.pop();
        names.remove(0);
    }
    base.extend(names.into_iter().filter(|name| *name != "self").map(str::to_owned));
    base
}

fn a_crate_is_named_in_its_own_folders_only() {
    for file in sources(&root().join("src")) {
        let module = module_of(&file);
        for line in code_lines(&file) {
            for (name, owners) in OWNERS {
                let names_it = line.match_indices(&format!("{name}::")).any(|(start, _)| {
                    !line[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_')
                });
                assert!(
                    !names_it || owners.contains(&module.as_str()),
                    "{}: {module} names {name}: {line}",
                    file.display()
                );
            }
        }
    }
}

fn no_file_names_a_place_of_the_machine_it_was_written_on() {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    // Skip a folder directly below `/`, such as `/project`, because its path can be an ordinary word.
    let is_particular = |place: &&Path| place.components().count() > 2;
    let places: Vec<&Path> = [root(), &home].into_iter().filter(is_particular).collect();
    for folder in
        ["src", "crates", "tests", "docs", "examples", "benches", ".ci", ".github", "fuzz"]
    {
        for file in files_below(&self::root().join(folder)) {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            for place in &places {
                let place = place.to_str().unwrap();
                assert!(!names(&text, place), "{}: {place}", file.display());
            }
        }
    }
}

/// Returns whether the text contains this path or a path below it. Returns `false` if the path is in one of the folders
/// in [`EXAMPLES`].
fn names(text: &str, place: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-.~".contains(c);
    let is_example = EXAMPLES.iter().any(|example| Path::new(place).starts_with(example));
    !is_example
        && text.match_indices(place).any(|(start, _)| {
            !text[..start].ends_with(is_part) && !text[start + place.len()..].starts_with(is_part)
        })
}

fn a_place_is_found_as_a_whole_path_only() {
    for (text, place, is_named) in [
        ("see /home/eve/qwed.", "/home/eve", true),
        ("'/home/eve'", "/home/eve", true),
        ("/home/evelyn", "/home/eve", false),
        ("/mnt/home/eve", "/home/eve", false),
        ("/srv/project", "/srv/project", false),
    ] {
        assert_eq!(names(text, place), is_named, "{text}");
    }
}

/// This target has its own harness, so Cargo would ignore a function with the attribute `#[test]`.
fn every_integration_test_is_listed() {
    for file in files_below(&root().join("tests/integration")) {
        let text = fs::read_to_string(&file).unwrap();
        let attribute = text.lines().find(|line| line.trim_start().starts_with("#[test]"));
        assert_eq!(attribute, None, "{}: list it in tests!", file.display());
    }
}

/// Returns the folders with the sources of the crates, one folder for each crate.
pub(crate) fn source_folders() -> Vec<PathBuf> {
    let mut folders = vec![root().join("src")];
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        folders.push(entry.unwrap().path().join("src"));
    }
    folders
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = files_below(folder);
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return files };
    for entry in entries.flatten() {
        match entry.file_type().unwrap().is_dir() {
            true if entry.file_name() == "target" || entry.file_name() == "__pycache__" => {}
            true => files.extend(files_below(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

fn module_of(file: &Path) -> String {
    let below = file.strip_prefix(root().join("src")).unwrap();
    let first = below.components().next().unwrap().as_os_str().to_str().unwrap();
    // `NAME_absent.rs` replaces the module `NAME` in a build without the feature `teams`.
    first.trim_end_matches(".rs").trim_end_matches("_absent").to_owned()
}

/// Returns the lines of a file without comments and tests.
fn code_lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    if file.file_name().is_some_and(|name| name == "tests.rs") {
        return Vec::new();
    }
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines().map(str::trim).filter(|line| !line.starts_with("//")).map(str::to_owned).collect()
}
