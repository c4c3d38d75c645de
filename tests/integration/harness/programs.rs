//! Creates programs that tests then start.
//!
//! A child process writes each program. If this process wrote the program itself, a child that another test starts at
//! the same time would inherit the open file until the child calls `execve`. During that time, the program could not be
//! started (`ETXTBSY`, execve(2)).

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) fn write_program(path: impl AsRef<Path>, text: &str) {
    let mut install = install(Path::new("/dev/stdin"), path.as_ref());
    let mut child = install.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{}", path.as_ref().display());
}

pub(crate) fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = install(from.as_ref(), to.as_ref()).status().unwrap();
    assert!(copied.success(), "{}", to.as_ref().display());
}

fn install(from: &Path, to: &Path) -> Command {
    let mut install = Command::new("install");
    install.args(["-m", "755"]).args([from, to]);
    install
}
