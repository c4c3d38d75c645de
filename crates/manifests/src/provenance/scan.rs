//! Searches the values of a manifest for dangerous patterns. It never searches the names of fields.

use serde_json::{Map, Value};

use super::finding::{EXCERPT_BYTES_MAX, Finding, excerpt};
use super::patterns::patterns_in;

/// The top-level fields that are not searched. Some contain prose, in which words about credentials are not an
/// attack. The others have a separate check of their format.
const FIELDS_NOT_SCANNED: &[&str] =
    &["author", "description", "digest", "license", "name", "registry", "source_url", "version"];

/// Returns a finding for each dangerous pattern in each text of the manifest. The findings are in the order of the
/// field names.
///
/// This function does not recurse, because a deeply nested manifest could overflow the stack. Only the parser of this
/// crate limits the depth.
pub(super) fn suspicious_values(manifest: &Map<String, Value>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let scanned = members(manifest).filter(|(step, _)| !is_excluded(step));
    let mut containers = vec![Container { step: None, values: Box::new(scanned) }];
    while let Some(container) = containers.last_mut() {
        let Some((step, value)) = container.values.next() else {
            containers.pop();
            continue;
        };
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => {
                for pattern in patterns_in(text) {
                    let expression = pattern.expression;
                    let place = place(&containers, &step);
                    findings.push(Finding::high(format!(
                        "Suspicious pattern '{expression}' in manifest field '{place}'"
                    )));
                }
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let values = Box::new(items.map(|(index, item)| (Step::Index(index), item)));
                containers.push(Container { step: Some(step), values });
            }
            Value::Object(object) => {
                containers.push(Container { step: Some(step), values: Box::new(members(object)) });
            }
        }
    }
    findings
}

/// An array or object in the manifest that is being searched.
struct Container<'m> {
    /// The step from the parent container to this container. `None` for the manifest itself.
    step: Option<Step<'m>>,
    values: Box<dyn Iterator<Item = (Step<'m>, &'m Value)> + 'm>,
}

/// A step from a container to a value in the container.
enum Step<'m> {
    Member(&'m str),
    Index(usize),
}

/// Returns the members of an object, sorted by name. Sorts them here, because `serde_json` keeps the order of insertion
/// if another crate enables its feature `preserve_order`.
fn members(object: &Map<String, Value>) -> impl Iterator<Item = (Step<'_>, &Value)> {
    let mut members: Vec<_> = object.iter().collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    members.into_iter().map(|(name, value)| (Step::Member(name), value))
}

fn is_excluded(step: &Step<'_>) -> bool {
    match step {
        Step::Member(name) => FIELDS_NOT_SCANNED.contains(name),
        Step::Index(_) => false,
    }
}

/// Returns the path of a value within the manifest, such as `hooks.install[0]`.
fn place(containers: &[Container<'_>], last: &Step<'_>) -> String {
    let mut place = String::new();
    let steps = containers.iter().filter_map(|container| container.step.as_ref()).chain([last]);
    for (depth, step) in steps.enumerate() {
        match step {
            Step::Member(name) if depth == 0 => place.push_str(&excerpt(name)),
            Step::Member(name) => place.extend([".", &excerpt(name)]),
            Step::Index(index) => place.extend(["[", &index.to_string(), "]"]),
        }
        // Stop here to save time, because `excerpt` would cut off all further steps.
        if place.len() > EXCERPT_BYTES_MAX {
            break;
        }
    }
    excerpt(&place)
}
