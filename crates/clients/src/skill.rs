//! Copies a skill (<https://agentskills.io>) into the folders from which agents load skills, and removes it again. It
//! never changes a file of another skill.

use std::fs;
use std::path::{Path, PathBuf};

use super::change::ChangeError;
use super::file::{FileError, Original, Scope};
use super::places::Places;

/// A skill, which is a folder of files.
#[derive(Debug, Clone, Copy)]
pub struct Skill {
    /// The name of the folder, which is also the name in `SKILL.md`.
    pub name: &'static str,
    /// The content of `SKILL.md`.
    pub text: &'static str,
    /// The paths of the other files in the folder, with their contents.
    pub references: &'static [(&'static str, &'static str)],
    /// A text that each version of `SKILL.md` contains. A file without this text belongs to another skill.
    pub mark: &'static str,
}

impl Skill {
    /// Returns the paths of all files in the folder, with their contents. The first is `SKILL.md`.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        std::iter::once(("SKILL.md", self.text)).chain(self.references.iter().copied())
    }
}

/// The effect of a change of a skill's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillEffect {
    Add,
    /// Replaces the files of another version.
    Update,
    /// Changes nothing, because the files are already there.
    AlreadyThere,
    Remove,
    /// Changes nothing, because there is no file to remove.
    Absent,
}

/// A change of a skill's folder that is prepared but not yet made.
#[derive(Debug)]
pub struct SkillChange {
    pub effect: SkillEffect,
    pub folder: PathBuf,
    scope: Scope,
    files: Vec<SkillFile>,
}

#[derive(Debug)]
struct SkillFile {
    path: PathBuf,
    original: Original,
    content: &'static str,
}

impl SkillFile {
    fn is_there(&self) -> bool {
        self.original.bytes().is_some()
    }

    fn is_current(&self) -> bool {
        self.original.bytes() == Some(self.content.as_bytes())
    }
}

/// Returns the folders for skills of the user, or of a project: `.claude/skills` if Claude Code seems to be used, and
/// `.agents/skills` if `.agents` exists or Claude Code is not used. For a removal, returns both folders.
pub fn skill_folders(places: &Places, project: Option<&Path>, is_removal: bool) -> Vec<PathBuf> {
    let (claude, agents) = match project {
        Some(root) => (root.join(".claude"), root.join(".agents")),
        None => (places.claude_folder(), places.home().join(".agents")),
    };
    let has_program = || project.is_none() && places.program("claude").is_some();
    let has_claude = claude.is_dir() || has_program();
    let has_agents = agents.is_dir() || !has_claude;
    [(has_claude, claude), (has_agents, agents)]
        .into_iter()
        .filter(|(is_used, _)| *is_used || is_removal)
        .map(|(_, folder)| folder.join("skills"))
        .collect()
}

impl SkillChange {
    /// Prepares the addition or the removal of a skill in a folder for skills. Writes nothing. With a `project`, fails
    /// if a symlink leads out of the project.
    pub fn prepare(
        skill: &Skill,
        skills: &Path,
        project: Option<&Path>,
        is_removal: bool,
    ) -> Result<Self, ChangeError> {
        let folder = skills.join(skill.name);
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        if is_removal && (is_link(&folder) || is_link(skills)) {
            return Err(ChangeError::LinkedSkill(folder));
        }
        let mut files = Vec::new();
        for (name, content) in skill.files() {
            let path = folder.join(name);
            let original = Original::read(&path)?;
            if let Some(root) = project
                && !original.is_within(root)?
            {
                let target = original.path().to_owned();
                return Err(ChangeError::OutsideProject { file: path, target });
            }
            files.push(SkillFile { path, original, content });
        }
        let is_ours = |bytes: &[u8]| {
            let mark = skill.mark.as_bytes();
            bytes.windows(mark.len()).any(|window| window == mark)
        };
        if let Some(file) = files.first()
            && !file.original.bytes().is_some_and(is_ours)
            && (file.is_there() || files.iter().any(|file| file.is_there() && !file.is_current()))
        {
            return Err(ChangeError::OtherSkill(file.path.clone()));
        }
        let is_there = files.iter().any(SkillFile::is_there);
        let effect = match (is_removal, is_there) {
            (true, true) => SkillEffect::Remove,
            (true, false) => SkillEffect::Absent,
            (false, false) => SkillEffect::Add,
            (false, true) if files.iter().all(SkillFile::is_current) => SkillEffect::AlreadyThere,
            (false, true) => SkillEffect::Update,
        };
        let scope = if project.is_some() { Scope::Project } else { Scope::User };
        Ok(Self { effect, folder, scope, files })
    }

    /// Makes the change. First backs up each file that differs from this version's file, and adds the path to
    /// `backups`. If the change fails, `backups` contains the backups made before.
    pub fn apply(&self, backups: &mut Vec<PathBuf>) -> Result<(), ChangeError> {
        match self.effect {
            SkillEffect::Add | SkillEffect::Update => {
                let files = || self.files.iter().filter(|file| !file.is_current());
                if let Some(file) = files().find(|file| file.original.is_read_only()) {
                    return Err(FileError::ReadOnly(file.path.clone()).into());
                }
                for file in files() {
                    backups.extend(file.original.replace(file.content.as_bytes(), self.scope)?);
                }
            }
            SkillEffect::Remove => {
                for file in self.files.iter().filter(|file| file.is_there()) {
                    backups.extend(remove(file)?);
                }
                self.remove_folders();
            }
            SkillEffect::AlreadyThere | SkillEffect::Absent => {}
        }
        Ok(())
    }

    /// Removes the folders of the skill that are empty.
    fn remove_folders(&self) {
        for file in &self.files {
            let parents = file.path.ancestors().skip(1);
            for folder in parents.take_while(|folder| folder.starts_with(&self.folder)) {
                // For a folder with other files, `remove_dir` fails, as intended.
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

/// Removes a file. If this version of the skill has another content for the file, makes a backup first and returns the
/// path of the backup.
fn remove(file: &SkillFile) -> Result<Option<PathBuf>, ChangeError> {
    let backup = if file.is_current() { None } else { file.original.back_up_original()? };
    if !file.original.is_as_read() {
        // The file is not removed, so the backup is not needed.
        let _ = backup.map(fs::remove_file);
        return Err(FileError::Changed(file.path.clone()).into());
    }
    fs::remove_file(&file.path).map_err(|source| {
        let path = file.path.clone();
        FileError::System { action: "remove", path, source }
    })?;
    Ok(backup)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const SKILL: Skill = Skill {
        name: "try",
        text: "---\nname: try\n---\nmark 2",
        references: &[("references/a.md", "a")],
        mark: "mark",
    };

    fn change(skills: &Path, is_removal: bool) -> SkillChange {
        SkillChange::prepare(&SKILL, skills, None, is_removal).unwrap()
    }

    fn applied(change: &SkillChange) -> Vec<PathBuf> {
        let mut backups = Vec::new();
        change.apply(&mut backups).unwrap();
        backups
    }

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).map_or(0, Iterator::count)
    }

    #[test]
    fn a_skill_is_added_updated_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let skills = root.path().join("skills");
        let folder = skills.join("try");
        for effect in [SkillEffect::Add, SkillEffect::AlreadyThere] {
            let change = change(&skills, false);
            assert_eq!((change.effect, applied(&change).len()), (effect, 0));
        }
        assert_eq!(fs::read_to_string(folder.join("references/a.md")).unwrap(), "a");
        // A file of another version is backed up, before its replacement and before its removal.
        fs::write(folder.join("SKILL.md"), "mark 1").unwrap();
        let update = change(&skills, false);
        assert_eq!(update.effect, SkillEffect::Update);
        let [backup] = &applied(&update)[..] else { panic!("one backup") };
        assert_eq!(fs::read_to_string(backup).unwrap(), "mark 1");
        fs::remove_file(backup).unwrap();
        fs::write(folder.join("references/a.md"), "edited").unwrap();
        let removal = change(&skills, true);
        assert_eq!(removal.effect, SkillEffect::Remove);
        let [backup] = &applied(&removal)[..] else { panic!("one backup") };
        assert_eq!(fs::read_to_string(backup).unwrap(), "edited");
        fs::remove_file(backup).unwrap();
        assert_eq!(names(&folder), 1);
        // A removal leaves only files that do not belong to the skill.
        applied(&change(&skills, false));
        applied(&change(&skills, true));
        assert_eq!(names(&skills), 0);
        applied(&change(&skills, false));
        fs::write(folder.join("theirs"), "").unwrap();
        applied(&change(&skills, true));
        assert_eq!(names(&folder), 1);
        assert_eq!(change(&skills, true).effect, SkillEffect::Absent);
    }

    #[test]
    fn a_change_that_fails_changes_nothing_or_names_the_backups() {
        let root = tempfile::tempdir().unwrap();
        let skills = root.path().join("skills");
        applied(&change(&skills, false));
        let folder = skills.join("try");
        let (main, reference) = (folder.join("SKILL.md"), folder.join("references/a.md"));
        fs::write(&main, "mark 1").unwrap();
        fs::write(&reference, "edited").unwrap();
        fs::set_permissions(&reference, fs::Permissions::from_mode(0o444)).unwrap();
        let update = change(&skills, false);
        let mut backups = Vec::new();
        assert!(update.apply(&mut backups).is_err() && backups.is_empty());
        assert_eq!(fs::read_to_string(&main).unwrap(), "mark 1");
        // Another program changes the second file after the preparation.
        fs::set_permissions(&reference, fs::Permissions::from_mode(0o644)).unwrap();
        let update = change(&skills, false);
        fs::write(&reference, "edited again").unwrap();
        assert!(update.apply(&mut backups).is_err());
        assert_eq!(fs::read_to_string(&backups[0]).unwrap(), "mark 1");
    }

    #[test]
    fn files_of_another_folder_are_not_removed() {
        let root = tempfile::tempdir().unwrap();
        let (clone, skills) = (root.path().join("clone"), root.path().join("skills"));
        applied(&change(&clone, false));
        fs::create_dir(&skills).unwrap();
        symlink(clone.join("try"), skills.join("try")).unwrap();
        let error = SkillChange::prepare(&SKILL, &skills, None, true).unwrap_err();
        assert!(matches!(error, ChangeError::LinkedSkill(_)), "{error}");
        fs::remove_file(skills.join("try")).unwrap();
        // The folder has no `SKILL.md` of this skill, so its other files do not belong to this skill.
        fs::create_dir_all(skills.join("try/references")).unwrap();
        fs::write(skills.join("try/references/a.md"), "theirs").unwrap();
        let error = SkillChange::prepare(&SKILL, &skills, None, true).unwrap_err();
        assert!(matches!(error, ChangeError::OtherSkill(_)), "{error}");
    }

    #[test]
    fn another_skill_and_links_out_of_a_project_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let (project, outside) = (root.path().join("project"), root.path().join("outside"));
        fs::create_dir_all(project.join("skills/try")).unwrap();
        fs::create_dir(&outside).unwrap();
        let skills = project.join("skills");
        let file = skills.join("try/SKILL.md");
        fs::write(&file, "---\nname: try\n---\nanother").unwrap();
        for is_removal in [false, true] {
            let error = SkillChange::prepare(&SKILL, &skills, None, is_removal).unwrap_err();
            assert!(matches!(error, ChangeError::OtherSkill(_)), "{error}");
        }
        fs::remove_file(&file).unwrap();
        symlink(&outside, skills.join("try/references")).unwrap();
        for is_removal in [false, true] {
            let error = SkillChange::prepare(&SKILL, &skills, Some(&project), is_removal);
            assert!(matches!(error, Err(ChangeError::OutsideProject { .. })), "{is_removal}");
        }
        // Without a project, a symlink may lead to any folder, because users may keep skills elsewhere.
        applied(&change(&skills, false));
        assert_eq!(names(&outside), 1);
    }
}
