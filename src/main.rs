//! The entry point of the program. It starts a process of a run, or the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Check first whether this is a process of a run. Such a process must stay small, so it starts no async runtime.
    qwed_mcp::process_of_a_run().unwrap_or_else(qwed_mcp::cli::run)
}
