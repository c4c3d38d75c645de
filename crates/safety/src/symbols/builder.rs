//! Builds the symbol table in one walk over the tree, by Python's binding rules.

#![expect(
    clippy::indexing_slicing,
    reason = "scopes and bindings are named by their place in the table"
)]
#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use foldhash::{HashMap, HashMapExt as _};
use std::collections::hash_map::Entry;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    AnyParameterRef, ElifElseClause, ExceptHandler, Expr, ExprCall, ExprContext, Identifier,
    Keyword, MatchCase, ModModule, NodeIndex, Parameters, Pattern, Stmt, TypeParams,
};
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use crate::knowledge::index::INDEX;
use crate::knowledge::stdlib;
use crate::knowledge::top;

use super::{
    Binding, BindingId, Definition, Elsewhere, MODULE, Scope, ScopeId, ScopeKind, Source, Symbol,
    Symbols, Uses, comprehension, elements, last_name,
};

/// The estimated number of bytes of source for each distinct name in a short source. The estimate determines the
/// initial capacity of the symbol table.
const BYTES_OF_NAME: usize = 12;
/// The number of distinct names up to which a source counts as short.
const NAMES_MIN: usize = 56;
/// The estimated number of bytes of source for each distinct name in a longer source.
const BYTES_OF_NAME_LONG: usize = 64;
/// The maximum number of modules in `StarImports::judged_whole`.
const STARS_MAX: usize = 4;
/// Builds the symbol table of a script.
pub(crate) fn build(module: &ModModule) -> Symbols<'_> {
    let range = module.range();
    let bytes = range.len().to_usize();
    let names = (bytes / BYTES_OF_NAME).min(NAMES_MIN).max(bytes / BYTES_OF_NAME_LONG);
    let symbols = Symbols {
        scopes: vec![Scope::default()],
        range,
        names: HashMap::with_capacity(names),
        uses: Vec::with_capacity(names),
        named: Vec::with_capacity(names),
        bindings: Vec::with_capacity(2 * names),
        ..Symbols::default()
    };
    let mut builder = Builder { symbols, block: range, ..Builder::default() };
    for stmt in &module.body {
        builder.symbols.running.extend(calls_from(stmt));
        builder.visit_stmt(stmt);
    }
    let mut owners = HashMap::default();
    for (name, scope, id) in std::mem::take(&mut builder.nonlocal) {
        let owner =
            *owners.entry((name, scope)).or_insert_with(|| builder.enclosing_owner(name, scope));
        builder.symbol(owner, name).from_elsewhere.push(id);
    }
    builder.put_in_order();
    let mut symbols = builder.symbols;
    symbols.has_dynamic_names |= builder.namespace_uses > builder.namespace_reads;
    symbols
}

#[derive(Default)]
struct Builder<'a> {
    symbols: Symbols<'a>,
    scope: ScopeId,
    block: TextRange,
    /// The outermost loop around the visited node, within the current scope.
    in_loop: Option<TextRange>,
    /// True while the visitor creates bindings that Python executes each time it enters the block. An example is the
    /// target of a `for`.
    starts_block: bool,
    /// The outermost comprehension around the visited node.
    comprehension: Option<TextRange>,
    /// The innermost scope around the visited node that is not a comprehension.
    outside_comprehensions: ScopeId,
    /// The value of the visited assignment, and the name to which the value is assigned.
    given_name: Option<(&'a Expr, &'a str)>,
    /// The call that contains the visited expression as its function or as an argument.
    passed_to: Option<&'a ExprCall>,
    /// The subject of the current `match`.
    matched: Option<&'a Expr>,
    /// The bindings of `nonlocal` names, each with its scope. They are resolved at the end of the walk, because the
    /// enclosing function may bind the name later in the source.
    nonlocal: Vec<(&'a str, ScopeId, BindingId)>,
    /// The number of times that the source names `globals` or `locals`, or calls `vars()`.
    namespace_uses: usize,
    /// The number of uses of `globals`, `locals` or `vars` that only read the namespace.
    namespace_reads: usize,
}

impl<'a> Visitor<'a> for Builder<'a> {
    fn visit_body(&mut self, body: &'a [Stmt]) {
        let (Some(first), Some(last)) = (body.first(), body.last()) else { return };
        self.in_block(TextRange::new(first.start(), last.end()), |this| {
            visitor::walk_body(this, body);
        });
    }

    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(function) => {
                let source = Source::Definition(stmt.range());
                self.bind(function.name.as_str(), source, stmt.end(), self.scope);
                for decorator in &function.decorator_list {
                    self.visit_decorator(decorator);
                }
                self.visit_parameters(&function.parameters);
                if let Some(annotation) = &function.returns {
                    self.visit_annotation(annotation);
                }
                let outer = self.scope;
                let definition = Definition::Function(function);
                self.in_scope(ScopeKind::Function, definition, stmt.range(), |this| {
                    this.bind_parameters(&function.parameters, outer);
                    this.bind_type_params(function.type_params.as_deref());
                    visitor::walk_body(this, &function.body);
                });
            }
            Stmt::ClassDef(class) => {
                let source = Source::Definition(stmt.range());
                self.bind(class.name.as_str(), source, stmt.end(), self.scope);
                for decorator in &class.decorator_list {
                    self.visit_decorator(decorator);
                }
                if let Some(arguments) = &class.arguments {
                    self.visit_arguments(arguments);
                }
                let definition = Definition::Class(class);
                self.in_scope(ScopeKind::Class, definition, stmt.range(), |this| {
                    this.bind_type_params(class.type_params.as_deref());
                    visitor::walk_body(this, &class.body);
                });
            }
            Stmt::TypeAlias(alias) => {
                self.bind_target(&alias.name, Source::Unknown, stmt.end());
                // Python computes the value of a type alias only when the script reads the alias. So the value is
                // treated like the body of a function.
                self.in_scope(ScopeKind::Function, Definition::Other, stmt.range(), |this| {
                    this.bind_type_params(alias.type_params.as_deref());
                    this.visit_expr(&alias.value);
                });
            }
            Stmt::Import(_) | Stmt::ImportFrom(_) => self.import(stmt),
            Stmt::Global(global) => self.declare(&global.names, Elsewhere::Global),
            Stmt::Nonlocal(nonlocal) => self.declare(&nonlocal.names, Elsewhere::Nonlocal),
            Stmt::For(_) | Stmt::While(_) => {
                let outer = self.in_loop;
                self.in_loop = outer.or(Some(repeated(stmt)));
                self.bind_targets_of(stmt);
                visitor::walk_stmt(self, stmt);
                self.in_loop = outer;
            }
            Stmt::Match(matching) => {
                let outer = self.matched.replace(&matching.subject);
                visitor::walk_stmt(self, stmt);
                self.matched = outer;
            }
            Stmt::Assert(assert) => {
                self.visit_part(&assert.test, false);
                if let Some(message) = &assert.msg {
                    self.visit_part(message, false);
                }
            }
            _ => {
                self.bind_targets_of(stmt);
                visitor::walk_stmt(self, stmt);
            }
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Lambda(lambda) => {
                if let Some(parameters) = &lambda.parameters {
                    self.visit_parameters(parameters);
                }
                let outer = self.scope;
                let name = self.given_name.filter(|(given, _)| std::ptr::eq(*given, expr));
                let name = name.map(|(_, name)| name);
                let definition = Definition::Lambda(lambda, name, self.passed_to);
                self.in_scope(ScopeKind::Function, definition, expr.range(), |this| {
                    if let Some(parameters) = &lambda.parameters {
                        this.bind_parameters(parameters, outer);
                    }
                    this.bind_result(Source::Value(&lambda.body), false);
                    this.visit_expr(&lambda.body);
                });
            }
            Expr::ListComp(_) | Expr::SetComp(_) | Expr::Generator(_) | Expr::DictComp(_) => {
                self.comprehension(expr);
            }
            Expr::BoolOp(bool_op) => {
                for (index, operand) in bool_op.values.iter().enumerate() {
                    self.visit_part(operand, index == 0);
                }
            }
            Expr::If(if_expr) => {
                self.visit_part(&if_expr.test, true);
                self.visit_part(&if_expr.body, false);
                self.visit_part(&if_expr.orelse, false);
            }
            Expr::Compare(compare) => {
                self.visit_part(&compare.left, true);
                for (index, comparator) in compare.comparators.iter().enumerate() {
                    self.visit_part(comparator, index == 0);
                }
                for comparator in &compare.comparators {
                    self.count_read(comparator);
                }
            }
            Expr::Yield(_) | Expr::YieldFrom(_) => {
                match expr {
                    Expr::Yield(yielded) => {
                        if let Some(value) = &yielded.value {
                            self.bind_result(Source::Value(value), true);
                        }
                    }
                    Expr::YieldFrom(from) => self.bind_result(Source::Element(&from.value), true),
                    _ => {}
                }
                visitor::walk_expr(self, expr);
            }
            Expr::Named(named) => {
                self.bind_walrus(&named.target, &named.value, expr.end());
                visitor::walk_expr(self, expr);
            }
            _ => {
                self.count_use(expr);
                let outer = std::mem::replace(&mut self.passed_to, expr.as_call_expr());
                visitor::walk_expr(self, expr);
                self.passed_to = outer;
            }
        }
    }

    fn visit_keyword(&mut self, keyword: &'a Keyword) {
        if let Some(name) = &keyword.arg
            && INDEX.settable(name).is_some()
        {
            self.symbols.keywords.insert(name.as_str());
        }
        visitor::walk_keyword(self, keyword);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(except) = handler;
        if let Some(name) = &except.name {
            let range = TextRange::new(name.end(), handler.end());
            self.at_start_of(range, |this| {
                this.bind(name.as_str(), Source::Caught, range.start(), this.scope);
            });
            // Python removes the bound name at the end of the handler.
            self.symbol(self.scope, name.as_str()).ends_with_handler = true;
        }
        if let Some(kind) = &except.type_ {
            self.visit_part(kind, false);
        }
        self.visit_body(&except.body);
    }

    fn visit_elif_else_clause(&mut self, clause: &'a ElifElseClause) {
        if let Some(test) = &clause.test {
            self.visit_part(test, false);
        }
        self.visit_body(&clause.body);
    }

    fn visit_match_case(&mut self, case: &'a MatchCase) {
        self.at_start_of(TextRange::new(case.pattern.start(), case.end()), |this| {
            this.visit_pattern(&case.pattern);
        });
        if let Some(guard) = &case.guard {
            self.visit_part(guard, false);
        }
        self.visit_body(&case.body);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let source = self.matched.map_or(Source::Unknown, Source::Within);
        let captured = match pattern {
            Pattern::MatchAs(capture) => capture.name.as_ref(),
            Pattern::MatchStar(star) => star.name.as_ref(),
            Pattern::MatchMapping(mapping) => mapping.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = captured {
            self.bind(name.as_str(), source, pattern.start(), self.scope);
        }
        visitor::walk_pattern(self, pattern);
    }
}

impl<'a> Builder<'a> {
    fn import(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let module = alias.name.as_str();
                    self.symbols.imported.insert(top(module));
                    // `import a.b` binds only the name `a`.
                    let (name, source) = match &alias.asname {
                        Some(asname) => (asname.as_str(), module),
                        None => (top(module), top(module)),
                    };
                    self.symbols.has_dynamic_names |= module == "__main__";
                    self.symbols.imports.push(name);
                    self.bind(name, Source::Import(source), stmt.end(), self.scope);
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                let is_relative = import.level > 0;
                self.symbols.imported.insert(top(module));
                for alias in &import.names {
                    let member = alias.name.as_str();
                    if member == "*" {
                        self.star_import(module, stmt.start());
                        continue;
                    }
                    let name = alias.asname.as_ref().map_or(member, |asname| asname.as_str());
                    // Record the member's own name as used, because the script may use the member under another name.
                    self.uses(member);
                    let source =
                        if is_relative { Source::Unknown } else { Source::Member(module, member) };
                    self.symbols.imports.push(name);
                    self.bind(name, source, stmt.end(), self.scope);
                }
            }
            _ => {}
        }
    }

    fn star_import(&mut self, module: &'a str, at: TextSize) {
        let stars = &mut self.symbols.star_imports;
        stars.last = stars.last.max(Some(at));
        let place = stars.modules.len();
        let Entry::Vacant(entry) = stars.modules.entry(module) else { return };
        entry.insert(place);
        if stars.judged_whole.len() < STARS_MAX && INDEX.judges_calls_of(top(module)) {
            stars.judged_whole.push((place, module));
        }
        // Also add the library's topmost module, because the rules judge a member of any module of a library like a
        // member of the topmost module.
        if !stdlib::contains(module) {
            stars.modules.entry(top(module)).or_insert(place);
        }
    }

    fn declare(&mut self, names: &'a [Identifier], elsewhere: Elsewhere) {
        for name in names {
            self.symbol(self.scope, name.as_str()).elsewhere = Some(elsewhere);
        }
    }

    /// Binds the names that a simple statement, or the head of a compound statement, binds.
    fn bind_targets_of(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Return(returned) => {
                if let Some(value) = &returned.value {
                    self.bind_result(Source::Value(value), false);
                }
            }
            Stmt::Assign(assign) => {
                if let [target] = assign.targets.as_slice() {
                    self.given_name = last_name(target).map(|name| (&*assign.value, name));
                }
                for target in &assign.targets {
                    self.bind_target(target, Source::Value(&assign.value), stmt.end());
                }
            }
            Stmt::AnnAssign(assign) => {
                let scope = &mut self.symbols.scopes[self.scope];
                if let (ScopeKind::Class, Expr::Name(name)) = (scope.kind, &*assign.target) {
                    let source = Source::Field(self.scope, scope.fields);
                    scope.fields += 1;
                    let name = name.id.as_str();
                    self.bind_attribute(name, source, stmt.end(), self.scope);
                }
                if let Some(value) = &assign.value {
                    self.bind_target(&assign.target, Source::Value(value), stmt.end());
                } else if self.symbols.scopes[self.scope].kind == ScopeKind::Class {
                    // An annotation without a value binds nothing, but a data class turns the annotated name into an
                    // attribute.
                    if let Expr::Name(name) = &*assign.target {
                        self.symbols.own_attributes.insert(name.id.as_str());
                    }
                } else if self.symbols.scopes[self.scope].kind == ScopeKind::Function {
                    // An annotation without a value makes the name local without binding it.
                    self.bind_target(&assign.target, Source::Unknown, stmt.end());
                }
            }
            Stmt::AugAssign(assign) => {
                self.bind_target(&assign.target, Source::Augmented(assign), stmt.end());
            }
            Stmt::For(for_stmt) => {
                self.count_read(&for_stmt.iter);
                let source = Source::Element(&for_stmt.iter);
                self.bind_in_body(&for_stmt.target, source, &for_stmt.body);
            }
            Stmt::With(with) => {
                for item in &with.items {
                    if let Some(target) = &item.optional_vars {
                        let source = Source::Entered(&item.context_expr);
                        self.bind_in_body(target, source, &with.body);
                    }
                }
            }
            Stmt::Raise(raised) => {
                if let Some(Expr::Call(call)) = raised.exc.as_deref() {
                    self.symbols.raised.push((self.scope, call));
                }
            }
            Stmt::Delete(delete) => {
                for target in &delete.targets {
                    self.delete(target);
                }
            }
            _ => {}
        }
    }

    /// Binds the targets of `for` and `with`, which Python binds again each time it enters the body.
    fn bind_in_body(&mut self, target: &'a Expr, source: Source<'a>, body: &'a [Stmt]) {
        let (Some(first), Some(last)) = (body.first(), body.last()) else { return };
        self.at_start_of(TextRange::new(first.start(), last.end()), |this| {
            this.bind_target(target, source, first.start());
        });
    }

    /// Runs `work`, which creates bindings. Python executes these bindings each time it enters `block`.
    fn at_start_of(&mut self, block: TextRange, work: impl FnOnce(&mut Self)) {
        self.in_block(block, |this| {
            this.starts_block = true;
            work(this);
            this.starts_block = false;
        });
    }

    /// Visits a part of an expression. If `always_runs` is false, Python may skip the part, so the names that the part
    /// binds may be unbound afterwards.
    fn visit_part(&mut self, part: &'a Expr, always_runs: bool) {
        let block = if always_runs { self.block } else { part.range() };
        self.in_block(block, |this| this.visit_expr(part));
    }

    fn delete_name(&mut self, name: &'a str, at: TextSize) {
        let is_in_loop = self.in_loop.is_some();
        let symbol = self.symbol(self.scope, name);
        symbol.deleted_from = Some(symbol.deleted_from.map_or(at, |first| first.min(at)));
        symbol.is_deleted_in_loop |= is_in_loop;
        if matches!(symbol.elsewhere, Some(Elsewhere::Global)) {
            // The function that contains the `del` may be called at any time, so the global name may be missing from
            // the start.
            self.symbol(MODULE, name).deleted_from = Some(TextSize::default());
        }
    }

    fn delete(&mut self, target: &'a Expr) {
        match target {
            Expr::Name(name) => self.delete_name(name.id.as_str(), name.start()),
            Expr::Tuple(_) | Expr::List(_) => {
                for element in elements(target) {
                    self.delete(element);
                }
            }
            _ => {}
        }
    }

    fn bind(&mut self, name: &'a str, source: Source<'a>, from: TextSize, evaluated_in: ScopeId) {
        let stands_in = self.scope;
        let known = self.name(name);
        let symbol = self.symbols.uses[known].symbol_in(stands_in);
        let elsewhere = symbol.and_then(|symbol| self.symbols.named[symbol].elsewhere);
        let owner = if elsewhere.is_some() { MODULE } else { stands_in };
        let id = self.new_binding((name, known), source, from, evaluated_in);
        if self.symbols.scopes[owner].kind == ScopeKind::Class {
            self.symbols.own_attributes.insert(name);
            self.uses(name).attribute.push(id);
        }
        match elsewhere {
            None => {
                let starts_block = self.starts_block;
                let symbol = self.symbol_of(owner, known);
                symbol.bindings.push(id);
                if starts_block {
                    symbol.starting_blocks.push(id);
                }
            }
            Some(Elsewhere::Global) => self.symbol_of(owner, known).from_elsewhere.push(id),
            Some(Elsewhere::Nonlocal) => self.nonlocal.push((name, stands_in, id)),
        }
    }

    fn new_binding(
        &mut self,
        (name, known): (&'a str, usize),
        source: Source<'a>,
        bound_from: TextSize,
        evaluated_in: ScopeId,
    ) -> BindingId {
        let (block, in_loop) = (self.block, self.in_loop);
        let binding = Binding { name, known, source, evaluated_in, bound_from, block, in_loop };
        self.symbols.bindings.push(binding);
        self.symbols.bindings.len() - 1
    }

    fn bind_attribute(
        &mut self,
        name: &'a str,
        source: Source<'a>,
        from: TextSize,
        evaluated_in: ScopeId,
    ) {
        let known = self.uses(name).id;
        let id = self.new_binding((name, known), source, from, evaluated_in);
        self.symbols.uses[known].attribute.push(id);
    }

    fn uses(&mut self, name: &'a str) -> &mut Uses<'a> {
        let id = self.name(name);
        let uses = &mut self.symbols.uses[id];
        uses.is_used = true;
        uses
    }

    /// Returns the index of a name, adding the name if it is new.
    fn name(&mut self, name: &'a str) -> usize {
        let Symbols { names, uses, .. } = &mut self.symbols;
        *names.entry(name).or_insert_with(|| {
            uses.push(Uses { id: uses.len(), ..Uses::default() });
            uses.len() - 1
        })
    }

    /// Adds a returned or yielded value to the results of the enclosing function.
    fn bind_result(&mut self, source: Source<'a>, is_yielded: bool) {
        let id = self.new_binding(("", 0), source, TextSize::default(), self.scope);
        let function = &mut self.symbols.scopes[self.outside_comprehensions];
        // The caller of a generator function receives the yielded values and not the returned value, so earlier results
        // are dropped.
        if is_yielded && !function.is_generator {
            function.is_generator = true;
            function.results.clear();
        }
        if is_yielded == function.is_generator {
            function.results.push(id);
        }
    }

    /// Binds a value that the script puts into the container named by `holder`.
    fn put_into(&mut self, holder: &'a Expr, source: Source<'a>) {
        if let Some(name) = last_name(holder) {
            let known = self.uses(name).id;
            let id = self.new_binding((name, known), source, TextSize::default(), self.scope);
            self.symbols.uses[known].contents.push(id);
        }
    }

    /// Counts a use that only reads a container or the script's own namespace. If the namespace is used in any other
    /// way, names may have values that the symbol table does not show.
    fn count_read(&mut self, expr: &'a Expr) {
        self.namespace_reads += usize::from(is_namespace(expr));
        self.count_seen(expr);
    }

    /// Counts a use of a container that creates no alias of the container. The analysis does not follow changes through
    /// an alias.
    fn count_seen(&mut self, expr: &'a Expr) {
        if let Some(name) = last_name(expr) {
            self.uses(name).reads += 1;
        }
    }

    /// Counts a use of a name, an attribute or a container. Also records calls.
    fn count_use(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                let uses = self.uses(name.id.as_str());
                uses.loads += 1;
                if let Ok(id) = u32::try_from(uses.id) {
                    name.node_index.set(NodeIndex::from(id));
                }
                let is_namespace = matches!(name.id.as_str(), "globals" | "locals");
                self.namespace_uses += usize::from(is_namespace);
            }
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                self.symbols.has_dynamic_names |= name == "modules";
                if attribute.ctx == ExprContext::Load {
                    self.uses(name).loads += 1;
                }
                // These methods only read the container.
                if matches!(name, "get" | "items" | "keys" | "values" | "copy" | "index" | "count")
                {
                    self.count_read(&attribute.value);
                }
            }
            Expr::Subscript(subscript) if subscript.ctx == ExprContext::Load => {
                self.count_read(&subscript.value);
            }
            Expr::Call(call) => {
                // Only a call of `vars` without arguments returns the script's own namespace. With an argument, `vars`
                // returns the namespace of another object.
                let is_vars = is_name(&call.func, &["vars"]) && is_namespace(expr);
                self.namespace_uses += usize::from(is_vars);
                self.count_call(call);
            }
            _ => {}
        }
    }

    fn count_call(&mut self, call: &'a ExprCall) {
        let name = last_name(&call.func).unwrap_or_default();
        let scope = self.scope;
        self.uses(name).calls.push((scope, call));
        let arguments = call.arguments.args.iter();
        // These functions only read the containers in their arguments.
        #[rustfmt::skip]
        let only_reads = matches!(name,
            "all" | "any" | "dict" | "enumerate" | "len" | "list" | "max" | "min" | "print"
            | "reversed" | "set" | "sorted" | "str" | "sum" | "tuple" | "zip");
        if only_reads && call.func.is_name_expr() {
            arguments.for_each(|argument| self.count_read(argument));
            return;
        }
        match name {
            "join" if matches!(&*call.func, Expr::Attribute(of) if of.value.is_string_literal_expr()) =>
            {
                arguments.for_each(|argument| self.count_read(argument));
                return;
            }
            // The engine judges the code that these functions run. So a namespace in a keyword argument, as in
            // `globals=globals()`, is recorded as only read.
            "Timer" | "repeat" | "timeit" => {
                call.arguments.keywords.iter().for_each(|keyword| self.count_read(&keyword.value));
            }
            // A call of an import function counts as an import.
            "__import__" | "import_module" => {
                if let Some(Expr::StringLiteral(module)) = call.arguments.args.first() {
                    self.symbols.imported.insert(top(module.value.to_str()));
                }
            }
            _ => {}
        }
        // These functions take or set attributes by name.
        #[rustfmt::skip]
        let takes_members = matches!(name,
            "__getattribute__" | "__setattr__" | "attrgetter" | "get_field" | "getattr"
            | "methodcaller" | "reduce" | "setattr" | "vars");
        if name == "setattr"
            && let [_, Expr::StringLiteral(attribute), value] = &*call.arguments.args
        {
            let attribute = attribute.value.to_str();
            self.bind_attribute(attribute, Source::Value(value), TextSize::default(), scope);
        } else if takes_members {
            let names = call.arguments.args.iter().skip(usize::from(name == "getattr"));
            let is_known = names.take(1).all(Expr::is_string_literal_expr);
            self.symbols.has_computed_members |= !is_known;
            self.symbols.has_dynamic_attributes |=
                matches!(name, "setattr" | "__setattr__" | "vars");
        }
        let Expr::Attribute(method) = &*call.func else { return };
        let keywords = call.arguments.keywords.iter().map(|keyword| &keyword.value);
        // True for methods that put each argument into a container. Other methods, such as `extend`, put the elements
        // of each argument into a container.
        let is_putting = match name {
            "append" | "appendleft" | "add" | "insert" | "setdefault" | "put" | "set_result" => {
                true
            }
            // The method `set` of a context variable stores its argument. Other classes have a method `set` too, so the
            // method is recognized only if the script imports `contextvars`.
            "set" => self.symbols.imported.contains("contextvars") && arguments.len() == 1,
            _ => false,
        };
        if is_putting || matches!(name, "extend" | "update" | "extendleft") {
            for argument in arguments {
                let put =
                    if is_putting { Source::Value(argument) } else { Source::Within(argument) };
                self.put_into(&method.value, put);
            }
            keywords.for_each(|value| self.put_into(&method.value, Source::Value(value)));
            self.count_seen(&method.value);
        }
    }

    /// Returns the symbol of a name in a scope. Creates a missing symbol.
    fn symbol(&mut self, scope: ScopeId, name: &'a str) -> &mut Symbol {
        let name = self.name(name);
        self.symbol_of(scope, name)
    }

    fn symbol_of(&mut self, scope: ScopeId, name: usize) -> &mut Symbol {
        let Symbols { named, uses, .. } = &mut self.symbols;
        let uses = &mut uses[name];
        let id = uses.symbol_in(scope).unwrap_or_else(|| {
            let id = named.len();
            named.push(Symbol { id, ..Symbol::default() });
            let place = uses.symbols.partition_point(|(of, _)| *of < scope);
            uses.symbols.insert(place, (scope, id));
            id
        });
        &mut named[id]
    }

    /// Sorts the bindings of each symbol into source order.
    fn put_in_order(&mut self) {
        let Symbols { named, bindings, .. } = &mut self.symbols;
        for symbol in named {
            symbol.bindings.sort_by_key(|id| bindings[*id].bound_from);
            let in_loops = symbol.bindings.iter().copied();
            symbol.in_loops = in_loops.filter(|id| bindings[*id].in_loop.is_some()).collect();
        }
    }

    /// Finds the function around `scope` that binds the `nonlocal` name `name`.
    fn enclosing_owner(&self, name: &str, scope: ScopeId) -> ScopeId {
        let Symbols { scopes, named, names, uses, .. } = &self.symbols;
        let Some(uses) = names.get(name).map(|id| &uses[*id]) else { return MODULE };
        let mut next = scopes[scope].parent;
        while let Some(id) = next {
            let current = &scopes[id];
            if current.kind == ScopeKind::Function
                && uses.symbol_in(id).is_some_and(|symbol| named[symbol].elsewhere.is_none())
            {
                return id;
            }
            next = current.parent;
        }
        MODULE
    }

    fn bind_target(&mut self, target: &'a Expr, source: Source<'a>, from: TextSize) {
        self.bind_target_in(target, source, from, self.scope);
    }

    /// Binds the names of a target. The value is evaluated in the scope `evaluated_in`.
    fn bind_target_in(
        &mut self,
        target: &'a Expr,
        source: Source<'a>,
        from: TextSize,
        evaluated_in: ScopeId,
    ) {
        match target {
            Expr::Name(name) => self.bind(name.id.as_str(), source, from, evaluated_in),
            Expr::Tuple(_) | Expr::List(_) => {
                let elements = elements(target);
                let is_plain = |parts: &[Expr]| !parts.iter().any(Expr::is_starred_expr);
                let has_star = !is_plain(elements);
                let literal = match source {
                    Source::Value(value) if !has_star => self::elements(value),
                    _ => &[],
                };
                let is_taken_apart = literal.len() == elements.len() && is_plain(literal);
                for (index, element) in elements.iter().enumerate() {
                    let part = match source {
                        Source::Value(_) if is_taken_apart => Source::Value(&literal[index]),
                        Source::Value(value) if has_star => Source::Within(value),
                        Source::Value(value) => Source::Item(value, index),
                        Source::Element(over) if !has_star => Source::ElementItem(over, index),
                        Source::Element(of)
                        | Source::Item(of, _)
                        | Source::ElementItem(of, _)
                        | Source::Within(of)
                        | Source::Entered(of) => Source::Within(of),
                        _ => Source::Unknown,
                    };
                    self.bind_target_in(element, part, from, evaluated_in);
                }
            }
            Expr::Starred(starred) => {
                self.bind_target_in(&starred.value, source, from, evaluated_in);
            }
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                self.symbols.own_attributes.insert(name);
                self.symbols.assigned_attributes.insert(name);
                self.bind_attribute(name, source, from, evaluated_in);
            }
            Expr::Subscript(subscript) => {
                self.count_seen(&subscript.value);
                let source = match source {
                    Source::Value(value) if subscript.slice.is_slice_expr() => {
                        Source::Element(value)
                    }
                    source => source,
                };
                self.put_into(&subscript.value, source);
            }
            _ => {}
        }
    }

    /// Opens a scope, runs `work` in it, and closes it.
    fn in_scope(
        &mut self,
        kind: ScopeKind,
        definition: Definition<'a>,
        range: TextRange,
        work: impl FnOnce(&mut Self),
    ) {
        let parent = &self.symbols.scopes[self.scope];
        let deferred_from =
            parent.deferred_from.or((kind == ScopeKind::Function).then_some(range.start()));
        let depth = parent.depth + 1;
        let parent = Some(self.scope);
        let scope = Scope { kind, definition, parent, depth, deferred_from, ..Scope::default() };
        let id = self.symbols.scopes.len();
        self.symbols.scopes.push(scope);
        self.symbols.scope_of.insert(range, id);
        let outer_scope = std::mem::replace(&mut self.scope, id);
        let in_loop = (kind == ScopeKind::Comprehension).then_some(range);
        let outer_loop = std::mem::replace(&mut self.in_loop, in_loop);
        let outside = self.outside_comprehensions;
        if kind != ScopeKind::Comprehension {
            self.outside_comprehensions = id;
        }
        self.in_block(range, work);
        self.outside_comprehensions = outside;
        self.scope = outer_scope;
        self.in_loop = outer_loop;
    }

    /// Runs `work` within `block`. Names that `work` binds are bound only if the block has run.
    fn in_block(&mut self, block: TextRange, work: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.block, block);
        work(self);
        self.block = outer;
    }

    fn bind_parameters(&mut self, parameters: &'a Parameters, outer: ScopeId) {
        let from = parameters.start();
        for parameter in parameters.iter_non_variadic_params() {
            let source = Source::Parameter(parameter.default(), self.scope);
            self.bind(parameter.name().as_str(), source, from, outer);
        }
        if let Some(rest) = &parameters.vararg {
            self.bind(rest.name.as_str(), Source::Rest(self.scope, false), from, outer);
        }
        if let Some(rest) = &parameters.kwarg {
            self.bind(rest.name.as_str(), Source::Rest(self.scope, true), from, outer);
        }
    }

    fn bind_type_params(&mut self, type_params: Option<&'a TypeParams>) {
        for type_param in type_params.iter().flat_map(|params| params.iter()) {
            let name = type_param.name().as_str();
            self.bind(name, Source::Unknown, type_param.start(), self.scope);
        }
        if let Some(type_params) = type_params {
            self.visit_type_params(type_params);
        }
    }

    fn comprehension(&mut self, expr: &'a Expr) {
        let (parts, generators) = comprehension(expr);
        let outer = self.scope;
        if let Some(first) = generators.first() {
            self.visit_expr(&first.iter);
        }
        let around = self.comprehension;
        self.comprehension = around.or(Some(expr.range()));
        self.in_scope(ScopeKind::Comprehension, Definition::Other, expr.range(), |this| {
            for (index, generator) in generators.iter().enumerate() {
                let evaluated_in = if index == 0 { outer } else { this.scope };
                let source = Source::Element(&generator.iter);
                let from = generator.start();
                this.bind_target_in(&generator.target, source, from, evaluated_in);
                this.count_read(&generator.iter);
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

    /// Binds the target of a walrus. In a comprehension, the name belongs to the scope outside of the comprehension.
    fn bind_walrus(&mut self, target: &'a Expr, value: &'a Expr, from: TextSize) {
        let inner = std::mem::replace(&mut self.scope, self.outside_comprehensions);
        if let Expr::Name(name) = target {
            // A comprehension may run for no element, so only the code in the comprehension can rely on the name. The
            // conditions run before the element expression, although they follow it in the source. So the name counts
            // as bound from the start of the comprehension.
            let (block, from) = match self.comprehension {
                Some(comprehension) => (comprehension, comprehension.start()),
                None => (self.block, from),
            };
            self.in_block(block, |this| {
                this.bind(name.id.as_str(), Source::Value(value), from, inner);
            });
        }
        self.scope = inner;
    }
}

/// Returns the part of a loop that runs more than once. If the target of a `for` consists of names only, the part
/// starts after the iterable, which Python evaluates once.
fn repeated(stmt: &Stmt) -> TextRange {
    let is_name = |target: &Expr| {
        target.is_name_expr()
            || (!target.is_attribute_expr()
                && elements(target).iter().all(Expr::is_name_expr)
                && !elements(target).is_empty())
    };
    match stmt {
        Stmt::For(for_stmt) if is_name(&for_stmt.target) => {
            TextRange::new(for_stmt.iter.end(), stmt.end())
        }
        _ => stmt.range(),
    }
}

/// Returns the first offset at which a top-level statement may call a function of the script. Returns `None` if the
/// statement calls no function of the script.
fn calls_from(stmt: &Stmt) -> Option<TextSize> {
    match stmt {
        Stmt::FunctionDef(function) => {
            let parameters = function.parameters.iter_non_variadic_params();
            let mut defaults = parameters.filter_map(|parameter| parameter.default.as_deref());
            if !function.decorator_list.is_empty() {
                // A decorator may call the function before the function's name is bound.
                return Some(function.name.start());
            }
            let annotations = function.parameters.iter().filter_map(AnyParameterRef::annotation);
            let mut annotations = annotations.chain(function.returns.as_deref());
            let is_plain = defaults.all(is_plain) && annotations.all(is_plain_type);
            (!is_plain).then_some(stmt.start())
        }
        Stmt::ClassDef(class) => {
            let is_plain = class.decorator_list.is_empty()
                // A base class may run code when Python creates the new class, so only a class without bases calls
                // nothing.
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

/// Returns whether evaluating an annotation calls no function of the script.
fn is_plain_type(expr: &Expr) -> bool {
    #[rustfmt::skip]
    const GENERIC: &[&str] = &[
        "Any", "Callable", "Dict", "Iterable", "Iterator", "List", "Literal", "Optional",
        "Sequence", "Set", "Tuple", "Union", "dict", "frozenset", "list", "set", "tuple",
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

/// Returns whether evaluating `expr` calls no function of the script. This holds for names, literals and attributes
/// such as `a.b`, and for lists, tuples and dictionaries of such expressions.
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

fn is_name(expr: &Expr, names: &[&str]) -> bool {
    matches!(expr, Expr::Name(name) if names.contains(&name.id.as_str()))
}

/// Returns whether `expr` is a call that returns the script's own namespace.
fn is_namespace(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(call)
        if is_name(&call.func, &["globals", "locals", "vars"])
            && call.arguments.args.is_empty())
}
