//! `qwed-mcp python-api`: answers the calls of the Python package `qwed_mcp`, which is a thin wrapper around this
//! command.
//!
//! A request is a line of JSON, `{"call": NAME, …arguments}`. The reply is a line of JSON, `{"result": …}` or
//! `{"error": TEXT}`. Replies have the order of the requests. The program ends with its input. The arguments and
//! results match the documented Python classes.

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
    /// `RiskBasedExecutionGateway.evaluate_and_route`.
    EvaluateAndRoute {
        tool_name: String,
        arguments: Arguments,
        /// Whether `QWED_MCP_TRUSTED_CODE_EXECUTION` in the caller's environment allows code to run.
        trusted_code_execution: bool,
    },
    /// `SkillProvenanceGuard.verify_skill`.
    VerifySkill { manifest: Map<String, Value>, guard: Guard },
    /// `SkillProvenanceGuard(…)`: checks that its entries are valid.
    CheckGuard { guard: Guard },
    /// `AIBOMGenerator.generate_manifest`.
    GenerateManifest {
        llm_model: String,
        qwed_engines_used: Vec<String>,
        mcp_tools_used: Vec<String>,
    },
}

/// The arguments of `SkillProvenanceGuard(…)`.
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

/// Answers the calls on standard input until its end.
pub(super) fn answer() -> anyhow::Result<ExitCode> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line).context("failed to read a call")? > 0 {
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

/// Serialises a reply with a result. The fields keep the documented order.
fn with_result(result: &impl Serialize) -> anyhow::Result<String> {
    Ok(format!(r#"{{"result":{}}}"#, serde_json::to_string(result)?))
}

/// Carries out the call in a line, and returns the reply.
fn reply(line: &str) -> anyhow::Result<String> {
    match serde_json::from_str(line).map_err(|error| anyhow!(json_fault(&error)))? {
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
        let error = reply("nonsense\n").unwrap_err();
        assert_eq!(error.to_string(), "not JSON: expected ident at column 2");
    }
}
