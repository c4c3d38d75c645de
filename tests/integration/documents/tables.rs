//! Checks that the tables in the documents have exactly the rows of the program.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{first_columns, read, texts};
use crate::harness::ServerBuilder;

tests! {
    needs [Sandbox]:
        every_field_of_the_diagnosis_is_in_the_table,
        the_limits_are_those_of_a_run;
    needs []:
        the_settings_are_those_of_the_program,
        every_removed_tool_has_its_import,
        every_prompt_is_in_the_table,
        every_rule_of_the_analysis_has_its_reason_and_its_remedy,
        every_check_is_in_the_guide_for_contributors,
        the_readme_stays_short;
}

const README_LINES_MAX: usize = 200;

fn the_settings_are_those_of_the_program() {
    let name = regex::Regex::new("^(QWED_[A-Z_]+|VIRTUAL_ENV)$").unwrap();
    let literals = texts::literals().iter().map(|literal| literal.text.clone());
    let mut read_by_the_program: BTreeSet<String> =
        literals.filter(|text| name.is_match(text)).collect();
    read_by_the_program.retain(|name| !name.starts_with("QWED_MCP_TEST_"));
    // The server sets this variable for the tests of a workspace, and never reads it.
    assert!(read_by_the_program.remove("QWED_ARTIFACTS"));
    read_by_the_program.extend(["PATH", "PYTHONPATH"].map(str::to_owned));
    let page = read("docs/CONFIGURATION.md");
    let table = page.split("\n## ").find(|section| section.starts_with("Settings\n")).unwrap();
    assert_eq!(first_columns(table), read_by_the_program);

    let readme = read("README.md");
    let table = readme.split("\n## ").find(|section| section.starts_with("Settings")).unwrap();
    let unknown: Vec<_> = first_columns(table).difference(&read_by_the_program).cloned().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

fn every_prompt_is_in_the_table() {
    let mut server = ServerBuilder::new().connect();
    let listed = server.request("prompts/list", &json!({}));
    let page = read("docs/REFERENCE.md");
    let table = page.split("\n## ").find(|section| section.starts_with("Prompts\n")).unwrap();
    let prompts = listed["result"]["prompts"].as_array().unwrap();
    for prompt in prompts {
        let start = format!("| `{}` | ", prompt["name"].as_str().unwrap());
        let row = table
            .lines()
            .find(|line| line.starts_with(&start))
            .unwrap_or_else(|| panic!("{prompt}"));
        let arguments = row.rsplit_once(" | ").unwrap().1;
        let (required, optional) = arguments.split_once(", optional ").unwrap_or((arguments, ""));
        for argument in prompt["arguments"].as_array().unwrap() {
            let name = format!("`{}`", argument["name"].as_str().unwrap());
            let place = if argument["required"] == true { required } else { optional };
            assert!(place.contains(&name), "{row} lacks {name}");
        }
    }
    assert_eq!(first_columns(table).len(), prompts.len());
    server.finish();
}

fn every_rule_of_the_analysis_has_its_reason_and_its_remedy() {
    let page = read("docs/SAFETY_RULES.md");
    for rule in qwed_mcp::safety::rules::all() {
        let row = format!("| `{}` | {} | {} |", rule.id, rule.why, rule.remedy);
        assert!(page.contains(&row), "docs/SAFETY_RULES.md lacks: {row}");
    }
}

/// Returns the keys of an object and of nested objects, as `outer.inner`.
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
    let report = diagnosis();
    let sandbox: BTreeSet<String> =
        fields(&report["sandbox"], 0).into_iter().map(|name| format!("sandbox.{name}")).collect();
    let mut expected = fields(&report, 0);
    expected.remove("sandbox");
    expected.extend(sandbox);
    let documented: BTreeSet<String> =
        table.into_iter().filter(|name| !name.starts_with("governance.")).collect();
    assert_eq!(documented, expected);
}

fn diagnosis() -> Value {
    let output =
        ServerBuilder::new().command().args(["doctor", "--format", "json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn the_limits_are_those_of_a_run() {
    let limits = diagnosis()["limits"].take();
    let page = read("docs/LIMITS.md");
    let (_, section) = page.split_once("## In the sandbox").unwrap();
    let number = |name: &str| limits[name].as_u64().unwrap();
    let mebibytes = |name: &str| format!("{} MiB", number(name) >> 20);
    let scratch = format!("{}, {} files", mebibytes("scratch_bytes"), number("scratch_inodes"));
    for (what, limit) in [
        ("memory", mebibytes("memory_bytes")),
        ("address space", format!("{} GiB", number("address_space_bytes") >> 30)),
        ("processes and threads", format!("{},", number("processes"))),
        ("open files", format!("{} |", number("open_files"))),
        ("size of a file", mebibytes("file_bytes")),
        ("scratch folder", scratch),
        ("shared memory", mebibytes("shared_memory_bytes")),
    ] {
        assert!(section.contains(&format!("\n| {what} | {limit}")), "{what}: {limit}");
    }
}

fn every_removed_tool_has_its_import() {
    let page = read("docs/MIGRATION.md");
    let texts: Vec<String> = texts::literals().iter().map(|literal| literal.text.clone()).collect();
    let pairs = texts
        .windows(2)
        .filter(|pair| pair[0].starts_with("verify_") && pair[1].starts_with("from "));
    let rows: Vec<String> =
        pairs.map(|pair| format!("| `{}` | `{}` |", pair[0], pair[1])).collect();
    assert!(rows.len() >= 15, "{rows:?}");
    for row in &rows {
        assert!(page.contains(row), "{row}");
    }
    assert_eq!(page.matches("\n| `verify_").count(), rows.len());
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
