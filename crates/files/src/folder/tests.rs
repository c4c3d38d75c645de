use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Creates a folder with a subfolder `tree`. Returns the folder, its open `Folder`, and the path of `tree`.
fn with_tree() -> (tempfile::TempDir, Folder, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let tree = parent.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let folder = Folder::open(parent.path()).unwrap();
    (parent, folder, tree)
}

/// Opens a file while a thread exchanges it with a symlink. An exchange can also happen between the check of the file
/// and its opening.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_becomes_a_link_while_it_is_opened_is_not_followed() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let data = tempfile::tempdir().unwrap();
    fs::create_dir(data.path().join("folder")).unwrap();
    let [own, link, outside] =
        ["folder/file", "link", "outside"].map(|name| data.path().join(name));
    fs::write(&own, "own").unwrap();
    fs::write(&outside, "secret").unwrap();
    symlink(&outside, &link).unwrap();
    let folder = Folder::open(&data.path().join("folder")).unwrap();

    let is_over = AtomicBool::new(false);
    let (mut read, mut led_out, mut refused) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, &own, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        // Go on until the file was read in at least one round, and refused in at least one round. On a busy machine,
        // many rounds can pass before the other thread runs.
        let mut rounds = 0;
        while rounds < 100_000 || (rounds < 5_000_000 && (read == 0 || refused == 0)) {
            rounds += 1;
            match folder.file("file".as_ref()).map(std::io::read_to_string) {
                Ok(text) => {
                    read += 1;
                    led_out += usize::from(text.unwrap() != "own");
                }
                Err(_) => refused += 1,
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(led_out, 0, "of {read} that were read");
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
}

#[test]
fn whatever_is_in_a_tree_is_removed_and_nothing_else() {
    let (parent, folder, tree) = with_tree();
    let kept = parent.path().join("kept");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("file"), "").unwrap();
    fs::create_dir_all(tree.join("a/b/c")).unwrap();
    fs::create_dir_all(tree.join("a/d")).unwrap();
    fs::write(tree.join("a/b/file"), "").unwrap();
    symlink(&kept, tree.join("a/link")).unwrap();
    symlink(&kept, tree.join("link")).unwrap();
    nix::unistd::mkfifo(&tree.join("pipe"), Mode::S_IRWXU).unwrap();
    for closed in ["a/b/c", "a/b", "a"] {
        fs::set_permissions(tree.join(closed), fs::Permissions::from_mode(0o000)).unwrap();
    }
    folder.remove_tree(OsStr::new("tree")).unwrap();
    assert!(!tree.exists() && kept.join("file").exists());
    // The removal of a folder that does not exist must not be an error.
    folder.remove_tree(OsStr::new("tree")).unwrap();
    // The removal of a symlink to a folder must fail.
    symlink(&kept, &tree).unwrap();
    folder.remove_tree(OsStr::new("tree")).unwrap_err();
    assert!(kept.join("file").exists());
}

/// Tests of the largest trees.
mod large {
    use super::*;

    /// Walks and removes a very deep tree. Its paths are longer than the maximum length of a path, and it has more levels
    /// than a process may have file descriptors.
    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn a_deep_tree_is_walked_and_removed() {
        let (_parent, folder, tree) = with_tree();
        let mut here = Folder::open(&tree).unwrap();
        for _ in 0..5000 {
            here.create_folder(OsStr::new("d")).unwrap();
            here = here.folder(OsStr::new("d")).unwrap();
        }
        here.create_file(OsStr::new("deepest")).unwrap().write_all(b"x").unwrap();
        let seen = |depth_max| {
            let (mut seen, mut bytes) = (0, 0);
            let bounds = Bounds { entries_max: 10_000, depth_max };
            let walked = Folder::open(&tree).unwrap().walk(bounds, |_, stat| {
                seen += 1;
                bytes += if stat.is_plain_file() { stat.bytes } else { 0 };
            });
            (walked.unwrap(), seen, bytes)
        };
        assert_eq!(seen(usize::MAX), (Reach::All, 5001, 1));
        assert_eq!(seen(32), (Reach::Part, 32, 0));
        folder.remove_tree(OsStr::new("tree")).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn a_tree_of_many_folders_is_removed() {
        let (_parent, folder, tree) = with_tree();
        for number in 0..10_000 {
            fs::create_dir(tree.join(number.to_string())).unwrap();
        }
        folder.remove_tree(OsStr::new("tree")).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn what_cannot_be_removed_keeps_nothing_else_back() {
        let (_parent, _folder, tree) = with_tree();
        for number in 0..3 * BATCH {
            fs::write(tree.join(number.to_string()), "").unwrap();
        }
        fs::create_dir(tree.join("stays")).unwrap();
        let folder = Folder::open(&tree).unwrap();
        let emptied = folder.empty(&mut |_, _| Err(io::ErrorKind::ResourceBusy.into()));
        assert_eq!(emptied.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(folder.names(10).unwrap(), ["stays"]);
    }

    #[test]
    #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
    fn however_many_cannot_be_removed_they_keep_nothing_else_back() {
        let (_parent, _folder, tree) = with_tree();
        for number in 0..2 * BATCH {
            fs::create_dir(tree.join(format!("stays-{number}"))).unwrap();
            fs::write(tree.join(format!("goes-{number}")), "").unwrap();
        }
        let folder = Folder::open(&tree).unwrap();
        let emptied = folder.empty(&mut |_, _| Err(io::ErrorKind::ResourceBusy.into()));
        assert_eq!(emptied.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        let left = folder.names(usize::MAX).unwrap();
        assert_eq!(left.len(), 2 * BATCH);
        assert!(left.iter().all(|name| name.as_encoded_bytes().starts_with(b"stays-")));
    }
}
