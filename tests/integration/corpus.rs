//! Tests the corpus of snippets. The analysis must find each attack, and each attack must work without the analysis.
//! The analysis must find nothing in honest scripts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Need, Test, binary, deadline, eventually, python, root};

tests! {
    needs [Python]:
        every_attack_works_where_nothing_finds_it;
    needs []:
        every_attack_is_found_by_the_rule_that_it_states,
        nothing_is_found_in_honest_scripts;
}

/// Runs `check` on every file of a folder of the corpus. Returns the files with their reports, sorted by name.
fn checked(folder: &str) -> Vec<(PathBuf, Value)> {
    let files = files_of(folder);
    assert!(files.len() > 100, "{} files in {folder}", files.len());
    let output =
        Command::new(binary()).args(["check", "--format", "json"]).args(&files).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reports = report["files"].as_array().unwrap().clone();
    assert_eq!(reports.len(), files.len());
    files.into_iter().zip(reports).collect()
}

fn files_of(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("tests/corpus").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .collect();
    files.sort();
    files
}

/// Returns a value that a comment at the start of a snippet states, such as `# rule: …` or `# effect: …`.
fn stated(file: &Path, what: &str) -> Option<String> {
    let source = fs::read_to_string(file).unwrap();
    let mut lines = source.split(['\n', '\r']).take(8);
    let prefix = format!("# {what}: ");
    lines.find_map(|line| line.split_once(&prefix).map(|(_, stated)| stated.trim().to_owned()))
}

fn every_attack_is_found_by_the_rule_that_it_states() {
    let mut wrong = Vec::new();
    for (file, report) in checked("blocked") {
        let expected = stated(&file, "rule").unwrap_or_else(|| panic!("{}", file.display()));
        let findings = report["findings"].as_array().unwrap();
        if !findings.iter().any(|finding| finding["rule"] == expected.as_str()) {
            let rules: Vec<_> = findings.iter().map(|finding| finding["rule"].clone()).collect();
            wrong.push(format!("{}: {expected}, found {rules:?}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn nothing_is_found_in_honest_scripts() {
    let mut wrong = Vec::new();
    for (file, report) in checked("allowed") {
        assert_eq!(stated(&file, "rule").as_deref(), Some("none"), "{}", file.display());
        if report["blocked"] != false {
            wrong.push(format!("{}: {:#}", file.display(), report["findings"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Creates one test for each attack that works in only one version of Python. Other versions list these tests as
/// ignored.
pub(crate) fn tests_of_versions() -> Vec<Test> {
    let attacks = files_of("blocked").into_iter();
    let of_version = attacks.filter_map(|file| {
        let needed = stated(&file, "needs")?;
        let version = needed.strip_prefix("python ").unwrap_or_else(|| panic!("needs {needed}"));
        let needs = [Need::PythonVersion(version.to_owned())];
        let name = file.file_stem()?.to_str()?.to_owned();
        let run = move || assert_eq!(failure_of(&file), None);
        Some(Test::new(concat!(module_path!(), "::of_version"), &name, &needs, run))
    });
    of_version.collect()
}

/// The positive control: without the analysis, each attack has its stated effect.
fn every_attack_works_where_nothing_finds_it() {
    let attacks = checked("blocked");
    let next = AtomicUsize::new(0);
    let wrong = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut wrong = Vec::new();
                    while let Some((file, _)) = attacks.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if stated(file, "needs").is_none() {
                            wrong.extend(failure_of(file));
                        }
                    }
                    wrong
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs an attack without protection. Returns a message if the attack does not have its effect.
fn failure_of(file: &Path) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let secret = format!("secret-{:016x}", std::ptr::from_ref(&folder).addr());
    fs::write(folder.path().join("secret.txt"), &secret).unwrap();
    let output = folder.path().join("output");
    let mut child = Command::new(python())
        .args(["-I", "-B"])
        .arg(file)
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&output).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let limit = std::time::Instant::now() + deadline(Duration::from_secs(60));
    while child.try_wait().unwrap().is_none() {
        if std::time::Instant::now() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let effect = stated(file, "effect").unwrap_or_else(|| panic!("{}", file.display()));
    let has_effect = || {
        let printed = fs::read_to_string(&output).unwrap_or_default();
        match effect.as_str() {
            "writes" => folder.path().join("canary").exists(),
            "reads" => printed.contains(&secret),
            "prints" => printed.contains("PWNED"),
            "connects" => printed.contains("connects"),
            other => panic!("{}: unknown effect {other}", file.display()),
        }
    };
    // A program that the attack has started may cause the effect a little later.
    let is_missing = eventually(Duration::from_secs(2), has_effect).is_none();
    is_missing.then(|| format!("{}: no effect", file.display()))
}
