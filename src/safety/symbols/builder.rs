//! Builds the symbol table: one walk over the tree, with Python's rules of what binds where.

#![expect(
    clippy::indexing_slicing,
    reason = "scopes and bindings are named by their place in the table"
)]
#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use ruff_python_ast::visitor::Visitor as _;
use ruff_python_ast::{
    AnyParameterRef, Comprehension, Expr, Parameters, Stmt, StmtFunctionDef, TypeParams,
};
use ruff_text_size::{Ranged as _, TextRange, TextSize};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{
    Binding, BindingId, Elsewhere, MODULE, Scope, ScopeId, ScopeKind, Source, Symbol, Symbols,
    elements,
};

/// The symbol table of a script with this body.
pub(super) fn build(body: &[Stmt], range: TextRange) -> Symbols<'_> {
    let mut builder = Builder::new(range);
    for stmt in body {
        builder.symbols.running.extend(calls_from(stmt));
        builder.visit_stmt(stmt);
    }
    for (name, scope, id) in std::mem::take(&mut builder.nonlocal) {
        let owner = builder.enclosing_owner(name, scope);
        builder.symbol(owner, name).from_elsewhere.push(id);
    }
    builder.put_in_order();
    let mut symbols = builder.symbols;
    symbols.has_dynamic_names |= builder.namespace_uses > builder.namespace_reads;
    symbols
}

/// The place from which on a statement of the top level may call a function of the script.
fn calls_from(stmt: &Stmt) -> Option<TextSize> {
    match stmt {
        Stmt::FunctionDef(function) => {
            let parameters = function.parameters.iter_non_variadic_params();
            let mut defaults = parameters.filter_map(|parameter| parameter.default.as_deref());
            if !function.decorator_list.is_empty() {
                // A decorator may call the function before it has its name.
                return Some(function.name.start());
            }
            let annotations = function.parameters.iter().filter_map(AnyParameterRef::annotation);
            let mut annotations = annotations.chain(function.returns.as_deref());
            let is_plain = defaults.all(is_plain) && annotations.all(is_plain_type);
            (!is_plain).then_some(stmt.start())
        }
        Stmt::ClassDef(class) => {
            let is_plain = class.decorator_list.is_empty()
                // A base may look at its subclasses when they are made.
                && class.arguments.as_ref().is_none_or(|a| a.args.is_empty() && a.keywords.is_empty())
                && class.body.iter().all(|stmt| calls_from(stmt).is_none());
            (!is_plain).then_some(stmt.start())
        }
        Stmt::Assign(assign) => {
            let is_plain = assign.targets.iter().all(Expr::is_name_expr) && is_plain(&assign.value);
            (!is_plain).then_some(stmt.start())
        }
        Stmt::Expr(expr) if expr.value.is_literal_expr() => None,
        Stmt::Import(_) | Stmt::ImportFrom(_) | Stmt::Pass(_) | Stmt::Global(_) => None,
        _ => Some(stmt.start()),
    }
}

/// Whether evaluating an annotation calls nothing of the script.
fn is_plain_type(expr: &Expr) -> bool {
    const GENERIC: &[&str] = &[
        "Any",
        "Callable",
        "Dict",
        "Iterable",
        "Iterator",
        "List",
        "Literal",
        "Optional",
        "Sequence",
        "Set",
        "Tuple",
        "Union",
        "dict",
        "frozenset",
        "list",
        "set",
        "tuple",
        "type",
    ];
    match expr {
        Expr::Subscript(subscript) => {
            matches!(&*subscript.value, Expr::Name(name) if GENERIC.contains(&name.id.as_str()))
                && is_plain_type(&subscript.slice)
        }
        Expr::BinOp(either) => is_plain_type(&either.left) && is_plain_type(&either.right),
        Expr::Tuple(_) | Expr::List(_) => elements(expr).iter().all(is_plain_type),
        _ => is_plain(expr),
    }
}

/// Whether evaluating `expr` calls nothing of the script: names, literals, members of names, and
/// displays of these.
fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Name(_) => true,
        Expr::Attribute(attribute) => attribute.value.is_name_expr(),
        Expr::Tuple(_) | Expr::List(_) => elements(expr).iter().all(is_plain),
        Expr::Dict(dict) => dict.items.iter().all(|item| {
            item.key.as_ref().is_some_and(Expr::is_literal_expr) && is_plain(&item.value)
        }),
        _ => expr.is_literal_expr(),
    }
}

pub(super) struct Builder<'a> {
    pub(super) symbols: Symbols<'a>,
    pub(super) scope: ScopeId,
    pub(super) block: TextRange,
    /// The outermost loop around, in the current scope.
    pub(super) in_loop: Option<TextRange>,
    /// Whether what is bound now is bound each time that the block is entered.
    pub(super) starts_block: bool,
    /// The outermost comprehension, within one.
    comprehension: Option<TextRange>,
    /// Bindings of `nonlocal` names, whose owner may be seen only later.
    nonlocal: Vec<(&'a str, ScopeId, BindingId)>,
    /// How often `globals`, `locals` or `vars` are named …
    pub(super) namespace_uses: usize,
    /// … and how often that is followed by something that only reads.
    pub(super) namespace_reads: usize,
}

impl<'a> Builder<'a> {
    fn new(range: TextRange) -> Self {
        let module = Scope {
            kind: ScopeKind::Module,
            parent: None,
            deferred_from: None,
            names: FxHashMap::default(),
        };
        let symbols = Symbols {
            scopes: vec![module],
            bindings: Vec::new(),
            names_len: 0,
            range,
            scope_of: FxHashMap::default(),
            running: Vec::new(),
            star_imports: Vec::new(),
            own_attributes: FxHashSet::default(),
            imported: FxHashSet::default(),
            has_dynamic_names: false,
        };
        Self {
            symbols,
            scope: MODULE,
            block: range,
            in_loop: None,
            starts_block: false,
            comprehension: None,
            nonlocal: Vec::new(),
            namespace_uses: 0,
            namespace_reads: 0,
        }
    }

    pub(super) fn bind(
        &mut self,
        name: &'a str,
        source: Source<'a>,
        from: TextSize,
        evaluated_in: ScopeId,
    ) {
        let stands_in = self.scope;
        let elsewhere =
            self.symbols.scopes[stands_in].names.get(name).and_then(|symbol| symbol.elsewhere);
        let owner = if elsewhere.is_some() { MODULE } else { stands_in };
        if self.symbols.scopes[owner].kind == ScopeKind::Class {
            self.symbols.own_attributes.insert(name);
        }
        let id = self.symbols.bindings.len();
        self.symbols.bindings.push(Binding {
            source,
            evaluated_in,
            bound_from: from,
            block: self.block,
            in_loop: self.in_loop,
        });
        match elsewhere {
            None => {
                let starts_block = self.starts_block;
                let symbol = self.symbol(owner, name);
                symbol.bindings.push(id);
                if starts_block {
                    symbol.starting_blocks.push(id);
                }
            }
            Some(Elsewhere::Global) => self.symbol(owner, name).from_elsewhere.push(id),
            Some(Elsewhere::Nonlocal) => self.nonlocal.push((name, stands_in, id)),
        }
    }

    /// The symbol of a name in a scope, which is made if it is not there.
    pub(super) fn symbol(&mut self, scope: ScopeId, name: &'a str) -> &mut Symbol {
        let id = self.symbols.names_len;
        let entry = self.symbols.scopes[scope].names.entry(name);
        let symbol = entry.or_insert_with(|| Symbol {
            id,
            bindings: SmallVec::new(),
            in_loops: SmallVec::new(),
            starting_blocks: SmallVec::new(),
            from_elsewhere: SmallVec::new(),
            elsewhere: None,
            deleted_from: None,
            is_deleted_in_loop: false,
            ends_with_handler: false,
        });
        self.symbols.names_len += usize::from(symbol.id == id);
        symbol
    }

    /// Puts the bindings of each symbol into source order.
    fn put_in_order(&mut self) {
        let Symbols { scopes, bindings, .. } = &mut self.symbols;
        for symbol in scopes.iter_mut().flat_map(|scope| scope.names.values_mut()) {
            symbol.bindings.sort_by_key(|id| bindings[*id].bound_from);
            let in_loops = symbol.bindings.iter().copied();
            symbol.in_loops = in_loops.filter(|id| bindings[*id].in_loop.is_some()).collect();
        }
    }

    /// The function around `scope` that binds `name`.
    fn enclosing_owner(&self, name: &str, scope: ScopeId) -> ScopeId {
        let mut next = self.symbols.scopes[scope].parent;
        while let Some(id) = next {
            let current = &self.symbols.scopes[id];
            if current.kind == ScopeKind::Function
                && current.names.get(name).is_some_and(|symbol| symbol.elsewhere.is_none())
            {
                return id;
            }
            next = current.parent;
        }
        MODULE
    }

    /// Binds the names of an assignment's target.
    pub(super) fn bind_target(&mut self, target: &'a Expr, source: Source<'a>, from: TextSize) {
        match target {
            Expr::Name(name) => self.bind(name.id.as_str(), source, from, self.scope),
            Expr::Tuple(_) | Expr::List(_) => {
                let elements = elements(target);
                let has_star = elements.iter().any(Expr::is_starred_expr);
                for (index, element) in elements.iter().enumerate() {
                    let part = match source {
                        _ if has_star => Source::Unknown,
                        Source::Value(value) => match self::elements(value) {
                            literal
                                if literal.len() == elements.len()
                                    && !literal.iter().any(Expr::is_starred_expr) =>
                            {
                                Source::Value(&literal[index])
                            }
                            _ => Source::Item(value, index),
                        },
                        _ => Source::Unknown,
                    };
                    self.bind_target(element, part, from);
                }
            }
            Expr::Starred(starred) => self.bind_target(&starred.value, Source::Unknown, from),
            Expr::Attribute(attribute) => {
                self.symbols.own_attributes.insert(attribute.attr.as_str());
            }
            _ => {}
        }
    }

    /// Opens a scope, does `work` in it, and closes it.
    pub(super) fn in_scope(
        &mut self,
        kind: ScopeKind,
        range: TextRange,
        work: impl FnOnce(&mut Self),
    ) {
        let parent = &self.symbols.scopes[self.scope];
        let deferred_from =
            parent.deferred_from.or((kind == ScopeKind::Function).then_some(range.start()));
        let scope =
            Scope { kind, parent: Some(self.scope), deferred_from, names: FxHashMap::default() };
        let id = self.symbols.scopes.len();
        self.symbols.scopes.push(scope);
        self.symbols.scope_of.insert(range, id);
        let (outer_scope, outer_block) = (self.scope, self.block);
        let outer_loop = self.in_loop;
        self.scope = id;
        self.block = range;
        self.in_loop = (kind == ScopeKind::Comprehension).then_some(range);
        work(self);
        self.scope = outer_scope;
        self.block = outer_block;
        self.in_loop = outer_loop;
    }

    pub(super) fn bind_parameters(
        &mut self,
        parameters: &'a Parameters,
        of: Option<&'a StmtFunctionDef>,
        outer: ScopeId,
    ) {
        for parameter in parameters {
            let source = match parameter {
                AnyParameterRef::Variadic(_) => Source::Unknown,
                AnyParameterRef::NonVariadic(_) => Source::Parameter(parameter.default(), of),
            };
            self.bind(parameter.name().as_str(), source, parameters.start(), outer);
        }
    }

    pub(super) fn bind_type_params(&mut self, type_params: Option<&'a TypeParams>) {
        for type_param in type_params.iter().flat_map(|params| params.iter()) {
            let name = type_param.name().as_str();
            self.bind(name, Source::Unknown, type_param.start(), self.scope);
        }
        if let Some(type_params) = type_params {
            self.visit_type_params(type_params);
        }
    }

    pub(super) fn comprehension(
        &mut self,
        expr: &'a Expr,
        parts: [Option<&'a Expr>; 2],
        generators: &'a [Comprehension],
    ) {
        let outer = self.scope;
        if let Some(first) = generators.first() {
            self.visit_expr(&first.iter);
        }
        let around = self.comprehension;
        self.comprehension = around.or(Some(expr.range()));
        self.in_scope(ScopeKind::Comprehension, expr.range(), |this| {
            for (index, generator) in generators.iter().enumerate() {
                let evaluated_in = if index == 0 { outer } else { this.scope };
                match &generator.target {
                    Expr::Name(name) => this.bind(
                        name.id.as_str(),
                        Source::Element(&generator.iter),
                        generator.start(),
                        evaluated_in,
                    ),
                    target => this.bind_target(target, Source::Unknown, generator.start()),
                }
                this.visit_expr(&generator.target);
                if index > 0 {
                    this.visit_expr(&generator.iter);
                }
                for condition in &generator.ifs {
                    this.visit_expr(condition);
                }
            }
            for part in parts.into_iter().flatten() {
                this.visit_expr(part);
            }
        });
        self.comprehension = around;
    }

    /// A walrus in a comprehension binds outside of it.
    pub(super) fn bind_walrus(&mut self, target: &'a Expr, value: &'a Expr, from: TextSize) {
        let inner = self.scope;
        while self.symbols.scopes[self.scope].kind == ScopeKind::Comprehension {
            let Some(parent) = self.symbols.scopes[self.scope].parent else { break };
            self.scope = parent;
        }
        if let Expr::Name(name) = target {
            // A comprehension may run for no element, and in it the conditions come before what
            // stands before them.
            let outer = self.block;
            let mut from = from;
            if let Some(comprehension) = self.comprehension {
                self.block = comprehension;
                from = comprehension.start();
            }
            self.bind(name.id.as_str(), Source::Value(value), from, inner);
            self.block = outer;
        }
        self.scope = inner;
    }
}
