//! What a name stands for where it is used.

#![expect(clippy::indexing_slicing, reason = "a binding's id is its place in the table")]

use std::borrow::Cow;

use ruff_python_ast::Expr;
use ruff_text_size::TextSize;
use smallvec::SmallVec;

use super::expressions::{Analyzer, Memo};
use crate::safety::finding::FindingKind;
use crate::safety::knowledge::index::INDEX;
use crate::safety::knowledge::objects;
use crate::safety::knowledge::value::{Value, Values};
use crate::safety::symbols::{BindingId, Source, Symbol};

/// How many names are followed from one to the next.
const DEPTH_MAX: usize = 64;

impl<'a> Analyzer<'a, '_> {
    /// What a name stands for where it is used.
    pub(super) fn named(&mut self, name: &str, offset: TextSize) -> Values<'a> {
        if let Some((_, values)) = self.unrolled.iter().rev().find(|(of, _)| *of == name) {
            return values.clone();
        }
        let symbols = self.symbols;
        let mut found: SmallVec<[(&Symbol, bool); 2]> = SmallVec::new();
        let is_certain = symbols.look_up(name, self.scope, offset, |symbol, is_same_scope| {
            found.push((symbol, is_same_scope));
        });
        let mut values = Values::default();
        for (symbol, is_same_scope) in &found {
            match symbols.reaching(symbol, offset).filter(|_| *is_same_scope) {
                Some(reaching) => {
                    for id in reaching {
                        values.add(self.bound(id));
                    }
                }
                None => values.add(self.any_of(symbol, *is_same_scope)),
            }
        }
        // What is imported with a star later takes the place of what was bound before.
        let first = found.first().and_then(|(symbol, _)| symbols.first_bound(symbol));
        if is_certain && symbols.star_imports.iter().any(|(_, at)| Some(*at) > first) {
            values.add(self.star_imported(name));
        }
        if !is_certain {
            values.add(self.unbound(name, !found.is_empty()));
        }
        values
    }

    /// What a name stands for that the script does not bind, or may not have bound.
    fn unbound(&self, name: &str, is_bound_somewhere: bool) -> Values<'a> {
        let stars = &self.symbols.star_imports;
        let is_from_re = name == "compile" && stars.iter().any(|(module, _)| *module == "re");
        if let Some(builtin) = objects::builtin(name)
            && !is_from_re
        {
            return Values::one(Value::Object(Cow::Borrowed(builtin)));
        }
        if name == "__name__" {
            return Values::text("__main__");
        }
        if !is_bound_somewhere && let Some(module) = objects::well_known_module(name) {
            return Values::one(Value::Object(Cow::Borrowed(module)));
        }
        let mut values = Values::unknown();
        values.add(self.star_imported(name));
        values
    }

    /// What a name may stand for by the star imports, as far as it matters.
    fn star_imported(&self, name: &str) -> Values<'a> {
        let mut values = Values { is_open: true, ..Values::default() };
        for (module, _) in &self.symbols.star_imports {
            let path = format!("{module}.{name}");
            let is_known = INDEX.names(&path) || INDEX.calls(&path).next().is_some();
            if is_known || objects::instance_of(&path).is_some() {
                values.add(Values::one(Value::Object(Cow::Owned(path))));
            }
        }
        values
    }

    /// What a name may stand for at any time: seen from another scope, or bound so often that its
    /// bindings are not told apart.
    fn any_of(&mut self, symbol: &Symbol, is_crowded: bool) -> Values<'a> {
        match &self.memo_of_symbols[symbol.id] {
            Memo::Done(values) => return values.clone(),
            Memo::Pending => {
                if is_crowded {
                    // What it was before matters, and is not known.
                    self.report(FindingKind::TooIndirect, None, None);
                }
                return Values::unknown();
            }
            Memo::NotYet => {}
        }
        self.memo_of_symbols[symbol.id] = Memo::Pending;
        let mut values = Values::default();
        for id in symbol.all() {
            values.add(self.bound(id));
        }
        self.memo_of_symbols[symbol.id] = Memo::Done(values.clone());
        values
    }

    /// What a binding binds its name to.
    fn bound(&mut self, id: BindingId) -> Values<'a> {
        match &self.memo[id] {
            Memo::Done(values) => return values.clone(),
            Memo::Pending => return Values::unknown(),
            Memo::NotYet => {}
        }
        if self.depth == DEPTH_MAX || self.level > self.pass.level_max {
            self.report(FindingKind::TooIndirect, None, None);
            return Values::unknown();
        }
        self.memo[id] = Memo::Pending;
        self.depth += 1;
        let unrolled = std::mem::take(&mut self.unrolled);
        let binding = self.symbols.binding(id);
        let scope = binding.evaluated_in;
        let mut values = match binding.source {
            Source::Import("__main__") | Source::Parameter(None, _) | Source::Unknown => {
                Values::unknown()
            }
            Source::Import(module) => Values::one(Value::Object(Cow::Borrowed(module))),
            Source::Member(module, member) => {
                objects::member(&Values::one(Value::Object(Cow::Borrowed(module))), member)
            }
            Source::Value(expr) => self.value_in(expr, scope),
            Source::Item(expr, index) => {
                let elements = self.value_in(expr, scope).elements();
                elements.and_then(|e| e.get(index).cloned()).unwrap_or_else(Values::unknown)
            }
            Source::Element(expr) => self.value_in(expr, scope).any_element(),
            Source::Parameter(Some(default), _) => self.value_in(default, scope).or_others(),
            Source::Class => Values::one(Value::OwnClass),
            Source::Function => Values::one(Value::OwnFunction),
        };
        // What is in a list may be changed by its name.
        if !matches!(binding.source, Source::Value(Expr::Tuple(_))) {
            for value in &mut values.known {
                if matches!(value, Value::Items(_)) {
                    *value = Value::List;
                }
            }
        }
        // Where names change unseen, a text is only one of several.
        values.is_open |= self.symbols.has_dynamic_names;
        self.unrolled = unrolled;
        self.depth -= 1;
        self.memo[id] = Memo::Done(values.clone());
        values
    }
}
