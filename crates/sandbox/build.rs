//! Compiles the C files of `src/linux` to shared libraries, which the crate embeds.

use std::env::{self, VarError};
use std::error::Error;
use std::path::Path;
use std::process::Command;

const COMPILED: [&str; 7] = [
    "-c",
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-stack-protector",
    // Disable fortified calls, because they need functions that only glibc has.
    "-U_FORTIFY_SOURCE",
];
/// The linker's arguments. A library is not linked with a C library, because the program that loads it already has
/// glibc or musl. Linking is a separate step, because with `-nostdlib` zig's compiler does not find the C library's
/// headers.
const LINKED: [&str; 3] = ["-shared", "-nostdlib", "-s"];

const NAMES: [&str; 2] = ["fixed", "forks"];

fn main() -> Result<(), Box<dyn Error>> {
    for name in NAMES {
        println!("cargo::rerun-if-changed={}", source(name));
    }
    let is_linux = env::var("CARGO_CFG_TARGET_OS")? == "linux";
    if !is_linux || env::var("CARGO_CFG_QWED_PORTABLE") != Err(VarError::NotPresent) {
        return Ok(());
    }
    let folder = env::var("OUT_DIR")?;
    let compiler = cc::Build::new().no_default_flags(true).try_get_compiler()?;
    for name in NAMES {
        let object = Path::new(&folder).join(format!("{name}.o"));
        let library = Path::new(&folder).join(format!("{name}.so"));
        run(compiler.to_command().args(COMPILED).arg("-o").arg(&object).arg(source(name)))?;
        run(compiler.to_command().args(LINKED).arg("-o").arg(&library).arg(&object))?;
    }
    Ok(())
}

fn source(name: &str) -> String {
    format!("src/linux/{name}.c")
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{}: {status}", command.get_program().display()).into())
    }
}
