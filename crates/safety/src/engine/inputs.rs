//! Recognises calls that open an input. An input is a file that the caller passes together with the script. The
//! analysis receives the names of the inputs. Never reports a finding.
//!
//! The script must write the name of the input as a string literal, as in `open("data.csv")`, because a variable could
//! have a value that the analysis does not know. The name refers to the script's own folder, because a script cannot
//! change its current folder.

use std::sync::LazyLock;

use foldhash::HashMap;
use ruff_python_ast::{Expr, ExprCall};

use super::analyzer::Analyzer;
use super::conditions::Arguments;
use super::expressions::Role;
use crate::knowledge::objects::INPUT_STREAM;
use crate::knowledge::value::{Value, Values};
use crate::rules::Rule;
use crate::rules::inputs::{
    HARMLESS_ATTRIBUTES, MODES, OPEN_KEYWORDS, Opens, PATH_READERS, PATHS, READERS, REPLACED,
    RUNS_FILES, Reader, SETTING, WITH_INPUTS,
};

/// The effect of a call that opens an input.
pub(super) enum Opened<'a> {
    /// The call is harmless, and returns these values.
    Returns(Values<'a>),
    /// The call is judged as if its first argument had these values. The string is the keyword of the first argument.
    Takes(&'static str, Values<'a>),
}

impl<'a> Analyzer<'a, '_> {
    /// Returns the effect of a call, if the call opens an input.
    pub(super) fn opened_input(
        &mut self,
        call: &'a ExprCall,
        callee: &Values<'a>,
        arguments: &Arguments<'a>,
    ) -> Option<Opened<'a>> {
        if self.pass.inputs.is_empty() {
            return None;
        }
        if let Some((method, path)) = method_of_path(call) {
            let made = self.quietly(|this| this.evaluate(&path.func, Role::Callee));
            let is_input = matches!(made.single(), Some(Value::Object(made)) if PATHS.contains(&&**made))
                && matches!(&*path.arguments.args, [name] if self.is_input(name))
                && path.arguments.keywords.is_empty();
            if is_input
                && !self.may_redirect()
                && (method != "open"
                    || reads(arguments, 0, "mode") && has_open_arguments(arguments, 1))
            {
                let opened = if method == "open" { stream() } else { Values::unknown() };
                return Some(Opened::Returns(opened));
            }
            return None;
        }
        let Some(Value::Object(path)) = callee.single() else { return None };
        let Reader { keyword, opens, mode, .. } = reader(path)?;
        let expr = arguments.first(keyword)?;
        if !self.is_input(expr) || !(mode.is_empty() || reads(arguments, 1, mode)) {
            return None;
        }
        match opens {
            Opens::File if !has_open_arguments(arguments, 2) => None,
            Opens::File => Some(Opened::Returns(stream())),
            Opens::Database => Some(Opened::Takes(keyword, Values::text(":memory:"))),
            Opens::Content if self.may_redirect() => None,
            Opens::Content => Some(Opened::Takes(keyword, stream())),
        }
    }

    /// Returns whether the current folder contains inputs and the function `path` runs files in this folder as code.
    pub(super) fn runs_inputs(&self, path: &str) -> bool {
        !self.pass.inputs.is_empty() && RUNS_FILES.contains(&path)
    }

    /// Returns the rule to show in a finding. If the script has inputs, [`WITH_INPUTS`] replaces the rules about
    /// opening files, because its remedy explains inputs.
    pub(super) fn told(&self, rule: &'static Rule) -> &'static Rule {
        let is_replaced = !self.pass.inputs.is_empty() && REPLACED.contains(&rule.id);
        if is_replaced { &WITH_INPUTS } else { rule }
    }

    fn is_input(&self, expr: &Expr) -> bool {
        expr.as_string_literal_expr().is_some_and(|name| {
            let name = name.value.to_str();
            self.pass.inputs.contains(&name.strip_prefix("./").unwrap_or(name))
        })
    }

    /// Returns whether the script may replace a function that Python libraries use to open a file by name.
    fn may_redirect(&self) -> bool {
        let symbols = self.symbols;
        self.work().spend(symbols.assigned_attributes.len());
        symbols.has_dynamic_attributes
            || symbols.assigned_attributes.iter().any(|name| !HARMLESS_ATTRIBUTES.contains(name))
            || self.uses_any(SETTING)
    }
}

/// Returns the method and the call that creates the path, for a call such as `Path("data.csv").read_text()`.
fn method_of_path(call: &ExprCall) -> Option<(&str, &ExprCall)> {
    let attribute = call.func.as_attribute_expr()?;
    let method = attribute.attr.as_str();
    let path = attribute.value.as_call_expr()?;
    PATH_READERS.contains(&method).then_some((method, path))
}

/// Returns whether the arguments open a file for reading. The mode is the argument at the index `place`, or the
/// argument with the keyword `keyword`.
fn reads(arguments: &Arguments<'_>, place: usize, keyword: &str) -> bool {
    let is_mode = |mode: &Values<'_>| mode.as_text().is_some_and(|mode| MODES.contains(&mode));
    !arguments.has_unpacked()
        && !arguments.has_unpacked_keywords
        && arguments.get(place, keyword).is_none_or(|mode| {
            is_mode(mode) || keyword == "mmap_mode" && mode.single() == Some(&Value::Plain)
        })
}

/// Returns whether `open` receives only the file, the mode, and arguments about the decoding of text.
fn has_open_arguments(arguments: &Arguments<'_>, positionals_max: usize) -> bool {
    arguments.positionals().count() <= positionals_max
        && arguments.keywords().all(|(name, ..)| OPEN_KEYWORDS.contains(&name))
}

/// Returns the value of an open file.
fn stream<'a>() -> Values<'a> {
    Values::one(Value::Instance(INPUT_STREAM))
}

fn reader(path: &str) -> Option<&'static Reader> {
    static BY_PATH: LazyLock<HashMap<&str, &'static Reader>> = LazyLock::new(|| {
        READERS.iter().flat_map(|row| row.paths.split(' ').map(move |path| (path, row))).collect()
    });
    BY_PATH.get(path).copied()
}
