//! Holds the state of the analysis of one syntax tree, its modes, and its reports. Never evaluates an expression.
//!
//! Each mode has a function that runs a closure in the mode, and leaves the mode when the closure returns.

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

/// The number of names that are followed from one to the next.
const DEPTH_MAX: usize = 64;
/// The number of findings that are collected. One is enough to refuse.
const FOUND_MAX: usize = 1_000;
/// The number of names that are recorded as used, and the longest recorded part of a name, in bytes.
const USES_MAX: usize = 10_000;
const USE_BYTES_MAX: usize = 160;
/// The longest part of the source that a finding repeats, in bytes including white space.
const WRITTEN_BYTES: usize = 400;

/// The kind of the analysed source, and its limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass<'w> {
    /// The deepest nesting of expressions, including the names in them that are followed.
    pub(super) level_max: usize,
    /// The number of enclosing strings of code.
    pub(super) text_depth: usize,
    /// True for a formula, in which a name alone is a symbol.
    pub(super) is_formula: bool,
    /// The step counter and the cached judgements of strings.
    pub(super) work: &'w Work,
}

/// A value that is computed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flow {
    /// One binding of a name.
    Binding(BindingId),
    /// All bindings of a name in a scope.
    Symbol(SymbolId),
    /// The result of a function, by its scope.
    Result(ScopeId),
    /// An attribute, by the index of its name.
    Attribute(usize),
    /// The contents of containers with a name, by the index of the name.
    Contents(usize),
    /// An expression, in the scope in which it is evaluated.
    Expression(TextRange),
    /// The script's own namespace.
    Namespace,
    /// The exceptions that the script raises.
    Caught,
    /// The attributes that the script defines.
    Members,
}

/// The cached state of a value that is computed once.
#[derive(Debug, Clone)]
enum Memo<'a> {
    /// Not computed yet, after this many attempts that depended on a pending value.
    NotYet(u8),
    /// Being computed, with the number of values that were pending before. A value that meets this state depends on
    /// itself.
    Pending(usize),
    Done(Values<'a>),
}

/// The state to restore after a value has been computed, and the number of earlier attempts.
struct Begun {
    place: usize,
    tries: u8,
    needs: usize,
    depth: usize,
    flowing: usize,
}

/// The number of attempts for a value that depends on a pending value.
const TRIES_MAX: u8 = 3;

/// The analysis of one syntax tree.
pub(super) struct Analyzer<'a, 's> {
    pub(super) source: &'a str,
    pub(super) symbols: &'s Symbols<'a>,
    pub(super) pass: Pass<'s>,
    /// True if the script imports doctest.
    pub(super) has_doctest: bool,
    /// The scope that is being walked, or in which the current binding is evaluated.
    pub(super) scope: ScopeId,
    /// True while only a value is needed and nothing is reported.
    pub(super) is_quiet: bool,
    /// True in an annotation, in which strings are types.
    pub(super) is_annotation: bool,
    /// The nesting depth of f-strings that run as code.
    pub(super) code_depth: usize,
    /// The number of names that are being followed.
    depth: usize,
    /// The nesting depth of the expressions that are being evaluated.
    pub(super) level: usize,
    /// The values that are computed once.
    memos: Vec<Memo<'a>>,
    /// The index plus one in `memos` of each binding, symbol, result, attribute and container. Zero if it has none yet.
    places: Vec<usize>,
    /// The same for expressions.
    expressions: HashMap<TextRange, usize>,
    /// The same for the script's own namespace.
    namespace: usize,
    /// The same for the exceptions that the script raises.
    caught: usize,
    /// The same for the attributes that the script defines.
    members: usize,
    /// The number of values that are being followed by other ways than names.
    flowing: usize,
    /// The number of values that are being computed.
    pending: usize,
    /// The outermost pending value that the current value needs.
    needs: usize,
    found: Vec<RawFinding>,
    imports: Vec<String>,
    uses: HashSet<String>,
    /// Attribute names that the script composes, and that matter if it sets the attribute.
    settable: HashSet<&'static str>,
    /// The calls for which such a name matters.
    awaiting: Vec<Awaiting>,
}

/// A call that a rule finds if the script sets an attribute. It is stored until that is known.
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

/// The modes. Each function runs `work` in a mode and returns its result.
impl<'a> Analyzer<'a, '_> {
    /// Runs `work` in the scope that the function, class, `lambda` or comprehension at `range` opens.
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

    /// Runs `work` for its value alone. Nothing is reported.
    pub(super) fn quietly<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.is_quiet, true);
        let done = work(self);
        self.is_quiet = outer;
        done
    }

    /// Runs `work` in an annotation, in which strings are types.
    pub(super) fn as_annotation<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.is_annotation, true);
        let done = work(self);
        self.is_annotation = outer;
        done
    }

    /// Runs `work` for the text alone that an f-string passes to a function that runs it.
    pub(super) fn as_code<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.code_depth += 1;
        let done = self.quietly(work);
        self.code_depth -= 1;
        done
    }

    /// Returns the value of `flow`. Computes it with `work` unless it is cached, and never within its own computation.
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

    /// Starts the computation of a value, or returns the result that is known without it.
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
            // Only an unbroken chain of names must be followed to its end.
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

    /// Caches a computed value, unless it depends on a value that is still pending.
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

    /// Returns the index in `memos` of a value that is computed once.
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

    /// Joins an already computed value to `values`. Returns whether it was computed.
    pub(super) fn join_done(&mut self, flow: Flow, values: &mut Values<'a>) -> bool {
        let counted = self.work();
        let Some(of) = self.done(flow) else { return false };
        counted.spend(1 + of.weight());
        values.join(of);
        true
    }

    /// Returns the value of a binding or expression, if it has been computed.
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

    /// Caches the value of a walked expression for later uses.
    pub(super) fn keep(&mut self, expr: &Expr, values: &Values<'a>) {
        if !self.is_quiet && !expr.is_name_expr() && !expr.is_literal_expr() {
            let place = self.place(Flow::Expression(expr.range()));
            self.memos[place] = Memo::Done(values.clone());
        }
    }

    /// Returns whether a value is being computed. If so, it depends on itself.
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
        // A hostile source has any number of findings. The list is truncated anyway, and one is enough to refuse.
        if self.found.len() < FOUND_MAX {
            self.found.push(RawFinding { kind, rule, offset });
        }
    }

    /// Reports a use of the object `name` at `range`, unless only a value is needed.
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
        // A call of a refused name is one finding, so the call replaces the finding for the name.
        let is_again = |last: &mut RawFinding| {
            last.offset == Some(callee.start())
                && matches!(&last.kind, FindingKind::NameReference { written: of, .. } if *of == written)
        };
        self.found.pop_if(is_again);
        self.report(FindingKind::Call { name, written }, Some(rule), Some(callee.start()));
    }

    /// Reports a call if the script composes the name of this attribute, earlier or later.
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

    /// Stores a composed string, if setting an attribute with this name matters.
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

    /// Records a name that the script uses. No decision depends on these names.
    pub(super) fn record_use(&mut self, name: &str) {
        let name = name.get(..name.floor_char_boundary(USE_BYTES_MAX)).unwrap_or(name);
        if self.is_quiet || self.uses.contains(name) {
            return;
        }
        let name = if self.uses.len() < USES_MAX { name } else { UNSEEN };
        self.uses.insert(name.to_owned());
    }

    /// Records that the script takes a member of an object.
    pub(super) fn record_member(&mut self, name: &str) {
        if !self.is_quiet {
            self.record_use(&[".", name].concat());
        }
    }

    /// Records the external objects that an expression may evaluate to.
    pub(super) fn record_values(&mut self, values: &Values<'a>) {
        for value in &*values.known {
            if let Value::Object(path) = value {
                self.record_use(path);
            }
        }
    }

    /// Returns the start of the source at `range`, on one line.
    pub(super) fn written(&self, range: TextRange) -> String {
        let text = self.source.get(range.to_std_range()).unwrap_or_default();
        let text = text.get(..text.floor_char_boundary(WRITTEN_BYTES)).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
