//! Tests of a profile's text. These tests do not compile the profile.

use super::*;
use crate::{Reach, Tier};

/// Returns a plan with these paths, which need not exist.
fn plan(readable: &[&str], links: &[&str], folders: &[&str]) -> Plan {
    let reach =
        Reach { program: std::env::current_exe().unwrap(), loader: None, paths: Vec::new() };
    let mut plan = Plan::new(Tier::Seatbelt, 0, &reach, &[], 512).unwrap();
    plan.readable = readable.iter().map(PathBuf::from).collect();
    plan.links = links.iter().map(|link| (link.into(), "elsewhere".into())).collect();
    plan.folders = folders.iter().map(PathBuf::from).collect();
    plan
}

fn profile(readable: &[&str], links: &[&str], folders: &[&str]) -> Profile {
    Profile::new(&plan(readable, links, folders), Path::new("/private/var/x/scratch")).unwrap()
}

/// Returns the top-level forms of a profile, without comments.
fn forms(text: &str) -> Vec<String> {
    let code = text.lines().map(|line| line.split(';').next().unwrap_or_default());
    let code = code.collect::<Vec<_>>().join("\n");
    let (mut forms, mut form, mut depth) = (Vec::new(), String::new(), 0_i32);
    for letter in code.chars() {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth > 0 || letter == ')' {
            form.push(letter);
        }
        if depth == 0 && letter == ')' {
            forms.push(std::mem::take(&mut form));
        }
    }
    assert_eq!(depth, 0, "parentheses");
    forms.iter().map(|form| form.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn paths_are_parameters_and_complete() {
    let profile = profile(
        &["/opt/py/lib", "/Users/ann/.venv/lib"],
        &["/Users/ann/.venv/bin/python"],
        &["/opt/through"],
    );
    let expected = [
        ("SCRATCH", "/private/var/x/scratch"),
        ("R0", "/opt/py/lib"),
        ("R1", "/Users/ann/.venv/lib"),
        ("L0", "/Users/ann/.venv/bin/python"),
        ("A0", "/Users"),
        ("A1", "/Users/ann"),
        ("A2", "/Users/ann/.venv"),
        ("A3", "/Users/ann/.venv/bin"),
        ("A4", "/opt"),
        ("A5", "/opt/py"),
        ("A6", "/opt/through"),
        ("A7", "/private"),
        ("A8", "/private/var"),
        ("A9", "/private/var/x"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(profile.parameters, expected);
    for path in ["/opt", "/Users", "/private/var/x", "@"] {
        assert!(!profile.text.contains(path), "{path} is in the text");
    }
    let forms = forms(&profile.text);
    let there = |form: &str| forms.iter().any(|known| known == form);
    assert!(there(
        "(allow file-read* file-map-executable (subpath (param \"R0\")) (subpath (param \"R1\")))"
    ));
    assert!(there("(allow file-read* (literal (param \"L0\")))"), "{forms:#?}");
    let ancestors = (0..10).map(|number| format!(" (literal (param \"A{number}\"))"));
    assert!(there(&format!("(allow file-read-metadata{})", ancestors.collect::<String>())));
}

#[test]
fn nothing_is_allowed_that_the_tier_does_without() {
    let profile = profile(&["/opt/py/lib"], &[], &[]);
    let forms = forms(&profile.text);
    assert_eq!(forms[..2], ["(version 1)", "(deny default)"]);
    let words = |form: &String| {
        form.trim_matches(['(', ')']).split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let mut allowed = BTreeSet::new();
    for form in &forms[2..] {
        let words = words(form);
        let operations = words[1..].iter().take_while(|word| !word.starts_with('('));
        match words[0].as_str() {
            "allow" => allowed.extend(operations.cloned()),
            "deny" => assert!(form.contains("SCRATCH"), "{form}"),
            other => panic!("{other}"),
        }
        // Every rule must have a filter, because an operation without a filter would be allowed for everything.
        assert!(form.matches('(').count() > 1, "{form}");
    }
    let expected = [
        "file-map-executable",
        "file-read*",
        "file-read-metadata",
        "file-write-create",
        "file-write-data",
        "file-write-mode",
        "file-write-times",
        "file-write-unlink",
        "ipc-posix-shm-read-data",
        "ipc-posix-shm-write-create",
        "ipc-posix-shm-write-unlink",
        "process-info*",
        "signal",
        "sysctl-read",
    ];
    assert_eq!(allowed.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    // The run may write files only in the scratch folder and in a device without state. The rule for OpenMP's shared
    // memory allows no writes to files.
    for form in forms.iter().filter(|form| form.contains("file-write")) {
        assert!(form.contains("SCRATCH") || form.contains("/dev/null"), "{form}");
    }
    // Files in the scratch folder must never be mapped as code, even if the folder is below a readable path. The last
    // matching rule decides. So the rule that denies code in the scratch folder must come after the rules for readable
    // paths.
    let last = |operation: &str, path: &str| {
        forms.iter().rposition(|form| form.contains(operation) && form.contains(path)).unwrap()
    };
    let mapped = last("file-map-executable", "\"SCRATCH\"");
    assert!(forms[mapped].starts_with("(deny"), "{}", forms[mapped]);
    assert!(mapped > last("file-map-executable", "\"R0\""));
}

#[test]
fn every_rule_has_its_reason_before_it() {
    let lines: Vec<&str> = TEMPLATE.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let is_rule =
            line.starts_with("(allow") || line.starts_with("(deny") || line.starts_with('@');
        if !is_rule || *line == "(deny default)" {
            continue;
        }
        // Rules with the same reason form one block, so search the lines of the block for the reason.
        let block = lines[..number].iter().rev().take_while(|line| !line.is_empty());
        assert!(block.into_iter().any(|line| line.starts_with("; ")), "{line} has no reason");
    }
}

#[test]
fn no_form_is_larger_than_the_compiler_takes() {
    let many: Vec<String> = (0..1000).map(|number| format!("/opt/packages/{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let profile = profile(&many, &many, &many);
    let forms = forms(&profile.text);
    let longest = forms.iter().map(String::len).max().unwrap();
    assert!(longest < 1 << 14, "{longest}");
    let used = |prefix: &str| profile.text.matches(&format!("(param \"{prefix}")).count();
    assert_eq!([used("R"), used("L")], [1000, 1000]);
    let names: BTreeSet<&String> = profile.parameters.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), profile.parameters.len(), "a name is used twice");
    for (name, _) in &profile.parameters {
        assert!(profile.text.contains(&format!("(param \"{name}\")")), "{name} is not used");
    }
}

#[test]
fn a_path_that_is_no_text_is_no_parameter() {
    use std::os::unix::ffi::OsStringExt as _;

    let path = PathBuf::from(std::ffi::OsString::from_vec(b"/opt/\xff".to_vec()));
    let mut plan = plan(&[], &[], &[]);
    plan.readable = vec![path.clone()];
    assert_eq!(Profile::new(&plan, Path::new("/scratch")), Err(NotText(path)));
}
