//! The rules, as data: a row for each kind of danger, with the reason and with examples that a test
//! runs.
//!
//! A verification script computes and prints. It has no business with files, programs, the
//! network, native code or the interpreter's internals, and what of these it could reach, the
//! executor's confinement has to hold as well. So the rows are drawn for what the product needs:
//! `SymPy`, Z3, the QWED SDKs and the computing part of the standard library pass; a module that
//! is dangerous as a whole is refused at its import; of a module that scripts need for something
//! harmless (`os.path`, `sys.exit`, `io.StringIO`) everything is refused but the members that are
//! listed as harmless, because the list of what is dangerous in it would never be complete.

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
    /// A note: the script runs, and the result's `_meta` says what was seen.
    Note,
    /// A refusal: the script does not run.
    Block,
}

/// One kind of thing that a [`Rule`] looks for.
///
/// Names are separated by spaces. Those of modules and objects are qualified; those of builtins
/// start with `builtins.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// These modules and everything below them: their import, and every use.
    Modules(&'static str),
    /// Every member of this module but the listed ones. The module itself may be imported and
    /// renamed, but not be passed around.
    AllBut(&'static str, &'static str),
    /// A module of which only the members that other rows name are dangerous, but which must not be
    /// passed around.
    Holder(&'static str),
    /// These functions, classes or other objects, called or not.
    Objects(&'static str),
    /// Attributes of these names, of whatever.
    Attributes(&'static str),
    /// Calls of these functions, if the condition holds.
    Calls(&'static str, Condition),
    /// Calls of methods of these names of an object about which nothing is known, if the condition
    /// holds. Not if the script defines an attribute of the name itself.
    Methods(&'static str, Condition),
    /// Calls with one of these keywords, of whatever but the script's own functions. Not if it is
    /// `False` or `None`.
    Keywords(&'static str),
    /// The functions and methods of the installed libraries that open the file that a parameter
    /// names, by the generated table.
    Libraries,
    /// Texts in a source that does not parse; not where they would only find words.
    Patterns(&'static str),
    /// A danger that the analysis finds by itself.
    Special(Special),
}

/// The condition under which a call is dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// Always.
    Always,
    /// The object is not one of a library about which nothing is known.
    OfUnknown,
    /// The script imports this module.
    Imported(&'static str),
    /// The argument at this place, or one of these keywords, may name a file: it is not known to be
    /// an object in memory.
    NamesFile(usize, &'static str),
    /// The first argument, or this keyword, may name a file, and is not known to be the plain name of
    /// a picture in the script's own folder.
    SavesElsewhere(&'static str),
    /// The argument at this place, or this keyword, is known to be a text.
    IsTextAt(usize, &'static str),
    /// The script imports this library, and the argument at this place, or this keyword, may be the
    /// name of a file.
    TakesTextAt(&'static str, usize, &'static str),
    /// The first argument, or this keyword, is known to be a text.
    TakesText(&'static str),
    /// The argument at this place, or one of these keywords, is given, and is not `False` or `None`.
    Given(usize, &'static str),
    /// The script sets an attribute of this name itself, or puts such a text together.
    Sets(&'static str),
    /// A parameter of Z3 is set that makes it write a log, or is not known.
    Logs,
    /// The first argument is a text for Z3 that makes it write a log, or of which not even the start
    /// is known.
    LogsByText,
    /// The first argument, or one of these keywords, is the name of a file and not of a style.
    NamesStyleFile(&'static str),
    /// The first argument is the known name of a module that must not be imported.
    NamesModule,
    /// An argument names tests of another module, or may: the script sets `sys.argv`.
    NamesTests,
    /// The second argument, or the keyword `Loader`, is not one of the safe loaders of YAML.
    UnsafeLoader,
    /// The argument is not the name of a database in memory.
    DatabaseFile,
    /// The first argument is a statement of SQL that reaches files, or is not known while the script
    /// imports this library.
    ReachingSql(&'static str),
    /// The first argument is a script of SQL that reaches files, or that is not known as a whole.
    ReachingScript,
    /// A text among the arguments is code that must not run, or is not known.
    Code,
    /// A known text among the arguments is a formula that does more than compute.
    Formula,
    /// A text among the arguments is evaluated, and is not known.
    UnknownFormula,
    /// The first argument is not the known name of a module that may be imported.
    ImportsModule,
    /// A replacement field of the format string takes one of the interpreter's internals.
    FormatsInternals,
    /// The first argument is the name of an attribute, and is not known.
    UnknownName,
    /// One of the positional arguments from this place on, this many of them, is a path of
    /// attributes, or a list of such names, with internals or members of other modules among them.
    NamesAttributes(usize, usize),
    /// The first argument, or the keyword `target`, is not the known name of an object that may be
    /// used.
    NamesObject,
}

/// A danger that the analysis finds by itself: mostly what cannot be known and would matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Special {
    /// A module of an [`Target::AllBut`] that is used as a value.
    ModuleAsValue,
    /// A computed name of an attribute of an object that leads to others: a module, a function, a
    /// class from outside.
    ComputedName,
    /// An encoding declaration other than UTF-8 or ASCII.
    Encoding,
    /// A top-level module whose name starts with an underscore.
    PrivateModule,
    /// A member of a module of the standard library whose name starts with one underscore, or of a
    /// library's module of such a name.
    PrivateMember,
    /// The function or module that is the program of a module of the standard library, or of a
    /// library.
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
    /// Stable identifier, `family/name`.
    pub id: &'static str,
    /// The consequence of a finding.
    pub severity: Severity,
    /// The things that it looks for.
    pub targets: &'static [Target],
    /// The reason why a verification script has no business with it.
    pub why: &'static str,
    /// The alternative to write instead.
    pub remedy: &'static str,
    /// Snippets that the rule finds.
    pub matches: &'static [&'static str],
    /// Snippets that come close, and that no rule of this severity finds.
    pub misses: &'static [&'static str],
}

impl fmt::Debug for Rule {
    /// The identifier alone: it names the row.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The rules, by family. Their order does not matter: findings are reported in source order.
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
