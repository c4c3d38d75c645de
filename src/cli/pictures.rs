//! Delivers the pictures of a script to the user of a shell: writes them to a folder, or shows them on the terminal.
//!
//! A picture is passed on unchanged. Terminals that need decoded pixels (Sixel) are not supported. This process has
//! all rights of its user, so it must not decode data from a script.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use base64::prelude::{BASE64_STANDARD, Engine as _};

use super::output::{self, unless_closed};
use crate::config::terminal;
use crate::executor::{Picture, Pictures};
use crate::terminal::Label;

/// A protocol by which a terminal shows a PNG file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// The protocol of kitty: <https://sw.kovidgoyal.net/kitty/graphics-protocol/>.
    Kitty,
    /// The protocol of iTerm2: <https://iterm2.com/documentation-images.html>.
    ITerm2,
}

/// The terminals that show pictures. An environment variable and its value identify a terminal.
const TERMINALS: [(&str, &str, Protocol); 6] = [
    ("TERM", "xterm-kitty", Protocol::Kitty),
    ("TERM", "xterm-ghostty", Protocol::Kitty),
    ("TERM_PROGRAM", "ghostty", Protocol::Kitty),
    ("TERM_PROGRAM", "iTerm.app", Protocol::ITerm2),
    ("TERM_PROGRAM", "WezTerm", Protocol::ITerm2),
    ("TERM_PROGRAM", "mintty", Protocol::ITerm2),
];

/// The maximum length of the payload in one command of kitty's protocol, in characters.
const KITTY_CHUNK_BYTES: usize = 4096;

/// Writes the pictures into `folder`. Without a folder, shows the pictures if standard output is a terminal that can
/// show them. Otherwise prints the number of pictures to standard error.
pub(super) fn deliver(pictures: &Pictures, folder: Option<&Path>) -> anyhow::Result<()> {
    if let Some(folder) = folder {
        return write(&pictures.all, folder);
    }
    let protocol = io::stdout().is_terminal().then(|| protocol(terminal)).flatten();
    match (protocol, pictures.all.len()) {
        (_, 0) => {}
        (Some(protocol), _) => {
            let shown: String =
                pictures.all.iter().map(|picture| show(picture, protocol)).collect();
            // Write the text directly, because `output::print` would escape the escape sequences. This is safe, because
            // this program, not the script, creates the escape sequences.
            let mut stdout = io::stdout();
            let written = stdout.write_all(shown.as_bytes()).and_then(|()| stdout.flush());
            unless_closed(written).context("failed to print the pictures")?;
        }
        (None, count) => {
            let noun = if count == 1 { "picture" } else { "pictures" };
            Label::Note.say(format_args!("{count} {noun}; --pictures DIR writes them there"));
        }
    }
    Ok(())
}

/// Creates the folder for pictures before the script runs.
pub(super) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    output::make_folder(folder).with_context(|| failed(folder))
}

fn failed(path: &Path) -> String {
    format!("failed to write {}", path.display())
}

fn write(pictures: &[Picture], folder: &Path) -> anyhow::Result<()> {
    for (number, picture) in (1..).zip(pictures) {
        let path = folder.join(format!("picture-{number}.png"));
        let mut file = File::create(&path).with_context(|| failed(&path))?;
        if let Err(error) = file.write_all(&picture.png) {
            // A partial picture is useless, so remove it. Never remove a device or a pipe.
            if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                let _ = fs::remove_file(&path);
            }
            return Err(error).with_context(|| failed(&path));
        }
        let Picture { width, height, .. } = picture;
        Label::Note.say(format_args!("{} ({width} × {height})", path.display()));
    }
    Ok(())
}

/// Returns the protocol that the terminal supports. `lookup` returns the values of the variables that identify the
/// terminal.
fn protocol(lookup: impl Fn(&str) -> Option<String>) -> Option<Protocol> {
    // tmux and screen do not pass the escape sequences of either protocol to the terminal.
    let is_multiplexed = lookup("TMUX").is_some() || lookup("STY").is_some();
    let is = |name: &str, value: &str| lookup(name).is_some_and(|found| found == value);
    let found = TERMINALS.iter().find(|(name, value, _)| is(name, value));
    found.filter(|_| !is_multiplexed).map(|(.., protocol)| *protocol)
}

/// Returns the escape sequences that show a picture.
fn show(picture: &Picture, protocol: Protocol) -> String {
    let encoded = BASE64_STANDARD.encode(&picture.png);
    match protocol {
        Protocol::ITerm2 => {
            let bytes = picture.png.len();
            format!("\x1b]1337;File=inline=1;size={bytes}:{encoded}\x07\n")
        }
        Protocol::Kitty => {
            let mut text = String::new();
            let mut rest = encoded.as_str();
            // The key q=2 suppresses the terminal's response, which the shell would otherwise read as typed input.
            let mut keys = "a=T,f=100,q=2,";
            while !rest.is_empty() {
                let (chunk, behind) = rest.split_at(rest.len().min(KITTY_CHUNK_BYTES));
                let goes_on = u8::from(!behind.is_empty());
                // Writing to a string cannot fail.
                let _ = write!(text, "\x1b_G{keys}m={goes_on};{chunk}\x1b\\");
                (rest, keys) = (behind, "");
            }
            text.push('\n');
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_known_by_their_variables() {
        for (variables, expected) in [
            (&[("TERM", "xterm-kitty")][..], Some(Protocol::Kitty)),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")], Some(Protocol::ITerm2)),
            (&[("TERM", "xterm-256color")], None),
            (&[("TERM", "xterm-kitty"), ("TMUX", "/tmp/tmux,1,0")], None),
            (&[], None),
        ] {
            let lookup = |name: &str| {
                variables
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(protocol(lookup), expected, "{variables:?}");
        }
    }

    #[test]
    fn a_picture_is_shown_as_it_came() {
        let png = vec![0xff; 4096];
        let picture = Picture { png, width: 1, height: 1, sha256: String::new() };
        let encoded = BASE64_STANDARD.encode(&picture.png);
        let shown = show(&picture, Protocol::ITerm2);
        assert_eq!(shown, format!("\x1b]1337;File=inline=1;size=4096:{encoded}\x07\n"));
        let (first, second) = encoded.split_at(4096);
        assert_eq!(
            show(&picture, Protocol::Kitty),
            format!("\x1b_Ga=T,f=100,q=2,m=1;{first}\x1b\\\x1b_Gm=0;{second}\x1b\\\n")
        );
    }
}
