use std::ffi::OsString;
use std::io::Seek as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use nix::sys::stat::Mode;
use serde_json::json;
use tempfile::TempDir;

use super::listing::{FileEntry, LIST_LIMIT_MAX};
use super::reading::{READ_LIMIT_MAX, Window, hash};
use super::records::RECORDS_BYTES_MAX;
use super::retention::{RemovalReason, Retained};
use super::*;
use crate::governance::evidence::ArtifactRecord;
use crate::governance::integrity::Change;
use crate::ledger::{LoggedRun, StoreError};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A fake audit log, which contains the runs in `order`. Writing to this log fails after `rows_max` rows.
#[derive(Default)]
struct Log {
    order: Vec<Uuid>,
    removed: Mutex<Vec<Uuid>>,
    rows_max: Option<usize>,
    running: Option<Uuid>,
}

impl RemovalLog for Log {
    fn look_up(&self, run_ids: &[Uuid]) -> Result<Vec<LoggedRun>, StoreError> {
        let removed = self.removed.lock().unwrap();
        let look = |run_id: &Uuid| LoggedRun {
            seq: self.order.iter().position(|it| it == run_id).map(|at| i64::try_from(at).unwrap()),
            has_ended: self.order.contains(run_id) && self.running != Some(*run_id),
            is_removed: removed.contains(run_id),
        };
        Ok(run_ids.iter().map(look).collect())
    }

    fn write_down(&self, removals: &[Removal]) -> Result<(), StoreError> {
        let mut removed = self.removed.lock().unwrap();
        if self.rows_max.is_some_and(|max| removed.len() + removals.len() > max) {
            return Err(StoreError::TurnstileHeld { file: PathBuf::new() });
        }
        removed.extend(removals.iter().map(|removal| removal.run_id));
        Ok(())
    }
}

struct Fixture {
    data: TempDir,
    artifacts: Artifacts,
}

impl Fixture {
    fn new() -> Self {
        let data = TempDir::new().unwrap();
        let artifacts = Artifacts::new(data.path());
        Self { data, artifacts }
    }

    /// Creates a complete run with evidence of this age, and a file of `bytes` bytes.
    fn run(&self, age: Duration, bytes: usize) -> Uuid {
        let run_id = Uuid::new_v4();
        let run = self.artifacts.create_run(run_id).unwrap();
        fs::write(run.files_path().join("data"), vec![b'x'; bytes]).unwrap();
        run.write_evidence(&json!({"run_id": run_id.to_string()})).unwrap();
        let evidence = File::options().write(true).open(self.path(run_id).join(EVIDENCE)).unwrap();
        evidence.set_modified(SystemTime::now() - age).unwrap();
        run_id
    }

    fn path(&self, run_id: Uuid) -> PathBuf {
        self.data.path().join("artifacts").join(run_id.to_string())
    }

    fn read(&self, run_id: Uuid, path: &str) -> Result<Chunk, ArtifactError> {
        self.artifacts.read(run_id, path, 0, None)
    }

    fn runs(&self) -> Vec<Uuid> {
        let page: Page<RunEntry> = self.artifacts.list_runs(0, None).unwrap();
        page.items.into_iter().map(|run| run.run_id).collect()
    }

    /// Removes old runs with an empty log.
    fn retain(&self, retention: &Retention, now: SystemTime) -> Retained {
        self.artifacts.retain(retention, now, &Log::default()).unwrap()
    }

    fn files(&self, run_id: Uuid) -> Page<FileEntry> {
        self.artifacts.list_files(run_id, 0, Some(LIST_LIMIT_MAX)).unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Returns the kind of an error, without its text.
fn kind(error: &ArtifactError) -> &'static str {
    match error {
        ArtifactError::RunNotFound => "run not found",
        ArtifactError::NoEvidence(_) => "no evidence",
        ArtifactError::FileNotFound => "file not found",
        ArtifactError::InvalidPath { .. } => "invalid path",
        ArtifactError::TooLarge { .. } => "too large",
        ArtifactError::Io { .. } => "io",
    }
}

#[test]
fn a_run_is_in_progress_until_it_is_dropped_and_complete_with_its_evidence() {
    let fixture = Fixture::new();
    let run_id = Uuid::new_v4();
    assert_eq!(kind(&fixture.artifacts.state(run_id).unwrap_err()), "run not found");
    let run = fixture.artifacts.create_run(run_id).unwrap();
    assert_eq!(run.files_path(), fixture.path(run_id).join(FILES));
    assert_eq!(fixture.artifacts.state(run_id).unwrap(), RunState::InProgress);
    run.write_text("stdout.txt", b"1 passed").unwrap();
    run.write_evidence(&json!({"status": "failed"})).unwrap();
    run.write_evidence(&json!({"status": "passed"})).unwrap();
    assert_eq!(fixture.artifacts.state(run_id).unwrap(), RunState::InProgress);
    drop(run);
    assert_eq!(fixture.artifacts.state(run_id).unwrap(), RunState::Complete);
    let text = Content::Text("{\n  \"status\": \"passed\"\n}\n".to_owned());
    assert_eq!(fixture.read(run_id, EVIDENCE).unwrap().content, text);

    fs::remove_file(fixture.path(run_id).join(EVIDENCE)).unwrap();
    assert_eq!(fixture.artifacts.state(run_id).unwrap(), RunState::Interrupted);
    fs::remove_file(fixture.path(run_id).join(LOCK)).unwrap();
    assert_eq!(fixture.artifacts.state(run_id).unwrap(), RunState::Interrupted);
}

#[test]
fn only_the_servers_user_may_read_a_run() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 1);
    let path = fixture.path(run_id);
    for (path, expected) in [
        (path.parent().unwrap().to_owned(), 0o700),
        (path.clone(), 0o700),
        (path.join(FILES), 0o700),
        (path.join(EVIDENCE), 0o600),
        (path.join(LOCK), 0o600),
    ] {
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    assert_eq!(fs::read_dir(&path).unwrap().count(), 3);
}

#[test]
fn a_run_is_created_once_and_writes_files_of_its_own_only() {
    let fixture = Fixture::new();
    let run_id = Uuid::new_v4();
    let run = fixture.artifacts.create_run(run_id).unwrap();
    let error = fixture.artifacts.create_run(run_id).unwrap_err();
    let expected = "failed to create the folder of the run: entity already exists; try again, \
                    and tell the server's admin if the error persists";
    assert_eq!(error.to_string(), expected);
    for name in ["", ".lock", "../x", "a/b", FILES, "a\0"] {
        assert_eq!(kind(&run.write_text(name, b"").unwrap_err()), "invalid path", "{name}");
    }
}

#[test]
fn a_run_whose_lock_was_removed_before_it_was_locked_does_not_begin() {
    let folder = tempfile::tempdir().unwrap();
    let lock = File::create(folder.path().join(LOCK)).unwrap();
    begin(&lock).unwrap();
    fs::remove_file(folder.path().join(LOCK)).unwrap();
    assert_eq!(begin(&lock).unwrap_err().kind(), io::ErrorKind::Interrupted);
}

#[test]
fn of_the_files_of_tests_the_plain_ones_are_taken() {
    let fixture = Fixture::new();
    let run = fixture.artifacts.create_run(Uuid::new_v4()).unwrap();
    let files = run.files_path();
    fs::write(files.join("report"), "abc").unwrap();
    symlink("report", files.join("link")).unwrap();
    assert_eq!(run.read_file("report", 3), Some(b"abc".to_vec()));
    assert_eq!(run.read_file("report", 2), None);
    assert_eq!(run.read_file("link", 3), None);
    assert_eq!(run.read_file("none", 3), None);

    assert!(!run.remove_file("none"));
    assert!(run.remove_file("report") && !files.join("report").exists());
    assert!(!run.remove_file("report"));
    run.remove_files().unwrap();
    assert!(!files.exists() && fixture.data.path().join("artifacts").exists());
    assert!(!run.remove_file("link") && run.read_file("link", 3).is_none());
}

#[test]
fn looking_at_a_run_never_makes_it_seem_to_go_on() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    assert_eq!(fixture.artifacts.state(run_id).unwrap(), RunState::Complete);
                    fixture.read(run_id, EVIDENCE).unwrap();
                }
            });
        }
    });
}

/// An ordinary `open` would read each of these paths. `Artifacts::read` must refuse them.
#[test]
fn nothing_but_plain_files_of_the_run_is_read() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 3);
    let files = fixture.path(run_id).join(FILES);
    let secret = fixture.data.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::create_dir(files.join("below")).unwrap();
    fs::write(files.join("below/plain"), "plain").unwrap();
    symlink("/etc/passwd", files.join("passwd")).unwrap();
    symlink("/etc", files.join("etc")).unwrap();
    symlink("below", files.join("inside")).unwrap();
    symlink("data", files.join("own")).unwrap();
    fs::hard_link(&secret, files.join("hard")).unwrap();
    let absolute = secret.to_str().unwrap().to_owned();

    let run = fixture.path(run_id);
    for (path, expected) in [
        ("files/passwd", "invalid path"),
        ("files/etc/passwd", "invalid path"),
        ("files/inside/plain", "invalid path"),
        ("files/own", "invalid path"),
        ("files/hard", "invalid path"),
        ("files/../../../secret", "invalid path"),
        ("files/../files/data", "invalid path"),
        ("../../secret", "invalid path"),
        ("./files/data", "invalid path"),
        ("files//data", "invalid path"),
        ("files/./data", "invalid path"),
        (absolute.as_str(), "invalid path"),
        (".lock", "file not found"),
    ] {
        assert!(fs::read(run.join(path)).is_ok(), "{path} can be read without us");
        let error = fixture.read(run_id, path).unwrap_err();
        assert_eq!(kind(&error), expected, "{path}: {error}");
        assert!(!error.to_string().contains(fixture.data.path().to_str().unwrap()), "{error}");
    }
    let plain = Content::Text("plain".to_owned());
    assert_eq!(fixture.read(run_id, "files/below/plain").unwrap().content, plain);
}

#[test]
fn paths_that_are_none_are_refused() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 3);
    let longest = format!("{0}/{0}/{0}/{0}/{1}", "a".repeat(204), "b".repeat(204));
    let too_long = format!("{longest}d");
    let most = "a/".repeat(31) + "b";
    let too_many = "a/".repeat(32) + "b";
    let name = "n".repeat(256);
    let none = "the run has no such file; list_artifacts with its run_id lists its files";
    let invalid = |reason: &str| {
        format!("path {reason}; use a path that list_artifacts with the run_id lists")
    };
    for (path, expected) in [
        ("", invalid("is empty")),
        ("files/data\0", invalid("has a NUL byte")),
        ("files", invalid("is not a regular file, or is a symlink, or the file has several names")),
        ("files/data/below", invalid("has a part that is a symlink or not a folder")),
        (&longest, none.to_owned()),
        (&too_long, invalid("is longer than 1024 bytes")),
        (&most, none.to_owned()),
        (&too_many, invalid("has more than 32 parts")),
        (&name, invalid("has a name that is too long")),
        ("files/none", none.to_owned()),
        ("none/data", none.to_owned()),
        (".lock", none.to_owned()),
        (".new-evidence.json", none.to_owned()),
    ] {
        let error = fixture.read(run_id, path).unwrap_err();
        assert_eq!(error.to_string(), expected, "{path:.20}");
    }
    let not_relative = invalid("is not relative to the run, or has an empty part, . or .. in it");
    for path in [
        "/",
        "//",
        "/etc/passwd",
        ".",
        "./files/data",
        "files/.",
        "files/./data",
        "files/",
        "files//data",
        "files/data/",
        "..",
        "../",
        "files/..",
        "files/../files/data",
    ] {
        assert_eq!(fixture.read(run_id, path).unwrap_err().to_string(), not_relative, "{path}");
    }
    assert_eq!(kind(&fixture.read(Uuid::new_v4(), "a").unwrap_err()), "run not found");
    let none = Artifacts::new(&fixture.data.path().join("none"));
    assert_eq!(kind(&none.read(run_id, "a", 0, None).unwrap_err()), "run not found");
    let page = none.list_runs(0, None).unwrap();
    assert_eq!(page, Page { items: Vec::new(), next_offset: None, truncated: false });
    assert_eq!(none.newest_runs(9).unwrap(), (Vec::new(), false));
}

#[test]
fn what_cannot_be_looked_at_is_not_told_as_nothing() {
    let fixture = Fixture::new();
    fs::write(fixture.data.path().join("artifacts"), "").unwrap();
    let artifacts = &fixture.artifacts;
    assert_eq!(kind(&artifacts.list_runs(0, None).unwrap_err()), "io");
    assert_eq!(kind(&artifacts.newest_runs(9).unwrap_err()), "io");
    assert_eq!(kind(&artifacts.each_run(|_| {}).unwrap_err()), "io");

    let artifacts = Artifacts::new(&fixture.data.path().join("x".repeat(256)));
    assert_eq!(kind(&artifacts.state(Uuid::nil()).unwrap_err()), "io");
}

#[test]
fn a_pipe_and_a_socket_are_refused_at_once() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 3);
    let files = fixture.path(run_id).join(FILES);
    nix::unistd::mkfifo(&files.join("pipe"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(files.join("socket")).unwrap();
    for name in ["files/pipe", "files/socket"] {
        assert_eq!(kind(&fixture.read(run_id, name).unwrap_err()), "invalid path", "{name}");
    }
    // For comparison, an ordinary open reads the pipe if it has a writer.
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(files.join("pipe"), "from the pipe").unwrap());
        assert_eq!(fs::read(files.join("pipe")).unwrap(), b"from the pipe");
    });
    let unreadable: Vec<String> = fixture
        .files(run_id)
        .items
        .into_iter()
        .filter(|it| !it.readable)
        .map(|it| it.path)
        .collect();
    assert_eq!(unreadable, ["files/pipe", "files/socket"]);
}

#[test]
fn a_lock_that_is_a_pipe_hangs_nobody() {
    let fixture = Fixture::new();
    let run_id = fixture.run(DAY, 3);
    let lock = fixture.path(run_id).join(LOCK);
    fs::remove_file(&lock).unwrap();
    nix::unistd::mkfifo(&lock, Mode::S_IRWXU).unwrap();
    assert_eq!(kind(&fixture.artifacts.state(run_id).unwrap_err()), "io");
    assert!(fixture.read(run_id, "files/data").is_ok());
    let retention = Retention { age: Some(Duration::ZERO), total_bytes: None };
    assert_eq!(fixture.retain(&retention, SystemTime::now()).failed, 1);
}

/// A thread repeatedly replaces a file and a folder by symlinks, while another thread reads.
#[test]
fn exchanging_names_while_they_are_read_leads_nowhere() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 3);
    let files = fixture.path(run_id).join(FILES);
    let outside = fixture.data.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "secret").unwrap();
    fs::create_dir(files.join("kept")).unwrap();
    fs::write(files.join("kept/file"), "own").unwrap();

    let is_over = AtomicBool::new(false);
    let (mut own, mut led_out, mut plain_secrets, mut rounds) = (0, 0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                symlink(&outside, files.join("link")).unwrap();
                fs::rename(files.join("link"), files.join("folder")).unwrap();
                symlink(outside.join("file"), files.join("link")).unwrap();
                fs::rename(files.join("link"), files.join("file")).unwrap();
                fs::remove_file(files.join("folder")).unwrap();
                fs::rename(files.join("kept"), files.join("folder")).unwrap();
                fs::write(files.join("new"), "own").unwrap();
                fs::rename(files.join("new"), files.join("file")).unwrap();
                fs::rename(files.join("folder"), files.join("kept")).unwrap();
            }
        });
        // On a busy machine, the other thread may not run for thousands of rounds. So continue until both counters are
        // above 0.
        while rounds < 5000 || (rounds < 500_000 && (own == 0 || plain_secrets == 0)) {
            rounds += 1;
            for path in ["files/folder/file", "files/file"] {
                if let Ok(chunk) = fixture.read(run_id, path) {
                    // Do not assert here. After a panic in this thread, `scope` would wait forever for the other
                    // thread, which would not end.
                    led_out += usize::from(chunk.content == Content::Text("secret".to_owned()));
                    own += 1;
                }
                let plain = fs::read(fixture.path(run_id).join(path));
                plain_secrets += usize::from(plain.is_ok_and(|bytes| bytes == b"secret"));
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(led_out, 0, "secrets that were read by a link");
    assert!(
        own > 0 && plain_secrets > 0,
        "{own} own files, {plain_secrets} secrets in the control"
    );
}

#[test]
fn a_text_is_put_together_again_from_its_chunks() {
    let text: String = "aé€😀\u{0}\n".repeat(500) + "end 😀";
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 3);
    fs::write(fixture.path(run_id).join("files/text.txt"), &text).unwrap();
    for limit in [1, 2, 3, 4, 5, 7, 64, 1000, text.len() - 1, text.len(), READ_LIMIT_MAX] {
        let (mut read, mut next) = (String::new(), Some(0));
        while let Some(offset) = next {
            let chunk =
                fixture.artifacts.read(run_id, "files/text.txt", offset, Some(limit)).unwrap();
            assert_eq!(chunk.total_bytes, u64::try_from(text.len()).unwrap());
            assert_eq!(chunk.media_type, "text/plain");
            let Content::Text(part) = chunk.content else { panic!("{limit} at {offset}") };
            assert!(part.len() <= limit.max(4) && part.len() == chunk.bytes);
            read.push_str(&part);
            next = chunk.next_offset;
        }
        assert!(read == text, "limit {limit}");
    }
}

#[test]
fn bytes_are_put_together_again_from_their_chunks() {
    let mut bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
    bytes.extend([0x80; 100]);
    bytes.extend("text é".as_bytes());
    bytes.push(0xf0);
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 3);
    fs::write(fixture.path(run_id).join("files/picture.PNG"), &bytes).unwrap();
    for limit in [1, 2, 3, 4, 100, 6000] {
        let (mut read, mut next) = (Vec::new(), Some(0));
        while let Some(offset) = next {
            let chunk =
                fixture.artifacts.read(run_id, "files/picture.PNG", offset, Some(limit)).unwrap();
            assert_eq!(chunk.media_type, "image/png");
            match chunk.content {
                Content::Text(text) => read.extend(text.into_bytes()),
                Content::Binary(text) => {
                    read.extend(BASE64_STANDARD.decode(text.as_bytes()).unwrap());
                }
            }
            next = chunk.next_offset;
        }
        assert!(read == bytes, "limit {limit}");
    }
}

#[test]
fn a_chunk_of_a_huge_file_costs_a_chunk() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 3);
    let path = fixture.path(run_id).join("files/huge");
    let huge = File::create(&path).unwrap();
    let size = 1 << 42;
    huge.set_len(size).unwrap();
    huge.write_all_at(b"end", size - 3).unwrap();
    let read = |offset, limit| fixture.artifacts.read(run_id, "files/huge", offset, limit);
    let first = read(0, None).unwrap();
    assert_eq!((first.bytes, first.total_bytes, first.next_offset), (65536, size, Some(65536)));
    let last = read(size - 3, Some(READ_LIMIT_MAX)).unwrap();
    assert_eq!(last.content, Content::Text("end".to_owned()));
    assert_eq!(last.next_offset, None);
    for offset in [size, size + 1, u64::MAX] {
        let beyond = read(offset, None).unwrap();
        assert_eq!((beyond.bytes, beyond.next_offset), (0, None));
    }
    let error = read(0, Some(READ_LIMIT_MAX + 1)).unwrap_err();
    let expected =
        "limit is above 1048576; ask for at most 1048576, and continue where the answer ends";
    assert_eq!(error.to_string(), expected);

    // Lists contain the apparent size, but retention uses the size on the disk.
    let entry = fixture.artifacts.list_runs(0, None).unwrap().items.remove(0);
    assert!(entry.bytes > size);
    let retention = Retention { age: None, total_bytes: Some(1 << 20) };
    assert_eq!(fixture.retain(&retention, SystemTime::now()).removed, 0);
}

#[test]
fn lists_have_everything_once_and_nothing_of_the_servers() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 3);
    let files = fixture.path(run_id).join(FILES);
    fs::create_dir_all(files.join("a/b")).unwrap();
    fs::write(files.join("a/b/report.XML"), "<a/>").unwrap();
    fs::write(files.join(".lock"), "of the tests").unwrap();
    fs::write(fixture.path(run_id).join(".new-stdout.txt"), "half").unwrap();
    fs::write(files.join(OsString::from_vec(b"bad\xff.txt".to_vec())), "").unwrap();
    symlink("/etc/passwd", files.join("link.txt")).unwrap();
    let expected = [
        ("evidence.json", "application/json", true),
        ("files/.lock", "application/octet-stream", true),
        ("files/a/b/report.XML", "application/xml", true),
        ("files/bad\u{fffd}.txt", "text/plain", false),
        ("files/data", "application/octet-stream", true),
        ("files/link.txt", "text/plain", false),
    ];
    let all = fixture.files(run_id);
    assert_eq!((all.next_offset, all.truncated), (None, false));
    let found: Vec<(&str, &str, bool)> =
        all.items.iter().map(|it| (it.path.as_str(), it.media_type, it.readable)).collect();
    assert_eq!(found, expected);
    for file in &all.items {
        assert_eq!(fixture.read(run_id, &file.path).is_ok(), file.readable, "{}", file.path);
    }

    let last = fixture.artifacts.list_files(run_id, 0, Some(expected.len())).unwrap();
    assert_eq!(last.next_offset, None);
    let (mut paged, mut offset) = (Vec::new(), Some(0));
    while let Some(from) = offset {
        let page = fixture.artifacts.list_files(run_id, from, Some(4)).unwrap();
        paged.extend(page.items);
        offset = page.next_offset;
    }
    assert_eq!(paged, all.items);
    let too_many = fixture.artifacts.list_files(run_id, 0, Some(201)).unwrap_err();
    assert_eq!(kind(&too_many), "too large");
    assert_eq!(kind(&fixture.artifacts.list_runs(0, Some(201)).unwrap_err()), "too large");
    assert!(fixture.artifacts.list_files(run_id, usize::MAX, None).unwrap().items.is_empty());
}

#[test]
fn runs_are_listed_newest_first() {
    let fixture = Fixture::new();
    let old = fixture.run(10 * DAY, 100);
    let older = fixture.run(20 * DAY, 0);
    let new = fixture.run(DAY, 7);
    let going_on = Uuid::new_v4();
    let run = fixture.artifacts.create_run(going_on).unwrap();
    fs::create_dir(fixture.data.path().join("artifacts/other")).unwrap();
    fs::create_dir(fixture.data.path().join("artifacts").join(Uuid::nil().simple().to_string()))
        .unwrap();
    symlink("/etc", fixture.path(Uuid::nil())).unwrap();
    assert_eq!(fixture.runs(), [going_on, new, old, older]);

    let page = fixture.artifacts.list_runs(1, Some(2)).unwrap();
    assert_eq!(page.next_offset, Some(3));
    let evidence = fs::metadata(fixture.path(new).join(EVIDENCE)).unwrap();
    let expected = RunEntry {
        run_id: new,
        state: RunState::Complete,
        finished: evidence.modified().unwrap().into(),
        files: 2,
        bytes: evidence.len() + 7,
        has_more: false,
    };
    assert_eq!(page.items.first(), Some(&expected));
    let document = serde_json::to_value(&page.items).unwrap();
    assert_eq!(document[0]["run_id"], json!(new.to_string()));
    drop(run);
    let first = fixture.artifacts.list_runs(0, Some(1)).unwrap().items.remove(0);
    assert_eq!(first.state, RunState::Interrupted);
}

#[test]
fn files_are_listed_by_their_paths() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 3);
    // Sorted by name, the folder `a` comes before `a.txt`. Sorted by path, the file `a/file` comes after `a.txt`.
    for name in ["b", "b-", "b0", "a.txt", "c"] {
        fs::write(fixture.path(run_id).join(FILES).join(name), "").unwrap();
    }
    for name in ["a", "c.d"] {
        fs::create_dir(fixture.path(run_id).join(FILES).join(name)).unwrap();
        fs::write(fixture.path(run_id).join(FILES).join(name).join("file"), "").unwrap();
    }
    let found = fixture.files(run_id).items;
    let found: Vec<_> = found.iter().map(|file| file.path.as_str()).collect();
    let expected = [
        "evidence.json",
        "files/a.txt",
        "files/a/file",
        "files/b",
        "files/b-",
        "files/b0",
        "files/c",
        "files/c.d/file",
        "files/data",
    ];
    assert_eq!(found, expected);
}

/// Creates nested folders, with a file in the innermost folder.
fn nest(folder: &Path, depth: usize) {
    let mut here = Folder::open(folder).unwrap();
    for _ in 0..depth {
        here.create_folder(OsStr::new("d")).unwrap();
        here = here.folder(OsStr::new("d")).unwrap();
    }
    here.create_file(OsStr::new("deepest")).unwrap().write_all(&vec![b'x'; 100_000]).unwrap();
}

/// Calls `compare` with `records` of the form (path, length, SHA-256). Returns the changes that `compare` finds, and
/// the result of `compare`.
fn changes(
    fixture: &Fixture,
    run_id: Uuid,
    records: &[(&str, u64, Option<&str>)],
    is_complete: bool,
) -> (Vec<(String, Change)>, bool) {
    let record = |(path, bytes, sha256): &(&str, u64, Option<&str>)| ArtifactRecord {
        path: (*path).to_owned(),
        bytes: *bytes,
        sha256: sha256.map(str::to_owned),
    };
    let records: Vec<_> = records.iter().map(record).collect();
    let mut changes = Vec::new();
    let mut each = |path: &str, change| changes.push((path.to_owned(), change));
    let all_hashed = fixture.artifacts.compare(run_id, &records, is_complete, &mut each).unwrap();
    (changes, all_hashed)
}

#[test]
fn what_differs_from_the_records_is_told() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 3);
    let files = fixture.path(run_id).join(FILES);
    fs::write(fixture.data.path().join("secret"), "secret").unwrap();
    fs::write(files.join("other"), "xxy").unwrap();
    symlink("data", files.join("link")).unwrap();
    let sha256 = |text: &str| hex::encode(Sha256::digest(text));
    let (data, other) = (sha256("xxx"), sha256("xxy"));
    let data = ("files/data", 3, Some(data.as_str()));
    let other = ("files/other", 3, Some(other.as_str()));
    let added = [("files/other", Change::Added)];
    for (records, is_complete, expected, all_hashed) in [
        (&[data, other][..], true, &[][..], true),
        (&[data, other], false, &[], false),
        (&[data], false, &[], false),
        (&[data], true, &added, true),
        (&[("files/data", 3, None), other], true, &[], false),
        (&[("files/data", 3, other.2), other], true, &[("files/data", Change::Changed)], true),
        (&[("files/data", 2, data.2), other], true, &[("files/data", Change::Changed)], true),
        (&[data, other, ("files/no", 0, None)], true, &[("files/no", Change::Missing)], false),
        (
            &[data, other, ("files/link", 3, data.2), (FILES, 3, data.2)],
            true,
            &[("files/link", Change::Unreadable), (FILES, Change::Unreadable)],
            true,
        ),
        // Paths that lead out of the run are not opened.
        (
            &[data, other, ("../../secret", 6, None), ("../../none", 6, None)],
            true,
            &[("../../secret", Change::Unreadable), ("../../none", Change::Unreadable)],
            false,
        ),
        (&[data, other, (LOCK, 0, None)], true, &[(LOCK, Change::Unreadable)], false),
    ] {
        let expected = expected.iter().map(|(path, change)| ((*path).to_owned(), *change));
        let expected = (expected.collect(), all_hashed);
        assert_eq!(changes(&fixture, run_id, records, is_complete), expected);
    }
}

#[test]
fn a_run_that_is_compared_is_not_removed_meanwhile() {
    let fixture = Fixture::new();
    let run_id = fixture.run(2 * DAY, 3);
    let newer = fixture.run(DAY, 3);
    let nothing = Retention { age: None, total_bytes: Some(0) };
    let record = ArtifactRecord { path: "files/none".to_owned(), bytes: 0, sha256: None };
    let mut removed = Vec::new();
    let mut each = |_: &str, _| removed.push(fixture.retain(&nothing, SystemTime::now()).removed);
    fixture.artifacts.compare(run_id, &[record], false, &mut each).unwrap();
    assert_eq!(removed, [0]);
    assert_eq!(fixture.retain(&nothing, SystemTime::now()).removed, 1);
    assert_eq!(fixture.runs(), [newer]);
}

#[test]
fn an_inventory_is_in_the_order_of_paths() {
    let fixture = Fixture::new();
    let run = fixture.artifacts.create_run(Uuid::new_v4()).unwrap();
    // Create the files in an order that differs from the sorted order.
    let names: Vec<String> = (0..50).map(|number| format!("{:02}", number * 37 % 50)).collect();
    for name in &names {
        File::create(run.files_path().join(name)).unwrap();
    }
    let recorded = run.records(0).unwrap().records;
    assert_eq!(recorded.len(), names.len());
    assert!(recorded.is_sorted_by(|a, b| a.path < b.path));
}

#[test]
fn a_listed_file_is_readable_if_its_path_is_taken() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 3);
    let mut folder = fixture.path(run_id).join(FILES);
    for _ in 0..6 {
        folder.push("n".repeat(200));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), "").unwrap();
    }
    let listed = fixture.files(run_id).items;
    assert_eq!(listed.iter().filter(|it| it.path.ends_with("/file")).count(), 6);
    assert_eq!(listed.iter().filter(|it| !it.readable).count(), 1);
    for file in listed {
        assert_eq!(fixture.read(run_id, &file.path).is_ok(), file.readable, "{}", file.path);
    }
}

#[test]
fn the_oldest_runs_go_first() {
    // Each case has the existing runs (their ages in days and their sizes in KiB), a retention, and the ages of the
    // runs that remain.
    let retention = |days: Option<u32>, kilobytes: Option<u64>| Retention {
        age: days.map(|days| DAY * days),
        total_bytes: kilobytes.map(|kilobytes| kilobytes << 10),
    };
    let everything = [(1, 1000), (2, 1000), (30, 1000), (31, 1000)];
    for (runs, retention, kept) in [
        (&everything[..], retention(None, None), &[1, 2, 30, 31][..]),
        (&everything, retention(Some(100), Some(100_000)), &[1, 2, 30, 31]),
        (&everything, retention(Some(15), None), &[1, 2]),
        (&everything, retention(None, Some(3500)), &[1, 2, 30]),
        (&everything, retention(None, Some(2500)), &[1, 2]),
        (&everything, retention(Some(1), Some(100_000)), &[]),
        // The newest run is not removed, regardless of its size.
        (&everything, retention(None, Some(0)), &[1]),
        (&[(1, 5000), (2, 10)], retention(None, Some(1000)), &[1]),
        (&[(1, 10), (2, 5000)], retention(None, Some(1000)), &[1]),
        (&[], retention(Some(1), Some(0)), &[]),
    ] {
        let fixture = Fixture::new();
        // Add one hour, so that a run with the age 15 is older than 15 days.
        let age = |days: u32| DAY * days + Duration::from_secs(3600);
        let ids: Vec<(u32, Uuid)> =
            runs.iter().map(|(days, size)| (*days, fixture.run(age(*days), size << 10))).collect();
        let retained: Retained = fixture.retain(&retention, SystemTime::now());
        let left = fixture.runs();
        let left: Vec<u32> =
            ids.iter().filter(|(_, id)| left.contains(id)).map(|(days, _)| *days).collect();
        assert_eq!(left, kept, "{retention:?}");
        assert_eq!((retained.kept, retained.removed), (kept.len(), runs.len() - kept.len()));
    }
}

#[test]
fn what_goes_on_or_is_read_or_is_not_ours_stays() {
    let fixture = Fixture::new();
    let root = fixture.data.path().join("artifacts");
    let going_on = Uuid::new_v4();
    let run = fixture.artifacts.create_run(going_on).unwrap();
    let read = fixture.run(DAY, 10);
    let reader = File::open(fixture.path(read).join(LOCK)).unwrap();
    reader.lock_shared().unwrap();
    let interrupted = Uuid::new_v4();
    drop(fixture.artifacts.create_run(interrupted).unwrap());
    let without_lock = fixture.run(DAY, 10);
    fs::remove_file(fixture.path(without_lock).join(LOCK)).unwrap();
    let half = Uuid::new_v4();
    let half_removed = root.join(format!(".removing-{half}"));
    fs::create_dir_all(half_removed.join("files/a")).unwrap();
    let log = Log { removed: vec![half].into(), ..Log::default() };
    for name in ["other", ".removing-other", "67E55044-10B1-426F-9247-BB680E5FE0C8"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    symlink(fixture.data.path(), root.join(Uuid::nil().to_string())).unwrap();

    let nothing = Retention { age: Some(Duration::ZERO), total_bytes: Some(0) };
    let now = SystemTime::now() + DAY;
    let retained = fixture.artifacts.retain(&nothing, now, &log).unwrap();
    assert_eq!((retained.kept, retained.removed, retained.failed), (2, 3, 0));
    let mut left = fixture.runs();
    left.sort();
    let mut expected = [going_on, read];
    expected.sort();
    assert_eq!(left, expected);
    assert!(!half_removed.exists());
    assert_eq!(fs::read_dir(&root).unwrap().count(), 2 + 3 + 1);

    drop((run, reader));
    assert_eq!(fixture.retain(&nothing, now).removed, 2);
    assert!(fixture.runs().is_empty());
}

/// A run is not changed if its removal cannot be recorded. An interrupted removal is finished only if the log has a row
/// about the removal.
#[test]
fn what_the_log_is_not_told_of_is_neither_renamed_nor_removed() {
    let fixture = Fixture::new();
    let runs: Vec<Uuid> = (1..=150).map(|days| fixture.run(DAY * days, 1000)).collect();
    let root = fixture.data.path().join("artifacts");
    let names = || {
        let names = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    let nothing = Retention { age: Some(Duration::ZERO), total_bytes: None };
    let everything = Retention { age: None, total_bytes: None };
    let now = SystemTime::now();
    let all = names();
    let closed = Log { rows_max: Some(0), ..Log::default() };
    let refused = fixture.artifacts.retain(&nothing, now, &closed);
    assert!(matches!(refused, Err(RetentionError::Store(_))), "{refused:?}");
    assert_eq!(names(), all);

    // Writing to this log fails after 100 rows.
    let closing = Log { rows_max: Some(100), ..Log::default() };
    assert!(fixture.artifacts.retain(&nothing, now, &closing).is_err());
    let told = closing.removed.lock().unwrap().clone();
    assert!((1..=100).contains(&told.len()), "{}", told.len());
    let mut left: Vec<String> =
        runs.iter().filter(|run_id| !told.contains(run_id)).map(Uuid::to_string).collect();
    left.sort();
    assert_eq!(names(), left);

    // Simulate interrupted clean-ups: a run was renamed after its row was written, another has a row but was not
    // renamed, and a third was renamed without a row.
    let [untold, renamed, not_renamed] = [runs[0], runs[1], runs[2]];
    for run_id in [untold, renamed] {
        fs::rename(fixture.path(run_id), root.join(format!(".removing-{run_id}"))).unwrap();
    }
    fs::create_dir(root.join(format!(".removing-{}", runs[3]))).unwrap();
    let log = Log { removed: vec![renamed, not_renamed].into(), ..Log::default() };
    let retained = fixture.artifacts.retain(&everything, now, &log).unwrap();
    assert_eq!((retained.removed, retained.failed), (1, 1), "a run that is there is not replaced");
    assert!(retained.removed_bytes >= 1000, "{retained:?}");
    assert_eq!(fs::read(fixture.path(untold).join("files/data")).unwrap().len(), 1000);
    assert!(!root.join(format!(".removing-{renamed}")).exists());
    fs::remove_dir(root.join(format!(".removing-{}", runs[3]))).unwrap();
    let old = Retention { age: Some(DAY * 1000), total_bytes: None };
    assert_eq!(fixture.artifacts.retain(&old, now, &log).unwrap().removed, 1);
    assert!(!fixture.path(not_renamed).exists() && fixture.path(untold).exists());
    assert_eq!(*log.removed.lock().unwrap(), [renamed, not_renamed], "no row is written twice");
}

/// The older runs have later times, because the clock was one hour ahead when they ended.
#[test]
fn the_newest_run_is_the_newest_of_the_log() {
    let fixture = Fixture::new();
    let runs: Vec<Uuid> = (0..4).map(|_| fixture.run(Duration::ZERO, 600 << 10)).collect();
    let unknown = fixture.run(Duration::ZERO, 600 << 10);
    for run_id in &runs[..3] {
        let evidence = fixture.path(*run_id).join(EVIDENCE);
        let evidence = File::options().write(true).open(evidence).unwrap();
        evidence.set_modified(SystemTime::now() + DAY / 24).unwrap();
    }
    let log = Log { order: runs.clone(), ..Log::default() };
    let retention = Retention { age: Some(DAY), total_bytes: Some(1300 << 10) };
    let retained = fixture.artifacts.retain(&retention, SystemTime::now(), &log).unwrap();
    assert_eq!((retained.kept, retained.removed), (2, 3));
    assert_eq!(*log.removed.lock().unwrap(), [unknown, runs[0], runs[1]]);
    // The newest run that has ended remains regardless of its size, even if another run has started later.
    let begun = fixture.run(Duration::ZERO, 10);
    let mut order = runs.clone();
    order.push(begun);
    let log = Log { order, running: Some(begun), ..Log::default() };
    let retention = Retention { age: None, total_bytes: Some(0) };
    let retained = fixture.artifacts.retain(&retention, SystemTime::now(), &log).unwrap();
    assert_eq!((retained.kept, retained.removed), (2, 1));
    assert!(fixture.path(runs[3]).exists() && fixture.path(begun).exists());
}

#[test]
fn another_clean_up_is_not_waited_for_without_end() {
    let fixture = Fixture::new();
    let run_id = fixture.run(DAY, 10);
    let root = File::open(fixture.data.path().join("artifacts")).unwrap();
    root.lock().unwrap();
    let nothing = Retention { age: Some(Duration::ZERO), total_bytes: None };
    let busy = fixture.artifacts.retain(&nothing, SystemTime::now(), &Log::default());
    assert!(matches!(busy, Err(RetentionError::Busy)), "{busy:?}");
    assert_eq!(fixture.runs(), [run_id]);
}

#[test]
fn a_clock_that_was_set_back_removes_nothing() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 10);
    let retention = Retention { age: Some(DAY), total_bytes: None };
    assert_eq!(fixture.retain(&retention, SystemTime::UNIX_EPOCH).removed, 0);
    assert_eq!(fixture.runs(), [run_id]);
}

/// Runs are created while another thread removes all runs that are not locked.
#[test]
fn a_run_that_begins_is_never_taken_for_an_old_one() {
    let fixture = Fixture::new();
    let is_over = AtomicBool::new(false);
    let nothing = Retention { age: None, total_bytes: Some(0) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fixture.retain(&nothing, SystemTime::now());
            }
        });
        let mut created = 0;
        for _ in 0..500 {
            let run_id = Uuid::new_v4();
            // This call fails if the clean-up removes the new run before the run is locked.
            let Ok(run) = fixture.artifacts.create_run(run_id) else { continue };
            fs::write(run.files_path().join("data"), "1").unwrap();
            run.write_evidence(&json!({})).unwrap();
            assert!(fixture.path(run_id).join(EVIDENCE).exists());
            created += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(created > 25, "{created}");
    });
}

/// Clean-ups at the same time must not remove more runs than a single clean-up.
#[test]
fn clean_ups_at_the_same_time_remove_no_more_than_one() {
    let fixture = Fixture::new();
    for hours in 0..60 {
        fixture.run(Duration::from_secs(3600 * hours), 100 << 10);
    }
    let retention = Retention { age: None, total_bytes: Some(4 << 20) };
    let all: Vec<Retained> = std::thread::scope(|scope| {
        let clean_up = || fixture.retain(&retention, SystemTime::now());
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(clean_up)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let left = fixture.runs().len();
    assert!((30..42).contains(&left), "{left}");
    assert_eq!(all.iter().map(|it| it.removed).sum::<usize>(), 60 - left);
    assert!(all.iter().all(|it| it.failed == 0), "{all:?}");
}

#[test]
fn a_hashed_part_is_the_part_and_the_hash_is_of_the_whole() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 0);
    let text = "αβγ€😀x".repeat(20_000);
    fs::write(fixture.path(run_id).join("files/text"), &text).unwrap();
    let total = u64::try_from(text.len()).unwrap();
    let sha256 = hex::encode(Sha256::digest(&text));
    let hashed = |offset, limit, bytes| {
        fixture.artifacts.read_hashed(run_id, "files/text", offset, Some(limit), bytes).unwrap()
    };
    for offset in [0, 1, 65_530, 65_536, 131_071, total - 3, total, total + 9, u64::MAX] {
        for limit in [1, 7, 70_000] {
            let plain = fixture.artifacts.read(run_id, "files/text", offset, Some(limit)).unwrap();
            assert_eq!(hashed(offset, limit, total), (plain, Some(sha256.clone())), "{offset}");
        }
    }
    for bytes in [0, total - 1, total + 1, u64::MAX] {
        assert_eq!(hashed(0, 7, bytes).1, None, "{bytes}");
    }
    // If the file has become shorter, a chunk that starts after its last byte is empty and has no next offset.
    for offset in [total, total + 1] {
        let (chunk, _) = hashed(offset, 7, total + 2);
        assert_eq!((chunk.bytes, chunk.next_offset), (0, None), "{offset}");
    }
}

#[test]
fn a_reading_that_is_interrupted_goes_on_and_one_that_fails_ends() {
    /// A reader that fails once with each of these errors, and then returns three bytes.
    struct Failing(Vec<io::ErrorKind>);

    impl io::Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.pop() {
                Some(kind) => Err(kind.into()),
                None => b"xxx".as_slice().read(buffer),
            }
        }
    }
    let hashed = |kinds: Vec<_>| hash(Failing(kinds), 1, |_| {}).map_err(|error| error.kind());
    assert_eq!(hashed(vec![io::ErrorKind::Interrupted; 3]), Ok(None));
    assert_eq!(hashed(vec![io::ErrorKind::NotSeekable]), Err(io::ErrorKind::NotSeekable));
}

#[test]
fn a_file_that_grew_is_not_read_to_its_end() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[b'x'; 1000]).unwrap();
    for (bytes, expected) in [(0, 1), (10, 11), (999, 1000), (1000, 1000), (u64::MAX, 1000)] {
        file.rewind().unwrap();
        let mut seen = 0;
        let sha256 = hash(&file, bytes, |part| seen += part.len()).unwrap();
        assert_eq!((seen, sha256.is_some()), (expected, bytes == 1000), "{bytes}");
    }
}

#[test]
fn of_a_file_that_is_hashed_no_more_is_kept_than_is_wanted() {
    let text: Vec<u8> = (0..=255).cycle().take(1000).collect();
    for (offset, bytes_max) in [(0, 1), (0, 64), (63, 65), (64, 64), (100, 7), (999, 9), (2000, 9)]
    {
        let mut window = Window::new(offset, bytes_max);
        for part in text.chunks(64) {
            window.push(part);
            assert!(window.bytes.len() <= bytes_max, "{offset} {bytes_max}");
        }
        let wanted = text.iter().skip(usize::try_from(offset).unwrap()).take(bytes_max);
        assert!(window.bytes.iter().eq(wanted), "{offset} {bytes_max}");
    }
}

/// Prints median times. Run by hand: `cargo test --lib costs_of_many_runs -- --ignored --nocapture`.
#[test]
#[ignore = "measures, and says nothing about right or wrong"]
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn costs_of_many_runs() {
    let fixture = Fixture::new();
    let began = std::time::Instant::now();
    let count = 8_000;
    for age in 0..count {
        let run_id = Uuid::new_v4();
        let folder = fixture.path(run_id);
        fs::create_dir_all(folder.join(FILES)).unwrap();
        for name in [LOCK, EVIDENCE, "stdout.txt", "stderr.txt", "files/junit.xml"] {
            fs::write(folder.join(name), "x".repeat(3000)).unwrap();
        }
        let evidence = File::options().write(true).open(folder.join(EVIDENCE)).unwrap();
        evidence.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
    let synced = std::process::Command::new("sync").arg("-f").arg(fixture.data.path()).status();
    assert!(synced.unwrap().success());
    println!("{count} runs made in {:?}", began.elapsed());
    let began = std::time::Instant::now();
    fixture.artifacts.list_runs(0, Some(50)).unwrap();
    println!("listed in {:?}", began.elapsed());
    let began = std::time::Instant::now();
    let retention = Retention { age: None, total_bytes: Some(0) };
    let retained = fixture.retain(&retention, SystemTime::now());
    println!("{retained:?} in {:?}", began.elapsed());
}

#[test]
fn evidence_is_a_plain_file_and_has_a_bound() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 1);
    let evidence = fixture.path(run_id).join(EVIDENCE);
    let set_length = |bytes| File::options().write(true).open(&evidence).unwrap().set_len(bytes);
    let refused = || kind(&fixture.artifacts.evidence(run_id).unwrap_err());
    set_length(16 << 20).unwrap();
    assert_eq!(fixture.artifacts.evidence(run_id).unwrap().len(), 16 << 20);
    let too_large = "failed to read the evidence: file too large; try again, and tell the server's admin if the error persists";
    for bytes in [(16 << 20) + 1, 1 << 36] {
        set_length(bytes).unwrap();
        let error = fixture.artifacts.evidence(run_id).unwrap_err();
        assert_eq!(error.to_string(), too_large, "{bytes}");
    }
    fs::remove_file(&evidence).unwrap();
    assert_eq!(refused(), "no evidence");
    fs::create_dir(&evidence).unwrap();
    assert_eq!(refused(), "io");
    fs::remove_dir(&evidence).unwrap();
    symlink("/etc/hostname", &evidence).unwrap();
    assert_eq!(refused(), "io");
    assert_eq!(fixture.artifacts.state(run_id).unwrap(), RunState::Interrupted);
}

#[test]
fn what_is_exactly_as_old_or_as_much_as_may_be_stays() {
    use std::os::unix::fs::MetadataExt as _;

    fn disk_bytes(folder: &Path) -> u64 {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let bytes = |path: PathBuf| {
            let metadata = fs::symlink_metadata(&path).unwrap();
            metadata.blocks() * 512 + if metadata.is_dir() { disk_bytes(&path) } else { 0 }
        };
        entries.map(bytes).sum()
    }
    let fixture = Fixture::new();
    let runs = [fixture.run(DAY, 10), fixture.run(Duration::ZERO, 10)];
    let total = runs.iter().map(|run_id| disk_bytes(&fixture.path(*run_id))).sum::<u64>();
    let of_size = |bytes| Retention { age: None, total_bytes: Some(bytes) };
    assert_eq!(fixture.retain(&of_size(total), SystemTime::now()).removed, 0);
    assert_eq!(fixture.retain(&of_size(total - 1), SystemTime::now()).removed, 1);
    assert_eq!(fixture.runs(), [runs[1]]);
    let evidence = fs::metadata(fixture.path(runs[1]).join(EVIDENCE)).unwrap();
    let end = evidence.modified().unwrap() + DAY;
    let of_age = Retention { age: Some(DAY), total_bytes: None };
    assert_eq!(fixture.retain(&of_age, end).removed, 0);
    assert_eq!(fixture.retain(&of_age, end + Duration::from_nanos(1)).removed, 1);
}

#[test]
fn a_run_that_is_put_back_is_one_of_those_that_are_kept() {
    let fixture = Fixture::new();
    let run_id = fixture.run(Duration::ZERO, 10);
    let aside = fixture.data.path().join(format!("artifacts/.removing-{run_id}"));
    let everything = Retention { age: None, total_bytes: None };
    let above_nothing = Retention { age: None, total_bytes: Some(0) };
    for retention in [everything, above_nothing] {
        fs::rename(fixture.path(run_id), &aside).unwrap();
        let retained = fixture.retain(&retention, SystemTime::now());
        assert_eq!((retained.kept, retained.removed, retained.failed), (1, 0, 0));
        assert_eq!(fixture.runs(), [run_id]);
    }
}

#[test]
fn the_log_is_told_why_a_run_is_removed() {
    /// A test double for the audit log. It has no rows about any run, and stores the reasons for the recorded removals.
    #[derive(Default)]
    struct Reasons {
        told: Mutex<Vec<&'static str>>,
        removed_meanwhile: Option<PathBuf>,
    }
    impl RemovalLog for Reasons {
        fn look_up(&self, run_ids: &[Uuid]) -> Result<Vec<LoggedRun>, StoreError> {
            Ok(run_ids.iter().map(|_| LoggedRun::default()).collect())
        }

        fn write_down(&self, removals: &[Removal]) -> Result<(), StoreError> {
            self.told.lock().unwrap().extend(removals.iter().map(|it| it.reason.as_str()));
            if let Some(folder) = &self.removed_meanwhile {
                fs::remove_dir_all(folder).unwrap();
            }
            Ok(())
        }
    }

    let fixture = Fixture::new();
    let _runs = [2 * DAY, DAY / 2, Duration::ZERO].map(|age| fixture.run(age, 10));
    let log = Reasons::default();
    let retention = Retention { age: Some(DAY), total_bytes: Some(0) };
    fixture.artifacts.retain(&retention, SystemTime::now(), &log).unwrap();
    let reasons = [RemovalReason::Age, RemovalReason::TotalSize].map(RemovalReason::as_str);
    assert_eq!(*log.told.lock().unwrap(), reasons);

    // A run that another process has already removed does not count as failed.
    let old = fixture.run(2 * DAY, 10);
    let log = Reasons { removed_meanwhile: Some(fixture.path(old)), ..Reasons::default() };
    let retained = fixture.artifacts.retain(&retention, SystemTime::now(), &log).unwrap();
    assert_eq!((retained.kept, retained.removed, retained.failed), (1, 0, 0));
}

/// Tests of the largest trees.
mod large {
    use super::*;

    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn a_size_is_compared_to_the_byte_and_not_without_a_look() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, vec![b'x'; 100_000]).unwrap();
        let bytes = fs::metadata(&file).unwrap().blocks() * 512;
        assert_eq!(size_of(folder.path(), bytes), Size::Within);
        assert_eq!(size_of(folder.path(), bytes - 1), Size::Above);
        assert_eq!(size_of(&folder.path().join("none"), u64::MAX), Size::Unknown);
        for number in 0..ENTRIES_MAX - 2 {
            File::create(folder.path().join(number.to_string())).unwrap();
        }
        assert_eq!(size_of(folder.path(), u64::MAX), Size::Within);
        File::create(folder.path().join("one more")).unwrap();
        assert_eq!(size_of(folder.path(), u64::MAX), Size::Above);
    }

    /// If a page has more runs, fewer files of each run are counted. So the cost of a page is limited.
    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn the_files_of_a_page_of_runs_are_counted_up_to_a_bound() {
        let fixture = Fixture::new();
        for files in [0, ENTRIES_MAX / 2] {
            let run_id = fixture.run(Duration::ZERO, 3);
            for number in 0..files {
                File::create(fixture.path(run_id).join(FILES).join(number.to_string())).unwrap();
            }
        }
        let has_more = |offset, limit| -> Vec<bool> {
            let page = fixture.artifacts.list_runs(offset, Some(limit)).unwrap();
            page.items.into_iter().map(|run| run.has_more).collect()
        };
        assert_eq!(has_more(0, 2), [true, false]);
        assert_eq!(has_more(0, 1), [false]);
    }

    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn a_list_of_very_many_files_is_cut() {
        let fixture = Fixture::new();
        let run_id = fixture.run(Duration::ZERO, 3);
        for number in 0..10_500 {
            File::create(fixture.path(run_id).join(FILES).join(number.to_string())).unwrap();
        }
        let page = fixture.files(run_id);
        assert_eq!((page.items.len(), page.next_offset, page.truncated), (200, Some(200), true));
        assert!(fixture.artifacts.list_runs(0, None).unwrap().items.remove(0).has_more);
    }

    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn a_hostile_tree_is_listed_counted_and_removed() {
        let fixture = Fixture::new();
        let run_id = fixture.run(DAY, 3);
        let files = fixture.path(run_id).join(FILES);
        nest(&files, 5000);
        let outside = fixture.data.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        symlink(&outside, files.join("link")).unwrap();
        fs::hard_link(outside.join("kept"), files.join("hard")).unwrap();
        nix::unistd::mkfifo(&files.join("pipe"), Mode::S_IRWXU).unwrap();
        fs::write(files.join(OsString::from_vec(vec![0xff, 0xfe])), "").unwrap();
        fs::create_dir_all(files.join("closed/below")).unwrap();
        fs::write(files.join("closed/below/file"), "").unwrap();
        for (path, mode) in [("closed/below", 0o000), ("closed", 0o500)] {
            fs::set_permissions(files.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }

        assert!(fixture.files(run_id).truncated);
        let nothing = Retention { age: Some(Duration::ZERO), total_bytes: Some(90_000) };
        let retained = fixture.retain(&nothing, SystemTime::now() + DAY);
        assert_eq!((retained.removed, retained.failed), (1, 0));
        assert!(retained.removed_bytes >= 100_000, "{retained:?}");
        assert_eq!(fs::read(outside.join("kept")).unwrap(), b"kept");
        assert_eq!(mode(&outside), 0o755);
        assert_eq!(fs::read_dir(fixture.data.path().join("artifacts")).unwrap().count(), 0);
    }

    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn an_inventory_has_every_readable_file_and_counts_all() {
        let fixture = Fixture::new();
        let run = fixture.artifacts.create_run(Uuid::new_v4()).unwrap();
        let files = run.files_path();
        run.write_text("stdout.txt", b"abc").unwrap();
        run.write_evidence(&json!({})).unwrap();
        fs::write(files.join("empty"), "").unwrap();
        fs::write(files.join("large"), vec![b'x'; 200_000]).unwrap();
        File::create(files.join("sparse")).unwrap().set_len(1 << 42).unwrap();
        symlink("/etc/passwd", files.join("link")).unwrap();
        fs::hard_link(files.join("large"), fixture.data.path().join("hard")).unwrap();
        fs::write(files.join(OsString::from_vec(vec![0xff])), "").unwrap();

        let recorded = run.records(1000).unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let found: Vec<(&str, u64, Option<&str>)> = recorded
            .records
            .iter()
            .map(|it| (it.path.as_str(), it.bytes, it.sha256.as_deref()))
            .collect();
        let expected = [
            ("files/empty", 0, Some(empty)),
            ("files/sparse", 1 << 42, None),
            ("stdout.txt", 3, Some(abc)),
        ];
        assert_eq!(found, expected);
        // Three files are omitted: `large` has a second hard link, `link` is a symlink, and one name is not UTF-8.
        assert_eq!((recorded.omitted, recorded.truncated), (3, false));

        nest(&files, 50);
        for path in fixture.artifacts.list_runs(0, None).unwrap().items {
            assert!(path.has_more);
        }
        assert!(!run.records(0).unwrap().truncated);
        for number in 0..10_000 {
            fs::create_dir(files.join(number.to_string())).unwrap();
        }
        assert!(run.records(0).unwrap().truncated);
    }

    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn a_run_with_more_files_than_are_visited_is_not_confirmed() {
        let fixture = Fixture::new();
        let run_id = fixture.run(Duration::ZERO, 3);
        let files = fixture.path(run_id).join(FILES);
        let data = hex::encode(Sha256::digest("xxx"));
        let records = [("files/data", 3, Some(data.as_str()))];
        for number in 0..10_000 {
            fs::create_dir(files.join(number.to_string())).unwrap();
        }
        assert_eq!(changes(&fixture, run_id, &records, true), (Vec::new(), false));
        fs::remove_dir_all(&files).unwrap();
        fs::create_dir(&files).unwrap();
        fs::write(files.join("data"), "xxx").unwrap();
        assert_eq!(changes(&fixture, run_id, &records, true), (Vec::new(), true));
    }

    /// The total length of all paths in the evidence of a run is limited. Each path is measured as a JSON string.
    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn an_inventory_has_no_more_than_so_many_bytes_of_paths() {
        let fixture = Fixture::new();
        let run = fixture.artifacts.create_run(Uuid::new_v4()).unwrap();
        // JSON encodes each of these characters as six bytes.
        let wide = "\u{1}".repeat(250);
        let folder = run.files_path().join(&wide);
        fs::create_dir(&folder).unwrap();
        let path = |name: &str| format!("files/{wide}/{name}");
        let bytes_each = json!(path("0000")).to_string().len();
        let most = RECORDS_BYTES_MAX / bytes_each;
        let last = RECORDS_BYTES_MAX - (most - 1) * bytes_each - (bytes_each - 4);
        for number in 0..most - 1 {
            File::create(folder.join(format!("{number:04}"))).unwrap();
        }
        let fill = |bytes: usize| folder.join("\u{1}".repeat(bytes / 6) + &"x".repeat(bytes % 6));
        // With this file, the paths have exactly the maximum length.
        File::create(fill(last)).unwrap();
        let recorded = run.records(0).unwrap();
        assert_eq!((recorded.records.len(), recorded.omitted), (most, 0));
        fs::rename(fill(last), fill(last + 1)).unwrap();
        let recorded = run.records(0).unwrap();
        assert_eq!((recorded.records.len(), recorded.omitted), (most - 1, 1));
    }

    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn the_newest_runs_are_never_cut_off() {
        let fixture = Fixture::new();
        fixture.run(Duration::ZERO, 0);
        let make = |age: Duration| {
            let run_id = Uuid::new_v4();
            fs::create_dir(fixture.path(run_id)).unwrap();
            let folder = File::open(fixture.path(run_id)).unwrap();
            folder.set_modified(SystemTime::now() - age).unwrap();
            run_id
        };
        // The file system may return the entries of a folder in any order.
        let newest: Vec<Uuid> =
            (1..150).map(|minutes| make(Duration::from_secs(60 * minutes))).collect();
        for _ in 150..RUNS_LISTED_MAX {
            make(DAY);
        }
        let list = |offset| fixture.artifacts.list_runs(offset, Some(200)).unwrap();
        assert!(!list(0).truncated);
        for _ in 0..500 {
            make(2 * DAY);
        }
        let page = list(0);
        let listed: Vec<Uuid> = page.items.iter().skip(1).take(149).map(|run| run.run_id).collect();
        assert!(page.truncated && listed == newest);
        let end = list(RUNS_LISTED_MAX - 10);
        assert_eq!((end.items.len(), end.next_offset), (10, None));

        let (runs, has_more) = fixture.artifacts.newest_runs(3).unwrap();
        let runs: Vec<Uuid> = runs.iter().skip(1).map(|run| run.run_id).collect();
        assert!(has_more && runs == newest[..2]);
    }
}
