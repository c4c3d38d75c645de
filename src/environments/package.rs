//! The names and versions of packages that an admin adds.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::config::is_package_name;

/// The maximum number of characters of a requirement. This is enough for a name and a few version conditions.
const REQUIREMENT_CHARS_MAX: usize = 200;

/// The version comparisons (PEP 440). The first match is used, so `===` comes before its prefix `==`.
const COMPARISONS: [&str; 8] = ["===", "==", "~=", "!=", "<=", ">=", "<", ">"];

/// A package name, with optional extras and version conditions. URLs, paths and options are rejected, because they
/// could install and run code from any source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    name: String,
    text: String,
}

/// The error for a text that is not a requirement (a package name, with version conditions if any).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "expected the name of a package, and conditions on its version if any, such as polars or polars>=1,<2"
)]
pub(crate) struct InvalidRequirement;

impl Requirement {
    /// Returns the normalised name of the package (PEP 503).
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the requirement is for the package `name`, in any spelling.
    pub(crate) fn is_for(&self, name: &str) -> bool {
        normalised(name) == self.name
    }

    /// Returns the requirement in its canonical spelling: with the normalised name, and with sorted extras and
    /// conditions.
    pub(crate) fn normal(&self) -> Self {
        let end = self.text.find(|c: char| !is_of_name(c)).unwrap_or(self.text.len());
        let rest = self.text.get(end..).unwrap_or_default();
        let (extras, conditions) =
            match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((extras, conditions)) => (Some(extras), conditions),
                None => (None, rest),
            };
        let sorted = |list: String| {
            let mut parts: Vec<&str> = list.split(',').collect();
            parts.sort_unstable();
            parts.dedup();
            parts.join(",")
        };
        let extras = extras.map(|extras| {
            let extras: Vec<String> = extras.split(',').map(normalised).collect();
            format!("[{}]", sorted(extras.join(",")))
        });
        let (name, extras) = (self.name.clone(), extras.unwrap_or_default());
        let text = format!("{name}{extras}{}", sorted(conditions.to_owned()));
        Self { name, text }
    }

    /// Returns the whole requirement, without spaces.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the requirement, quoted for a shell if necessary.
    pub(crate) fn quoted(&self) -> String {
        let is_plain = self.text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.=".contains(c));
        if is_plain { self.text.clone() } else { format!("'{}'", self.text) }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Requirement {
    type Err = InvalidRequirement;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > REQUIREMENT_CHARS_MAX {
            return Err(InvalidRequirement);
        }
        let text = without_spaces(text).ok_or(InvalidRequirement)?;
        let end = text.find(|c: char| !is_of_name(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let conditions = match rest.strip_prefix('[') {
            None => rest,
            Some(rest) => {
                let (extras, conditions) = rest.split_once(']').ok_or(InvalidRequirement)?;
                extras
                    .split(',')
                    .all(is_package_name)
                    .then_some(conditions)
                    .ok_or(InvalidRequirement)?
            }
        };
        let are_conditions = conditions.is_empty() || conditions.split(',').all(is_condition);
        if !is_package_name(name) || !are_conditions {
            return Err(InvalidRequirement);
        }
        Ok(Self { name: normalised(name), text })
    }
}

/// Removes spaces. Returns `None` if a space separates two names, two versions or two comparisons, because they would
/// become one.
fn without_spaces(text: &str) -> Option<String> {
    let is_joining = |c: char| !",[]<>=~".contains(c);
    let mut joined = String::new();
    for part in text.split(' ').filter(|part| !part.is_empty()) {
        let (before, after) = (joined.chars().last(), part.chars().next());
        let is_separator = |c: Option<char>| c.is_none_or(|c| ",[]".contains(c));
        // A `!` without `=` is a part of a version.
        let is_comparison = part.starts_with("!=");
        let joins = after.map(|c| is_joining(c) && !is_comparison);
        if !is_separator(before) && !is_separator(after) && before.map(is_joining) == joins {
            return None;
        }
        joined.push_str(part);
    }
    Some(joined)
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

fn is_condition(text: &str) -> bool {
    let version = COMPARISONS.iter().find_map(|comparison| text.strip_prefix(comparison));
    version.is_some_and(is_version)
}

/// Returns whether a text can be a version.
pub(super) fn is_version(text: &str) -> bool {
    let is_of_version = |c: char| c.is_ascii_alphanumeric() || ".*+!-_".contains(c);
    !text.is_empty() && text.chars().all(is_of_version)
}

/// Returns the normalised name of a package (PEP 503). Two names belong to the same package if their normalised names
/// are equal.
pub(super) fn normalised(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_is_a_name_and_conditions() {
        for (text, name, kept) in [
            ("polars", "polars", "polars"),
            ("Zope.Interface", "zope-interface", "Zope.Interface"),
            ("polars >= 1, <2", "polars", "polars>=1,<2"),
            ("pandas[excel,html]==2.*", "pandas", "pandas[excel,html]==2.*"),
            ("a===1.0+local", "a", "a===1.0+local"),
            ("x~=1!2.0", "x", "x~=1!2.0"),
        ] {
            let requirement: Requirement = text.parse().unwrap();
            assert_eq!((requirement.name(), requirement.as_str()), (name, kept), "{text}");
        }
        for text in [
            "",
            "-r",
            "--index-url=https://example.org",
            "-e.",
            ".",
            "./polars",
            "/tmp/polars.whl",
            "polars.whl/..",
            "polars @ https://example.org/polars.whl",
            "git+https://example.org/polars",
            "https://example.org/polars",
            "polars; os_name == 'posix'",
            "polars>=1;",
            "polars>",
            "polars==1,",
            "polars==1 !2",
            "polars == 1 ! 2",
            "polars ! = 1",
            "polars[",
            "polars[]",
            "polars[-x]",
            "polars\n-r other",
            "polars\t",
            "polars=1",
            "polars pandas",
            "polars >=1 2",
            "polars > = 1",
            "_polars",
            "polars-",
            "pölars",
            "'polars'",
            "$(id)",
            &"p".repeat(201),
        ] {
            assert_eq!(text.parse::<Requirement>(), Err(InvalidRequirement), "{text:?}");
        }
    }

    #[test]
    fn equal_requirements_have_the_same_spelling() {
        let normal = |text: &str| text.parse::<Requirement>().unwrap().normal().to_string();
        for (text, expected) in [
            ("Zope.Interface", "zope-interface"),
            ("polars >= 1, <2", "polars<2,>=1"),
            ("pandas[HTML,excel,html]==2.*", "pandas[excel,html]==2.*"),
        ] {
            assert_eq!(normal(text), expected);
            assert_eq!(normal(expected), expected);
        }
    }

    #[test]
    fn a_requirement_is_quoted_where_a_shell_reads_more_into_it() {
        let quoted = |text: &str| text.parse::<Requirement>().unwrap().quoted();
        assert_eq!(quoted("polars==1.0"), "polars==1.0");
        assert_eq!(quoted("polars>=1"), "'polars>=1'");
        assert_eq!(quoted("polars[x]"), "'polars[x]'");
    }
}
