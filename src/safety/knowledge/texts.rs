//! Texts and sequences that are put together from known ones, exactly as Python does it.

#![expect(clippy::wildcard_enum_match_arm, reason = "most values and operators make no text")]

use ruff_python_ast::{Expr, ExprSlice, Operator};

use super::value::{ITEMS_MAX, TEXT_BYTES_MAX, Value, Values};

/// The most alternatives of a text that is put together.
const WHOLES_MAX: usize = 16;

/// Appends each of the parts to each of the alternatives, or gives up: then there are none.
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

/// `str(value)` of each alternative; none unless all are known.
pub(crate) fn displays(values: &Values<'_>) -> Vec<String> {
    let shown = values.known.iter().map(|value| display(&Values::one(value.clone())));
    if values.is_open { Vec::new() } else { shown.collect::<Option<_>>().unwrap_or_default() }
}

/// `left op right`, of texts, bytes, sequences and numbers.
pub(crate) fn combined<'a>(
    left: &Values<'a>,
    op: Operator,
    right: &Values<'a>,
) -> Option<Values<'a>> {
    if op == Operator::Add {
        match (left.single(), right.single()) {
            (Some(Value::Text(_)), Some(Value::Text(_))) => {}
            (Some(Value::Text(start)), _) => return Some(Values::start(start)),
            (Some(Value::Start(start)), _) => return Some(Values::start(start)),
            _ => {}
        }
    }
    match (left.single()?, op, right.single()?) {
        (Value::Text(left), Operator::Add, Value::Text(right)) => {
            let fits = left.len() + right.len() <= TEXT_BYTES_MAX;
            fits.then(|| Values::text([&**left, right].concat()))
        }
        (Value::Bytes(left), Operator::Add, Value::Bytes(right)) => {
            Some(Values::bytes([&**left, &**right].concat()))
        }
        (Value::Items(left), Operator::Add, Value::Items(right)) => {
            let fits = left.len() + right.len() <= ITEMS_MAX;
            Some(if fits { Values::items([&**left, &**right].concat()) } else { Values::unknown() })
        }
        (Value::Number(left), Operator::Add, Value::Number(right)) => {
            left.checked_add(*right).map(|sum| Values::one(Value::Number(sum)))
        }
        (Value::Number(left), Operator::Sub, Value::Number(right)) => {
            left.checked_sub(*right).map(|sum| Values::one(Value::Number(sum)))
        }
        (Value::Number(left), Operator::BitXor, Value::Number(right)) => {
            Some(Values::one(Value::Number(left ^ right)))
        }
        (Value::Text(text), Operator::Mult, Value::Number(count)) => {
            let count = usize::try_from((*count).max(0)).ok()?;
            let fits = text.len().checked_mul(count)? <= TEXT_BYTES_MAX;
            fits.then(|| Values::text(text.repeat(count)))
        }
        (Value::Text(pattern), Operator::Mod, value) => {
            let arguments = match value {
                Value::Items(items) => items.to_vec(),
                value => vec![Values::one(value.clone())],
            };
            percent(pattern, &arguments).map(Values::text)
        }
        _ => None,
    }
}

/// `pattern % arguments`, for the plain conversions.
fn percent(pattern: &str, arguments: &[Values<'_>]) -> Option<String> {
    let mut arguments = arguments.iter();
    let mut text = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let conversion = after.chars().next()?;
        match conversion {
            '%' => text.push('%'),
            's' => text.push_str(&display(arguments.next()?)?),
            'c' => text.push_str(&character(arguments.next()?)?),
            'd' | 'i' => text.push_str(&arguments.next()?.as_number()?.to_string()),
            _ => return None,
        }
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        rest = after.get(conversion.len_utf8()..)?;
    }
    text.push_str(rest);
    Some(text)
}

/// `str(value)`.
pub(crate) fn display(values: &Values<'_>) -> Option<String> {
    match values.single()? {
        Value::Text(text) => Some(text.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn character(values: &Values<'_>) -> Option<String> {
    match values.single()? {
        Value::Number(_) => display(&chr(values)?),
        _ => display(values),
    }
}

/// `chr(number)`.
pub(crate) fn chr<'a>(number: &Values<'a>) -> Option<Values<'a>> {
    let number = u32::try_from(number.as_number()?).ok()?;
    Some(Values::text(char::from_u32(number)?.to_string()))
}

/// `ord(character)`.
pub(crate) fn ord<'a>(character: &Values<'a>) -> Option<Values<'a>> {
    let mut characters = character.as_text()?.chars();
    let only = characters.next()?;
    characters.next().is_none().then(|| Values::one(Value::Number(i64::from(u32::from(only)))))
}

/// `bytes(sequence)`.
pub(crate) fn bytes<'a>(sequence: &Values<'a>) -> Option<Values<'a>> {
    let numbers = sequence.elements()?;
    let bytes: Option<Vec<u8>> =
        numbers.iter().map(|number| u8::try_from(number.as_number()?).ok()).collect();
    bytes.map(Values::bytes)
}

/// `reversed(sequence)`, or the slice `[::-1]`.
pub(crate) fn reversed<'a>(sequence: &Values<'a>) -> Option<Values<'a>> {
    match sequence.single()? {
        Value::Text(text) => Some(Values::text(text.chars().rev().collect::<String>())),
        Value::Bytes(bytes) => Some(Values::bytes(bytes.iter().rev().copied().collect())),
        Value::Items(items) => Some(Values::items(items.iter().rev().cloned().collect())),
        _ => None,
    }
}

/// Returns an item or a slice of a known text or sequence; `None` if `base` is something else.
pub(crate) fn sliced<'a>(base: &Values<'a>, slice: &Expr, key: &Values<'a>) -> Option<Values<'a>> {
    let value = base.single()?;
    if let (Value::Text(text), Expr::Slice(slice)) = (value, slice)
        && text.len() <= ITEMS_MAX * 16
    {
        let characters: Vec<char> = text.chars().collect();
        let picked =
            picked(&characters, slice).map(|picked| picked.into_iter().collect::<String>());
        return Some(picked.map_or_else(Values::unknown, Values::text));
    }
    let Some(elements) = base.elements_within(ITEMS_MAX * 16, ITEMS_MAX * 16) else {
        return matches!(value, Value::Text(_) | Value::Bytes(_)).then(Values::unknown);
    };
    let Expr::Slice(slice) = slice else {
        let length = i64::try_from(elements.len()).ok()?;
        let index = key.as_number().map(|index| if index < 0 { index + length } else { index });
        let item = index.and_then(|index| elements.get(usize::try_from(index).ok()?).cloned());
        return Some(item.unwrap_or_else(|| Values::from_iter(elements).or_others()));
    };
    let picked = picked(&elements, slice);
    Some(picked.and_then(|picked| reassembled(value, picked)).unwrap_or_else(Values::unknown))
}

/// Returns the elements that a slice with literal bounds picks.
fn picked<T: Clone>(elements: &[T], slice: &ExprSlice) -> Option<Vec<T>> {
    let bound = |bound: &Option<Box<Expr>>| match bound.as_deref() {
        None => Some(None),
        Some(expr) => literal_number(expr).map(Some),
    };
    let length = i64::try_from(elements.len()).ok()?;
    let (lower, upper) = (bound(&slice.lower)?, bound(&slice.upper)?);
    let step = bound(&slice.step)?.unwrap_or(1);
    if step == 0 {
        return None;
    }
    // As CPython's PySlice_AdjustIndices.
    let (least, most) = if step < 0 { (-1, length - 1) } else { (0, length) };
    let adjusted = |bound: i64| {
        let from_start = if bound < 0 { bound.saturating_add(length) } else { bound };
        from_start.clamp(least, most)
    };
    let (first, end) = if step < 0 { (length - 1, -1) } else { (0, length) };
    let mut at = lower.map_or(first, adjusted);
    let end = upper.map_or(end, adjusted);
    let mut picked = Vec::new();
    while if step < 0 { at > end } else { at < end } {
        picked.push(elements.get(usize::try_from(at).ok()?)?.clone());
        at = at.checked_add(step)?;
    }
    Some(picked)
}

fn literal_number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::NumberLiteral(literal) => literal.value.as_int()?.as_i64(),
        Expr::UnaryOp(negated) if negated.op.is_u_sub() => {
            literal_number(&negated.operand)?.checked_neg()
        }
        _ => None,
    }
}

/// Puts elements together to what they were taken from.
fn reassembled<'a>(like: &Value<'a>, elements: Vec<Values<'a>>) -> Option<Values<'a>> {
    match like {
        Value::Bytes(_) => bytes(&Values::items(elements)),
        _ => Some(Values::items(elements)),
    }
}

fn joined<'a>(separator: &str, elements: &[Values<'a>]) -> Option<Values<'a>> {
    let texts = elements.iter().map(Values::as_text).collect::<Option<Vec<&str>>>()?;
    let bytes: usize = texts.iter().map(|text| text.len() + separator.len()).sum();
    (bytes <= 2 * TEXT_BYTES_MAX).then(|| Values::text(texts.join(separator)))
}

/// Applies a method of a known text or of known bytes.
pub(crate) fn method<'a>(
    base: &Values<'a>,
    name: &str,
    arguments: &[Values<'a>],
) -> Option<Values<'a>> {
    match base.single()? {
        Value::Text(text) => text_method(text, name, arguments),
        Value::Bytes(bytes) if name == "decode" && is_utf8(arguments) => {
            std::str::from_utf8(bytes).ok().map(|text| Values::text(text.to_owned()))
        }
        _ => None,
    }
}

/// Tells whether the arguments of `encode` or `decode` name an encoding in which all of ASCII is
/// itself.
fn is_utf8(arguments: &[Values<'_>]) -> bool {
    match arguments {
        [] => true,
        [encoding] => encoding.as_text().is_some_and(|name| {
            matches!(name.to_ascii_lowercase().as_str(), "utf-8" | "utf8" | "ascii")
        }),
        _ => false,
    }
}

/// Applies a method of a text, only with arguments for which the result is the same as in Python.
fn text_method<'a>(text: &str, name: &str, arguments: &[Values<'a>]) -> Option<Values<'a>> {
    let owned = |text: &str| Some(Values::text(text.to_owned()));
    let among = |set: &Values<'a>| {
        let set = set.as_text().filter(|set| set.len() <= ITEMS_MAX)?;
        Some(set.chars().collect::<Vec<char>>())
    };
    // Beyond ASCII, Python and Rust have different tables.
    let is_ascii = text.is_ascii() && !text.contains(|c: char| matches!(c, '\x1c'..='\x1f'));
    match (name, arguments) {
        ("join", [elements]) => joined(text, &elements.elements()?),
        ("lower" | "casefold", []) if is_ascii => Some(Values::text(text.to_ascii_lowercase())),
        ("upper", []) if is_ascii => Some(Values::text(text.to_ascii_uppercase())),
        ("swapcase", []) if is_ascii => {
            Some(Values::text(text.chars().map(swapped).collect::<String>()))
        }
        ("strip", []) if is_ascii => owned(text.trim()),
        ("lstrip", []) if is_ascii => owned(text.trim_start()),
        ("rstrip", []) if is_ascii => owned(text.trim_end()),
        ("strip", [set]) => owned(text.trim_matches(&*among(set)?)),
        ("lstrip", [set]) => owned(text.trim_start_matches(&*among(set)?)),
        ("rstrip", [set]) => owned(text.trim_end_matches(&*among(set)?)),
        ("removeprefix", [prefix]) => owned(text.strip_prefix(prefix.as_text()?).unwrap_or(text)),
        ("removesuffix", [suffix]) => owned(text.strip_suffix(suffix.as_text()?).unwrap_or(text)),
        ("replace", [from, to]) => {
            let (from, to) = (from.as_text()?, to.as_text()?);
            let is_short = text.len() * (to.len() + 1) <= TEXT_BYTES_MAX;
            (is_short && !from.is_empty()).then(|| Values::text(text.replace(from, to)))
        }
        ("splitlines", []) if is_ascii => Some(split_to(text.lines())),
        ("split", []) if is_ascii => Some(split_to(text.split_whitespace())),
        ("split", [separator]) => match separator.as_text()? {
            "" => None,
            separator => Some(split_to(text.split(separator))),
        },
        ("encode", _) if is_utf8(arguments) => Some(Values::bytes(text.as_bytes().to_vec())),
        ("format", _) => {
            let start = || Values::start(text.split('{').next().unwrap_or_default());
            Some(formatted(text, arguments).map_or_else(start, Values::text))
        }
        _ => None,
    }
}

fn split_to<'a, 't>(parts: impl Iterator<Item = &'t str>) -> Values<'a> {
    let parts = parts.take(ITEMS_MAX + 1).map(|part| Values::text(part.to_owned()));
    Values::items(parts.collect())
}

fn swapped(c: char) -> char {
    if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
}

/// `pattern.format(…)`, for fields that are empty or a number.
fn formatted(pattern: &str, arguments: &[Values<'_>]) -> Option<String> {
    let mut text = String::new();
    let mut rest = pattern;
    let mut next = 0;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (field, remaining) = after.split_once('}')?;
        let index = if field.is_empty() {
            next += 1;
            next - 1
        } else {
            field.parse().ok()?
        };
        text.push_str(&display(arguments.get(index)?)?);
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        rest = remaining;
    }
    if rest.contains('}') || text.contains('}') {
        return None;
    }
    text.push_str(rest);
    Some(text)
}

/// `bytes.fromhex(text)`.
pub(crate) fn from_hex<'a>(text: &Values<'a>) -> Option<Values<'a>> {
    let digits: Vec<char> = text.as_text()?.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let byte = |pair: &[char]| match pair {
        [high, low] => u8::try_from(high.to_digit(16)? * 16 + low.to_digit(16)?).ok(),
        _ => None,
    };
    digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>().map(Values::bytes)
}

/// `codecs.decode(text, "rot13")`.
pub(crate) fn rot13<'a>(text: &Values<'a>, codec: &Values<'a>) -> Option<Values<'a>> {
    if !matches!(codec.as_text()?, "rot13" | "rot_13" | "rot-13") {
        return None;
    }
    let turned = |c: char| {
        let Ok(byte) = u8::try_from(c) else { return c };
        let start = if byte.is_ascii_uppercase() { b'A' } else { b'a' };
        if byte.is_ascii_alphabetic() { char::from((byte - start + 13) % 26 + start) } else { c }
    };
    Some(Values::text(text.as_text()?.chars().map(turned).collect::<String>()))
}
