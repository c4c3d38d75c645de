//! The shape of the code: imports go one way, and each heavy dependency has its folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::root;

tests! {
    needs []:
        imports_go_one_way,
        a_crate_is_named_in_its_own_folders_only,
        a_place_is_found_as_a_whole_path_only,
        every_integration_test_is_listed,
        no_file_names_a_place_of_the_machine_it_was_written_on;
}

/// The modules from top to bottom: each may import from those below it, never from above.
const ORDER: &[&str] = &[
    "main",
    "cli",
    "server",
    "transport",
    "jobs",
    "runs",
    "governance",
    "executor",
    "gateway",
    "sandbox",
    "safety",
    "provenance",
    "aibom",
    "folder",
    "canonical_json",
    "config",
    "secret",
    "logging",
];

/// Which folders may name a crate.
const OWNERS: &[(&str, &[&str])] = &[
    ("rmcp", &["server", "transport"]),
    ("ruff_python_ast", &["safety"]),
    ("ruff_python_parser", &["safety"]),
    ("ruff_text_size", &["safety"]),
    ("nix", &["executor", "folder", "governance", "sandbox"]),
    ("landlock", &["sandbox"]),
    ("rustix", &["executor", "sandbox"]),
    ("seccompiler", &["sandbox"]),
    ("rusqlite", &["governance"]),
    ("toml", &["governance"]),
];

/// Where the documents' examples are: a checkout there is named in them.
const EXAMPLES: [&str; 5] = ["/srv", "/path", "/opt/rules", "/home/nobody", "/Users/ann"];

fn imports_go_one_way() {
    let mut checked = 0;
    for file in sources() {
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

fn a_crate_is_named_in_its_own_folders_only() {
    for file in sources() {
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
    // A place right below `/`, like `/project` or `/nonexistent`, is an ordinary word.
    let is_particular = |place: &&Path| place.components().count() > 2;
    let places: Vec<&Path> = [root(), &home].into_iter().filter(is_particular).collect();
    for folder in ["src", "tests", "docs", "examples", "benches", ".ci", ".github", "fuzz"] {
        for file in files_below(&self::root().join(folder)) {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            for place in &places {
                let place = place.to_str().unwrap();
                assert!(!names(&text, place), "{}: {place}", file.display());
            }
        }
    }
}

/// Whether the text has the path as a whole, or one below it, but for what stands in the documents
/// as an example.
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

/// Cargo leaves functions with Rust's own attribute out, as this target has a harness of its own.
fn every_integration_test_is_listed() {
    for file in files_below(&root().join("tests/integration")) {
        let text = fs::read_to_string(&file).unwrap();
        let attribute = text.lines().find(|line| line.trim_start().starts_with("#[test]"));
        assert_eq!(attribute, None, "{}: list it in tests!", file.display());
    }
}

fn sources() -> Vec<PathBuf> {
    let mut files = files_below(&root().join("src"));
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    assert!(files.len() > 20);
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

/// The top-level module that a file belongs to.
fn module_of(file: &Path) -> String {
    let below = file.strip_prefix(root().join("src")).unwrap();
    let first = below.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

/// The lines of a file without comments and without its tests.
fn code_lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    if file.file_name().is_some_and(|name| name == "tests.rs") {
        return Vec::new();
    }
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines().map(str::trim).filter(|line| !line.starts_with("//")).map(str::to_owned).collect()
}
