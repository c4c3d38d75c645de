//! Tests the commands with which admins use tokens and the audit log of governed tools.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rusqlite::{Connection, params};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::harness::{binary, is_root, public};

tests! {
    needs []:
        a_token_is_made_listed_and_revoked,
        the_list_of_tokens_has_their_last_use,
        what_cannot_be_a_token_is_a_usage_error,
        nobody_but_the_owner_reads_the_store_whatever_the_umask_is,
        processes_that_start_at_once_share_one_store,
        a_store_that_cannot_be_used_is_left_as_it_is,
        the_log_is_listed_and_exported,
        verify_tells_by_its_exit_code_whether_the_log_is_intact,
        verify_compares_the_tokens_with_the_log,
        a_copy_that_cannot_be_written_to_is_read_as_it_is,
        without_a_setting_the_store_is_in_the_users_folder_for_data;
}

const RUN: &str = "0b7bd4f2-9a9e-4a52-8f0c-3c1d6a3c9a11";
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

fn qwed_mcp(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).env_clear().env("QWED_MCP_DATA_DIR", folder);
    let output = command.output().unwrap();
    assert!(output.status.code().is_some(), "{output:?}");
    output
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[track_caller]
fn printed(folder: &Path, arguments: &[&str]) -> String {
    let output = qwed_mcp(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    stdout(&output).to_owned()
}

fn create_token(folder: &Path, user: &str, role: &str) -> String {
    printed(folder, &["token", "create", "--user", user, "--role", role])
}

fn database(folder: &Path) -> PathBuf {
    folder.join("governance.db")
}

fn head(folder: &Path) -> String {
    let connection = Connection::open(database(folder)).unwrap();
    connection.query_row("SELECT hash FROM audit_head", [], |row| row.get(0)).unwrap()
}

/// Creates a store with one token and a log of four rows. The first row is about the token. The other rows are
/// chained as the documents describe it.
fn store() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    create_token(folder.path(), "ana", "admin");
    let mut previous = head(folder.path());
    let connection = Connection::open(database(folder.path())).unwrap();
    let reason =
        "Tool blocked by policy: line 3: sandbox.timeout_s must be a whole number from 1 to 3600";
    for (seq, event, tool, outcome, details) in [
        (2, "MCP_TOOL_CALL", "run_pytest", "ALLOWED", json!({ "token": "1" })),
        (3, "TOOL_STARTED", "run_pytest", "STARTED", json!({})),
        (
            4,
            "POLICY_BLOCKED",
            "run_\u{1b}[31mshell",
            "POLICY_BLOCKED",
            json!({ "blocked_reason": reason }),
        ),
    ] {
        let mut row = json!({
            "seq": seq,
            "time": format!("2126-01-25T10:00:0{seq}.000000Z"),
            "run_id": RUN,
            "event": event,
            "user": (seq < 4).then_some("ana"),
            "tool": tool,
            "arguments_hash": null,
            "outcome": outcome,
            "details": details.to_string(),
            "previous": previous,
        });
        let hash = chained(&row);
        row["hash"] = json!(hash);
        let text = |name: &str| row[name].as_str();
        connection
            .execute(
                "INSERT INTO audit VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7, ?8, ?9, ?10)",
                params![
                    seq,
                    text("time"),
                    text("run_id"),
                    text("event"),
                    text("user"),
                    text("tool"),
                    text("outcome"),
                    text("details"),
                    text("previous"),
                    text("hash")
                ],
            )
            .unwrap();
        connection
            .execute("UPDATE audit_head SET seq = ?1, hash = ?2", params![seq, hash])
            .unwrap();
        previous = hash;
    }
    folder
}

/// Returns the SHA-256 of a row's canonical JSON: sorted names, and no space between the JSON tokens.
fn chained(row: &Value) -> String {
    hex::encode(Sha256::digest(row.to_string()))
}

fn a_token_is_made_listed_and_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let created = qwed_mcp(
        folder,
        &["token", "create", "--user", "ana@example.org", "--role", "user", "--expires", "30d"],
    );
    assert_eq!(created.status.code(), Some(0), "{created:?}");
    let form = regex::Regex::new(r"\Aqwedmcp_[A-Za-z0-9_-]{43}\n\z").unwrap();
    assert!(form.is_match(stdout(&created)), "{created:?}");
    let told = regex::Regex::new(
        r"\Atoken 1 for ana@example.org, role user, until 20[0-9T:.-]+Z; it is shown this once, so keep it\n\z",
    );
    assert!(told.unwrap().is_match(stderr(&created)), "{created:?}");
    let token = stdout(&created).trim().to_owned();
    let other = create_token(folder, "bob", "viewer");
    assert_ne!(token, other.trim());

    let list = || -> Value {
        let text = printed(folder, &["token", "list", "--format", "json"]);
        serde_json::from_str(&text).unwrap()
    };
    let listed = list();
    let tokens = listed["tokens"].as_array().unwrap();
    let expected = [
        json!({
            "id": 1, "user": "ana@example.org", "role": "user", "state": "active",
            "created": tokens[0]["created"], "expires": tokens[0]["expires"], "revoked": null,
            "last_use": null,
        }),
        json!({
            "id": 2, "user": "bob", "role": "viewer", "state": "active",
            "created": tokens[1]["created"], "expires": null, "revoked": null,
            "last_use": null,
        }),
    ];
    assert_eq!(tokens, &expected);

    for (id, code, text) in [
        ("1", 0, "token 1 is revoked\n"),
        ("1", 0, "token 1 was revoked before\n"),
        ("3", 1, ""),
        ("one", 2, ""),
    ] {
        let output = qwed_mcp(folder, &["token", "revoke", id]);
        assert_eq!((output.status.code(), stdout(&output)), (Some(code), text), "{output:?}");
    }
    assert_eq!(list()["tokens"][0]["state"], "revoked");
    assert!(list()["tokens"][0]["revoked"].is_string());

    let table = printed(folder, &["token", "list"]);
    let rows: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["ID", "STATE", "ROLE", "CREATED", "EXPIRES", "LAST", "USE", "USER"]);
    assert_eq!(
        (rows[1][..3].to_vec(), rows[1][6]),
        (vec!["1", "revoked", "user"], "ana@example.org")
    );
    assert_eq!((rows[2][..3].to_vec(), rows[2][4]), (vec!["2", "active", "viewer"], "-"));
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");

    // The store and the list contain no token in plain text.
    let secret = &token["qwedmcp_".len()..];
    assert!(!table.contains(secret) && !list().to_string().contains(secret));
    for file in fs::read_dir(folder).unwrap() {
        let content = fs::read(file.unwrap().path()).unwrap();
        assert!(!content.windows(secret.len()).any(|part| part == secret.as_bytes()));
    }
}

fn the_list_of_tokens_has_their_last_use() {
    let folder = store();
    create_token(folder.path(), "bob", "viewer");
    let text = printed(folder.path(), &["token", "list", "--format", "json"]);
    let listed: Value = serde_json::from_str(&text).unwrap();
    let uses = [0, 1].map(|token| listed["tokens"][token]["last_use"].clone());
    // Only calls count as a use of the token.
    assert_eq!(uses, [json!("2126-01-25T10:00:02.000000Z"), json!(null)]);
    let table = printed(folder.path(), &["token", "list"]);
    let cells = table.lines().map(|line| line.split_whitespace().nth(5).unwrap());
    assert_eq!(cells.collect::<Vec<_>>(), ["LAST", "2126-01-25T10:00:02Z", "-"]);
}

fn what_cannot_be_a_token_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for arguments in [
        ["--user", "a b", "--role", "user"].as_slice(),
        &["--user", "", "--role", "user"],
        &["--user", "ana", "--role", "root"],
        &["--user", "ana", "--role", "Admin"],
        &["--user", "ana"],
        &["--role", "user"],
        &["--user", "ana", "--role", "user", "--expires", "0d"],
        &["--user", "ana", "--role", "user", "--expires", "30"],
    ] {
        let output = qwed_mcp(&data, &[&["token", "create"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
    assert!(!data.exists());
}

fn nobody_but_the_owner_reads_the_store_whatever_the_umask_is() {
    let parent = tempfile::tempdir().unwrap();
    for umask in ["0", "022", "077"] {
        let folder = parent.path().join(umask).join("data");
        let script = format!("umask {umask}; exec \"$0\" token create --user ana --role admin");
        let status = Command::new("/bin/sh")
            .args(["-c", &script])
            .arg(binary())
            .env("QWED_MCP_DATA_DIR", &folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(status.unwrap().success());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&folder), mode(&database(&folder))), (0o700, 0o600), "{umask}");
    }
}

fn processes_that_start_at_once_share_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..8)
        .map(|_| {
            Command::new(binary())
                .args(["token", "create", "--user", "ana", "--role", "user"])
                .env("QWED_MCP_DATA_DIR", folder.path())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(printed(folder.path(), &["token", "list"]).lines().count(), 9);
}

fn a_store_that_cannot_be_used_is_left_as_it_is() {
    let good = fs::read(database(store().path())).unwrap();
    let with = |offset: usize, bytes: &[u8]| {
        let mut content = good.clone();
        content[offset..offset + bytes.len()].copy_from_slice(bytes);
        content
    };
    let commands: [&[&str]; 6] = [
        &["token", "create", "--user", "ana", "--role", "user"],
        &["token", "list"],
        &["token", "revoke", "1"],
        &["audit", "list"],
        &["audit", "verify"],
        &["audit", "export", "--format", "json"],
    ];
    for (content, text) in [
        (with(60, &[0, 0, 0, 9]), "schema version 9, and this program supports 1"),
        (with(68, &[0, 0, 0, 9]), "belongs to another application"),
        (with(0, b"x"), "is damaged or not a database"),
        (with(100, &[0xAA; 500]), "is damaged or not a database"),
        (Vec::new(), "is empty"),
        (b"just a text\n".repeat(100), "is damaged or not a database"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = database(folder.path());
        fs::write(&file, &content).unwrap();
        for arguments in commands {
            let output = qwed_mcp(folder.path(), arguments);
            assert_eq!(output.status.code(), Some(2), "{text}, {arguments:?}: {output:?}");
            assert!(output.stdout.is_empty(), "{output:?}");
            assert!(stderr(&output).contains(text), "{text}: {output:?}");
            assert!(stderr(&output).contains("was not changed; "), "{output:?}");
            assert!(fs::read(&file).unwrap() == content, "{text}, {arguments:?}");
        }
    }

    // A command that only reads creates no store.
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for arguments in &commands[1..] {
        let output = qwed_mcp(&data, arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains("`qwed-mcp token create` makes it"), "{output:?}");
    }
    assert!(!data.exists());
}

fn the_log_is_listed_and_exported() {
    let folder = store();
    let folder = folder.path();
    let export = printed(folder, &["audit", "export"]);
    let rows: Vec<Value> = export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[0]["event"], "TOKEN_CREATED");
    // The exported rows are enough to verify the chain.
    let mut previous = NO_HASH.to_owned();
    for row in &rows {
        assert_eq!(row["previous"], previous);
        let mut hashed = row.clone();
        let hash = hashed.as_object_mut().unwrap().remove("hash").unwrap();
        assert_eq!(hash, chained(&hashed));
        hash.as_str().unwrap().clone_into(&mut previous);
    }
    assert_eq!(rows[3]["tool"], "run_\u{1b}[31mshell");

    let listed = printed(folder, &["audit", "list", "--format", "json", "--limit", "2"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["rows"].as_array().unwrap(), &rows[2..]);

    let made = rows[0]["time"].as_str().unwrap().split_once('.').unwrap().0;
    let expected = format!(
        "\
TIME                  SEQ  EVENT           USER  TOOL                 RUN       OUTCOME
{made}Z  1    TOKEN_CREATED   ana   qwed-mcp token       00000000  token 1, role admin
2126-01-25T10:00:02Z  2    MCP_TOOL_CALL   ana   run_pytest           0b7bd4f2  ALLOWED, token 1
2126-01-25T10:00:03Z  3    TOOL_STARTED    ana   run_pytest           0b7bd4f2  STARTED
2126-01-25T10:00:04Z  4    POLICY_BLOCKED  -     run_\\u{{1b}}[31mshell  0b7bd4f2  Tool blocked by policy: line 3:
                                                                                sandbox.timeout_s must be a whole number
                                                                                from 1 to 3600
"
    );
    let table = printed(folder, &["audit", "list"]);
    assert_eq!(table, expected);
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
    for (arguments, seqs) in [
        (["--event", "mcp_tool_call"].as_slice(), vec!["2"]),
        (&["--event", "TOKEN_CREATED"], vec!["1"]),
        (&["--user", "ana"], vec!["1", "2", "3"]),
        (&["--run-id", RUN, "--limit", "2"], vec!["3", "4"]),
        (&["--run-id", &RUN[..8]], vec!["2", "3", "4"]),
        (&["--run-id", "00000001"], vec![]),
        (&["--since", "1w"], vec!["1", "2", "3", "4"]),
    ] {
        let table = printed(folder, &[&["audit", "list"], arguments].concat());
        let lines = table.lines().skip(1).filter(|line| !line.starts_with(' '));
        let found: Vec<_> = lines.map(|line| line.split_whitespace().nth(1).unwrap()).collect();
        assert_eq!(found, seqs, "{arguments:?}");
    }
    for arguments in [["--limit", "0"], ["--limit", "10001"], ["--event", "x"], ["--run-id", "x"]] {
        let output = qwed_mcp(folder, &[&["audit", "list"], arguments.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

fn verify_tells_by_its_exit_code_whether_the_log_is_intact() {
    let folder = store();
    let folder = folder.path();
    let text = printed(folder, &["audit", "verify"]);
    let head = text.lines().nth(1).unwrap().strip_prefix("head ").unwrap().to_owned();
    let expected = format!(
        "\
the chain is intact, 4 rows
head {head}
waiting or started, and not finished (yet): 1
- {RUN}
unchanged tokens: 1
"
    );
    assert_eq!(text, expected);

    let verify = |head: &str| {
        let output = qwed_mcp(folder, &["audit", "verify", "--format", "json", "--head", head]);
        let mut report: Value = serde_json::from_str(stdout(&output)).unwrap();
        report.as_object_mut().unwrap().remove("version");
        (output.status.code().unwrap(), report)
    };
    let unfinished = json!({ "count": 1, "runs": [RUN] });
    let tokens = json!({ "same": 1, "older": [], "flawed": [] });
    let clock = json!({ "count": 0, "rows": [] });
    let intact = json!({
        "intact": true, "rows": 4, "head": head, "broken": null, "known_head": { "row": 4 },
        "unfinished": unfinished, "tokens": tokens, "damage": [], "schema": [],
        "clock_set_back": clock,
    });
    assert_eq!(verify(&head), (0, intact));
    let elsewhere = "f".repeat(64);
    let unknown = json!({
        "intact": false, "rows": 4, "head": head, "broken": null, "known_head": "missing",
        "unfinished": unfinished, "tokens": tokens, "damage": [], "schema": [],
        "clock_set_back": clock,
    });
    assert_eq!(verify(&elsewhere), (1, unknown));
    let output = qwed_mcp(folder, &["audit", "verify", "--head", "x"]);
    assert_eq!(output.status.code(), Some(2));

    let database = Connection::open(database(folder)).unwrap();
    database
        .execute_batch(
            "DROP TRIGGER audit_is_not_changed;
             UPDATE audit SET outcome = 'PASSED' WHERE seq = 3;",
        )
        .unwrap();
    let (code, report) = verify(&head);
    assert_eq!((code, &report["broken"]), (1, &json!({ "seq": 3, "flaw": "changed" })));
    let output = qwed_mcp(folder, &["audit", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.starts_with("BROKEN: row 3 was changed; 4 rows\nlast good head "), "{text}");
    let rest = "\
tokens were not compared with the log, because the log is not intact
BROKEN: the schema was changed: the trigger audit_is_not_changed is missing
";
    assert!(text.ends_with(rest), "{text}");
}

fn verify_compares_the_tokens_with_the_log() {
    let old = "UPDATE tokens SET role = 'admin' WHERE id = 2;
               INSERT INTO tokens SELECT 9, zeroblob(32), user, role, created, NULL, NULL
                   FROM tokens WHERE id = 1;
               DELETE FROM tokens WHERE id = 3;";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for user in ["ana", "bob", "eve"] {
        create_token(folder, user, "viewer");
    }
    Connection::open(database(folder)).unwrap().execute_batch(old).unwrap();
    let output = qwed_mcp(folder, &["audit", "verify"]);
    let expected = format!(
        "\
the chain is intact, 3 rows
head {}
unchanged tokens: 1
BROKEN: token 2 was changed: role
BROKEN: token 9 was not made by this program: no row mentions it
BROKEN: token 3 was removed
",
        head(folder)
    );
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), expected.as_str()));
}

/// Runs a command as a user other than root.
fn as_reader(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(public(&binary()));
    command.args(arguments).env_clear().env("QWED_MCP_DATA_DIR", folder);
    if is_root() {
        command.uid(4321).gid(4321);
    }
    command.output().unwrap()
}

fn a_copy_that_cannot_be_written_to_is_read_as_it_is() {
    // The path has characters with a special meaning in SQLite's URIs.
    let parent = tempfile::Builder::new().prefix("100%?a#b ").tempdir().unwrap();
    fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = parent.path().join("copy");
    fs::create_dir(&folder).unwrap();
    let copy = database(&folder);
    fs::copy(database(store().path()), &copy).unwrap();
    let may = |folder_mode, file_mode| {
        fs::set_permissions(&copy, fs::Permissions::from_mode(file_mode)).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(folder_mode)).unwrap();
    };
    may(0o555, 0o444);
    for (arguments, lines) in [
        (["audit", "verify"], 5),
        (["audit", "list"], 7),
        (["audit", "export"], 4),
        (["token", "list"], 2),
        (["runs", "list"], 1),
    ] {
        let output = as_reader(&folder, &arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(stdout(&output).lines().count(), lines, "{output:?}");
        let expected = "governance.db is read-only, and is read without changes\n";
        assert!(stderr(&output).ends_with(expected), "{output:?}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is written beside it");
    let output = as_reader(&folder, &["token", "revoke", "1"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");

    // The newest rows are in the WAL file, which SQLite cannot read without write access.
    may(0o755, 0o644);
    fs::write(folder.join("governance.db-wal"), "not empty").unwrap();
    may(0o555, 0o444);
    let output = as_reader(&folder, &["audit", "verify"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("governance.db-wal; copy both to a writable"), "{output:?}");
    may(0o755, 0o644);
}

fn without_a_setting_the_store_is_in_the_users_folder_for_data() {
    let home = tempfile::tempdir().unwrap();
    let xdg = tempfile::tempdir().unwrap();
    let create = |variables: &[(&str, &Path)]| {
        let mut command = Command::new(binary());
        command.args(["token", "create", "--user", "ana", "--role", "admin"]).env_clear();
        command.envs(variables.iter().copied()).current_dir(&home);
        command.output().unwrap()
    };
    let below_home = home.path().join(".local/share/qwed-mcp");
    for (variables, expected) in [
        (
            [("HOME", home.path()), ("XDG_DATA_HOME", xdg.path())].as_slice(),
            xdg.path().join("qwed-mcp"),
        ),
        (&[("HOME", home.path())], below_home.clone()),
        (&[("HOME", home.path()), ("XDG_DATA_HOME", Path::new("relative"))], below_home.clone()),
        (&[("HOME", home.path()), ("QWED_MCP_DATA_DIR", Path::new(""))], below_home),
    ] {
        let output = create(variables);
        assert!(output.status.success(), "{output:?}");
        assert!(database(&expected).is_file(), "{variables:?}");
        fs::remove_dir_all(&expected).unwrap();
    }
    let output = create(&[("HOME", Path::new("relative"))]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("set HOME, or set QWED_MCP_DATA_DIR"), "{output:?}");
    assert!(!home.path().join("relative").exists());
}
