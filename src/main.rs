//! The entry point of all our processes: a process of a run, or the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    // This comes first, because the processes of a run are small and have no runtime.
    qwed_mcp::process_of_a_run().unwrap_or_else(qwed_mcp::cli::run)
}
