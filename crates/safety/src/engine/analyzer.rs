//! Contains the state of the analysis of one syntax tree, the modes of the analysis, and the functions that report
//! findings. Never evaluates an expression.
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

/// The maximum length of a chain of values that the analysis follows, for example from a name to the name that it is
/// bound to.
const DEPTH_MAX: usize = 64;
/// The maximum number of findings that are collected. One finding is enough to refuse the script.
const FOUND_MAX: usize = 1_000;
/// The maximum number of names that are recorded as used.
const USES_MAX: usize = 10_000;
/// The maximum length of a recorded name, in bytes.
const USE_BYTES_MAX: usize = 160;
/// The maximum length of the source text that a finding quotes, in bytes, before its white space is shortened.
const WRITTEN_BYTES: usize = 400;

/// The kind of the analysed source, and its limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass<'w> {
    /// The maximum nesting of expressions. If the analysis follows a name to an expression, the levels of this
    /// expression are added to the levels around the name.
    pub(super) level_max: usize,
    /// The number of strings around the analysed source: 0 for a script, 1 for a string that the script runs as code,
    /// and so on.
    pub(super) text_depth: usize,
    /// True if the source is a formula. In a formula, a name that is not called is a mathematical variable and not a
    /// reference to an object.
    pub(super) is_formula: bool,
    /// The names of the files that the script may read. Empty for a string of code in the script.
    pub(super) inputs: &'w [&'w str],
    /// The step counter and the cached judgements of strings.
    pub(super) work: &'w Work,
}

/// Identifies a value that is computed once and then cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flow {
    /// The value of one binding of a name.
    Binding(BindingId),
    /// The value of all bindings of a name in a scope.
    Symbol(SymbolId),
    /// The result of a call of the function with this scope.
    Result(ScopeId),
    /// The values of all attributes with the same name, on any object of the script. The number is the index of this
    /// name in the symbol table.
    Attribute(usize),
    /// The contents of all containers with the same name. The number is the index of this name in the symbol table.
    Contents(usize),
    /// The value of the expression at this range, in the scope in which Python evaluates the expression.
    Expression(TextRange),
    /// The values in the script's own namespace.
    Namespace,
    /// The arguments of the exceptions that the script raises.
    Caught,
    /// The values in the attributes that the script defines.
    Members,
}

/// The state of a value that is computed once and then cached.
#[derive(Debug, Clone)]
enum Memo<'a> {
    /// The value is not computed yet. The number counts the computations of this value that failed. A computation fails
    /// if its result depends on a pending value.
    NotYet(u8),
    /// The value is pending: its computation has started. The number counts the values that were already pending when
    /// the computation started. If another computation needs a pending value, the value depends on itself.
    Pending(usize),
    Done(Values<'a>),
}

/// The started computation of a value. `place` is the index of the value in `memos`, and `tries` is the number of
/// earlier computations that failed. The other fields contain the values that the fields of the [`Analyzer`] with the
/// same names had before the computation.
struct Begun {
    place: usize,
    tries: u8,
    needs: usize,
    depth: usize,
    flowing: usize,
}

/// The number of failed computations of a value after which the next result is final, even if the result depends on a
/// pending value.
const TRIES_MAX: u8 = 3;

/// The state of the analysis of one syntax tree.
pub(super) struct Analyzer<'a, 's> {
    pub(super) source: &'a str,
    pub(super) symbols: &'s Symbols<'a>,
    pub(super) pass: Pass<'s>,
    /// True if the script imports doctest, which runs examples in docstrings.
    pub(super) has_doctest: bool,
    /// The current scope: the scope of the visited node, or the scope in which the current binding is evaluated.
    pub(super) scope: ScopeId,
    /// True while the analysis needs only the value of an expression. No finding is then reported.
    pub(super) is_quiet: bool,
    /// True in an annotation, where strings are types.
    pub(super) is_annotation: bool,
    /// The number of calls of [`Self::as_code`] that have not returned yet. They nest if an f-string that the script
    /// runs as code contains the name of another f-string.
    pub(super) code_depth: usize,
    /// The length of the chain of values that is being followed.
    depth: usize,
    /// The nesting depth of the expressions that are being evaluated.
    pub(super) level: usize,
    memos: Vec<Memo<'a>>,
    /// For each binding, symbol, result, attribute and container: the index of its state in `memos`, plus one. Zero if
    /// it has no state yet.
    places: Vec<usize>,
    /// The same index for each expression, by the expression's range.
    expressions: HashMap<TextRange, usize>,
    /// The same index for the script's own namespace.
    namespace: usize,
    /// The same index for the exceptions that the script raises.
    caught: usize,
    /// The same index for the attributes that the script defines.
    members: usize,
    /// The number of values in the followed chain that are not values of names, for example results of functions.
    flowing: usize,
    /// The number of pending values. The computation of each pending value needs the next pending value.
    pending: usize,
    /// The lowest number in [`Memo::Pending`] among the pending values on which the current value depends. `usize::MAX`
    /// if the current value depends on no pending value.
    needs: usize,
    found: Vec<RawFinding>,
    imports: Vec<String>,
    uses: HashSet<String>,
    /// The attribute names among the strings that the script composes. A name is stored only if a call becomes
    /// dangerous when the script sets an attribute with this name.
    settable: HashSet<&'static str>,
    /// The calls that are dangerous if the script sets a certain attribute.
    awaiting: Vec<Awaiting>,
}

/// A call that is dangerous if the script sets an attribute. The call is stored until the end of the walk, because the
/// script may compose the name of the attribute later.
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
        let found = self.found;
        RawAnalysis { found, imports: self.imports, uses, ..RawAnalysis::default() }
    }
}

/// The modes of the analysis. Each function runs `work` in a mode and returns the result of `work`.
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

    /// Runs `work` without reporting findings. Used if only the returned value is needed.
    pub(super) fn quietly<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.is_quiet, true);
        let done = work(self);
        self.is_quiet = outer;
        done
    }

    /// Runs `work` in an annotation, where strings are types.
    pub(super) fn as_annotation<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.is_annotation, true);
        let done = work(self);
        self.is_annotation = outer;
        done
    }

    /// Runs `work`, which computes the text of an f-string that the script runs as code. Reports no findings.
    pub(super) fn as_code<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.code_depth += 1;
        let done = self.quietly(work);
        self.code_depth -= 1;
        done
    }

    /// Returns the cached value of `flow`, or computes the value with `work`. If the value is already being computed,
    /// returns an unknown value.
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

    /// Starts the computation of a value. Returns `Err` with the cached value if the value is already computed, and
    /// with an unknown value if the computation cannot start.
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
            // A long chain of names alone could end at a dangerous module, so the script is refused. If the chain
            // contains other values, such as the result of a function, the value is only unknown.
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

    /// Ends the computation of a value. Caches the value if it depends on no value that is still pending, or if
    /// [`TRIES_MAX`] earlier computations failed.
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

    /// Returns the index in `memos` of the state of a value. Creates the state if there is none.
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

    /// If a value is already computed, adds its alternatives to `values` and returns true.
    pub(super) fn join_done(&mut self, flow: Flow, values: &mut Values<'a>) -> bool {
        let counted = self.work();
        let Some(of) = self.done(flow) else { return false };
        counted.spend(1 + of.weight());
        values.join(of);
        true
    }

    /// Returns the value of a binding or expression, if it is already computed.
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

    /// Caches the value of an expression that the walk has evaluated, for later uses of the value.
    pub(super) fn remember(&mut self, expr: &Expr, values: &Values<'a>) {
        if !self.is_quiet && !expr.is_name_expr() && !expr.is_literal_expr() {
            let place = self.place(Flow::Expression(expr.range()));
            self.memos[place] = Memo::Done(values.clone());
        }
    }

    /// Returns whether a value is being computed. A value that is needed during its own computation depends on itself.
    pub(super) fn is_pending(&mut self, flow: Flow) -> bool {
        let place = self.place(flow);
        matches!(self.memos[place], Memo::Pending(_))
    }
}

/// The functions that report findings and record uses.
impl<'a> Analyzer<'a, '_> {
    #[cold]
    pub(super) fn report(
        &mut self,
        kind: FindingKind,
        rule: Option<&'static Rule>,
        offset: Option<TextSize>,
    ) {
        // A hostile source may have any number of findings. One finding is enough to refuse the source, and a refusal
        // shows only a few of the findings.
        if self.found.len() < FOUND_MAX {
            self.found.push(RawFinding { kind, rule, offset });
        }
    }

    /// Reports a use of the object `name` at `range`, unless the analysis needs only the value of an expression.
    #[cold]
    pub(super) fn report_reference(
        &mut self,
        name: String,
        rule: Option<&'static Rule>,
        range: TextRange,
    ) {
        if !self.is_quiet {
            let written = self.written(range);
            let rule = rule.map(|rule| self.told(rule));
            self.report(FindingKind::NameReference { name, written }, rule, Some(range.start()));
        }
    }

    /// Reports a call of the function `name`, which the source writes as the expression `callee`.
    #[cold]
    pub(super) fn report_call(&mut self, name: String, rule: &'static Rule, callee: &'a Expr) {
        let written = self.written(callee.range());
        // If the callee is already reported as a reference, the call replaces that finding. So one call is only one
        // finding.
        let is_again = |last: &mut RawFinding| {
            last.offset == Some(callee.start())
                && matches!(&last.kind, FindingKind::NameReference { written: of, .. } if *of == written)
        };
        self.found.pop_if(is_again);
        self.report(
            FindingKind::Call { name, written },
            Some(self.told(rule)),
            Some(callee.start()),
        );
    }

    /// Stores a finding about a call. The finding is reported at the end of the walk if the script composes the string
    /// `attribute` anywhere, because the script may then set the attribute with this name.
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

    /// Stores each string among `values` that is the name of an attribute, if setting the attribute makes a call
    /// dangerous.
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

    /// Records a name that the script uses. No decision of the analysis depends on the recorded names.
    pub(super) fn record_use(&mut self, name: &str) {
        let name = name.get(..name.floor_char_boundary(USE_BYTES_MAX)).unwrap_or(name);
        if self.is_quiet || self.uses.contains(name) {
            return;
        }
        let name = if self.uses.len() < USES_MAX { name } else { UNSEEN };
        self.uses.insert(name.to_owned());
    }

    /// Records that the script uses the member `name` of an object.
    pub(super) fn record_member(&mut self, name: &str) {
        if !self.is_quiet {
            self.record_use(&[".", name].concat());
        }
    }

    /// Records the modules, functions and classes from outside of the script that an expression may evaluate to.
    pub(super) fn record_values(&mut self, values: &Values<'a>) {
        for value in &*values.known {
            if let Value::Object(path) = value {
                self.record_use(path);
            }
        }
    }

    /// Returns the source text at `range` on one line, cut to [`WRITTEN_BYTES`].
    pub(super) fn written(&self, range: TextRange) -> String {
        let text = self.source.get(range.to_std_range()).unwrap_or_default();
        let text = text.get(..text.floor_char_boundary(WRITTEN_BYTES)).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
