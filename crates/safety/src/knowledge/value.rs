//! Values, as far as they are known without running anything.

#![expect(clippy::wildcard_enum_match_arm, reason = "each method is about some kinds of values")]

use std::borrow::Cow;
use std::mem::discriminant;
use std::ops::Deref;
use std::rc::Rc;

use smallvec::SmallVec;

use super::index::{INDEX, Verdict};
use crate::symbols::ScopeId;
use crate::work::folding;

/// The namespace of all modules that are loaded.
pub(crate) const MODULES: &str = "sys.modules";

/// The most alternatives that are kept for one value; with more it counts as unknown.
const ALTERNATIVES_MAX: usize = 16;
/// The longest text that is folded, in bytes: a name of an attribute is short.
pub(crate) const TEXT_BYTES_MAX: usize = 16 * 1024;
/// The longest start of a text that is kept, in bytes.
pub(crate) const START_BYTES_MAX: usize = 64;
/// The most containers that are kept one in the other.
const DEPTH_MAX: usize = 2;
/// The most elements of a sequence that are kept.
pub(crate) const ITEMS_MAX: usize = 64;

/// One value that an expression may evaluate to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// A text that starts like this, and of which the rest is not known.
    Start(Cow<'a, str>),
    /// A whole number.
    Number(i64),
    /// A module, function or class from outside of the script, by its qualified name.
    Object(Cow<'a, str>),
    /// Perhaps this module: an attribute of its name, of an unknown object.
    MaybeModule(&'static str),
    /// An instance of a class from outside, by the class's qualified name.
    Instance(&'static str),
    /// The namespace (`__dict__`) of a module, by the module's qualified name; [`MODULES`], or of the
    /// script itself, without a name.
    Namespace(Cow<'a, str>),
    /// The function that looks a key up in such a namespace.
    LookUp(Cow<'a, str>),
    /// A method of this name, of an object of which nothing is known.
    Method(&'static str),
    /// A function that takes attributes of its argument.
    Getter(Rc<Getter<'a>>),
    /// Data that leads nowhere: a truth value, `None`, a number that is not whole.
    Plain,
    /// A class that the script defines, by its scope.
    OwnClass(ScopeId),
    /// An instance of one.
    Own(ScopeId),
    /// A function that the script defines, by its scope.
    OwnFunction(ScopeId),
    /// A tuple or list of known length.
    Items(Rc<[Values<'a>]>),
    /// A dictionary with known keys.
    Map(Rc<[(Values<'a>, Values<'a>)]>),
    /// A container of any number of these.
    Container(Rc<Values<'a>>),
}

/// The result of `operator.attrgetter` or `operator.methodcaller`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Getter<'a> {
    /// The paths of attributes that it takes: texts, and open where others are possible.
    pub(crate) names: Vec<Values<'a>>,
    /// True if it calls the attribute.
    pub(crate) is_calling: bool,
}

impl<'a> Value<'a> {
    /// Tells whether to lose this alternative would be to lose a danger.
    fn matters(&self) -> bool {
        match self {
            Self::Object(path) => !matches!(INDEX.verdict(path), Verdict::Clear),
            Self::Text(text) => INDEX.attribute(text).is_some(),
            Self::MaybeModule(_) | Self::Namespace(_) | Self::LookUp(_) | Self::Getter(_) => true,
            _ => false,
        }
    }

    /// Returns what is in a container: the keys and values of a dictionary one after the other.
    fn parts(&self) -> impl Iterator<Item = &Values<'a>> + Clone {
        let (items, pairs, all) = match self {
            Self::Items(items) => (&**items, &[][..], None),
            Self::Map(pairs) => (&[][..], &**pairs, None),
            Self::Container(all) => (&[][..], &[][..], Some(&**all)),
            _ => (&[][..], &[][..], None),
        };
        items.iter().chain(pairs.iter().flat_map(|(key, of)| [key, of])).chain(all)
    }

    /// Tells whether this is the namespace of the script itself.
    pub(crate) fn is_globals(&self) -> bool {
        matches!(self, Self::Namespace(path) if path.is_empty())
    }

    /// Tells whether this holds others.
    pub(crate) fn is_container(&self) -> bool {
        matches!(self, Self::Items(_) | Self::Map(_) | Self::Container(_))
    }

    /// Returns the number of containers, one in the other; those of more than two are not counted.
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
            Self::Text(text) => 1 + folding(text.len()),
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

/// Tells whether two values are surely the same. Sequences are not compared in depth.
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

/// The known alternatives of a value. Most have one or none; several are only passed on most often.
#[derive(Debug, Clone, Default)]
pub(crate) enum Known<'a> {
    #[default]
    None,
    One(Value<'a>),
    Many(Rc<Many<'a>>),
}

/// Several alternatives, and what all of them weigh.
#[derive(Debug, Clone, Default)]
pub(crate) struct Many<'a> {
    values: SmallVec<[Value<'a>; 4]>,
    weight: usize,
}

impl<'a> Known<'a> {
    /// Adds one more, at the end.
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

    /// Keeps those that are such.
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
    /// The known alternatives.
    pub(crate) known: Known<'a>,
    /// True if there may be others.
    pub(crate) is_open: bool,
}

impl<'a> Values<'a> {
    /// Any value: nothing is known.
    pub(crate) fn unknown() -> Self {
        Self::only_open(true)
    }

    /// Exactly this value.
    pub(crate) fn one(value: Value<'a>) -> Self {
        Self { known: Known::One(value), is_open: false }
    }

    /// No known alternative yet, and perhaps unknown ones.
    pub(crate) fn only_open(is_open: bool) -> Self {
        Self { known: Known::None, is_open }
    }

    /// A module, function or class from outside of the script, by its qualified name.
    pub(crate) fn object(path: impl Into<Cow<'a, str>>) -> Self {
        Self::one(Value::Object(path.into()))
    }

    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        let text = text.into();
        if text.len() > TEXT_BYTES_MAX { Self::unknown() } else { Self::one(Value::Text(text)) }
    }

    /// A sequence of these.
    pub(crate) fn items(items: impl Into<Rc<[Self]>>) -> Self {
        let items = items.into();
        if items.len() > ITEMS_MAX {
            return Self::container(items.iter().cloned().collect());
        }
        Self::nested(Value::Items(items))
    }

    /// A container of any number of these.
    pub(crate) fn container(values: Self) -> Self {
        Self::nested(Value::Container(values.into()))
    }

    /// A dictionary of these keys and values.
    pub(crate) fn map(items: Vec<(Self, Self)>) -> Self {
        if items.len() > ITEMS_MAX {
            return Self::container(items.into_iter().flat_map(|(key, of)| [key, of]).collect());
        }
        Self::nested(Value::Map(items.into()))
    }

    /// A container. Of containers in containers in containers nothing is kept: `x = [x]`, over and
    /// over, would nest without end.
    fn nested(container: Value<'a>) -> Self {
        if container.depth(DEPTH_MAX + 1) > DEPTH_MAX {
            Self::one(Value::Container(Self::unknown().into()))
        } else {
            Self::one(container)
        }
    }

    /// The same alternatives, and possibly others.
    pub(crate) fn or_others(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Adds what `other` may be.
    pub(crate) fn add(&mut self, other: Self) {
        if matches!(self.known, Known::None) {
            self.known = other.known;
            self.is_open |= other.is_open;
        } else {
            self.join(&other);
        }
    }

    /// Adds what `other` may be, and copies only what is new.
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
            // Which one is lost must not decide.
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

    /// Returns the steps that it takes to copy, join or fold this.
    #[inline]
    pub(crate) fn weight(&self) -> usize {
        match &self.known {
            Known::None => 0,
            Known::One(value) => value.weight(),
            Known::Many(many) => many.weight,
        }
    }

    /// Returns the value, if there is exactly one.
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

    /// Tells whether this may be a function that looks a name up.
    pub(crate) fn is_look_up(&self) -> bool {
        self.known.iter().any(|value| matches!(value, Value::LookUp(_)))
    }

    pub(crate) fn as_number(&self) -> Option<i64> {
        match self.single()? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The start of a text, if that is known and not empty; of two texts, the same.
    pub(crate) fn start(text: &str) -> Self {
        match &text[..text.floor_char_boundary(START_BYTES_MAX)] {
            "" => Self::unknown(),
            start => Self::one(Value::Start(start.to_owned().into())),
        }
    }

    /// Returns the known texts, and whether the value can be nothing else.
    pub(crate) fn texts(&self) -> (impl Iterator<Item = &str>, bool) {
        let is_text = |value: &Value<'_>| matches!(value, Value::Text(_));
        let is_complete = !self.is_open && self.known.iter().all(is_text);
        let texts = self.known.iter().filter_map(|value| match value {
            Value::Text(text) => Some(&**text),
            _ => None,
        });
        (texts, is_complete)
    }

    /// Tells whether one of the texts is such, here or in a container.
    pub(crate) fn any_text(&self, is_such: &mut dyn FnMut(&str) -> bool) -> bool {
        self.any(&mut |value| matches!(value, Value::Text(text) if is_such(text)))
    }

    /// Tells whether one of the alternatives is such, here or in a container.
    pub(crate) fn any(&self, is_such: &mut dyn FnMut(&Value<'a>) -> bool) -> bool {
        self.known.iter().any(|value| match value {
            value if value.is_container() => value.parts().any(|part| part.any(is_such)),
            value => is_such(value),
        })
    }

    /// Returns the elements that an iteration over this yields, one after the other, if they are
    /// known.
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

    /// Returns the values that one step of an iteration over this may yield.
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

    /// Returns what a `with` binds: what a generator yields, and of most objects they themselves.
    pub(crate) fn entered(&self) -> Self {
        let is_generator = |value: &Value<'_>| matches!(value, Value::Container(_));
        let mut values = self.clone();
        values.known.retain(|value| !is_generator(value));
        let mut generators = Self { is_open: false, ..self.clone() };
        generators.known.retain(is_generator);
        values.add(generators.any_element());
        values
    }

    /// Returns everything that is in the containers of this, and what is in no container.
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

    /// Returns what is at `key` of the containers that this may be.
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
                    // The last of the same key counts.
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

/// The alternatives of all of them.
impl FromIterator<Self> for Values<'_> {
    fn from_iter<T: IntoIterator<Item = Self>>(all: T) -> Self {
        let mut values = Self::default();
        all.into_iter().for_each(|one| values.add(one));
        values
    }
}
