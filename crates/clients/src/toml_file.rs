//! Edits TOML. The parsed document keeps every byte that is not edited. This module never reads or writes a file.

use std::ops::Range;

use serde_json::{Value as Json, json};
use toml_edit::{
    Array, ArrayOfTables, Decor, Document, DocumentMut, InlineTable, Item, Key, Table, TableLike,
    Value, value,
};

use super::edit::{Edit, EditError, Member, Server};

/// A client's file in TOML. The table with the key `key` contains the entries of the servers.
pub(super) struct TomlFile {
    /// The text before any edit, with the positions of its keys and values.
    original: Document<String>,
    document: DocumentMut,
    key: &'static str,
}

impl TomlFile {
    pub(crate) fn parse(text: &str, key: &'static str) -> Result<Self, EditError> {
        let original = Document::parse(text.to_owned()).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            EditError::at(text, offset, error.message())
        })?;
        let document = original.clone().into_mut();
        // Reject a text that the parsed document does not reproduce exactly. Otherwise an edit would change more than
        // the entry.
        if document.to_string() != text {
            return Err(EditError::LineEnds);
        }
        let file = Self { original, document, key };
        if file.document.contains_key(key) && file.servers_table().is_none() {
            return Err(EditError::NotAnObject(format!("`{key}`")));
        }
        Ok(file)
    }

    pub(crate) fn servers(&self) -> Vec<Server> {
        let servers = self.servers_table().into_iter().flat_map(TableLike::iter);
        servers
            .map(|(name, item)| Server { name: name.to_owned(), members: to_json(item) })
            .collect()
    }

    /// Edits the entry of the server `name`. Creates the entry if it is missing.
    pub(super) fn apply(&mut self, name: &str, edits: &[Edit]) -> Result<(), EditError> {
        let not_an_object = |what: &str| EditError::NotAnObject(format!("`{what}`"));
        let servers = self.document.entry(self.key).or_insert_with(|| {
            let mut servers = Table::new();
            servers.set_implicit(true);
            Item::Table(servers)
        });
        let is_inline = servers.is_inline_table();
        if let Some(servers) = servers.as_inline_table_mut().filter(|servers| servers.is_empty()) {
            // Remove the white space between the braces. It would follow the new entry and its own white space.
            servers.set_trailing("");
        }
        let servers = servers.as_table_like_mut().ok_or_else(|| not_an_object(self.key))?;
        let is_new = !servers.contains_key(name);
        if is_new {
            let entry =
                if is_inline { value(InlineTable::new()) } else { Item::Table(Table::new()) };
            servers.insert(name, entry);
        }
        if is_new && !is_inline {
            self.keep_end_above(name);
        }
        let servers = self.document.get_mut(self.key).and_then(Item::as_table_like_mut);
        let servers = servers.ok_or_else(|| not_an_object(self.key))?;
        let entry = servers.get_mut(name).and_then(Item::as_table_like_mut);
        let entry = entry.ok_or_else(|| not_an_object(name))?;
        for edit in edits {
            match edit {
                Edit::Set(member, value) => set(entry, member, value),
                Edit::Default(member, value) => {
                    if !entry.contains_key(member) {
                        set(entry, member, value);
                    }
                }
                Edit::SetIn(member, key, text) | Edit::DefaultIn(member, key, text) => {
                    if !entry.contains_key(member) {
                        entry.insert(member, value(InlineTable::new()));
                    }
                    let object = entry.get_mut(member).and_then(Item::as_table_like_mut);
                    let object = object.ok_or_else(|| not_an_object(member))?;
                    if matches!(edit, Edit::SetIn(..)) || !object.contains_key(key) {
                        set(object, key, &Member::Text(text.clone()));
                    }
                }
            }
        }
        Ok(())
    }

    /// If the new table `name` is the last table of the file, moves the comments at the end of the file above this
    /// table. Below the table, the comments would seem to belong to it.
    fn keep_end_above(&mut self, name: &str) {
        let end = self.document.trailing().as_str().unwrap_or_default().to_owned();
        let servers = self.document.get(self.key).and_then(Item::as_table);
        let last = servers.and_then(last_position);
        let is_last = last.is_none() || next_position(self.document.as_table(), last).is_none();
        if !is_last || !end.contains('#') {
            return;
        }
        let position = last_position(self.document.as_table()).map_or(0, |last| last + 1);
        let servers = self.document.get_mut(self.key).and_then(Item::as_table_mut);
        let entry = servers.and_then(|servers| servers.get_mut(name)).and_then(Item::as_table_mut);
        if let Some(entry) = entry {
            let separator = if end.ends_with('\n') { "\n" } else { "\n\n" };
            entry.decor_mut().set_prefix(format!("{end}{separator}"));
            entry.set_position(Some(position));
            self.document.set_trailing("");
        }
    }

    /// Renames an entry, if it exists.
    pub(super) fn rename(&mut self, name: &str, new_name: &str) {
        let servers = self.document.get_mut(self.key).and_then(Item::as_table_like_mut);
        let Some(servers) = servers else { return };
        // Also insert the following entries again, so that the order of the entries does not change.
        let names = servers.iter().map(|(key, _)| key.to_owned()).skip_while(|key| key != name);
        for key in names.collect::<Vec<_>>() {
            let decor = servers.key(&key).map(|key| key.leaf_decor().clone());
            let Some(entry) = servers.remove(&key) else { continue };
            let key = if key == name { new_name } else { &key };
            servers.insert(key, entry);
            if let (Some(mut key), Some(decor)) = (servers.key_mut(key), decor) {
                *key.leaf_decor_mut() = decor;
            }
        }
    }

    pub(crate) fn text(&self) -> String {
        self.document.to_string()
    }

    /// Returns the original text and values of the file, without the entry `name` and the comments in it. Comments
    /// above the entry and above the headers of its tables stay, because they may not be about the entry.
    pub(super) fn without(&self, name: &str) -> (String, Json) {
        let mut values = to_json(self.original.as_item());
        if let Some(file) = values.as_object_mut() {
            let servers = file.entry(self.key).or_insert_with(|| json!({}));
            servers.as_object_mut().and_then(|servers| servers.remove(name));
        }
        let text = self.original.raw();
        let ranges = self.original.get(self.key).map(|servers| ranges(text, servers, name));
        let mut kept = String::new();
        let mut end = 0;
        for range in ranges.into_iter().flatten() {
            kept.push_str(text.get(end..range.start).unwrap_or_default());
            end = end.max(range.end);
            // Do not keep empty lines both above and below the entry.
            let rest = text.get(end..).unwrap_or_default();
            if rest.is_empty() || rest.starts_with('\n') {
                kept.truncate(kept.trim_end_matches('\n').len() + 1);
            }
        }
        (kept + text.get(end..).unwrap_or_default(), values)
    }

    fn servers_table(&self) -> Option<&dyn TableLike> {
        self.document.get(self.key)?.as_table_like()
    }
}

/// Returns the ranges of the text that the entry `name` occupies, sorted by their starts. Ranges may overlap.
fn ranges(text: &str, servers: &Item, name: &str) -> Vec<Range<usize>> {
    let Some(table) = servers.as_table_like() else { return Vec::new() };
    let mut values = table.get_values();
    values.retain(|(path, _)| path.first().is_some_and(|key| key.get() == name));
    if let Some(servers) = servers.as_inline_table() {
        return range_in_braces(text, servers, &values).into_iter().collect();
    }
    let to_lines = |decor: &Decor, range: Range<usize>| {
        let line = text.get(..range.start)?.rfind('\n').map_or(0, |end| end + 1);
        let end = text.get(range.end..)?.find('\n').map_or(text.len(), |end| range.end + end + 1);
        Some(blank_above(text, decor).map_or(line, |above| above.start)..end)
    };
    let of_values = values.iter().filter_map(|(path, value)| {
        let key = path.last()?;
        to_lines(key.leaf_decor(), key.span()?.start..value.span()?.end)
    });
    let tables = table.get(name).into_iter().flat_map(tables_of).flat_map(all_tables);
    let of_tables = tables.filter(|table| !table.is_implicit()).filter_map(|table| {
        let header = table.span()?;
        let values = table.get_values().into_iter().filter_map(|(_, value)| value.span());
        let end = values.map(|value| value.end).max().unwrap_or(header.end);
        to_lines(table.decor(), header.start..end)
    });
    let mut lines: Vec<_> = of_values.chain(of_tables).collect();
    lines.sort_unstable_by_key(|lines| lines.start);
    lines
}

/// Returns the range of the white space above a key or a table header, if it contains no comment.
fn blank_above(text: &str, decor: &Decor) -> Option<Range<usize>> {
    let above = decor.prefix()?.span()?;
    text.get(above.clone())?.trim().is_empty().then_some(above)
}

/// Returns the range of the entry with these values in an inline table. The range includes the comma after the entry,
/// or else the comma before it. If only white space would stay between the braces, the range includes this white space.
fn range_in_braces(
    text: &str,
    servers: &InlineTable,
    values: &[(Vec<&Key>, &Value)],
) -> Option<Range<usize>> {
    let braces = servers.span()?;
    let inner = braces.start + 1..braces.end - 1;
    let mut range = inner.start..inner.start;
    if let (Some((path, _)), Some((_, value))) = (values.first(), values.last()) {
        let decor = path.last()?.leaf_decor();
        let blank = blank_above(text, decor).map(|above| above.start);
        range.start = blank.or(decor.prefix()?.span().map(|above| above.end))?;
        range.end = value.decor().suffix()?.span()?.end;
    }
    if text.get(range.end..)?.starts_with(',') {
        range.end += 1;
    } else if text.get(..range.start)?.ends_with(',') {
        range.start -= 1;
    }
    let others = [text.get(inner.start..range.start)?, text.get(range.end..inner.end)?];
    Some(if others.concat().trim().is_empty() { inner } else { range })
}

/// Returns the table in an item, or the elements of the array of tables in it.
fn tables_of(item: &Item) -> impl Iterator<Item = &Table> {
    let of_array = item.as_array_of_tables().into_iter().flat_map(ArrayOfTables::iter);
    item.as_table().into_iter().chain(of_array)
}

/// Returns the direct subtables of a table, including the elements of arrays of tables.
fn tables(table: &Table) -> impl Iterator<Item = &Table> {
    table.iter().flat_map(|(_, item)| tables_of(item))
}

/// Returns a table and all tables in it, at any depth.
fn all_tables(table: &Table) -> Vec<&Table> {
    std::iter::once(table).chain(tables(table).flat_map(all_tables)).collect()
}

/// Returns the position of the last table header in a table.
fn last_position(table: &Table) -> Option<isize> {
    all_tables(table).into_iter().filter_map(Table::position).max()
}

/// Returns the position of the first table header after `position`.
fn next_position(table: &Table, position: Option<isize>) -> Option<isize> {
    let own = table.position().filter(|own| Some(*own) > position && !table.is_implicit());
    tables(table).filter_map(|table| next_position(table, position)).chain(own).min()
}

fn set(table: &mut dyn TableLike, name: &str, wanted: &Member) {
    let mut new = match wanted {
        Member::Text(text) => Value::from(text.as_str()),
        Member::List(texts) => Value::Array(texts.iter().map(String::as_str).collect::<Array>()),
        Member::Yes => Value::from(true),
    };
    match table.get_mut(name) {
        Some(item) if to_json(item) == wanted.to_json() => {}
        Some(item) => {
            // Keep the comment after the old value. The comment is part of the old value's decor.
            if let Some(old) = item.as_value() {
                *new.decor_mut() = old.decor().clone();
            }
            *item = Item::Value(new);
        }
        None => drop(table.insert(name, Item::Value(new))),
    }
}

/// Converts a TOML item to JSON. Dates become texts.
fn to_json(item: &Item) -> Json {
    match item {
        Item::None => Json::Null,
        Item::Value(value) => value_to_json(value),
        Item::Table(table) => table_to_json(table),
        Item::ArrayOfTables(tables) => tables.iter().map(table_to_json).collect(),
    }
}

fn table_to_json(table: &Table) -> Json {
    table.iter().map(|(name, item)| (name.to_owned(), to_json(item))).collect()
}

fn value_to_json(value: &Value) -> Json {
    match value {
        Value::String(text) => json!(text.value()),
        Value::Integer(number) => json!(number.value()),
        Value::Float(number) => json!(number.value()),
        Value::Boolean(boolean) => json!(boolean.value()),
        Value::Datetime(date) => json!(date.value().to_string()),
        Value::Array(values) => values.iter().map(value_to_json).collect(),
        Value::InlineTable(table) => {
            table.iter().map(|(name, value)| (name.to_owned(), value_to_json(value))).collect()
        }
    }
}
