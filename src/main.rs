//! The entry of every process of ours: one of a run's own, or the program that the command line names.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: the processes of a run are small, and have no runtime.
    qwed_mcp::process_of_a_run().unwrap_or_else(qwed_mcp::cli::run)
}
