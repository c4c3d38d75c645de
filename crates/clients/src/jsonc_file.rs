//! Edits JSON with comments. The syntax tree keeps every byte that is not edited. This module never reads or writes a
//! file.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{
    CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode, ObjectPropName,
};
use serde_json::Value;

use super::edit::{Edit, EditError, Member, Server};

/// The syntax that clients accept. It extends JSON with comments and trailing commas, and with nothing else.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The maximum number of members in a one-line object to which a member can be added. When a member is added, the
/// syntax tree breaks the line at each member, in quadratic time. With 2,000 members this takes a few tenths of a
/// second.
const ONE_LINE_MEMBERS_MAX: usize = 2000;

/// A client's file in JSON. The object with the key `key` contains the entries of the servers.
pub(super) struct JsoncFile {
    root: CstRootNode,
    key: &'static str,
}

impl JsoncFile {
    pub(crate) fn parse(text: &str, key: &'static str) -> Result<Self, EditError> {
        let root = CstRootNode::parse(text, &OPTIONS).map_err(|error| EditError::Syntax {
            line: error.line_display(),
            column: error.column_display(),
            message: error.kind().to_string(),
        })?;
        let file = Self { root, key };
        if file.root.value().is_some() && file.root.object_value().is_none() {
            return Err(EditError::NotAnObject("the file's value".to_owned()));
        }
        file.servers_object()?;
        Ok(file)
    }

    pub(crate) fn servers(&self) -> Result<Vec<Server>, EditError> {
        let Some(object) = self.servers_object()? else { return Ok(Vec::new()) };
        let server = |property: CstObjectProp| {
            let value = property.value().and_then(|value| value.to_serde_value());
            let name = property.decoded_name().unwrap_or_default();
            Server { name, members: value.unwrap_or_default() }
        };
        Ok(object.properties().into_iter().map(server).collect())
    }

    /// Edits the entry of the server `name`. Creates the entry if it is missing.
    pub(super) fn apply(&self, name: &str, edits: &[Edit]) -> Result<(), EditError> {
        let not_an_object = |what: &str| EditError::NotAnObject(format!("`{what}`"));
        let file = self.root.object_value_or_set();
        if unique(&file, self.key)?.is_none() {
            require_room(&file, "the file's value")?;
        }
        let servers = file.object_value_or_create(self.key);
        let servers = servers.ok_or_else(|| not_an_object(self.key))?;
        if unique(&servers, name)?.is_none() {
            require_room(&servers, &format!("`{}`", self.key))?;
            servers.append(name, CstInputValue::Object(Vec::new()));
        }
        let entry = servers.object_value(name).ok_or_else(|| not_an_object(name))?;
        for edit in edits {
            match edit {
                Edit::Set(member, value) => set(&entry, member, value)?,
                Edit::Default(member, value) => {
                    if unique(&entry, member)?.is_none() {
                        entry.append(member, input(value));
                    }
                }
                Edit::SetIn(member, key, value) | Edit::DefaultIn(member, key, value) => {
                    unique(&entry, member)?;
                    let object = entry.object_value_or_create(member);
                    let object = object.ok_or_else(|| not_an_object(member))?;
                    if matches!(edit, Edit::SetIn(..)) || unique(&object, key)?.is_none() {
                        set(&object, key, &Member::Text(value.clone()))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Renames an entry. The new name must not contain a character that JSON escapes.
    pub(super) fn rename(&self, name: &str, new_name: &str) -> Result<(), EditError> {
        if let Some(ObjectPropName::String(literal)) =
            self.server(name)?.and_then(|server| server.name())
        {
            literal.set_raw_value(format!("\"{new_name}\""));
        }
        Ok(())
    }

    /// Returns the text without an entry and its comma, and without the lines that only the entry occupies. This
    /// function edits the text itself, because the syntax tree would also remove comments after the entry.
    pub(crate) fn removed(&self, name: &str) -> Result<String, EditError> {
        let text = self.text();
        let Some(server) = self.server(name)? else { return Ok(text) };
        let node = CstNode::from(server);
        let start = offset(&node);
        let end = start + node.to_string().len();
        let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        let (mut first, mut rest) = (part(0, start).to_owned(), part(end, text.len()).to_owned());
        if let Some(gap) = comma(node.next_siblings()) {
            rest.replace_range(gap..=gap, "");
        } else if let Some(gap) = comma(node.previous_siblings()) {
            // The entry is the last member, so the comma before it would become a trailing comma. Remove that comma.
            let comma = start - gap - 1;
            first.replace_range(comma..=comma, "");
        }
        let indent = first.trim_end_matches([' ', '\t']);
        let next = rest.trim_start_matches([' ', '\t']);
        let next = next.strip_prefix("\r\n").or_else(|| next.strip_prefix('\n'));
        let (first, rest) = match next {
            Some(next) if indent.ends_with('\n') => (indent, next),
            Some(_) | None => (first.as_str(), rest.as_str()),
        };
        // If the object is now empty, remove the white space between its brackets.
        let (open, close) = (first.trim_end(), rest.trim_start());
        Ok(if open.ends_with('{') && close.starts_with('}') && server_was_alone(&node) {
            format!("{open}{close}")
        } else {
            format!("{first}{rest}")
        })
    }

    pub(crate) fn text(&self) -> String {
        self.root.to_string()
    }

    /// Returns the JSON value and the comments of the file, without the entry `name` and its comments.
    pub(crate) fn without(&self, name: &str) -> Result<(Value, Vec<String>), EditError> {
        let mut value = self.root.to_serde_value().unwrap_or_default();
        let mut comments = Vec::new();
        comments_of(&self.root.children(), &mut comments);
        if let Some(server) = self.server(name)? {
            let mut of_server = Vec::new();
            comments_of(&server.children(), &mut of_server);
            // The comments of the entry are consecutive in the list of all comments, so find and remove them as one
            // range.
            let is_start = |at: &usize| {
                comments.get(*at..).is_some_and(|rest| rest.starts_with(of_server.as_slice()))
            };
            let start = (0..comments.len()).find(is_start).unwrap_or_default();
            comments.drain(start..(start + of_server.len()).min(comments.len()));
        }
        if value.is_null() {
            value = Value::Object(serde_json::Map::new());
        }
        if let Some(file) = value.as_object_mut() {
            let servers = file.entry(self.key).or_insert_with(|| serde_json::json!({}));
            servers.as_object_mut().and_then(|servers| servers.remove(name));
        }
        Ok((value, comments))
    }

    fn servers_object(&self) -> Result<Option<CstObject>, EditError> {
        let Some(file) = self.root.object_value() else { return Ok(None) };
        let Some(property) = unique(&file, self.key)? else { return Ok(None) };
        let object = property.object_value();
        object.map(Some).ok_or_else(|| EditError::NotAnObject(format!("`{}`", self.key)))
    }

    fn server(&self, name: &str) -> Result<Option<CstObjectProp>, EditError> {
        let servers = self.servers_object()?;
        servers.map_or(Ok(None), |servers| unique(&servers, name))
    }
}

/// Returns the member `name` of an object. Fails if several members have this name.
fn unique(object: &CstObject, name: &str) -> Result<Option<CstObjectProp>, EditError> {
    let mut named = object
        .properties()
        .into_iter()
        .filter(|property| property.decoded_name().is_some_and(|known| known == name));
    match (named.next(), named.next()) {
        (found, None) => Ok(found),
        (_, Some(_)) => Err(EditError::Twice(format!("`{name}`"))),
    }
}

/// Fails if adding a member to an object would take too long. `what` names the object in the error.
fn require_room(object: &CstObject, what: &str) -> Result<(), EditError> {
    let is_on_one_line = !object.children().iter().any(CstNode::is_newline);
    if is_on_one_line && object.properties().len() > ONE_LINE_MEMBERS_MAX {
        return Err(EditError::OneLine {
            what: what.to_owned(),
            members_max: ONE_LINE_MEMBERS_MAX,
        });
    }
    Ok(())
}

/// Returns the offset of a node within the text of the file, in bytes.
fn offset(node: &CstNode) -> usize {
    let before = |node: &CstNode| -> usize {
        node.previous_siblings().map(|sibling| sibling.to_string().len()).sum()
    };
    before(node) + node.ancestors().map(|parent| before(&CstNode::from(parent))).sum::<usize>()
}

/// Returns the number of bytes before the first comma in `siblings`. Returns `None` if another value comes first.
fn comma(siblings: impl Iterator<Item = CstNode>) -> Option<usize> {
    let mut gap = 0;
    for sibling in siblings {
        if sibling.is_comma() {
            return Some(gap);
        }
        if !sibling.is_trivia() {
            return None;
        }
        gap += sibling.to_string().len();
    }
    None
}

/// Returns whether the object that contains a server's entry contains only white space otherwise.
fn server_was_alone(node: &CstNode) -> bool {
    let mut siblings = node.previous_siblings().chain(node.next_siblings());
    siblings.all(|sibling| sibling.is_whitespace() || sibling.is_newline() || sibling.is_token())
}

fn set(object: &CstObject, name: &str, value: &Member) -> Result<(), EditError> {
    let Some(property) = unique(object, name)? else {
        object.append(name, input(value));
        return Ok(());
    };
    let known = property.value().and_then(|value| value.to_serde_value());
    if known != Some(value.to_json()) {
        property.set_value(input(value));
    }
    Ok(())
}

fn input(value: &Member) -> CstInputValue {
    match value {
        Member::Text(text) => text.as_str().into(),
        Member::List(texts) => texts.clone().into(),
        Member::Yes => true.into(),
    }
}

fn comments_of(nodes: &[CstNode], comments: &mut Vec<String>) {
    for node in nodes {
        comments.extend(node.as_comment().map(|comment| comment.raw_value()));
        comments_of(&node.children(), comments);
    }
}
