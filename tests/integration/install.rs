//! Tests `install` with the configuration file of each client, for different contents of the file. Also starts a server
//! from a written file.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{McpProcess, binary, ordinary_user, public, python, root};

tests! {
    needs [Sandbox]:
        a_server_started_from_a_written_file_runs_scripts;
    needs [Root]:
        files_of_others_are_left_alone_and_root_keeps_their_owner;
    needs []:
        a_missing_file_is_made_and_an_empty_one_is_filled,
        an_entry_is_added_once_and_removed_again,
        an_entry_of_an_older_version_is_taken_over,
        another_server_of_the_same_name_is_left_alone,
        unreadable_files_are_left_alone,
        unwritable_files_are_left_alone,
        links_are_followed_and_dangling_ones_left_alone,
        the_gate_stays_as_it_was_unless_a_flag_opens_it,
        a_dry_run_and_prints_change_nothing,
        the_list_of_clients_changes_nothing,
        a_removal_shows_what_this_program_has_written,
        an_interpreter_is_named_as_in_a_shell,
        an_interpreter_without_sympy_is_reported,
        a_bad_file_of_one_client_does_not_affect_others,
        a_temporary_program_is_not_written_to_a_file,
        claude_code_changes_its_own_file,
        claude_desktop_on_windows_is_reached_from_wsl,
        two_clients_share_the_file_of_a_project,
        links_out_of_a_project_are_not_followed,
        a_long_line_of_members_is_left_alone,
        contents_of_a_file_are_escaped_and_secrets_are_hidden,
        a_kill_at_any_moment_leaves_a_whole_file,
        an_end_in_the_middle_of_any_write_leaves_a_whole_file;
}

/// The clients with configuration files that `install` writes. Each entry has the name of a client, and the path of its
/// file below the home folder and below a project.
const CLIENTS: [(&str, &str, Option<&str>); 12] = [
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", None),
    ("claude-code", ".claude.json", Some(".mcp.json")),
    ("cursor", ".cursor/mcp.json", Some(".cursor/mcp.json")),
    ("vscode", ".config/Code/User/mcp.json", Some(".vscode/mcp.json")),
    ("windsurf", ".codeium/windsurf/mcp_config.json", None),
    ("zed", ".config/zed/settings.json", Some(".zed/settings.json")),
    ("codex", ".codex/config.toml", Some(".codex/config.toml")),
    ("gemini-cli", ".gemini/settings.json", Some(".gemini/settings.json")),
    ("copilot-cli", ".copilot/mcp-config.json", Some(".mcp.json")),
    ("opencode", ".config/opencode/opencode.json", Some("opencode.json")),
    (
        "cline",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        None,
    ),
    ("kiro", ".kiro/settings/mcp.json", Some(".kiro/settings/mcp.json")),
];

/// A program that replaces a Python interpreter in these tests.
const SHELL: &str = "/bin/sh";

const GATE: &str = "QWED_MCP_TRUSTED_CODE_EXECUTION";

/// Returns the key of the object in which the client lists its servers.
fn key(client: &str) -> &'static str {
    match client {
        "vscode" => "servers",
        "zed" => "context_servers",
        "codex" => "mcp_servers",
        "opencode" => "mcp",
        _ => "mcpServers",
    }
}

/// A user with a home folder. If root runs the tests, this is an ordinary user.
struct User {
    home: TempDir,
    /// The path at which this user can run the binary.
    program: PathBuf,
    number: Option<u32>,
    variables: Vec<(&'static str, String)>,
}

impl User {
    /// Creates an ordinary user.
    fn new() -> Self {
        let number = ordinary_user(24_617);
        let user = Self { program: public(&binary()), number, ..Self::of_tests() };
        user.give(user.home.path());
        user
    }

    /// Creates a value for the user that runs the tests.
    fn of_tests() -> Self {
        let home = tempfile::tempdir().unwrap();
        // `install` refuses temporary folders, but the tests use them. This variable empties the list of temporary
        // folders.
        let temporary = ("QWED_MCP_TEST_TEMPORARY", String::new());
        Self { home, program: binary(), number: None, variables: vec![temporary] }
    }

    fn give(&self, path: &Path) {
        if let Some(number) = self.number {
            std::os::unix::fs::lchown(path, Some(number), Some(number)).unwrap();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        // `install` resolves symlinks before it writes or prints a path.
        self.home.path().canonicalize().unwrap().join(name)
    }

    /// Writes a file of this user, and creates its parent folders.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        self.make_folders(path.parent().unwrap());
        fs::write(&path, content).unwrap();
        self.give(&path);
        path
    }

    fn make_folders(&self, folder: &Path) {
        if !folder.exists() {
            self.make_folders(folder.parent().unwrap());
            fs::create_dir(folder).unwrap();
            self.give(folder);
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("install").args(arguments).env_clear().current_dir(self.home.path());
        command.env("HOME", self.path("")).env("PATH", self.path("bin"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(number) = self.number {
            command.uid(number).gid(number);
        }
        command
    }

    fn install(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs `install`, and asserts that it succeeds. Returns its output.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.install(arguments);
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {log}");
        assert!(log.is_empty(), "{arguments:?}: {log}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `install`, and asserts that it exits with 1. Returns its log.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.install(arguments);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        assert!(!log.contains("panicked"), "{log}");
        log
    }

    /// Returns all paths below the home folder, with their modes, owners and contents. The content is `None` for
    /// folders, and for files that the user of the tests may not read.
    fn snapshot(&self) -> BTreeSet<(PathBuf, u32, u32, Option<Vec<u8>>)> {
        let mut entries = BTreeSet::new();
        let mut folders = vec![self.path("")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                let content = match metadata.file_type() {
                    kind if kind.is_dir() => {
                        folders.push(path.clone());
                        None
                    }
                    kind if kind.is_file() => match fs::read(&path) {
                        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
                        content => Some(content.unwrap()),
                    },
                    kind if kind.is_symlink() => {
                        let target = fs::read_link(&path).unwrap();
                        Some(target.into_os_string().into_encoded_bytes())
                    }
                    _ => None,
                };
                entries.insert((path, metadata.mode(), metadata.uid(), content));
            }
        }
        entries
    }
}

/// Returns the backups of a file, the oldest first.
fn backups(file: &Path) -> Vec<PathBuf> {
    let start = format!("{}.qwed-backup-", file.file_name().unwrap().to_str().unwrap());
    let names = fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap());
    let mut backups: Vec<PathBuf> = names
        .filter(|entry| entry.file_name().to_str().unwrap().starts_with(&start))
        .map(|entry| entry.path())
        .collect();
    backups.sort();
    backups
}

/// Returns the content of a configuration with another server, in the client's format.
fn with_other(client: &str) -> String {
    if client == "codex" {
        return "model = 'x' # mine\n\n[mcp_servers.other]\ncommand = 'x'\n".to_owned();
    }
    let key = key(client);
    format!(
        "{{\n\t// mine\n\t\"theme\": \"dark\",\n\t\"{key}\": {{\n\t\t\"other\": {{ \"command\": \
         \"x\" }}, \
         /* here */\n\t}},\n}}\n"
    )
}

fn a_missing_file_is_made_and_an_empty_one_is_filled() {
    let user = User::new();
    for (client, file, _) in CLIENTS {
        let path = user.path(file);
        assert!(!path.exists());
        let text = user.done(&["--client", client]);
        assert!(text.contains("--- /dev/null\n") && text.contains("`qwed` is added"), "{text}");
        let made = fs::read(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600, "{client}");
        assert!(backups(&path).is_empty(), "{client}");
        fs::write(&path, "").unwrap();
        user.done(&["--client", client]);
        assert_eq!(fs::read(&path).unwrap(), made, "{client}");
        assert!(backups(&path).is_empty(), "{client}");
    }
}

fn an_entry_is_added_once_and_removed_again() {
    let user = User::new();
    for (client, user_file, project_file) in CLIENTS {
        let scopes = [(user_file, None), (project_file.unwrap_or(user_file), Some("--project"))];
        for (file, flag) in scopes {
            if flag.is_some() && project_file.is_none() {
                let log = user.refused(&["--client", client, "--project"]);
                assert!(log.contains("it has no file for a project"), "{log}");
                continue;
            }
            let before = with_other(client);
            let path = user.write(file, &before);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let arguments: Vec<&str> = ["--client", client].into_iter().chain(flag).collect();
            let text = user.done(&arguments);
            assert!(text.contains("@@ ") && text.contains("`qwed` is added"), "{text}");
            let after = fs::read_to_string(&path).unwrap();
            assert!(after.contains("qwed-mcp"), "{after}");
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o640, "{client}");
            let kept = backups(&path);
            assert_eq!(kept.len(), 1, "{client}: {kept:?}");
            assert_eq!(fs::read_to_string(&kept[0]).unwrap(), before);
            assert_eq!(kept[0].metadata().unwrap().mode() & 0o7777, 0o600);
            assert!(text.contains(kept[0].to_str().unwrap()), "{text}");
            let advice = "may have keys in it: keep it out of the repository";
            assert_eq!(text.contains(advice), flag.is_some(), "{text}");

            let all = user.snapshot();
            let text = user.done(&arguments);
            assert!(text.contains("already there"), "{text}");
            assert_eq!(user.snapshot(), all, "{client}");

            let removal: Vec<&str> = arguments.iter().copied().chain(["--remove"]).collect();
            let text = user.done(&removal);
            assert!(text.contains("`qwed` is removed"), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), before, "{client}");
            let all = user.snapshot();
            let text = user.done(&removal);
            assert!(text.contains("This server has no entry"), "{text}");
            assert_eq!(user.snapshot(), all, "{client}");
            for backup in backups(&path) {
                fs::remove_file(backup).unwrap();
            }
            fs::remove_file(path).unwrap();
        }
    }
}

fn an_entry_of_an_older_version_is_taken_over() {
    let user = User::new();
    for (client, file, _) in CLIENTS {
        for (command, arguments) in [
            ("qwed-mcp", json!([])),
            ("uvx", json!(["qwed-mcp"])),
            ("/usr/bin/python3", json!(["-m", "qwed_mcp.server"])),
        ] {
            let before = match client {
                "codex" => format!(
                    "[mcp_servers.qwed-verification]\ncommand = \"{command}\"\nargs = {arguments}\n\
                     timeout = 7\n\n[mcp_servers.qwed-verification.env]\nQWED_MCP_MEMORY_MB = \
                     \"512\"\n"
                ),
                "opencode" => {
                    let mut words = vec![json!(command)];
                    words.extend(arguments.as_array().unwrap().iter().cloned());
                    let entry = json!({ "command": words, "timeout": 7,
                        "environment": { "QWED_MCP_MEMORY_MB": "512" } });
                    json!({ "mcp": { "qwed-verification": entry } }).to_string()
                }
                _ => {
                    let entry = json!({ "command": command, "args": arguments, "timeout": 7,
                        "env": { "QWED_MCP_MEMORY_MB": "512" } });
                    json!({ key(client): { "qwed-verification": entry } }).to_string()
                }
            };
            let path = user.write(file, &before);
            let text = user.done(&["--client", client]);
            assert!(text.contains("is taken over"), "{text}");
            let keeps = "`--python /usr/bin/python3` keeps them";
            assert_eq!(text.contains(keeps), command.starts_with('/'), "{text}");
            let after = fs::read_to_string(&path).unwrap();
            assert_eq!(
                after.matches("qwed-verification").count(),
                before.matches("qwed-verification").count()
            );
            for kept in ["512", "timeout", "/qwed-mcp\""] {
                assert!(after.contains(kept), "{client}: {after}");
            }
            assert!(!after.contains("TRUSTED") && !after.contains("-m\""), "{after}");
            fs::write(&path, &before).unwrap();
            user.done(&["--client", client, "--name", "mine"]);
            let renamed = fs::read_to_string(&path).unwrap();
            assert_eq!(renamed.replace("mine", "qwed-verification"), after);
        }
    }
}

fn another_server_of_the_same_name_is_left_alone() {
    let user = User::new();
    for (client, file, _) in CLIENTS {
        let other = with_other(client).replace("other", "qwed");
        let path = user.write(file, &other);
        let all = user.snapshot();
        let log = user.refused(&["--client", client]);
        assert!(log.contains("is another server (x); choose another name with --name"), "{log}");
        assert!(log.contains(path.to_str().unwrap()), "{log}");
        let log = user.refused(&["--client", client, "--remove", "--name", "qwed"]);
        assert!(log.contains("is another server"), "{log}");
        let text = user.done(&["--client", client, "--remove"]);
        assert!(text.contains("This server has no entry"), "{text}");
        assert_eq!(user.snapshot(), all, "{client}");
        user.done(&["--client", client, "--name", "qwed-2"]);
        user.done(&["--client", client, "--remove"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), other, "{client}");
    }
}

fn unreadable_files_are_left_alone() {
    let user = User::new();
    let huge = format!("// {}\n", "x".repeat(17 * 1024 * 1024));
    for (client, file, _) in CLIENTS {
        let is_toml = client == "codex";
        let key = key(client);
        let place = |line: usize, column: usize| format!("line {line}, column {column}: ");
        let broken = if is_toml { "a = 1\nb = [" } else { "{\n  \"a\": 1\n  \"b\": 2 }" };
        let of_broken = if is_toml { place(2, 6) } else { place(2, 9) };
        let wrong = if is_toml { format!("{key} = 1\n") } else { format!("{{ \"{key}\": [] }}") };
        for (content, expected) in [
            (broken.as_bytes(), of_broken.as_str()),
            (b"\n\xff\xfe", "line 2, column 1: the file is not UTF-8"),
            (wrong.as_bytes(), "is not an object"),
            (huge.as_bytes(), "is larger than 16 MiB"),
        ] {
            let path = user.write(file, content);
            let all = user.snapshot();
            for arguments in [&["--client", client][..], &["--client", client, "--remove"]] {
                let log = user.refused(arguments);
                assert!(log.contains(expected), "{client}: {log}");
                assert!(log.contains(path.to_str().unwrap()), "{client}: {log}");
            }
            assert!(user.snapshot() == all, "{client}: {expected}");
        }
        let path = user.path(file);
        for make in [
            |path: &Path| fs::create_dir(path).unwrap(),
            |path: &Path| mkfifo(path, Mode::from_bits_truncate(0o666)).unwrap(),
        ] {
            fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
            make(&path);
            let all = user.snapshot();
            let log = user.refused(&["--client", client]);
            assert!(log.contains("is not a regular file"), "{client}: {log}");
            assert_eq!(user.snapshot(), all, "{client}");
        }
        fs::remove_file(&path).unwrap();
    }
}

fn unwritable_files_are_left_alone() {
    let user = User::new();
    for (client, file, _) in CLIENTS {
        let path = user.write(file, with_other(client));
        let folder = path.parent().unwrap();
        for (changed, mode, expected) in [
            (path.as_path(), 0o444, "is read-only"),
            (path.as_path(), 0o000, "failed to open"),
            (folder, 0o555, "failed to write next to"),
        ] {
            let usual = changed.metadata().unwrap().permissions();
            fs::set_permissions(changed, fs::Permissions::from_mode(mode)).unwrap();
            let all = user.snapshot();
            let log = user.refused(&["--client", client]);
            assert!(log.contains(expected), "{client}: {log}");
            assert_eq!(user.snapshot(), all, "{client}");
            fs::set_permissions(changed, usual).unwrap();
        }
        fs::remove_file(&path).unwrap();
        if folder != user.path("") {
            // The user may not change the folder, so `install` cannot create a new file in it.
            fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).unwrap();
            let log = user.refused(&["--client", client]);
            assert!(log.contains("failed to write next to"), "{client}: {log}");
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

fn links_are_followed_and_dangling_ones_left_alone() {
    let user = User::new();
    for (client, file, _) in CLIENTS {
        let link = user.path(file);
        user.make_folders(link.parent().unwrap());
        let target = user.path(&format!("dotfiles/{client}/file"));
        symlink(&target, &link).unwrap();
        let all = user.snapshot();
        let log = user.refused(&["--client", client]);
        assert!(log.contains("is a broken symlink"), "{client}: {log}");
        assert_eq!(user.snapshot(), all, "{client}");
        let target = user.write(&format!("dotfiles/{client}/file"), with_other(client));
        user.done(&["--client", client]);
        assert_eq!(fs::read_link(&link).unwrap(), target, "{client}");
        assert!(fs::read_to_string(&target).unwrap().contains("qwed-mcp"), "{client}");
        assert_eq!(backups(&target).len(), 1, "{client}");
        assert!(backups(&link).is_empty(), "{client}");
        fs::remove_file(&link).unwrap();
        symlink(&link, &link).unwrap();
        let log = user.refused(&["--client", client]);
        assert!(log.contains("failed to follow"), "{client}: {log}");
        fs::remove_file(&link).unwrap();
    }
    // `install` follows a symlink to a folder too.
    let elsewhere = user.path("elsewhere");
    user.make_folders(&elsewhere);
    fs::remove_dir_all(user.path(".cursor")).unwrap();
    symlink(&elsewhere, user.path(".cursor")).unwrap();
    user.done(&["--client", "cursor"]);
    assert!(elsewhere.join("mcp.json").is_file());
    assert!(user.path(".cursor").is_symlink());
}

fn files_of_others_are_left_alone_and_root_keeps_their_owner() {
    let user = User::new();
    let root = User::of_tests();
    for (client, file, _) in CLIENTS {
        let path = user.write(file, with_other(client));
        chown(&path, Some(0), Some(0)).unwrap();
        let all = user.snapshot();
        let log = user.refused(&["--client", client]);
        assert!(log.contains("belongs to another user"), "{client}: {log}");
        assert_eq!(user.snapshot(), all, "{client}");

        let path = root.write(file, with_other(client));
        chown(&path, Some(24_618), Some(24_619)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        root.done(&["--client", client]);
        let metadata = path.metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (24_618, 24_619), "{client}");
        assert_eq!(metadata.mode() & 0o7777, 0o664, "{client}");
        let backup = backups(&path).remove(0).metadata().unwrap();
        assert_eq!((backup.uid(), backup.mode() & 0o7777), (24_618, 0o600), "{client}");
    }
}

fn the_gate_stays_as_it_was_unless_a_flag_opens_it() {
    let user = User::new();
    for (client, file, _) in CLIENTS {
        let text = user.done(&["--client", client]);
        assert!(text.contains("not run; `--allow-code` lets them run."), "{text}");
        assert!(client != "cursor" || text.contains("was not found on this machine"), "{text}");
        let read = || fs::read_to_string(user.path(file)).unwrap();
        assert!(!read().contains(GATE), "{client}");
        let text = user.done(&["--client", client, "--allow-code"]);
        assert!(
            !text.contains("not run;") && !text.contains("was not found on this machine"),
            "{text}"
        );
        let open = read();
        assert_eq!(open.matches(GATE).count(), 1, "{open}");
        // The admin gate stays open, because only a person may close it.
        let text = user.done(&["--client", client]);
        assert!(text.contains("already there") && !text.contains("not run;"), "{text}");
        assert_eq!(read(), open);
        // `install` keeps a value that a person has written, unless a flag changes it.
        let shut = open.replace("\"true\"", "\"false\"");
        fs::write(user.path(file), &shut).unwrap();
        let text = user.done(&["--client", client, "--python", "/bin/sh"]);
        assert!(text.contains("`qwed` is changed"), "{text}");
        let now = read();
        assert!(now.contains("\"false\"") && now.contains("\"/bin/sh\""), "{now}");
        user.done(&["--client", client, "--allow-code"]);
        assert_eq!(read().matches("\"true\"").count(), open.matches("\"true\"").count());
    }
    let output = user.install(&["--client", "cursor", "--python", "/nonexistent/python"]);
    assert_eq!(output.status.code(), Some(2));
}

fn a_dry_run_and_prints_change_nothing() {
    let user = User::new();
    let page = fs::read_to_string(root().join("docs/CLIENTS.md")).unwrap();
    let long_results = page.split("\n## ").find(|part| part.starts_with("Long results")).unwrap();
    for (client, file, _) in CLIENTS {
        user.write(file, with_other(client));
        let all = user.snapshot();
        let text = user.done(&["--client", client, "--dry-run", "--allow-code"]);
        assert!(text.contains("@@ ") && text.contains("`qwed` would be added"), "{text}");
        // Values of other programs may be secret, so they are not shown.
        assert!(!text.contains("dark"), "{text}");
        assert_eq!(user.snapshot(), all, "{client}");
        let form = if client == "codex" { "toml" } else { "json" };
        let printed = user.done(&["--client", client, "--print", form, "--allow-code"]);
        assert_eq!(user.snapshot(), all, "{client}");
        fs::remove_file(user.path(file)).unwrap();
        user.done(&["--client", client, "--allow-code"]);
        assert_eq!(printed, fs::read_to_string(user.path(file)).unwrap(), "{client}");
        // The documents list the clients that truncate long results.
        let set = printed.split("QWED_MCP_RESULT_CHARS").nth(1);
        let set = set.map(|rest| rest.chars().filter(char::is_ascii_digit).collect::<String>());
        let row = long_results.lines().find(|line| line.starts_with(&format!("| `{client}` |")));
        let documented = row.and_then(|row| row.rsplit('|').nth(1)).map(str::trim);
        assert_eq!(documented, set.as_deref(), "{client}");
    }
    for client in ["goose", "antigravity"] {
        let all = user.snapshot();
        let text = user.done(&["--client", client, "--python", "/bin/sh"]);
        assert!(
            text.contains("add this to its file yourself") && text.contains("\"/bin/sh\""),
            "{text}"
        );
        assert_eq!(user.snapshot(), all, "{client}");
    }
    let links = user.done(&["--print", "link", "--allow-code"]);
    let (cursor, code) = links.trim().split_once('\n').unwrap();
    assert!(cursor.starts_with("cursor://anysphere.cursor-deeplink/mcp/install?name=qwed&config="));
    assert!(code.starts_with("vscode:mcp/install?%7B"), "{code}");
    for arguments in [
        &["--client", "zed", "--print", "link"][..],
        &["--client", "zed", "--print", "toml"],
        &["--client", "nobody"],
        &["--allow-code"],
        &["--remove"],
        &["--client", "zed", "--name", "a b"],
    ] {
        assert_eq!(user.install(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

fn a_removal_shows_what_this_program_has_written() {
    let user = User::new();
    for (client, file, _) in CLIENTS {
        user.done(&["--client", client, "--allow-code", "--python", SHELL]);
        let path = user.path(file);
        let written = fs::read_to_string(&path).unwrap();
        // A person may have added a variable with a secret. It must not be printed.
        let secret = "\"s3cr3t\"";
        let more = match client {
            "codex" => format!("QWED_MCP_PYTHON = \"{SHELL}\", QWED_MCP_AUTH_TOKEN = {secret}"),
            _ => format!("\"QWED_MCP_AUTH_TOKEN\": {secret}, \"QWED_MCP_PYTHON\": \"{SHELL}\""),
        };
        let known = match client {
            "codex" => format!("QWED_MCP_PYTHON = \"{SHELL}\""),
            _ => format!("\"QWED_MCP_PYTHON\": \"{SHELL}\""),
        };
        assert!(written.contains(&known), "{client}: {written}");
        fs::write(&path, written.replace(&known, &more)).unwrap();
        let text = user.done(&["--client", client, "--remove"]);
        let removed: Vec<&str> = text.lines().filter(|line| line.starts_with('-')).collect();
        let removed = removed.join("\n");
        for shown in [SHELL, "\"true\"", user.program.to_str().unwrap()] {
            assert!(removed.contains(shown), "{client}: {shown}: {text}");
        }
        assert!(removed.contains("QWED_MCP_AUTH_TOKEN") && !text.contains("s3cr3t"), "{text}");
        assert_eq!(removed.matches('…').count(), 1, "{client}: {text}");
    }
}

fn an_interpreter_is_named_as_in_a_shell() {
    let user = User::new();
    let shell = make_program(&user, "python3", "");
    user.done(&["--client", "cursor", "--python", "python3"]);
    let read = || fs::read_to_string(user.path(".cursor/mcp.json")).unwrap();
    assert!(read().contains(&format!("\"{}\"", shell.display())), "{}", read());
    // If `PATH` has no program with this name, the name is a path in the current folder.
    let other = user.write("python4", "#!/bin/sh\n");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["./python4", "python4"] {
        user.done(&["--client", "cursor", "--python", "python3"]);
        user.done(&["--client", "cursor", "--python", name]);
        assert!(read().contains(&format!("\"{}\"", other.display())), "{name}: {}", read());
    }
    let output = user.install(&["--client", "cursor", "--python", "python5"]);
    assert_eq!(output.status.code(), Some(2));
}

fn an_interpreter_without_sympy_is_reported() {
    let user = User::of_tests();
    let folder = user.path("venv");
    let made = Command::new(python()).args(["-m", "venv", "--without-pip"]).arg(&folder).status();
    assert!(made.unwrap().success());
    let program = folder.join("bin/python");
    let program = program.to_str().unwrap();
    let hint = format!("{program} has no SymPy: `qwed-mcp env create` makes an environment");
    let text = user.done(&["--client", "cursor", "--python", program]);
    assert!(text.contains(&hint), "{text}");
    assert!(!user.done(&["--client", "cursor"]).contains("no SymPy"));
    let library = fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap().path();
    let package = library.join("site-packages/sympy");
    fs::create_dir(&package).unwrap();
    fs::write(package.join("__init__.py"), "").unwrap();
    let text = user.done(&["--client", "vscode", "--python", program]);
    assert!(!text.contains("no SymPy"), "{text}");
}

fn the_list_of_clients_changes_nothing() {
    let user = User::new();
    user.done(&["--client", "cursor", "--allow-code"]);
    user.write(".config/zed/settings.json", "{\n  oops\n}");
    user.write(".codex/config.toml", "[mcp_servers.qwed-verification]\ncommand = \"qwed-mcp\"\n");
    user.write(".kiro/settings/mcp.json", "");
    user.write(".gemini/settings.json", with_other("gemini-cli").replace("other", "qwed"));
    let all = user.snapshot();
    let text = user.done(&[]);
    assert_eq!(user.snapshot(), all);
    for row in [
        r"(?m)^cursor +qwed +on +\S+/.cursor/mcp.json$",
        r"(?m)^codex +qwed-verification \(0\.2\.x\) +off +\S+/.codex/config.toml$",
        r"(?m)^kiro +- +- ",
        r"(?m)^gemini-cli +- +- ",
        r"(?m)^gemini-cli: `qwed` in \S+/settings.json is another server \(x\); choose another name with --name$",
        r"(?m)^zed +\? +\? ",
        r"(?m)^zed: \S+/settings.json: line 2, column 3: ",
        r"(?m)^Not found here: claude-desktop, claude-code, vscode, ",
        "Nothing was changed",
    ] {
        assert!(regex::Regex::new(row).unwrap().is_match(&text), "{row}\n{text}");
    }
}

fn a_bad_file_of_one_client_does_not_affect_others() {
    let user = User::new();
    user.write(".cursor/mcp.json", "oops");
    let log = user.refused(&["--client", "cursor", "kiro", "--client", "codex,zed"]);
    assert!(log.contains("Cursor: "), "{log}");
    for file in [".kiro/settings/mcp.json", ".codex/config.toml", ".config/zed/settings.json"] {
        assert!(user.path(file).is_file(), "{file}");
    }
}

/// Creates a program in the user's folder on `PATH`.
fn make_program(user: &User, name: &str, script: &str) -> PathBuf {
    let path = user.write(&format!("bin/{name}"), "");
    crate::harness::write_program(&path, &format!("#!/bin/sh\n{script}"));
    path
}

fn a_temporary_program_is_not_written_to_a_file() {
    let mut user = User::new();
    let folder =
        user.program.canonicalize().unwrap().parent().unwrap().to_str().unwrap().to_owned();
    user.variables = vec![("QWED_MCP_TEST_TEMPORARY", folder)];
    let all = user.snapshot();
    // If all users of this machine have uvx, the command succeeds.
    let output = user.install(&["--client", "cursor"]);
    if output.status.code() == Some(1) {
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            log.contains("it is in a temporary folder") && log.contains("uv tool install"),
            "{log}"
        );
        assert_eq!(user.snapshot(), all);
    }
    let uvx = make_program(&user, "uvx", "exit 1\n");
    let _ = fs::remove_file(user.path(".cursor/mcp.json"));
    let text = user.done(&["--client", "cursor"]);
    assert!(text.contains("is in a temporary place (it is in a temporary folder)"), "{text}");
    let written: Value =
        serde_json::from_slice(&fs::read(user.path(".cursor/mcp.json")).unwrap()).unwrap();
    let requirement = format!("qwed-mcp[sdk]=={}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        written["mcpServers"]["qwed"],
        json!({ "command": uvx, "args": ["--from", requirement, "qwed-mcp"] })
    );
}

/// A program that replaces `claude`. It records its arguments, and changes the user's file like the real program.
const CLAUDE: &str = r#"printf '%s\n' "$@" > "$HOME/arguments"
case "$2" in
add-json) printf '{ "numStartups": 7, "mcpServers": { "%s": %s } }' "$3" "$4" > "$HOME/.claude.json";;
remove) printf '{ "numStartups": 8, "mcpServers": {} }' > "$HOME/.claude.json";;
esac
"#;

fn claude_code_changes_its_own_file() {
    let user = User::new();
    let claude = make_program(&user, "claude", CLAUDE);
    let file = user.write(".claude.json", "{ \"numStartups\": 6 }");
    let text = user.done(&["--client", "claude-code", "--dry-run"]);
    assert!(text.contains(&format!("would be added, by {}", claude.display())), "{text}");
    assert!(!user.path("arguments").exists());
    user.done(&["--client", "claude-code", "--allow-code"]);
    let arguments = fs::read_to_string(user.path("arguments")).unwrap();
    let words: Vec<&str> = arguments.lines().collect();
    assert_eq!(
        [words[0], words[1], words[2], words[4], words[5]],
        ["mcp", "add-json", "qwed", "--scope", "user"]
    );
    let entry: Value = serde_json::from_str(words[3]).unwrap();
    assert_eq!(entry["type"], "stdio");
    assert_eq!(
        entry["env"],
        json!({ "QWED_MCP_TRUSTED_CODE_EXECUTION": "true", "QWED_MCP_RESULT_CHARS": "40000" })
    );
    assert!(fs::read_to_string(&file).unwrap().contains("\"numStartups\": 7"));
    assert_eq!(fs::read(&backups(&file)[0]).unwrap(), b"{ \"numStartups\": 6 }");

    // `--python` sets a variable in the entry. `install` then writes the file itself, because the arguments of `claude`
    // would reveal the value.
    fs::remove_file(user.path("arguments")).unwrap();
    user.done(&["--client", "claude-code", "--python", "/bin/sh"]);
    assert!(!user.path("arguments").exists());
    assert!(fs::read_to_string(&file).unwrap().contains("/bin/sh"));

    user.done(&["--client", "claude-code", "--remove"]);
    let arguments = fs::read_to_string(user.path("arguments")).unwrap();
    assert_eq!(arguments, "mcp\nremove\nqwed\n--scope\nuser\n");
    // The file of a project is not part of Claude Code's state, so `install` writes it without `claude`.
    fs::remove_file(user.path("arguments")).unwrap();
    user.done(&["--client", "claude-code", "--project"]);
    assert!(!user.path("arguments").exists());

    // The user gets a message if `claude` fails or does not write the entry. Nothing has changed, so no backup
    // remains.
    let before = user.snapshot();
    let unchanged = || {
        let programs = user.path("bin");
        let files = |snapshot: &BTreeSet<(PathBuf, u32, u32, Option<Vec<u8>>)>| -> Vec<_> {
            snapshot.iter().filter(|(path, ..)| !path.starts_with(&programs)).cloned().collect()
        };
        assert_eq!(files(&user.snapshot()), files(&before));
    };
    make_program(&user, "claude", "echo no such scope >&2; exit 3\n");
    let log = user.refused(&["--client", "claude-code"]);
    assert!(log.contains("`claude mcp add-json` failed: no such scope"), "{log}");
    unchanged();
    let flood = "word=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n\
                 for i in 1 2 3 4 5 6; do word=$word$word$word; done\n\
                 for i in 1 2 3 4 5 6 7 8; do echo $word >&2; done\nexit 3\n";
    make_program(&user, "claude", flood);
    let log = user.refused(&["--client", "claude-code"]);
    assert!(log.contains("`claude mcp add-json` failed: xxxx"), "{log}");
    unchanged();
    make_program(&user, "claude", "exit 0\n");
    let log = user.refused(&["--client", "claude-code"]);
    assert!(log.contains("is not as requested"), "{log}");
    unchanged();
    // The environment variable `CLAUDE_CONFIG_DIR` sets the folder of the file.
    let mut user = user;
    fs::remove_file(user.path("bin/claude")).unwrap();
    user.variables.push(("CLAUDE_CONFIG_DIR", user.path("elsewhere").to_str().unwrap().to_owned()));
    user.done(&["--client", "claude-code"]);
    assert!(user.path("elsewhere/.claude.json").is_file());
}

fn claude_desktop_on_windows_is_reached_from_wsl() {
    let mut user = User::new();
    user.variables.push(("WSL_DISTRO_NAME", "Debian".to_owned()));
    let drive = user.path("drive");
    user.make_folders(&drive);
    make_program(&user, "cmd.exe", "printf 'C:\\\\Users\\\\Ann\\\\AppData\\\\Roaming\\r\\n'\n");
    let windows = "C:\\\\Users\\\\Ann\\\\AppData\\\\Roaming";
    let wslpath =
        format!("test \"$2\" = '{}' && echo {}\n", windows.replace("\\\\", "\\"), drive.display());
    make_program(&user, "wslpath", &wslpath);
    let file = drive.join("Claude/claude_desktop_config.json");
    let text = user.done(&["--client", "claude-desktop", "--allow-code"]);
    assert!(text.contains("which was not tried on Windows"), "{text}");
    let read = || -> Value { serde_json::from_slice(&fs::read(&file).unwrap()).unwrap() };
    let program = user.program.canonicalize().unwrap();
    let entry = read()["mcpServers"]["qwed"].take();
    assert_eq!(
        entry,
        json!({
            "command": "wsl.exe",
            "args": [
                "-d", "Debian", "--exec", "env", "QWED_MCP_TRUSTED_CODE_EXECUTION=true",
                "QWED_MCP_RESULT_CHARS=40000", program,
            ],
        })
    );
    // `install` also keeps the variables in the arguments.
    user.done(&["--client", "claude-desktop", "--python", "/bin/sh"]);
    let arguments = read()["mcpServers"]["qwed"]["args"].take();
    assert_eq!(
        arguments,
        json!([
            "-d",
            "Debian",
            "--exec",
            "env",
            "QWED_MCP_TRUSTED_CODE_EXECUTION=true",
            "QWED_MCP_RESULT_CHARS=40000",
            "QWED_MCP_PYTHON=/bin/sh",
            program,
        ])
    );
    assert!(user.done(&["--client", "claude-desktop"]).contains("already there"));
    // Other clients run inside of WSL.
    user.done(&["--client", "cursor"]);
    assert!(user.path(".cursor/mcp.json").is_file());
    make_program(&user, "cmd.exe", "echo %APPDATA%\n");
    let log = user.refused(&["--client", "claude-desktop"]);
    assert!(log.contains("Windows did not return its settings folder"), "{log}");
}

fn a_kill_at_any_moment_leaves_a_whole_file() {
    let user = User::new();
    let before = format!("// {}\n{}", "x".repeat(2_000_000), with_other("cursor"));
    let path = user.write(".cursor/mcp.json", &before);
    let started = Instant::now();
    user.done(&["--client", "cursor"]);
    let whole = started.elapsed();
    let after = fs::read(&path).unwrap();
    let (mut old, mut new) = (0, 0);
    for step in 0..60_u32 {
        for backup in backups(&path) {
            fs::remove_file(backup).unwrap();
        }
        fs::write(&path, &before).unwrap();
        let mut child = user
            .command(&["--client", "cursor"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let moment = whole * (step % 30 + 1) / 25;
        std::thread::sleep(moment.min(Duration::from_secs(2)));
        let _ = child.kill();
        child.wait().unwrap();
        let now = fs::read(&path).unwrap();
        if now == after {
            new += 1;
        } else {
            assert!(
                now == before.as_bytes(),
                "step {step}: the file is neither the old one nor the new one"
            );
            old += 1;
        }
        // A backup gets its name only when it is complete.
        for backup in backups(&path) {
            assert!(fs::read(backup).unwrap() == before.as_bytes(), "step {step}");
        }
    }
    assert!(old > 0, "{old} {new}");
}

/// A limit on the file size interrupts each write at a certain byte. The write ends with a signal, or with an error
/// as on a full disk.
fn an_end_in_the_middle_of_any_write_leaves_a_whole_file() {
    let user = User::new();
    let before = format!("// {}\n{}", "x".repeat(40_000), with_other("cursor"));
    let path = user.write(".cursor/mcp.json", &before);
    user.done(&["--client", "cursor"]);
    let after = fs::read(&path).unwrap();
    let (mut killed, mut failed, mut done) = (0, 0, 0);
    for blocks in [0, 1, 20, 60, 77, 78, 79, 80, 81, 200] {
        for trap in ["", "trap '' XFSZ; "] {
            fs::remove_dir_all(user.path(".cursor")).unwrap();
            user.write(".cursor/mcp.json", &before);
            // POSIX defines a block of `ulimit -f` as 512 bytes.
            let script = format!("{trap}ulimit -f {blocks}; exec \"$0\" install --client cursor");
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &script]).arg(&user.program).env_clear();
            command.envs(
                user.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))),
            );
            if let Some(number) = user.number {
                command.uid(number).gid(number);
            }
            let output = command.current_dir(user.home.path()).output().unwrap();
            let now = fs::read(&path).unwrap();
            match output.status.code() {
                None => killed += 1,
                Some(0) => done += 1,
                Some(code) => {
                    assert_eq!(code, 1, "{output:?}");
                    failed += 1;
                    let log = String::from_utf8_lossy(&output.stderr);
                    assert!(log.contains("failed to write next to"), "{log}");
                    // A failed attempt must leave no other files.
                    let names = fs::read_dir(path.parent().unwrap()).unwrap().count();
                    assert_eq!(names, 1, "{blocks}");
                }
            }
            let expected = if output.status.success() { &after } else { before.as_bytes() };
            assert!(now == expected, "{blocks} {:?}", output.status);
            for backup in backups(&path) {
                assert!(fs::read(backup).unwrap() == before.as_bytes(), "{blocks}");
            }
        }
    }
    assert!(killed > 3 && failed > 3 && done > 1, "{killed} {failed} {done}");
}

fn contents_of_a_file_are_escaped_and_secrets_are_hidden() {
    let user = User::new();
    let file = ".cursor/mcp.json";
    let argument = json!({ "args": ["-m", "qwed_mcp.server", "--token", "hidden1"] });
    let with = |command: &str| {
        let mut entry = argument.clone();
        entry["command"] = json!(command);
        entry["env"] = json!({ "\u{1b}[2J": "hidden2" });
        entry
    };
    let name = "a\u{1b}]0;b\u{7}";
    let servers = json!({ name: with("/v\u{1b}[31m/bin/python3"), "\u{9b}c": with("qwed-mcp") });
    let comment = "\u{1b}[2J don't: hidden3";
    let text = json!({ "mcpServers": servers }).to_string();
    // The comment has an apostrophe, which looks like the start of a string.
    let text = text.replacen('{', &format!("{{ /* {comment} */ "), 1);
    for project in [&["--client", "cursor"][..], &["--client", "cursor", "--dry-run"], &[]] {
        user.write(file, &text);
        let said = user.done(project);
        let harmful = |c: &char| c.is_control() && !matches!(c, '\n' | '\t');
        assert_eq!(said.chars().find(harmful), None, "{said}");
        assert!(!said.contains("hidden"), "{said}");
        assert!(said.contains("b\\u{7}"), "{said}");
    }
    user.write(file, &text);
    let log = user.refused(&["--client", "cursor", "--remove"]);
    assert!(log.contains("more than one entry") && !log.contains('\u{1b}'), "{log}");
}

fn two_clients_share_the_file_of_a_project() {
    let user = User::new();
    user.done(&["--client", "claude-code", "copilot-cli", "--project"]);
    let read =
        || -> Value { serde_json::from_slice(&fs::read(user.path(".mcp.json")).unwrap()).unwrap() };
    let entry = read()["mcpServers"]["qwed"].take();
    assert_eq!((&entry["type"], &entry["tools"]), (&json!("stdio"), &json!(["*"])));
    let text = user.done(&["--client", "copilot-cli", "claude-code", "--project"]);
    assert_eq!(text.matches("already there").count(), 2, "{text}");
    user.done(&["--client", "copilot-cli", "claude-code", "--project", "--remove"]);
    assert_eq!(read(), json!({ "mcpServers": {} }));
}

fn links_out_of_a_project_are_not_followed() {
    let user = User::new();
    for (client, _, project_file) in CLIENTS {
        let Some(file) = project_file else { continue };
        // A project from a foreign repository may have a symlink that leads out of the project. This symlink may be the
        // file itself or one of its parent folders.
        let project = user.path("project");
        let elsewhere = user.write("elsewhere/file", with_other(client));
        for is_folder in [false, true] {
            user.make_folders(&project);
            let path = project.join(file);
            let (link, target) = if is_folder {
                (path.parent().unwrap().to_owned(), elsewhere.parent().unwrap().to_owned())
            } else {
                (path.clone(), elsewhere.clone())
            };
            if link == project {
                continue;
            }
            user.make_folders(link.parent().unwrap());
            symlink(&target, &link).unwrap();
            let before = user.snapshot();
            for more in [&["--allow-code"][..], &["--dry-run"], &["--remove"]] {
                let mut command = user.command(&["--client", client, "--project"]);
                let output = command.args(more).current_dir(&project).output().unwrap();
                let log = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(1), "{client}: {output:?}");
                let real =
                    if is_folder { target.join(path.file_name().unwrap()) } else { target.clone() };
                let expected = format!("leads out of the project, to {}", real.display());
                assert!(log.contains(&expected), "{client}: {log}");
                assert_eq!(user.snapshot(), before, "{client}");
            }
            fs::remove_dir_all(&project).unwrap();
        }
        // `install` follows symlinks within the project, even if their target uses the project's own path.
        let target = user.write("project/shared/file", with_other(client));
        let link = project.join(file);
        user.make_folders(link.parent().unwrap());
        symlink(&target, &link).unwrap();
        symlink(&project, user.path("alias")).unwrap();
        let mut command = user.command(&["--client", client, "--project"]);
        let output = command.current_dir(user.path("alias")).output().unwrap();
        assert!(output.status.success(), "{client}: {output:?}");
        assert!(fs::read_to_string(&target).unwrap().contains("qwed-mcp"), "{client}");
        fs::remove_file(user.path("alias")).unwrap();
        fs::remove_dir_all(&project).unwrap();
    }
}

fn a_long_line_of_members_is_left_alone() {
    let user = User::new();
    let members =
        |count: usize| -> Vec<String> { (0..count).map(|n| format!("\"k{n}\":1")).collect() };
    let line = format!("{{{}}}", members(2001).join(","));
    user.write(".cursor/mcp.json", &line);
    let log = user.refused(&["--client", "cursor"]);
    assert!(log.contains("the file's value has more than 2000 members on one line"), "{log}");
    user.write(".cursor/mcp.json", format!("{{\"mcpServers\":{line}}}"));
    let log = user.refused(&["--client", "cursor"]);
    assert!(log.contains("`mcpServers` has more than 2000 members on one line"), "{log}");
    // Many members are accepted if each is on a separate line.
    user.write(".cursor/mcp.json", format!("{{\n{}\n}}", members(20_000).join(",\n")));
    user.done(&["--client", "cursor"]);
}

fn a_server_started_from_a_written_file_runs_scripts() {
    let user = User::of_tests();
    let python = python().to_str().unwrap();
    let text =
        user.done(&["--client", "claude-code", "--project", "--allow-code", "--python", python]);
    assert!(text.contains("`qwed` is added"), "{text}");
    let written: Value =
        serde_json::from_slice(&fs::read(user.path(".mcp.json")).unwrap()).unwrap();
    let entry = &written["mcpServers"]["qwed"];
    assert_eq!(entry["type"], "stdio");
    let mut command = Command::new(entry["command"].as_str().unwrap());
    command.args(entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
    // Starts the server as a client does, with a small environment and the variables of the entry.
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(user.home.path());
    for (name, value) in entry["env"].as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    let mut server = McpProcess::of_command(command);
    server.initialize("2025-11-25");
    let reply = server.execute("print(6 * 7)");
    assert!(!reply.is_error, "{reply:?}");
    assert!(reply.text().starts_with("STDOUT:\n42\n"), "{reply:?}");
    server.finish();
}
