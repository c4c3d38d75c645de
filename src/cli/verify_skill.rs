//! `qwed-mcp verify-skill`: verifies skill manifests, for people and for continuous integration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::Format;
use super::output::{document, print};
use super::table::Table;
use crate::provenance::{
    InvalidEntry, ManifestError, SkillProvenanceGuard, SkillStatus, SkillVerification,
};

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The manifests
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Accept skills only from this registry; may be repeated for more
    #[arg(long = "trusted-registry", value_name = "REGISTRY", value_parser = registry)]
    trusted_registries: Vec<String>,
    /// Also trust source URLs at this domain and its subdomains
    #[arg(long = "trusted-domain", value_name = "DOMAIN", value_parser = domain)]
    trusted_domains: Vec<String>,
    /// Accept a skill without a digest
    #[arg(long)]
    no_require_digest: bool,
    /// The file that the digest covers; default: the file that the manifest names, if any
    #[arg(long, value_name = "FILE")]
    artifact: Option<PathBuf>,
    /// The form of the output
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

struct Judged<'o> {
    file: &'o Path,
    verification: Result<SkillVerification, ManifestError>,
}

/// Verifies the manifests and prints the findings. The exit code is 0 if all skills are trusted, 1 if at least one
/// skill is not trusted, and 2 if a manifest could not be read.
pub(super) fn verify(options: &Options) -> anyhow::Result<ExitCode> {
    if options.artifact.is_some() && options.files.len() > 1 {
        tracing::error!("--artifact belongs to one skill; give exactly one manifest");
        return Ok(ExitCode::from(super::USAGE));
    }
    let guard = guard(options)?;
    let artifact = options.artifact.as_deref();
    let judged = |file| Judged { file, verification: guard.verify_file(file, artifact) };
    let judged: Vec<_> = options.files.iter().map(|file| judged(file.as_path())).collect();
    let text = match options.format {
        Format::Text => as_table(&judged),
        Format::Json => document(as_json(&judged)),
    };
    print("the findings", &text)?;

    let mut code = 0;
    for Judged { file, verification } in judged {
        match verification {
            Ok(verification) => code = code.max(u8::from(!verification.verified)),
            Err(error) => {
                code = super::USAGE;
                let error = anyhow::Error::new(error);
                tracing::error!("{} is not a manifest: {error:#}", file.display());
            }
        }
    }
    Ok(ExitCode::from(code))
}

fn guard(options: &Options) -> Result<SkillProvenanceGuard, InvalidEntry> {
    let guard = SkillProvenanceGuard::new()
        .with_trusted_domains(&options.trusted_domains)?
        .require_digest(!options.no_require_digest);
    if options.trusted_registries.is_empty() {
        return Ok(guard);
    }
    guard.with_trusted_registries(&options.trusted_registries)
}

/// Parses the value of `--trusted-registry`. Checks the value during parsing, so that clap's error names the option.
fn registry(text: &str) -> Result<String, String> {
    let tried = SkillProvenanceGuard::new().with_trusted_registries([text]);
    tried.map(|_| text.to_owned()).map_err(|error| format!("it {}", error.reason()))
}

fn domain(text: &str) -> Result<String, String> {
    let tried = SkillProvenanceGuard::new().with_trusted_domains([text]);
    tried.map(|_| text.to_owned()).map_err(|error| format!("it {}", error.reason()))
}

/// Returns a table with a row for each skill. Each finding gets a row after its skill.
fn as_table(judged: &[Judged<'_>]) -> String {
    let mut table = Table::new([("STATUS", 10), ("RISK", 6), ("SKILL", 24), ("FILE", 0)]);
    for Judged { file, verification } in judged {
        let file = file.display().to_string();
        match verification {
            Ok(verification) => {
                let SkillVerification { status, risk_level, findings, .. } = verification;
                let name = verification.shown_name();
                table.row([status.as_str(), risk_level.as_str(), &name, &file]);
                for finding in findings {
                    table.row(["", "", "", &format!("- {finding}")]);
                }
            }
            // The table does not contain the reason, because `verify` logs it.
            Err(_) => table.row(["UNREADABLE", "-", "-", &file]),
        }
    }
    let count = |status| {
        let of_status = |judged: &&Judged<'_>| {
            judged.verification.as_ref().is_ok_and(|verification| verification.status == status)
        };
        judged.iter().filter(of_status).count()
    };
    let unreadable = judged.iter().filter(|judged| judged.verification.is_err()).count();
    let (trusted, blocked) = (count(SkillStatus::Trusted), count(SkillStatus::Blocked));
    format!("{table}\n{trusted} trusted, {blocked} blocked, {unreadable} unreadable\n")
}

fn as_json(judged: &[Judged<'_>]) -> Value {
    let skills: Vec<Value> = judged
        .iter()
        .map(|Judged { file, verification }| match verification {
            Ok(verification) => {
                let mut value = json!(verification);
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("file".to_owned(), json!(file.display().to_string()));
                }
                value
            }
            Err(error) => {
                json!({ "file": file.display().to_string(), "error": format!("{error:#}") })
            }
        })
        .collect();
    json!({ "skills": skills })
}
