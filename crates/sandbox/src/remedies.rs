//! Finds advice for the admin: how to enable a layer of the sandbox that cannot be applied. This module reads settings,
//! but never changes a setting.

use std::fs;
use std::path::Path;

use nix::unistd::geteuid;

use super::{LaunchError, Layer};

/// The commands that load the server's `AppArmor` profile.
macro_rules! load_profile {
    () => {
        "qwed-mcp doctor --apparmor-profile | sudo tee /etc/apparmor.d/qwed-mcp && \
         sudo apparmor_parser --replace /etc/apparmor.d/qwed-mcp"
    };
}

/// The container options that permit namespaces, and the alternative without these options.
macro_rules! container_options {
    () => {
        "--security-opt seccomp=unconfined --security-opt apparmor=unconfined \
         --security-opt systempaths=unconfined, or rely on Landlock (Linux 6.12)"
    };
}

/// A kernel setting that forbids user namespaces, and the command that allows them again.
struct ForbiddingSetting {
    file: &'static str,
    forbids: fn(&str) -> bool,
    remedy: &'static str,
}

/// The known settings that forbid namespaces. The first setting that applies is reported.
const FORBIDDING_SETTINGS: [ForbiddingSetting; 4] = [
    ForbiddingSetting {
        file: "/proc/sys/kernel/unprivileged_userns_clone",
        forbids: |value| value == "0",
        remedy: "run: sysctl -w kernel.unprivileged_userns_clone=1",
    },
    ForbiddingSetting {
        file: "/proc/sys/user/max_user_namespaces",
        forbids: |value| value == "0",
        remedy: "run: sysctl -w user.max_user_namespaces=1000",
    },
    // This setting is the default of Ubuntu 25.10 and later. An unconfined process that changes its profile then has
    // two profiles, the unconfined and the new one, and both must allow namespaces. If AppArmor selects the profile by
    // the program's path instead, the process has only that profile.
    ForbiddingSetting {
        file: "/proc/sys/kernel/apparmor_restrict_unprivileged_unconfined",
        forbids: |value| value == "1" && apparmor_label().contains("//&"),
        remedy: "AppArmor has added the server's profile to another one: start the server by its \
                 path, without aa-exec and without AppArmorProfile= in a unit",
    },
    ForbiddingSetting {
        file: "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        forbids: |value| value == "1",
        remedy: concat!("allow it in AppArmor: ", load_profile!()),
    },
];

/// Returns the name of this process's `AppArmor` profile. `//&` in a name separates several profiles, which all
/// apply.
fn apparmor_label() -> String {
    fs::read_to_string("/proc/self/attr/apparmor/current").unwrap_or_default()
}

/// Files that exist only in a container.
const CONTAINER_MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// Returns the remedy for `error`, as one line without a full stop at the end.
pub fn remedy(error: &LaunchError) -> &'static str {
    match error.layer() {
        Layer::Namespaces | Layer::FileTree if error.is_without_namespaces() => namespaces_remedy(),
        Layer::Namespaces | Layer::FileTree => file_tree_remedy(error),
        Layer::Landlock => {
            "Landlock is missing or too old: without namespaces Linux 6.12 is needed, with them \
             5.13; it must be compiled in (CONFIG_SECURITY_LANDLOCK) and listed in the boot \
             parameter lsm="
        }
        Layer::Seccomp => {
            "seccomp filters are missing (CONFIG_SECCOMP_FILTER), or a container's policy \
             forbids them"
        }
        Layer::Identity => {
            "run the server as an ordinary user; if it must be root, it needs CAP_SETUID, \
             CAP_SETGID and CAP_KILL, and the user id 65534 must exist in its user namespace"
        }
        Layer::ResourceLimits if matches!(error, LaunchError::WatchMemory(_)) => {
            "the server needs a /proc that lists the children of each process \
             (CONFIG_PROC_CHILDREN)"
        }
        Layer::ResourceLimits if matches!(error, LaunchError::LimitMemory(_)) => {
            "macOS 14 or later is needed, with its /usr/sbin/taskpolicy"
        }
        Layer::ResourceLimits | Layer::Capabilities => {
            "the limits of the server's own process are below what a run needs; see ulimit -a"
        }
        Layer::Seatbelt => seatbelt_remedy(error),
        Layer::Start => start_remedy(error),
    }
}

fn seatbelt_remedy(error: &LaunchError) -> &'static str {
    if *error == LaunchError::LessThanAllLayers {
        "QWED_MCP_SANDBOX=required accepts Seatbelt; for all layers use Linux, for example in a \
         virtual machine"
    } else if *error == LaunchError::EndedBeforeSandbox {
        "macOS 14 or later is needed (its /usr/sbin/taskpolicy accepts -m), and a Python with \
         ctypes that starts with -S"
    } else {
        "a process in a sandbox cannot enter another sandbox: start the server outside of the \
         sandbox of an app, a coding agent or a build; if no such sandbox exists, please report \
         this with the version of macOS"
    }
}

fn namespaces_remedy() -> &'static str {
    for ForbiddingSetting { file, forbids, remedy } in FORBIDDING_SETTINGS {
        if fs::read_to_string(file).is_ok_and(|value| forbids(value.trim())) {
            return remedy;
        }
    }
    if CONTAINER_MARKS.iter().any(|mark| Path::new(mark).exists()) {
        // A server that runs as root creates its namespaces without a user namespace. This requires a capability that
        // root does not have in a container.
        return if geteuid().is_root() {
            concat!(
                "this is a container, whose root may not create namespaces: start it as an ordinary \
                 user, with --user 1000:1000 ",
                container_options!()
            )
        } else {
            concat!(
                "this is a container, whose policy forbids namespaces: start it with ",
                container_options!()
            )
        };
    }
    if apparmor_label().trim_end().ends_with("(enforce)") {
        return concat!(
            "the server is confined by an AppArmor profile, which may forbid namespaces: remove that \
             profile, and load one that allows them: ",
            load_profile!()
        );
    }
    "user namespaces are refused (kernel without CONFIG_USER_NS, or a security policy): allow them \
     for this user, or rely on Landlock (Linux 6.12)"
}

fn file_tree_remedy(error: &LaunchError) -> &'static str {
    if matches!(error, LaunchError::MountReadable { .. }) {
        "the server's log names the path: it must exist, and be readable by the server's user; if \
         it is, please report this"
    } else {
        "the machine may be out of memory or descriptors; if it is not, please report this with \
         the \
         server's log"
    }
}

fn start_remedy(error: &LaunchError) -> &'static str {
    if *error == LaunchError::UnsupportedSystem {
        "use Linux, for example in a virtual machine or WSL 2"
    } else if matches!(error, LaunchError::Execute(error) | LaunchError::OpenProgram(error) if error.is_missing())
    {
        "a part of the interpreter's path does not exist in the sandbox: set QWED_MCP_PYTHON to \
         its path without symlinks (sys.executable shows it), and please report this with the \
         server's log"
    } else if matches!(error, LaunchError::StartLauncher(_) | LaunchError::StartInit(_)) {
        "the machine is out of processes, descriptors or memory; see ulimit -a"
    } else if matches!(error, LaunchError::CreateScratch(_)) {
        "set TMPDIR to a folder that the server may write to"
    } else if matches!(error, LaunchError::ReserveDescriptor(_)) {
        "raise the limit of open files of the server above 1000 (ulimit -n)"
    } else if matches!(error, LaunchError::Execute(_) | LaunchError::OpenProgram(_)) {
        "the interpreter must be readable and executable by the user that scripts run as (65534 \
         where the server is root): install Python outside of a private folder, or run the server \
         as an ordinary user"
    } else {
        "see the server's log"
    }
}
