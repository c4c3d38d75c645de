//! `qwed-mcp python-api`: answers the calls of the Python package `qwed_mcp`, which is a thin wrapper around this
//! command.
//!
//! A request is a line of JSON, `{"call": NAME, …arguments}`. The reply is a line of JSON, `{"result": …}` or
//! `{"error": TEXT}`. The replies are in the order of the requests. The program exits at the end of its input. The
//! arguments and results are the same as in the documented Python classes.

use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::aibom::AiBom;
use crate::config::AdminGate;
use crate::gateway::{Arguments, RiskBasedExecutionGateway};
use crate::plain_text::json_fault;
use crate::provenance::SkillProvenanceGuard;

/// A call from the Python package.
#[derive(Debug, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
enum Call {
    /// The method `RiskBasedExecutionGateway.evaluate_and_route` of the Python package.
    EvaluateAndRoute {
        tool_name: String,
        arguments: Arguments,
        /// Whether `QWED_MCP_TRUSTED_CODE_EXECUTION` allows scripts to run. The variable is in the environment of the
        /// Python program.
        trusted_code_execution: bool,
    },
    /// The method `SkillProvenanceGuard.verify_skill` of the Python package.
    VerifySkill { manifest: Map<String, Value>, guard: Guard },
    /// The constructor `SkillProvenanceGuard(…)` of the Python package: checks that the trusted registries and domains
    /// are valid.
    CheckGuard { guard: Guard },
    /// The method `AIBOMGenerator.generate_manifest` of the Python package.
    GenerateManifest {
        llm_model: String,
        qwed_engines_used: Vec<String>,
        mcp_tools_used: Vec<String>,
    },
}

/// The arguments of the Python constructor `SkillProvenanceGuard(…)`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Guard {
    trusted_registries: Option<Vec<String>>,
    trusted_domains: Vec<String>,
    require_digest: bool,
}

impl Guard {
    fn build(&self) -> anyhow::Result<SkillProvenanceGuard> {
        let guard = SkillProvenanceGuard::new()
            .with_trusted_domains(&self.trusted_domains)
            .map_err(|error| anyhow!("trusted_domains: {error}"))?
            .require_digest(self.require_digest);
        let Some(registries) = &self.trusted_registries else { return Ok(guard) };
        let guard = guard.with_trusted_registries(registries);
        guard.map_err(|error| anyhow!("trusted_registries: {error}"))
    }
}

/// Answers the calls on standard input, one on each line, until the end of the input.
pub(super) fn answer() -> anyhow::Result<ExitCode> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).context("failed to read a call")? > 0 {
        let reply = match reply(&line) {
            Ok(reply) => reply,
            Err(error) => json!({ "error": format!("{error:#}") }).to_string(),
        };
        writeln!(output, "{reply}").context("failed to write a result")?;
        output.flush().context("failed to write a result")?;
        line.clear();
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats a successful reply as JSON. The fields of the result keep the documented order.
fn with_result(result: &impl Serialize) -> anyhow::Result<String> {
    Ok(format!(r#"{{"result":{}}}"#, serde_json::to_string(result)?))
}

/// Executes the call in a line of JSON, and returns the reply as a line of JSON.
fn reply(line: &[u8]) -> anyhow::Result<String> {
    match serde_json::from_slice(line).map_err(|error| anyhow!(json_fault(&error)))? {
        Call::EvaluateAndRoute { tool_name, arguments, trusted_code_execution } => {
            let gate = if trusted_code_execution { AdminGate::Open } else { AdminGate::Closed };
            let gateway = RiskBasedExecutionGateway::new(gate);
            with_result(&gateway.evaluate_and_route(&tool_name, arguments))
        }
        Call::VerifySkill { manifest, guard } => {
            with_result(&guard.build()?.verify_skill(&manifest))
        }
        Call::CheckGuard { guard } => with_result(&guard.build().map(drop)?),
        Call::GenerateManifest { llm_model, qwed_engines_used, mcp_tools_used } => {
            with_result(&AiBom::from_names(llm_model, qwed_engines_used, mcp_tools_used)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_not_json_is_told_with_its_column() {
        let error = reply(b"nonsense\n\xff").unwrap_err();
        assert_eq!(error.to_string(), "not JSON: expected ident at column 2");
    }
}
