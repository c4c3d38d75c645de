//! The shape of the code: imports go one way, and each heavy dependency has its folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::root;

/// The modules from top to bottom: each may import from those below it, never from above.
const ORDER: [&str; 14] = [
    "main",
    "cli",
    "server",
    "transport",
    "governance",
    "jobs",
    "executor",
    "gateway",
    "sandbox",
    "safety",
    "provenance",
    "aibom",
    "config",
    "logging",
];

/// Which folders may name a crate.
const OWNERS: [(&str, &[&str]); 11] = [
    ("rmcp", &["server", "transport"]),
    ("ruff_python_ast", &["safety"]),
    ("ruff_python_parser", &["safety"]),
    ("ruff_text_size", &["safety"]),
    ("nix", &["executor", "governance", "sandbox"]),
    ("landlock", &["sandbox"]),
    ("rustix", &["executor", "sandbox"]),
    ("seccompiler", &["sandbox"]),
    ("rusqlite", &["governance"]),
    ("toml", &["governance"]),
    ("quick_xml", &["governance"]),
];

/// Lines of code a file has at most; what is larger tells more than one story.
const LINES_MAX: usize = 430;

#[test]
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

#[test]
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

#[test]
fn files_are_small() {
    let is_code = |file: &PathBuf| file.file_name().is_some_and(|name| name != "tests.rs");
    for file in sources().into_iter().filter(is_code) {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", file.display());
    }
}

#[test]
fn no_file_names_a_place_of_the_machine_it_was_written_on() {
    let home = std::env::var("HOME").unwrap_or_default();
    let root = root().to_str().unwrap().to_owned();
    for folder in ["src", "tests", "docs", "examples", "benches", ".ci", ".github", "fuzz"] {
        for file in files_below(&self::root().join(folder)) {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            for place in [&root, &home] {
                let is_short = place.len() < 6;
                assert!(is_short || !text.contains(place.as_str()), "{}: {place}", file.display());
            }
        }
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
