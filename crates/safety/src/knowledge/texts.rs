//! Computes strings and sequences that a script builds from known parts with common operations, exactly as Python does.
//! All other results are unknown. Unknown results are safe, because the analysis refuses `getattr` with an unknown
//! name.

#![expect(clippy::wildcard_enum_match_arm, reason = "most values and operators make no text")]

use ruff_python_ast::{Expr, Operator};

use super::value::{ITEMS_MAX, TEXT_BYTES_MAX, Value, Values};

/// The maximum number of alternatives of a composed string. A string with more alternatives is unknown.
const WHOLES_MAX: usize = 16;

/// Appends each of `parts` to each string in `wholes`, so that every combination becomes an alternative. Clears
/// `wholes` if the result would be too large.
pub(crate) fn push<T: AsRef<str>>(wholes: &mut Vec<String>, parts: &[T]) {
    let before: usize = wholes.iter().map(String::len).sum();
    let added: usize = parts.iter().map(|part| part.as_ref().len()).sum();
    let bytes = before * parts.len() + added * wholes.len();
    match parts {
        [part] if bytes <= TEXT_BYTES_MAX => {
            for whole in wholes {
                whole.push_str(part.as_ref());
            }
        }
        _ if bytes <= TEXT_BYTES_MAX && wholes.len() * parts.len() <= WHOLES_MAX => {
            let alone = std::mem::take(wholes);
            for part in parts {
                wholes.extend(alone.iter().map(|whole| format!("{whole}{}", part.as_ref())));
            }
        }
        _ => wholes.clear(),
    }
}

/// Returns `str(value)` for each alternative. Returns an empty list if an alternative is unknown, or is not a string or
/// integer.
pub(crate) fn displays(values: &Values<'_>) -> Vec<String> {
    let shown = values.known.iter().map(|value| display(&Values::one(value.clone())));
    if values.is_open { Vec::new() } else { shown.collect::<Option<_>>().unwrap_or_default() }
}

/// Returns `left op right` for strings and sequences. Returns `None` if nothing is known about the result.
pub(crate) fn combined<'a>(
    left: &Values<'a>,
    op: Operator,
    right: &Values<'a>,
) -> Option<Values<'a>> {
    if op == Operator::Add {
        match (left.single(), right.single()) {
            (Some(Value::Text(_)), Some(Value::Text(_))) => {}
            (Some(Value::Text(start) | Value::Start(start)), _) => {
                return Some(Values::start(start));
            }
            _ => {}
        }
    }
    match (left.single()?, op, right.single()?) {
        (Value::Text(left), Operator::Add, Value::Text(right)) => {
            let fits = left.len() + right.len() <= TEXT_BYTES_MAX;
            fits.then(|| Values::text([&**left, right].concat()))
        }
        (Value::Text(text), Operator::Mult, Value::Number(count)) => {
            let count = usize::try_from(*count).unwrap_or(0);
            let fits = text.len().saturating_mul(count) <= TEXT_BYTES_MAX;
            fits.then(|| Values::text(text.repeat(count)))
        }
        (Value::Items(left), Operator::Add, Value::Items(right)) => {
            let fits = left.len() + right.len() <= ITEMS_MAX;
            Some(if fits { Values::items([&**left, &**right].concat()) } else { Values::unknown() })
        }
        _ => None,
    }
}

/// Returns `str(value)`, if the only possible value is a string or an integer.
pub(crate) fn display(values: &Values<'_>) -> Option<String> {
    match values.single()? {
        Value::Text(text) => Some(text.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns one character of a known string, or the whole string in reverse. Any other slice of a known string is
/// unknown.
pub(crate) fn sliced<'a>(base: &Values<'a>, slice: &Expr, key: &Values<'a>) -> Option<Values<'a>> {
    let text = base.as_text()?;
    let minus_one = |step: &Expr| matches!(step, Expr::UnaryOp(step) if step.op.is_u_sub() && is_one(&step.operand));
    let folded = match slice {
        Expr::Slice(all) if all.lower.is_none() && all.upper.is_none() => {
            let is_reversed = all.step.as_deref().is_some_and(minus_one);
            is_reversed.then(|| text.chars().rev().collect())
        }
        Expr::Slice(_) => None,
        _ => key.as_number().and_then(|at| {
            let place = usize::try_from(if at < 0 { -1 - at } else { at }).ok()?;
            let character =
                if at < 0 { text.chars().rev().nth(place) } else { text.chars().nth(place) };
            character.map(String::from)
        }),
    };
    Some(folded.map_or_else(Values::unknown, Values::text))
}

fn is_one(expr: &Expr) -> bool {
    matches!(expr, Expr::NumberLiteral(literal)
        if literal.value.as_int().is_some_and(|int| int.as_u8() == Some(1)))
}

/// Returns the result of the method `name` of a known string.
pub(crate) fn method<'a>(text: &str, name: &str, arguments: &[Values<'a>]) -> Option<Values<'a>> {
    let is_ascii = text.is_ascii() && !text.contains(|c: char| matches!(c, '\x1c'..='\x1f'));
    match (name, arguments) {
        ("join", [elements]) => {
            let Some(elements) = elements.elements() else {
                return start_of_joined(elements);
            };
            let texts = elements.iter().map(Values::as_text).collect::<Option<Vec<&str>>>()?;
            let bytes: usize = texts.iter().map(|part| part.len() + text.len()).sum();
            (bytes <= 2 * TEXT_BYTES_MAX).then(|| Values::text(texts.join(text)))
        }
        ("replace", [from, to]) => {
            let (from, to) = (from.as_text()?, to.as_text()?);
            let is_short = text.len() * (to.len() + 1) <= TEXT_BYTES_MAX;
            (is_short && !from.is_empty()).then(|| Values::text(text.replace(from, to)))
        }
        // Outside of ASCII, Python and Rust have different tables of white space and line ends, so only ASCII strings
        // are split.
        ("split", []) if is_ascii => Some(split_to(text.split_whitespace())),
        ("splitlines", []) if is_ascii => Some(split_to(text.lines())),
        ("split", [separator]) => match separator.as_text()? {
            "" => None,
            separator => Some(split_to(text.split(separator))),
        },
        ("format", _) => Some(Values::start(text.split('{').next().unwrap_or_default())),
        _ => None,
    }
}

/// Returns the known start of a string that `join` makes from an unknown number of parts.
fn start_of_joined<'a>(elements: &Values<'a>) -> Option<Values<'a>> {
    let Some(Value::Container(of)) = elements.single() else { return None };
    let start = |value: &Value<'a>| match value {
        Value::Text(text) | Value::Start(text) => Values::start(text),
        _ => Values::unknown(),
    };
    (!of.is_open && !of.known.is_empty()).then(|| of.known.iter().map(start).collect())
}

fn split_to<'a, 't>(parts: impl Iterator<Item = &'t str>) -> Values<'a> {
    let parts = parts.take(ITEMS_MAX + 1).map(|part| Values::text(part.to_owned()));
    Values::items(parts.collect::<Vec<_>>())
}
