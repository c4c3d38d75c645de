//! Formats the entry for people, as text for a client's file or as a link that opens the client. It never writes a
//! file.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::client::{Client, Format, Shape};
use super::document::{Document, Operation};
use super::edit::{Edit, Member};
use super::entry::{ServerName, Wanted};
use super::places::Places;
use super::program::Launch;

/// The reason why no link exists for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoSnippet {
    #[error("{0} has no link that adds a server; cursor and vscode have")]
    NoLink(&'static str),
}

/// A client that a link can open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Cursor,
    VsCode,
}

/// Returns the text that the user can copy into a client's file.
pub fn snippet(
    client: &Client,
    name: &ServerName,
    launch: &Launch,
    variables: &[(String, String)],
    places: &Places,
) -> String {
    let distribution = places.distribution_for(client);
    let wanted = Wanted::new(client, launch, variables, distribution);
    let edits = wanted.edits(client.shape, None);
    if client.format == Format::Yaml {
        return yaml(client.key, name.as_str(), &edits);
    }
    let operation = Operation::Put { rename_from: None, name: name.as_str(), edits: &edits };
    let empty = Document::read(client.format, client.key, b"");
    let text = empty.and_then(|empty| empty.edited(operation)).unwrap_or_default();
    String::from_utf8(text).unwrap_or_default()
}

/// Returns the link that opens a client. The client asks the user for confirmation and then adds the entry.
pub fn link(
    client: &Client,
    name: &ServerName,
    launch: &Launch,
    variables: &[(String, String)],
) -> Result<String, NoSnippet> {
    let link = match client.name {
        "cursor" => Link::Cursor,
        "vscode" => Link::VsCode,
        _ => return Err(NoSnippet::NoLink(client.title)),
    };
    let wanted = Wanted::new(client, launch, variables, None);
    let mut entry = entry(&wanted.edits(Shape::Plain, None));
    Ok(match link {
        Link::Cursor => {
            let config = STANDARD.encode(entry.to_string());
            let config = utf8_percent_encode(&config, NON_ALPHANUMERIC);
            format!("cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={config}")
        }
        Link::VsCode => {
            if let Some(members) = entry.as_object_mut() {
                members.insert("name".to_owned(), json!(name.as_str()));
                members.insert("type".to_owned(), json!("stdio"));
            }
            let entry = entry.to_string();
            format!("vscode:mcp/install?{}", utf8_percent_encode(&entry, NON_ALPHANUMERIC))
        }
    })
}

/// Returns the entry that `edits` create.
pub(crate) fn entry(edits: &[Edit]) -> Value {
    let mut entry = Map::new();
    for edit in edits {
        match edit {
            Edit::Set(name, value) | Edit::Default(name, value) => {
                entry.insert((*name).to_owned(), value.to_json());
            }
            Edit::SetIn(name, key, value) | Edit::DefaultIn(name, key, value) => {
                let object = entry.entry(*name).or_insert_with(|| json!({}));
                let members = object.as_object_mut();
                members.and_then(|members| members.insert(key.clone(), json!(value)));
            }
        }
    }
    Value::Object(entry)
}

/// Formats an entry as YAML. Texts and lists are written in the syntax of JSON, which is valid YAML.
fn yaml(key: &str, name: &str, edits: &[Edit]) -> String {
    // Errors of `writeln` are ignored below, because writing to a `String` cannot fail.
    let mut text = format!("{key}:\n  {name}:\n    name: {name}\n");
    let mut nested = None;
    for edit in edits {
        match edit {
            Edit::Set(name, value) | Edit::Default(name, value) => {
                let value = match value {
                    Member::Text(text) => json!(text),
                    Member::List(texts) => json!(texts),
                    Member::Yes => json!(true),
                };
                let _ = writeln!(text, "    {name}: {value}");
            }
            Edit::SetIn(name, key, value) | Edit::DefaultIn(name, key, value) => {
                if nested.replace(*name) != Some(*name) {
                    let _ = writeln!(text, "    {name}:");
                }
                let _ = writeln!(text, "      {key}: {}", json!(value));
            }
        }
    }
    text
}
