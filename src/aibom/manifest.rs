//! The manifest, with the field names and words of the documents.

use chrono::{SecondsFormat, Utc};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::canonical_json::canonical_json;

/// What every manifest says of itself.
pub const COMPLIANCE: &str = "QWED_AI_SPM_v1";

/// Makes bills of materials from names.
///
/// ```
/// use qwed_mcp::aibom::AiBomGenerator;
///
/// let bom = AiBomGenerator::generate_manifest(
///     "gpt-4o",
///     &["qwed_tax.TaxVerifier", "qwed_legal.FairnessGuard"],
///     &["execute_python_code"],
/// )
/// .unwrap();
/// assert_eq!(bom.compliance, "QWED_AI_SPM_v1");
/// assert_eq!(
///     bom.manifest_hash,
///     "98daf7bf6397564badbc301b8bba40335872f3a7b13a691186da5d8f33af1c9e"
/// );
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct AiBomGenerator;

/// Why there is no bill.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AiBomError {
    /// A bill that names no model says nothing.
    #[error("llm_model must be a non-empty string")]
    EmptyModel,
}

impl AiBomGenerator {
    /// The bill of the model, the verification engines and the MCP tools of these names, in their
    /// order.
    ///
    /// # Errors
    ///
    /// If the name of the model is empty.
    pub fn generate_manifest<S: AsRef<str>>(
        llm_model: &str,
        qwed_engines_used: &[S],
        mcp_tools_used: &[S],
    ) -> Result<AiBom, AiBomError> {
        if llm_model.is_empty() {
            return Err(AiBomError::EmptyModel);
        }
        let all = |names: &[S], kind| {
            names.iter().map(|name| Component::new(name.as_ref(), kind)).collect()
        };
        Ok(AiBom::new(Components {
            models: vec![Component::new(llm_model, ComponentType::Generator)],
            verification_engines: all(qwed_engines_used, ComponentType::QwedDeterministic),
            mcp_tools: all(mcp_tools_used, ComponentType::ActionExecution),
            runtime: Vec::new(),
        }))
    }
}

/// An AI bill of materials. Serialises to the documented fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AiBom {
    /// When it was made: ISO 8601, UTC, to the microsecond.
    pub timestamp: String,
    /// What had a part.
    pub components: Components,
    /// [`COMPLIANCE`].
    pub compliance: &'static str,
    /// SHA-256, in lower-case hexadecimal digits, over all other fields but `timestamp`: as JSON with
    /// sorted keys, without spaces, non-ASCII characters escaped. The same components in the same
    /// order have the same hash.
    pub manifest_hash: String,
}

/// The parts of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Components {
    /// The models that wrote the scripts.
    pub models: Vec<Component>,
    /// The libraries that verified.
    pub verification_engines: Vec<Component>,
    /// The tools that were called.
    pub mcp_tools: Vec<Component>,
    /// What they ran in; only in the bill of a session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtime: Vec<Component>,
}

/// One part.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Component {
    /// Its name: a model, an importable name such as `qwed_legal.FairnessGuard`, a tool, a program.
    pub name: String,
    /// What part it had.
    #[serde(rename = "type")]
    pub kind: ComponentType,
    /// The Python distribution that brought it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<String>,
    /// Its version, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What part a component had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComponentType {
    /// A model.
    Generator,
    /// A verification engine.
    QwedDeterministic,
    /// A tool.
    ActionExecution,
    /// The interpreter that ran the scripts.
    Interpreter,
    /// The server that ran the tools.
    McpServer,
    /// The client that called them.
    McpClient,
}

impl Component {
    pub(super) fn new(name: &str, kind: ComponentType) -> Self {
        Self { name: name.to_owned(), kind, distribution: None, version: None }
    }

    pub(super) fn with_version(self, version: Option<String>) -> Self {
        Self { version, ..self }
    }
}

impl AiBom {
    /// The bill of these parts, made now.
    pub fn new(components: Components) -> Self {
        let hashed = json!({ "components": components, "compliance": COMPLIANCE });
        let digest = Sha256::digest(canonical_json(&hashed));
        Self {
            timestamp: Utc::now().to_rfc3339_opts(SecondsFormat::Micros, false),
            components,
            compliance: COMPLIANCE,
            manifest_hash: hex::encode(digest),
        }
    }
}
