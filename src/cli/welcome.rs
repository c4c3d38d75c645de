//! Prints a welcome text if a person, and not an MCP client, has started `qwed-mcp` on a terminal.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use serde_json::json;

use super::output::print_styled;
use crate::terminal::{BOLD, visible};

/// Returns whether a person started the program. If a client had started it, standard input would be a pipe.
pub(super) fn is_person() -> bool {
    io::stdin().is_terminal()
}

/// Prints a description of the program, and an example of a client's configuration for it.
pub(super) fn print_welcome() -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize());
    let program = program
        .map_or_else(|_| "qwed-mcp".into(), |program| visible(&program.display().to_string()));
    let entry = json!({ "mcpServers": { "qwed": {
        "command": program,
        "env": { "QWED_MCP_TRUSTED_CODE_EXECUTION": "true" },
    } } });
    let version = env!("CARGO_PKG_VERSION");
    let repository = env!("CARGO_PKG_REPOSITORY");
    let text = format!(
        "{BOLD}qwed-mcp {version}{BOLD:#}: an MCP server that lets a language model check its own claims \
         with Python scripts.\n\
         \n\
         An MCP client starts it and talks to it over pipes; on a terminal there is nothing to type. To \
         put it\n\
         into the configurations of clients:\n\
         \n  \
           {BOLD}qwed-mcp install{BOLD:#}                              lists the clients that are found\n  \
           {BOLD}qwed-mcp install --client NAME --allow-code{BOLD:#}   adds the server to one of them\n\
         \n\
         or by hand, as most clients have it:\n\
         \n\
         {entry:#}\n\
         \n\
         Without a client:\n\
         \n  \
           {BOLD}qwed-mcp doctor{BOLD:#}     reports interpreter, packages and sandbox\n  \
           {BOLD}qwed-mcp run FILE{BOLD:#}   runs a script as a client's call would\n  \
           {BOLD}qwed-mcp --help{BOLD:#}     lists all commands\n\
         \n\
         {repository}\n"
    );
    print_styled("the welcome", &text)?;
    Ok(ExitCode::SUCCESS)
}
