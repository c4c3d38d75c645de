//! `qwed-mcp install --skill`: copies the skill of this server into the folders in which agents search for skills, or
//! removes the skill from these folders.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use super::show;
use crate::clients::{Places, SkillChange, SkillEffect, skill_folders};
use crate::skill::SKILL;

/// Adds or removes the skill, for the user or for a project. If `is_dry`, changes nothing.
pub(super) fn install(
    places: &Places,
    project: Option<&Path>,
    is_removal: bool,
    is_dry: bool,
) -> anyhow::Result<ExitCode> {
    let (mut has_failed, mut has_changed) = (false, false);
    for folder in skill_folders(places, project, is_removal) {
        let change = match SkillChange::prepare(&SKILL, &folder, project, is_removal) {
            Ok(change) => change,
            Err(error) => {
                tracing::error!("{error}");
                has_failed = true;
                continue;
            }
        };
        let mut backups = Vec::new();
        let made = if is_dry { Ok(()) } else { change.apply(&mut backups) };
        let mut text = String::new();
        match made {
            Ok(()) => {
                has_changed |=
                    !matches!(change.effect, SkillEffect::AlreadyThere | SkillEffect::Absent);
                let _ =
                    write!(text, "{}: {}", change.folder.display(), outcome(change.effect, is_dry));
            }
            Err(error) => {
                tracing::error!("{error}");
                has_failed = true;
                let _ = write!(text, "{}: not completed.", change.folder.display());
            }
        }
        for backup in backups {
            let _ = write!(text, " Backup: {}.", backup.display());
        }
        text.push('\n');
        show("the change", &text)?;
    }
    if has_changed && !is_dry {
        show("the note", "Agents read skills when a session starts.\n")?;
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Describes a change that was made. If `is_dry`, describes the change that would be made.
fn outcome(effect: SkillEffect, is_dry: bool) -> &'static str {
    match (effect, is_dry) {
        (SkillEffect::Add, false) => "the skill is added.",
        (SkillEffect::Add, true) => "the skill would be added.",
        (SkillEffect::Update, false) => "the skill is updated.",
        (SkillEffect::Update, true) => "the skill would be updated.",
        (SkillEffect::Remove, false) => "the skill is removed.",
        (SkillEffect::Remove, true) => "the skill would be removed.",
        (SkillEffect::AlreadyThere, _) => "the skill is already there; nothing to change.",
        (SkillEffect::Absent, _) => "the skill is not there; nothing to change.",
    }
}
