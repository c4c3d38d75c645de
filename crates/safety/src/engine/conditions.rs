//! Evaluates the conditions under which the rule table finds a call dangerous. Never reports a finding.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use std::borrow::Cow;

use ruff_python_ast::{Expr, ExprCall};
use smallvec::SmallVec;

use super::analyzer::Analyzer;
use super::{is_dangerous_code, is_dangerous_formula};
use crate::knowledge::fields::{format_names_internals, path_names_internals};
use crate::knowledge::index::INDEX;
use crate::knowledge::value::{Value, Values};
use crate::knowledge::{objects, stdlib};
use crate::rules::{Condition, Rule, Severity};
use crate::symbols::{elements, last_name};
use crate::work::Judgement;

/// Functions and methods that return strings.
#[rustfmt::skip]
const RETURNING_TEXT: &[&str] = &[
    "ascii", "chr", "decode", "dumps", "format", "getvalue", "input", "join", "loads", "read", "replace", "repr",
    "str", "strip", "translate",
];

/// An argument of a call: the keyword (if any), the expression and the possible values.
type Argument<'a> = (Option<Cow<'a, str>>, &'a Expr, Values<'a>);

/// The arguments of a call, with their possible values.
#[derive(Debug, Default, Clone)]
pub(super) struct Arguments<'a> {
    evaluated: SmallVec<[Argument<'a>; 4]>,
    /// The index of the first positional argument that is unknown, because it may come from a `*`.
    unknown_from: Option<usize>,
    /// The possible values of the arguments from `unknown_from` on.
    unknown: Values<'a>,
    /// True if the call has a `**` with unknown keys.
    pub(super) has_unpacked_keywords: bool,
}

impl<'a> Arguments<'a> {
    pub(super) fn push(&mut self, name: Option<&'a str>, expr: &'a Expr, values: Values<'a>) {
        self.evaluated.push((name.map(Cow::Borrowed), expr, values));
    }

    /// Adds a `*` argument with unknown elements.
    pub(super) fn push_unknown(&mut self) {
        if self.unknown_from.is_none() {
            self.unknown_from = Some(self.positionals().count());
            self.unknown = Values::unknown();
        }
    }

    /// Adds a `**` argument. If its keys are known, its values become keywords.
    pub(super) fn push_keywords(&mut self, expr: &'a Expr, values: &Values<'a>) {
        let Some(Value::Map(items)) = values.single() else {
            self.has_unpacked_keywords = true;
            return;
        };
        for (key, value) in items.iter() {
            match key.as_text() {
                Some(name) => {
                    let name = Cow::Owned(name.to_owned());
                    self.evaluated.push((Some(name), expr, value.clone()));
                }
                None => self.has_unpacked_keywords = true,
            }
        }
    }

    /// Returns the keywords and their values as a dictionary, as `dict` does.
    pub(super) fn as_map(&self) -> Values<'a> {
        let items = self
            .evaluated
            .iter()
            .filter_map(|(name, _, values)| Some((Values::text(name.clone()?), values.clone())));
        let map = Values::map(items.collect());
        if self.has_unpacked_keywords { Values::container(map.within().or_others()) } else { map }
    }

    pub(super) fn len(&self) -> usize {
        self.evaluated.len()
    }

    /// Returns all arguments except the argument at `place`. The result is used if that argument is `self`, or a
    /// function that receives the other arguments.
    pub(super) fn without(&self, place: usize) -> Self {
        let mut others = self.clone();
        if place < others.evaluated.len() {
            others.evaluated.remove(place);
        }
        others
    }

    /// Returns whether the call has only positional arguments with a known index.
    pub(super) fn are_plain(&self) -> bool {
        !self.hides_some() && self.evaluated.iter().all(|(name, ..)| name.is_none())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Values<'a>> {
        self.evaluated.iter().map(|(_, _, values)| values)
    }

    pub(super) fn positionals(&self) -> impl Iterator<Item = &Values<'a>> {
        self.evaluated.iter().filter(|(name, ..)| name.is_none()).map(|(_, _, values)| values)
    }

    pub(super) fn positional(&self, index: usize) -> Option<&Values<'a>> {
        if self.unknown_from.is_some_and(|from| index >= from) {
            return Some(&self.unknown);
        }
        self.positionals().nth(index)
    }

    /// Returns whether the call has a `*` argument with unknown elements.
    pub(super) fn has_unpacked(&self) -> bool {
        self.unknown_from.is_some()
    }

    pub(super) fn keywords(&self) -> impl Iterator<Item = (&str, &'a Expr, &Values<'a>)> {
        self.evaluated
            .iter()
            .filter_map(|(name, expr, values)| Some((name.as_deref()?, *expr, values)))
    }

    /// Returns the rule about a keyword of the call, regardless of the called function. Ignores keywords with the value
    /// `False` or `None`.
    pub(super) fn keyword_rule(&self) -> Option<&'static Rule> {
        let mut given = self.keywords().filter(|(_, expr, _)| !is_off(expr));
        given.find_map(|(name, ..)| INDEX.keyword(name))
    }

    /// Treats `*` and `**` arguments with unknown contents as empty.
    pub(super) fn forget_unpacked(&mut self) {
        self.unknown_from = None;
        self.has_unpacked_keywords = false;
    }

    /// Returns the argument at `index`, or the argument with the keyword `name`.
    pub(super) fn get(&self, index: usize, name: &str) -> Option<&Values<'a>> {
        let named = self.keywords().find(|(of, ..)| *of == name);
        named.map(|(_, _, values)| values).or_else(|| self.positional(index))
    }

    /// Returns the first positional argument, or the argument with this keyword. Returns `None` if the call has both,
    /// or may have unseen arguments.
    pub(super) fn first(&self, keyword: &str) -> Option<&'a Expr> {
        let mut all = self.at_or_named(0, keyword).filter(|_| !self.hides_some());
        let (_, expr, _) = all.next()?;
        all.next().is_none().then_some(*expr)
    }

    /// Replaces the argument that [`Self::first`] returns.
    pub(super) fn replace_first(&mut self, keyword: &str, with: Values<'a>) {
        let mut all = self.evaluated.iter_mut();
        let is_first =
            |(name, ..): &&mut Argument<'a>| name.as_deref().is_none_or(|name| name == keyword);
        if let Some((.., values)) = all.find(is_first) {
            *values = with;
        }
    }

    fn hides_some(&self) -> bool {
        self.unknown_from.is_some() || self.has_unpacked_keywords
    }

    /// Returns the argument at `index`, and the arguments with one of the keywords in `names`.
    fn at_or_named(&self, index: usize, names: &str) -> impl Iterator<Item = &Argument<'a>> {
        let positional = self.evaluated.iter().filter(|(name, ..)| name.is_none()).nth(index);
        let by_name = self
            .evaluated
            .iter()
            .filter(move |(name, ..)| names.split(' ').any(|of| name.as_deref() == Some(of)));
        positional.into_iter().chain(by_name)
    }

    /// Returns whether `is_such` is true for the argument at `index`, or for an argument with one of the keywords in
    /// `names`.
    fn any_at(&self, index: usize, names: &str, is_such: impl Fn(&Values<'a>) -> bool) -> bool {
        self.at_or_named(index, names).any(|(.., values)| is_such(values))
    }

    /// Returns whether the argument at `index`, or an argument with one of the keywords in `names`, may name a file.
    fn name_file(&self, index: usize, names: &str) -> bool {
        let is_file = |(_, expr, values): &Argument<'a>| {
            !expr.is_none_literal_expr() && !is_in_memory(values)
        };
        self.hides_some() || self.at_or_named(index, names).any(is_file)
    }

    /// Returns whether the first argument, or the argument with the keyword `name`, is known to be the name of an
    /// image file.
    fn name_pictures(&self, name: &str) -> bool {
        let is_picture = |(.., values): &Argument<'a>| {
            let (mut texts, is_complete) = values.texts();
            is_complete && !values.known.is_empty() && texts.all(is_picture_name)
        };
        !self.hides_some() && self.at_or_named(0, name).all(is_picture)
    }

    /// Returns whether `is` holds for a string in one of the arguments.
    pub(super) fn have_text(&self, is: &mut dyn FnMut(&str) -> bool) -> bool {
        self.evaluated.iter().any(|(_, expr, values)| has_text(expr, values, is))
    }

    /// Returns whether Z3 may write a log because the arguments set a parameter of Z3.
    fn log(&self) -> bool {
        let is_such = |value: &Value<'_>| match value {
            Value::Text(text) | Value::Start(text) => logs(text),
            _ => false,
        };
        self.hides_some()
            || self.evaluated.iter().any(|(name, _, values)| {
                name.as_deref().is_some_and(logs) || values.known.iter().any(is_such)
            })
    }

    /// Returns whether the argument at `index`, or an argument with one of the keywords in `names`, may be a string.
    fn take_text(&self, base: Option<&Values<'a>>, index: usize, names: &str) -> bool {
        // The rule is about a method. If `base` is a module or class, the call is a call of a function, which may have
        // a different argument at this index. So the argument must then be known to be a string.
        let is_member = matches!(base.and_then(Values::single), Some(Value::Object(_)));
        self.hides_some()
            || self.any_at(index, names, |values| {
                if is_member { values.any_text(&mut |_| true) } else { may_be_name(values) }
            })
    }
}

impl<'a> Analyzer<'a, '_> {
    /// Returns whether a condition of the rule table holds for a call with these arguments.
    pub(super) fn holds(
        &mut self,
        condition: Condition,
        base: Option<&Values<'a>>,
        arguments: &Arguments<'a>,
    ) -> bool {
        match condition {
            Condition::Always => true,
            Condition::Imported(module) => {
                self.imports(module) && !base.is_some_and(|base| is_member_of_another(base, module))
            }
            Condition::NamesFile(place, names) => arguments.name_file(place, names),
            Condition::SavesElsewhere(name) => match base {
                Some(_) => arguments.take_text(base, 0, name) && !arguments.name_pictures(name),
                None => arguments.name_file(0, name) && !arguments.name_pictures(name),
            },
            Condition::IsTextAt(place, name) => {
                arguments.any_at(place, name, |values| values.any_text(&mut |_| true))
            }
            Condition::TakesText(names) => arguments.take_text(base, 0, names),
            Condition::TakesTextAt(library, place, name) => {
                self.imports(library)
                    && !base.is_some_and(is_member)
                    && arguments.take_text(base, place, name)
            }
            Condition::Given(place, names) => {
                arguments.has_unpacked_keywords
                    || arguments.at_or_named(place, names).any(|(_, expr, _)| !is_off(expr))
            }
            Condition::Sets(name) => self.sets(name),
            Condition::Logs => self.imports("z3") && arguments.log(),
            Condition::OfUnknown => !base.is_some_and(is_of_unknown_library),
            Condition::LogsByText => self.imports("z3") && self.logs_by_text(arguments),
            Condition::NamesStyleFile(name) => arguments.any_at(0, name, names_style_file),
            Condition::NamesModule => {
                let mut modules = arguments.positional(0).into_iter();
                modules.any(|values| values.any_text(&mut |name| !may_be_imported(name)))
            }
            Condition::NamesTests => {
                self.symbols.own_attributes.contains("argv")
                    || arguments.evaluated.iter().any(|(_, _, values)| names_tests(values))
            }
            Condition::UnsafeLoader => !arguments.any_at(1, "Loader", is_safe_loader),
            Condition::DatabaseFile => {
                arguments.hides_some()
                    || arguments.any_at(0, "database url", |values| !is_memory(values))
            }
            Condition::ReachingSql(library) => {
                let has_files = ["sqlite3", library].iter().any(|of| self.imports_itself(of));
                self.reaches_files_by(arguments, has_files, is_hidden_statement)
            }
            Condition::ReachingScript => {
                let is_hidden = |sql: &Values<'a>| !sql.known.iter().any(is_text);
                self.reaches_files_by(arguments, self.imports_itself("sqlite3"), is_hidden)
            }
            Condition::Code => arguments.hides_some() || self.runs_dangerous_code(arguments),
            Condition::Formula => {
                arguments.have_text(&mut |text| is_dangerous_formula(text, self.work()))
            }
            Condition::UnknownFormula => arguments
                .positional(0)
                .is_some_and(|values| values.is_open && values.texts().0.next().is_none()),
            Condition::ImportsModule => self.imports_module(arguments),
            Condition::FormatsInternals => self.formats_internals(base, arguments),
            Condition::NamesAttributes(first, count) => {
                let mut others = arguments.without(0);
                // Only `attrgetter` has a count above 1. `attrgetter` does not call the method that it takes. The
                // script may call the method later with any arguments.
                others.has_unpacked_keywords |= count > 1;
                let mut names = arguments.positionals().skip(first).take(count);
                names.any(|values| self.names_internals(values, &others))
            }
            Condition::UnknownName => {
                arguments.hides_some() || arguments.positional(0).is_some_and(|of| !of.texts().1)
            }
            Condition::NamesObject => arguments.any_at(0, "target", may_name_found),
        }
    }

    /// Returns whether the script imports this library. In a string of code, returns true for every library, because
    /// the code can also use the imports of the script.
    pub(super) fn imports(&self, library: &str) -> bool {
        self.pass.text_depth > 0 || self.symbols.imported.contains(library)
    }

    /// Returns whether the script sets an attribute with this name, or contains the name in quotes or as a keyword.
    /// Ignores names that the script composes, because the script may do so later in the source. `report_if_set` checks
    /// these names.
    fn sets(&self, name: &str) -> bool {
        self.work().spend(self.source.len() / 64);
        let is_quoted = |quote| self.source.contains(&format!("{quote}{name}{quote}"));
        // A script can turn its variables into attributes of an object, as in `SimpleNamespace(**globals())`.
        let is_variable =
            || self.symbols.is_bound(name) && self.uses_any(&["globals", "locals", "vars"]);
        self.symbols.own_attributes.contains(name)
            || self.symbols.keywords.contains(name)
            || is_variable()
            || is_quoted('"')
            || is_quoted('\'')
    }

    /// Returns whether the first argument is SQL that reaches files. `has_files` is true if the script imports a
    /// library that can open database files. In this case, SQL with an unknown effect is assumed to reach files.
    /// `is_hidden` returns whether the effect of the SQL is unknown.
    fn reaches_files_by(
        &self,
        arguments: &Arguments<'a>,
        has_files: bool,
        is_hidden: impl Fn(&Values<'a>) -> bool,
    ) -> bool {
        let sql = arguments.positional(0);
        sql.is_some_and(|sql| self.reaches_files(sql) || has_files && is_hidden(sql))
    }

    fn imports_itself(&self, library: &str) -> bool {
        self.symbols.imported.contains(library)
    }

    /// Returns whether a call imports a module that is forbidden or unknown. Records the known modules as imports.
    fn imports_module(&mut self, arguments: &Arguments<'a>) -> bool {
        let modules = || arguments.at_or_named(0, "name");
        for module in modules().flat_map(|(_, _, values)| values.texts().0) {
            self.record_import(module.to_owned());
        }
        arguments.hides_some()
            || modules().any(|(_, _, values)| {
                let (mut names, is_complete) = values.texts();
                !is_complete || names.any(|name| !may_be_imported(name))
            })
    }

    /// Returns whether a string that the call runs as code is dangerous or unknown. An argument that is a function is
    /// judged at its definition.
    fn runs_dangerous_code(&mut self, arguments: &Arguments<'a>) -> bool {
        let of_interest = arguments.at_or_named(0, "stmt setup");
        let second = arguments.at_or_named(1, "");
        of_interest.chain(second).any(|(_, expr, values)| {
            let with_parameters;
            let mut values = values;
            if !values.texts().1 && (expr.is_f_string_expr() || expr.is_name_expr()) {
                with_parameters = self.as_code(|this| this.part_of_code(expr));
                values = &with_parameters;
            }
            let (mut texts, is_complete) = values.texts();
            if texts.any(|text| is_dangerous_code(text, self.pass)) {
                return true;
            }
            // An argument with unknown alternatives is treated as unknown code if the script composes the argument like
            // a string, or if the argument is a name without known values. A name with known values may refer to a
            // function, which is not a string of code.
            let returns_text = |call: &ExprCall| {
                last_name(&call.func).is_some_and(|name| RETURNING_TEXT.contains(&name))
            };
            !is_complete
                && (matches!(expr, Expr::BinOp(_) | Expr::FString(_) | Expr::Subscript(_))
                    || (expr.is_name_expr() && values.known.is_empty())
                    || expr.as_call_expr().is_some_and(returns_text))
        })
    }

    /// Returns whether the arguments make Z3 write a log, or contain a string with an unknown start. Strings that Z3
    /// itself creates are harmless, because they only describe a problem to solve.
    fn logs_by_text(&mut self, arguments: &Arguments<'a>) -> bool {
        let is_start = |value: &Value<'_>| {
            is_text(value) || matches!(value, Value::Start(start) if !start.is_empty())
        };
        arguments.log()
            || arguments.at_or_named(0, "s").any(|(_, expr, values)| {
                !values.known.iter().any(is_start) && !self.is_text_of_solver(expr)
            })
    }

    /// Returns whether `values` contains an attribute path, or a list of attribute names, that leads to the
    /// interpreter's internals, to another module or to a refused method. The script takes the attributes in a list one
    /// after the other.
    fn names_internals(&mut self, values: &Values<'a>, others: &Arguments<'a>) -> bool {
        values.known.iter().any(|value| match value {
            Value::Text(text) => {
                self.work().spend(text.len() / 4);
                path_names_internals(text, |name| self.is_refused_method(name, others))
            }
            Value::Items(items) => items.iter().flat_map(|item| item.texts().0).any(|part| {
                let is_module = part.starts_with('_') && objects::far_reaching(part).is_some();
                is_module || INDEX.attribute(part).is_some()
            }),
            _ => false,
        })
    }

    /// Returns whether the format string reads one of the interpreter's internals. The formatted values are not judged,
    /// because they are only printed. The format string is the known string before the dot, or else the first argument:
    /// `Formatter().format(…)`, `str.format(…)`.
    fn formats_internals(&self, base: Option<&Values<'a>>, arguments: &Arguments<'a>) -> bool {
        let takes = |values: &Values<'_>| values.texts().0.any(|text| self.takes_internals(text));
        match base {
            Some(base) if base.texts().0.next().is_some() => takes(base),
            Some(_) => arguments.positional(0).is_some_and(takes),
            None => arguments.all().any(takes),
        }
    }

    pub(super) fn takes_internals(&self, format: &str) -> bool {
        self.work().judge(Judgement::Attributes, format, || format_names_internals(format))
    }

    /// Returns whether a rule refuses a call of a method with this name and these arguments.
    fn is_refused_method(&mut self, name: &str, arguments: &Arguments<'a>) -> bool {
        INDEX
            .methods(name)
            .iter()
            .any(|(rule, on)| rule.severity == Severity::Block && self.holds(*on, None, arguments))
    }

    /// Returns whether a string in `values` is SQL that reaches files.
    pub(super) fn reaches_files(&self, values: &Values<'a>) -> bool {
        let is_such = |sql: &str| self.work().judge(Judgement::Sql, sql, || reaches_files(sql));
        values.any_text(&mut { is_such })
    }

    /// Returns whether the examples that doctest finds in a docstring are dangerous.
    pub(super) fn has_dangerous_examples(&self, docstring: &str) -> bool {
        let mut code = String::with_capacity(docstring.len());
        for line in docstring.lines() {
            let line = line.trim_start();
            if let Some(line) = line.strip_prefix(">>> ").or_else(|| line.strip_prefix("... ")) {
                code.push_str(line);
                code.push('\n');
            }
        }
        !code.is_empty() && is_dangerous_code(&code, self.pass)
    }
}

/// Returns whether `is` holds for a string among `values`, or for a string literal in `expr`.
pub(super) fn has_text(expr: &Expr, values: &Values<'_>, is: &mut dyn FnMut(&str) -> bool) -> bool {
    if values.any_text(is) {
        return true;
    }
    let is_so = |part: &Expr| has_text(part, &Values::unknown(), is);
    match expr {
        Expr::Dict(dict) => {
            dict.items.iter().flat_map(|item| item.key.iter().chain([&item.value])).any(is_so)
        }
        Expr::Set(set) => set.iter().any(is_so),
        Expr::Tuple(_) | Expr::List(_) => elements(expr).iter().any(is_so),
        Expr::StringLiteral(literal) => is(literal.value.to_str()),
        _ => false,
    }
}

/// Returns whether `values`, which are arguments of a test program such as `unittest.main`, name modules, plugins or
/// files. Verbosity flags and the names of the script's own tests are harmless.
fn names_tests(values: &Values<'_>) -> bool {
    let is_own = |argument: &str| match argument.strip_prefix('-') {
        Some(flags) => flags.chars().all(|flag| "bfqsvx".contains(flag)) || flags == "-verbose",
        None => !argument.contains(['.', ':', '/']),
    };
    values.known.iter().any(|value| match value {
        Value::Text(name) => !is_own(name),
        // The first item is usually the name of the program. A first item that starts with a dash is a flag, so only
        // such a first item is checked.
        Value::Items(items) => items.iter().enumerate().any(|(place, item)| {
            item.texts().0.any(|text| !is_own(text) && (place > 0 || text.starts_with('-')))
        }),
        _ => false,
    })
}

/// Returns whether the object before the dot is a module of the standard library other than `module`.
fn is_member_of_another(base: &Values<'_>, module: &str) -> bool {
    matches!(base.single(), Some(Value::Object(path)) if path != module && stdlib::contains(path))
}

/// Returns whether the object before the dot is an external module or class. Functions of modules have their own rules,
/// so rules about methods skip them.
fn is_member(base: &Values<'_>) -> bool {
    matches!(base.known.first(), Some(Value::Object(_)))
}

/// Returns whether an argument may be the name of an object that a rule finds. The object `os.environ` itself is
/// harmless as an argument, because a script is permitted to change its environment.
fn may_name_found(values: &Values<'_>) -> bool {
    let (mut names, is_complete) = values.texts();
    let is_environment =
        matches!(values.single(), Some(Value::Object(path)) if path == "os.environ");
    !is_environment && (!is_complete || names.any(|name| INDEX.is_found(name)))
}

/// Returns whether one of these plot styles is the name of a file. A style can also be a dictionary of settings, which
/// is never the name of a file.
fn names_style_file(styles: &Values<'_>) -> bool {
    styles.known.iter().any(|value| match value {
        Value::Text(name) => name.contains(['/', '\\', ':', '.']),
        Value::Items(items) => items.iter().any(names_style_file),
        Value::Container(of) => names_style_file(of),
        _ => false,
    })
}

/// Returns whether `text` makes Z3 write a log, as a string of commands or as the name of a parameter.
fn logs(text: &str) -> bool {
    let is_of_log = |word: &str| matches!(word, "dump" | "file" | "log" | "trace");
    text.split(['.', '_']).any(is_of_log) || text.contains("-output-channel")
}

fn is_in_memory(values: &Values<'_>) -> bool {
    !values.is_open && values.known.iter().all(is_stream)
}

fn is_stream(value: &Value<'_>) -> bool {
    match value {
        Value::Instance(class) => objects::is_stream(class),
        Value::Items(_) | Value::Map(_) | Value::Container(_) | Value::Plain => true,
        Value::Object(path) => path.starts_with("sys.std"),
        _ => false,
    }
}

/// Returns whether `name` is the name of an image directly in the current folder, which is the script's own folder.
fn is_picture_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || " _-.,()+=".contains(c);
    let has_ending = [".png", ".svg"].iter().any(|ending| name.ends_with(ending));
    has_ending
        && !name.starts_with(['.', '-', ' '])
        && name.len() <= 100
        && name.chars().all(is_plain)
}

/// Returns whether an argument may be the name of a file: it may be a string, or its value is unknown.
fn may_be_name(values: &Values<'_>) -> bool {
    let is_other = |value: &Value<'_>| match value {
        Value::Number(_) | Value::Own(_) | Value::OwnClass(_) | Value::OwnFunction(_) => true,
        value => is_stream(value),
    };
    values.is_open || !values.known.iter().all(is_other)
}

/// Returns whether `values` are names of databases in memory. A parameter is assumed to have its default as its value,
/// although an unseen call may pass a different name.
fn is_memory(values: &Values<'_>) -> bool {
    let is_memory = |value: &Value<'_>| match value {
        Value::Text(name) => is_memory_database(name),
        value => *value == Value::Plain,
    };
    !values.known.is_empty() && values.known.iter().all(is_memory)
}

/// Returns whether `base` is a class or module of a library that is not in the table of libraries.
fn is_of_unknown_library(base: &Values<'_>) -> bool {
    matches!(base.single(), Some(Value::Object(path)) if !objects::is_known_module(path))
}

fn is_text(value: &Value<'_>) -> bool {
    matches!(value, Value::Text(_))
}

/// Returns whether the effect of an SQL statement is unknown, because its first word is unknown or allows a file name
/// later in the statement.
fn is_hidden_statement(values: &Values<'_>) -> bool {
    let is_harmless = |value: &Value<'_>| match value {
        Value::Start(start) => {
            let sql = words_of_sql(&start.to_ascii_lowercase());
            let first = sql.trim_start().split_once(|c: char| !c.is_alphanumeric() && c != '_');
            first.is_some_and(|(word, _)| !matches!(word, "" | "attach" | "vacuum"))
        }
        value => matches!(value, Value::Text(_) | Value::Instance(_) | Value::Own(_)),
    };
    !values.known.iter().any(is_harmless)
}

fn is_off(expr: &Expr) -> bool {
    match expr {
        Expr::BooleanLiteral(literal) => !literal.value,
        expr => expr.is_none_literal_expr(),
    }
}

fn is_safe_loader(values: &Values<'_>) -> bool {
    const SAFE: &[&str] = &["BaseLoader", "CBaseLoader", "CSafeLoader", "SafeLoader"];
    matches!(values.single(), Some(Value::Object(path))
        if path.rsplit('.').next().is_some_and(|name| SAFE.contains(&name)))
}

fn is_memory_database(name: &str) -> bool {
    name.is_empty()
        || matches!(name, ":memory:" | "file::memory:" | "sqlite://" | "sqlite:///:memory:")
        || matches!(name, "sqlite+aiosqlite://" | "sqlite+aiosqlite:///:memory:")
        || name.starts_with("file::memory:?")
}

/// The delimiters of SQL comments, strings and quoted names. The text between them contains no SQL words.
const NO_SQL: &[(&str, &str)] =
    &[("--", "\n"), ("/*", "*/"), ("'", "'"), ("\"", "\""), ("`", "`"), ("[", "]")];

/// Returns whether an SQL statement attaches another database, writes a database to a file, or loads a library.
fn reaches_files(sql: &str) -> bool {
    let sql = words_of_sql(&sql.to_ascii_lowercase());
    sql.contains("load_extension")
        || sql.split(';').any(|statement| {
            let mut words = statement.split(|c: char| !c.is_alphanumeric() && c != '_');
            match words.find(|word| !word.is_empty()) {
                Some("attach") => true,
                Some("vacuum") => words.any(|word| word == "into"),
                _ => false,
            }
        })
}

fn words_of_sql(mut sql: &str) -> String {
    let mut words = String::new();
    while let Some(at) = sql.find(['-', '/', '\'', '"', '`', '[']) {
        let (before, found) = sql.split_at(at);
        words.extend([before, " "]);
        let quoted = NO_SQL.iter().find_map(|(open, close)| {
            let (_, after) = found.strip_prefix(open)?.split_once(close).unwrap_or_default();
            Some(after)
        });
        sql = quoted.or_else(|| found.get(1..)).unwrap_or_default();
    }
    words + sql
}

fn may_be_imported(module: &str) -> bool {
    // The script must not import itself by name. A relative name does not identify the module, because it depends on
    // the importing package.
    !matches!(module, "" | "__main__")
        && !module.starts_with('.')
        && INDEX.import_rule(module).is_none()
}
