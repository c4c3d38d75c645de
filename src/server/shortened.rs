//! Shortens the output of a script for a model (`QWED_MCP_RESULT_CHARS`). Keeps the start and the end of a stream,
//! because the end of a long output often contains the result.

use std::borrow::Cow;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::executor::{Captured, Outcome};

/// The number of tenths of a shortened stream that come from the start of the stream. The rest comes from the end.
const START_TENTHS: usize = 6;

/// The maximum number of characters of stdout and stderr together. `None` if they are not shortened.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CharsMax(pub(super) Option<usize>);

impl CharsMax {
    /// Returns the texts of stdout and stderr, shortened. A stream may use the characters that the other stream does
    /// not need.
    pub(super) fn streams(self, outcome: &Outcome) -> [Cow<'_, str>; 2] {
        let texts = [outcome.stdout.text.as_str(), outcome.stderr.text.as_str()];
        let Some(maxima) = self.maxima(texts) else { return texts.map(Cow::from) };
        let [stdout, stderr] = texts;
        let [stdout_max, stderr_max] = maxima;
        [shortened(stdout, stdout_max), shortened(stderr, stderr_max)]
    }

    /// For each stream that [`CharsMax::streams`] shortens, returns the size and the digest of the whole stream. `None`
    /// if neither stream is shortened.
    pub(super) fn whole_streams(self, outcome: &Outcome) -> Option<Value> {
        let streams = [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)];
        let maxima = self.maxima(streams.map(|(_, stream)| stream.text.as_str()))?;
        let whole = streams
            .into_iter()
            .zip(maxima)
            .filter(|((_, stream), chars_max)| cut_at(&stream.text, *chars_max).is_some());
        Some(whole.map(|((name, stream), _)| (name.to_owned(), size_of(stream))).collect())
    }

    /// Returns the maximum number of characters of each text. `None` if neither text must be shortened.
    fn maxima(self, texts: [&str; 2]) -> Option<[usize; 2]> {
        let chars_max = self.0?;
        // A text never has more characters than bytes.
        if texts.iter().map(|text| text.len()).sum::<usize>() <= chars_max {
            return None;
        }
        let [first, second] = texts.map(|text| text.chars().count());
        if first + second <= chars_max {
            return None;
        }
        let half = chars_max / 2;
        let of = |own: usize, other: usize| own.min(chars_max - other.min(half));
        Some([of(first, second), of(second, first)])
    }
}

/// Returns the start and the end of a text, around a line that states how much is missing. Returns the whole text if
/// it has at most `chars_max` characters.
fn shortened(text: &str, chars_max: usize) -> Cow<'_, str> {
    let Some((start, end)) = cut_at(text, chars_max) else { return text.into() };
    let (start, rest) = text.split_at(start);
    let (missing, end) = rest.split_at(end - start.len());
    let characters = grouped(missing.chars().count());
    let lines = grouped(missing.matches('\n').count());
    format!("{start}\n[… {characters} characters, {lines} lines left out; print less]\n{end}")
        .into()
}

/// Returns the byte indices at which the omitted part of a text begins and ends. `None` if the text has at most
/// `chars_max` characters.
fn cut_at(text: &str, chars_max: usize) -> Option<(usize, usize)> {
    // Returns the byte index after `count` characters.
    let behind = |count| text.char_indices().nth(count).map(|(index, _)| index);
    behind(chars_max)?;
    let start_chars = chars_max * START_TENTHS / 10;
    let start = behind(start_chars)?;
    let end_chars = chars_max - start_chars;
    let from_end = |count: usize| text.char_indices().rev().nth(count).map(|(index, _)| index);
    let end = end_chars.checked_sub(1).map_or(Some(text.len()), from_end)?;
    Some((start, end))
}

fn size_of(stream: &Captured) -> Value {
    let content = stream.content();
    json!({
        "bytes": content.len(),
        "characters": stream.text.chars().count(),
        "sha256": hex::encode(Sha256::digest(content)),
    })
}

/// Returns a number with a comma after each group of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, rest) = digits.split_at(first);
    let groups = rest.as_bytes().chunks(3).map(String::from_utf8_lossy);
    let groups: Vec<_> = (first > 0).then(|| head.into()).into_iter().chain(groups).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(stdout: &str, stderr: &str) -> Outcome {
        let stream = |text: &str| Captured { text: text.to_owned(), ..Captured::default() };
        Outcome { stdout: stream(stdout), stderr: stream(stderr), ..Outcome::never_started() }
    }

    #[test]
    fn the_start_and_the_end_stay() {
        let lines: Vec<_> = (0..10_000).map(|number| format!("{number}\n")).collect();
        let text = lines.concat();
        let short = shortened(&text, 100);
        assert!(short.starts_with("0\n1\n2\n"), "{short}");
        assert!(short.ends_with("9998\n9999\n"), "{short}");
        assert!(
            short.contains("\n[… 48,790 characters, 9,969 lines left out; print less]\n"),
            "{short}"
        );
        assert_eq!(shortened(&text, text.len()), text);
    }

    #[test]
    fn characters_are_counted_and_not_bytes() {
        let text = "ä€😀".repeat(10);
        assert_eq!(shortened(&text, 30), text);
        assert_eq!(
            shortened(&text, 10),
            "ä€😀ä€😀\n[… 20 characters, 0 lines left out; print less]\n😀ä€😀"
        );
    }

    #[test]
    fn a_stream_uses_what_the_other_leaves() {
        for (stdout, stderr, maxima) in [
            (60, 40, None),
            (61, 40, Some([60, 40])),
            (1_000, 10, Some([90, 10])),
            (10, 1_000, Some([10, 90])),
            (1_000, 1_000, Some([50, 50])),
        ] {
            let texts = ["x".repeat(stdout), "y".repeat(stderr)];
            let found = CharsMax(Some(100)).maxima([&texts[0], &texts[1]]);
            assert_eq!(found, maxima, "{stdout} {stderr}");
        }
        assert_eq!(CharsMax(None).maxima(["x", "y"]), None);
    }

    #[test]
    fn the_size_and_the_digest_are_those_of_the_whole_stream() {
        let long = outcome(&"ä".repeat(200), "short");
        let whole = CharsMax(Some(100)).whole_streams(&long).unwrap();
        let sha256 = hex::encode(Sha256::digest("ä".repeat(200)));
        let stdout = json!({ "bytes": 400, "characters": 200, "sha256": sha256 });
        assert_eq!(whole, json!({ "stdout": stdout }));
        assert_eq!(CharsMax(Some(205)).whole_streams(&long), None);
        assert_eq!(CharsMax(None).whole_streams(&long), None);
    }

    #[test]
    fn numbers_are_grouped() {
        let all = [0, 7, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(all, ["0", "7", "999", "1,000", "12,345", "1,234,567"]);
    }
}
