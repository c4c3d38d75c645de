//! Chooses the command of an entry: a path of this program, if possible one that stays valid, or `uvx`, which downloads
//! this program again. This module never writes an entry.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::places::Places;

/// The command that an entry starts, with its arguments and a note for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    pub command: String,
    pub arguments: Vec<String>,
    pub note: Option<Note>,
}

/// A note for the user about the command of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The entry starts `uvx`, which fetches the program at each start. The path of the program is temporary, for the
    /// reason `why`.
    ByUvx { program: PathBuf, why: &'static str },
    /// The entry starts a symlink to the program, because the path of the program contains the version.
    ByLink { program: PathBuf, why: &'static str },
    /// The entry starts the program by a path that contains the version, because no symlink leads to the program.
    Versioned { why: &'static str },
    /// The entry starts the program in the folder of a Cargo build.
    BuildFolder,
}

/// The reason why no command of an entry would stay valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// The path of this program is temporary, and `uvx` was not found.
    #[error(
        "{} is in a temporary place ({why}), and uvx was not found to fetch it again. Install it \
         with `uv tool install \"qwed-mcp[sdk]>=0.3\"`, or with pip into a virtual environment, \
         and run `qwed-mcp install` from there", .program.display()
    )]
    Vanishes { program: PathBuf, why: &'static str },
    /// The path of this program is not UTF-8. A configuration is a text, so it cannot contain the path.
    #[error("the path of this program is not UTF-8: {}", .0.display())]
    NotUtf8(PathBuf),
}

/// The way to start the program if its path does not stay valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instead {
    /// The path is temporary, so the entry starts `uvx`, which fetches the program at each start.
    Fetch,
    /// The next version will have a different path, so the entry starts a symlink on `PATH` that leads to the newest
    /// version.
    Link,
    /// The path is in the folder of a Cargo build. The entry still starts the program at this path. A note is enough,
    /// because a user that built the program knows the folder.
    Note,
}

/// A kind of path that does not stay valid. `fits` returns whether a path is of this kind.
struct Passing {
    fits: fn(&Path, &Places) -> bool,
    why: &'static str,
    instead: Instead,
}

/// The kinds of paths that do not stay valid. If several fit, the first one applies.
const PASSING: &[Passing] = &[
    Passing {
        // The cache folder can have any name, so check the names of its subfolders, such as `archive-v0`,
        // `environments-v2` and `builds-v0`.
        fits: |path, _| {
            parts(path).any(|part| {
                let version = ["archive-v", "environments-v", "builds-v"]
                    .iter()
                    .find_map(|start| part.strip_prefix(start));
                version.is_some_and(|v| !v.is_empty() && v.chars().all(|c| c.is_ascii_digit()))
            })
        },
        why: "it is in the cache of uv",
        instead: Instead::Fetch,
    },
    Passing {
        fits: |path, _| {
            let parts: Vec<&str> = parts(path).collect();
            parts.windows(2).any(|pair| matches!(pair, ["pipx", ".cache"] | [".cache", "pipx"]))
        },
        why: "it is in the cache of pipx",
        instead: Instead::Fetch,
    },
    Passing {
        fits: |path, places| places.is_temporary(path),
        why: "it is in a temporary folder",
        instead: Instead::Fetch,
    },
    Passing {
        fits: |path, _| path.starts_with("/nix/store"),
        why: "each version has its own folder in the store of Nix",
        instead: Instead::Link,
    },
    Passing {
        fits: |path, _| parts(path).any(|part| part == "Cellar"),
        why: "each version has its own folder in Homebrew's Cellar",
        instead: Instead::Link,
    },
    Passing {
        fits: |path, _| {
            let parts: Vec<&str> = parts(path).collect();
            parts.windows(2).any(|pair| matches!(pair, ["target", "debug" | "release" | "dist"]))
        },
        why: "it is in a build folder",
        instead: Instead::Note,
    },
];

fn parts(path: &Path) -> impl Iterator<Item = &str> {
    path.components().filter_map(|part| part.as_os_str().to_str())
}

/// Returns a command that starts `program`, which must be a canonical path. The command stays valid, except with
/// [`Note::Versioned`] and [`Note::BuildFolder`].
pub fn launch(program: &Path, places: &Places) -> Result<Launch, ProgramError> {
    let passing = PASSING.iter().find(|passing| (passing.fits)(program, places));
    let Some(Passing { why, instead, .. }) = passing else {
        return Ok(Launch { command: text(program)?, arguments: Vec::new(), note: None });
    };
    match instead {
        Instead::Fetch => {
            let uvx = uvx(places);
            let uvx =
                uvx.ok_or_else(|| ProgramError::Vanishes { program: program.to_owned(), why })?;
            let requirement = format!("qwed-mcp[sdk]=={}", env!("CARGO_PKG_VERSION"));
            let arguments = vec!["--from".to_owned(), requirement, "qwed-mcp".to_owned()];
            let note = Some(Note::ByUvx { program: program.to_owned(), why });
            Ok(Launch { command: text(&uvx)?, arguments, note })
        }
        Instead::Link => {
            let link = places.program("qwed-mcp");
            let link = link.filter(|link| link.canonicalize().is_ok_and(|path| path == program));
            let note = match &link {
                Some(_) => Note::ByLink { program: program.to_owned(), why },
                None => Note::Versioned { why },
            };
            let command = text(link.as_deref().unwrap_or(program))?;
            Ok(Launch { command, arguments: Vec::new(), note: Some(note) })
        }
        Instead::Note => {
            let note = Some(Note::BuildFolder);
            Ok(Launch { command: text(program)?, arguments: Vec::new(), note })
        }
    }
}

/// Returns a path of `uvx` that stays valid.
fn uvx(places: &Places) -> Option<PathBuf> {
    let beside = places.uv.as_ref().map(|uv| uv.with_file_name("uvx"));
    let beside = beside.filter(|uvx| super::places::is_program(uvx));
    let stays = |uvx: &PathBuf| !places.is_temporary(uvx);
    beside.filter(stays).or_else(|| places.installed_program("uvx").filter(stays))
}

fn text(path: &Path) -> Result<String, ProgramError> {
    path.to_str().map(str::to_owned).ok_or_else(|| ProgramError::NotUtf8(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::{fs, slice};

    use super::*;

    fn places(home: &Path) -> Places {
        let lookup = |name: &str| {
            Some(match name {
                "HOME" => home.into(),
                "PATH" => home.join("bin").into_os_string(),
                "QWED_MCP_TEST_TEMPORARY" => {
                    let folders = ["/fleeting".as_ref(), home.parent().unwrap()];
                    std::env::join_paths(folders).unwrap()
                }
                _ => return None,
            })
        };
        Places::from_lookup(lookup, false).unwrap()
    }

    #[test]
    fn paths_that_vanish_are_never_written() {
        let home = tempfile::tempdir().unwrap();
        let places = places(home.path());
        let vanishing = [
            "/home/a/.cache/uv/archive-v0/aB3/bin/qwed-mcp",
            "/mnt/c/archive-v12/x/bin/qwed-mcp",
            "/home/a/.cache/uv/environments-v2/x/bin/qwed-mcp",
            "/home/a/.local/share/pipx/.cache/9f/bin/qwed-mcp",
            "/fleeting/x/qwed-mcp",
        ];
        for path in vanishing {
            let refused = launch(Path::new(path), &places);
            assert!(matches!(refused, Err(ProgramError::Vanishes { .. })), "{path} {refused:?}");
        }
        fs::create_dir(home.path().join("bin")).unwrap();
        let uvx = home.path().join("bin/uvx");
        fs::write(&uvx, "").unwrap();
        // The file `uvx` is not executable yet, so it must not be used.
        assert!(launch(Path::new(vanishing[0]), &places).is_err());
        fs::set_permissions(&uvx, fs::Permissions::from_mode(0o755)).unwrap();
        for path in vanishing {
            let launch = launch(Path::new(path), &places).unwrap();
            assert_eq!(launch.command, uvx.to_str().unwrap());
            let requirement = concat!("qwed-mcp[sdk]==", env!("CARGO_PKG_VERSION"));
            assert_eq!(launch.arguments, ["--from", requirement, "qwed-mcp"]);
            assert!(matches!(launch.note, Some(Note::ByUvx { .. })));
        }
    }

    #[test]
    fn paths_that_stay_are_written_and_versioned_ones_by_their_link() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let places = places(&home);
        // A path below the home folder counts as permanent, even though this home folder is in a temporary folder.
        let own = home.join(".local/share/uv/tools/qwed-mcp/bin/qwed-mcp");
        for path in [Path::new("/usr/bin/qwed-mcp"), &own] {
            let command = path.to_str().unwrap().to_owned();
            let expected = Launch { command, arguments: Vec::new(), note: None };
            assert_eq!(launch(path, &places), Ok(expected));
        }
        let beside = home.with_file_name("other/qwed-mcp");
        assert!(launch(&beside, &places).is_err(), "{}", beside.display());
        let build = launch(Path::new("/home/a/q/target/debug/qwed-mcp"), &places).unwrap();
        assert_eq!(build.note, Some(Note::BuildFolder));
        let program = home.join("Cellar/qwed-mcp/0.3.0/bin/qwed-mcp");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let unlinked = launch(&program, &places).unwrap();
        assert!(matches!(unlinked.note, Some(Note::Versioned { .. })), "{unlinked:?}");
        let link = home.join("bin/qwed-mcp");
        fs::create_dir(home.join("bin")).unwrap();
        symlink(&program, &link).unwrap();
        let linked = launch(&program, &places).unwrap();
        assert_eq!(slice::from_ref(&linked.command), [link.to_str().unwrap()]);
    }
}
