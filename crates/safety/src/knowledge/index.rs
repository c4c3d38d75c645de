//! Indexes the rule table by names, and looks names up in it. Never reads a script.

use std::sync::LazyLock;

use foldhash::{HashMap, HashSet};

use super::libraries::{self, Functions, PATH_BYTES_MAX, shortened};
use super::{before_dot, behind_dot, stdlib, top};
use crate::rules::{self, Condition, Rule, Special, Target};

/// The index of the rule table, which is built at its first use.
pub(crate) static INDEX: LazyLock<Index> = LazyLock::new(Index::new);

/// Members that every module has, and that hold only facts about the module, such as its name or path.
const OF_EVERY_MODULE: &[&str] =
    &["__all__", "__author__", "__class__", "__doc__", "__file__", "__name__", "__version__"];

/// If the qualified name of a module contains one of these words, the module is treated as a program.
const ENTRY_POINTS: &[&str] = &["__main__", "cli", "cmdline", "conftest", "tests"];

/// Modules that are harmless although their names start with an underscore, because a script can do no more with them
/// than with public modules.
#[rustfmt::skip]
const HARMLESS_PRIVATE: &[&str] = &[
    "__future__", "__hello__", "__main__", "__phello__", "_bisect", "_collections_abc",
    "_datetime", "_decimal", "_heapq", "_plotly_utils", "_random", "_statistics", "_struct",
];

/// Functions that the index ignores in the generated table of libraries, because hand-written rows of the rule table
/// are about them.
const HAVE_OWN_ROWS: [&str; 1] = ["savefig"];

/// The judgement of the rules about a qualified name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verdict {
    /// An object that no rule finds.
    Clear,
    /// An object that this rule finds.
    Found(&'static Rule),
    /// A module with dangerous members. The module itself is harmless, as long as the analysis can follow its uses.
    Carrier,
}

/// The row of the rule table for the object with a qualified name.
#[derive(Debug)]
enum Row {
    /// The rule finds the object and all its members.
    Object(&'static Rule),
    /// A module in which the rule finds every member except the members in the set.
    Carrier(&'static Rule, HashSet<&'static str>),
    /// A module in which only members with rows of their own are dangerous.
    Holder,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    rows: HashMap<&'static str, Row>,
    attributes: HashMap<&'static str, &'static Rule>,
    keywords: HashMap<&'static str, &'static Rule>,
    /// The names of attributes that make certain calls dangerous if the script sets them.
    settable: HashSet<&'static str>,
    calls: HashMap<&'static str, Vec<(&'static Rule, Condition)>>,
    methods: HashMap<&'static str, Vec<(&'static Rule, Condition)>>,
    special: Vec<(Special, &'static Rule)>,
    /// The modules and classes with a member in the table.
    owners: HashSet<&'static str>,
    /// The topmost modules of all names in the table.
    roots: HashSet<&'static str>,
}

impl Index {
    fn new() -> Self {
        let mut index = Self::default();
        for rule in rules::all() {
            for target in rule.targets {
                index.insert(rule, *target);
            }
        }
        let of_path = |path| std::iter::successors(behind_dot(path), |(of, _)| behind_dot(of));
        index.owners = index.paths().flat_map(of_path).map(|(owner, _)| owner).collect();
        index
    }

    fn insert(&mut self, rule: &'static Rule, target: Target) {
        match target {
            Target::Modules(names) | Target::Objects(names) => {
                for name in names.split_ascii_whitespace() {
                    self.rows.insert(name, Row::Object(rule));
                    self.roots.insert(top(name));
                }
            }
            Target::AllBut(module, harmless) => {
                let harmless = harmless.split_ascii_whitespace().collect();
                self.rows.insert(module, Row::Carrier(rule, harmless));
                self.roots.insert(top(module));
            }
            Target::Holder(module) => {
                self.rows.insert(module, Row::Holder);
                self.roots.insert(top(module));
            }
            Target::Attributes(names) => {
                self.attributes.extend(names.split_ascii_whitespace().map(|name| (name, rule)));
            }
            Target::Keywords(names) => {
                self.keywords.extend(names.split_ascii_whitespace().map(|name| (name, rule)));
            }
            Target::Calls(names, condition) => {
                if let Condition::Sets(attribute) = condition {
                    self.settable.insert(attribute);
                }
                for name in names.split_ascii_whitespace() {
                    self.calls.entry(name).or_default().push((rule, condition));
                    self.roots.insert(top(name));
                }
            }
            Target::Libraries => {
                for functions in libraries::functions() {
                    self.insert_functions(rule, &functions);
                }
            }
            Target::Methods(names, condition) => {
                for name in names.split_ascii_whitespace() {
                    self.methods.entry(name).or_default().push((rule, condition));
                }
            }
            Target::Special(special) => self.special.push((special, rule)),
            Target::Patterns(_) => {}
        }
    }

    fn insert_functions(&mut self, rule: &'static Rule, functions: &Functions) {
        let Functions { module, place, parameter, names } = *functions;
        self.roots.insert(top(module));
        for name in names.split(' ') {
            if HAVE_OWN_ROWS.contains(&name.trim_start_matches('.')) {
                continue;
            }
            if let Some(method) = name.strip_prefix('.') {
                let condition = Condition::TakesTextAt(top(module), place, parameter);
                self.methods.entry(method).or_default().push((rule, condition));
            } else {
                // The table is built once and lasts as long as the process, so leaking the path is harmless.
                let path = format!("{module}.{name}").leak();
                let condition = Condition::NamesFile(place, parameter);
                self.calls.entry(path).or_default().push((rule, condition));
            }
        }
    }

    /// Judges the object with this qualified name. The row for the longest prefix of the name decides.
    pub(crate) fn verdict(&self, path: &str) -> Verdict {
        if !self.roots.contains(top(path)) {
            return self.unnamed(path);
        }
        // No row has a longer path than `PATH_BYTES_MAX`.
        let mut prefix = &path[..path.floor_char_boundary(PATH_BYTES_MAX)];
        loop {
            match self.rows.get(prefix) {
                Some(Row::Object(rule)) => return Verdict::Found(rule),
                Some(Row::Carrier(rule, harmless)) => {
                    let Some(below) = path.get(prefix.len() + 1..) else { return Verdict::Carrier };
                    let member = top(below);
                    let is_harmless =
                        harmless.contains(member) || OF_EVERY_MODULE.contains(&member);
                    return if is_harmless { Verdict::Clear } else { Verdict::Found(rule) };
                }
                Some(Row::Holder) if prefix.len() == path.len() => return Verdict::Carrier,
                Some(Row::Holder) | None => {}
            }
            let Some((shorter, _)) = behind_dot(prefix) else { return self.elsewhere(path) };
            prefix = shorter;
        }
    }

    /// Judges an object by its shortened path, for example `z3.open_log` for `z3.z3.open_log`. A library may hold the
    /// same object in several modules.
    fn elsewhere(&self, path: &str) -> Verdict {
        match shortened(path).and_then(|path| self.rows.get(path.as_str())) {
            Some(Row::Object(rule)) => Verdict::Found(rule),
            Some(Row::Carrier(..) | Row::Holder) | None => self.unnamed(path),
        }
    }

    /// Judges an object without a row by the parts of its qualified name. A part that starts with one underscore marks
    /// a private object. A part such as `__main__` marks a module that is a program.
    fn unnamed(&self, path: &str) -> Verdict {
        let is_private = |part: &str| part.starts_with('_') && !part.starts_with("__");
        let is_entry_point = |part: &str| ENTRY_POINTS.contains(&part);
        let is_of_interest =
            |part: &str| is_private(part) || is_entry_point(part) || part == "main";
        let Some((top, below)) = before_dot(path) else { return Verdict::Clear };
        if !below.split('.').any(is_of_interest) {
            return Verdict::Clear;
        }
        let (is_private, is_entry_point) = if stdlib::contains(top) {
            let is_main = below.split('.').any(|part| part == "main" || part == "__main__");
            (below.split('.').any(is_private), is_main && path != "unittest.main")
        } else if libraries::contains(top) {
            // SymPy's private functions only compute, and its documentation uses them, so they are permitted.
            let is_private = top != "sympy" && below.split('.').rev().skip(1).any(is_private);
            (is_private, below.split('.').any(is_entry_point))
        } else {
            (false, false)
        };
        let special = match (is_private, is_entry_point) {
            (true, _) => self.special(Special::PrivateMember),
            (false, true) => self.special(Special::EntryPoint),
            (false, false) => None,
        };
        special.map_or(Verdict::Clear, Verdict::Found)
    }

    /// Returns whether a row of the table names exactly this object.
    pub(crate) fn has_row(&self, path: &str) -> bool {
        matches!(self.rows.get(path), Some(Row::Object(_) | Row::Carrier(..)))
    }

    /// Returns the rule against importing this module: either the rule that finds the module, or the rule against
    /// private modules.
    pub(crate) fn import_rule(&self, module: &str) -> Option<&'static Rule> {
        if let Verdict::Found(rule) = self.verdict(module) {
            return Some(rule);
        }
        let is_private = module.starts_with('_') && !HARMLESS_PRIVATE.contains(&top(module));
        is_private.then(|| self.special(Special::PrivateModule)).flatten()
    }

    /// Returns the qualified names in the rule table: the names of all rows except `Holder` rows, and the names of the
    /// functions with rules about their calls.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &'static str> {
        let is_named = |(_, row): &(_, &Row)| !matches!(row, Row::Holder);
        let of_rows = self.rows.iter().filter(is_named).map(|(path, _)| path);
        of_rows.chain(self.calls.keys()).copied()
    }

    /// Returns the qualified names of the `Object` rows.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &'static str> {
        let is_object = |(_, row): &(_, &Row)| matches!(row, Row::Object(_));
        self.rows.iter().filter(is_object).map(|(path, _)| *path)
    }

    pub(crate) fn is_found(&self, path: &str) -> bool {
        matches!(self.verdict(path), Verdict::Found(_))
    }

    /// Returns whether a row of the table is about a member of this module.
    pub(crate) fn names_member_of(&self, module: &str) -> bool {
        self.owners.contains(module)
    }

    /// Returns whether a row is about calls of this function, and not only about calls into its package.
    pub(crate) fn judges_calls_of(&self, path: &str) -> bool {
        self.calls_at_home(path).is_some()
    }

    /// Returns the rule against importing all members of this module with `*`, if there is one.
    pub(crate) fn star_import(&self, path: &str) -> Option<&'static Rule> {
        match self.rows.get(path)? {
            Row::Object(_) => None,
            Row::Carrier(rule, _) => Some(rule),
            Row::Holder => self.special(Special::ModuleAsValue),
        }
    }

    pub(crate) fn is_carrier(&self, path: &str) -> bool {
        matches!(self.rows.get(path), Some(Row::Carrier(..) | Row::Holder))
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&'static Rule> {
        self.attributes.get(name).copied()
    }

    /// Returns the rule against calls with this keyword, if there is one.
    pub(crate) fn keyword(&self, name: &str) -> Option<&'static Rule> {
        self.keywords.get(name).copied()
    }

    /// Returns `name` as a `'static` string, if setting an attribute with this name makes a call dangerous.
    pub(crate) fn settable(&self, name: &str) -> Option<&'static str> {
        self.settable.get(name).copied()
    }

    /// Returns whether no name of the interpreter's internals starts with `start`. This holds if `start` has no leading
    /// underscore, and no attribute name in the rule table starts with `start`.
    pub(crate) fn starts_no_attribute(&self, start: &str) -> bool {
        !start.starts_with('_') && !self.attributes.keys().any(|name| name.starts_with(start))
    }

    /// Returns the rules for calls of this function. Includes the rules for all calls into the function's package.
    pub(crate) fn calls(&self, path: &str) -> impl Iterator<Item = (&'static Rule, Condition)> {
        let root = self.root(top(path));
        let exact = root.and_then(|_| self.calls_at_home(path));
        let package = root.filter(|root| root.len() < path.len());
        let package = package.and_then(|package| self.calls.get(package));
        exact.into_iter().chain(package).flatten().copied()
    }

    fn calls_at_home(&self, path: &str) -> Option<&Vec<(&'static Rule, Condition)>> {
        self.calls.get(path).or_else(|| self.calls.get(shortened(path)?.as_str()))
    }

    pub(crate) fn methods(&self, name: &str) -> &[(&'static Rule, Condition)] {
        self.methods.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns `name` as a `'static` string, if a row is about methods with this name.
    pub(crate) fn method(&self, name: &str) -> Option<&'static str> {
        self.methods.get_key_value(name).map(|(name, _)| *name)
    }

    /// Returns the rule about the format strings of a method with this name.
    pub(crate) fn formatting(&self, name: &str) -> Option<&'static Rule> {
        let mut rules = self.methods(name).iter();
        let rule = rules.find(|(_, condition)| *condition == Condition::FormatsInternals);
        rule.map(|(rule, _)| *rule)
    }

    pub(crate) fn special(&self, special: Special) -> Option<&'static Rule> {
        self.special.iter().find(|(of, _)| *of == special).map(|(_, rule)| *rule)
    }

    /// Returns `name` as a `'static` string, if `name` is the topmost module of a name in the table.
    pub(crate) fn root(&self, name: &str) -> Option<&'static str> {
        self.roots.get(name).copied()
    }
}
