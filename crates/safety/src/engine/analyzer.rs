//! The analysis of one syntax tree: its state, its modes, and its reports.
//!
//! A mode is entered by a function that takes what is done in it, and left when that returns.

#![expect(clippy::indexing_slicing, reason = "a binding's id is its place in the table")]
#![expect(clippy::wildcard_enum_match_arm, reason = "names are what is followed most")]

use foldhash::{HashMap, HashMapExt as _, HashSet};
use ruff_python_ast::Expr;
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use crate::finding::{FindingKind, RawAnalysis, RawFinding, UNSEEN};
use crate::knowledge::index::INDEX;
use crate::knowledge::value::{Value, Values};
use crate::rules::Rule;
use crate::symbols::{self, BindingId, ScopeId, SymbolId, Symbols};
use crate::work::Work;

/// The most names that are followed from one to the next.
const DEPTH_MAX: usize = 64;
/// The most findings that are collected; one is enough to refuse.
const FOUND_MAX: usize = 1_000;
/// The most names that are recorded as used, and the longest part of one, in bytes.
const USES_MAX: usize = 10_000;
const USE_BYTES_MAX: usize = 160;
/// The longest part of the source that a finding repeats, in bytes with all its white space.
const WRITTEN_BYTES: usize = 400;

/// The kind of a text that is analysed, and the bounds that hold for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass<'w> {
    /// The deepest nesting of expressions, with the names in them that are followed.
    pub(super) level_max: usize,
    /// The number of texts of code around this one.
    pub(super) text_depth: usize,
    /// True for a formula: a name alone is a symbol in it.
    pub(super) is_formula: bool,
    /// The count of steps, and what is remembered of texts.
    pub(super) work: &'w Work,
}

/// A thing whose value is worked out once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flow {
    /// One binding of a name.
    Binding(BindingId),
    /// All bindings of a name in a scope.
    Symbol(SymbolId),
    /// The result of a function, by its scope.
    Result(ScopeId),
    /// An attribute of a name, by the name's place among all.
    Attribute(usize),
    /// The contents of the container of a name, by the same.
    Contents(usize),
    /// An expression, in the scope where it is evaluated.
    Expression(TextRange),
    /// The script's own namespace.
    Namespace,
    /// The exceptions that the script raises.
    Caught,
    /// The attributes that the script defines.
    Members,
}

/// The state of knowledge about a binding or symbol.
#[derive(Debug, Clone)]
enum Memo<'a> {
    /// Not worked out, but tried so many times: it depended on what was pending.
    NotYet(u8),
    /// Being worked out, as part of so many others: it depends on itself.
    Pending(usize),
    Done(Values<'a>),
}

/// The state to put back when a value has been worked out, and the times that it was tried before.
struct Begun {
    place: usize,
    tries: u8,
    needs: usize,
    depth: usize,
    flowing: usize,
}

/// The most times that a value is worked out which depends on what is pending then.
const TRIES_MAX: u8 = 3;

/// The analysis of one syntax tree.
pub(super) struct Analyzer<'a, 's> {
    pub(super) source: &'a str,
    pub(super) symbols: &'s Symbols<'a>,
    pub(super) pass: Pass<'s>,
    /// True if the script imports doctest.
    pub(super) has_doctest: bool,
    /// The scope that is walked, or that the current binding is evaluated in.
    pub(super) scope: ScopeId,
    /// True while only a value is wanted: nothing is reported.
    pub(super) is_quiet: bool,
    /// True in an annotation, where texts are types.
    pub(super) is_annotation: bool,
    /// The number of f-strings, one in the other, whose text is run as code.
    pub(super) code_depth: usize,
    /// The number of names that are being followed.
    depth: usize,
    /// The number of expressions that are being evaluated, one in the other.
    pub(super) level: usize,
    /// Values that are worked out once …
    memos: Vec<Memo<'a>>,
    /// … their places there from one on: of bindings, symbols, results, and what goes by names …
    places: Vec<usize>,
    /// … of expressions …
    expressions: HashMap<TextRange, usize>,
    /// … and of the script's own namespace.
    namespace: usize,
    /// … and of the exceptions that it raises.
    caught: usize,
    /// … and of the attributes that it defines.
    members: usize,
    /// The number of those that are being followed otherwise than by names.
    flowing: usize,
    /// The number of values that are being worked out.
    pending: usize,
    /// The outermost of those that the current one needs.
    needs: usize,
    found: Vec<RawFinding>,
    imports: Vec<String>,
    uses: HashSet<String>,
    /// Names of attributes that the script puts together, and that matter where it sets them …
    settable: HashSet<&'static str>,
    /// … and the calls for which each of them matters.
    awaiting: Vec<Awaiting>,
}

/// A call that a rule finds if the script sets an attribute, seen before it is known whether it does.
struct Awaiting {
    attribute: &'static str,
    finding: RawFinding,
}

impl<'a, 's> Analyzer<'a, 's> {
    pub(super) fn new(source: &'a str, symbols: &'s Symbols<'a>, pass: Pass<'s>) -> Self {
        let places = symbols.bindings_len()
            + symbols.symbols_len()
            + symbols.scopes_len()
            + 2 * symbols.names_len();
        Self {
            source,
            symbols,
            pass,
            has_doctest: symbols.imported.contains("doctest"),
            scope: symbols::MODULE,
            is_quiet: false,
            is_annotation: false,
            code_depth: 0,
            depth: 0,
            level: 0,
            memos: Vec::with_capacity(2 * symbols.bindings_len()),
            places: vec![0; places],
            expressions: HashMap::with_capacity(symbols.bindings_len() / 2),
            namespace: 0,
            caught: 0,
            members: 0,
            flowing: 0,
            pending: 0,
            needs: usize::MAX,
            found: Vec::new(),
            imports: Vec::new(),
            uses: HashSet::default(),
            settable: HashSet::default(),
            awaiting: Vec::new(),
        }
    }

    pub(super) fn work(&self) -> &'s Work {
        self.pass.work
    }

    pub(super) fn finish(mut self) -> RawAnalysis {
        let is_set = |call: &Awaiting| self.settable.contains(call.attribute);
        self.found.extend(self.awaiting.into_iter().filter(is_set).map(|call| call.finding));
        let mut uses: Vec<String> = self.uses.into_iter().collect();
        uses.sort_unstable();
        RawAnalysis { found: self.found, imports: self.imports, uses, steps: 0 }
    }
}

/// The modes. Each function does `work` in one, and returns what that returns.
impl<'a> Analyzer<'a, '_> {
    /// Works in the scope that the function, class, `lambda` or comprehension at `range` opens.
    pub(super) fn in_scope_of<T>(
        &mut self,
        range: TextRange,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.in_scope(self.symbols.scope_of(range), work)
    }

    pub(super) fn in_scope<T>(&mut self, scope: ScopeId, work: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.scope, scope);
        let done = work(self);
        self.scope = outer;
        done
    }

    /// Works for a value alone: nothing is reported.
    pub(super) fn quietly<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.is_quiet, true);
        let done = work(self);
        self.is_quiet = outer;
        done
    }

    /// Works where texts are types.
    pub(super) fn as_annotation<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.is_annotation, true);
        let done = work(self);
        self.is_annotation = outer;
        done
    }

    /// Works for the text alone that an f-string gives to a function that runs it.
    pub(super) fn as_code<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.code_depth += 1;
        let done = self.quietly(work);
        self.code_depth -= 1;
        done
    }

    /// Follows a name or another way to a value, which `work` works out: once, and not within
    /// itself.
    pub(super) fn flowing(
        &mut self,
        flow: Flow,
        work: impl FnOnce(&mut Self) -> Values<'a>,
    ) -> Values<'a> {
        match self.begin(flow) {
            Ok(begun) => {
                let values = work(self);
                self.end(&begun, values)
            }
            Err(values) => values,
        }
    }

    /// Begins to work a value out, or returns what is known without.
    #[inline(never)]
    fn begin(&mut self, flow: Flow) -> Result<Begun, Values<'a>> {
        let counted = self.work();
        if counted.is_spent() {
            return Err(Values::unknown());
        }
        counted.spend(1);
        let place = self.place(flow);
        let tries = match self.memos[place] {
            Memo::Done(ref values) => {
                counted.spend(values.weight());
                return Err(values.clone());
            }
            Memo::Pending(place) => {
                self.needs = self.needs.min(place);
                return Err(Values::unknown());
            }
            Memo::NotYet(tries) => tries,
        };
        let is_by_name = matches!(flow, Flow::Binding(_) | Flow::Symbol(_));
        if self.depth == DEPTH_MAX || self.level > self.pass.level_max {
            // Only names that stand for names are followed to their end.
            if self.flowing == 0 && is_by_name {
                self.report(FindingKind::TooIndirect, None, None);
            }
            return Err(Values::unknown());
        }
        let Self { needs, depth, flowing, .. } = *self;
        let begun = Begun { place, tries, needs, depth, flowing };
        self.depth += usize::from(!matches!(flow, Flow::Symbol(_)));
        self.flowing += usize::from(!is_by_name);
        self.memos[place] = Memo::Pending(self.pending);
        self.needs = usize::MAX;
        self.pending += 1;
        Ok(begun)
    }

    /// Remembers a value that is worked out, unless it depends on something that is still pending.
    #[inline(never)]
    fn end(&mut self, begun: &Begun, values: Values<'a>) -> Values<'a> {
        self.pending -= 1;
        let is_final = self.needs >= self.pending || begun.tries == TRIES_MAX;
        if is_final {
            self.needs = usize::MAX;
        }
        self.memos[begun.place] =
            if is_final { Memo::Done(values.clone()) } else { Memo::NotYet(begun.tries + 1) };
        self.needs = self.needs.min(begun.needs);
        (self.depth, self.flowing) = (begun.depth, begun.flowing);
        values
    }

    /// Returns the place of what is known of a value that is worked out once.
    fn place(&mut self, flow: Flow) -> usize {
        let symbols = self.symbols.bindings_len();
        let results = symbols + self.symbols.symbols_len();
        let names = results + self.symbols.scopes_len();
        let place = match flow {
            Flow::Binding(id) => &mut self.places[id],
            Flow::Symbol(id) => &mut self.places[symbols + id],
            Flow::Result(scope) => &mut self.places[results + scope],
            Flow::Attribute(name) => &mut self.places[names + 2 * name],
            Flow::Contents(name) => &mut self.places[names + 2 * name + 1],
            Flow::Expression(range) => self.expressions.entry(range).or_default(),
            Flow::Namespace => &mut self.namespace,
            Flow::Caught => &mut self.caught,
            Flow::Members => &mut self.members,
        };
        if *place == 0 {
            self.memos.push(Memo::NotYet(0));
            *place = self.memos.len();
        }
        *place - 1
    }

    /// Joins a value that has been worked out before to `values`. Returns whether it has been.
    pub(super) fn join_done(&mut self, flow: Flow, values: &mut Values<'a>) -> bool {
        let counted = self.work();
        let Some(of) = self.done(flow) else { return false };
        counted.spend(1 + of.weight());
        values.join(of);
        true
    }

    /// Returns the value of a binding or expression, if it has been worked out.
    fn done(&self, flow: Flow) -> Option<&Values<'a>> {
        let place = match flow {
            Flow::Binding(id) => self.places[id],
            Flow::Expression(range) => *self.expressions.get(&range)?,
            _ => 0,
        };
        match self.memos.get(place.checked_sub(1)?)? {
            Memo::Done(values) => Some(values),
            Memo::NotYet(_) | Memo::Pending(_) => None,
        }
    }

    /// Keeps the value of an expression that was walked, for whoever asks for it again.
    pub(super) fn keep(&mut self, expr: &Expr, values: &Values<'a>) {
        if !self.is_quiet && !expr.is_name_expr() && !expr.is_literal_expr() {
            let place = self.place(Flow::Expression(expr.range()));
            self.memos[place] = Memo::Done(values.clone());
        }
    }

    /// Tells whether a value is being worked out: it depends on itself.
    pub(super) fn is_pending(&mut self, flow: Flow) -> bool {
        let place = self.place(flow);
        matches!(self.memos[place], Memo::Pending(_))
    }
}

/// The reports.
impl<'a> Analyzer<'a, '_> {
    #[cold]
    pub(super) fn report(
        &mut self,
        kind: FindingKind,
        rule: Option<&'static Rule>,
        offset: Option<TextSize>,
    ) {
        // A hostile source has any number; the list is cut anyway, and one is enough to refuse.
        if self.found.len() < FOUND_MAX {
            self.found.push(RawFinding { kind, rule, offset });
        }
    }

    /// Reports a use of the object `name` at `range`, unless only a value is wanted.
    #[cold]
    pub(super) fn report_reference(
        &mut self,
        name: String,
        rule: Option<&'static Rule>,
        range: TextRange,
    ) {
        if !self.is_quiet {
            let written = self.written(range);
            self.report(FindingKind::NameReference { name, written }, rule, Some(range.start()));
        }
    }

    /// Reports a call of the function `name`, which the source writes as `callee`.
    #[cold]
    pub(super) fn report_call(&mut self, name: String, rule: &'static Rule, callee: &'a Expr) {
        let written = self.written(callee.range());
        // What is called is one finding, even if its name alone is refused.
        let is_again = |last: &mut RawFinding| {
            last.offset == Some(callee.start())
                && matches!(&last.kind, FindingKind::NameReference { written: of, .. } if *of == written)
        };
        self.found.pop_if(is_again);
        self.report(FindingKind::Call { name, written }, Some(rule), Some(callee.start()));
    }

    /// Reports a call if the script puts the name of this attribute together, here or later.
    pub(super) fn report_if_set(
        &mut self,
        attribute: &'static str,
        name: String,
        rule: &'static Rule,
        callee: &'a Expr,
    ) {
        if self.awaiting.len() < FOUND_MAX {
            let kind = FindingKind::Call { name, written: self.written(callee.range()) };
            let finding = RawFinding { kind, rule: Some(rule), offset: Some(callee.start()) };
            self.awaiting.push(Awaiting { attribute, finding });
        }
    }

    /// Notes a text that was put together, if an attribute of that name matters where it is set.
    pub(super) fn note_settable(&mut self, values: &Values<'a>) {
        values.any_text(&mut |text| {
            self.settable.extend(INDEX.settable(text));
            false
        });
    }

    /// Adds a qualified name to the script's imports.
    pub(super) fn record_import(&mut self, name: String) {
        self.work().spend(name.len() / 4);
        self.imports.push(name);
    }

    /// Records that the script uses something, by its name. Nothing is decided by these names.
    pub(super) fn record_use(&mut self, name: &str) {
        let name = name.get(..name.floor_char_boundary(USE_BYTES_MAX)).unwrap_or(name);
        if self.is_quiet || self.uses.contains(name) {
            return;
        }
        let name = if self.uses.len() < USES_MAX { name } else { UNSEEN };
        self.uses.insert(name.to_owned());
    }

    /// Records that the script takes a member of something that may be known.
    pub(super) fn record_member(&mut self, name: &str) {
        if !self.is_quiet {
            self.record_use(&[".", name].concat());
        }
    }

    /// Records the objects from outside that an expression may evaluate to.
    pub(super) fn record_values(&mut self, values: &Values<'a>) {
        for value in &*values.known {
            if let Value::Object(path) = value {
                self.record_use(path);
            }
        }
    }

    /// The source at `range`, on one line and not much of it.
    pub(super) fn written(&self, range: TextRange) -> String {
        let text = self.source.get(range.to_std_range()).unwrap_or_default();
        let text = text.get(..text.floor_char_boundary(WRITTEN_BYTES)).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
