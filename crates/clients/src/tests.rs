//! Tests, in memory, that adding and removing the entry changes nothing else in a file. The tests use files in
//! different styles for each client.

use serde_json::Value;

use super::client::{CLIENTS, Client, Format, Writing};
use super::document::{Document, Operation};
use super::edit::{Edit, EditError, Member};
use super::entry::{ALLOW_CODE, Wanted};
use super::program::Launch;

fn launch() -> Launch {
    Launch { command: "/opt/qwed/bin/qwed-mcp".to_owned(), arguments: Vec::new(), note: None }
}

fn edits(client: &Client, allow_code: bool) -> Vec<Edit> {
    let variables: &[_] = &[(ALLOW_CODE.to_owned(), "true".to_owned())];
    let variables = if allow_code { variables } else { &[] };
    Wanted::new(client, &launch(), variables, None).edits(client.shape, None)
}

fn read(client: &Client, text: &str) -> Document {
    Document::read(client.format, client.key, text.as_bytes())
        .unwrap_or_else(|error| panic!("{}: {error}: {text}", client.name))
}

fn put(client: &Client, text: &str, name: &str, allow_code: bool) -> String {
    let edits = edits(client, allow_code);
    let operation = Operation::Put { rename_from: None, name, edits: &edits };
    let bytes = read(client, text).edited(operation);
    String::from_utf8(bytes.unwrap_or_else(|error| panic!("{error}: {text}"))).unwrap()
}

fn remove(client: &Client, text: &str, name: &str) -> String {
    let bytes = read(client, text).edited(Operation::Remove { name });
    String::from_utf8(bytes.unwrap_or_else(|error| panic!("{error}: {text}"))).unwrap()
}

fn written() -> impl Iterator<Item = &'static Client> {
    CLIENTS.iter().filter(|client| !matches!(client.writing, Writing::PrintOnly(_)))
}

/// The contents of files in which only the entry may change. `@KEY@` stands for the key under which the client lists
/// servers.
const JSON_FILES: &[&str] = &[
    "{\n  \"@KEY@\": {}\n}\n",
    "{\n  \"@KEY@\": {\n    \"a\": { \"command\": \"x\" }\n  }\n}\n",
    "{\n\t\"@KEY@\": {\n\t\t\"a\": {\n\t\t\t\"command\": \"x\"\n\t\t}\n\t},\n\t\"b\": [1, 2,\t3]\n}",
    "{\n    \"z\": 1, // one\n    /* two */\n    \"@KEY@\": {\n        // three\n        \"a\": {}, // four\n        // five\n    },\n}\n// six\n",
    "{\r\n  \"@KEY@\": {\r\n    \"a\": {}\r\n  },\r\n  \"c\": \"\\u00e9\\/\"\r\n}\r\n",
    "\u{feff}{\n  \"@KEY@\": {\n    \"a\": {}\n  }\n}\n",
    "// top\n\n{\n  \"é\": \"日本\",\n  \"@KEY@\": {\n    \"a\": {}\n  }\n}",
    "{\n  \"@KEY@\": {\n    \"a\": {},\n\n    \"b\": {}\n  },\n\n\n  \"big\": 123456789012345678901234567890.10e5\n}\n",
];

const TOML_FILES: &[&str] = &[
    "",
    "# only a comment\n",
    "model = \"x\" # mine\n\n[@KEY@.a]\ncommand = 'x'\n",
    "[@KEY@.a]\ncommand = \"x\"\nargs = [\n  \"1\", # one\n]\n\n[@KEY@.a.env]\nA = \"b\"\n\n# about the next\n[[list]]\nx = 1\n\n[[list]]\nx = 2\n",
    "model = \"x\"\r\n\r\n[@KEY@.a]\r\ncommand = \"x\"\r\n",
    "\u{feff}[@KEY@.a]\ncommand = \"x\"\n",
    "[@KEY@]\na = { command = \"x\" }\n\n[other]\ndate = 2026-01-01\n",
    "@KEY@ = { a = { command = \"x\" } }\n",
    "@KEY@.a.command = \"x\"\n",
];

fn files(client: &Client) -> Vec<String> {
    let files = match client.format {
        Format::Json => JSON_FILES,
        Format::Toml => TOML_FILES,
        Format::Yaml => &[],
    };
    files.iter().map(|file| file.replace("@KEY@", client.key)).collect()
}

#[test]
fn the_entry_gets_in_once_and_out_again_and_every_other_byte_stays() {
    for client in written() {
        for file in files(client) {
            let added = put(client, &file, "qwed", true);
            assert_ne!(added, file);
            assert_eq!(put(client, &added, "qwed", true), added, "{}: twice", client.name);
            assert_eq!(put(client, &added, "qwed", false), added, "the gate stays as it was");
            assert_eq!(remove(client, &added, "qwed"), file, "{}: {added}", client.name);
        }
    }
}

#[test]
fn files_that_are_missing_or_empty_get_what_the_client_reads() {
    for client in written() {
        for file in ["", "\n", " \n\t\n", "\u{feff}"] {
            if client.format == Format::Toml && file.contains('\t') {
                continue;
            }
            let added = put(client, file, "qwed", false);
            let servers = read(client, &added).servers().unwrap();
            assert_eq!(servers.len(), 1, "{}: {added:?}", client.name);
            assert!(!added.contains(ALLOW_CODE), "{added}");
            assert_eq!(put(client, &added, "qwed", false), added);
        }
    }
}

/// Checks entries against the examples in each client's documentation.
#[test]
fn entries_have_their_clients_shape() {
    let path = "/opt/qwed/bin/qwed-mcp";
    let of = |name: &str| put(super::client(name).unwrap(), "", "qwed", true);
    let plain = format!(
        "{{\n  \"mcpServers\": {{\n    \"qwed\": {{\n      \"command\": \"{path}\",\n      \"args\": \
         [],\n      \"env\": {{\n        \"{ALLOW_CODE}\": \"true\"\n      }}\n    }}\n  }}\n}}\n"
    );
    let typed = plain.replace("\"command\"", "\"type\": \"stdio\",\n      \"command\"");
    let shortened = |entry: &str, chars: &str| {
        let own = format!("\"true\",\n        \"QWED_MCP_RESULT_CHARS\": \"{chars}\"");
        entry.replace("\"true\"", &own)
    };
    for name in ["cursor", "windsurf", "cline", "kiro"] {
        assert_eq!(of(name), plain, "{name}");
    }
    assert_eq!(of("claude-desktop"), shortened(&plain, "40000"));
    assert_eq!(of("gemini-cli"), shortened(&plain, "36000"));
    assert_eq!(of("claude-code"), shortened(&typed, "40000"));
    assert_eq!(of("vscode"), typed.replace("mcpServers", "servers"));
    let zed = plain.replace("mcpServers", "context_servers");
    assert_eq!(of("zed"), zed.replace("\"command\"", "\"source\": \"custom\",\n      \"command\""));
    let all = "      },\n      \"tools\": [\"*\"]\n    }\n";
    let copilot = shortened(&typed, "28000").replacen("      }\n    }\n", all, 1);
    assert_eq!(of("copilot-cli"), copilot);
    assert_eq!(
        of("codex"),
        format!(
            "[mcp_servers.qwed]\ncommand = \"{path}\"\nargs = []\n\
             env = {{ {ALLOW_CODE} = \"true\", QWED_MCP_RESULT_CHARS = \"40000\" }}\n"
        )
    );
    let opencode: Value = serde_json::from_str(&of("opencode")).unwrap();
    assert_eq!(
        opencode,
        serde_json::json!({ "mcp": { "qwed": {
            "type": "local",
            "command": [path],
            "environment": { ALLOW_CODE: "true", "QWED_MCP_RESULT_CHARS": "40000" },
            "enabled": true,
        } } })
    );
}

#[test]
fn an_entry_that_is_there_keeps_what_no_flag_names() {
    let cursor = super::client("cursor").unwrap();
    let before = "{ \"mcpServers\": { // s\n  \"qwed\": { \"disabled\": true, \"command\": \"qwed-mcp\", /* c */ \
                  \"env\": { \"QWED_MCP_MEMORY_MB\": \"2048\" }, \"timeout\": 9 }\n} }";
    let after = put(cursor, before, "qwed", true);
    let expected = "{ \"mcpServers\": { // s\n  \"qwed\": {";
    assert!(after.starts_with(expected), "{after}");
    let entry = read(cursor, &after).servers().unwrap().remove(0).members;
    assert_eq!(
        entry,
        serde_json::json!({
            "disabled": true,
            "command": "/opt/qwed/bin/qwed-mcp",
            "args": [],
            "env": { "QWED_MCP_MEMORY_MB": "2048", ALLOW_CODE: "true" },
            "timeout": 9,
        })
    );
    assert!(after.contains("/* c */"), "{after}");

    let codex = super::client("codex").unwrap();
    let before = "[mcp_servers.qwed]\n# mine\ncommand = \"qwed-mcp\" # here\nstartup_timeout_sec = 20\n\n\
                  [mcp_servers.qwed.env]\nA = \"b\" # too\n\n[z]\n";
    let after = put(codex, before, "qwed", true);
    assert_eq!(
        after,
        format!(
            "[mcp_servers.qwed]\n# mine\ncommand = \"/opt/qwed/bin/qwed-mcp\" # here\n\
             startup_timeout_sec = 20\nargs = []\n\n[mcp_servers.qwed.env]\nA = \"b\" # too\n\
             {ALLOW_CODE} = \"true\"\nQWED_MCP_RESULT_CHARS = \"40000\"\n\n[z]\n"
        )
    );
    // If the entry already sets a variable that has a default, the existing value stays.
    let own = "A = \"b\" # too\nQWED_MCP_RESULT_CHARS = \"9000\"";
    let after = put(codex, &before.replace("A = \"b\" # too", own), "qwed", false);
    assert!(after.contains(own) && !after.contains("40000"), "{after}");
    let claude = super::client("claude-code").unwrap();
    let before = r#"{ "mcpServers": { "qwed": { "env": { "QWED_MCP_RESULT_CHARS": "9000" } } } }"#;
    let after = put(claude, before, "qwed", false);
    assert!(after.contains(r#""env": { "QWED_MCP_RESULT_CHARS": "9000" }"#), "{after}");
}

#[test]
fn a_renamed_entry_stays_where_it_is() {
    let (cursor, codex) = (super::client("cursor").unwrap(), super::client("codex").unwrap());
    for (client, before) in [
        (
            cursor,
            "{ \"mcpServers\": {\n  \"old\": { \"command\": \"qwed-mcp\" }, // o\n  \"z\": {}\n} }",
        ),
        (
            codex,
            "[mcp_servers.old]\ncommand = \"qwed-mcp\" # o\n\n[mcp_servers.z]\ncommand = \"z\"\n",
        ),
    ] {
        let edits = [Edit::Set("command", Member::Text("qwed-mcp".to_owned()))];
        let operation = Operation::Put { rename_from: Some("old"), name: "new", edits: &edits };
        let after = String::from_utf8(read(client, before).edited(operation).unwrap()).unwrap();
        assert_eq!(after, before.replace("old", "new"));
    }
}

#[test]
fn an_entry_is_removed_with_its_own_comments_only() {
    let codex = super::client("codex").unwrap();
    for (before, after) in [
        (
            "[mcp_servers.a]\nx = 1\n\n# keep\n[mcp_servers.qwed]\ncommand = \"q\"\n\n[z]\n",
            "[mcp_servers.a]\nx = 1\n\n# keep\n\n[z]\n",
        ),
        ("# keep\n[mcp_servers.qwed]\ncommand = \"q\"\n", "# keep\n"),
        ("[mcp_servers.qwed]\ncommand = \"q\"\n# end\n", "# end\n"),
        (
            "[mcp_servers]\n# first\nqwed = { command = \"q\" }\n# second\nb = { command = \"b\" }\n",
            "[mcp_servers]\n# first\n# second\nb = { command = \"b\" }\n",
        ),
        (
            "[mcp_servers]\n# first\nqwed = { command = \"q\" }\n\n[z]\n",
            "[mcp_servers]\n# first\n\n[z]\n",
        ),
        ("[tui]\nx = 1\n# note\n[mcp_servers.qwed.env]\nA = \"b\"\n", "[tui]\nx = 1\n# note\n"),
        // Comments after the headers of the entry's tables, and between the tables.
        (
            "[mcp_servers.qwed] # verification\n# own\ncommand = \"q\"\n# next\n\n[z]\n",
            "# next\n\n[z]\n",
        ),
        (
            "# 1\n[mcp_servers.qwed.env] # e\nA = 1\n# 2\n[y]\n# 3\n[[mcp_servers.qwed.tools]] # t\n\n\
             # 4\n[[mcp_servers.qwed.tools]] # tt\nb.c = [ # own\n]\n# 5\n[z]\n",
            "# 1\n# 2\n[y]\n# 3\n\n# 4\n# 5\n[z]\n",
        ),
        // Dotted keys, at the root and in a table.
        (
            "# top\n\nmcp_servers.qwed.command = \"q\" # own\n# 2\nmcp_servers.qwed.env.A = 1\nx = '#'\n",
            "# top\n\n# 2\nx = '#'\n",
        ),
        ("[mcp_servers]\nqwed.command = \"qwed-mcp\" # own\n", "[mcp_servers]\n"),
        (
            "# 1\nmcp_servers.qwed = { command = \"q\" }\n# 2\nmcp_servers.b.command = \"b\"\nm = 1\n\n[t]\n",
            "# 1\n# 2\nmcp_servers.b.command = \"b\"\nm = 1\n\n[t]\n",
        ),
        (
            "[mcp_servers]\n# 1\n  qwed = {} # own\n# 2\nb.command = \"b\"\n\n[t]\n",
            "[mcp_servers]\n# 1\n# 2\nb.command = \"b\"\n\n[t]\n",
        ),
        // Braces.
        ("mcp_servers = { qwed.a = 1, qwed.b = 2, b = {} }\n", "mcp_servers = { b = {} }\n"),
        ("mcp_servers = { a = {}, qwed = [ # own\n] }\n", "mcp_servers = { a = {}}\n"),
        (
            "mcp_servers = {\n# 1\nqwed = {}, # 2\n b = {}, # 3\n}\n",
            "mcp_servers = {\n# 1\n # 2\n b = {}, # 3\n}\n",
        ),
        ("mcp_servers = {\n# 1\nqwed = {} # own\n}\n", "mcp_servers = {\n# 1\n}\n"),
    ] {
        assert_eq!(remove(codex, before, "qwed"), after);
    }
}

#[test]
fn comments_at_the_end_of_a_toml_file_stay_above_a_new_table() {
    let codex = super::client("codex").unwrap();
    for before in [
        "# only comments, \"#\"",
        "[a]\nx = 1\n\n[b]\n[a.c]\n# end\n",
        "[mcp_servers.a]\ncommand = \"#\"\n# args = [\"x\"]\n",
    ] {
        let after = put(codex, before, "qwed", true);
        assert!(after.starts_with(before), "{after}");
        assert!(after.trim_start_matches(before).trim_start().starts_with("[mcp_servers.qwed]"));
        assert_eq!(remove(codex, &after, "qwed").trim_end(), before.trim_end());
    }
}

#[test]
fn a_renamed_toml_entry_keeps_the_comment_above_it() {
    let codex = super::client("codex").unwrap();
    let before = "[mcp_servers]\n# first\nqwed = { command = \"q\" }\nb = { command = \"b\" }\n";
    let edits = edits(codex, true);
    let operation = Operation::Put { rename_from: Some("qwed"), name: "new", edits: &edits };
    let after = String::from_utf8(read(codex, before).edited(operation).unwrap()).unwrap();
    assert!(after.contains("# first\nnew = {"), "{after}");
}

#[test]
fn an_entry_gets_into_braces_with_white_space() {
    let codex = super::client("codex").unwrap();
    let entry = put(codex, "mcp_servers = {}\n", "qwed", true);
    for before in ["mcp_servers = { }\n", "mcp_servers = {\t  }\n"] {
        assert_eq!(put(codex, before, "qwed", true), entry);
    }
    assert_eq!(remove(codex, &entry, "qwed"), "mcp_servers = {}\n");
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    let syntax = |line, column| move |error: &EditError| matches!(error, EditError::Syntax { line: l, column: c, .. } if (*l, *c) == (line, column));
    let check = |name: &str, bytes: &[u8], fits: &dyn Fn(&EditError) -> bool| {
        let client = super::client(name).unwrap();
        let error = Document::read(client.format, client.key, bytes);
        let error = error.expect_err(&String::from_utf8_lossy(bytes));
        assert!(fits(&error), "{name} {error:?}");
    };
    check("cursor", b"{\n  \"a\": 1\n  \"b\": 2\n}", &syntax(2, 9));
    check("cursor", b"{ \"a\": ", &syntax(1, 8));
    check("cursor", b"{ a: 1 }", &syntax(1, 3));
    check("cursor", b"{ 'a': 1 }", &syntax(1, 3));
    check("cursor", b"{} {}", &syntax(1, 4));
    check("codex", b"a = 1\nb = [", &syntax(2, 6));
    check("codex", b"a = 1\na = 2\n", &syntax(2, 1));
    check("cursor", b"{\n \xff}", &|error| *error == EditError::NotUtf8 { line: 2, column: 2 });
    check("cursor", "{}\u{0}".as_bytes(), &syntax(1, 3));
    let utf16 = [0xff, 0xfe, b'{', 0, b'}', 0];
    check("cursor", &utf16, &|error| *error == EditError::NotUtf8 { line: 1, column: 1 });
    let deep = "[".repeat(100_000);
    check("cursor", deep.as_bytes(), &|error| matches!(error, EditError::Syntax { .. }));
    let deep = format!("a = {deep}");
    check("codex", deep.as_bytes(), &|error| matches!(error, EditError::Syntax { .. }));
    for text in ["[]", "1", "null", "{ \"mcpServers\": [] }", "{ \"mcpServers\": null }"] {
        check("cursor", text.as_bytes(), &|error| matches!(error, EditError::NotAnObject(_)));
    }
    check("codex", b"mcp_servers = 1\n", &|error| matches!(error, EditError::NotAnObject(_)));
    let twice = b"{ \"mcpServers\": {}, \"mcpServers\": {} }";
    check("cursor", twice, &|error| matches!(error, EditError::Twice(_)));
    check("codex", b"a = 1\r\nb = 2\n", &|error| *error == EditError::LineEnds);
}

#[test]
fn an_entry_that_is_no_object_or_is_there_twice_is_left_alone() {
    for (name, text) in [
        ("cursor", "{ \"mcpServers\": { \"qwed\": 1 } }"),
        ("cursor", "{ \"mcpServers\": { \"qwed\": {}, \"qw\\u0065d\": {} } }"),
        ("cursor", "{ \"mcpServers\": { \"qwed\": { \"env\": [] } } }"),
        ("cursor", "{ \"mcpServers\": { \"qwed\": { \"args\": [], \"args\": [1] } } }"),
        ("codex", "[mcp_servers]\nqwed = 1\n"),
        ("codex", "[mcp_servers.qwed]\nenv = 1\n"),
    ] {
        let client = super::client(name).unwrap();
        let edits = edits(client, true);
        let operation = Operation::Put { rename_from: None, name: "qwed", edits: &edits };
        let refused = read(client, text).edited(operation);
        assert!(
            matches!(refused, Err(EditError::NotAnObject(_) | EditError::Twice(_))),
            "{text} {refused:?}"
        );
    }
}

/// A generator of pseudo-random numbers. The same seed always produces the same numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn one_of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.roll(texts.len())]
    }

    /// Returns white space or a comment. Either is valid between any two tokens. `end` is the line end.
    fn gap(&mut self, end: &str) -> String {
        let end = end.to_owned();
        match self.roll(8) {
            0 => format!(" // é \"x\": {{ {end}"),
            1 => " /* , } */ ".to_owned(),
            2 => format!("{end}{end}\t"),
            3 => "  ".to_owned(),
            4 => end,
            _ => String::new(),
        }
    }

    fn value(&mut self, depth: usize, end: &str) -> String {
        match self.roll(if depth == 0 { 4 } else { 6 }) {
            0 => self.one_of(&["1", "-0.5e+3", "123456789012345678901234567890"]).to_owned(),
            1 => self.one_of(&["true", "false", "null"]).to_owned(),
            2 | 3 => {
                self.one_of(&["\"\"", "\"\\u00e9\\n\\/\"", "\"日本 // \\\"x\\\"\""]).to_owned()
            }
            4 => {
                let values: Vec<String> = (0..self.roll(3))
                    .map(|_| format!("{}{}", self.gap(end), self.value(depth - 1, end)))
                    .collect();
                format!("[{}{}]", values.join(","), self.gap(end))
            }
            _ => self.object(depth - 1, &[], end),
        }
    }

    fn object(&mut self, depth: usize, first: &[(&str, String)], end: &str) -> String {
        let mut members: Vec<String> = first.iter().map(|(n, v)| format!("\"{n}\":{v}")).collect();
        for number in 0..self.roll(4) {
            let value = self.value(depth, end);
            let (before, after) = (self.gap(end), self.gap(end));
            members.push(format!("{before}\"m{number}\"{after}:{value}{}", self.gap(end)));
        }
        let place = self.roll(members.len() + 1).min(members.len().saturating_sub(1));
        if !members.is_empty() {
            members.rotate_left(place);
        }
        let comma = if self.roll(3) == 0 && !members.is_empty() { "," } else { "" };
        format!("{{{}{comma}{}}}", members.join(","), self.gap(end))
    }
}

/// Checks that adding and removing the entry preserves all values and comments of a file, in their order. If the
/// servers are on separate lines, the file must end up with the same bytes.
#[test]
fn random_files_lose_nothing() {
    let cursor = super::client("cursor").unwrap();
    let mut same_again = 0;
    for seed in 0..1000 {
        let mut dice = Dice(seed);
        let end = dice.one_of(&["\n", "\r\n"]);
        let servers = dice.object(2, &[], end);
        let file = dice.object(2, &[("mcpServers", servers)], end);
        let file = format!("{}{file}{}", dice.gap(end), dice.gap(end));
        let added = put(cursor, &file, "qwed", true);
        assert_eq!(put(cursor, &added, "qwed", true), added, "{file}");
        let removed = remove(cursor, &added, "qwed");
        // White space and commas may change. The rest of the text must stay the same.
        let bare = |text: &str| text.replace([' ', '\t', '\r', '\n', ','], "");
        assert_eq!(bare(&removed), bare(&file), "seed {seed}\n{file}\n----\n{added}");
        same_again += usize::from(removed == file);
        let again = put(cursor, &removed, "qwed", true);
        assert_eq!(bare(&remove(cursor, &again, "qwed")), bare(&file), "seed {seed}\n{file}");
    }
    assert!(same_again > 100, "{same_again}");
}
