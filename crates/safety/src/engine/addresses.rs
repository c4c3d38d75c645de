//! Records operations with a result that may differ from run to run, because it depends on the addresses of objects, on
//! uninitialised memory, on the time, or on a random seed. Never refuses a script because of such an operation.

#![expect(clippy::wildcard_enum_match_arm, reason = "few kinds of values have addresses")]

use super::analyzer::Analyzer;
use super::conditions::Arguments;
use crate::knowledge::objects;
use crate::knowledge::value::{Value, Values};
use crate::symbols::Definition;

/// The name under which the analysis records a set of objects that Python hashes by their addresses. The order of such
/// a set depends on the addresses.
pub(super) const SET_OF_OBJECTS: &str = "builtins.set()";
/// The name under which the analysis records the hash of an object that is neither a string nor a number.
const HASH_OF_OBJECT: &str = "builtins.hash()";
/// The name under which the analysis records a string that contains the address of an object.
const SHOWN_OBJECT: &str = "builtins.repr()";

/// Array types. A call of such a type returns uninitialised memory. Any other use, for example in `isinstance`, has the
/// same result in every run.
const ARRAYS: [&str; 3] = ["numpy.chararray", "numpy.ndarray", "numpy.recarray"];

/// Functions with a result that differs from run to run if the call has no arguments. Such a call uses a random seed or
/// the current time.
const WITHOUT_ARGUMENTS: [&str; 10] = [
    "numpy.random.RandomState",
    "numpy.random.SeedSequence",
    "numpy.random.default_rng",
    "numpy.random.seed",
    "random.Random",
    "random.seed",
    "time.asctime",
    "time.ctime",
    "time.gmtime",
    "time.localtime",
];

impl<'a> Analyzer<'a, '_> {
    /// Records a call if its result may differ from run to run.
    pub(super) fn record_addresses(
        &mut self,
        path: Option<&str>,
        method: Option<&str>,
        arguments: &Arguments<'a>,
    ) {
        let first = arguments.positional(0);
        match path {
            Some("builtins.frozenset" | "builtins.set")
                if first.is_some_and(|of| of.any_element().any(&mut has_address)) =>
            {
                self.record_use(SET_OF_OBJECTS);
            }
            Some("builtins.hash") if !first.is_some_and(is_hashed_by_value) => {
                self.record_use(HASH_OF_OBJECT);
            }
            Some("builtins.ascii" | "builtins.format" | "builtins.repr" | "builtins.str") => {
                if let Some(of) = first {
                    self.record_shown(of);
                }
            }
            Some(path)
                if ARRAYS.contains(&path)
                    || (WITHOUT_ARGUMENTS.contains(&path) && arguments.all().next().is_none()) =>
            {
                self.record_use(&[path, "()"].concat());
            }
            _ => {}
        }
        match method {
            Some("add") if arguments.all().any(|of| of.any(&mut has_address)) => {
                self.record_use(SET_OF_OBJECTS);
            }
            Some("format") => {
                for of in arguments.all() {
                    self.record_shown(of);
                }
            }
            _ => {}
        }
        // An argument that is the function `hash` may be called elsewhere, for example as the key of a sort.
        let is_hash =
            |value: &Value<'_>| matches!(value, Value::Object(path) if path == "builtins.hash");
        if arguments.all().any(|of| of.known.iter().any(is_hash)) {
            self.record_use(HASH_OF_OBJECT);
        }
    }

    /// Records a conversion of an object to a string that contains the object's address. The object is a function, or
    /// an instance of a script's class that defines no conversion to a string.
    pub(super) fn record_shown(&mut self, values: &Values<'a>) {
        if self.is_quiet {
            return;
        }
        let has_text = ["__format__", "__repr__", "__str__"]
            .iter()
            .any(|name| self.symbols.own_attributes.contains(name));
        let shows = values.known.iter().any(|value| match value {
            Value::OwnFunction(_) => true,
            // A decorator or a base class may define the conversion, so only instances of classes without decorators
            // and bases are recorded.
            Value::Own(class) if !has_text && !values.is_open => {
                let definition = self.symbols.definition(*class);
                let is_plain = definition.decorators().next().is_none();
                is_plain
                    && matches!(definition, Definition::Class(class) if class.bases().is_empty())
            }
            _ => false,
        });
        if shows {
            self.record_use(SHOWN_OBJECT);
        }
    }
}

/// Returns whether a value is a function or a class, which Python hashes by its address.
pub(super) fn has_address(value: &Value<'_>) -> bool {
    match value {
        Value::OwnClass(_) | Value::OwnFunction(_) => true,
        Value::Object(path) => path.starts_with("builtins.") || objects::is_class(value),
        _ => false,
    }
}

/// Returns whether all alternatives are strings, numbers or containers of these, which Python hashes by value.
fn is_hashed_by_value(values: &Values<'_>) -> bool {
    let all = values.within();
    let is_data = |value: &Value<'_>| {
        matches!(value, Value::Text(_) | Value::Start(_) | Value::Number(_) | Value::Plain)
    };
    !all.is_open && all.known.iter().all(is_data)
}
