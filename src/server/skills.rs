//! Offers the skill of this server over MCP: in `skills/list` and `skills/get`, and each file of the skill as a
//! resource (SEP-2640).

use rmcp::model::{
    Resource, ResourceContents, SKILL_MD, Skill, SkillFrontmatter, SkillResource, SkillResources,
};

use crate::skill::SKILL;

const MARKDOWN: &str = "text/markdown";

/// Returns the skill, with the digests of its files.
pub(super) fn skill() -> Skill {
    let file = |(path, text): (&str, &str)| SkillResource::from_bytes(uri(path), text.as_bytes());
    let files = SkillResources::Files(SKILL.files().map(file).collect());
    Skill::new(uri(SKILL_MD), frontmatter(SKILL.text), files)
}

/// Returns the entry with which `resources/list` lists the skill, for clients that do not support skills.
pub(super) fn resource() -> Resource {
    Resource::new(uri(SKILL_MD), SKILL.name)
        .with_title("How to verify a claim")
        .with_description(frontmatter(SKILL.text).description)
        .with_mime_type(MARKDOWN)
        .with_size(SKILL.text.len().try_into().unwrap_or(u64::MAX))
}

/// Returns the content of a file of the skill. `None` if the URI belongs to no such file.
pub(super) fn contents(wanted: &str) -> Option<ResourceContents> {
    let (_, text) = SKILL.files().find(|(path, _)| uri(path) == wanted)?;
    Some(ResourceContents::text(text, wanted).with_mime_type(MARKDOWN))
}

fn uri(path: &str) -> String {
    format!("skill://{}/{path}", SKILL.name)
}

/// Returns the fields between the lines `---` at the beginning of `SKILL.md`. Each field is a key and a plain text
/// without YAML syntax, so no YAML parser is needed.
fn frontmatter(text: &str) -> SkillFrontmatter {
    let lines = text.lines().skip(1).take_while(|line| *line != "---");
    let fields = lines.filter_map(|line| line.split_once(": "));
    let mut found = SkillFrontmatter::new("", "");
    for (key, value) in fields {
        match key {
            "name" => value.clone_into(&mut found.name),
            "description" => value.clone_into(&mut found.description),
            _ => found = found.with_field(key, value),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_skill_is_valid_and_its_frontmatter_is_plain_text() {
        let skill = skill();
        skill.validate().unwrap();
        assert_eq!(skill.frontmatter.name, SKILL.name);
        assert!(SKILL.text.contains(SKILL.mark));
        // In YAML, a value without quotes must not begin with some characters, and must not contain `: ` or ` #` (YAML
        // 1.2.2, 7.3.3).
        let head = SKILL.text.split("\n---\n").next().unwrap().strip_prefix("---\n").unwrap();
        for line in head.lines() {
            let (key, value) = line.split_once(": ").unwrap();
            assert!(key.bytes().all(|byte| byte.is_ascii_lowercase()), "{line}");
            assert!(value.starts_with(|first: char| first.is_ascii_alphabetic()), "{line}");
            assert!(
                !value.contains(": ") && !value.contains(" #") && value.trim() == value,
                "{line}"
            );
        }
        // The format of agentskills.io limits a description to 1024 characters.
        assert!(skill.frontmatter.description.len() <= 1024);
    }

    #[test]
    fn each_file_has_the_announced_content() {
        let SkillResources::Files(files) = skill().resources else { panic!("a list") };
        assert_eq!(files.len(), SKILL.files().count());
        for file in files {
            let found = contents(&file.uri);
            let Some(ResourceContents::TextResourceContents { text, .. }) = found else {
                panic!("{} is not a text", file.uri)
            };
            file.verify(text.as_bytes()).unwrap();
        }
        for other in ["skill://verify-claims", "skill://verify-claims/", "skill://other/SKILL.md"] {
            assert_eq!(contents(other), None, "{other}");
        }
    }
}
