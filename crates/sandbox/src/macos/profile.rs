//! Builds the Seatbelt profile of one run, as a pure function of its plan.
//!
//! The text of the profile comes from `profile.sb`, which states the reason for each rule. The paths of the run are
//! parameters, so the text contains none of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use crate::Plan;

/// The template of the profile's text. Placeholders such as `@READABLE@` mark the places for the rules about paths.
const TEMPLATE: &str = include_str!("profile.sb");

/// The maximum number of paths in one form (a parenthesised expression of a profile). The compiler of profiles fails
/// for forms of 2^16 bytes (Nix's issue 4119). With this number of paths, a form stays below 2^14 bytes.
const PATHS_PER_FORM_MAX: usize = 256;

/// A profile in the form that `sandbox_init_with_parameters` takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Profile {
    /// The text of the profile, which contains no path of the run.
    pub text: String,
    /// The name and the value of each parameter.
    pub(crate) parameters: Vec<(String, String)>,
}

/// The error for a path that is not UTF-8 and so cannot be a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not UTF-8")]
pub(crate) struct NotText(pub(crate) PathBuf);

impl Profile {
    /// Returns the profile for a run of `plan` that may write to `scratch`, which must be a canonical path.
    pub(crate) fn new(plan: &Plan, scratch: &Path) -> Result<Self, NotText> {
        let mut parameters = Parameters::default();
        parameters.add("SCRATCH".to_owned(), scratch)?;
        let links: Vec<&PathBuf> = plan.links.iter().map(|(link, _)| link).collect();
        let readable: Vec<&PathBuf> = plan.readable.iter().collect();
        let ancestors = ancestors(
            readable.iter().chain(&links).map(|path| path.as_path()).chain([scratch]),
            &plan.folders,
        );
        let ancestors: Vec<&PathBuf> = ancestors.iter().collect();
        let readable =
            parameters.forms("allow file-read* file-map-executable", "subpath", "R", &readable)?;
        let links = parameters.forms("allow file-read*", "literal", "L", &links)?;
        let ancestors = parameters.forms("allow file-read-metadata", "literal", "A", &ancestors)?;
        let text = TEMPLATE
            .replace("@READABLE@", &readable)
            .replace("@LINKS@", &links)
            .replace("@ANCESTORS@", &ancestors);
        Ok(Self { text, parameters: parameters.0 })
    }
}

/// Returns every ancestor of `paths`, and `folders` with all of their ancestors. The root is not included.
fn ancestors<'a>(
    paths: impl Iterator<Item = &'a Path>,
    folders: &'a [PathBuf],
) -> BTreeSet<PathBuf> {
    let above = paths.flat_map(|path| path.ancestors().skip(1));
    let through = folders.iter().flat_map(|folder| folder.ancestors());
    let all = above.chain(through).filter(|folder| folder.parent().is_some());
    all.map(Path::to_owned).collect()
}

/// The parameters of a profile, in the order in which they were added.
#[derive(Default)]
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn add(&mut self, name: String, path: &Path) -> Result<(), NotText> {
        let value = path.to_str().ok_or_else(|| NotText(path.to_owned()))?;
        self.0.push((name, value.to_owned()));
        Ok(())
    }

    /// Adds each path as a parameter with a name that starts with `prefix`. Returns the forms that allow `operation` on
    /// these paths.
    fn forms(
        &mut self,
        operation: &str,
        filter: &str,
        prefix: &str,
        paths: &[&PathBuf],
    ) -> Result<String, NotText> {
        let mut forms = Vec::new();
        let mut number = 0;
        for paths in paths.chunks(PATHS_PER_FORM_MAX) {
            let mut form = vec![format!("({operation}")];
            for path in paths {
                let name = format!("{prefix}{number}");
                form.push(format!("  ({filter} (param \"{name}\"))"));
                self.add(name, path)?;
                number += 1;
            }
            forms.push(form.join("\n") + ")");
        }
        Ok(forms.join("\n"))
    }
}

#[cfg(test)]
mod tests;
