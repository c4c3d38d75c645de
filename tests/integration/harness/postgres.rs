//! Runs a real PostgreSQL server for tests, in a temporary folder that is removed at the end.
//!
//! Unit tests in `src` and `crates` include this file too, so it must not use the rest of the harness.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};

/// The folder of Debian's packages of PostgreSQL, with a subfolder for each version.
const OF_DEBIAN: &str = "/usr/lib/postgresql";
/// The possible users of the server if root runs the tests, because PostgreSQL refuses to run as root.
const USERS: [&str; 2] = ["postgres", "nobody"];
/// The maximum time for the start of a server.
const START_MAX: Duration = Duration::from_secs(60);

/// Returns the folder with the programs of PostgreSQL, if it is installed.
pub(crate) fn programs() -> Option<PathBuf> {
    static PROGRAMS: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let path = env::var_os("PATH").unwrap_or_default();
        let of_path = env::split_paths(&path).filter_map(|folder| {
            Some(folder.join("postgres").canonicalize().ok()?.parent()?.to_owned())
        });
        let mut of_debian: Vec<PathBuf> = fs::read_dir(OF_DEBIAN)
            .into_iter()
            .flatten()
            .flatten()
            .map(|version| version.path().join("bin"))
            .collect();
        of_debian.sort_by_key(|bin| {
            bin.parent().and_then(Path::file_name).and_then(|it| it.to_str()?.parse::<u32>().ok())
        });
        of_path.chain(of_debian.into_iter().rev()).find(|bin| {
            ["postgres", "initdb", "pg_ctl"].iter().all(|program| bin.join(program).is_file())
        })
    });
    PROGRAMS.clone()
}

/// A server with its data. It ends when this value is dropped, and also when the process of the tests ends.
pub(crate) struct Postgres {
    folder: PathBuf,
    port: u16,
    options: String,
    /// A process that reads its standard input. When the input ends, this process ends the server and removes the
    /// server's data.
    cleaner: Child,
}

/// Returns the server that many tests share. A test that stops its server must start its own.
pub(crate) fn shared() -> &'static Postgres {
    static SHARED: LazyLock<Mutex<Option<&'static Postgres>>> = LazyLock::new(Mutex::default);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.get_or_insert_with(|| Box::leak(Box::new(Postgres::start())))
}

impl Postgres {
    pub(crate) fn start() -> Self {
        Self::start_with("", |_| {})
    }

    /// Starts a server with additional options. First calls `prepare`, which may write files to the server's folder.
    pub(crate) fn start_with(options: &str, prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::Builder::new().prefix("qwed-postgres-").tempdir().unwrap().keep();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let data = folder.join("data");
        prepare(&folder);
        if let Some(user) = user() {
            for file in fs::read_dir(&folder).unwrap().flatten().map(|file| file.path()) {
                chown(file, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
            }
            chown(&folder, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
        }
        let cleaner = Command::new("/bin/sh")
            .args(["-c", "trap '' INT TERM HUP; cat >/dev/null; \"$0\" -D \"$1/data\" -m immediate stop; rm -rf \"$1\""])
            .arg(programs().expect("a PostgreSQL").join("pg_ctl"))
            .arg(&folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .as_server()
            .spawn()
            .unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options =
            format!("-p {port} -k {} -c listen_addresses=127.0.0.1 {options}", folder.display());
        let this = Self { folder, port, options, cleaner };
        Self::run(
            "initdb",
            &[
                "-D",
                data.to_str().unwrap(),
                "-U",
                "qwed",
                "-A",
                "trust",
                "--no-sync",
                "-E",
                "UTF8",
                "--no-locale",
            ],
        );
        this.begin();
        this
    }

    /// Starts the server again after it has ended.
    pub(crate) fn begin(&self) {
        let (data, log) = (self.folder.join("data"), self.folder.join("log"));
        let begun = Instant::now();
        // Remains of a killed server can prevent the start, so try again.
        loop {
            let started = Self::program("pg_ctl")
                .args(["-w", "-s", "-o", &self.options, "-D"])
                .arg(&data)
                .arg("-l")
                .arg(&log)
                .arg("start")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap();
            if started.success() {
                return;
            }
            let log = fs::read_to_string(&log).unwrap_or_default();
            assert!(begun.elapsed() < START_MAX, "PostgreSQL does not start: {log}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills all processes of the server, like a power failure.
    pub(crate) fn kill(&self) {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap();
        let server: i32 = file.lines().next().unwrap().parse().unwrap();
        let children = format!("/proc/{server}/task/{server}/children");
        // Stop the server process first, so that it cannot start more processes.
        kill(Pid::from_raw(server), Signal::SIGSTOP).unwrap();
        let children = fs::read_to_string(children).unwrap_or_default();
        kill(Pid::from_raw(server), Signal::SIGKILL).unwrap();
        for child in children.split_whitespace() {
            // The child may have exited by itself.
            let _ = kill(Pid::from_raw(child.parse().unwrap()), Signal::SIGKILL);
        }
    }

    /// Stops all processes of the server with SIGSTOP, so that the server does not answer. Dropping the guard
    /// continues them.
    #[allow(dead_code, reason = "the library's own tests have no use for it")]
    pub(crate) fn silence(&self) -> Silence {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap();
        let server: i32 = file.lines().next().unwrap().parse().unwrap();
        // Stop the server process first, so that it cannot start more processes.
        kill(Pid::from_raw(server), Signal::SIGSTOP).unwrap();
        let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().map(|child| child.parse().unwrap());
        let all: Vec<i32> = std::iter::once(server).chain(children).collect();
        for process in &all {
            let _ = kill(Pid::from_raw(*process), Signal::SIGSTOP);
        }
        Silence(all)
    }

    /// Returns the folder with the socket and the prepared files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates an empty database, and returns its URL.
    pub(crate) fn database(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Returns the TCP URL of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://qwed@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the URL of a database, for connections through the server's Unix socket.
    pub(crate) fn socket_url(&self, database: &str) -> String {
        let folder = self.folder.to_str().unwrap().replace('/', "%2F");
        format!("postgres://qwed@{folder}:{}/{database}", self.port)
    }

    /// Executes statements as the superuser, and returns their output.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> String {
        self.sql_as("qwed", database, sql).unwrap_or_else(|refused| panic!("{sql}: {refused}"))
    }

    /// Executes statements with this role. Returns their output, or the error.
    pub(crate) fn sql_as(&self, role: &str, database: &str, sql: &str) -> Result<String, String> {
        let name = database.rsplit('/').next().unwrap();
        let output = Self::program("psql")
            .args(["-h", self.folder.to_str().unwrap(), "-p", &self.port.to_string(), "-U", role])
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", name, "-c", sql])
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    fn program(name: &str) -> Command {
        let mut command = Command::new(programs().expect("a PostgreSQL").join(name));
        command.current_dir("/").stdin(Stdio::null()).as_server();
        command
    }

    fn run(program: &str, arguments: &[&str]) {
        let output = Self::program(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The PIDs of a stopped server, which continues when this value is dropped.
pub(crate) struct Silence(Vec<i32>);

impl Drop for Silence {
    fn drop(&mut self) {
        for process in &self.0 {
            let _ = kill(Pid::from_raw(*process), Signal::SIGCONT);
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.cleaner.stdin.take());
        let _ = self.cleaner.wait();
    }
}

/// Returns the user for the server if root runs the tests.
fn user() -> Option<User> {
    if !geteuid().is_root() {
        return None;
    }
    let user = USERS.iter().find_map(|name| User::from_name(name).ok().flatten());
    Some(user.expect("a user that a server can run as"))
}

trait AsServer {
    fn as_server(&mut self) -> &mut Self;
}

impl AsServer for Command {
    fn as_server(&mut self) -> &mut Self {
        if let Some(user) = user() {
            self.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        self
    }
}
