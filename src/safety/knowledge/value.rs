//! Values, as far as they are known without running anything.

#![expect(clippy::wildcard_enum_match_arm, reason = "each method is about some kinds of values")]

use std::borrow::Cow;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::LazyLock;

use smallvec::SmallVec;

use crate::safety::work::folding;

/// The most alternatives that are kept for one value; with more it counts as unknown.
const ALTERNATIVES_MAX: usize = 16;
/// The longest text that is folded, in bytes: a name of an attribute is short.
pub(crate) const TEXT_BYTES_MAX: usize = 16 * 1024;
/// The most elements of a sequence that are kept.
pub(crate) const ITEMS_MAX: usize = 64;

/// The characters of ASCII, which texts of one character are parts of.
static ASCII: LazyLock<String> = LazyLock::new(|| ('\0'..='\x7f').collect());

/// A text: a part of the source, or one that was put together, which all its uses share.
#[derive(Debug, Clone)]
pub(crate) enum Text<'a> {
    Literal(&'a str),
    Folded(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Literal(text) => text,
            Self::Folded(text) => text,
        }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// One value that an expression may evaluate to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// A text.
    Text(Text<'a>),
    /// Bytes.
    Bytes(Rc<[u8]>),
    /// A whole number.
    Number(i64),
    /// A module, function or class from outside of the script, by its qualified name.
    Object(Cow<'a, str>),
    /// Perhaps this module: an attribute of its name, of an unknown object.
    MaybeModule(&'static str),
    /// An instance of a class from outside, by the class's qualified name.
    Instance(&'static str),
    /// The namespace (`__dict__`) of a module, by the module's qualified name.
    Namespace(Cow<'a, str>),
    /// The function that looks a key up in such a namespace.
    LookUp(Cow<'a, str>),
    /// The namespace of the script itself.
    Globals,
    /// `sys.modules`.
    Modules,
    /// A class that the script defines.
    OwnClass,
    /// A function that the script defines.
    OwnFunction,
    /// A tuple or list of known length.
    Items(Rc<[Values<'a>]>),
    /// A list that has a name: what is in it may change.
    List,
}

impl Value<'_> {
    fn weight(&self) -> usize {
        match self {
            Self::Text(text) => 1 + folding(text.len()),
            Self::Bytes(bytes) => 1 + folding(bytes.len()),
            Self::Object(path) | Self::Namespace(path) => 2 + path.len() / 64,
            Self::Items(items) => {
                let inside = items.iter().flat_map(|item| &item.known);
                let of_each = inside.map(|value| match value {
                    Self::Items(_) => 1,
                    value => value.weight(),
                });
                items.len() + of_each.sum::<usize>()
            }
            _ => 1,
        }
    }
}

/// Tells whether two values are surely the same. Sequences are not compared in depth.
fn is_same<'a>(one: &Value<'a>, other: &Value<'a>) -> bool {
    match (one, other) {
        (Value::Items(one), Value::Items(other)) => {
            Rc::ptr_eq(one, other) || (one.is_empty() && other.is_empty())
        }
        (one, other) => one == other,
    }
}

/// All values that an expression may evaluate to, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Values<'a> {
    /// The known alternatives.
    pub(crate) known: SmallVec<[Value<'a>; 1]>,
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
        Self { known: SmallVec::from_iter([value]), is_open: false }
    }

    /// No known alternative yet, and perhaps unknown ones.
    pub(crate) fn only_open(is_open: bool) -> Self {
        Self { known: SmallVec::new(), is_open }
    }

    /// A module, function or class from outside of the script, by its qualified name.
    pub(crate) fn object(path: impl Into<Cow<'a, str>>) -> Self {
        Self::one(Value::Object(path.into()))
    }

    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        let text = match text.into() {
            Cow::Borrowed(text) => Text::Literal(text),
            Cow::Owned(text) => Text::Folded(text.into()),
        };
        if text.len() > TEXT_BYTES_MAX { Self::unknown() } else { Self::one(Value::Text(text)) }
    }

    /// The text of one character.
    fn character(c: char) -> Self {
        let place = usize::try_from(u32::from(c)).unwrap_or(usize::MAX);
        match ASCII.get(place..=place) {
            Some(text) => Self::text(text),
            None => Self::one(Value::Text(Text::Folded(c.encode_utf8(&mut [0; 4]).into()))),
        }
    }

    pub(crate) fn bytes(bytes: Vec<u8>) -> Self {
        if bytes.len() > TEXT_BYTES_MAX {
            Self::unknown()
        } else {
            Self::one(Value::Bytes(bytes.into()))
        }
    }

    /// A sequence of these. Of sequences in sequences in sequences nothing is kept: `x = [x]`, over
    /// and over, would nest without end.
    pub(crate) fn items(items: Vec<Self>) -> Self {
        let is_sequence = |value: &Value<'_>| matches!(value, Value::Items(_));
        let nests = |value: &Value<'_>| match value {
            Value::Items(items) => items.iter().any(|item| item.known.iter().any(is_sequence)),
            _ => false,
        };
        if items.len() > ITEMS_MAX || items.iter().any(|item| item.known.iter().any(nests)) {
            Self::unknown()
        } else {
            Self::one(Value::Items(items.into()))
        }
    }

    /// The same alternatives, and possibly others.
    pub(crate) fn or_others(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Adds what `other` may be.
    pub(crate) fn add(&mut self, other: Self) {
        self.is_open |= other.is_open;
        for value in other.known {
            if self.known.iter().any(|known| is_same(known, &value)) {
                continue;
            }
            if self.known.len() == ALTERNATIVES_MAX {
                self.is_open = true;
                return;
            }
            self.known.push(value);
        }
    }

    /// Returns the steps that it takes to copy, join or fold this.
    #[inline]
    pub(crate) fn weight(&self) -> usize {
        self.known.iter().map(Value::weight).sum()
    }

    /// Returns the value, if there is exactly one.
    pub(crate) fn single(&self) -> Option<&Value<'a>> {
        match self.known.as_slice() {
            [value] if !self.is_open => Some(value),
            _ => None,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self.single()? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_number(&self) -> Option<i64> {
        match self.single()? {
            Value::Number(number) => Some(*number),
            _ => None,
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

    /// Returns the elements that an iteration over this yields, one after the other, if they are
    /// known.
    pub(crate) fn elements(&self) -> Option<Vec<Self>> {
        self.elements_within(ITEMS_MAX * 4, ITEMS_MAX)
    }

    /// Returns the elements of a sequence, of a text of at most `text_max` bytes, or of at most
    /// `bytes_max` bytes.
    pub(crate) fn elements_within(&self, text_max: usize, bytes_max: usize) -> Option<Vec<Self>> {
        match self.single()? {
            Value::Items(items) => Some(items.to_vec()),
            Value::Text(text) if text.len() <= text_max => {
                Some(text.chars().map(Self::character).collect())
            }
            Value::Bytes(bytes) if bytes.len() <= bytes_max => {
                Some(bytes.iter().map(|b| Self::one(Value::Number(i64::from(*b)))).collect())
            }
            _ => None,
        }
    }

    /// Returns the values that one step of an iteration over this may yield.
    pub(crate) fn any_element(&self) -> Self {
        self.elements().map_or_else(Self::unknown, Self::from_iter)
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
