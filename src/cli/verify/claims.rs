//! Finds the claims in a document: the blocks of Python code that are marked `verify`. It never runs a block.
//!
//! | document | a claim |
//! |---|---|
//! | Markdown (CommonMark) | a fenced code block with an info string such as `python verify` or `{.python .verify}` |
//! | reStructuredText | a directive `code-block:: python` with the option `:class: verify` |
//! | Jupyter notebook (nbformat 4) | a code cell with the tag `verify` |

use std::path::Path;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

/// The word that marks a block as a claim.
const MARK: &str = "verify";
/// The names of Python in info strings and directives.
const PYTHON: [&str; 3] = ["python", "python3", "py"];
/// The directives of reStructuredText and Sphinx for code.
const DIRECTIVES: [&str; 3] = ["code-block", "code", "sourcecode"];
/// Further directives of reStructuredText and Sphinx with a literal body. Text in such a body is never a directive.
const LITERAL: [&str; 9] = [
    "raw",
    "parsed-literal",
    "math",
    "doctest",
    "testcode",
    "testoutput",
    "testsetup",
    "csv-table",
    "graphviz",
];
/// The distance of tab stops in reStructuredText, in columns.
const TAB: usize = 8;

/// A claim in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    /// The line of the document at which the block begins, counted from 1.
    pub(super) line: usize,
    /// The script that checks the claim.
    pub(super) code: String,
    /// The line of the document for each line of the script.
    lines: Vec<usize>,
}

impl Claim {
    fn new(line: usize) -> Self {
        Self { line, code: String::new(), lines: Vec::new() }
    }

    /// Adds a part of the script. The part begins at line `line` of the document. A line of the script may have several
    /// parts.
    fn push(&mut self, part: &str, line: usize) {
        for (number, piece) in part.split_inclusive('\n').enumerate() {
            if self.code.is_empty() || self.code.ends_with('\n') {
                self.lines.push(line + number);
            }
            self.code.push_str(piece);
        }
    }

    /// Returns the line of the document for a line of the script, both counted from 1.
    pub(super) fn line_of(&self, line_of_script: usize) -> usize {
        let index = line_of_script.saturating_sub(1);
        self.lines.get(index).or(self.lines.last()).copied().unwrap_or(self.line)
    }
}

/// The reason why the claims of a document cannot be read.
#[derive(Debug, Error)]
pub(super) enum NotADocument {
    #[error("the name must end in .md, .markdown, .qmd, .rst or .ipynb")]
    Unknown,
    #[error("not a Jupyter notebook")]
    Notebook(#[source] serde_json::Error),
    #[error("cell {number} of the notebook cannot be read")]
    Cell { number: usize, source: serde_json::Error },
}

/// Returns the claims of a document in their order. The extension of the file name determines the format.
pub(super) fn of_document(file: &Path, text: &str) -> Result<Vec<Claim>, NotADocument> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let extension = file.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        "md" | "markdown" | "qmd" => Ok(of_markdown(text)),
        "rst" => Ok(of_restructured_text(text)),
        "ipynb" => of_notebook(text),
        _ => Err(NotADocument::Unknown),
    }
}

/// Returns whether an info string marks a claim: `python verify`, `python {.verify}`, or `{.python .verify}` in the
/// syntax of Pandoc.
fn is_marked(info: &str) -> bool {
    let words = words(info);
    let mut words = words.iter().map(String::as_str);
    if info.trim_start().starts_with('{') {
        let classes: Vec<&str> = words.filter_map(|word| word.strip_prefix('.')).collect();
        return classes.iter().any(|class| is_python(class)) && classes.contains(&MARK);
    }
    words.next().is_some_and(is_python)
        && words.any(|word| word.strip_prefix('.').unwrap_or(word) == MARK)
}

fn is_python(language: &str) -> bool {
    PYTHON.iter().any(|name| name.eq_ignore_ascii_case(language))
}

/// Returns the words of an info string. White space, commas and braces separate words, except within quotation marks.
fn words(info: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in info.chars() {
        let separates = quote.is_none() && (c.is_whitespace() || "{},".contains(c));
        if separates {
            words.push(std::mem::take(&mut word));
            continue;
        }
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            Some(_) | None => {}
        }
        word.push(c);
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn of_markdown(text: &str) -> Vec<Claim> {
    let line_of = lines(text);
    let extensions = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut claims = Vec::new();
    let mut current = None;
    for (event, range) in Parser::new_ext(text, extensions).into_offset_iter() {
        if let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) = &event
            && is_marked(info)
        {
            current = Some(Claim::new(line_of(range.start)));
        } else if let (Event::Text(part), Some(claim)) = (&event, &mut current) {
            claim.push(part, line_of(range.start));
        } else if event == Event::End(TagEnd::CodeBlock) {
            claims.extend(current.take());
        }
    }
    claims
}

/// Returns a function that maps the offset of a byte to its line number. Line numbers start at 1.
fn lines(text: &str) -> impl Fn(usize) -> usize {
    let ends: Vec<usize> = text.match_indices('\n').map(|(position, _)| position).collect();
    move |position| ends.partition_point(|end| *end < position) + 1
}

/// A line of a document in reStructuredText, with spaces instead of tabs, and without trailing spaces.
#[derive(Clone)]
struct RstLine {
    text: String,
    /// The number of spaces before the text.
    indent: usize,
}

impl RstLine {
    fn new(line: &str) -> Self {
        let mut text = String::with_capacity(line.len());
        let mut column = 0;
        for c in line.trim_end().chars() {
            let width = if c == '\t' { TAB - column % TAB } else { 1 };
            if c == '\t' {
                text.extend(std::iter::repeat_n(' ', width));
            } else {
                text.push(c);
            }
            column += width;
        }
        Self { indent: indent(&text), text }
    }

    fn is_blank(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the markers of list items before the text by spaces.
    fn without_markers(mut self) -> Self {
        while let Some(length) = marker(self.text.get(self.indent..).unwrap_or_default()) {
            self.text.replace_range(self.indent..self.indent + length, &" ".repeat(length));
            self.indent = indent(&self.text);
        }
        self
    }
}

/// Returns the number of spaces before a text. Counts only spaces, because docutils treats other white space as text.
fn indent(text: &str) -> usize {
    text.bytes().take_while(|byte| *byte == b' ').count()
}

/// Returns the length of a list item's marker, such as `-` or `12.`, if a space and a text follow the marker.
fn marker(text: &str) -> Option<usize> {
    let (marker, rest) = text.split_once(' ')?;
    let number = marker.trim_start_matches('(').trim_end_matches([')', '.']);
    let is_digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = marker.ends_with([')', '.']) && (number == "#" || is_digits);
    let is_marker = matches!(marker, "-" | "*" | "+") || is_number;
    (is_marker && !rest.is_empty()).then_some(marker.len())
}

/// Finds directives by their indentation, as in the reStructuredText specification ("Explicit Markup Blocks" and
/// "Literal Blocks"). Ignores directives in literal blocks, comments and code.
fn of_restructured_text(text: &str) -> Vec<Claim> {
    let lines: Vec<RstLine> = text.lines().map(RstLine::new).collect();
    let mut claims = Vec::new();
    let mut index = 0;
    while let Some(line) = lines.get(index) {
        let line = line.clone().without_markers();
        let stripped = line.text.trim_start();
        let mut directive = None;
        let is_literal = match stripped.strip_prefix("..") {
            Some(rest) if rest.is_empty() || rest.starts_with(' ') => {
                let rest = rest.trim_start();
                let (name, argument) = rest.split_once("::").unwrap_or_default();
                let name = name.trim().to_ascii_lowercase();
                directive = DIRECTIVES.contains(&name.as_str()).then_some(argument.trim());
                // Without a name, the markup is a comment, unless it is a footnote, a citation, a substitution or a
                // target.
                let is_comment = name.is_empty() && !rest.starts_with(['[', '|', '_']);
                directive.is_some() || is_comment || LITERAL.contains(&name.as_str())
            }
            Some(_) | None => stripped.ends_with("::"),
        };
        let number = index + 1;
        index = number;
        if is_literal {
            let below = lines.get(number..).unwrap_or_default();
            let end = below.iter().position(|it| !it.is_blank() && it.indent <= line.indent);
            let block = below.get(..end.unwrap_or(below.len())).unwrap_or_default();
            claims.extend(directive.and_then(|argument| of_directive(argument, block, number)));
            index += block.len();
        }
    }
    claims
}

/// Returns the claim of a directive for code, if the directive is marked. The directive is on the line `number`.
/// `block` contains the lines below the directive.
fn of_directive(argument: &str, block: &[RstLine], number: usize) -> Option<Claim> {
    // The argument and the options come before the first blank line.
    let head = block.iter().take_while(|line| !line.is_blank()).count();
    let (head, code) = block.split_at_checked(head)?;
    let mut language = argument.to_owned();
    let mut options: Vec<String> = Vec::new();
    for line in head {
        let text = line.text.trim_start();
        match options.last_mut() {
            _ if text.starts_with(':') => options.push(text.to_owned()),
            Some(option) => option.extend([" ", text]),
            None => language += text,
        }
    }
    let classes = options.iter().filter_map(|option| option.strip_prefix(":class:"));
    let mut classes = classes.flat_map(str::split_whitespace);
    if !is_python(&language) || !classes.any(|class| class == MARK) {
        return None;
    }
    let margin = code.iter().filter(|line| !line.is_blank()).map(|line| line.indent).min();
    let skipped = code.iter().take_while(|line| line.is_blank()).count();
    let mut claim = Claim::new(number);
    for (index, line) in code.iter().enumerate().skip(skipped) {
        // Every line that is not blank has at least as many spaces as the margin.
        let line = line.text.get(margin.unwrap_or(0)..).unwrap_or_default();
        claim.push(&format!("{line}\n"), number + 1 + head.len() + index);
    }
    Some(claim)
}

fn of_notebook(text: &str) -> Result<Vec<Claim>, NotADocument> {
    #[derive(Deserialize)]
    struct Notebook<'a> {
        #[serde(borrow)]
        cells: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Cell<'a> {
        #[serde(default, rename = "cell_type")]
        kind: Value,
        #[serde(default)]
        metadata: Value,
        #[serde(borrow)]
        source: Option<&'a RawValue>,
    }
    let line_of = lines(text);
    // The raw values borrow from `text`, so the difference of the addresses is an offset.
    let line_of = |raw: &RawValue| line_of(raw.get().as_ptr().addr() - text.as_ptr().addr());
    let notebook: Notebook<'_> = serde_json::from_str(text).map_err(NotADocument::Notebook)?;
    let mut claims = Vec::new();
    for (index, raw) in notebook.cells.into_iter().enumerate() {
        let unread = |source| NotADocument::Cell { number: index + 1, source };
        let cell: Cell<'_> = serde_json::from_str(raw.get()).map_err(unread)?;
        let tags = cell.metadata.get("tags").and_then(Value::as_array);
        if cell.kind != "code" || !tags.is_some_and(|tags| tags.iter().any(|tag| tag == MARK)) {
            continue;
        }
        let source = cell.source.unwrap_or(raw);
        let mut claim = Claim::new(line_of(source));
        // The source is a string, or a list with a string for each line. Map each line of the script to the line of the
        // document at which its string begins.
        let parts: Vec<&RawValue> =
            serde_json::from_str(source.get()).unwrap_or_else(|_| vec![source]);
        for part in parts {
            let script: String = serde_json::from_str(part.get()).map_err(unread)?;
            for line in script.split_inclusive('\n') {
                claim.push(line, line_of(part));
            }
        }
        claims.push(claim);
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns each claim: the line where it starts, its code, and the document's line for each line of code.
    fn of(name: &str, text: &str) -> Vec<(usize, String, Vec<usize>)> {
        let claims = of_document(Path::new(name), text).unwrap().into_iter();
        claims.map(|Claim { line, code, lines }| (line, code, lines)).collect()
    }

    #[test]
    fn marked_blocks_of_markdown_are_claims() {
        let text = "---\ntitle: x\n---\n\n```python verify\nx = 1\n\nassert x\n```\n\n```python\nno\n```\n\n1. a\n\n   \
                    ~~~{.py .verify}\n   if 1:\n       pass\n   ~~~\n\n> ```python3 verify title=a\n> y\n> ```\n\n```verify\n```\n";
        let expected = [
            (5, "x = 1\n\nassert x\n".to_owned(), vec![6, 7, 8]),
            (17, "if 1:\n    pass\n".to_owned(), vec![18, 19]),
            (22, "y\n".to_owned(), vec![23]),
        ];
        assert_eq!(of("a.md", text), expected);
        assert_eq!(of("A.MD", &text.replace('\n', "\r\n")), expected);
        assert_eq!(
            of("a.markdown", "````python verify\n```\n````"),
            [(1, "```\n".into(), vec![2])]
        );
        assert_eq!(of("a.md", "```python verify\nopen"), [(1, "open".into(), vec![2])]);
        assert_eq!(of("a.md", "    ```python verify\n    x\n    ```\n"), []);
    }

    #[test]
    fn marked_directives_are_claims() {
        let text = "A::\n\n.. code-block:: python\n   :linenos:\n   :class: big verify\n\n   x = 1\n\n   if x:\n       y\n\nB\n\n  \
                    .. code:: python\n     :class: verify\n\n     z\n  ..\n\n.. code-block:: python\n\n   no\n";
        let expected = [
            (3, "x = 1\n\nif x:\n    y\n\n".to_owned(), vec![7, 8, 9, 10, 11]),
            (14, "z\n".to_owned(), vec![17]),
        ];
        assert_eq!(of("a.rst", text), expected);
    }

    #[test]
    fn info_strings_have_a_language_and_the_mark() {
        for (info, expected) in [
            ("python verify", true),
            ("Python3 title=\"a b\" verify", true),
            ("py {.verify}", true),
            ("python,verify", true),
            ("{.python .verify}", true),
            ("{#id .Python .verify key=x}", true),
            ("python title=\"how to verify it\"", false),
            ("python title='verify'", false),
            ("python verify=1", false),
            ("python no.verify", false),
            ("python", false),
            ("verify python", false),
            ("verify", false),
            ("{python verify}", false),
            ("{.verify}", false),
            ("rust verify", false),
            ("", false),
        ] {
            assert_eq!(is_marked(info), expected, "{info}");
        }
    }

    #[test]
    fn directives_are_found_as_docutils_finds_them() {
        let directive = ".. code:: python\n   :class: verify\n\n   x\n";
        let below = directive.replace('\n', "\n   ").trim_end().to_owned() + "\n";
        let none: &[(usize, &str)] = &[];
        let claim: &[(usize, &str)] = &[(1, "x\n")];
        for (text, expected) in [
            // Directives may have tabs, upper case or options on several lines. They may be in list items or notes.
            ("  .. code-block:: python\n\t:class: verify\n\n\tx\n\t\ty\n".to_owned(), &[(1, "x\n        y\n")][..]),
            ("- a\n\n- .. code:: python\n     :class: verify\n\n     x\n".to_owned(), &[(3, "x\n")]),
            ("1. * .. code:: python\n        :class: verify\n\n        - x\n".to_owned(), &[(1, "- x\n")]),
            (
                ".. Code-Block::\n   Python\n   :caption: a\n     b\n   :class:\n     big verify\n\n   x\n".to_owned(),
                claim,
            ),
            (format!(".. note::\n\n   {below}"), &[(3, "x\n")]),
            // A line without indentation ends the block. Only spaces and tabs count as indentation.
            (format!("{directive}\u{a0}\u{a0}y\n"), claim),
            (format!("\u{feff}{directive}   \u{a0}y\n"), &[(1, "x\n\u{a0}y\n")]),
            // Text in literal blocks, comments, other code and claims is not a directive.
            (format!("Write::\n\n   {below}"), none),
            (format!("..\n   {below}"), none),
            (format!(".. a comment\n   {below}"), none),
            (format!(".. code-block:: rst\n\n   {below}"), none),
            (format!(".. code:: python\n   :class: verify\n\n   {below}"), &[(1, directive)]),
            (".. code:: python\n   :name: verify\n\n   x\n".to_owned(), none),
            (".. code:: python\n\n   :class: verify\n".to_owned(), none),
        ] {
            let found = of("a.rst", &text);
            let found: Vec<_> = found.iter().map(|(line, code, _)| (*line, code.as_str())).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn cells_with_the_tag_are_claims() {
        let text = r#"{
 "cells": [
  {"cell_type": "markdown", "metadata": {"tags": ["verify"]}, "source": "x"},
  {
   "cell_type": "code", "metadata": {"tags": ["a", "verify"]},
   "source": [
    "x = 1\n",
    "assert x"
   ]
  },
  {"cell_type": "code", "metadata": {"tags": ["verify"]}, "source": "a\nb"},
  {"cell_type": "code", "metadata": {}, "source": []}
 ]
}"#;
        let expected =
            [(6, "x = 1\nassert x".to_owned(), vec![7, 8]), (11, "a\nb".to_owned(), vec![11, 11])];
        assert_eq!(of("a.ipynb", text), expected);
        assert!(of_document(Path::new("a.ipynb"), "[]").is_err());
        // Cells that are not claims may have any content.
        let odd = r#"{"cells": [{}, {"metadata": null, "cell_type": 1, "source": null}, {"cell_type": "raw", "metadata": {"tags": 3}}]}"#;
        assert_eq!(of("a.ipynb", odd), []);
        let wrong = r#"{"cells": [{}, {"cell_type": "code", "metadata": {"tags": ["verify"]}, "source": 1}]}"#;
        let error = of_document(Path::new("a.ipynb"), wrong).unwrap_err();
        assert_eq!(error.to_string(), "cell 2 of the notebook cannot be read");
        assert!(of_document(Path::new("a.py"), "").is_err());
    }

    #[test]
    fn a_line_of_a_script_has_its_line_of_the_document() {
        let claims = of_document(Path::new("a.md"), "\n```py verify\na\nb\n```\n").unwrap();
        assert_eq!([0, 1, 2, 9].map(|line| claims[0].line_of(line)), [3, 3, 4, 4]);
        assert_eq!(Claim::new(7).line_of(1), 7);
    }
}
