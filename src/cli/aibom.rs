//! `qwed-mcp aibom`: prints an AI bill of materials, and writes the bill of a server's session.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use crate::aibom::{self, AiBom, Session};

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The model
    #[arg(long, value_name = "MODEL")]
    llm_model: String,
    /// A verification engine that was used, such as `qwed_legal.FairnessGuard`
    #[arg(long = "engine", value_name = "ENGINE")]
    engines: Vec<String>,
    /// An MCP tool that was called
    #[arg(long = "tool", value_name = "TOOL")]
    tools: Vec<String>,
    /// The form of the output
    #[arg(long, value_enum, default_value = "qwed")]
    format: BomFormat,
}

/// The format of the bill of materials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BomFormat {
    /// The documented manifest, with its hash
    Qwed,
    // The `help` attribute replaces a doc comment here. Clippy requires backticks around the name in a doc comment, and
    // clap would print the backticks.
    #[value(help = "CycloneDX 1.6")]
    Cyclonedx,
}

/// Prints a bill of materials with the names in the options.
pub(super) fn print(options: &Options) -> anyhow::Result<ExitCode> {
    let Options { llm_model, engines, tools, format } = options;
    let bom = match AiBom::from_names(llm_model, engines, tools) {
        Ok(bom) => bom,
        Err(error) => {
            tracing::error!("{error}: name one with --llm-model");
            return Ok(ExitCode::from(super::USAGE));
        }
    };
    let text = match format {
        BomFormat::Qwed => serde_json::to_string_pretty(&bom)? + "\n",
        BomFormat::Cyclonedx => format!("{:#}\n", bom.to_cyclonedx()),
    };
    super::output::print("the bill of materials", &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Logs an error if the bill of materials cannot be written to `file`. Called at the start of a session, because the
/// bill is written only after the session.
pub(super) fn warn_if_unusable(file: &Path) {
    if let Err(reason) = require_usable(file) {
        tracing::error!(
            "QWED_MCP_AIBOM: the bill of materials cannot be written to {}: {reason}",
            file.display()
        );
    }
}

/// Checks in advance whether a bill of materials can be written to `file`. The error is the reason.
pub(super) fn require_usable(file: &Path) -> Result<(), String> {
    aibom::destination(file).map(drop).map_err(|error| error.to_string())
}

/// Writes the bill of materials of a session. Called after the session has ended.
pub(super) fn write(session: &Session, file: &Path) -> anyhow::Result<()> {
    let written = session
        .write(file)
        .with_context(|| format!("failed to write the bill of materials to {}", file.display()))?;
    tracing::info!(file = %written.display(), "bill of materials written");
    Ok(())
}
