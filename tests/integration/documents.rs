//! Compares the documents with the program: their examples, quotations and links.

mod links;
mod samples;
mod tables;
mod texts;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::harness::{Test, root};

pub(crate) fn tests() -> Vec<Test> {
    let parts = [links::tests(), samples::tests(), tables::tests(), texts::tests()];
    parts.into_iter().flatten().collect()
}

struct Document {
    /// The path from the root of the checkout.
    name: String,
    text: String,
}

fn documents() -> Vec<Document> {
    let mut names: Vec<String> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned).into();
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        // The folder also has schemas, which only programs read.
        if path.extension().is_some_and(|extension| extension == "md") {
            names.push(format!("docs/{}", path.file_name().unwrap().to_str().unwrap()));
        }
    }
    names.sort();
    assert!(names.len() > 15, "{names:?}");
    names.into_iter().map(|name| Document { text: read(&name), name }).collect()
}

fn read(name: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// Returns the texts of the code spans outside of fenced blocks.
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

/// Returns the code spans in the first column of each table of a page.
fn first_columns(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| code_spans(row.split('|').nth(1).unwrap_or_default())).collect()
}
