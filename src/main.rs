//! The program: all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    qwed_mcp::cli::run()
}
