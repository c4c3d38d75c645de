//! Follows the objects of the script's own classes: their attributes, properties and methods.

use foldhash::HashMap;
use ruff_python_ast::{Expr, Stmt, StmtClassDef, StmtFunctionDef};

use super::super::values::{Id, Node, Op};
use super::{Callable, Interpreter};

/// How a function in the body of a class is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Method,
    Static,
    Property,
    Other,
}

impl<'a> Interpreter<'a, '_> {
    pub(super) fn attribute(&mut self, object: Id, name: &'a str) -> Id {
        let object = self.values.original(object);
        if let Node::Op(Op::OneOf(number), all) = self.values.node(object) {
            let (number, all) = (*number, all.to_vec());
            let all: Vec<Id> = all.into_iter().map(|each| self.attribute(each, name)).collect();
            return self.values.op(Op::OneOf(number), all);
        }
        if self.values.path_of(object).is_none()
            && let Some(flag) = self.exception_flags()[1].get(name).copied()
        {
            return self.flag(name, flag);
        }
        if let Some([of]) = self.values.operands(object, Op::Attribute("T"))
            && name == "T"
        {
            return *of;
        }
        self.known_attribute(object, name)
            .unwrap_or_else(|| self.values.op(Op::Attribute(name), [object]))
    }

    fn known_attribute(&mut self, object: Id, name: &'a str) -> Option<Id> {
        let (class, is_instance) = match self.values.node(object) {
            Node::Instance(class, _) => (*class, true),
            Node::Class(class) => (*class, false),
            _ => return None,
        };
        if is_instance && let Some(value) = self.attributes.get(&(object, name)) {
            return Some(*value);
        }
        match self.function_of(class, name) {
            Some((Kind::Property, _, place)) if is_instance => {
                Some(self.call_of_function(place, object, &[object]))
            }
            Some(_) => None,
            None => self.class_names.get(class)?.get(name).copied(),
        }
    }

    /// Returns a function in the body of a class: its kind (such as method or property), its definition, and the index
    /// of its closure.
    fn function_of(&self, class: usize, name: &str) -> Option<(Kind, &'a StmtFunctionDef, usize)> {
        let class: &'a StmtClassDef = self.classes.get(class).copied()?;
        self.work.spend(1 + class.body.len() / 4);
        let function = class.body.iter().find_map(|stmt| match stmt {
            Stmt::FunctionDef(it) if it.name.as_str() == name => Some(it),
            _ => None,
        })?;
        let place = self.closures.iter().position(
            |it| matches!(it.function, Callable::Function(of) if of.range == function.range),
        )?;
        self.work.spend(1 + self.closures.len() / 8);
        Some((kind_of(function), function, place))
    }

    /// Returns the result of a method call, if the script defines the method. Returns `None` if the method may change
    /// its object or an argument.
    pub(super) fn call_of_method(
        &mut self,
        object: Id,
        name: &'a str,
        function: Id,
        arguments: &[Id],
    ) -> Option<Id> {
        let (class, is_instance) = match self.values.node(object) {
            Node::Instance(class, _) => (*class, true),
            Node::Class(class) => (*class, false),
            _ => return None,
        };
        let (kind, _, place) = self.function_of(class, name)?;
        let arguments = match kind {
            Kind::Method if is_instance => [&[object], arguments].concat(),
            Kind::Method | Kind::Static => arguments.to_vec(),
            Kind::Property | Kind::Other => return None,
        };
        if !self.parameters_changed(place).is_empty() {
            return None;
        }
        Some(self.call_of_function(place, function, &arguments))
    }

    /// Creates an object of a class that the script defines. Follows the method `__init__`, or binds the fields of a
    /// data class.
    pub(super) fn construct(&mut self, class: usize, arguments: &[Id]) -> Id {
        let number = self.values.fresh_number();
        let object = self.values.add(Node::Instance(class, number));
        let Some(definition) = self.classes.get(class).copied() else { return object };
        if !self.facts.get(class).is_some_and(|facts| facts.is_plain) {
            return object;
        }
        if let Some((Kind::Method, function, place)) = self.function_of(class, "__init__") {
            if let Some(closure) = self.closures.get(place).copied()
                && self.calls < super::CALLS_MAX
            {
                let arguments = [&[object], arguments].concat();
                let bound = self.bind_arguments(Some(&function.parameters), &arguments);
                let outer = self.constructed.replace(object);
                self.follow(closure, bound.unwrap_or_default());
                self.constructed = outer;
            }
            return object;
        }
        let fields = definition.body.iter().filter_map(|stmt| match stmt {
            Stmt::AnnAssign(it) => {
                Some((it.target.as_name_expr()?.id.as_str(), it.value.as_deref()))
            }
            _ => None,
        });
        let fields: Vec<(&'a str, Option<&'a Expr>)> = fields.collect();
        let mut given: HashMap<&'a str, Id> = HashMap::default();
        let mut positional = fields.iter();
        for argument in arguments {
            match self.values.node(*argument) {
                Node::Op(Op::Keyword(name), value) => {
                    if let Some(value) = value.first() {
                        given.insert(*name, *value);
                    }
                }
                Node::Op(Op::Starred, all) => {
                    let all = all.first().copied().unwrap_or_default();
                    let rest: Vec<&'a str> = positional.by_ref().map(|(name, _)| *name).collect();
                    for (place, name) in rest.iter().enumerate() {
                        let part = self.part(all, place, rest.len());
                        given.insert(*name, part);
                    }
                }
                _ => {
                    if let Some((name, _)) = positional.next() {
                        given.insert(*name, *argument);
                    }
                }
            }
        }
        for (name, _) in fields {
            if let Some(value) = given.get(name)
                && !self.is_changed_attribute(name)
            {
                let value = self.field(*value);
                self.attributes.insert((object, name), value);
            }
        }
        if let Some((Kind::Method, function, place)) = self.function_of(class, "__post_init__")
            && let Some(closure) = self.closures.get(place).copied()
            && self.calls < super::CALLS_MAX
            && let Some(bound) = self.bind_arguments(Some(&function.parameters), &[object])
        {
            let outer = self.constructed.replace(object);
            self.follow(closure, bound);
            self.constructed = outer;
        }
        object
    }

    /// Returns a copy of an object in which some attributes have new values, as `dataclasses.replace` does.
    pub(super) fn replaced(&mut self, object: Id, changes: &[Id]) -> Option<Id> {
        let object = self.values.original(object);
        let Node::Instance(class, _) = self.values.node(object) else { return None };
        let (class, number) = (*class, self.values.fresh_number());
        let copy = self.values.add(Node::Instance(class, number));
        self.work.spend(self.attributes.len());
        let kept = self.attributes.iter().filter(|((of, _), _)| *of == object);
        let kept: Vec<(&'a str, Id)> = kept.map(|((_, name), value)| (*name, *value)).collect();
        self.attributes.extend(kept.into_iter().map(|(name, value)| ((copy, name), value)));
        for change in changes {
            if let Node::Op(Op::Keyword(name), value) = self.values.node(*change) {
                let (name, value) = (*name, *value.first()?);
                self.attributes.insert((copy, name), value);
            }
        }
        Some(copy)
    }

    /// Binds an attribute of the object that is being created. Returns whether the attribute was bound.
    pub(super) fn bind_attribute(&mut self, object: &'a Expr, name: &'a str, value: Id) -> bool {
        let Some(constructed) = self.constructed else { return false };
        if self.expression(object) != constructed || self.is_changed_attribute(name) {
            return false;
        }
        let value = self.field(value);
        self.attributes.insert((constructed, name), value);
        true
    }

    /// Marks a literal as the value of a field or a parameter. A comparison with a marked literal is not treated as a
    /// comparison of literals. Returns other values unchanged.
    pub(super) fn field(&mut self, value: Id) -> Id {
        let is_number = self.values.literal(value).is_some()
            || matches!(self.values.node(value), Node::Text(_));
        if is_number { self.values.op(Op::Field, [value]) } else { value }
    }

    /// Returns whether the script may change an attribute with this name after it has created the object.
    fn is_changed_attribute(&mut self, name: &str) -> bool {
        let (body, work) = (self.body, self.work);
        let changed = self
            .changed_attributes
            .get_or_insert_with(|| super::super::flags::changed_attributes(body, work));
        changed.contains(name)
    }
}

fn kind_of(function: &StmtFunctionDef) -> Kind {
    let Some(decorator) = function.decorator_list.first() else { return Kind::Method };
    let name = match &decorator.expression {
        Expr::Name(name) => name.id.as_str(),
        Expr::Attribute(of) => of.attr.as_str(),
        _ => "",
    };
    match name {
        "property" | "cached_property" => Kind::Property,
        "staticmethod" => Kind::Static,
        "cache" | "lru_cache" => Kind::Method,
        _ => Kind::Other,
    }
}
