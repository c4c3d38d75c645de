use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::sync::mpsc;
use std::{fs, thread};

use nix::sys::stat::Mode;
use tempfile::TempDir;

use super::writer::{GROUP_MAX, TURNSTILE};
use super::*;

fn store() -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    (folder, store)
}

/// Writes to the store, so that all its files exist.
fn touch(store: &SqliteStore) -> Result<(), StoreError> {
    store.write(|transaction| transaction.pragma_update(None, "user_version", SCHEMA_VERSION))
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn is_before_timeout(since: Instant) -> bool {
    since.elapsed() < BUSY_TIMEOUT
}

#[test]
fn nothing_is_made_where_others_can_write() {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o777);
    let error = SqliteStore::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Unprotected(_)), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn who_makes_a_store_second_takes_the_first_ones() {
    let (folder, store) = store();
    touch(&store).unwrap();
    let before = identity(&folder.path().join(FILE_NAME));
    create(folder.path()).unwrap();
    assert_eq!(identity(&folder.path().join(FILE_NAME)), before);
    touch(&store).unwrap();
}

#[test]
fn a_store_with_a_file_that_others_can_write_is_not_opened() {
    let (folder, store) = store();
    touch(&store).unwrap();
    fs::create_dir(folder.path().join("artifacts")).unwrap();
    let open = || SqliteStore::open_existing(folder.path()).map(drop);
    open().unwrap();
    for name in OWN_FILES {
        let file = folder.path().join(name);
        let before = fs::metadata(&file).unwrap().permissions();
        for wrong in [0o020, 0o002] {
            set_mode(&file, before.mode() | wrong);
            let error = open().unwrap_err();
            assert!(matches!(error, StoreError::Unprotected(_)), "{name}: {error}");
        }
        fs::set_permissions(&file, before).unwrap();
        open().unwrap();
    }
}

#[test]
fn both_connections_have_the_settings() {
    let (_folder, store) = store();
    let settings = |transaction: &Transaction<'_>| {
        let journal: String =
            transaction.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        let names = ["synchronous", "trusted_schema"];
        let others = names.map(|name| pragma(transaction, name));
        Ok((journal, others.into_iter().collect::<rusqlite::Result<Vec<_>>>()?))
    };
    // The value 2 of `synchronous` is FULL.
    let expected = ("wal".to_owned(), vec![2, 0]);
    assert_eq!(store.read(settings).unwrap(), expected);
    assert_eq!(store.write(settings).unwrap(), expected);
}

#[test]
fn a_store_that_was_replaced_is_neither_read_nor_written_to() {
    let (folder, store) = store();
    touch(&store).unwrap();
    let file = folder.path().join(FILE_NAME);
    let aside = folder.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    let refused = |what: &str| {
        for error in [
            touch(&store).unwrap_err(),
            store.read(|transaction| read_identity(transaction)).unwrap_err(),
        ] {
            let StoreError::Replaced { file: named } = error else { panic!("{what}: {error}") };
            assert_eq!(named, file, "{what}");
        }
    };
    refused("removed");
    fs::copy(&aside, &file).unwrap();
    refused("replaced");
    // The path now names the original file again, so the store works.
    fs::rename(&aside, &file).unwrap();
    touch(&store).unwrap();
    assert_eq!(
        store.read(|transaction| read_identity(transaction)).unwrap(),
        (APPLICATION_ID, SCHEMA_VERSION)
    );
}

/// Checks that jobs that wait during a write are written in groups of at most [`GROUP_MAX`].
#[test]
fn what_waits_is_written_in_groups() {
    let (folder, store) = store();
    let reader = Connection::open(folder.path().join(FILE_NAME)).unwrap();
    reader.execute_batch("CREATE TABLE marks (mark)").unwrap();
    let reader = Arc::new(Mutex::new(reader));
    let (begun, begins) = mpsc::channel();
    let (go, wait) = mpsc::channel();
    let first = store.submit(move |_| {
        begun.send(()).unwrap();
        wait.recv().unwrap();
        Ok(())
    });
    begins.recv().unwrap();
    let marks: Vec<Pending<u32>> = (0..GROUP_MAX + 5)
        .map(|_| {
            let reader = Arc::clone(&reader);
            store.submit(move |transaction| {
                transaction.execute("INSERT INTO marks VALUES (1)", [])?;
                // This second connection sees only the writes of earlier groups.
                let reader = reader.lock().unwrap();
                reader.query_row("SELECT count(*) FROM marks", [], |row| row.get(0))
            })
        })
        .collect();
    go.send(()).unwrap();
    first.wait().unwrap();
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    for mark in marks {
        *seen.entry(mark.wait().unwrap()).or_default() += 1;
    }
    assert_eq!(seen, BTreeMap::from([(0, GROUP_MAX), (256, 5)]));
}

#[test]
fn a_connection_is_kept_until_a_group_fails() {
    let (_folder, store) = store();
    let look = || store.write(|connection| connection.execute_batch("SELECT * FROM temp.kept"));
    store.write(|connection| connection.execute_batch("CREATE TEMP TABLE kept (a)")).unwrap();
    look().unwrap();
    // This statement ends the transaction of the group, so the store must open a new connection.
    store.write(|connection| connection.execute_batch("ROLLBACK")).unwrap_err();
    look().unwrap_err();
    touch(&store).unwrap();
}

#[test]
fn a_store_that_is_closed_finishes_what_it_has_begun() {
    let (_folder, store) = store();
    let (begun, begins) = mpsc::channel();
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    let pending = store.submit(move |_| {
        begun.send(()).unwrap();
        thread::sleep(Duration::from_millis(200));
        done.store(true, Ordering::Relaxed);
        Ok(())
    });
    begins.recv().unwrap();
    drop(store);
    assert!(is_done.load(Ordering::Relaxed));
    pending.wait().unwrap();
}

#[test]
fn the_next_process_may_queue_while_something_is_written() {
    let (folder, store) = store();
    let turnstile = folder.path().join(TURNSTILE);
    store
        .write(move |_| {
            File::open(turnstile).unwrap().try_lock().unwrap();
            Ok(())
        })
        .unwrap();
}

#[test]
fn the_file_of_the_turn_is_no_link_and_no_pipe_and_never_shortened() {
    let (folder, store) = store();
    let turnstile = folder.path().join(TURNSTILE);
    fs::write(&turnstile, "kept").unwrap();
    touch(&store).unwrap();
    assert_eq!(fs::read(&turnstile).unwrap(), b"kept");

    let other = folder.path().join("other");
    fs::rename(&turnstile, &other).unwrap();
    symlink(&other, &turnstile).unwrap();
    let error = touch(&store).unwrap_err();
    assert!(matches!(error, StoreError::Turnstile { .. }), "{error}");
    fs::remove_file(&turnstile).unwrap();

    nix::unistd::mkfifo(&turnstile, Mode::S_IRWXU).unwrap();
    assert!(fs::metadata(&turnstile).unwrap().file_type().is_fifo());
    let error = touch(&store).unwrap_err();
    assert!(matches!(error, StoreError::Turnstile { .. }), "{error}");
}

#[test]
fn a_turn_is_waited_for_and_not_without_end() {
    let (folder, store) = store();
    let turnstile = File::create(folder.path().join(TURNSTILE)).unwrap();
    // In the first case, the lock is released while the store waits for the lock.
    turnstile.lock().unwrap();
    let pending = store.submit(|_| Ok(()));
    thread::sleep(Duration::from_millis(50));
    turnstile.unlock().unwrap();
    pending.wait().unwrap();
    // In the second case, the lock is not released, so the store stops waiting and reports an error.
    turnstile.lock().unwrap();
    let since = Instant::now();
    let error = touch(&store).unwrap_err();
    assert!(matches!(error, StoreError::TurnstileHeld { .. }), "{error}");
    assert!(!is_before_timeout(since));
}

#[test]
fn a_store_that_is_closed_waits_for_no_turn() {
    let (folder, store) = store();
    touch(&store).unwrap();
    let turnstile = File::create(folder.path().join(TURNSTILE)).unwrap();
    turnstile.lock().unwrap();
    let pending = store.submit(|_| Ok(()));
    let since = Instant::now();
    drop(store);
    let error = pending.wait().unwrap_err();
    assert!(matches!(error, StoreError::TurnstileHeld { .. }), "{error}");
    assert!(is_before_timeout(since));
}

#[test]
fn a_lock_of_another_process_is_waited_for_and_not_without_end() {
    let (folder, store) = store();
    let other = Connection::open(folder.path().join(FILE_NAME)).unwrap();
    // In the first case, the lock is released while the store waits for the lock.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let pending = store.submit(|_| Ok(()));
    thread::sleep(Duration::from_millis(50));
    other.execute_batch("COMMIT").unwrap();
    pending.wait().unwrap();
    // In the second case, the lock is not released. The store and the other connection `own` stop waiting after the
    // timeout.
    let mut later = busy_handler(|| false);
    let own = connect(&folder.path().join(FILE_NAME)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let since = Instant::now();
    let waits = thread::spawn(move || {
        own.execute_batch("BEGIN IMMEDIATE").unwrap_err();
        is_before_timeout(since)
    });
    let error = touch(&store).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(!is_before_timeout(since));
    assert!(!waits.join().unwrap());
    // The timeout counts from the beginning of each wait, not from the creation of the handler.
    assert!(later(0));
    assert!(!busy_handler(|| true)(0));
}
