//! Follows the values of a script through its statements in order, and judges the checks among them. Never runs any of
//! the script's code. To follow a statement is to determine the values that it binds and to judge its checks. To follow
//! a function is to follow the statements of its body, with the values of its parameters.
//!
//! The interpreter gives an unknown value to a name that is assigned in a loop, to an object that may have changed, and
//! to a name with different values after the branches of a statement. After an `if` with one condition, such a name
//! gets a value with the operation `Op::IfElse` instead. Calls of the script's own functions are followed to a small
//! depth, so that a check in a function is judged with the arguments of its calls.

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are unknown")]

mod calls;
mod catching;
mod elements;
mod expressions;
mod objects;
mod replacements;
mod statements;
mod verdicts;

use std::cell::Cell;

use foldhash::{HashMap, HashMapExt as _, HashSet};
use ruff_python_ast::{Expr, Parameters, Stmt, StmtClassDef, StmtFunctionDef};
use ruff_python_stdlib::builtins::is_python_builtin;
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use super::flags::{Flag, exception_flags};
use super::imports::Imports;
use super::influence::{Changes, Influence};
use super::judge::{BUDGET, ClassFacts, Judge};
use super::vacuity::Vacuity;
use super::values::{Id, Node, Op, Type, Values};
use super::{Check, CheckKind, FailsBy};
use crate::work::Work;

/// The maximum nesting of calls that are followed.
const CALLS_MAX: usize = 4;
/// The maximum nesting of statements and expressions that are followed.
const LEVEL_MAX: usize = 60;
/// The maximum number of values. The checks of a script with more values are not judged.
const VALUES_MAX: usize = 40_000;
/// The maximum number of known elements of a loop for which each element is followed as a possible value of the loop
/// variable. With more elements, the value of the loop variable is unknown.
const LOOP_ELEMENTS_MAX: usize = 30;

/// Finds the checks that cannot fail, and stores the reason in each of these checks. `conditions` contains the source
/// range of each check's condition. For each check that is about a collection, returns the expression that a run
/// evaluates once for each element of the collection.
pub(super) fn judge(
    body: &[Stmt],
    imports: &Imports<'_>,
    conditions: &[TextRange],
    checks: &mut [Check],
    work: &Work,
) -> Vec<Option<TextRange>> {
    let places = conditions.iter().enumerate().map(|(place, range)| (range.start(), place));
    let mut interpreter = Interpreter {
        body,
        imports,
        conditions,
        kinds: checks.iter().map(|check| (check.kind, check.fails_by.clone())).collect(),
        work,
        places: places.collect(),
        verdicts: vec![Verdict::Unseen; checks.len()],
        general: vec![false; checks.len()],
        general_loops: 0,
        elements: vec![None; checks.len()],
        comprehensions: HashMap::new(),
        values: Values::new(),
        frames: vec![Frame::default()],
        frame: 0,
        closures: Vec::new(),
        followed: HashSet::default(),
        classes: Vec::new(),
        facts: Vec::new(),
        class_names: Vec::new(),
        attributes: HashMap::new(),
        changed_attributes: None,
        replaced_functions: HashMap::new(),
        constructed: None,
        catches: Vec::new(),
        influence: None,
        flags: None,
        calls: 0,
        level: 0,
        bound: 0,
        constraints: Some(Vec::new()),
        is_unused: false,
    };
    interpreter.run();
    if interpreter.is_over() {
        for check in checks.iter_mut() {
            check.is_general = true;
        }
        return vec![None; checks.len()];
    }
    for (check, is_general) in checks.iter_mut().zip(interpreter.general) {
        check.is_general = is_general;
    }
    for (check, verdict) in checks.iter_mut().zip(interpreter.verdicts) {
        if let Verdict::Vacuous(why) = verdict {
            check.vacuous = Some(why);
        }
    }
    interpreter.elements
}

/// The judgement of a check, combined over all calls that reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The interpreter has not reached the check.
    Unseen,
    Vacuous(Vacuity),
    /// The check can fail in at least one of the calls.
    CanFail,
}

/// The namespace of one call of a function, or of the module.
#[derive(Debug, Clone, Default)]
struct Frame<'a> {
    names: HashMap<&'a str, Id>,
    globals: HashSet<&'a str>,
    /// The index of the frame of the enclosing function or module.
    around: usize,
    /// The return value of the function. `None` if no return value is known.
    returned: Option<Id>,
}

/// A function of the script, with the frame of its definition.
#[derive(Debug, Clone, Copy)]
struct Closure<'a> {
    function: Callable<'a>,
    frame: usize,
}

#[derive(Debug, Clone, Copy)]
enum Callable<'a> {
    Function(&'a StmtFunctionDef),
    Lambda(Option<&'a Parameters>, &'a Expr),
}

/// The exceptions that an enclosing statement catches, so that the script continues.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Catch {
    assertions: bool,
    exits: bool,
    /// Whether the statement catches `Exception`, and therefore every exception of a class that derives from
    /// `Exception`.
    exceptions: bool,
    /// The qualified names of other classes that are caught.
    classes: Vec<String>,
    /// The qualified names of the classes for which an earlier handler ends the script unsuccessfully. The current
    /// handler does not receive these exceptions.
    ending: Vec<String>,
}

impl Catch {
    fn everything() -> Self {
        Self { assertions: true, exits: true, exceptions: true, ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.assertions |= other.assertions;
        self.exits |= other.exits;
        self.exceptions |= other.exceptions;
        self.classes.extend(other.classes);
    }

    fn catches(&self, failure: &FailsBy) -> bool {
        match failure {
            FailsBy::AssertionError => self.assertions,
            FailsBy::SystemExit => self.exits,
            FailsBy::EndOfProcess => false,
            FailsBy::OtherException(Some(class)) => {
                !self.ending.contains(class) && (self.exceptions || self.classes.contains(class))
            }
            FailsBy::OtherException(None) => self.exceptions,
        }
    }
}

/// Whether execution continues with the next statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Ends,
}

struct Interpreter<'a, 'i> {
    body: &'a [Stmt],
    imports: &'i Imports<'a>,
    conditions: &'i [TextRange],
    kinds: Vec<(CheckKind, FailsBy)>,
    work: &'i Work,
    places: HashMap<TextSize, usize>,
    verdicts: Vec<Verdict>,
    /// For each check, whether the check is about all elements of a generated collection, such as a range.
    general: Vec<bool>,
    /// The number of loops over generated collections around the current statement.
    general_loops: usize,
    /// For each check, the expression that a run evaluates for each element of the checked collection. `None` if the
    /// check is not about a collection.
    elements: Vec<Option<TextRange>>,
    /// Two expressions for each comprehension. A run evaluates the first expression for each element that the
    /// comprehension reads, and the second expression for each element that the comprehension yields.
    comprehensions: HashMap<Id, [TextRange; 2]>,
    values: Values<'a>,
    frames: Vec<Frame<'a>>,
    frame: usize,
    closures: Vec<Closure<'a>>,
    /// The functions that were followed, by the start position of their definitions.
    followed: HashSet<TextSize>,
    classes: Vec<&'a StmtClassDef>,
    facts: Vec<ClassFacts<'a>>,
    /// For each class, the names that the body of the class binds, with their values.
    class_names: Vec<HashMap<&'a str, Id>>,
    /// For each object of the script, the values of the attributes that the script sets only when it creates the
    /// object. The key is the object and the attribute's name.
    attributes: HashMap<(Id, &'a str), Id>,
    /// The names of attributes that the script may change after it has created the object with the attribute. Computed
    /// at the first use.
    changed_attributes: Option<HashSet<&'a str>>,
    /// The values by which the script replaces attributes of imported modules, and assertion methods of objects. The
    /// key of an attribute is the attribute's qualified name. The key of a method is a dot and the method's name.
    replaced_functions: HashMap<String, Id>,
    /// The object that the current call creates. Set only while the method `__init__` or `__post_init__` of the object
    /// is followed.
    constructed: Option<Id>,
    catches: Vec<Catch>,
    influence: Option<Influence<'a>>,
    flags: Option<[HashMap<&'a str, Flag<'a>>; 2]>,
    calls: usize,
    level: usize,
    bound: u32,
    /// The constraints that the script adds to Z3 solvers; `None` if a solver also removes constraints.
    constraints: Option<Vec<Id>>,
    /// Whether the result of the next call is not used.
    is_unused: bool,
}

impl<'a> Interpreter<'a, '_> {
    pub(super) fn run(&mut self) {
        self.statements(self.body);
        // Follow the remaining functions with unknown arguments, because the script may call them in an unrecognized
        // way.
        let mut place = 0;
        while let Some(closure) = self.closures.get(place).copied() {
            place += 1;
            if let Callable::Function(function) = closure.function
                && !self.followed.contains(&function.start())
                && self.has_check(function.range())
            {
                let arguments = HashMap::new();
                self.follow(closure, arguments);
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.work.is_spent() || self.values.len() > VALUES_MAX
    }

    pub(super) fn has_check(&self, range: TextRange) -> bool {
        self.work.spend(1 + self.conditions.len() / 16);
        self.conditions.iter().any(|condition| range.contains_range(*condition))
    }

    pub(super) fn judge(&self) -> Judge<'_, 'a> {
        Judge {
            values: &self.values,
            classes: &self.facts,
            work: self.work,
            budget: Cell::new(BUDGET),
        }
    }
}

impl<'a> Interpreter<'a, '_> {
    pub(super) fn current(&mut self) -> Option<&mut Frame<'a>> {
        let frame = self.frame;
        self.frames.get_mut(frame)
    }

    pub(super) fn read(&mut self, name: &'a str) -> Id {
        let mut at = self.frame;
        while let Some(frame) = self.frames.get(at) {
            let is_global = frame.globals.contains(name);
            if !is_global && let Some(id) = frame.names.get(name) {
                return *id;
            }
            if at == 0 {
                break;
            }
            at = if is_global { 0 } else { frame.around };
        }
        if let Some(flag) = self.exception_flags()[0].get(name).copied() {
            return self.flag(name, flag);
        }
        match self.imports.of(name) {
            Some(path) => self.values.path(path),
            None if is_python_builtin(name, u8::MAX, false) => self.values.path(name),
            None => {
                // No statement that was followed binds the name. Store an unknown value, so that all uses of the name
                // have the same value until the name is bound again.
                let unknown = self.fresh();
                if let Some(module) = self.frames.first_mut() {
                    module.names.insert(name, unknown);
                }
                unknown
            }
        }
    }

    /// Returns the value of a name or an attribute that [`exception_flags`] has found.
    pub(super) fn flag(&mut self, name: &'a str, flag: Flag<'a>) -> Id {
        let value = match flag {
            Flag::Value(value) => self.expression(value),
            Flag::Collection => self.values.path(name),
        };
        self.values.op(Op::Flag, [value])
    }

    /// Returns whether a statement that was followed has bound the name.
    pub(super) fn is_bound(&self, name: &str) -> bool {
        let mut at = self.frame;
        while let Some(frame) = self.frames.get(at) {
            if frame.names.contains_key(name) {
                return true;
            }
            if at == 0 {
                break;
            }
            at = frame.around;
        }
        false
    }

    pub(super) fn bind(&mut self, name: &'a str, value: Id) {
        if self.exception_flags()[0].contains_key(name) {
            return;
        }
        self.values.note_named(value);
        let Some(frame) = self.current() else { return };
        let at = if frame.globals.contains(name) { 0 } else { self.frame };
        if let Some(frame) = self.frames.get_mut(at) {
            frame.names.insert(name, value);
        }
    }

    pub(super) fn bind_target(&mut self, target: &'a Expr, value: Id) {
        match target {
            Expr::Name(name) => self.bind(name.id.as_str(), value),
            Expr::Tuple(it) => self.bind_parts(&it.elts, value),
            Expr::List(it) => self.bind_parts(&it.elts, value),
            Expr::Starred(it) => {
                let unknown = self.values.unknown_of(Type::List);
                self.bind_target(&it.value, unknown);
            }
            Expr::Attribute(it) => {
                let target = self.expression(target);
                if let Some(path) = self.values.path_of(target).map(std::borrow::Cow::into_owned) {
                    self.replace_function(&path, value);
                } else if it.attr.starts_with("assert") {
                    self.replace_function(&format!(".{}", it.attr), value);
                } else if !self.bind_attribute(&it.value, it.attr.as_str(), value) {
                    self.change(&it.value);
                }
            }
            Expr::Subscript(it) => self.change(&it.value),
            _ => {}
        }
    }

    pub(super) fn bind_parts(&mut self, targets: &'a [Expr], value: Id) {
        for (place, target) in targets.iter().enumerate() {
            let part = self.part(value, place, targets.len());
            self.bind_target(target, part);
        }
    }

    /// Returns the element at the index `place` of the sequence `value`, assuming that the sequence has `count`
    /// elements.
    pub(super) fn part(&mut self, value: Id, place: usize, count: usize) -> Id {
        self.work.spend(1);
        if self.is_over() {
            return self.fresh();
        }
        let items = match self.values.node(value) {
            Node::Op(Op::Tuple | Op::List, items) if items.len() == count => items.to_vec(),
            Node::Op(Op::OneOf(number), all) => {
                let (number, all) = (*number, all.to_vec());
                let parts: Vec<Id> =
                    all.into_iter().map(|each| self.part(each, place, count)).collect();
                return self.values.op(Op::OneOf(number), parts);
            }
            _ => Vec::new(),
        };
        if let Some(item) = items.get(place) {
            return *item;
        }
        let bits = f64::from(u32::try_from(place).unwrap_or(u32::MAX)).to_bits();
        let key = self.values.add(Node::Number(bits, true));
        self.values.op(Op::Item, [value, key])
    }

    /// Gives an unknown value to the name at the beginning of an expression, such as `x` in `x.y[0]`, because the
    /// object of this name may have changed.
    pub(super) fn change(&mut self, object: &'a Expr) {
        let name = match object {
            Expr::Name(name) => name.id.as_str(),
            Expr::Attribute(it) => return self.change(&it.value),
            Expr::Subscript(it) => return self.change(&it.value),
            Expr::Call(it) => return self.change(&it.func),
            _ => return,
        };
        let old = self.read(name);
        let kept = self.values.type_of(old);
        let new = self.values.unknown_of(kept);
        self.replace(old, new);
    }

    /// Gives the value `new` to all names that have the value `old`, because they refer to the same object.
    pub(super) fn replace(&mut self, old: Id, new: Id) {
        self.work.spend(1);
        if self.values.is_literal(old) && !self.is_mutable(old) {
            return;
        }
        let mut at = self.frame;
        while let Some(frame) = self.frames.get_mut(at) {
            self.work.spend(frame.names.len() / 8);
            for value in frame.names.values_mut().filter(|value| **value == old) {
                *value = new;
            }
            if at == 0 {
                break;
            }
            at = frame.around;
        }
    }

    /// Gives the value `new` to `name`, in the current frame and in the enclosing frames. If `old` is a mutable object,
    /// also gives the value `new` to all other names with the value `old`.
    pub(super) fn replace_all(&mut self, old: Id, new: Id, name: &'a str) {
        let is_shared = self.is_mutable(old) && !self.is_callable(old);
        let mut at = self.frame;
        while let Some(frame) = self.frames.get_mut(at) {
            self.work.spend(1 + frame.names.len() / 8);
            for (of, value) in &mut frame.names {
                if *of == name || (is_shared && *value == old) {
                    *value = new;
                }
            }
            if at == 0 {
                break;
            }
            at = frame.around;
        }
    }

    pub(super) fn is_mutable(&self, id: Id) -> bool {
        !matches!(
            self.values.type_of(id),
            Type::Bool
                | Type::Int
                | Type::Float
                | Type::Fraction
                | Type::Decimal
                | Type::Text
                | Type::Bytes
                | Type::None
        )
    }

    /// Gives these names unknown values.
    pub(super) fn forget(&mut self, names: &HashSet<&'a str>) {
        self.forget_but(names, &HashSet::default());
    }

    /// Gives unknown values to the names that statements bind or change. If statements only change an object, gives the
    /// same unknown value to all names of the object.
    pub(super) fn forget_changes(&mut self, changes: &Changes<'a>) {
        let only = changes.names.difference(&changes.bound).copied().collect();
        self.forget_but(&changes.names, &only);
    }

    fn forget_but(&mut self, names: &HashSet<&'a str>, changed: &HashSet<&'a str>) {
        for name in names {
            let is_import = self.imports.of(name).is_some() && !self.is_bound(name);
            if is_import {
                continue;
            }
            let old = self.read(name);
            let kept = match self.values.type_of(old) {
                kept @ (Type::Solver | Type::List | Type::Dict | Type::Set) => kept,
                _ => Type::Unknown,
            };
            let unknown = self.values.unknown_of(kept);
            if self.general_loops > 0 {
                self.values.note_general(unknown);
            }
            if changed.contains(name) && self.is_mutable(old) && !self.is_callable(old) {
                self.replace(old, unknown);
            }
            self.bind(name, unknown);
        }
    }

    fn is_callable(&self, id: Id) -> bool {
        matches!(self.values.node(id), Node::Function(_) | Node::Class(_) | Node::Path(_))
    }

    /// Gives an unknown value to each name whose current value differs from its value in one of `others`.
    pub(super) fn join(&mut self, others: &[HashMap<&'a str, Id>]) {
        let Some(frame) = self.frames.get(self.frame) else { return };
        let mut differ: HashSet<&'a str> = HashSet::default();
        for other in others {
            self.work.spend(other.len() / 4);
            differ.extend(
                other
                    .iter()
                    .filter(|(name, id)| frame.names.get(*name) != Some(*id))
                    .map(|it| *it.0),
            );
            differ.extend(frame.names.keys().filter(|name| !other.contains_key(*name)));
        }
        self.forget(&differ);
    }

    pub(super) fn names_now(&self) -> HashMap<&'a str, Id> {
        let names =
            self.frames.get(self.frame).map(|frame| frame.names.clone()).unwrap_or_default();
        self.work.spend(1 + names.len() / 4);
        names
    }

    /// Returns the index of each frame around the current frame, and the names of that frame with their values.
    pub(super) fn outer_names(&self) -> Vec<(usize, HashMap<&'a str, Id>)> {
        let mut outer = Vec::new();
        let mut at = self.frame;
        while at != 0
            && let Some(frame) = self.frames.get(at)
        {
            at = frame.around;
            let names = self.frames.get(at).map(|of| of.names.clone()).unwrap_or_default();
            self.work.spend(1 + names.len() / 4);
            outer.push((at, names));
        }
        outer
    }

    /// Restores the values that names in outer frames had before a branch, and adds the changed names to `changed`.
    /// `outer` contains the names before the branch.
    pub(super) fn take_back(
        &mut self,
        outer: &[(usize, HashMap<&'a str, Id>)],
        changed: &mut HashSet<(usize, &'a str)>,
    ) {
        for (at, before) in outer {
            let Some(frame) = self.frames.get_mut(*at) else { continue };
            self.work.spend(1 + frame.names.len() / 4);
            let differ = frame.names.iter().filter(|(name, id)| before.get(*name) != Some(*id));
            changed.extend(differ.map(|(name, _)| (*at, *name)));
            frame.names.clone_from(before);
        }
    }

    /// Gives unknown values to names in any frames. Each name comes with the index of its frame.
    pub(super) fn forget_in(&mut self, names: HashSet<(usize, &'a str)>) {
        for (at, name) in names {
            let unknown = self.fresh();
            if let Some(frame) = self.frames.get_mut(at) {
                frame.names.insert(name, unknown);
            }
        }
    }

    pub(super) fn set_names(&mut self, names: HashMap<&'a str, Id>) {
        if let Some(frame) = self.current() {
            frame.names = names;
        }
    }

    /// Returns the result of the function [`exception_flags`] for the script. Computes the result at the first use.
    pub(super) fn exception_flags(&mut self) -> &[HashMap<&'a str, Flag<'a>>; 2] {
        let (body, conditions, work) = (self.body, self.conditions, self.work);
        self.flags.get_or_insert_with(|| exception_flags(body, conditions, work))
    }
}

/// Returns whether a qualified name is in a list. An entry that ends with a dot stands for all names that start with
/// this entry.
fn is_listed(path: &str, list: &[&str]) -> bool {
    list.iter()
        .any(|entry| if entry.ends_with('.') { path.starts_with(entry) } else { path == *entry })
}
