//! Contains the symbol table, which records where a script binds each name, and to which value. Follows Python's scope
//! rules. Never evaluates a value.

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

/// The index of a scope.
pub(super) type ScopeId = usize;
/// The index of a symbol, which is a name in a scope.
pub(super) type SymbolId = usize;
/// The index of a binding.
pub(super) type BindingId = usize;

/// The index of the module's scope.
pub(super) const MODULE: ScopeId = 0;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ScopeKind {
    /// The script itself.
    #[default]
    Module,
    /// The body of a class. The names that the body binds are not visible in the functions of the class.
    Class,
    /// A function or `lambda`. Its body runs when it is called.
    Function,
    /// A comprehension or generator expression.
    Comprehension,
}

impl Symbol {
    pub(super) fn all(&self) -> impl Iterator<Item = BindingId> + '_ {
        self.bindings.iter().chain(&self.from_elsewhere).copied()
    }

    /// Returns the binding of the symbol, if it has only one.
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

/// The bindings of a symbol that may supply the value of one use of the name (reaching definitions).
pub(super) type Reaching = SmallVec<[BindingId; 16]>;

/// The maximum number of bindings that the analysis distinguishes for one use of a name.
pub(super) const REACHING_MAX: usize = 64;

/// The origin of a binding's value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// The module of `import a.b as c`.
    Import(&'a str),
    /// The module and the member of `from a import b`.
    Member(&'a str, &'a str),
    /// The value of an expression.
    Value(&'a Expr),
    /// The element at an index of the value of an expression: `b` in `a, b = pair`.
    Item(&'a Expr, usize),
    /// Any element of the value of an expression: the target of a `for`.
    Element(&'a Expr),
    /// The element at an index of each element of a sequence: `b` in `for a, b in pairs`.
    ElementItem(&'a Expr, usize),
    /// The value of an expression, or any value inside of that value at any depth.
    Within(&'a Expr),
    /// The object that a `with` statement binds. The value of the expression is the context manager.
    Entered(&'a Expr),
    /// The result of `a += b`.
    Augmented(&'a StmtAugAssign),
    /// A parameter of a function, with its default and the scope of the function.
    Parameter(Option<&'a Expr>, ScopeId),
    /// The parameter that takes all remaining arguments of the function with this scope. The Boolean is true for the
    /// keyword arguments (`**`), and false for the positional arguments (`*`).
    Rest(ScopeId, bool),
    /// A field of a class, for example of a data class. The values of the field are the arguments of calls of the
    /// class. The scope is the body of the class. The index is the position of the field among the annotated names in
    /// the body.
    Field(ScopeId, usize),
    /// A class or function of the script, by the range of its definition.
    Definition(TextRange),
    /// A caught exception, which the script or any other code may have raised.
    Caught,
    /// Any other source.
    Unknown,
}

/// A binding of a name, for example by an assignment, an import or a parameter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Binding<'a> {
    /// The bound name. For an attribute `a.b`, this is `b`.
    pub(super) name: &'a str,
    /// The index of the bound name in the table of names.
    known: usize,
    pub(super) source: Source<'a>,
    /// The scope in which the source of the value is evaluated.
    pub(super) evaluated_in: ScopeId,
    /// The offset in the script at which the name becomes bound.
    bound_from: TextSize,
    /// The block that contains the binding. Code in the block after the binding runs only if the binding has run.
    block: TextRange,
    /// The outermost loop around the binding in the binding's scope. In a loop, code that comes later in the source may
    /// have run earlier, in a previous iteration.
    in_loop: Option<TextRange>,
}

/// A name in a scope.
#[derive(Debug, Default)]
pub(super) struct Symbol {
    pub(super) id: SymbolId,
    /// The bindings in the symbol's own scope, in source order.
    bindings: SmallVec<[BindingId; 1]>,
    /// The bindings in the symbol's own scope that are in loops.
    in_loops: SmallVec<[BindingId; 1]>,
    /// The bindings in the symbol's own scope that Python executes each time it enters a block, for example the target
    /// of a `for`.
    starting_blocks: SmallVec<[BindingId; 1]>,
    /// The bindings in other scopes that declare the name `global` or `nonlocal`.
    from_elsewhere: SmallVec<[BindingId; 1]>,
    /// The declaration of the name as `global` or `nonlocal`, if the name belongs to another scope.
    elsewhere: Option<Elsewhere>,
    /// The lowest offset from which a `del` may have removed the name.
    deleted_from: Option<TextSize>,
    /// True if a `del` of the name is in a loop.
    is_deleted_in_loop: bool,
    /// True if an `except` clause binds the name. Python removes the name at the end of the clause.
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
    /// A scope that is neither a function nor a class.
    #[default]
    Other,
    Class(&'a StmtClassDef),
    Function(&'a StmtFunctionDef),
    /// A `lambda`. The string is the name to which the script assigns the `lambda`, if it does so. The call either
    /// calls the `lambda` or receives it as an argument.
    Lambda(&'a ExprLambda, Option<&'a str>, Option<&'a ExprCall>),
}

impl<'a> Definition<'a> {
    /// Returns the name by which a function or class is called. For a `lambda`, this is the name to which the script
    /// assigns the `lambda`.
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

    /// Returns the names of the decorators of a function or class. For a decorator `a.b` or `a.b()`, this is `b`.
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

/// The uses of a name in a script, as a variable or as an attribute.
#[derive(Debug, Default)]
pub(super) struct Uses<'a> {
    /// The index of the name in the table of names.
    pub(super) id: usize,
    /// True if the script uses the name, and does not only bind it.
    is_used: bool,
    /// The scopes in which the name has a symbol, in ascending order, each with the symbol.
    symbols: SmallVec<[(ScopeId, SymbolId); 1]>,
    /// The number of times that the script reads the name.
    loads: usize,
    /// The number of uses of the name that create no alias of a container with this name. Such a use reads the
    /// container, or changes the container in place.
    reads: usize,
    /// The calls of a function with this name, each with its scope.
    pub(super) calls: SmallVec<[(ScopeId, &'a ExprCall); 1]>,
    /// The bindings of attributes with this name.
    pub(super) attribute: SmallVec<[BindingId; 1]>,
    /// The values that are put into containers with this name.
    pub(super) contents: SmallVec<[BindingId; 1]>,
}

impl Uses<'_> {
    fn symbol_in(&self, scope: ScopeId) -> Option<SymbolId> {
        let symbols = self.symbols.as_slice();
        let place = match symbols {
            [(only, _)] => usize::from(*only != scope),
            _ => symbols.partition_point(|(of, _)| *of < scope),
        };
        symbols.get(place).filter(|(of, _)| *of == scope).map(|(_, symbol)| *symbol)
    }

    /// Returns whether the script may change a container with this name through an alias.
    pub(super) fn is_aliased(&self) -> bool {
        self.loads > self.reads
    }

    /// Returns whether a function with this name may be called in other ways than by the name, because the script also
    /// uses the name as a value.
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
    /// The number of annotated names in the body of a class.
    fields: usize,
    parent: Option<ScopeId>,
    /// The number of scopes around this scope.
    depth: usize,
    /// The start of the outermost enclosing function, if there is one. The code in this scope runs only after Python
    /// has defined that function.
    deferred_from: Option<TextSize>,
}

/// The symbol table of a script.
#[derive(Debug, Default)]
pub(super) struct Symbols<'a> {
    scopes: Vec<Scope<'a>>,
    bindings: Vec<Binding<'a>>,
    named: Vec<Symbol>,
    /// The range of the whole script.
    range: TextRange,
    scope_of: HashMap<TextRange, ScopeId>,
    names: HashMap<&'a str, usize>,
    /// The uses of each name, by the index of the name.
    uses: Vec<Uses<'a>>,
    /// The offsets of the top-level statements that may call functions of the script, in order.
    running: Vec<TextSize>,
    pub(super) star_imports: StarImports<'a>,
    /// The attributes that the script itself defines: methods, class variables and assigned attributes.
    pub(super) own_attributes: HashSet<&'a str>,
    /// The attributes that the script assigns to any object, also to `self`.
    pub(super) assigned_attributes: HashSet<&'a str>,
    /// The names of keyword arguments that are also names of attributes that make other calls dangerous. A call with
    /// such a keyword may set the attribute.
    pub(super) keywords: HashSet<&'a str>,
    /// The exceptions that the script raises by a call, such as `raise E(…)`, each with its scope.
    pub(super) raised: Vec<(ScopeId, &'a ExprCall)>,
    /// The names that the script's imports bind.
    pub(super) imports: Vec<&'a str>,
    /// The topmost packages of all imports in the script.
    pub(super) imported: HashSet<&'a str>,
    /// True if names of the script may change in ways that the table does not show.
    pub(super) has_dynamic_names: bool,
    /// True if the script takes members by computed names. Such a script may call any method without naming the method
    /// in the source.
    pub(super) has_computed_members: bool,
    /// True if the script may set attributes by computed names.
    pub(super) has_dynamic_attributes: bool,
}

/// The modules from which the script imports all members with `*`.
#[derive(Debug, Default)]
pub(super) struct StarImports<'a> {
    /// The modules, each with its position in the order of the star imports.
    pub(super) modules: HashMap<&'a str, usize>,
    /// The first `STARS_MAX` star-imported modules for which one rule covers the calls of all members. Each module has
    /// the same position as in `modules`.
    pub(super) judged_whole: Vec<(usize, &'a str)>,
    /// The offset of the last star import in the script.
    pub(super) last: Option<TextSize>,
}

impl<'a> Symbols<'a> {
    pub(super) fn depth(&self, scope: ScopeId) -> usize {
        self.scopes[scope].depth
    }

    pub(super) fn bindings_len(&self) -> usize {
        self.bindings.len()
    }

    pub(super) fn symbols_len(&self) -> usize {
        self.named.len()
    }

    pub(super) fn scopes_len(&self) -> usize {
        self.scopes.len()
    }

    pub(super) fn names_len(&self) -> usize {
        self.uses.len()
    }

    pub(super) fn binding(&self, id: BindingId) -> &Binding<'a> {
        &self.bindings[id]
    }

    /// Returns whether the script imports a library with methods that evaluate strings.
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

    pub(super) fn parent(&self, scope: ScopeId) -> ScopeId {
        self.scopes[scope].parent.unwrap_or(MODULE)
    }

    /// Returns the class that directly contains a scope.
    pub(super) fn class_around(&self, scope: ScopeId) -> Option<ScopeId> {
        self.scopes[scope].parent.filter(|parent| self.scopes[*parent].kind == ScopeKind::Class)
    }

    /// Returns the values that a function returns or yields, and whether the function yields.
    pub(super) fn results(&self, scope: ScopeId) -> (&[BindingId], bool) {
        (&self.scopes[scope].results, self.scopes[scope].is_generator)
    }

    /// Returns the uses of the name that a binding binds.
    pub(super) fn uses_of(&self, binding: &Binding<'a>) -> &Uses<'a> {
        &self.uses[binding.known]
    }

    pub(super) fn uses(&self, name: &str) -> Option<&Uses<'a>> {
        self.known(name).filter(|uses| uses.is_used)
    }

    /// Returns whether the script binds this name in any scope.
    pub(super) fn is_bound(&self, name: &str) -> bool {
        self.known(name).is_some_and(|uses| !uses.symbols.is_empty())
    }

    /// Returns the names of the attributes that the script defines, in the order in which the names first occur.
    pub(super) fn attributes(&self) -> impl Iterator<Item = &'a str> {
        let all = self.uses.iter().filter_map(|uses| uses.attribute.first());
        all.map(|id| self.bindings[*id].name)
    }

    /// Returns the uses of a name, even if the script only binds it.
    pub(super) fn known(&self, name: &str) -> Option<&Uses<'a>> {
        self.names.get(name).map(|id| &self.uses[*id])
    }

    /// Returns the uses of the name in this expression, by the index that the builder stored in the expression.
    pub(super) fn known_here(&self, name: &ExprName) -> Option<&Uses<'a>> {
        let id = name.node_index.load().as_u32().and_then(|id| usize::try_from(id).ok());
        id.map_or_else(|| self.known(name.id.as_str()), |id| self.uses.get(id))
    }

    /// Looks a name up as Python does, from `scope` outwards, for a use at `offset`. Calls `found` for each scope that
    /// binds the name. The first argument of `found` is the symbol in that scope. The second argument is true if that
    /// scope is `scope` itself. Stops at the first scope in which the name is certainly bound. Returns whether such a
    /// scope exists.
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
        // The enclosing scopes of a scope have lower indexes. So the search ends below `outermost`, the lowest index of
        // a scope that has the name.
        while let Some(id) = next.filter(|id| id >= outermost) {
            let current = &self.scopes[id];
            next = current.parent;
            let Some(symbol) = uses.symbol_in(id) else { continue };
            // The names of a class are visible only in the body of the class. So the search from an inner scope skips
            // the class.
            if current.kind == ScopeKind::Class && id != scope {
                continue;
            }
            let symbol = &self.named[symbol];
            // At the top level, the statement `global` changes nothing.
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

    /// Returns whether the symbol of scope `owner` is certainly bound for a use in scope `user`.
    fn is_certain(&self, symbol: &Symbol, owner: ScopeId, user: ScopeId, offset: TextSize) -> bool {
        match self.scopes[owner].kind {
            // Python does not search outer scopes for an unbound local variable. So the search ends here, as if the
            // name were certainly bound.
            ScopeKind::Function | ScopeKind::Comprehension => return true,
            ScopeKind::Module | ScopeKind::Class => {}
        }
        let starts_block_around =
            |id: &BindingId| self.bindings[*id].block.contains_inclusive(offset);
        // A use in another scope may run after the `del`, regardless of its position in the source.
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
        // Only the first bindings are checked. If none of them has certainly run before the use, the name may be
        // unbound.
        symbol.bindings.iter().take(REACHING_MAX).any(|id| {
            let binding = &self.bindings[*id];
            if !binding.block.contains_inclusive(used_at) {
                return false;
            }
            binding.bound_from <= used_at
                // The name may also be bound after the function that uses it, if no statement in between can call a
                // function.
                || (deferred_from.is_some()
                    && binding.block == self.range
                    && !self.runs_between(used_at, binding.bound_from))
        })
    }

    /// Returns whether the binding `id` may have run before a use at `offset` in the same scope. `id` must be the only
    /// binding of its symbol.
    pub(super) fn reaches(&self, id: BindingId, offset: TextSize) -> bool {
        let binding = &self.bindings[id];
        // In a loop, a binding after the use may have run in an earlier iteration.
        binding.bound_from <= offset
            || binding.in_loop.is_some_and(|range| range.contains_inclusive(offset))
    }

    /// Returns the bindings of `symbol` that may supply the value of a use at `offset` in the same scope. Returns
    /// `None` if more than [`REACHING_MAX`] bindings may do so.
    pub(super) fn reaching(&self, symbol: &Symbol, offset: TextSize) -> Option<Reaching> {
        if symbol.from_elsewhere.len() > REACHING_MAX {
            return None;
        }
        let mut reaching: Reaching = SmallVec::from_slice(&symbol.from_elsewhere);
        let comes_before = |id: &BindingId| self.bindings[*id].bound_from <= offset;
        let before = symbol.bindings.partition_point(comes_before);
        for id in symbol.bindings[..before].iter().rev() {
            reaching.push(*id);
            // A binding that has certainly run before the use hides earlier bindings.
            if self.bindings[*id].block.contains_inclusive(offset) {
                break;
            }
            if reaching.len() > REACHING_MAX {
                return None;
            }
        }
        // In a loop, a binding after the use may have run in an earlier iteration.
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

    pub(super) fn first_bound(&self, symbol: &Symbol) -> Option<TextSize> {
        symbol.bindings.first().map(|id| self.bindings[*id].bound_from)
    }

    fn runs_between(&self, from: TextSize, to: TextSize) -> bool {
        let first = self.running.partition_point(|at| *at < from);
        self.running.get(first).is_some_and(|at| *at < to)
    }
}

/// Returns the name of a name expression, or the attribute name of an attribute expression.
pub(super) fn last_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => Some(attribute.attr.as_str()),
        _ => None,
    }
}

/// Returns the elements of a tuple or list in the source. Returns an empty slice for other expressions.
pub(super) fn elements(expr: &Expr) -> &[Expr] {
    if let Expr::Tuple(tuple) = expr {
        &tuple.elts
    } else if let Expr::List(list) = expr {
        &list.elts
    } else {
        &[]
    }
}

/// Splits a comprehension into its element expressions and its `for` clauses. For a dictionary, the expressions are the
/// key and the value. For other expressions, both parts are empty.
pub(super) fn comprehension(expr: &Expr) -> ([Option<&Expr>; 2], &[Comprehension]) {
    match expr {
        Expr::ListComp(comp) => ([Some(&comp.elt), None], &comp.generators),
        Expr::SetComp(comp) => ([Some(&comp.elt), None], &comp.generators),
        Expr::Generator(comp) => ([Some(&comp.elt), None], &comp.generators),
        Expr::DictComp(comp) => ([comp.key.as_deref(), Some(&comp.value)], &comp.generators),
        _ => ([None, None], &[]),
    }
}
