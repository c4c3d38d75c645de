//! Checks that each link in the documents leads to an existing file and heading.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::{Document, documents};
use crate::harness::root;

tests! {
    needs []: links_lead_to_existing_files_and_headings, a_heading_has_the_anchor_that_hosts_give_it;
}

fn links_lead_to_existing_files_and_headings() {
    let link = Regex::new(r"\]\(([^()\s]+)\)").unwrap();
    let documents = documents();
    let anchors: BTreeMap<String, BTreeSet<String>> =
        documents.iter().map(|page| (page.name.clone(), anchors(page))).collect();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for page in &documents {
        for target in link.captures_iter(&page.text).map(|link| link[1].to_owned()) {
            if target.starts_with("https://") {
                continue;
            }
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() { page.name.clone() } else { beside(&page.name, file) };
            let is_there = root().join(&file).exists();
            let has_anchor =
                anchor.is_empty() || anchors.get(&file).is_some_and(|all| all.contains(anchor));
            if !is_there || !has_anchor {
                wrong.push(format!("{}: {target}", page.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 100, "{checked}");
}

/// Resolves a path in a page, relative to the root of the checkout.
fn beside(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "" | "." => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn anchors(page: &Document) -> BTreeSet<String> {
    let mut is_fenced = false;
    let mut anchors = BTreeSet::new();
    for line in page.text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        let heading = line.trim_start_matches('#');
        if !is_fenced && heading.len() < line.len() && heading.starts_with(' ') {
            anchors.insert(anchor(heading));
        }
    }
    anchors
}

/// Returns the anchor that code hosts such as GitHub create from a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn a_heading_has_the_anchor_that_hosts_give_it() {
    for (heading, expected) in [
        (" What you get: `qwed-mcp doctor`", "what-you-get-qwed-mcp-doctor"),
        (" `_meta`", "_meta"),
        (" From 0.2.x", "from-02x"),
        (" `doctor --format json`", "doctor---format-json"),
    ] {
        assert_eq!(anchor(heading), expected);
    }
}
