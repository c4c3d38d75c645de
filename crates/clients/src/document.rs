//! Decodes a client's file and edits one entry in it. The byte order mark and the line ends do not change. An edit that
//! would change anything outside of the entry fails.

use super::client::Format;
use super::edit::{Edit, EditError, Server, position};
use super::jsonc_file::JsoncFile;
use super::toml_file::TomlFile;

/// The byte order mark that some Windows programs put at the start of a UTF-8 file.
const BOM: &str = "\u{feff}";

/// The content of a client's configuration file.
#[derive(Debug, Clone)]
pub(super) struct Document {
    format: Format,
    key: &'static str,
    has_bom: bool,
    /// Whether each line of a TOML file ends with CR LF. In `text`, these line ends are replaced by LF.
    has_returns: bool,
    text: String,
}

/// An operation on one entry of the file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation<'a> {
    /// Creates the entry, or changes the members that `edits` names. If `rename_from` is set, first renames the entry
    /// with that name.
    Put { rename_from: Option<&'a str>, name: &'a str, edits: &'a [Edit] },
    /// Removes the entry.
    Remove { name: &'a str },
}

impl Document {
    /// Reads the content of a file. An empty file is valid.
    pub(crate) fn read(format: Format, key: &'static str, bytes: &[u8]) -> Result<Self, EditError> {
        let text = str::from_utf8(bytes).map_err(|error| {
            let (line, column) = position(bytes, error.valid_up_to());
            EditError::NotUtf8 { line, column }
        })?;
        let (has_bom, text) = match text.strip_prefix(BOM) {
            Some(text) => (true, text),
            None => (false, text),
        };
        let mut document = Self { format, key, has_bom, has_returns: false, text: text.to_owned() };
        if format == Format::Toml {
            // The TOML editor would change all line ends to LF. So replace CR LF here, and restore it in `edited`.
            let lines = text.matches('\n').count();
            if lines > 0 && text.matches("\r\n").count() == lines {
                document.has_returns = true;
                document.text = text.replace("\r\n", "\n");
            }
            if !document.text.is_empty() && !document.text.ends_with('\n') {
                document.text.push('\n');
            }
        }
        document.servers()?;
        Ok(document)
    }

    pub(crate) fn servers(&self) -> Result<Vec<Server>, EditError> {
        match self.format {
            Format::Json => JsoncFile::parse(&self.text, self.key)?.servers(),
            Format::Toml => Ok(TomlFile::parse(&self.text, self.key)?.servers()),
            Format::Yaml => Ok(Vec::new()),
        }
    }

    /// Applies an operation, and returns the new content of the file. Fails if anything except the entry would change.
    pub(super) fn edited(&self, operation: Operation<'_>) -> Result<Vec<u8>, EditError> {
        let text = match self.format {
            Format::Json => self.edited_json(operation)?,
            Format::Toml => self.edited_toml(operation)?,
            Format::Yaml => return Err(EditError::Collateral),
        };
        let text = if self.has_returns { text.replace('\n', "\r\n") } else { text };
        let bom = if self.has_bom { BOM } else { "" };
        Ok(format!("{bom}{text}").into_bytes())
    }

    fn edited_json(&self, operation: Operation<'_>) -> Result<String, EditError> {
        let file = JsoncFile::parse(&self.text, self.key)?;
        let (old_name, new_name) = operation.names();
        let before = file.without(old_name)?;
        let text = match operation {
            Operation::Put { rename_from, name, edits } => {
                if let Some(old_name) = rename_from {
                    file.rename(old_name, name)?;
                }
                file.apply(name, edits)?;
                file.text()
            }
            Operation::Remove { name } => file.removed(name)?,
        };
        let after = JsoncFile::parse(&text, self.key)?.without(new_name)?;
        if before == after { Ok(text) } else { Err(EditError::Collateral) }
    }

    fn edited_toml(&self, operation: Operation<'_>) -> Result<String, EditError> {
        let mut file = TomlFile::parse(&self.text, self.key)?;
        let (old_name, new_name) = operation.names();
        let before = file.without(old_name);
        let text = match operation {
            Operation::Put { rename_from, name, edits } => {
                if let Some(old_name) = rename_from {
                    file.rename(old_name, name);
                }
                file.apply(name, edits)?;
                file.text()
            }
            Operation::Remove { .. } => before.0.clone(),
        };
        let after = TomlFile::parse(&text, self.key)?.without(new_name);
        let is_same = before.0.trim_end() == after.0.trim_end() && before.1 == after.1;
        if is_same { Ok(text) } else { Err(EditError::Collateral) }
    }
}

impl<'a> Operation<'a> {
    /// Returns the name of the entry before the operation, and its name after the operation.
    fn names(self) -> (&'a str, &'a str) {
        match self {
            Self::Put { rename_from, name, .. } => (rename_from.unwrap_or(name), name),
            Self::Remove { name } => (name, name),
        }
    }
}
