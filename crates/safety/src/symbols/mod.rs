//! The symbol table: which name is bound where, and to what, by Python's rules of scope.

#![expect(clippy::wildcard_enum_match_arm, reason = "one kind of binding is asked for")]
#![expect(
    clippy::indexing_slicing,
    reason = "scopes and bindings are named by their place in the table"
)]

mod builder;
mod callers;

pub(super) use builder::build;
pub(super) use callers::{Passed, argument_for, rest_of};

use foldhash::{HashMap, HashSet};

use ruff_python_ast::{
    Comprehension, Expr, ExprCall, ExprLambda, ExprName, Parameters, StmtAugAssign, StmtClassDef,
    StmtFunctionDef,
};
use ruff_text_size::{TextRange, TextSize};
use smallvec::SmallVec;

/// A scope, by its index.
pub(super) type ScopeId = usize;
/// A name in a scope, by its index.
pub(super) type SymbolId = usize;
/// A binding, by its index.
pub(super) type BindingId = usize;

/// The scope of the module.
pub(super) const MODULE: ScopeId = 0;

/// The kind of a scope, in which names can be bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ScopeKind {
    /// The script itself.
    #[default]
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

    /// Returns its binding, if it has only one.
    pub(super) fn only(&self) -> Option<BindingId> {
        match (self.bindings.as_slice(), self.from_elsewhere.as_slice()) {
            ([only], []) => Some(*only),
            _ => None,
        }
    }

    fn is_bound(&self) -> bool {
        !self.bindings.is_empty() || !self.from_elsewhere.is_empty()
    }
}

/// The bindings that a use can see.
pub(super) type Reaching = SmallVec<[BindingId; 16]>;

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
    /// An element, by its place, of any element of the value of an expression.
    ElementItem(&'a Expr, usize),
    /// Anything in the value of an expression, however deep, or that itself.
    Within(&'a Expr),
    /// The object that the value of an expression yields to a `with`.
    Entered(&'a Expr),
    /// The result of `a += b`.
    Augmented(&'a StmtAugAssign),
    /// A parameter of the function that opens this scope, with its default.
    Parameter(Option<&'a Expr>, ScopeId),
    /// The parameter that takes all positional arguments that are left, or all named ones.
    Rest(ScopeId, bool),
    /// The argument of a class for an annotated name in its body, by its place among those.
    Field(ScopeId, usize),
    /// A class or function of the script, by the place of its definition.
    Definition(TextRange),
    /// An exception that is caught: one of those that the script raises, or another.
    Caught,
    /// Something else.
    Unknown,
}

/// One place that binds a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Binding<'a> {
    /// The name that is bound: the last one, of an attribute.
    pub(super) name: &'a str,
    /// The place of that name among all.
    known: usize,
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

/// The statement or expression that opens a scope.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Definition<'a> {
    /// Something that has neither parameters nor members.
    #[default]
    Other,
    /// A class.
    Class(&'a StmtClassDef),
    /// A function.
    Function(&'a StmtFunctionDef),
    /// A `lambda`, with the name that it is given, or the call that it stands in.
    Lambda(&'a ExprLambda, Option<&'a str>, Option<&'a ExprCall>),
}

impl<'a> Definition<'a> {
    /// The name by which a function is called.
    pub(super) fn name(self) -> Option<&'a str> {
        match self {
            Self::Other => None,
            Self::Class(class) => Some(class.name.as_str()),
            Self::Function(function) => Some(function.name.as_str()),
            Self::Lambda(_, name, _) => name,
        }
    }

    pub(super) fn parameters(self) -> Option<&'a Parameters> {
        match self {
            Self::Other | Self::Class(_) => None,
            Self::Function(function) => Some(&function.parameters),
            Self::Lambda(lambda, ..) => lambda.parameters.as_deref(),
        }
    }

    /// The last names of a function's decorators.
    pub(super) fn decorators(self) -> impl Iterator<Item = &'a str> {
        let list = match self {
            Self::Function(function) => function.decorator_list.as_slice(),
            Self::Class(class) => class.decorator_list.as_slice(),
            Self::Other | Self::Lambda(..) => &[],
        };
        list.iter().map(|decorator| match &decorator.expression {
            Expr::Call(call) => last_name(&call.func).unwrap_or_default(),
            expr => last_name(expr).unwrap_or_default(),
        })
    }
}

/// The uses that a script makes of a name, wherever it stands: as a name or as an attribute.
#[derive(Debug, Default)]
pub(super) struct Uses<'a> {
    /// Its place among all names.
    pub(super) id: usize,
    /// True if it is more than bound.
    is_used: bool,
    /// The scopes that know it, in order, each with its symbol there.
    symbols: SmallVec<[(ScopeId, SymbolId); 1]>,
    /// The number of times that it is read …
    loads: usize,
    /// … of those, where it is only read from …
    reads: usize,
    /// … and where it is called.
    pub(super) calls: SmallVec<[(ScopeId, &'a ExprCall); 1]>,
    /// The bindings of an attribute of this name.
    pub(super) attribute: SmallVec<[BindingId; 1]>,
    /// The values that are put into the container of this name.
    pub(super) contents: SmallVec<[BindingId; 1]>,
}

impl Uses<'_> {
    /// Returns the symbol of this name in a scope.
    fn symbol_in(&self, scope: ScopeId) -> Option<SymbolId> {
        let symbols = self.symbols.as_slice();
        let place = match symbols {
            [(only, _)] => usize::from(*only != scope),
            _ => symbols.partition_point(|(of, _)| *of < scope),
        };
        symbols.get(place).filter(|(of, _)| *of == scope).map(|(_, symbol)| *symbol)
    }

    /// Tells whether a container of this name may be changed by another name.
    pub(super) fn is_aliased(&self) -> bool {
        self.loads > self.reads
    }

    /// Tells whether a function of this name may be called in another way than by it.
    pub(super) fn is_passed_on(&self) -> bool {
        self.loads > self.calls.len()
    }
}

#[derive(Debug, Default)]
struct Scope<'a> {
    kind: ScopeKind,
    definition: Definition<'a>,
    /// The values that a function returns or yields.
    results: Vec<BindingId>,
    /// True for a function that yields.
    is_generator: bool,
    /// The number of annotated names in a class.
    fields: usize,
    parent: Option<ScopeId>,
    /// The number of scopes around.
    depth: usize,
    /// The start of the outermost function around, if what stands here runs later.
    deferred_from: Option<TextSize>,
}

/// The symbol table of a script.
#[derive(Debug, Default)]
pub(super) struct Symbols<'a> {
    scopes: Vec<Scope<'a>>,
    bindings: Vec<Binding<'a>>,
    named: Vec<Symbol>,
    /// The whole script.
    range: TextRange,
    scope_of: HashMap<TextRange, ScopeId>,
    names: HashMap<&'a str, usize>,
    /// The uses of each name, and where it is bound.
    uses: Vec<Uses<'a>>,
    /// The statements at the top level that may call functions, in order.
    running: Vec<TextSize>,
    pub(super) star_imports: StarImports<'a>,
    /// Attributes that the script itself defines: methods, class variables, assigned ones.
    pub(super) own_attributes: HashSet<&'a str>,
    /// The keywords of all calls, as far as they name attributes that matter where a script sets them.
    pub(super) keywords: HashSet<&'a str>,
    /// The exceptions that the script raises by a call, each with its scope.
    pub(super) raised: Vec<(ScopeId, &'a ExprCall)>,
    /// The names that imports bind.
    pub(super) imports: Vec<&'a str>,
    /// The topmost packages of all imports.
    pub(super) imported: HashSet<&'a str>,
    /// True if names of the script may change in a way that is not seen here.
    pub(super) has_dynamic_names: bool,
    /// True if members are taken by names that are computed: methods may be called by them.
    pub(super) has_computed_members: bool,
    /// True if attributes may be set by names that are computed.
    pub(super) has_dynamic_attributes: bool,
}

/// Modules of which everything is imported.
#[derive(Debug, Default)]
pub(super) struct StarImports<'a> {
    /// Each with its place among all.
    pub(super) modules: HashMap<&'a str, usize>,
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

    pub(super) fn bindings_len(&self) -> usize {
        self.bindings.len()
    }

    /// Returns the number of symbols.
    pub(super) fn symbols_len(&self) -> usize {
        self.named.len()
    }

    pub(super) fn scopes_len(&self) -> usize {
        self.scopes.len()
    }

    /// Returns the number of names.
    pub(super) fn names_len(&self) -> usize {
        self.uses.len()
    }

    pub(super) fn binding(&self, id: BindingId) -> &Binding<'a> {
        &self.bindings[id]
    }

    /// Tells whether the script imports a library whose methods evaluate texts.
    pub(super) fn evaluates_texts(&self) -> bool {
        self.imported.contains("sympy") || self.imported.contains("mpmath")
    }

    /// Returns the scope that the function, class, `lambda` or comprehension at `range` opens.
    pub(super) fn scope_of(&self, range: TextRange) -> ScopeId {
        self.scope_of.get(&range).copied().unwrap_or(MODULE)
    }

    pub(super) fn kind(&self, scope: ScopeId) -> ScopeKind {
        self.scopes[scope].kind
    }

    pub(super) fn definition(&self, scope: ScopeId) -> Definition<'a> {
        self.scopes[scope].definition
    }

    /// Returns the scope around another.
    pub(super) fn parent(&self, scope: ScopeId) -> ScopeId {
        self.scopes[scope].parent.unwrap_or(MODULE)
    }

    /// Returns the class in whose body a scope stands.
    pub(super) fn class_around(&self, scope: ScopeId) -> Option<ScopeId> {
        self.scopes[scope].parent.filter(|parent| self.scopes[*parent].kind == ScopeKind::Class)
    }

    /// Returns what a function returns or yields, and whether it yields.
    pub(super) fn results(&self, scope: ScopeId) -> (&[BindingId], bool) {
        (&self.scopes[scope].results, self.scopes[scope].is_generator)
    }

    /// Returns the uses of the name that is bound.
    pub(super) fn uses_of(&self, binding: &Binding<'a>) -> &Uses<'a> {
        &self.uses[binding.known]
    }

    pub(super) fn uses(&self, name: &str) -> Option<&Uses<'a>> {
        self.known(name).filter(|uses| uses.is_used)
    }

    /// Tells whether the script binds this name in any scope.
    pub(super) fn is_bound(&self, name: &str) -> bool {
        self.known(name).is_some_and(|uses| !uses.symbols.is_empty())
    }

    /// Returns the names of the attributes that the script defines, in the order of the source.
    pub(super) fn attributes(&self) -> impl Iterator<Item = &'a str> {
        let all = self.uses.iter().filter_map(|uses| uses.attribute.first());
        all.map(|id| self.bindings[*id].name)
    }

    /// Returns what is known of a name.
    pub(super) fn known(&self, name: &str) -> Option<&Uses<'a>> {
        self.names.get(name).map(|id| &self.uses[*id])
    }

    /// Returns what is known of the name that stands here.
    pub(super) fn known_here(&self, name: &ExprName) -> Option<&Uses<'a>> {
        let id = name.node_index.load().as_u32().and_then(|id| usize::try_from(id).ok());
        id.map_or_else(|| self.known(name.id.as_str()), |id| self.uses.get(id))
    }

    /// Looks a name up as Python does, from `scope` outwards, for a use at `offset`. Calls `found`
    /// with the symbol of each scope that binds it, and whether it is `scope` itself, until it is
    /// certain that it is bound. Returns whether it is.
    pub(super) fn look_up<'s>(
        &'s self,
        known: Option<&Uses<'a>>,
        scope: ScopeId,
        offset: TextSize,
        mut found: impl FnMut(&'s Symbol, bool),
    ) -> bool {
        let Some(uses) = known else { return false };
        let Some((outermost, _)) = uses.symbols.first() else { return false };
        let mut next = Some(scope);
        // A scope comes after those around it.
        while let Some(id) = next.filter(|id| id >= outermost) {
            let current = &self.scopes[id];
            next = current.parent;
            let Some(symbol) = uses.symbol_in(id) else { continue };
            // A class's names are seen in its own body only.
            if current.kind == ScopeKind::Class && id != scope {
                continue;
            }
            let symbol = &self.named[symbol];
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
            let binding = &self.bindings[*id];
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

    /// Tells whether a use at `offset` in the same scope can see the only binding of a symbol.
    pub(super) fn reaches(&self, id: BindingId, offset: TextSize) -> bool {
        let binding = &self.bindings[id];
        // In a loop, what stands later may have run before.
        binding.bound_from <= offset
            || binding.in_loop.is_some_and(|range| range.contains_inclusive(offset))
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

    /// Returns the place where a symbol is bound first.
    pub(super) fn first_bound(&self, symbol: &Symbol) -> Option<TextSize> {
        symbol.bindings.first().map(|id| self.bindings[*id].bound_from)
    }

    fn runs_between(&self, from: TextSize, to: TextSize) -> bool {
        let first = self.running.partition_point(|at| *at < from);
        self.running.get(first).is_some_and(|at| *at < to)
    }
}

/// Returns the name of an expression that is a name or an attribute.
pub(super) fn last_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => Some(attribute.attr.as_str()),
        _ => None,
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
