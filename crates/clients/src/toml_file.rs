//! Edits TOML. The parsed document keeps every byte that is not edited. This module never reads or writes a file.

use serde_json::{Value as Json, json};
use toml_edit::{
    Array, ArrayOfTables, DocumentMut, InlineTable, Item, RawString, Table, TableLike, Value, value,
};

use super::edit::{Edit, EditError, Member, Server};

/// A client's file in TOML. The table with the key `key` contains the entries of the servers.
pub(super) struct TomlFile {
    document: DocumentMut,
    key: &'static str,
}

impl TomlFile {
    pub(crate) fn parse(text: &str, key: &'static str) -> Result<Self, EditError> {
        let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            let offset = error.span().map_or(0, |span| span.start);
            EditError::at(text, offset, error.message())
        })?;
        // Reject a text that the parsed document does not reproduce exactly. Otherwise an edit would change more than
        // the entry.
        if document.to_string() != text {
            return Err(EditError::LineEnds);
        }
        let file = Self { document, key };
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
        let servers = servers.as_table_like_mut().ok_or_else(|| not_an_object(self.key))?;
        if !servers.contains_key(name) {
            let entry =
                if is_inline { value(InlineTable::new()) } else { Item::Table(Table::new()) };
            servers.insert(name, entry);
        }
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

    /// Renames an entry, if it exists.
    pub(super) fn rename(&mut self, name: &str, new_name: &str) {
        let servers = self.document.get_mut(self.key).and_then(Item::as_table_like_mut);
        if let Some(servers) = servers
            && let Some(entry) = servers.remove(name)
        {
            servers.insert(new_name, entry);
        }
    }

    /// Removes an entry, if it exists. Keeps the comments above it.
    pub(crate) fn remove(&mut self, name: &str) {
        let servers = self.document.get_mut(self.key).and_then(Item::as_table_like_mut);
        let Some(Item::Table(entry)) = servers.and_then(|servers| servers.remove(name)) else {
            return;
        };
        // Move comments above the entry to the text after it, because the comments may not be about the entry.
        let above = entry.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
        if !above.contains('#') {
            return;
        }
        let next = next_position(self.document.as_table(), entry.position());
        if let Some(table) = next.and_then(|next| table_at(self.document.as_table_mut(), next)) {
            let own = table.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
            let both = format!("{above}{own}");
            table.decor_mut().set_prefix(both);
        } else {
            let end = self.document.trailing().as_str().unwrap_or_default();
            let both = format!("{above}{end}");
            self.document.set_trailing(both);
        }
    }

    pub(crate) fn text(&self) -> String {
        self.document.to_string()
    }

    /// Returns the text of the file without the entry `name`.
    pub(crate) fn without(&self, name: &str) -> String {
        let mut file = Self { document: self.document.clone(), key: self.key };
        file.remove(name);
        let is_empty = file.servers_table().is_none_or(TableLike::is_empty);
        let is_implicit =
            file.document.get(self.key).and_then(Item::as_table).is_some_and(Table::is_implicit);
        if is_empty && is_implicit {
            file.document.remove(self.key);
        }
        file.text()
    }

    fn servers_table(&self) -> Option<&dyn TableLike> {
        self.document.get(self.key)?.as_table_like()
    }
}

/// Returns the direct subtables of a table, including the elements of arrays of tables.
fn tables(table: &Table) -> impl Iterator<Item = &Table> {
    table.iter().flat_map(|(_, item)| {
        let of_array = item.as_array_of_tables().into_iter().flat_map(ArrayOfTables::iter);
        item.as_table().into_iter().chain(of_array)
    })
}

/// Returns the position of the first table header after `position`.
fn next_position(table: &Table, position: Option<isize>) -> Option<isize> {
    let own = table.position().filter(|own| Some(*own) > position && !table.is_implicit());
    tables(table).filter_map(|table| next_position(table, position)).chain(own).min()
}

/// Returns the table with a header at this position.
fn table_at(table: &mut Table, position: isize) -> Option<&mut Table> {
    if table.position() == Some(position) && !table.is_implicit() {
        return Some(table);
    }
    table.iter_mut().find_map(|(_, item)| match item {
        Item::Table(table) => table_at(table, position),
        Item::ArrayOfTables(tables) => {
            tables.iter_mut().find_map(|table| table_at(table, position))
        }
        Item::None | Item::Value(_) => None,
    })
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

/// Converts a TOML item to JSON. Types that never occur in entries of servers become null.
fn to_json(item: &Item) -> Json {
    match item {
        Item::Value(value) => value_to_json(value),
        Item::Table(table) => {
            table.iter().map(|(name, item)| (name.to_owned(), to_json(item))).collect()
        }
        Item::None | Item::ArrayOfTables(_) => Json::Null,
    }
}

fn value_to_json(value: &Value) -> Json {
    match value {
        Value::String(text) => json!(text.value()),
        Value::Integer(number) => json!(number.value()),
        Value::Boolean(boolean) => json!(boolean.value()),
        Value::Array(values) => values.iter().map(value_to_json).collect(),
        Value::InlineTable(table) => {
            table.iter().map(|(name, value)| (name.to_owned(), value_to_json(value))).collect()
        }
        Value::Float(_) | Value::Datetime(_) => Json::Null,
    }
}
