//! Attacks of tests on the machine. Each succeeds without the sandbox and fails inside of it.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Governed, ORDINARY_USER, call_as, evidence, run_id, run_pytest, text};
use crate::harness::{McpProcess, eventually, python};
use crate::sandbox::of_user;

tests! {
    needs [Root, Tier2, PublicPython, Packages]:
        nothing_gets_out_at_tier_2_either;
    needs [Tier3, Packages]:
        every_way_out_works_without_a_sandbox_and_none_within;
}

/// The expected error of each attack, in a sandbox with all layers.
const DENIED: [(&str, &[&str]); 43] = [
    ("read_store", NOT_THERE),
    ("read_store_by_sqlite", &["unable to open database file"]),
    ("read_token_file", NOT_THERE),
    ("read_token_of_server", NOT_THERE),
    ("read_token_of_parent", NOT_THERE),
    ("read_policy", NOT_THERE),
    ("read_other_run", NOT_THERE),
    ("list_data_folder", REFUSED),
    ("read_passwd", NOT_THERE),
    ("read_outside", NOT_THERE),
    ("list_beside_workspace", REFUSED),
    ("read_by_link_in_workspace", NOT_THERE),
    ("read_by_dotdot", NOT_THERE),
    ("read_by_descriptor_of_folder", NOT_THERE),
    ("read_by_hard_link", NOT_THERE),
    ("read_in_new_interpreter", NOT_THERE),
    ("write_workspace", READ_ONLY),
    ("change_test_in_workspace", READ_ONLY),
    ("chmod_in_workspace", READ_ONLY),
    ("rename_in_workspace", READ_ONLY),
    ("write_outside", NOT_THERE_OR_READ_ONLY),
    ("write_store", NOT_THERE),
    ("write_evidence", NOT_THERE_OR_READ_ONLY),
    ("link_in_artifacts", REFUSED),
    ("pipe_in_artifacts", REFUSED),
    ("socket_in_artifacts", REFUSED),
    ("connect_tcp", REFUSED),
    ("connect_unix", REFUSED),
    ("connect_abstract", REFUSED),
    ("send_udp", REFUSED),
    ("listen_tcp", REFUSED),
    ("start_shell", NOT_THERE),
    ("start_shell_by_system", &["assert "]),
    ("start_program_from_artifacts", REFUSED),
    ("start_program_from_memory", &["assert ", "Errno"]),
    ("signal_server", &["No such process", "ProcessLookupError"]),
    ("trace_victim", REFUSED),
    ("new_user_namespace", REFUSED),
    ("outlive_by_fork", &[]),
    ("outlive_by_popen", &[]),
    ("outlive_by_thread", &[]),
    ("write_store_in_new_interpreter", NOT_THERE),
    ("read_token_in_memory_of_server", NOT_THERE),
];
const NOT_THERE: &[&str] = &["No such file or directory"];
const READ_ONLY: &[&str] = &["Read-only file system", "Permission denied"];
const NOT_THERE_OR_READ_ONLY: &[&str] =
    &["No such file or directory", "Read-only file system", "Permission denied"];
const REFUSED: &[&str] =
    &["Operation not permitted", "Permission denied", "Function not implemented"];

/// The targets of the attacks. The sockets must stay open and the process must stay alive during the attacks.
struct Targets {
    _tcp: TcpListener,
    _sockets: [UnixListener; 2],
    victim: std::process::Child,
}

impl Drop for Targets {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

fn targets(governed: &Governed, server: &mut McpProcess) -> Targets {
    let outside = governed.beside("outside.txt");
    fs::write(&outside, "outside").unwrap();
    fs::write(governed.beside("token.txt"), &governed.admin).unwrap();
    std::os::unix::fs::symlink(&outside, governed.workspace.join("link_to_outside")).unwrap();
    // Runs a test, so that a file of another run exists as a target.
    fs::write(governed.workspace.join("test_other.py"), "def test_other(): pass").unwrap();
    fs::write(governed.workspace.join("targets.json"), "{}").unwrap();
    let other = run_id(&run_pytest(server, &governed.admin, "test_other.py"));
    let other = governed.data.join("artifacts").join(other).join("files/left");
    fs::write(&other, "of another run").unwrap();
    let control = governed.beside("control/files");
    fs::create_dir_all(&control).unwrap();

    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = governed.beside("socket");
    let name = governed.beside("abstract").to_str().unwrap().replace('/', "-");
    let abstract_socket = SocketAddr::from_abstract_name(&name).unwrap();
    let sockets =
        [UnixListener::bind(&socket).unwrap(), UnixListener::bind_addr(&abstract_socket).unwrap()];
    let victim = Command::new("sleep").arg("600").spawn().unwrap();
    let told = json!({
        "artifacts": control,
        "store": governed.data.join("governance.db"),
        "data_folder": governed.data,
        "token_file": governed.beside("token.txt"),
        "policy": governed.policy,
        "server_pid": server.pid(),
        "victim_pid": victim.id(),
        "other_run": other,
        "outside": outside,
        "tcp_port": tcp.local_addr().unwrap().port(),
        "unix_socket": socket,
        "abstract_socket": name,
    });
    fs::write(governed.workspace.join("targets.json"), told.to_string()).unwrap();
    Targets { _tcp: tcp, _sockets: sockets, victim }
}

/// Returns the messages of the failed tests in the evidence, by test name.
fn failures(evidence: &Value) -> BTreeMap<String, String> {
    let failures = evidence["summary"]["failures"].as_array().unwrap().iter();
    failures
        .map(|failure| {
            let name = failure["name"].as_str().unwrap();
            let name = name.rsplit_once("::test_").unwrap().1;
            (name.to_owned(), failure.to_string())
        })
        .collect()
}

fn every_way_out_works_without_a_sandbox_and_none_within() {
    let governed = Governed::new("attacks");
    let server = governed.server().variable("QWED_MCP_AUTH_TOKEN", &governed.admin);
    let mut server = server.connect();
    let _targets = targets(&governed, &mut server);

    let reply = run_pytest(&mut server, &governed.user, "test_attacks.py");
    let id = run_id(&reply);
    let about = evidence(&mut server, &governed.user, &id);
    let found = failures(&about);
    for (name, expected) in DENIED {
        let found = found.get(name);
        if expected.is_empty() {
            assert_eq!(found, None, "{name}");
            continue;
        }
        let found = found.unwrap_or_else(|| panic!("{name} got through"));
        assert!(expected.iter().any(|text| found.contains(text)), "{name}: {found}");
    }
    let attacks =
        about["summary"]["failed"].as_u64().unwrap() + about["summary"]["passed"].as_u64().unwrap();
    assert_eq!(usize::try_from(attacks).unwrap(), DENIED.len(), "{}", text(&reply));

    // No process continues after the run.
    let files = governed.data.join("artifacts").join(&id).join("files");
    for beat in ["beat_fork", "beat_popen", "beat_thread"] {
        let read = || fs::read_to_string(files.join(beat)).unwrap();
        let last = read();
        assert!(!last.is_empty(), "{beat}");
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(read(), last, "{beat} goes on");
    }
    // Artifacts that are not regular files cannot be read.
    for path in ["files/symbolic_link", "files/pipe", "files/socket", "files/hard_link"] {
        let arguments = json!({ "run_id": id, "path": path });
        let reply = call_as(&mut server, &governed.admin, "get_artifact_content", arguments);
        assert_eq!(reply["error"]["code"], -32602, "{path}: {reply}");
    }

    works_without_a_sandbox(&governed.workspace);
    server.finish();
    governed.verify_audit();
}

/// Without namespaces, tests see the machine's file tree. Only Landlock denies them access.
fn nothing_gets_out_at_tier_2_either() {
    let governed = Governed::new("attacks");
    governed.give_away();
    let server = governed.server().variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces");
    let server = server.variable("QWED_MCP_AUTH_TOKEN", &governed.admin);
    let mut server = of_user(server, Some(ORDINARY_USER)).connect();
    let _targets = targets(&governed, &mut server);
    governed.give_away();

    let reply = run_pytest(&mut server, &governed.user, "test_attacks.py");
    let about = evidence(&mut server, &governed.user, &run_id(&reply));
    assert_eq!(about["sandbox_tier"], "T2", "{reply}");
    let found = failures(&about);
    let through: Vec<_> = DENIED
        .iter()
        .filter(|(name, expected)| !expected.is_empty() && !found.contains_key(*name))
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(through, [""; 0]);
    // At tier 2, tests write directly to the folder of artifacts. No process continues after the run.
    let files = governed.data.join("artifacts").join(run_id(&reply)).join("files");
    for beat in ["beat_fork", "beat_popen", "beat_thread"] {
        let last = fs::read_to_string(files.join(beat)).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(fs::read_to_string(files.join(beat)).unwrap(), last, "{beat} goes on");
    }
    server.finish();
}

/// The positive control: without a sandbox, every attack succeeds. A test passes if its attack succeeds.
fn works_without_a_sandbox(workspace: &Path) {
    // Writes to a file, because processes that outlive the run would keep a pipe open.
    let log = workspace.parent().unwrap().join("control.txt");
    let status = Command::new(python())
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "test_attacks.py"])
        .current_dir(workspace)
        .stdout(fs::File::create(&log).unwrap())
        .status();
    assert!(status.is_ok());
    let text = fs::read_to_string(log).unwrap();
    assert!(text.contains(&format!("{} passed", DENIED.len())), "{text}");
    // The control must show that detached processes outlive the run.
    let beat = workspace.parent().unwrap().join("control/files/beat_fork");
    let last = fs::read_to_string(&beat).unwrap();
    let goes_on = || fs::read_to_string(&beat).unwrap() != last;
    assert!(eventually(Duration::from_secs(10), goes_on).is_some(), "the control does not go on");
    let folder = workspace.parent().unwrap().join("control/files");
    let _ = Command::new("pkill").args(["-f", folder.to_str().unwrap()]).status();
    // `pkill` does not match the forked process, because the folder is not in its command line. The forked process
    // exits when this folder is removed.
    fs::remove_dir_all(folder).unwrap();
}
