//! `qwed-mcp doctor --share`: formats facts about this machine as a block of text for a bug report. The block contains
//! no paths, no names of users or machines, and no values of environment variables.

use std::env::consts::ARCH;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

use crate::config::is_own_variable;

/// The kernel settings that decide whether a sandbox can start, as paths below `/proc/sys`.
const SWITCHES: [&str; 6] = [
    "user/max_user_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
    "kernel/apparmor_restrict_unprivileged_unconfined",
    "kernel/yama/ptrace_scope",
    "vm/overcommit_memory",
];

/// Files that show that this process is in a container.
const CONTAINER_MARKS: [&str; 3] =
    ["/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io"];

/// The labels of the rows that are left out of the block. These rows contain folders of the user, or the output of
/// other programs.
const LEFT_OUT: [&str; 2] = ["", "home folder"];
/// The label of the row about the user under which scripts run. Only the reason at the end of this row is shared.
const USER_ROW: &str = "scripts run as";

/// The characters that end a path in a text.
const DELIMITERS: &str = " \t\n,:;()`'\"=";

/// Returns the text that a user can post in a bug report: facts about the machine, and the rows of the diagnosis without
/// paths and names.
pub(super) fn block(diagnosis: &[(&'static str, String)], verdict: &str) -> String {
    let mut rows = machine();
    let shared = diagnosis.iter().filter(|(name, _)| !LEFT_OUT.contains(name));
    rows.extend(shared.map(|(name, value)| match value.rsplit_once(": ") {
        Some((_, reason)) if *name == USER_ROW => (*name, reason.to_owned()),
        _ => (*name, value.clone()),
    }));
    let private = private_names();
    let mut text = format!("```text\nqwed-mcp {}\n\n", env!("CARGO_PKG_VERSION"));
    for (name, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<18}{}", without_private(&value, &private));
    }
    let _ = writeln!(text, "\n{}\n```", without_private(verdict, &private));
    text
}

/// Returns the facts about the machine that decide how scripts can be confined.
fn machine() -> Vec<(&'static str, String)> {
    let [kernel, release] = ["ostype", "osrelease"].map(kernel_setting);
    let system = kernel.zip(release).map_or_else(
        || std::env::consts::OS.to_owned(),
        |(kernel, release)| format!("{kernel} {release}"),
    );
    let processors = available_parallelism().map_or(0, usize::from);
    let mut rows = vec![
        ("system", format!("{system} {ARCH}, {}", distribution())),
        ("processors", processors.to_string()),
        ("container", yes_or_no(CONTAINER_MARKS.iter().any(|mark| Path::new(mark).exists()))),
    ];
    for (name, file) in [
        ("security modules", "/sys/kernel/security/lsm"),
        ("AppArmor label", "/proc/self/attr/apparmor/current"),
        ("SELinux label", "/proc/self/attr/selinux/current"),
    ] {
        rows.extend(read(file).map(|value| (name, value)));
    }
    let own = read("/proc/self/status").unwrap_or_default();
    let lines = own
        .lines()
        .filter(|line| line.starts_with("Seccomp:") || line.starts_with("NoNewPrivs:"))
        .map(|line| line.replace('\t', " "));
    let lines: Vec<String> = lines.collect();
    rows.push(("own process", lines.join(", ")));
    for switch in SWITCHES {
        let value = read(&format!("/proc/sys/{switch}")).unwrap_or_else(|| "absent".to_owned());
        rows.push(("kernel switch", format!("{} = {value}", switch.replace('/', "."))));
    }
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut set: Vec<String> = set.filter(|name| is_own_variable(name)).collect();
    set.sort_unstable();
    rows.push(("variables set", if set.is_empty() { "-".to_owned() } else { set.join(", ") }));
    rows
}

/// Returns the name of the distribution (os-release(5)).
fn distribution() -> String {
    let text = read("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("unknown distribution", |name| name.trim_matches('"')).to_owned()
}

/// Reads a setting of the kernel (`proc_sys_kernel(5)`).
fn kernel_setting(name: &str) -> Option<String> {
    read(&format!("/proc/sys/kernel/{name}"))
}

fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

fn read(file: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    Some(text.trim_end_matches(['\n', '\0']).to_owned())
}

/// Returns the names of the user and of the machine. Leaves out `root`, and names with fewer than three characters,
/// because they occur in other words.
fn private_names() -> Vec<String> {
    let variable = |name: &str| std::env::var(name).ok();
    let home = variable("HOME").and_then(|home| home.rsplit('/').next().map(str::to_owned));
    let variables = ["USER", "LOGNAME", "HOSTNAME"].into_iter().filter_map(variable);
    let names = variables.chain(home).chain(kernel_setting("hostname"));
    names.filter(|name| name.chars().count() >= 3 && name != "root").collect()
}

/// Replaces private names, and paths that start with `/` or `~`, by placeholders.
fn without_private(text: &str, private: &[String]) -> String {
    let words = text.split_inclusive(|c| DELIMITERS.contains(c)).map(|word| {
        let path = word.trim_end_matches(|c| DELIMITERS.contains(c));
        if path.starts_with(['/', '~']) {
            word.replacen(path, "[path]", 1)
        } else {
            word.to_owned()
        }
    });
    private.iter().fold(words.collect(), |text: String, name| text.replace(name, "[name]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_and_no_name_is_shared() {
        let private = ["ada".to_owned(), "babbage".to_owned()];
        for (text, expected) in [
            ("/home/ada/.venv/bin/python (Python 3.11.7)", "[path] (Python 3.11.7)"),
            (
                "failed to open /srv/x, and /y: no such file",
                "failed to open [path], and [path]: no such file",
            ),
            ("~/.venv is used by ada on babbage", "[path] is used by [name] on [name]"),
            ("/sys/fs/cgroup/user.slice/user-1000.slice/app-ada.scope bounds", "[path] bounds"),
            ("1024 MiB memory, 64 processes", "1024 MiB memory, 64 processes"),
        ] {
            assert_eq!(without_private(text, &private), expected);
        }
    }

    #[test]
    fn the_block_has_the_rows_without_those_of_other_programs() {
        let rows = [
            ("interpreter", "/home/ada/python (Python 3.11.7)".to_owned()),
            ("", "/home/ada/old: Traceback of a secret".to_owned()),
            ("home folder", "READABLE by scripts".to_owned()),
            ("scripts run as", "ada (uid 1000): the server's user".to_owned()),
        ];
        let block = block(&rows, "Code can run.");
        assert!(block.contains("\ninterpreter       [path] (Python 3.11.7)\n"), "{block}");
        assert!(block.contains("\nkernel switch     user.max_user_namespaces = "), "{block}");
        assert!(
            block.starts_with("```text\n") && block.ends_with("\nCode can run.\n```\n"),
            "{block}"
        );
        assert!(block.contains("\nscripts run as    the server's user\n"), "{block}");
        assert!(!block.contains("secret") && !block.contains("READABLE"), "{block}");
    }
}
