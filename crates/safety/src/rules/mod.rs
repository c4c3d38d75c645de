//! Holds the rules as data. Each row has a reason and examples, which a test runs. This module never evaluates a rule.
//!
//! A verification script computes and prints. It does not need files, programs, the network, native code or the
//! interpreter's internals. The executor's sandbox must hold any of these that a script could still reach. So the rows
//! follow the needs of the product:
//!
//! - `SymPy`, Z3, the QWED SDKs and the computing part of the standard library pass.
//! - A module that is dangerous as a whole is refused at its import.
//! - If scripts need a module for something harmless (`os.path`, `sys.exit`, `io.StringIO`), every member is refused
//! except the listed harmless ones. A list of its dangerous members would never be complete.

mod deserialisation;
mod execution;
mod files;
mod formats;
mod imports;
mod internals;
mod native;
mod network;
mod notes;
mod process;

use std::fmt;

/// The consequence of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A note. The script runs, and the `_meta` of the reply contains the note.
    Note,
    /// A refusal. The script does not run.
    Block,
}

/// A kind of thing that a [`Rule`] looks for.
///
/// Names are separated by spaces. Modules and objects have qualified names, and builtins start with `builtins.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// These modules and everything below them: their import and every use.
    Modules(&'static str),
    /// Every member of this module except the listed ones. The module itself may be imported and renamed, but not
    /// passed to other code.
    AllBut(&'static str, &'static str),
    /// A module in which only the members named by other rows are dangerous. It must not be passed to other code.
    Holder(&'static str),
    /// These functions, classes or other objects, called or not.
    Objects(&'static str),
    /// Attributes with these names, of any object.
    Attributes(&'static str),
    /// Calls of these functions, if the condition holds.
    Calls(&'static str, Condition),
    /// Calls of methods with these names on an unknown object, if the condition holds. Does not apply if the script
    /// defines an attribute with the name.
    Methods(&'static str, Condition),
    /// Calls with one of these keywords, except calls of the script's own functions. Does not apply if the value is
    /// `False` or `None`.
    Keywords(&'static str),
    /// The functions and methods of the installed libraries that open the file named by a parameter, from the generated
    /// table.
    Libraries,
    /// Patterns in a source that does not parse. Not used for words that honest text contains.
    Patterns(&'static str),
    /// A danger that the analysis finds without a table.
    Special(Special),
}

/// The condition under which a call is dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// Always.
    Always,
    /// The object is not a member of a library outside the table.
    OfUnknown,
    /// The script imports this module.
    Imported(&'static str),
    /// The argument at this index, or one of these keywords, may name a file: it is not known to be an object in
    /// memory.
    NamesFile(usize, &'static str),
    /// The first argument, or this keyword, may name a file, and is not known to be the plain name of an image in the
    /// script's own folder.
    SavesElsewhere(&'static str),
    /// The argument at this index, or this keyword, is known to be a string.
    IsTextAt(usize, &'static str),
    /// The script imports this library, and the argument at this index, or this keyword, may be the name of a file.
    TakesTextAt(&'static str, usize, &'static str),
    /// The first argument, or this keyword, is known to be a string.
    TakesText(&'static str),
    /// The argument at this index, or one of these keywords, is given, and is not `False` or `None`.
    Given(usize, &'static str),
    /// The script sets an attribute with this name, or composes its name as a string.
    Sets(&'static str),
    /// A parameter of Z3 is set that makes Z3 write a log, or the parameter is unknown.
    Logs,
    /// The first argument is a string for Z3 that makes it write a log, or a string with an unknown start.
    LogsByText,
    /// The first argument, or one of these keywords, is the name of a file and not of a style.
    NamesStyleFile(&'static str),
    /// The first argument is the known name of a module that must not be imported.
    NamesModule,
    /// An argument names tests of another module, or may do so because the script sets `sys.argv`.
    NamesTests,
    /// The second argument, or the keyword `Loader`, is not one of the safe loaders of YAML.
    UnsafeLoader,
    /// The argument is not the name of a database in memory.
    DatabaseFile,
    /// The first argument is an SQL statement that reaches files, or is unknown while the script imports `sqlite3` or
    /// this library.
    ReachingSql(&'static str),
    /// The first argument is an SQL script that reaches files, or is not completely known.
    ReachingScript,
    /// A string among the arguments is code that must not run, or is unknown.
    Code,
    /// A known string among the arguments is a formula that does more than compute.
    Formula,
    /// A string among the arguments is evaluated, and is unknown.
    UnknownFormula,
    /// The first argument is not the known name of a module that may be imported.
    ImportsModule,
    /// A replacement field of the format string takes one of the interpreter's internals.
    FormatsInternals,
    /// The first argument is the name of an attribute, and is unknown.
    UnknownName,
    /// One of this many positional arguments, starting at this index, is an attribute path or a list of such paths. It
    /// contains internals or members of other modules.
    NamesAttributes(usize, usize),
    /// The first argument, or the keyword `target`, is not the known name of an object that may be used.
    NamesObject,
}

/// A danger that the analysis finds without a table, mostly a value that is unknown and would matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Special {
    /// A module of a [`Target::AllBut`] or [`Target::Holder`] that is used as a value.
    ModuleAsValue,
    /// A computed attribute name on an object that leads to others: a module, a function, or a class from outside.
    ComputedName,
    /// An encoding declaration other than UTF-8 or ASCII.
    Encoding,
    /// A top-level module with a name that starts with an underscore.
    PrivateModule,
    /// A member of a module of the standard library with a name that starts with one underscore, or a member of a
    /// library's private module.
    PrivateMember,
    /// The function or module that is the program of a module of the standard library or of a library.
    EntryPoint,
    /// An annotation in quotes that does more than name types.
    Annotation,
    /// Examples in a docstring that doctest would run, and that must not run.
    Examples,
}

/// One row of the table.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Rule {
    /// The stable identifier, `family/name`.
    pub id: &'static str,
    /// The consequence of a finding.
    pub severity: Severity,
    /// The targets that it looks for.
    pub targets: &'static [Target],
    /// The reason why a verification script does not need it.
    pub why: &'static str,
    /// The alternative to write instead.
    pub remedy: &'static str,
    /// Snippets that the rule finds.
    pub matches: &'static [&'static str],
    /// Similar snippets that no rule of this severity finds.
    pub misses: &'static [&'static str],
}

impl fmt::Debug for Rule {
    /// Shows only the identifier, which names the row.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The rules, by family. Their order does not matter, because findings are reported in source order.
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
