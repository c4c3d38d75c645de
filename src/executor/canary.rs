//! A first script that tries to get out: a sandbox counts only once it has been seen to hold.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use uuid::Uuid;

use crate::sandbox::Tier;

/// The attempts, each a function, and what prints those that worked.
const ATTEMPTS: &str = include_str!("canary.py");

/// What works at a tier although it is an attempt, and is documented: the gaps of the tier.
fn known_gaps(tier: Tier) -> &'static [&'static str] {
    match tier {
        Tier::T3 => &[],
        Tier::T2 => &["find_file"],
        // Without Landlock and namespaces files and processes are open to the script.
        Tier::T1 | Tier::Off => &[
            "read_file",
            "find_file",
            "write_beside_file",
            "change_file_mode",
            "list_root",
            "read_server_environment",
            "signal_server",
        ],
    }
}

/// A file outside of the sandbox, and the script that tries to reach it.
#[derive(Debug)]
pub(super) struct Canary {
    folder: PathBuf,
    pub(super) script: String,
}

impl Canary {
    /// Puts the file into the place for temporary files. Dropping the canary removes it.
    pub(super) fn new(program: &Path) -> io::Result<Self> {
        // A folder of its own: the folder for temporary files is the sandbox's as well.
        let name = format!("qwed-mcp-canary-{}", Uuid::new_v4().simple());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)?;
        let file = folder.join("file");
        let mut canary = Self { script: String::new(), folder };
        fs::write(&file, "this file is outside of the sandbox")?;
        let file = file.to_str().ok_or_else(|| {
            io::Error::other("the name of the folder for temporary files is not UTF-8: set TMPDIR")
        })?;
        let targets = json!({
            "file": file,
            "server": std::process::id(),
            "program": program,
        });
        canary.script = format!("TARGETS = {targets}\n{ATTEMPTS}");
        Ok(canary)
    }

    /// The attempts that worked and must not have; `output` is what the script printed. None if it
    /// says nothing of the kind: the script did not come to its end.
    pub(super) fn escapes(tier: Tier, output: &str) -> Option<Vec<String>> {
        let mut opened: Vec<String> = serde_json::from_str(output).ok()?;
        opened.retain(|way| !known_gaps(tier).contains(&way.as_str()));
        Some(opened)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        // Nothing in it matters, and the system clears what is left in this place.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
