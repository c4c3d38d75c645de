//! Values, as far as they are known without running anything.

#![expect(clippy::wildcard_enum_match_arm, reason = "each method is about some kinds of values")]

use std::borrow::Cow;
use std::rc::Rc;

use smallvec::SmallVec;

/// The most alternatives that are kept for one value; with more it counts as unknown.
const ALTERNATIVES_MAX: usize = 16;
/// The longest text that is folded, in bytes: a name of an attribute is short.
pub(crate) const TEXT_BYTES_MAX: usize = 16 * 1024;
/// The most elements of a sequence that are kept.
pub(crate) const ITEMS_MAX: usize = 64;

/// One value that an expression may evaluate to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// A text.
    Text(Cow<'a, str>),
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
        let text = text.into();
        if text.len() > TEXT_BYTES_MAX { Self::unknown() } else { Self::one(Value::Text(text)) }
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
            if self.known.contains(&value) {
                continue;
            }
            if self.known.len() == ALTERNATIVES_MAX {
                self.is_open = true;
                return;
            }
            self.known.push(value);
        }
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
                Some(text.chars().map(|c| Self::text(c.to_string())).collect())
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
