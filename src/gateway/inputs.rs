//! The inputs of a script: files that the caller passes with the script. The caller passes contents, never a path of
//! this machine.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::written::{Content, Files, INPUTS_MAX, Scalar, VALUES_MAX};

/// The maximum total size of all inputs of a script, in bytes.
pub(crate) const INPUT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The maximum length of an input's file name, in bytes.
const NAME_BYTES_MAX: usize = 100;
/// The maximum number of characters of an input's file name that an error message shows.
const SHOWN_CHARS: usize = 60;

/// The file names and suffixes that inputs must not have, and the reasons. A suffix starts with a dot.
const NOT_DATA: &[(&str, &str)] = &[
    (".py", CODE),
    (".pyc", CODE),
    (".pyd", CODE),
    (".pyo", CODE),
    (".pyw", CODE),
    (".pyz", CODE),
    (".pth", "Python runs lines of such a file at its start"),
    (".so", NATIVE),
    (".dll", NATIVE),
    (".dylib", NATIVE),
    (".egg", CODE),
    (".whl", CODE),
    (".mplstyle", SETTINGS),
    ("matplotlibrc", SETTINGS),
];
const CODE: &str = "Python could import it as code";
const NATIVE: &str = "it could be loaded as native code";
const SETTINGS: &str = "matplotlib could read its settings from it";

/// The argument `inputs`: a JSON object. Its keys are file names. Each value is a string, `{"base64": …}` or
/// `{"json": …}`.
pub(crate) type WrittenInputs = Files<Content>;
/// Files in the format of `SandboxFusion` (another server that runs code): a JSON object. Its keys are file names. Each
/// value is a base64 string or `null`.
pub(crate) type Base64Files = Files<Scalar>;

/// The reason why inputs are refused. The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum InputError {
    #[error(
        "'inputs' must be an object with file names and contents, such as {{\"orders.csv\": \"a,b\"}}."
    )]
    NotAnObject,
    #[error("'inputs' has {0} files; at most {INPUTS_MAX} are allowed.")]
    TooMany(usize),
    #[error("'inputs' are larger than {} MiB together.", INPUT_BYTES_MAX / (1024 * 1024))]
    TooLarge,
    #[error(
        "'inputs': {0} is not a plain file name. Use up to {NAME_BYTES_MAX} ASCII letters, digits, \
         '.', '_', '-' and spaces, start with a letter or digit, and do not end with '.' or a \
         space."
    )]
    Name(String),
    #[error("'inputs': {0} is not allowed as a name, because {1}.")]
    NotData(String, &'static str),
    #[error("'inputs': the names {0} and {1} are the same apart from upper and lower case.")]
    Alike(String, String),
    #[error("'inputs': the name {0} is given twice.")]
    Twice(String),
    #[error(
        "'inputs': the content of {0} must be a text, {{\"base64\": \"…\"}} for other bytes, or {{\"json\": …}}."
    )]
    Content(String),
    #[error("'inputs': the content of {0} is not valid base64.")]
    Base64(String),
    #[error("'inputs': {0} has more than {VALUES_MAX} values; pass it as a text.")]
    TooManyValues(String),
}

/// The type that a file has in the script's mapping `inputs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// A string.
    Text,
    /// Bytes.
    Bytes,
    /// The value that the file contains as JSON.
    Json,
}

#[derive(Clone, PartialEq, Eq)]
struct Input {
    name: String,
    form: Form,
    content: Vec<u8>,
    /// The SHA-256 of the content, as hexadecimal digits.
    sha256: String,
}

/// The files that a caller passes with a script. Cheap to clone. `Debug` never shows the contents, so that logs do not
/// contain them.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Inputs(Arc<[Input]>);

impl Inputs {
    /// Parses the argument `inputs`: an object with a text, `{"base64": …}` or `{"json": …}` for each name. `null`
    /// counts as an empty object.
    pub(crate) fn from_json(inputs: Value) -> Result<Self, InputError> {
        // Never fails, because `Files` accepts every JSON value.
        let written = WrittenInputs::deserialize(inputs).map_err(|_| InputError::NotAnObject)?;
        Self::from_written(written)
    }

    /// Decodes inputs that were read from JSON.
    pub(crate) fn from_written(written: WrittenInputs) -> Result<Self, InputError> {
        let files = of_object(written)?.into_iter().map(|(name, content)| {
            let (form, content) = content_of(&name, content)?;
            Ok((name, form, content))
        });
        Self::new(files.collect::<Result<_, _>>()?)
    }

    /// Decodes files with base64 contents. Omits files with the content `null`. A name may start with `./`.
    pub(crate) fn from_base64(written: Base64Files) -> Result<Self, InputError> {
        let mut files = Vec::new();
        for (name, content) in of_object(written)? {
            let name = name.strip_prefix("./").unwrap_or(&name);
            match content {
                Scalar::Text(text) => {
                    files.push((name.to_owned(), Form::Bytes, decoded(name, &text)?));
                }
                Scalar::Null => {}
                Scalar::Other => return Err(InputError::Base64(shown(name))),
            }
        }
        Self::new(files)
    }

    /// Creates inputs from files. The script sees a file as a string if the file is UTF-8, otherwise as bytes.
    pub(crate) fn from_files(files: Vec<(String, Vec<u8>)>) -> Result<Self, InputError> {
        let with_form = |(name, content): (String, Vec<u8>)| {
            let form = if std::str::from_utf8(&content).is_ok() { Form::Text } else { Form::Bytes };
            (name, form, content)
        };
        Self::new(files.into_iter().map(with_form).collect())
    }

    /// Creates inputs from files. The [`Form`] of a file is the type that the script sees.
    pub(crate) fn new(files: Vec<(String, Form, Vec<u8>)>) -> Result<Self, InputError> {
        let names: Vec<&str> = files.iter().map(|(name, ..)| &**name).collect();
        Self::require_names(&names)?;
        if files.iter().map(|(.., content)| content.len()).sum::<usize>() > INPUT_BYTES_MAX {
            return Err(InputError::TooLarge);
        }
        let input = |(name, form, content): (String, Form, Vec<u8>)| {
            let sha256 = hex::encode(Sha256::digest(&content));
            Input { name, form, content, sha256 }
        };
        // Sort by name, so that a replay of the receipt gives the script the same order.
        let mut inputs: Vec<Input> = files.into_iter().map(input).collect();
        inputs.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(Self(inputs.into()))
    }

    /// Refuses a name that is not a plain file name or is forbidden. Also refuses two names that are equal if upper and
    /// lower case are ignored.
    pub(crate) fn require_names(names: &[&str]) -> Result<(), InputError> {
        if names.len() > INPUTS_MAX {
            return Err(InputError::TooMany(names.len()));
        }
        for (place, name) in names.iter().enumerate() {
            require_plain(name)?;
            let mut others = names.iter().take(place);
            if let Some(other) = others.find(|other| other.eq_ignore_ascii_case(name)) {
                return Err(if other == name {
                    InputError::Twice(shown(name))
                } else {
                    InputError::Alike(shown(other), shown(name))
                });
            }
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|input| &*input.name).collect()
    }

    /// Returns each file with its name, form and content.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, Form, &[u8])> {
        self.0.iter().map(|Input { name, form, content, .. }| (&**name, *form, &**content))
    }

    /// Returns the name and the SHA-256 of each file.
    pub(crate) fn digests(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|Input { name, sha256, .. }| (&**name, &**sha256))
    }

    /// Returns the files in the form of the argument `inputs`, for a job that another replica runs.
    pub(crate) fn to_json(&self) -> Value {
        let of = |(name, form, content): (&str, Form, &[u8])| {
            let content = match form {
                Form::Text => json!(String::from_utf8_lossy(content)),
                Form::Bytes => json!({ "base64": STANDARD.encode(content) }),
                Form::Json => {
                    json!({ "json": serde_json::from_slice::<Value>(content).unwrap_or_default() })
                }
            };
            (name.to_owned(), content)
        };
        Value::Object(self.files().map(of).collect())
    }

    /// Returns the size and the SHA-256 of each file by its name, as a JSON object. Decisions, results and the audit
    /// log contain this object instead of the contents.
    pub(crate) fn description(&self) -> Map<String, Value> {
        let of = |Input { name, content, sha256, .. }: &Input| {
            (name.clone(), json!({ "bytes": content.len(), "sha256": sha256 }))
        };
        self.0.iter().map(of).collect()
    }
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.0.iter().map(|input| (&input.name, input.content.len()));
        f.debug_map().entries(sizes).finish()
    }
}

/// Returns the files that were read from a JSON value. Fails if the value was not an object, or had too many files.
fn of_object<C>(files: Files<C>) -> Result<Vec<(String, C)>, InputError> {
    let Files { first, count, is_object } = files;
    match (is_object, count <= INPUTS_MAX) {
        (true, true) => Ok(first),
        (true, false) => Err(InputError::TooMany(count)),
        (false, _) => Err(InputError::NotAnObject),
    }
}

fn content_of(name: &str, content: Content) -> Result<(Form, Vec<u8>), InputError> {
    match content {
        Content::Text(text) => Ok((Form::Text, text.into_bytes())),
        Content::Base64(text) => Ok((Form::Bytes, decoded(name, &text)?)),
        Content::Json(text) => Ok((Form::Json, text)),
        Content::TooManyValues => Err(InputError::TooManyValues(shown(name))),
        Content::Other => Err(InputError::Content(shown(name))),
    }
}

fn decoded(name: &str, text: &str) -> Result<Vec<u8>, InputError> {
    // Accept line breaks, because programs such as base64(1) write them.
    let joined = |_| STANDARD.decode(text.split_ascii_whitespace().collect::<String>());
    STANDARD.decode(text).or_else(joined).map_err(|_| InputError::Base64(shown(name)))
}

/// Refuses a name that is not a plain file name. Also refuses names of files that Python or a package loads as code or
/// settings.
fn require_plain(name: &str) -> Result<(), InputError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " ._-".contains(c);
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !starts_well
        || name.ends_with(['.', ' '])
        || name.len() > NAME_BYTES_MAX
        || !name.chars().all(is_plain)
    {
        return Err(InputError::Name(shown(name)));
    }
    let lower = name.to_ascii_lowercase();
    let is_such =
        |row: &str| if row.starts_with('.') { lower.ends_with(row) } else { lower == row };
    match NOT_DATA.iter().find(|(row, _)| is_such(row)) {
        Some((_, reason)) => Err(InputError::NotData(shown(name), reason)),
        None => Ok(()),
    }
}

/// Returns a name in quotes, shortened and with escapes, for an error message.
fn shown(name: &str) -> String {
    let mut text = String::from('"');
    for c in name.chars().take(SHOWN_CHARS) {
        // Escape characters outside of ASCII. They may look like other characters, or change the direction of the
        // text.
        let _ = if c.is_ascii_graphic() || c == ' ' {
            write!(text, "{c}")
        } else {
            write!(text, "{}", c.escape_unicode())
        };
    }
    if name.chars().nth(SHOWN_CHARS).is_some() {
        text.push('…');
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(inputs: Value) -> String {
        Inputs::from_json(inputs).unwrap_err().to_string()
    }

    #[test]
    fn contents_are_text_bytes_or_json() {
        let inputs = json!({ "a.csv": "x,é\n", "b.bin": { "base64": "AP\n8=\n" }, "c.json": { "json": [1, { "k": null }] } });
        let inputs = Inputs::from_json(inputs).unwrap();
        let files: Vec<_> = inputs.files().collect();
        let expected: [(&str, Form, &[u8]); 3] = [
            ("a.csv", Form::Text, "x,é\n".as_bytes()),
            ("b.bin", Form::Bytes, b"\x00\xff"),
            ("c.json", Form::Json, br#"[1,{"k":null}]"#),
        ];
        assert_eq!(files, expected);
        assert_eq!(inputs.description()["b.bin"]["bytes"], 2);
        assert_eq!(Inputs::from_json(inputs.to_json()), Ok(inputs.clone()));
        assert!(!format!("{inputs:?}").contains("x,"));
        assert!(Inputs::from_json(Value::Null).unwrap().is_empty());
        assert!(Inputs::from_json(json!({})).unwrap().is_empty());
    }

    #[test]
    fn no_more_is_read_from_json_than_inputs_may_have() {
        let read = |text: &str| {
            let written: WrittenInputs = serde_json::from_str(text).unwrap();
            Inputs::from_written(written).map(|inputs| inputs.files().count())
        };
        let many = |value: &str, count: usize| vec![value; count].join(",");
        let a = || "\"a\"".to_owned();
        for (text, expected) in [
            (r#"{"a": {"json": [1, {"k": null}]}, "b": "x"}"#.to_owned(), Ok(2)),
            (format!("{{\"a\": {{\"json\": [{}]}}}}", many("{\"\":0}", VALUES_MAX / 2 - 1)), Ok(1)),
            (
                format!("{{\"a\": {{\"json\": [{}]}}}}", many("{\"\":0}", VALUES_MAX / 2)),
                Err(InputError::TooManyValues(a())),
            ),
            (format!("{{\"a\": [{}]}}", many("[0]", 1000)), Err(InputError::Content(a()))),
            (r#"{"a": {"base64": [1]}}"#.to_owned(), Err(InputError::Content(a()))),
            (r#"{"a": {"base64": "", "json": 1}}"#.to_owned(), Err(InputError::Content(a()))),
            (r#"{"a": "", "a": ""}"#.to_owned(), Err(InputError::Twice(a()))),
            (format!("{{{}}}", many("\"a\":1", 5000)), Err(InputError::TooMany(5000))),
            ("null".to_owned(), Ok(0)),
            ("[{}]".to_owned(), Err(InputError::NotAnObject)),
            ("1.5".to_owned(), Err(InputError::NotAnObject)),
        ] {
            assert_eq!(read(&text), expected, "{}", text.chars().take(80).collect::<String>());
        }
    }

    #[test]
    fn only_plain_names_of_data_are_accepted() {
        for name in ["a", "orders.csv", "Q3 2026.xlsx", "a-b_c.d.e", "9", "a..b", &"a".repeat(100)]
        {
            assert_eq!(require_plain(name), Ok(()), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "...",
            ".a",
            "-a",
            " a",
            "_a",
            "a.",
            "a ",
            "/etc/passwd",
            "../a",
            "a/b",
            "a\\b",
            "./a",
            "a\0",
            "a\n",
            "a\t",
            "a:b",
            "C:a",
            "é.csv",
            "ａ.csv",
            "a\u{301}",
            "a\u{202e}b",
            "ﬁ",
            "a|b",
            "~a",
            "a*",
            "a?",
            "$a",
            "a;b",
            "a&b",
            "a'b",
            "a\"b",
            "a`b",
            "<a>",
            "a,b",
            "a=b",
            "a@b",
            "a%00",
            "(a)",
            "{a}",
            "[a]",
            "\u{feff}a",
            "a\u{200b}",
            "a\u{7f}",
            "К.csv",
            &"a".repeat(101),
        ] {
            assert_eq!(require_plain(name), Err(InputError::Name(shown(name))), "{name:?}");
        }
        for name in [
            "json.py",
            "numpy.PY",
            "a.so",
            "a.pth",
            "matplotlibrc",
            "MATPLOTLIBRC",
            "a.mplstyle",
            "x.dylib",
        ] {
            assert!(matches!(require_plain(name), Err(InputError::NotData(..))), "{name}");
        }
    }

    #[test]
    fn what_is_not_accepted_is_named() {
        for (inputs, expected) in [
            (
                json!("a"),
                "'inputs' must be an object with file names and contents, such as {\"orders.csv\": \"a,b\"}.",
            ),
            (
                json!(["a"]),
                "'inputs' must be an object with file names and contents, such as {\"orders.csv\": \"a,b\"}.",
            ),
            (
                json!({ "a": 1 }),
                "'inputs': the content of \"a\" must be a text, {\"base64\": \"…\"} for other bytes, or {\"json\": …}.",
            ),
            (
                json!({ "a": { "base64": "x", "json": 1 } }),
                "'inputs': the content of \"a\" must be a text, {\"base64\": \"…\"} for other bytes, or {\"json\": …}.",
            ),
            (
                json!({ "a": { "path": "/etc/passwd" } }),
                "'inputs': the content of \"a\" must be a text, {\"base64\": \"…\"} for other bytes, or {\"json\": …}.",
            ),
            (
                json!({ "a": { "base64": "!" } }),
                "'inputs': the content of \"a\" is not valid base64.",
            ),
            (
                json!({ "A.csv": "", "a.CSV": "" }),
                "'inputs': the names \"A.csv\" and \"a.CSV\" are the same apart from upper and lower case.",
            ),
            (
                json!({ "x.py": "" }),
                "'inputs': \"x.py\" is not allowed as a name, because Python could import it as code.",
            ),
        ] {
            assert_eq!(error(inputs), expected);
        }
        let shown = error(json!({ "a\u{1b}[31m/\u{202e}": "" }));
        assert!(shown.contains("\"a\\u{1b}[31m/\\u{202e}\" is not a plain file name"), "{shown}");
        let many: Map<_, _> = (0..17).map(|n| (n.to_string(), json!(""))).collect();
        assert_eq!(error(Value::Object(many)), "'inputs' has 17 files; at most 16 are allowed.");
        let large = vec![("a".to_owned(), vec![0; INPUT_BYTES_MAX]), ("b".to_owned(), vec![0])];
        assert_eq!(Inputs::from_files(large), Err(InputError::TooLarge));
        let twice = vec![("a".to_owned(), Vec::new()), ("a".to_owned(), Vec::new())];
        assert_eq!(Inputs::from_files(twice), Err(InputError::Twice("\"a\"".to_owned())));
    }
}
