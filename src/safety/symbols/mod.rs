//! The symbol table: which name is bound where, and to what, by Python's rules of scope.

#![expect(clippy::wildcard_enum_match_arm, reason = "one kind of binding is asked for")]
#![expect(
    clippy::indexing_slicing,
    reason = "scopes and bindings are named by their place in the table"
)]

mod builder;
mod callers;
mod names;

pub(super) use builder::build;
pub(super) use callers::{Callers, argument_for};

use ruff_python_ast::{Comprehension, Expr, StmtFunctionDef};
use ruff_text_size::{TextRange, TextSize};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use names::{NameSet, Names};

/// A scope, by its index.
pub(super) type ScopeId = usize;
/// A name in a scope, by its index.
pub(super) type SymbolId = usize;
/// A binding, by its index.
pub(super) type BindingId = usize;

/// The scope of the module.
pub(super) const MODULE: ScopeId = 0;

/// The kind of a scope, in which names can be bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScopeKind {
    /// The script itself.
    Module,
    /// The body of a class: not seen from functions in it.
    Class,
    /// A function or `lambda`: what is in it runs later.
    Function,
    /// A comprehension or generator expression.
    Comprehension,
}

impl Symbol {
    /// Returns all of its bindings.
    pub(super) fn all(&self) -> impl Iterator<Item = BindingId> + '_ {
        self.bindings.iter().chain(&self.from_elsewhere).copied()
    }

    fn is_bound(&self) -> bool {
        !self.bindings.is_empty() || !self.from_elsewhere.is_empty()
    }
}

/// The bindings that a use can see.
pub(super) type Reaching = SmallVec<[BindingId; 4]>;

/// The most reaching bindings that are told apart.
pub(super) const REACHING_MAX: usize = 64;

/// The source of a binding's value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// `import a.b as c`: the module.
    Import(&'a str),
    /// `from a import b`: the module and its member.
    Member(&'a str, &'a str),
    /// The value of an expression.
    Value(&'a Expr),
    /// An element of the value of an expression, by its place.
    Item(&'a Expr, usize),
    /// Any element of the value of an expression: the target of a `for`.
    Element(&'a Expr),
    /// A parameter, with its default and its function, which a `lambda` has not.
    Parameter(Option<&'a Expr>, Option<&'a StmtFunctionDef>),
    /// A class of the script.
    Class,
    /// A function of the script.
    Function,
    /// Something else.
    Unknown,
}

/// One place that binds a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Binding<'a> {
    pub(super) source: Source<'a>,
    /// The scope in which the source is evaluated.
    pub(super) evaluated_in: ScopeId,
    /// The place from which on the name is bound.
    bound_from: TextSize,
    /// The code that runs only if this binding has run, as long as it comes later.
    block: TextRange,
    /// The outermost loop of its scope around it: in one, what stands later may run earlier.
    in_loop: Option<TextRange>,
}

/// A name in a scope.
#[derive(Debug, Default)]
pub(super) struct Symbol {
    /// Its place among all symbols.
    pub(super) id: SymbolId,
    /// The bindings in its own scope, in source order.
    bindings: SmallVec<[BindingId; 1]>,
    /// Those of them that stand in loops.
    in_loops: SmallVec<[BindingId; 1]>,
    /// Those of them that run each time that a block is entered: targets of `for`.
    starting_blocks: SmallVec<[BindingId; 1]>,
    /// The bindings from other scopes, by `global` or `nonlocal`.
    from_elsewhere: SmallVec<[BindingId; 1]>,
    /// `global` or `nonlocal`, if the name belongs to another scope.
    elsewhere: Option<Elsewhere>,
    /// The place from which on a `del` may have removed it.
    deleted_from: Option<TextSize>,
    /// True if that `del` stands in a loop.
    is_deleted_in_loop: bool,
    /// True if it is gone at the end of an `except`.
    ends_with_handler: bool,
}

#[derive(Debug, Clone, Copy)]
enum Elsewhere {
    Global,
    Nonlocal,
}

#[derive(Debug)]
struct Scope<'a> {
    kind: ScopeKind,
    parent: Option<ScopeId>,
    /// The number of scopes around.
    depth: usize,
    /// The start of the outermost function around, if what stands here runs later.
    deferred_from: Option<TextSize>,
    names: Names<'a, Symbol>,
}

/// The symbol table of a script.
#[derive(Debug, Default)]
pub(super) struct Symbols<'a> {
    scopes: Vec<Scope<'a>>,
    bindings: Vec<Binding<'a>>,
    names_len: usize,
    /// The whole script.
    range: TextRange,
    scope_of: FxHashMap<TextRange, ScopeId>,
    /// The statements at the top level that may call functions, in order.
    running: Vec<TextSize>,
    pub(super) star_imports: StarImports<'a>,
    /// Attributes that the script itself defines: methods, class variables, assigned ones.
    pub(super) own_attributes: NameSet<'a>,
    /// The topmost packages of all imports.
    pub(super) imported: NameSet<'a>,
    /// True if names of the script may change in a way that is not seen here.
    pub(super) has_dynamic_names: bool,
}

/// Modules of which everything is imported.
#[derive(Debug, Default)]
pub(super) struct StarImports<'a> {
    /// Each with its place among all.
    pub(super) modules: Names<'a, usize>,
    /// The first of those of which calls of any member are judged, with their places.
    pub(super) judged_whole: Vec<(usize, &'a str)>,
    /// The place of the last.
    pub(super) last: Option<TextSize>,
}

impl<'a> Symbols<'a> {
    /// Returns the number of scopes around this one.
    pub(super) fn depth(&self, scope: ScopeId) -> usize {
        self.scopes[scope].depth
    }

    pub(super) fn binding(&self, id: BindingId) -> Binding<'a> {
        self.bindings[id]
    }

    /// Tells whether the script imports a library whose methods evaluate texts.
    pub(super) fn evaluates_texts(&self) -> bool {
        self.imported.contains("sympy") || self.imported.contains("mpmath")
    }

    pub(super) fn bindings_len(&self) -> usize {
        self.bindings.len()
    }

    pub(super) fn symbols_len(&self) -> usize {
        self.names_len
    }

    /// Returns the scope that the function, class, `lambda` or comprehension at `range` opens.
    pub(super) fn scope_of(&self, range: TextRange) -> ScopeId {
        self.scope_of.get(&range).copied().unwrap_or(MODULE)
    }

    pub(super) fn kind(&self, scope: ScopeId) -> ScopeKind {
        self.scopes[scope].kind
    }

    /// Looks `name` up as Python does, from `scope` outwards, for a use at `offset`. Calls `found`
    /// with the symbol of each scope that binds it, and whether it is `scope` itself, until it is
    /// certain that it is bound. Returns whether it is.
    pub(super) fn look_up<'s>(
        &'s self,
        name: &str,
        scope: ScopeId,
        offset: TextSize,
        mut found: impl FnMut(&'s Symbol, bool),
    ) -> bool {
        let mut next = Some(scope);
        while let Some(id) = next {
            let current = &self.scopes[id];
            next = current.parent;
            // A class's names are seen in its own body only.
            if current.kind == ScopeKind::Class && id != scope {
                continue;
            }
            let Some(symbol) = current.names.get(name) else { continue };
            // At the top level, `global` changes nothing.
            if let Some(elsewhere) = symbol.elsewhere.filter(|_| id != MODULE) {
                if matches!(elsewhere, Elsewhere::Global) {
                    next = Some(MODULE);
                }
                continue;
            }
            if !symbol.is_bound() {
                continue;
            }
            if self.is_certain(symbol, id, scope, offset) {
                found(symbol, id == scope);
                return true;
            }
            found(symbol, id == scope);
        }
        false
    }

    /// Tells whether a use of the symbol of scope `owner` in scope `user` finds it bound.
    fn is_certain(&self, symbol: &Symbol, owner: ScopeId, user: ScopeId, offset: TextSize) -> bool {
        match self.scopes[owner].kind {
            // An unbound local is an error, not a name from further out.
            ScopeKind::Function | ScopeKind::Comprehension => return true,
            ScopeKind::Module | ScopeKind::Class => {}
        }
        let starts_block_around =
            |id: &BindingId| self.bindings[*id].block.contains_inclusive(offset);
        // A function may be called after the `del`.
        let deleted_from = symbol.deleted_from.filter(|at| *at <= offset || user != owner);
        if deleted_from.is_some() {
            return false;
        }
        if user == owner
            && symbol.starting_blocks.iter().take(REACHING_MAX).any(starts_block_around)
        {
            return true;
        }
        if symbol.is_deleted_in_loop || symbol.ends_with_handler || self.has_dynamic_names {
            return false;
        }
        let deferred_from = self.scopes[user].deferred_from.filter(|_| user != owner);
        let used_at = deferred_from.unwrap_or(offset);
        // One of the first is as good as any; none of them means that it is not certain.
        symbol.bindings.iter().take(REACHING_MAX).any(|id| {
            let binding = self.bindings[*id];
            if !binding.block.contains_inclusive(used_at) {
                return false;
            }
            binding.bound_from <= used_at
                // A function may use what is defined below it, if nothing runs in between.
                || (deferred_from.is_some()
                    && binding.block == self.range
                    && !self.runs_between(used_at, binding.bound_from))
        })
    }

    /// Returns the bindings of `symbol` that a use at `offset` in the same scope can see; `None` if
    /// there are too many to tell apart.
    pub(super) fn reaching(&self, symbol: &Symbol, offset: TextSize) -> Option<Reaching> {
        if symbol.from_elsewhere.len() > REACHING_MAX {
            return None;
        }
        let mut reaching: Reaching = SmallVec::from_slice(&symbol.from_elsewhere);
        let comes_before = |id: &BindingId| self.bindings[*id].bound_from <= offset;
        let before = symbol.bindings.partition_point(comes_before);
        for id in symbol.bindings[..before].iter().rev() {
            reaching.push(*id);
            // What certainly has run hides what was bound before it.
            if self.bindings[*id].block.contains_inclusive(offset) {
                break;
            }
            if reaching.len() > REACHING_MAX {
                return None;
            }
        }
        // In a loop, what stands later may have run before.
        for id in &symbol.in_loops[symbol.in_loops.partition_point(comes_before)..] {
            let in_loop = self.bindings[*id].in_loop;
            if !in_loop.is_some_and(|range| range.contains_inclusive(offset)) {
                break;
            }
            reaching.push(*id);
            if reaching.len() > REACHING_MAX {
                return None;
            }
        }
        (reaching.len() <= REACHING_MAX).then_some(reaching)
    }

    /// Returns the function whose parameter `name` is in `scope`, if nothing else binds the name
    /// there.
    pub(super) fn parameter_of(&self, name: &str, scope: ScopeId) -> Option<&'a StmtFunctionDef> {
        let symbol = self.scopes[scope].names.get(name)?;
        match (symbol.bindings.as_slice(), symbol.from_elsewhere.as_slice()) {
            ([only], []) => match self.bindings[*only].source {
                Source::Parameter(_, function) => function,
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the names that one function, and nothing else in the whole script, has.
    pub(super) fn functions_defined_once(&self) -> NameSet<'a> {
        let (mut functions, mut others) = (NameSet::default(), NameSet::default());
        for scope in &self.scopes {
            for (name, symbol) in &scope.names {
                let is_function =
                    |id: BindingId| matches!(self.bindings[id].source, Source::Function);
                let is_one = scope.kind != ScopeKind::Class
                    && symbol.all().count() == 1
                    && symbol.all().all(is_function);
                if !is_one || !functions.insert(*name) {
                    others.insert(*name);
                }
            }
        }
        functions.retain(|name| !others.contains(name));
        functions
    }

    /// Returns the place where a symbol is bound first.
    pub(super) fn first_bound(&self, symbol: &Symbol) -> Option<TextSize> {
        symbol.bindings.first().map(|id| self.bindings[*id].bound_from)
    }

    fn runs_between(&self, from: TextSize, to: TextSize) -> bool {
        let first = self.running.partition_point(|at| *at < from);
        self.running.get(first).is_some_and(|at| *at < to)
    }
}

/// Returns the elements of a tuple or list as it stands in the source.
pub(super) fn elements(expr: &Expr) -> &[Expr] {
    if let Expr::Tuple(tuple) = expr {
        &tuple.elts
    } else if let Expr::List(list) = expr {
        &list.elts
    } else {
        &[]
    }
}

/// Takes a comprehension apart: the expressions of its elements, the key of a dictionary's first,
/// and its loops. Empty for another expression.
pub(super) fn comprehension(expr: &Expr) -> ([Option<&Expr>; 2], &[Comprehension]) {
    match expr {
        Expr::ListComp(comp) => ([Some(&comp.elt), None], &comp.generators),
        Expr::SetComp(comp) => ([Some(&comp.elt), None], &comp.generators),
        Expr::Generator(comp) => ([Some(&comp.elt), None], &comp.generators),
        Expr::DictComp(comp) => ([comp.key.as_deref(), Some(&comp.value)], &comp.generators),
        _ => ([None, None], &[]),
    }
}
