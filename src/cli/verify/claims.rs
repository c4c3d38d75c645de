//! Finds the claims in a document: the blocks of Python code that are marked `verify`. It never runs a block.
//!
//! | document | a claim |
//! |---|---|
//! | Markdown (CommonMark) | a fenced code block with an info string such as `python verify` |
//! | reStructuredText | a directive `code-block:: python` with the option `:class: verify` |
//! | Jupyter notebook (nbformat 4) | a code cell with the tag `verify` |

use std::path::Path;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

/// The word that marks a block as a claim.
const MARK: &str = "verify";
/// The names of Python in info strings and directives.
const PYTHON: [&str; 3] = ["python", "python3", "py"];
/// The directives of reStructuredText and Sphinx for code.
const DIRECTIVES: [&str; 3] = ["code-block", "code", "sourcecode"];

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

    /// Adds a part of the script, which begins at this line of the document. A line of the script may have several parts.
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

/// The reason why a document has no claims that can be run.
#[derive(Debug, Error)]
pub(super) enum NotADocument {
    #[error("the name must end in .md, .markdown, .mdx, .qmd, .rst or .ipynb")]
    Unknown,
    #[error("not a Jupyter notebook")]
    Notebook(#[from] serde_json::Error),
}

/// Returns the claims of a document in their order. The end of the name determines the format.
pub(super) fn of_document(file: &Path, text: &str) -> Result<Vec<Claim>, NotADocument> {
    let extension = file.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        "md" | "markdown" | "mdx" | "qmd" => Ok(of_markdown(text)),
        "rst" => Ok(of_restructured_text(text)),
        "ipynb" => Ok(of_notebook(text)?),
        _ => Err(NotADocument::Unknown),
    }
}

/// Returns whether an info string marks a claim: `python verify`, or `{.python .verify}` as Pandoc has it.
fn is_marked(info: &str) -> bool {
    let separates = |c: char| c.is_whitespace() || "{},.".contains(c);
    let mut words = info.split(separates).filter(|word| !word.is_empty());
    words.next().is_some_and(|first| PYTHON.contains(&first)) && words.any(|word| word == MARK)
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

/// Returns a function from the position of a byte to its line, counted from 1.
fn lines(text: &str) -> impl Fn(usize) -> usize {
    let ends: Vec<usize> = text.match_indices('\n').map(|(position, _)| position).collect();
    move |position| ends.partition_point(|end| *end < position) + 1
}

/// Finds directives by their indentation (the section "Explicit Markup Blocks" of the reStructuredText specification).
fn of_restructured_text(text: &str) -> Vec<Claim> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_blank = |line: &str| line.trim().is_empty();
    let lines: Vec<&str> = text.lines().collect();
    let mut claims = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| is_directive(line)) {
        let below = lines.get(index + 1..).unwrap_or_default();
        let block = below.iter().position(|it| !is_blank(it) && indent(it) <= indent(line));
        let block = below.get(..block.unwrap_or(below.len())).unwrap_or_default();
        // Options follow the directive without a blank line.
        let options = block.iter().take_while(|it| it.trim_start().starts_with(':'));
        let options: Vec<&str> = options.map(|it| it.trim()).collect();
        let classes = options.iter().filter_map(|option| option.strip_prefix(":class:"));
        if !classes.flat_map(str::split_whitespace).any(|word| word == MARK) {
            continue;
        }
        let code = block.get(options.len()..).unwrap_or_default();
        let margin = code.iter().filter(|it| !is_blank(it)).map(|it| indent(it)).min();
        let skipped = code.iter().take_while(|it| is_blank(it)).count();
        let mut claim = Claim::new(index + 1);
        for (number, line) in code.iter().enumerate().skip(skipped) {
            let line = line.get(margin.unwrap_or(0)..).unwrap_or_default();
            claim.push(&format!("{line}\n"), index + 2 + options.len() + number);
        }
        claims.push(claim);
    }
    claims
}

/// Returns whether a line begins a block of Python code, such as `.. code-block:: python`.
fn is_directive(line: &str) -> bool {
    let directive = line.trim_start().strip_prefix(".. ").and_then(|rest| rest.split_once("::"));
    directive.is_some_and(|(name, language)| {
        DIRECTIVES.contains(&name.trim()) && PYTHON.contains(&language.trim())
    })
}

fn of_notebook(text: &str) -> serde_json::Result<Vec<Claim>> {
    #[derive(Deserialize)]
    struct Notebook<'a> {
        #[serde(borrow)]
        cells: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Cell<'a> {
        #[serde(rename = "cell_type")]
        kind: String,
        #[serde(default)]
        metadata: Metadata,
        #[serde(borrow)]
        source: &'a RawValue,
    }
    #[derive(Default, Deserialize)]
    struct Metadata {
        #[serde(default)]
        tags: Vec<String>,
    }
    let line_of = lines(text);
    // The raw values are parts of `text`.
    let line_of = |raw: &RawValue| line_of(raw.get().as_ptr().addr() - text.as_ptr().addr());
    let notebook: Notebook<'_> = serde_json::from_str(text)?;
    let mut claims = Vec::new();
    for raw in notebook.cells {
        let cell: Cell<'_> = serde_json::from_str(raw.get())?;
        if cell.kind != "code" || !cell.metadata.tags.iter().any(|tag| tag == MARK) {
            continue;
        }
        let mut claim = Claim::new(line_of(cell.source));
        // A string, or a list with a string for each line, which notebooks usually have on a line of its own.
        let parts: Vec<&RawValue> =
            serde_json::from_str(cell.source.get()).unwrap_or_else(|_| vec![cell.source]);
        for part in parts {
            let script: String = serde_json::from_str(part.get())?;
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

    /// Returns each claim as its line, its code, and the lines of the document.
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
        assert!(of_document(Path::new("a.py"), "").is_err());
    }

    #[test]
    fn a_line_of_a_script_has_its_line_of_the_document() {
        let claims = of_document(Path::new("a.md"), "\n```py verify\na\nb\n```\n").unwrap();
        assert_eq!([0, 1, 2, 9].map(|line| claims[0].line_of(line)), [3, 3, 4, 4]);
        assert_eq!(Claim::new(7).line_of(1), 7);
    }
}
