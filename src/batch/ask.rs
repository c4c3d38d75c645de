//! Parses a line of a batch into a script and its settings. This module never runs a script.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::value::Check;
use crate::config::MEMORY_MB_MIN;
use crate::executor::{DEPTH_MAX, Data};
use crate::gateway::{Inputs, WrittenInputs};
use crate::plain_text::json_fault;
use crate::safety::is_expression;
use crate::verdict::shortened;

/// The maximum length of an id, in bytes. It limits the length of answers, which repeat the id.
const ID_BYTES_MAX: usize = 512;

/// The maximum number of tests of one script. Each test is a run, and the line's answer has an entry for each test.
const TESTS_MAX: usize = 1000;

/// The maximum total length of the calls in a line's tests, in bytes. The analysis reads them together with the
/// script.
const CALLS_BYTES_MAX: usize = 512 * 1024;

/// The maximum number of digits of a number in a line's `meta` or in an expected value, so that Python programs can
/// read the answer. Python's JSON reader refuses longer integers.
const DIGITS_MAX: usize = 4300;

/// The limits of each script. A line can only lower them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) timeout: Duration,
    /// The maximum memory of each run, in MiB.
    pub(crate) memory_mb: u64,
}

/// A script to run, with all settings from its line.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) id: String,
    pub(super) code: String,
    /// The tests of the script. Each test is one run. If the line contains no tests, its `stdin` and its expected
    /// output are the only test.
    pub(super) tests: Vec<Test>,
    /// Whether the line itself contains tests.
    pub(super) has_tests: bool,
    /// The files that the script may read in each run.
    pub(super) inputs: Inputs,
    pub(super) bounds: Bounds,
    pub(super) meta: Option<Box<RawValue>>,
    /// The hash of everything in the line that the answer depends on. `None` for a script that is not from a line.
    pub(super) line_sha256: Option<String>,
}

/// One run of a script, with its expected result.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Test {
    /// The script reads `stdin`. `stdout` is the expected output; `None` if no output is expected.
    Output { stdin: String, stdout: Option<String> },
    /// The expression `call` is evaluated after the script. `value` is the expected value, as JSON.
    Call { call: String, value: Box<RawValue>, check: Check },
}

/// A test in the JSON of a line, before it is validated. [`Self::parse`] checks that its fields may be combined.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTest {
    stdin: Option<String>,
    stdout: Option<String>,
    call: Option<String>,
    /// The JSON value `null` becomes `Some`, because `null` can be the expected value.
    #[serde(default, deserialize_with = "present")]
    value: Option<Box<RawValue>>,
    check: Option<Check>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

#[derive(Debug)]
pub(super) struct Invalid {
    pub(super) number: u64,
    /// The line's id. `None` if the id cannot be read. The number of the line does not replace an unreadable id,
    /// because the number may be the id of another line.
    pub(super) id: Option<String>,
    pub(super) reason: String,
}

/// A value that must be a JSON object. Without this type, serde would also accept an array with the values of the
/// fields in order.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMap<T> {
            type Value = Object<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(OfMap(PhantomData))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: Option<Id>,
    code: String,
    stdin: Option<String>,
    inputs: Option<WrittenInputs>,
    timeout: Option<f64>,
    memory_mb: Option<u64>,
    expect: Option<Object<Expectation>>,
    tests: Option<Vec<Object<WrittenTest>>>,
    meta: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "the id is neither a text nor a whole number")]
enum Id {
    Text(String),
    Number(i64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    stdout: String,
}

/// The fields of a line that affect the line's answer, in the form that is hashed. `id` and `meta` do not affect the
/// answer. The limits from the command line are omitted, because a batch may be resumed with another `--timeout`.
#[derive(Serialize)]
struct Hashed<'a> {
    code: &'a str,
    has_tests: bool,
    tests: &'a [Test],
    /// The digests of the inputs. Omitted if the line has no inputs, so that the hash is the same as in earlier
    /// versions.
    #[serde(skip_serializing_if = "Map::is_empty")]
    inputs: Map<String, Value>,
    timeout: Option<f64>,
    memory_mb: Option<u64>,
}

/// Only the id of a line. Used if another field of the line is invalid.
#[derive(Deserialize)]
struct Named {
    id: Option<Id>,
}

impl Id {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        }
    }
}

impl Ask {
    /// Parses a line as [`Self::parse`] does. If the line is too long, `line` is an error with the maximum length in
    /// bytes.
    pub(super) fn take(
        number: u64,
        line: Result<&[u8], usize>,
        most: Bounds,
    ) -> Result<Self, Invalid> {
        let too_long = |bytes_max: usize| {
            let reason = format!("the line is longer than {} MiB", bytes_max / (1024 * 1024));
            Invalid { number, id: None, reason }
        };
        Self::parse(number, line.map_err(too_long)?, most)
    }

    /// Parses the line with this number. `most` contains the limits of the batch, which the line cannot raise.
    pub(super) fn parse(number: u64, line: &[u8], most: Bounds) -> Result<Self, Invalid> {
        let parsed = serde_json::from_slice::<Object<Line>>(line);
        let parsed = parsed.map_err(|error| json_fault(&error));
        let taken = parsed.and_then(|Object(line)| Self::of(number, line, most));
        taken.map_err(|reason| {
            let named = serde_json::from_slice::<Object<Named>>(line).ok();
            // If the line is a JSON object without an id, the number of the line is its id, as for a valid line.
            let id =
                named.map(|Object(it)| it.id.map_or_else(|| number.to_string(), Id::into_text));
            let id = id.filter(|id| is_id(id));
            Invalid { number, id, reason }
        })
    }

    fn of(number: u64, line: Line, most: Bounds) -> Result<Self, String> {
        let Line { id, code, stdin, inputs, timeout, memory_mb, expect, tests, meta } = line;
        let id = id.map_or_else(|| number.to_string(), Id::into_text);
        if !is_id(&id) {
            return Err(format!("the id is empty, or longer than {ID_BYTES_MAX} bytes"));
        }
        if code.trim().is_empty() {
            return Err("the code is empty".to_owned());
        }
        let has_tests = tests.is_some();
        let tests = match tests {
            Some(_) if stdin.is_some() || expect.is_some() => {
                return Err("with tests, stdin and expect belong in the tests".to_owned());
            }
            Some(tests) if tests.is_empty() || tests.len() > TESTS_MAX => {
                return Err(format!("{} tests; 1 to {TESTS_MAX} are allowed", tests.len()));
            }
            Some(tests) => {
                tests.into_iter().map(|Object(test)| test.parse()).collect::<Result<_, _>>()?
            }
            None => {
                let (stdin, stdout) =
                    (stdin.unwrap_or_default(), expect.map(|Object(it)| it.stdout));
                vec![Test::Output { stdin, stdout }]
            }
        };
        if tests.iter().filter_map(Test::call).map(str::len).sum::<usize>() > CALLS_BYTES_MAX {
            let most = CALLS_BYTES_MAX / 1024;
            return Err(format!("the calls of the tests are longer than {most} KiB together"));
        }
        if let Some(meta) = &meta {
            require_readable("meta", meta.get())?;
        }
        let bounds = Bounds {
            timeout: timeout.map_or(Ok(most.timeout), |it| below_timeout(it, most.timeout))?,
            memory_mb: memory_mb
                .map_or(Ok(most.memory_mb), |it| below_memory(it, most.memory_mb))?,
        };
        let inputs = inputs.map(Inputs::from_written).transpose();
        let inputs = inputs.map_err(|error| error.to_string())?.unwrap_or_default();
        let digests = inputs.description();
        let hashed =
            Hashed { code: &code, has_tests, tests: &tests, inputs: digests, timeout, memory_mb };
        let line_sha256 = Some(hashed.sha256());
        Ok(Self { id, code, tests, has_tests, inputs, bounds, meta, line_sha256 })
    }
}

impl Ask {
    /// Returns whether the line contains an expected result, with which the script's result is compared.
    pub(super) fn is_judged(&self) -> bool {
        self.tests.iter().any(|test| match test {
            Test::Output { stdout, .. } => stdout.is_some(),
            Test::Call { .. } => true,
        })
    }

    pub(super) fn calls(&self) -> Arc<[String]> {
        self.tests.iter().filter_map(Test::call).map(str::to_owned).collect()
    }
}

impl Test {
    /// Returns the expression that is evaluated after the script, if the test has one.
    pub(super) fn call(&self) -> Option<&str> {
        match self {
            Self::Output { .. } => None,
            Self::Call { call, .. } => Some(call),
        }
    }
}

impl WrittenTest {
    fn parse(self) -> Result<Test, String> {
        match self {
            Self { stdin, stdout: Some(stdout), call: None, value: None, check: None } => {
                Ok(Test::Output { stdin: stdin.unwrap_or_default(), stdout: Some(stdout) })
            }
            Self { stdin: None, stdout: None, call: Some(call), value: Some(value), check } => {
                if !is_expression(&call) {
                    return Err(format!("the call {:?} is not one expression", shortened(&call)));
                }
                require_readable("value", value.get())?;
                let check = check.unwrap_or_default();
                let expected = Data::expected(&value).map_err(|error| json_fault(&error))?;
                check.fault(&expected).map_or(Ok(()), |fault| Err(fault.to_owned()))?;
                Ok(Test::Call { call, value, check })
            }
            Self { call: None, value: None, check: None, .. } => {
                Err("a test has no expected stdout".to_owned())
            }
            Self { call: Some(_), value: None, stdin: None, stdout: None, .. } => {
                Err("a test has a call but no value".to_owned())
            }
            _ => Err("a test has either stdin and stdout, or call, value and check".to_owned()),
        }
    }
}

impl Hashed<'_> {
    fn sha256(&self) -> String {
        // Serialization cannot fail for text and finite numbers.
        hex::encode(Sha256::digest(serde_json::to_vec(self).unwrap_or_default()))
    }
}

/// Refuses JSON that readers of the answer may be unable to parse: deep nesting, and numbers with too many digits.
fn require_readable(name: &str, json: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    let mut digits = 0_usize;
    let mut in_text = false;
    let mut is_escaped = false;
    for byte in json.bytes() {
        digits = if byte.is_ascii_digit() && !in_text { digits + 1 } else { 0 };
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth -= 1,
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(format!("the {name} is nested deeper than {DEPTH_MAX}"));
        }
        if digits > DIGITS_MAX {
            return Err(format!("the {name} has a number of more than {DIGITS_MAX} digits"));
        }
    }
    Ok(())
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= ID_BYTES_MAX
}

fn below_timeout(seconds: f64, most: Duration) -> Result<Duration, String> {
    let asked = Duration::try_from_secs_f64(seconds).ok().filter(|asked| !asked.is_zero());
    asked.filter(|asked| *asked <= most).ok_or_else(|| {
        let most = most.as_secs_f64();
        format!("timeout: {seconds} is not above 0 and up to {most} (`run --timeout` changes the maximum)")
    })
}

fn below_memory(memory_mb: u64, most: u64) -> Result<u64, String> {
    if (MEMORY_MB_MIN.min(most)..=most).contains(&memory_mb) {
        return Ok(memory_mb);
    }
    Err(format!("memory_mb: {memory_mb} is not from {MEMORY_MB_MIN} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Bounds = Bounds { timeout: Duration::from_secs(30), memory_mb: 1024 };

    fn parse(line: &str) -> Result<Ask, Invalid> {
        Ask::parse(7, line.as_bytes(), MOST)
    }

    #[test]
    fn only_the_code_is_needed() {
        let ask = parse(r#"{"code":"print(1)"}"#).unwrap();
        assert_eq!((ask.id.as_str(), ask.code.as_str()), ("7", "print(1)"));
        assert!(
            matches!(&ask.tests[..], [Test::Output { stdin, stdout: None }] if stdin.is_empty())
        );
        assert!(!ask.has_tests && ask.meta.is_none());
        assert_eq!((ask.bounds.timeout, ask.bounds.memory_mb), (MOST.timeout, MOST.memory_mb));
    }

    #[test]
    fn everything_that_a_line_can_say_is_taken() {
        let ask = parse(
            r#"{"id":"a/1","code":"1","stdin":"3 4\n","timeout":0.5,"memory_mb":256,
                "expect":{"stdout":"7\n"},"meta":{"z":1,"a":[2.50]}}"#,
        );
        let ask = ask.unwrap();
        assert_eq!(ask.id, "a/1");
        let [Test::Output { stdin, stdout }] = &ask.tests[..] else { panic!("{:?}", ask.tests) };
        assert_eq!((stdin.as_str(), stdout.as_deref()), ("3 4\n", Some("7\n")));
        assert_eq!((ask.bounds.timeout.as_millis(), ask.bounds.memory_mb), (500, 256));
        // `meta` is unchanged: its keys are not sorted, and its numbers are not rounded.
        assert_eq!(ask.meta.unwrap().get(), r#"{"z":1,"a":[2.50]}"#);
        let ask =
            parse(r#"{"id":12,"code":"1","tests":[{"stdout":"1"},{"stdin":"2","stdout":"3"}]}"#);
        let ask = ask.unwrap();
        assert_eq!((ask.id.as_str(), ask.tests.len(), ask.has_tests), ("12", 2, true));
    }

    #[test]
    fn what_is_not_understood_is_told_with_the_id_that_it_has() {
        for (line, id, reason) in [
            ("{", None, "not JSON: EOF while parsing an object at column 1"),
            ("[1]", None, "sequence, expected a JSON object"),
            (r#"["x","print(1)"]"#, None, "sequence, expected a JSON object"),
            ("1", None, "expected a JSON object"),
            ("\u{1}", None, "expected value"),
            (
                r#"{"id":"x","code":"1","tests":[["1","2"]]}"#,
                Some("x"),
                "sequence, expected a JSON object",
            ),
            (
                r#"{"id":"x","code":"1","expect":["1"]}"#,
                Some("x"),
                "sequence, expected a JSON object",
            ),
            (r#"{"code":1}"#, Some("7"), "invalid type"),
            (r#"{"id":"x"}"#, Some("x"), "missing field `code`"),
            (r#"{"id":"x","code":" "}"#, Some("x"), "the code is empty"),
            (r#"{"id":"x","code":1}"#, Some("x"), "invalid type"),
            (r#"{"id":"x","code":"1","extra":1}"#, Some("x"), "unknown field `extra`"),
            (r#"{"id":1.5,"code":"1"}"#, None, "neither a text nor a whole number"),
            (r#"{"id":"","code":"1"}"#, None, "the id is empty"),
            (r#"{"id":"x","code":"1","timeout":31}"#, Some("x"), "timeout: 31"),
            (r#"{"id":"x","code":"1","timeout":0}"#, Some("x"), "timeout: 0"),
            (r#"{"id":"x","code":"1","timeout":-1}"#, Some("x"), "timeout: -1"),
            (r#"{"id":"x","code":"1","memory_mb":2048}"#, Some("x"), "memory_mb: 2048"),
            (r#"{"id":"x","code":"1","memory_mb":1}"#, Some("x"), "memory_mb: 1"),
            (r#"{"id":"x","code":"1","tests":[]}"#, Some("x"), "0 tests"),
            (r#"{"id":"x","code":"1","tests":[{}]}"#, Some("x"), "no expected stdout"),
            (
                r#"{"id":"x","code":"1","stdin":"","tests":[{"stdout":""}]}"#,
                Some("x"),
                "in the tests",
            ),
            (
                r#"{"id":"x","code":"1","expect":{"stdout":"","stderr":""}}"#,
                Some("x"),
                "unknown field",
            ),
        ] {
            let invalid = parse(line).unwrap_err();
            assert_eq!((invalid.number, invalid.id.as_deref()), (7, id), "{line}");
            assert!(invalid.reason.contains(reason), "{line}: {}", invalid.reason);
        }
        let invalid = Ask::parse(3, b"{\"code\":\"\xff\"}", MOST).unwrap_err();
        assert_eq!((invalid.number, invalid.id.as_deref()), (3, Some("3")));
    }

    #[test]
    fn the_hash_of_a_line_covers_what_its_answer_depends_on() {
        let hash = |line: &str| parse(line).unwrap().line_sha256.unwrap();
        let base = hash(r#"{"code":"1"}"#);
        for same in [
            r#"{"code":"1","id":"x","meta":{"step":1}}"#,
            r#"{ "stdin": "", "code": "\u0031" }"#,
            r#"{"code":"1","timeout":null,"expect":null}"#,
        ] {
            assert_eq!(hash(same), base, "{same}");
        }
        let mut hashes = std::collections::BTreeSet::from([base]);
        for other in [
            r#"{"code":"2"}"#,
            r#"{"code":"1","stdin":"a"}"#,
            r#"{"code":"1","expect":{"stdout":""}}"#,
            r#"{"code":"1","expect":{"stdout":"a"}}"#,
            r#"{"code":"1","tests":[{"stdout":"a"}]}"#,
            r#"{"code":"1","tests":[{"stdin":"a","stdout":"a"}]}"#,
            r#"{"code":"1","tests":[{"stdout":"a"},{"stdout":"a"}]}"#,
            r#"{"code":"1","timeout":5}"#,
            r#"{"code":"1","timeout":5.5}"#,
            r#"{"code":"1","memory_mb":512}"#,
        ] {
            assert!(hashes.insert(hash(other)), "{other}");
        }
    }

    #[test]
    fn a_meta_that_readers_cannot_take_is_not_taken() {
        let line = |meta: &str| format!(r#"{{"code":"1","meta":{meta}}}"#);
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(&line(&nested(128))).is_ok());
        assert!(parse(&line(&format!(r#"["\"{}"]"#, "[".repeat(999)))).is_ok());
        for deep in [nested(129), format!(r#"{{"a":"\\","b":{}}}"#, nested(128))] {
            let invalid = parse(&line(&deep)).unwrap_err();
            assert_eq!(invalid.reason, "the meta is nested deeper than 128");
        }
        let digits = |count: usize| "9".repeat(count);
        let many = digits(4301);
        for short in
            [digits(4300), format!("-{}", digits(4300)), format!(r#"["{many}", "\"{many}"]"#)]
        {
            assert!(parse(&line(&short)).is_ok(), "{short:.20}");
        }
        for long in [many.clone(), format!("-{many}"), format!(r#"{{"a":["x",{many}]}}"#)] {
            let invalid = parse(&line(&long)).unwrap_err();
            assert_eq!(invalid.reason, "the meta has a number of more than 4300 digits");
        }
    }

    #[test]
    fn a_test_has_an_output_or_a_call() {
        for (tests, reason) in [
            (r#"[{"call":"f()"}]"#, "a call but no value"),
            (
                r#"[{"call":"f()","value":1,"stdin":""}]"#,
                "either stdin and stdout, or call, value and check",
            ),
            (
                r#"[{"stdout":"","check":"set"}]"#,
                "either stdin and stdout, or call, value and check",
            ),
            (r#"[{"call":"x = f()","value":1}]"#, "the call \"x = f()\" is not one expression"),
            (r#"[{"call":"f()","value":1,"check":"set"}]"#, "the value is an array"),
            (r#"[{"call":"f()","value":1,"check":"same"}]"#, "unknown variant `same`"),
        ] {
            let invalid = parse(&format!(r#"{{"code":"1","tests":{tests}}}"#)).unwrap_err();
            assert!(invalid.reason.contains(reason), "{tests}: {}", invalid.reason);
        }
        let ask = parse(r#"{"code":"1","tests":[{"call":"f()","value":null}]}"#).unwrap();
        assert_eq!((&*ask.calls(), ask.is_judged()), (&["f()".to_owned()][..], true));
        let long = format!("f('{}')", "x".repeat(CALLS_BYTES_MAX));
        let line = serde_json::json!({ "code": "1", "tests": [{ "call": long, "value": 1 }] });
        let invalid = parse(&line.to_string()).unwrap_err();
        assert!(invalid.reason.contains("longer than 512 KiB"), "{}", invalid.reason);
    }
}
