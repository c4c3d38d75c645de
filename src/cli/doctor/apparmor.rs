//! `qwed-mcp doctor --apparmor-profile`: generates the profile that lets this program create user namespaces on Ubuntu.
//! It never loads the profile.
//!
//! Since version 23.10, Ubuntu refuses user namespaces to programs without a profile that allows `userns`
//! (`kernel.apparmor_restrict_unprivileged_userns`). A profile applies only to the program at one path, see
//! apparmor.d(5).

use std::path::Path;

use anyhow::Context as _;

/// Returns the `AppArmor` profile of this program, for the path from which it was started.
pub(super) fn profile() -> anyhow::Result<String> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize());
    of(&program.context("the path of this program cannot be found")?)
}

/// Returns the `AppArmor` profile of the program at `path`, which must be a canonical path.
fn of(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    let text = text.context(
        "the path of this program has characters that AppArmor does not support; move the program",
    )?;
    let mut quoted = String::new();
    for character in text.chars() {
        // In a profile, each of these characters is a wildcard, or part of a variable or of a quoted string.
        if r#"\"*?[]{}^@"#.contains(character) {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    Ok(format!(
        "# Lets qwed-mcp make user namespaces, in which it runs scripts. Made by: qwed-mcp doctor \
         --apparmor-profile\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         \n\
         profile qwed-mcp \"{quoted}\" flags=(unconfined) {{\n  \
           userns,\n  \
           include if exists <local/qwed-mcp>\n\
         }}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_names_the_path_and_nothing_that_it_could_stand_for() {
        let profile = of(Path::new("/home/ada/my tools/qwed-mcp")).unwrap();
        let line = "\nprofile qwed-mcp \"/home/ada/my tools/qwed-mcp\" flags=(unconfined) {\n";
        assert!(profile.contains(line), "{profile}");
        assert!(profile.contains("\n  userns,\n"), "{profile}");

        let profile = of(Path::new(r#"/opt/*/{a,b}/"c"/@{HOME}"#)).unwrap();
        let line = r#"profile qwed-mcp "/opt/\*/\{a,b\}/\"c\"/\@\{HOME\}" flags"#;
        assert!(profile.contains(line), "{profile}");

        // The package for Debian and Ubuntu contains the same profile as a file.
        let packaged = include_str!("../../../packaging/deb/apparmor");
        assert_eq!(of(Path::new("/usr/bin/qwed-mcp")).unwrap(), packaged);

        assert!(of(Path::new("/opt/a\nprofile x /bin/sh flags=(unconfined) { }/b")).is_err());
    }
}
