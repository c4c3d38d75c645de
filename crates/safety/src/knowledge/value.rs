//! Represents the values of expressions, as far as the analysis knows the values without running the script.

#![expect(clippy::wildcard_enum_match_arm, reason = "each method is about some kinds of values")]

use std::borrow::Cow;
use std::mem::discriminant;
use std::ops::Deref;
use std::rc::Rc;

use smallvec::SmallVec;

use super::index::{INDEX, Verdict};
use crate::symbols::ScopeId;
use crate::work::folding_steps;

/// The name that stands for the namespace of all loaded modules.
pub(crate) const MODULES: &str = "sys.modules";

/// The maximum number of known alternatives of a value. A value with more alternatives becomes open, which means that
/// other values are possible.
const ALTERNATIVES_MAX: usize = 16;
/// The maximum length of a string that is computed, in bytes. A longer string is treated as unknown. No name of an
/// attribute is so long.
pub(crate) const TEXT_BYTES_MAX: usize = 16 * 1024;
/// The maximum length, in bytes, of the start in a [`Value::Start`].
pub(crate) const START_BYTES_MAX: usize = 64;
/// The maximum depth of nested containers. The content of deeper containers is dropped.
const DEPTH_MAX: usize = 2;
/// The maximum length of a sequence. The elements of a longer sequence are not distinguished.
pub(crate) const ITEMS_MAX: usize = 64;

/// One value that an expression may evaluate to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// A string.
    Text(Cow<'a, str>),
    /// A string with this known start. The characters after the start are unknown.
    Start(Cow<'a, str>),
    /// An integer.
    Number(i64),
    /// A module, function or class from outside of the script, by its qualified name.
    Object(Cow<'a, str>),
    /// An attribute of an unknown object. The attribute has the name of this module, and may be the module.
    MaybeModule(&'static str),
    /// An instance of an external class, by the qualified name of the class.
    Instance(&'static str),
    /// The namespace (`__dict__`) of the module with this qualified name, or [`MODULES`]. The empty name stands for the
    /// namespace of the script.
    Namespace(Cow<'a, str>),
    /// A method that looks a key up in a namespace. The string names the namespace in the same form as in `Namespace`.
    LookUp(Cow<'a, str>),
    /// A method of an unknown object, by the name of the method.
    Method(&'static str),
    /// A function that reads attributes of its argument.
    Getter(Rc<Getter<'a>>),
    /// Data that leads to no other object: a Boolean, `None`, or a number that is not a known integer.
    Plain,
    /// A class that the script defines, by its scope.
    OwnClass(ScopeId),
    /// An instance of a class that the script defines, by the scope of the class.
    Own(ScopeId),
    /// A function that the script defines, by its scope.
    OwnFunction(ScopeId),
    /// A tuple or list of known length, with the possible values of each element.
    Items(Rc<[Values<'a>]>),
    /// A dictionary with a known number of entries, with the possible values of each key and value.
    Map(Rc<[(Values<'a>, Values<'a>)]>),
    /// A container with any number of elements. Each element may be any of these values.
    Container(Rc<Values<'a>>),
}

/// The result of `operator.attrgetter` or `operator.methodcaller`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Getter<'a> {
    /// The attribute paths that the getter reads. Each path is a string, or an open value if other paths are possible.
    pub(crate) names: Vec<Values<'a>>,
    /// True if the getter also calls the attribute.
    pub(crate) is_calling: bool,
}

impl<'a> Value<'a> {
    /// Returns whether the analysis would miss a danger if it dropped this alternative.
    fn matters(&self) -> bool {
        match self {
            Self::Object(path) => !matches!(INDEX.verdict(path), Verdict::Clear),
            Self::Text(text) => INDEX.attribute(text).is_some(),
            Self::MaybeModule(_) | Self::Namespace(_) | Self::LookUp(_) | Self::Getter(_) => true,
            _ => false,
        }
    }

    /// Returns the values in a container. For a dictionary, yields the key and the value of each entry in turn.
    fn parts(&self) -> impl Iterator<Item = &Values<'a>> + Clone {
        let (items, pairs, all) = match self {
            Self::Items(items) => (&**items, &[][..], None),
            Self::Map(pairs) => (&[][..], &**pairs, None),
            Self::Container(all) => (&[][..], &[][..], Some(&**all)),
            _ => (&[][..], &[][..], None),
        };
        items.iter().chain(pairs.iter().flat_map(|(key, of)| [key, of])).chain(all)
    }

    /// Returns whether this is the namespace of the script.
    pub(crate) fn is_globals(&self) -> bool {
        matches!(self, Self::Namespace(path) if path.is_empty())
    }

    pub(crate) fn is_container(&self) -> bool {
        matches!(self, Self::Items(_) | Self::Map(_) | Self::Container(_))
    }

    /// Returns the depth of nested containers in this value, at most `most`.
    fn depth(&self, most: usize) -> usize {
        if most == 0 || !self.is_container() {
            return 0;
        }
        let within = self.parts().flat_map(|part| &part.known);
        1 + within.map(|value| value.depth(most - 1)).max().unwrap_or_default()
    }

    #[inline]
    fn weight(&self) -> usize {
        if self.is_container() { self.weight_of_container() } else { self.weight_of_one() }
    }

    #[inline]
    fn weight_of_one(&self) -> usize {
        match self {
            Self::Text(text) => 1 + folding_steps(text.len()),
            Self::Object(path) | Self::Namespace(path) => 2 + path.len() / 64,
            Self::Getter(getter) => {
                1 + getter.names.iter().map(|name| 1 + name.weight()).sum::<usize>()
            }
            _ => 1,
        }
    }

    fn weight_of_container(&self) -> usize {
        let within = self.parts().flat_map(|part| &part.known);
        let of_each = within.map(|value| match value.parts().count() {
            0 => value.weight_of_one(),
            count => 1 + count / 4,
        });
        1 + self.parts().count() + of_each.sum::<usize>()
    }
}

/// Returns whether two values are certainly equal. For speed, two sequences with elements are treated as equal only if
/// they are the same sequence in memory.
#[inline]
fn is_same<'a>(one: &Value<'a>, other: &Value<'a>) -> bool {
    if discriminant(one) != discriminant(other) {
        return false;
    }
    match (one, other) {
        (Value::Items(one), Value::Items(other)) => {
            Rc::ptr_eq(one, other) || (one.is_empty() && other.is_empty())
        }
        (one, other) => one == other,
    }
}

/// The known alternatives of a value. Most values have none or one. Several alternatives are reference-counted, because
/// most values are passed on unchanged.
#[derive(Debug, Clone, Default)]
pub(crate) enum Known<'a> {
    #[default]
    None,
    One(Value<'a>),
    Many(Rc<Many<'a>>),
}

/// Several alternatives, and the sum of their weights. A weight is the cost of a value in steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Many<'a> {
    values: SmallVec<[Value<'a>; 4]>,
    weight: usize,
}

impl<'a> Known<'a> {
    fn push(&mut self, value: Value<'a>) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(value),
            Self::One(first) => {
                let weight = first.weight() + value.weight();
                let values = SmallVec::from_iter([first, value]);
                Self::Many(Rc::new(Many { values, weight }))
            }
            Self::Many(mut many) => {
                let Many { values, weight } = Rc::make_mut(&mut many);
                *weight += value.weight();
                values.push(value);
                Self::Many(many)
            }
        };
    }

    /// Keeps the alternatives for which `is_such` holds.
    pub(crate) fn retain(&mut self, is_such: impl Fn(&Value<'a>) -> bool) {
        if !self.iter().all(&is_such) {
            *self = self.iter().filter(|value| is_such(value)).cloned().collect();
        }
    }
}

impl<'a> Deref for Known<'a> {
    type Target = [Value<'a>];

    #[inline]
    fn deref(&self) -> &[Value<'a>] {
        match self {
            Self::None => &[],
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(many) => &many.values,
        }
    }
}

impl PartialEq for Known<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<'k, 'a> IntoIterator for &'k Known<'a> {
    type Item = &'k Value<'a>;
    type IntoIter = std::slice::Iter<'k, Value<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> FromIterator<Value<'a>> for Known<'a> {
    fn from_iter<T: IntoIterator<Item = Value<'a>>>(all: T) -> Self {
        let mut known = Self::None;
        all.into_iter().for_each(|value| known.push(value));
        known
    }
}

/// All values that an expression may evaluate to, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Values<'a> {
    pub(crate) known: Known<'a>,
    /// True if values other than the known alternatives are possible.
    pub(crate) is_open: bool,
}

impl<'a> Values<'a> {
    /// Returns a value about which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self::only_open(true)
    }

    /// Returns a value that is certainly `value`.
    pub(crate) fn one(value: Value<'a>) -> Self {
        Self { known: Known::One(value), is_open: false }
    }

    /// Returns a value without known alternatives. If `is_open` is true, the value may be anything.
    pub(crate) fn only_open(is_open: bool) -> Self {
        Self { known: Known::None, is_open }
    }

    pub(crate) fn object(path: impl Into<Cow<'a, str>>) -> Self {
        Self::one(Value::Object(path.into()))
    }

    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        let text = text.into();
        if text.len() > TEXT_BYTES_MAX { Self::unknown() } else { Self::one(Value::Text(text)) }
    }

    /// Returns a sequence with these elements. More than [`ITEMS_MAX`] elements become a container that does not
    /// distinguish them.
    pub(crate) fn items(items: impl Into<Rc<[Self]>>) -> Self {
        let items = items.into();
        if items.len() > ITEMS_MAX {
            return Self::container(items.iter().cloned().collect());
        }
        Self::nested(Value::Items(items))
    }

    /// Returns a container with any number of elements. Each element may be any of these values.
    pub(crate) fn container(values: Self) -> Self {
        Self::nested(Value::Container(values.into()))
    }

    /// Returns a dictionary with these keys and values. More than [`ITEMS_MAX`] entries become a container that does
    /// not distinguish them.
    pub(crate) fn map(items: Vec<(Self, Self)>) -> Self {
        if items.len() > ITEMS_MAX {
            return Self::container(items.into_iter().flat_map(|(key, of)| [key, of]).collect());
        }
        Self::nested(Value::Map(items.into()))
    }

    /// Returns `container` as the only possible value. Drops the content if the container nests deeper than
    /// [`DEPTH_MAX`], because a repeated `x = [x]` would nest without end.
    fn nested(container: Value<'a>) -> Self {
        if container.depth(DEPTH_MAX + 1) > DEPTH_MAX {
            Self::one(Value::Container(Self::unknown().into()))
        } else {
            Self::one(container)
        }
    }

    /// Returns the same alternatives, and records that other values are possible too.
    pub(crate) fn or_others(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Adds the alternatives of `other`.
    pub(crate) fn add(&mut self, other: Self) {
        if matches!(self.known, Known::None) {
            self.known = other.known;
            self.is_open |= other.is_open;
        } else {
            self.join(&other);
        }
    }

    /// Adds the alternatives of `other`. Copies only alternatives that are not yet present.
    pub(crate) fn join(&mut self, other: &Self) {
        self.is_open |= other.is_open;
        match (&self.known, &other.known) {
            (_, Known::None) => {}
            (Known::None, _) => self.known = other.known.clone(),
            (Known::Many(one), Known::Many(other)) if Rc::ptr_eq(one, other) => {}
            _ => self.join_each(&other.known),
        }
    }

    fn join_each(&mut self, others: &Known<'a>) {
        for value in others {
            if self.known.iter().any(|known| is_same(known, value)) {
                continue;
            }
            if self.known.len() < ALTERNATIVES_MAX {
                self.known.push(value.clone());
                continue;
            }
            // One alternative must be dropped, so the value becomes open. An alternative for which `matters` holds
            // replaces another alternative, so that no danger is lost.
            self.is_open = true;
            if value.matters()
                && let Some(place) = self.known.iter().position(|known| !known.matters())
            {
                let known = self.known.iter().enumerate();
                let known = known.map(|(at, of)| if at == place { value } else { of });
                self.known = known.cloned().collect();
            }
        }
    }

    /// Returns the number of steps for copying this value, for joining it with another value, or for computing a value
    /// from it.
    #[inline]
    pub(crate) fn weight(&self) -> usize {
        match &self.known {
            Known::None => 0,
            Known::One(value) => value.weight(),
            Known::Many(many) => many.weight,
        }
    }

    /// Returns the alternative, if it is the only possible value.
    pub(crate) fn single(&self) -> Option<&Value<'a>> {
        match &self.known {
            Known::One(value) if !self.is_open => Some(value),
            _ => None,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self.single()? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_look_up(&self) -> bool {
        self.known.iter().any(|value| matches!(value, Value::LookUp(_)))
    }

    pub(crate) fn as_number(&self) -> Option<i64> {
        match self.single()? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns a string with this known start, cut to [`START_BYTES_MAX`]. Returns an unknown value if the start is
    /// empty.
    pub(crate) fn start(text: &str) -> Self {
        match &text[..text.floor_char_boundary(START_BYTES_MAX)] {
            "" => Self::unknown(),
            start => Self::one(Value::Start(start.to_owned().into())),
        }
    }

    /// Returns the known strings, and whether they are the only possible values.
    pub(crate) fn texts(&self) -> (impl Iterator<Item = &str>, bool) {
        let is_text = |value: &Value<'_>| matches!(value, Value::Text(_));
        let is_complete = !self.is_open && self.known.iter().all(is_text);
        let texts = self.known.iter().filter_map(|value| match value {
            Value::Text(text) => Some(&**text),
            _ => None,
        });
        (texts, is_complete)
    }

    /// Returns whether `is_such` holds for a string among the alternatives or in their containers.
    pub(crate) fn any_text(&self, is_such: &mut dyn FnMut(&str) -> bool) -> bool {
        self.any(&mut |value| matches!(value, Value::Text(text) if is_such(text)))
    }

    /// Returns whether `is_such` holds for an alternative, or for a value in one of the containers.
    pub(crate) fn any(&self, is_such: &mut dyn FnMut(&Value<'a>) -> bool) -> bool {
        self.known.iter().any(|value| match value {
            value if value.is_container() => value.parts().any(|part| part.any(is_such)),
            value => is_such(value),
        })
    }

    /// Returns the elements that an iteration over the value yields, in order, if they are known.
    pub(crate) fn elements(&self) -> Option<Vec<Self>> {
        match self.single()? {
            Value::Items(items) => Some(items.to_vec()),
            Value::Text(text) if text.len() <= ITEMS_MAX * 4 => Some(match text {
                Cow::Borrowed(text) => text.split_inclusive(|_| true).map(Self::text).collect(),
                Cow::Owned(text) => text.chars().map(|c| Self::text(c.to_string())).collect(),
            }),
            _ => None,
        }
    }

    /// Returns the values that one step of an iteration over the value may yield.
    pub(crate) fn any_element(&self) -> Self {
        let mut elements = Self::only_open(self.is_open);
        for value in &self.known {
            match value {
                Value::Items(_) | Value::Container(_) => elements.extend(value.parts().cloned()),
                Value::Map(items) => elements.extend(items.iter().map(|(key, _)| key.clone())),
                value => match Self::one(value.clone()).elements() {
                    Some(parts) => parts.into_iter().for_each(|part| elements.add(part)),
                    None => elements.is_open = true,
                },
            }
        }
        elements
    }

    /// Returns the value that a `with` statement binds if the context manager has this value. For a generator, the
    /// bound value is one of the yielded elements. Most other context managers bind themselves.
    pub(crate) fn entered(&self) -> Self {
        let is_generator = |value: &Value<'_>| matches!(value, Value::Container(_));
        let mut values = self.clone();
        values.known.retain(|value| !is_generator(value));
        let mut generators = Self { is_open: false, ..self.clone() };
        generators.known.retain(is_generator);
        values.add(generators.any_element());
        values
    }

    /// Returns the innermost values of all containers, and the alternatives that are not containers.
    pub(crate) fn within(&self) -> Self {
        let mut all = Self::only_open(self.is_open);
        for value in &self.known {
            if value.is_container() {
                all.extend(value.parts().map(Self::within));
            } else {
                all.add(Self::one(value.clone()));
            }
        }
        all
    }

    /// Returns the possible values under `key` in the containers among the alternatives.
    pub(crate) fn item(&self, key: &Self) -> Self {
        let mut found = Self::only_open(self.is_open);
        for value in &self.known {
            match value {
                Value::Items(items) => {
                    let length = i64::try_from(items.len()).unwrap_or_default();
                    let place = key.as_number().map(|at| if at < 0 { at + length } else { at });
                    match place.and_then(|at| items.get(usize::try_from(at).ok()?)) {
                        Some(item) => found.add(item.clone()),
                        None => found.extend(items.iter().cloned()),
                    }
                }
                Value::Map(items) => {
                    let are_known = items.iter().all(|(of, _)| of.single().is_some());
                    // A later entry with the same key replaces an earlier one.
                    let same = items.iter().rfind(|(of, _)| of == key && of.single().is_some());
                    match same.filter(|_| are_known) {
                        Some((_, item)) => found.add(item.clone()),
                        None => found.extend(items.iter().map(|(_, item)| item.clone())),
                    }
                }
                Value::Container(of) => found.add((**of).clone()),
                _ => found.is_open = true,
            }
        }
        found
    }
}

impl Extend<Self> for Values<'_> {
    fn extend<T: IntoIterator<Item = Self>>(&mut self, all: T) {
        all.into_iter().for_each(|one| self.add(one));
    }
}

impl FromIterator<Self> for Values<'_> {
    fn from_iter<T: IntoIterator<Item = Self>>(all: T) -> Self {
        let mut values = Self::default();
        all.into_iter().for_each(|one| values.add(one));
        values
    }
}
