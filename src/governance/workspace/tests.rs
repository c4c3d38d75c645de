//! Compares the state that `WorkspaceState::of` determines with Git's own answers.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

use super::*;

struct Repository {
    folder: tempfile::TempDir,
}

impl Repository {
    fn new() -> Self {
        let repository = Self { folder: tempfile::tempdir().unwrap() };
        repository.git(&["init", "-q", "-b", "main"]);
        for (name, content) in
            [("a.py", "1\n"), ("tests/a.py", "2\n"), ("tests.py", "3\n"), ("run.sh", "#!/bin/sh\n")]
        {
            let path = repository.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(repository.path("run.sh"), executable).unwrap();
        symlink("a.py", repository.path("link")).unwrap();
        repository.commit();
        repository
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.current_dir(self.folder.path()).args(arguments).env("HOME", self.folder.path());
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "ada");
            command.env(format!("GIT_{who}_EMAIL"), "ada@example.org");
        }
        let output = command.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "a commit"]);
    }

    fn state(&self) -> WorkspaceState {
        WorkspaceState::of(self.folder.path()).unwrap()
    }

    /// Returns the state according to Git.
    fn expected(&self) -> WorkspaceState {
        let changes = self.git(&["status", "--porcelain", "--untracked-files=no"]);
        WorkspaceState {
            commit: Some(self.git(&["rev-parse", "HEAD"])),
            tree: None,
            dirty: Some(!changes.is_empty()),
            undetermined: None,
        }
    }

    #[track_caller]
    fn check(&self, is_dirty: bool) {
        let state = self.state();
        let tree = state.tree.clone();
        assert_eq!(WorkspaceState { tree: None, ..state }, self.expected());
        assert_eq!(self.expected().dirty, Some(is_dirty));
        if !is_dirty {
            assert_eq!(tree, Some(self.git(&["rev-parse", "HEAD^{tree}"])));
        }
    }
}

type Change = fn(&Repository);

#[test]
fn a_state_is_what_git_says_of_it() {
    let repository = Repository::new();
    repository.check(false);
    // An untracked file does not change the state.
    fs::write(repository.path("new.py"), "").unwrap();
    repository.check(false);
    let changes: [Change; 6] = [
        |it| fs::write(it.path("tests/a.py"), "4\n").unwrap(),
        |it| fs::remove_file(it.path("a.py")).unwrap(),
        |it| {
            let plain = fs::Permissions::from_mode(0o644);
            fs::set_permissions(it.path("run.sh"), plain).unwrap();
        },
        |it| {
            fs::remove_file(it.path("link")).unwrap();
            symlink("run.sh", it.path("link")).unwrap();
        },
        |it| drop(it.git(&["add", "new.py"])),
        |it| drop(it.git(&["rm", "-q", "--cached", "a.py"])),
    ];
    for change in changes {
        change(&repository);
        // After every change, the tree differs from the commit's tree.
        repository.check(true);
        repository.git(&["reset", "-q", "--hard"]);
        fs::write(repository.path("new.py"), "").unwrap();
        repository.check(false);
    }
}

#[test]
fn a_commit_is_found_wherever_git_keeps_it() {
    let repository = Repository::new();
    repository.check(false);
    repository.git(&["checkout", "-q", "--detach"]);
    repository.check(false);
    repository.git(&["checkout", "-q", "main"]);
    repository.git(&["pack-refs", "--all"]);
    repository.git(&["gc", "-q"]);
    assert!(!repository.path(".git/refs/heads/main").exists());
    assert!(loose(&repository).is_none(), "the control: it is in a pack");
    repository.check(false);
    fs::write(repository.path("a.py"), "5\n").unwrap();
    repository.check(true);
}

/// Returns the loose object of the commit, if it exists.
fn loose(repository: &Repository) -> Option<PathBuf> {
    let commit = repository.git(&["rev-parse", "HEAD"]);
    let path = repository.path(&format!(".git/objects/{}/{}", &commit[..2], &commit[2..]));
    path.exists().then_some(path)
}

#[test]
fn what_is_not_known_is_said() {
    let repository = Repository::new();
    let commit = repository.expected().commit;
    let unknown = |expected: &str| {
        let state = repository.state();
        assert_eq!(state.dirty, None, "{state:?}");
        let reason = state.undetermined.as_deref().unwrap_or_default();
        assert!(reason.contains(expected), "{expected}: {reason}");
        state.commit
    };
    repository.git(&["update-index", "--index-version", "4"]);
    assert_eq!(unknown("version is not supported"), commit);
    repository.git(&["update-index", "--index-version", "2"]);
    repository.git(&["update-index", "--split-index"]);
    assert_eq!(unknown("split in two"), commit);
    repository.git(&["update-index", "--no-split-index"]);
    repository.check(false);
    // The content of the commit does not match its id.
    let file = loose(&repository).unwrap();
    let good = fs::read(&file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    for bad in [b"".to_vec(), vec![0; 100], [&good[..20], b"xx", &good[22..]].concat()] {
        fs::write(&file, bad).unwrap();
        assert_eq!(unknown("damaged"), commit);
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(unknown("the format of the commit is not supported"), commit);
    fs::write(&file, good).unwrap();
    // A tracked file differs from the commit. Git may have converted the file because of `.gitattributes`, so the state
    // is unknown.
    fs::write(repository.path(".gitattributes"), "*.py text eol=crlf\n").unwrap();
    repository.commit();
    repository.check(false);
    fs::write(repository.path("a.py"), "1\r\n").unwrap();
    unknown("changes files");
    fs::write(repository.path(".git/HEAD"), "ref: refs/heads/none\n").unwrap();
    assert_eq!(unknown("there is no commit"), None);
    fs::write(repository.path(".git/HEAD"), "ref: refs/../../secret\n").unwrap();
    unknown("cannot be read");
    for (content, expected) in
        [("x".to_owned(), "damaged"), ("ref: HEAD\n".to_owned(), "damaged"), ("y".repeat(9000), "")]
    {
        fs::write(repository.path(".git/HEAD"), content).unwrap();
        unknown(expected);
    }
    fs::rename(repository.path(".git"), repository.path("git")).unwrap();
    assert_eq!(WorkspaceState::of(repository.folder.path()), None);
    fs::write(repository.path(".git"), "gitdir: git\n").unwrap();
    unknown("outside of the workspace");
    fs::remove_file(repository.path(".git")).unwrap();
    symlink("git", repository.path(".git")).unwrap();
    unknown("outside of the workspace");
}

#[test]
fn a_file_that_is_left_out_counts_as_it_is() {
    let repository = Repository::new();
    repository.git(&["update-index", "--skip-worktree", "a.py", "tests/a.py"]);
    repository.check(false);
    fs::remove_file(repository.path("a.py")).unwrap();
    fs::remove_dir_all(repository.path("tests")).unwrap();
    repository.check(false);
    // Git would not report these changes, because of the flag `skip-worktree`. `WorkspaceState::of` must find them.
    let other = repository.path("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a.py"), "2\n").unwrap();
    let changes: [Change; 3] = [
        |it| fs::write(it.path("a.py"), "4\n").unwrap(),
        |it| fs::create_dir(it.path("a.py")).unwrap(),
        |it| symlink("other", it.path("tests")).unwrap(),
    ];
    for change in changes {
        change(&repository);
        let state = repository.state();
        assert_eq!((state.dirty, state.undetermined.as_deref()), (Some(true), None));
        for path in ["a.py", "tests"].map(|name| repository.path(name)) {
            let _ = if path.is_dir() && !path.is_symlink() {
                fs::remove_dir(path)
            } else {
                fs::remove_file(path)
            };
        }
        repository.check(false);
    }
}

#[test]
fn a_submodule_is_unknown_if_it_has_files() {
    let repository = Repository::new();
    let id = repository.git(&["rev-parse", "HEAD"]);
    let entry = format!("160000,{id},module");
    repository.git(&["update-index", "--add", "--cacheinfo", &entry]);
    repository.git(&["commit", "-q", "-m", "a submodule"]);
    repository.check(true);
    fs::create_dir(repository.path("module")).unwrap();
    repository.check(false);
    let unknown = WorkspaceState {
        commit: repository.expected().commit,
        undetermined: Some(Undetermined::Submodule.to_string()),
        ..WorkspaceState::default()
    };
    for name in ["module/.git", "module/a.py"] {
        fs::write(repository.path(name), "").unwrap();
        assert_eq!(repository.state(), unknown);
        // A change of another file makes the workspace dirty, whatever the submodule contains.
        let text = fs::read(repository.path("a.py")).unwrap();
        fs::write(repository.path("a.py"), "4\n").unwrap();
        assert_eq!(repository.state(), WorkspaceState { dirty: Some(true), ..unknown.clone() });
        fs::write(repository.path("a.py"), text).unwrap();
        fs::remove_file(repository.path(name)).unwrap();
    }
    repository.check(false);
    fs::remove_dir(repository.path("module")).unwrap();
    fs::write(repository.path("module"), "").unwrap();
    repository.check(true);
}

/// Files in the workspace can make Git start programs and follow symlinks. `WorkspaceState::of` does neither.
#[test]
fn nothing_of_the_workspaces_choice_is_started_or_followed() {
    let repository = Repository::new();
    let sign = repository.path("sign");
    let hook = repository.path("hook.sh");
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", sign.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    repository.git(&["config", "core.fsmonitor", hook.to_str().unwrap()]);
    repository.state();
    assert!(!sign.exists());
    // For comparison, Git starts the hook.
    repository.git(&["status"]);
    assert!(sign.exists());
    repository.git(&["config", "--unset", "core.fsmonitor"]);
    // Replace folders and files by symlinks to the same content.
    for path in [".git/objects", ".git/index", "tests"] {
        repository.git(&["status"]);
        repository.check(false);
        let (path, moved) = (repository.path(path), repository.path("moved"));
        fs::rename(&path, &moved).unwrap();
        symlink(&moved, &path).unwrap();
        let state = repository.state();
        assert_ne!(state.dirty, Some(false), "{path:?}: {state:?}");
        fs::remove_file(&path).unwrap();
        fs::rename(&moved, &path).unwrap();
    }
    // A pipe without a writer must not block the reader.
    let head = repository.path(".git/HEAD");
    fs::remove_file(&head).unwrap();
    nix::unistd::mkfifo(&head, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(repository.state().undetermined.is_some());
}

#[test]
fn damage_is_no_panic() {
    let repository = Repository::new();
    let index = repository.path(".git/index");
    let good = fs::read(&index).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        fs::write(&index, &bad).unwrap();
        let state = repository.state();
        assert!(state.commit.is_some());
        fs::write(&index, &good[..at]).unwrap();
        repository.state();
    }
    fs::write(&index, &good).unwrap();
    repository.git(&["gc", "-q"]);
    let packs = fs::read_dir(repository.path(".git/objects/pack")).unwrap();
    for file in packs.map(|entry| entry.unwrap().path()) {
        let good = fs::read(&file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        for at in (0..good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            fs::write(&file, &bad).unwrap();
            // The damage may make the state unknown, but must not make it dirty, because the tracked files are
            // unchanged.
            assert_ne!(repository.state().dirty, Some(true));
            fs::write(&file, &good[..at]).unwrap();
            repository.state();
        }
        fs::write(&file, &good).unwrap();
    }
    repository.check(false);
}
