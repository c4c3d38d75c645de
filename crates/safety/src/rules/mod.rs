//! Holds the rules as data. Each row has a reason and examples, and a test checks the examples. This module never
//! evaluates a rule.
//!
//! A verification script computes and prints. It does not need files, programs, the network, native code or the
//! interpreter's internals. If a script reaches one of these in spite of the rules, only the sandbox still limits the
//! script. So the rows permit little more than verification scripts need:
//!
//! - `SymPy`, Z3, the QWED SDKs and the computing part of the standard library are permitted.
//! - A module that is dangerous as a whole is refused at its import.
//! - If scripts need a module for something harmless (`os.path`, `sys.exit`, `io.StringIO`), every member is refused
//!   except the listed harmless members. A list of the dangerous members would never be complete.

mod deserialisation;
mod execution;
mod files;
mod formats;
mod imports;
pub(crate) mod inputs;
mod internals;
mod native;
mod network;
mod notes;
mod process;

use std::fmt;

/// The consequence of a finding for the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A note. The script runs, and the `_meta` of the reply contains the note.
    Note,
    /// A refusal. The script does not run.
    Block,
}

/// A kind of object or use that a [`Rule`] looks for.
///
/// Names are separated by spaces. Modules and objects have qualified names, and builtins start with `builtins.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The import and every use of these modules, their submodules and their members.
    Modules(&'static str),
    /// Every member of a module except the listed harmless members. The first string is the module. The second string
    /// lists the harmless members. The module itself may be imported and renamed, but not passed to other code.
    AllBut(&'static str, &'static str),
    /// A module with dangerous members that other rows name. All other members are harmless. The module must not be
    /// passed to other code.
    Holder(&'static str),
    /// Every use of these functions, classes or other objects, called or not.
    Objects(&'static str),
    /// Attributes with these names, of any object.
    Attributes(&'static str),
    /// Calls of these functions, if the condition holds.
    Calls(&'static str, Condition),
    /// Calls of methods with these names on an unknown object, if the condition holds. Does not apply if the script
    /// defines an attribute with the same name.
    Methods(&'static str, Condition),
    /// Calls with one of these keywords, except calls of functions of `NumPy` or of the script. Does not apply if the
    /// value of the keyword is `False` or `None`.
    Keywords(&'static str),
    /// The functions and methods of the installed libraries that open a file named by one of their parameters. The
    /// generated table `libraries.txt` lists them.
    Libraries,
    /// Texts that the analysis searches for in a source that does not parse. A pattern also matches inside of a longer
    /// word.
    Patterns(&'static str),
    /// A danger that the analysis finds without names in a table.
    Special(Special),
}

/// The condition under which a call is dangerous.
///
/// Many conditions are about one argument, which a call passes at an index or with a keyword. Several possible
/// keywords are separated by spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// The call is always dangerous.
    Always,
    /// The called function belongs to an unknown object, to the standard library, or to a library in the tables.
    OfUnknown,
    /// The script imports this module, and the called function is not a member of another module of the standard
    /// library.
    Imported(&'static str),
    /// The argument at this index, or with one of these keywords, may name a file: it is not known to be an object in
    /// memory.
    NamesFile(usize, &'static str),
    /// The first argument, or the argument with this keyword, may name a file, and is not known to be the plain name of
    /// an image in the script's own folder.
    SavesElsewhere(&'static str),
    /// The argument at this index, or with this keyword, is known to be a string.
    IsTextAt(usize, &'static str),
    /// The script imports this library, and the argument at this index, or with this keyword, may be the name of a
    /// file.
    TakesTextAt(&'static str, usize, &'static str),
    /// The first argument, or the argument with one of these keywords, may be a string.
    TakesText(&'static str),
    /// The call passes an argument at this index, or with one of these keywords, and the argument is not `False` or
    /// `None`.
    Given(usize, &'static str),
    /// The script sets an attribute with this name, or may do so because it contains or composes this name as a
    /// string.
    Sets(&'static str),
    /// The call sets a parameter of Z3 that makes Z3 write a log, or an unknown parameter.
    Logs,
    /// The first argument is a string that makes Z3 write a log, or a string with an unknown start.
    LogsByText,
    /// The first argument, or the argument with one of these keywords, is the name of a file and not of a style.
    NamesStyleFile(&'static str),
    /// The first argument is the known name of a module that must not be imported.
    NamesModule,
    /// An argument names tests of another module. Also true if the script sets `sys.argv`, which may name such tests.
    NamesTests,
    /// The second argument, or the argument with the keyword `Loader`, is not one of the safe loaders of YAML.
    UnsafeLoader,
    /// The first argument is not known to be the name of a database in memory.
    DatabaseFile,
    /// The first argument is an SQL statement that reaches files. If the script imports `sqlite3` or this library, the
    /// condition also holds for an unknown statement.
    ReachingSql(&'static str),
    /// The first argument is an SQL script that reaches files. If the script imports `sqlite3`, the condition also
    /// holds for an SQL script that is not completely known.
    ReachingScript,
    /// A string among the arguments is code that must not run, or is unknown.
    Code,
    /// A known string among the arguments is a formula that does more than compute.
    Formula,
    /// The first argument is evaluated as a formula, and is unknown.
    UnknownFormula,
    /// The argument names a module that must not be imported, or is unknown.
    ImportsModule,
    /// A replacement field of the format string reads one of the interpreter's internals.
    FormatsInternals,
    /// The first argument is the name of an attribute, and the name is unknown.
    UnknownName,
    /// An argument is an attribute path or a list of attribute names that leads to the interpreter's internals or to
    /// another module. The first number is the index of the first positional argument that is checked. The second
    /// number is the maximum number of checked arguments.
    NamesAttributes(usize, usize),
    /// The first argument, or the argument with the keyword `target`, names an object that a rule finds, or is not
    /// completely known.
    NamesObject,
}

/// A danger that the analysis finds without names in a table. In most cases, a value is unknown and may be dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Special {
    /// A module of a [`Target::AllBut`] or [`Target::Holder`] that is used as a value.
    ModuleAsValue,
    /// An unknown attribute name on an object that leads to other objects: a module, a function, or an external class.
    ComputedName,
    /// An encoding declaration other than UTF-8 or ASCII.
    Encoding,
    /// A top-level module with a name that starts with an underscore.
    PrivateModule,
    /// A member of the standard library with a name that starts with one underscore, or a member of a private module of
    /// another library.
    PrivateMember,
    /// A function or module that runs a module as a program. The module belongs to the standard library or to a known
    /// library.
    EntryPoint,
    /// An annotation in quotes that does more than name types.
    Annotation,
    /// Examples in a docstring that doctest would run, and that are dangerous.
    Examples,
}

/// One row of the rule table.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Rule {
    /// The stable identifier, `family/name`.
    pub id: &'static str,
    /// The consequence of a finding by this rule.
    pub severity: Severity,
    /// The objects and uses that the rule looks for.
    pub targets: &'static [Target],
    /// The reason for a finding by this rule, for example the danger of the targets.
    pub why: &'static str,
    /// The alternative that a script should use.
    pub remedy: &'static str,
    /// Snippets that the rule finds.
    pub matches: &'static [&'static str],
    /// Similar snippets in which no rule of this severity finds anything.
    pub misses: &'static [&'static str],
}

impl fmt::Debug for Rule {
    /// Shows only the identifier, which names the row.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The rules, by family. The order of the families has no effect, because findings are reported in source order.
pub static FAMILIES: &[&[Rule]] = &[
    execution::RULES,
    process::RULES,
    files::RULES,
    formats::RULES,
    native::RULES,
    deserialisation::RULES,
    network::RULES,
    imports::RULES,
    internals::RULES,
    notes::RULES,
];

/// Returns all rules.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    FAMILIES.iter().copied().flatten()
}
