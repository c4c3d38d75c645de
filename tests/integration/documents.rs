//! The documents against the program: what they show, what they quote, and where their links lead.

mod links;
mod samples;
mod texts;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{ServerBuilder, Test, root};

/// The tests of all parts.
pub(crate) fn tests() -> Vec<Test> {
    let parts = [own_tests(), links::tests(), samples::tests(), texts::tests()];
    parts.into_iter().flatten().collect()
}

mod tables {
    tests! {
        needs [Sandbox]:
            every_field_of_the_diagnosis_is_in_the_table;
        needs []:
            the_settings_are_those_of_the_program,
            every_check_is_in_the_guide_for_contributors,
            the_readme_stays_short;
    }
    use super::{
        every_check_is_in_the_guide_for_contributors, every_field_of_the_diagnosis_is_in_the_table,
        the_readme_stays_short, the_settings_are_those_of_the_program,
    };
}
use tables::tests as own_tests;

/// The most lines that somebody reads before the first call.
const README_LINES_MAX: usize = 250;

/// A page for people.
struct Document {
    /// The path from the root of the checkout.
    name: String,
    text: String,
}

/// All pages, in the order of their names.
fn documents() -> Vec<Document> {
    let mut names: Vec<String> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned).into();
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        names.push(format!("docs/{}", entry.unwrap().file_name().to_str().unwrap()));
    }
    names.sort();
    assert!(names.len() > 15, "{names:?}");
    names.into_iter().map(|name| Document { text: read(&name), name }).collect()
}

/// The text of a file of the checkout.
fn read(name: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The text in code spans, with the text of fenced blocks left out.
fn code_spans(text: &str) -> Vec<String> {
    let mut spans = Vec::new();
    let mut is_fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") && !line.trim_start()[3..].contains('`') {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    let mut rest = prose.as_str();
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].chars().take_while(|c| *c == '`').count();
        let fence = "`".repeat(ticks);
        let inside = &rest[start + ticks..];
        let Some(end) = inside.find(&fence) else { break };
        spans.push(inside[..end].trim().replace("\\|", "|").replace('\n', " "));
        rest = &inside[end + ticks..];
    }
    spans
}

/// The code spans in the first column of each table of a page.
fn first_columns(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| code_spans(row.split('|').nth(1).unwrap_or_default())).collect()
}

fn the_settings_are_those_of_the_program() {
    let names = regex::Regex::new(r#""((QWED_[A-Z_]+)|VIRTUAL_ENV)""#).unwrap();
    let mut read_by_the_program: BTreeSet<String> =
        ["PATH", "PYTHONPATH"].map(str::to_owned).into();
    for file in ["src/config.rs", "src/logging.rs"] {
        let source = read(file);
        read_by_the_program.extend(names.captures_iter(&source).map(|name| name[1].to_owned()));
    }
    read_by_the_program.retain(|name| !name.starts_with("QWED_MCP_TEST_"));
    let page = read("docs/CONFIGURATION.md");
    let table = page.split("\n## ").find(|section| section.starts_with("Settings\n")).unwrap();
    assert_eq!(first_columns(table), read_by_the_program);

    let readme = read("README.md");
    let table = readme.split("\n## ").find(|section| section.starts_with("Settings")).unwrap();
    let unknown: Vec<_> = first_columns(table).difference(&read_by_the_program).cloned().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The keys of an object, and those of the objects in it, as `outer.inner`.
fn fields(value: &Value, depth: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, inner) in value.as_object().into_iter().flatten() {
        names.insert(name.clone());
        if depth > 0 {
            names.extend(fields(inner, depth - 1).into_iter().map(|part| format!("{name}.{part}")));
        }
    }
    names
}

fn every_field_of_the_diagnosis_is_in_the_table() {
    let page = read("docs/COMMAND_LINE.md");
    let (_, section) = page.split_once("## `doctor --format json`").unwrap();
    let table = first_columns(section.split("\n## ").next().unwrap());
    let output =
        ServerBuilder::new().command().args(["doctor", "--format", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sandbox: BTreeSet<String> =
        fields(&report["sandbox"], 0).into_iter().map(|name| format!("sandbox.{name}")).collect();
    let mut expected = fields(&report, 0);
    expected.remove("sandbox");
    expected.extend(sandbox);
    let documented: BTreeSet<String> =
        table.into_iter().filter(|name| !name.starts_with("governance.")).collect();
    assert_eq!(documented, expected);
}

fn every_check_is_in_the_guide_for_contributors() {
    let checks = read(".ci/run");
    let all = checks.lines().find_map(|line| line.strip_prefix("all=\"")).unwrap();
    let page = read("CONTRIBUTING.md");
    let (_, section) = page.split_once("## The checks").unwrap();
    let expected: BTreeSet<String> =
        all.trim_end_matches('"').split(' ').map(str::to_owned).collect();
    assert_eq!(first_columns(section.split("\n## ").next().unwrap()), expected);
}

fn the_readme_stays_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= README_LINES_MAX, "{lines} lines: move some of it to docs/");
}
