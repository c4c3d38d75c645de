//! `qwed-mcp completions` and `qwed-mcp man-pages`: describes the command line for shells and for man(1).

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap_complete::Shell;

use super::output::{make_folder, print};

/// Prints a script that completes the command line in `shell`.
pub(super) fn print_completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    let mut command = super::command();
    clap_complete::generate(shell, &mut command, "qwed-mcp", &mut text);
    print("the completions", &String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes manual pages for the program and for each of its commands into `folder`.
pub(super) fn write_pages(folder: &Path) -> anyhow::Result<ExitCode> {
    let made = make_folder(folder);
    let written = made.and_then(|()| clap_mangen::generate_to(super::command(), folder));
    written.with_context(|| format!("failed to write manual pages into {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
