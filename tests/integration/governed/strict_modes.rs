//! Nothing runs unless the policy, the store and their parent folders belong to the admin alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{McpProcess, is_root};

use super::{Governed, ORDINARY_USER, assert_refused, call_as, counted, run_pytest};

tests! {
    needs [Sandbox, Packages]:
        a_policy_that_others_can_change_allows_nothing,
        a_policy_of_the_workspace_allows_nothing;
    needs []:
        a_data_folder_that_others_can_change_is_not_used;
}

const TEST: &str = "tests/test_ledger.py::test_overdrawn";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn assert_works(server: &mut McpProcess, governed: &Governed) {
    let reply = run_pytest(server, &governed.user, TEST);
    assert!(counted(&reply).starts_with("1 passed in "), "{reply}");
}

#[track_caller]
fn assert_blocked(reply: &Value, why: &str) {
    let message = format!("Tool blocked by policy: {why}");
    assert_refused(reply, -32004, "POLICY_BLOCKED", &message);
}

fn a_policy_that_others_can_change_allows_nothing() {
    let mut governed = Governed::new("ledger");
    let folder = governed.beside("etc/qwed");
    fs::create_dir_all(&folder).unwrap();
    let policy = folder.join("policy.toml");
    fs::rename(&governed.policy, &policy).unwrap();
    let link = governed.beside("link.toml");
    symlink(&policy, &link).unwrap();
    governed.policy = link;
    let mut server = governed.connect();
    assert_works(&mut server, &governed);

    let why = "users other than the admin can change the policy file";
    let etc = governed.beside("etc");
    for (path, before) in [(&policy, 0o644), (&folder, 0o755), (&etc, 0o755)] {
        for wrong in [0o020, 0o002] {
            set_mode(path, before | wrong);
            let reply = run_pytest(&mut server, &governed.user, TEST);
            assert_blocked(&reply, why);
            // Calls that only read are refused too.
            let reply = call_as(&mut server, &governed.viewer, "list_artifacts", Value::default());
            assert!(!reply.to_string().contains(path.to_str().unwrap()), "{reply}");
            set_mode(path, before);
        }
        if is_root() {
            chown(path, Some(ORDINARY_USER), None).unwrap();
            assert_blocked(&run_pytest(&mut server, &governed.user, TEST), why);
            chown(path, Some(0), None).unwrap();
        }
    }
    // A sticky folder such as /tmp is allowed.
    set_mode(&etc, 0o1777);
    assert_works(&mut server, &governed);

    set_mode(&policy, 0o666);
    assert_blocked(&run_pytest(&mut server, &governed.user, TEST), why);
    let output = governed.command(&["policy", "check", governed.policy.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let expected = format!("{} has mode 0666", policy.display());
    assert!(stdout.contains(&expected) && stdout.contains("chmod go-w"), "{stdout}");
    let log = server.finish();
    assert!(log.contains(&expected), "{log}");
}

fn a_policy_of_the_workspace_allows_nothing() {
    let mut governed = Governed::new("ledger");
    let outside = governed.policy.clone();
    let inside = governed.workspace.join("policy.toml");
    let through = governed.workspace.join("link.toml");
    fs::copy(&outside, &inside).unwrap();
    symlink(&outside, &through).unwrap();
    let alias = governed.beside("alias");
    symlink(&governed.workspace, &alias).unwrap();
    let linked = governed.beside("linked.toml");
    symlink(alias.join("policy.toml"), &linked).unwrap();
    for path in [inside, through, alias.join("policy.toml"), linked] {
        governed.policy = path;
        let mut server = governed.connect();
        let reply = run_pytest(&mut server, &governed.user, TEST);
        assert_blocked(
            &reply,
            "the policy file is in the workspace, or a symlink there leads to it",
        );
        server.finish();
    }
    // The control: the server accepts the policy outside of the workspace.
    governed.policy = outside;
    let mut server = governed.connect();
    assert_works(&mut server, &governed);
    server.finish();
}

fn a_data_folder_that_others_can_change_is_not_used() {
    let mut governed = Governed::new("ledger");
    let parent = governed.beside("var");
    fs::create_dir(&parent).unwrap();
    fs::rename(&governed.data, parent.join("data")).unwrap();
    governed.data = parent.join("data");
    let database = governed.data.join("governance.db");
    let artifacts = governed.data.join("artifacts");
    fs::create_dir(&artifacts).unwrap();
    let start = || {
        let mut server = governed.server().start();
        server.close_input();
        let status = server.wait_for_exit(Duration::from_secs(5));
        (status.code(), server.log())
    };
    assert_eq!(start().0, Some(0));
    for (path, before) in
        [(&parent, 0o755), (&governed.data, 0o700), (&database, 0o600), (&artifacts, 0o700)]
    {
        for wrong in [0o020, 0o002, 0o077] {
            set_mode(path, before | wrong);
            let (code, log) = start();
            let expected = format!("{} has mode {:04o}", path.display(), before | wrong);
            assert!(code == Some(1) && log.contains(&expected), "{code:?}: {log}");
            let made = governed.command(&["token", "create", "--user", "x", "--role", "admin"]);
            assert!(made.status.code() == Some(2) && made.stdout.is_empty(), "{made:?}");
            set_mode(path, before);
        }
        if is_root() {
            chown(path, Some(ORDINARY_USER), None).unwrap();
            let (code, log) = start();
            let expected = format!("{} belongs to user {ORDINARY_USER}", path.display());
            assert!(code == Some(1) && log.contains(&expected), "{code:?}: {log}");
            chown(path, Some(0), None).unwrap();
        }
    }
    // This existing folder is writable for all users.
    let open = parent.join("open");
    fs::create_dir(&open).unwrap();
    set_mode(&open, 0o777);
    governed.data.clone_from(&open);
    let made = governed.command(&["token", "create", "--user", "x", "--role", "admin"]);
    assert_eq!(made.status.code(), Some(2), "{made:?}");
    assert_eq!(fs::read_dir(&open).unwrap().count(), 0, "nothing is made there");
    // `audit verify` still reads a store that other users can read.
    governed.data = parent.join("data");
    set_mode(&governed.data, 0o755);
    governed.verify_audit();
}
