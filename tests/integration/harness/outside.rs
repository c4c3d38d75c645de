//! Objects outside of the sandbox that hostile scripts try to reach.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

/// Files, sockets and a process of the server's user.
pub(crate) struct Outside {
    folder: TempDir,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    abstract_name: String,
    _listeners: (UnixListener, UnixDatagram, UnixListener),
}

impl Outside {
    /// Creates the objects for a user. `None` is the user of the tests.
    pub(crate) fn new(user: Option<u32>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("secret"), "planted-secret\n").unwrap();
        fs::create_dir(at("outside")).unwrap();
        fs::write(at("outside/victim.txt"), "untouched").unwrap();
        fs::copy("/bin/true", at("outside/true")).unwrap();
        mkfifo(&at("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
        let stream = UnixListener::bind(at("stream")).unwrap();
        let datagram = UnixDatagram::bind(at("datagram")).unwrap();
        let abstract_name = format!("qwed-mcp-test-{}", std::process::id());
        let abstract_name =
            format!("{abstract_name}-{}", folder.path().display()).replace('/', "-");
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let unnamed = UnixListener::bind_addr(&address).unwrap();
        for (name, mode) in [("secret", 0o600), ("outside", 0o755), ("outside/victim.txt", 0o644)] {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let mut victim = Command::new("sleep");
        victim.arg("7200").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Uses a new process group, because an attack signals the group of this process. If the group were 1, killpg(2)
        // would signal all processes.
        victim.process_group(0);
        if let Some(user) = user {
            victim.uid(user).gid(user);
            for name in [
                "",
                "secret",
                "outside",
                "outside/victim.txt",
                "outside/true",
                "fifo",
                "stream",
                "datagram",
            ] {
                chown(at(name), Some(user), Some(user)).unwrap();
            }
        }
        Self {
            victim: victim.spawn().unwrap(),
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            abstract_name,
            _listeners: (stream, datagram, unnamed),
            folder,
        }
    }

    /// Replaces the placeholders in an attack with the names of these objects, the PID of the server, and this tag.
    pub(crate) fn filled_in(&self, text: &str, server: u32, tag: &str) -> String {
        let path = |name: &str| self.path(name).to_str().unwrap().to_owned();
        [
            ("@SECRET@", path("secret")),
            ("@OUTSIDE@", path("outside")),
            ("@OUT_TAG@", tag.to_owned()),
            ("@TCP_PORT@", self.tcp.local_addr().unwrap().port().to_string()),
            ("@UDP_PORT@", self.udp.local_addr().unwrap().port().to_string()),
            ("@UNIX_STREAM@", path("stream")),
            ("@UNIX_DGRAM@", path("datagram")),
            ("@ABSTRACT@", self.abstract_name.clone()),
            ("@SERVER_PID@", server.to_string()),
            ("@VICTIM_PID@", self.victim.id().to_string()),
            ("@FIFO@", path("fifo")),
        ]
        .into_iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(name, &value))
    }

    /// Returns whether all objects are unchanged.
    pub(crate) fn is_untouched(&mut self) -> bool {
        let outside = self.path("outside");
        let mut names: Vec<_> =
            fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let mode = fs::metadata(outside.join("victim.txt")).unwrap().permissions().mode() & 0o7777;
        names == ["true", "victim.txt"]
            && fs::read_to_string(outside.join("victim.txt")).unwrap() == "untouched"
            && mode == 0o644
            && self.victim.try_wait().unwrap().is_none()
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}
