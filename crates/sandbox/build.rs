//! Compiles `src/linux/fixed.c` to the shared library that the crate contains.

use std::env::{self, VarError};
use std::error::Error;
use std::path::Path;

/// The compiler's options. The library is linked with no other library: the program that loads it has a C library, and
/// may have glibc or musl.
const OPTIONS: [&str; 8] = [
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-shared",
    "-nostdlib",
    "-fvisibility=hidden",
    "-fno-stack-protector",
    // Otherwise calls would need functions that only glibc has.
    "-U_FORTIFY_SOURCE",
];

fn main() -> Result<(), Box<dyn Error>> {
    let source = "src/linux/fixed.c";
    println!("cargo::rerun-if-changed={source}");
    let is_linux = env::var("CARGO_CFG_TARGET_OS")? == "linux";
    if !is_linux || env::var("CARGO_CFG_QWED_PORTABLE") != Err(VarError::NotPresent) {
        return Ok(());
    }
    let library = Path::new(&env::var("OUT_DIR")?).join("fixed.so");
    let mut build = cc::Build::new();
    let compiler = build.no_default_flags(true).try_get_compiler()?;
    let status =
        compiler.to_command().args(OPTIONS).arg("-o").arg(&library).arg(source).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{source} was not compiled: {status}").into())
    }
}
