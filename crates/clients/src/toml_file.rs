//! Edits TOML. The parsed document keeps every byte that is not edited. This module never reads or writes a file.

use serde_json::{Value as Json, json};
use toml_edit::{
    Array, ArrayOfTables, Decor, DocumentMut, InlineTable, Item, RawString, Table, TableLike,
    Value, value,
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

    /// If the new table `name` is the last one, moves the comments at the end of the file above it. Otherwise they would
    /// be below it, and belong to it.
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
        // Insert the following entries again too, so that the order stays.
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

    /// Returns the comments in an entry, without those above the headers of its tables.
    pub(super) fn comments_in(&self, name: &str) -> Vec<String> {
        let entry = self.servers_table().and_then(|servers| servers.get(name));
        match entry {
            // The comments in an entry with dotted keys include the comment above its first key.
            Some(Item::Table(table)) if table.is_dotted() => Vec::new(),
            Some(Item::Table(table)) => {
                all_tables(table).iter().flat_map(|it| comments(&it.to_string())).collect()
            }
            Some(item) => comments(&item.to_string()),
            None => Vec::new(),
        }
    }

    /// Removes an entry, if it exists. Keeps the comments above it and above the headers of its tables.
    pub(crate) fn remove(&mut self, name: &str) {
        let servers = self.document.get(self.key);
        let position_of_servers = servers.and_then(Item::as_table).and_then(Table::position);
        let Some(servers) = self.document.get_mut(self.key).and_then(Item::as_table_like_mut)
        else {
            return;
        };
        let above_key =
            servers.key(name).and_then(|key| prefix(key.leaf_decor()).map(str::to_owned));
        let after = servers.iter().map(|(key, _)| key.to_owned()).skip_while(|key| key != name);
        let after = after.skip(1).find(|key| servers.get(key).is_some_and(Item::is_value));
        let entry = servers.remove(name);
        // Move comments above the entry to the text after it, because the comments may not be about the entry.
        let (above, position) = match &entry {
            Some(Item::Table(entry)) => {
                let prefixes = all_tables(entry).into_iter().filter_map(|it| prefix(it.decor()));
                let positions = all_tables(entry).into_iter().filter_map(Table::position);
                (prefixes.collect::<String>(), positions.min())
            }
            Some(_) => (above_key.unwrap_or_default(), position_of_servers),
            None => return,
        };
        if above.is_empty() {
            return;
        }
        if let Some(mut key) = after.as_deref().and_then(|key| servers.key_mut(key))
            && entry.is_some_and(|entry| entry.is_value())
        {
            let own = key.leaf_decor().prefix().and_then(RawString::as_str).unwrap_or_default();
            let both = format!("{above}{own}");
            key.leaf_decor_mut().set_prefix(both);
            return;
        }
        let next = next_position(self.document.as_table(), position);
        if let Some(table) = next.and_then(|next| table_at(self.document.as_table_mut(), next)) {
            let own = table.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
            let both = format!("{above}{own}");
            table.decor_mut().set_prefix(both);
        } else {
            let end = self.document.trailing().as_str().unwrap_or_default();
            let both = format!("{above}{end}");
            self.document.set_trailing(format!("{}\n", both.trim_end()));
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

/// Returns a table, its subtables and theirs.
fn all_tables(table: &Table) -> Vec<&Table> {
    std::iter::once(table).chain(tables(table).flat_map(all_tables)).collect()
}

/// Returns the position of the last table header in a table.
fn last_position(table: &Table) -> Option<isize> {
    all_tables(table).into_iter().filter_map(Table::position).max()
}

/// Returns the text before a key or a table header, if the text has a comment.
fn prefix(decor: &Decor) -> Option<&str> {
    decor.prefix().and_then(RawString::as_str).filter(|text| text.contains('#'))
}

/// Returns the comments of a TOML text, each to the end of its line.
pub(super) fn comments(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(['#', '"', '\'']) {
        rest = rest.get(start..).unwrap_or_default();
        let length = if rest.starts_with('#') {
            let length = rest.find('\n').unwrap_or(rest.len());
            found.extend(rest.get(..length).map(|comment| comment.trim_end().to_owned()));
            length
        } else {
            string_length(rest)
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    found
}

/// Returns the length in bytes of the TOML string at the start of `text`, with its quotes.
fn string_length(text: &str) -> usize {
    let quote = text.get(..1).unwrap_or_default();
    let triple = quote.repeat(3);
    let delimiter = if text.starts_with(&triple) { &*triple } else { quote };
    let mut end = delimiter.len();
    while let Some(rest) = text.get(end..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(delimiter) {
            let quotes = rest.len() - rest.trim_start_matches(quote).len();
            // A string in triple quotes may end with quotes.
            return end + if delimiter == quote { 1 } else { quotes };
        }
        let is_escape = quote == "\"" && rest.starts_with('\\');
        let characters = if is_escape { 2 } else { 1 };
        end += rest.chars().take(characters).map(char::len_utf8).sum::<usize>();
    }
    text.len()
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
