//! `qwed-mcp judge`: records which of the admin's tests must pass.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Subcommand;

use super::output::print;
use crate::config::Settings;
use crate::data_folder::data_folder;
use crate::executor::{Executor as _, OneShotExecutor};
use crate::governance::{PolicyFile, RecordedList, record_list};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the tests of `judge.tests`, and list those that have to pass in `judge.list`
    ///
    /// Check out a commit that you trust in the workspace first: the tests run against it, at the level of later runs,
    /// in the sandbox. Nothing is written unless every test passes, is skipped or is expected to fail. The exit code is
    /// 0, 1 if nothing was recorded, 2 if the policy cannot be read.
    Record {
        /// The policy; default: the file in `QWED_MCP_POLICY`
        file: Option<PathBuf>,
    },
}

pub(super) fn run(command: &Command, settings: &Settings) -> anyhow::Result<ExitCode> {
    let Command::Record { file } = command;
    let Some(file) = file.as_ref().or(settings.policy.as_ref()) else {
        tracing::error!("give a policy file, or set QWED_MCP_POLICY");
        return Ok(ExitCode::from(super::USAGE));
    };
    let policy = Arc::new(PolicyFile::new(file.to_owned()));
    let Ok(current) = policy.current() else { return Ok(ExitCode::from(super::USAGE)) };
    let untrusted = super::untrusted(Some(&policy));
    let folder = data_folder(settings.data_dir.as_deref())?;
    let executor = OneShotExecutor::new(settings, untrusted);
    crate::executor::orphans::adopt()?;
    let recorded = super::runtime()?.block_on(async {
        let recorded = record_list(&current, &executor, &folder).await;
        executor.shut_down().await;
        recorded
    });
    let RecordedList { file, tests, content } = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            tracing::error!("{error}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let place = file.parent().context("judge.list has no folder")?;
    let mut draft = tempfile::NamedTempFile::new_in(place)
        .with_context(|| format!("cannot write in {}", place.display()))?;
    draft.write_all(content.as_bytes())?;
    draft.as_file().set_permissions(Permissions::from_mode(0o644))?;
    draft.persist(&file).with_context(|| format!("cannot write {}", file.display()))?;
    print("the result", &format!("{tests} tests recorded in {}\n", file.display()))?;
    Ok(ExitCode::SUCCESS)
}
