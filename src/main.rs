//! The entry point of the program. Starts the command line, or a helper process of a run, such as the supervisor.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Check first whether this process is a helper process of a run. Such a process must stay small, so it starts no
    // async runtime.
    qwed_mcp::process_of_a_run().unwrap_or_else(qwed_mcp::cli::run)
}
