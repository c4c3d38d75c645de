//! Defines the bill of materials, with the documented field names and values. It never looks up a component.

use chrono::{SecondsFormat, Utc};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::canonical_json::canonical_json;

/// The compliance profile in every manifest.
pub const COMPLIANCE: &str = "QWED_AI_SPM_v1";

/// The reason why a bill of materials cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AiBomError {
    /// The name of the model is empty.
    #[error("llm_model must be a non-empty string")]
    EmptyModel,
}

/// An AI bill of materials. Its JSON form has the documented fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AiBom {
    /// The time at which the bill was created, in UTC, as ISO 8601 with microseconds.
    pub timestamp: String,
    /// The parts of the pipeline that produced a result.
    pub components: Components,
    /// The compliance profile. It is always [`COMPLIANCE`].
    pub compliance: &'static str,
    /// Whether versions are missing, because a look-up of packages has not ended. True only in a bill that a `Session`
    /// creates.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// The SHA-256 hash of all fields except `timestamp` and this field, in lower-case hexadecimal digits. It is
    /// computed over JSON with sorted keys, without spaces, and with non-ASCII characters escaped. The same components
    /// in the same order always have the same hash.
    pub manifest_hash: String,
}

/// The parts of the pipeline that produced a result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Components {
    /// The models that wrote the scripts.
    pub models: Vec<Component>,
    /// The verification engines.
    pub verification_engines: Vec<Component>,
    /// The tools that were called.
    pub mcp_tools: Vec<Component>,
    /// The interpreter, the server and the clients. Empty in a bill that [`AiBom::from_names`] creates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtime: Vec<Component>,
}

/// One part of the pipeline that produced a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Component {
    /// The name of the component. For an engine, it is an importable name such as `qwed_legal.FairnessGuard`. Otherwise
    /// it is the name of a model, tool or program.
    pub name: String,
    /// The role of the component in the pipeline.
    #[serde(rename = "type")]
    pub kind: ComponentType,
    /// The Python distribution that contains the component, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<String>,
    /// The version of the component, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The role of a component in the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ComponentType {
    /// A language model.
    Generator,
    /// A verification engine: a package of QWED, or a library such as `sympy`.
    QwedDeterministic,
    /// An MCP tool.
    ActionExecution,
    /// The Python interpreter that ran the scripts.
    Interpreter,
    /// The MCP server that ran the tools.
    McpServer,
    /// The MCP client that called the tools.
    McpClient,
}

impl Component {
    /// Creates a component that has only a name and a role. Its distribution and version are unknown.
    pub fn new(name: impl Into<String>, kind: ComponentType) -> Self {
        Self { name: name.into(), kind, distribution: None, version: None }
    }

    pub(super) fn with_version(self, version: Option<String>) -> Self {
        Self { version, ..self }
    }
}

impl AiBom {
    /// Creates the bill of a model, verification engines and MCP tools from their names. Keeps their order.
    ///
    /// # Errors
    ///
    /// If the name of the model is empty.
    ///
    /// ```
    /// use qwed_manifests::aibom::AiBom;
    ///
    /// let engines = ["qwed_tax.TaxVerifier", "qwed_legal.FairnessGuard"];
    /// let bom = AiBom::from_names("gpt-4o", engines, ["execute_python_code"]).unwrap();
    /// assert_eq!(bom.compliance, "QWED_AI_SPM_v1");
    /// assert_eq!(
    ///     bom.manifest_hash,
    ///     "98daf7bf6397564badbc301b8bba40335872f3a7b13a691186da5d8f33af1c9e"
    /// );
    /// ```
    pub fn from_names(
        model: impl Into<String>,
        engines: impl IntoIterator<Item = impl Into<String>>,
        tools: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, AiBomError> {
        let model = Component::new(model, ComponentType::Generator);
        if model.name.is_empty() {
            return Err(AiBomError::EmptyModel);
        }
        let engine = |name| Component::new(name, ComponentType::QwedDeterministic);
        let tool = |name| Component::new(name, ComponentType::ActionExecution);
        Ok(Self::new(Components {
            models: vec![model],
            verification_engines: engines.into_iter().map(engine).collect(),
            mcp_tools: tools.into_iter().map(tool).collect(),
            runtime: Vec::new(),
        }))
    }

    /// Creates the bill of these components, with the current time.
    pub fn new(components: Components) -> Self {
        Self::build(components, false)
    }

    /// Creates the bill of these components, with the current time. Marks the bill as incomplete, because versions
    /// are missing.
    pub(super) fn incomplete(components: Components) -> Self {
        Self::build(components, true)
    }

    fn build(components: Components, incomplete: bool) -> Self {
        let mut hashed = json!({ "components": components, "compliance": COMPLIANCE });
        if let Some(fields) = hashed.as_object_mut().filter(|_| incomplete) {
            fields.insert("incomplete".to_owned(), true.into());
        }
        let digest = Sha256::digest(canonical_json(&hashed));
        Self {
            incomplete,
            timestamp: Utc::now().to_rfc3339_opts(SecondsFormat::Micros, false),
            components,
            compliance: COMPLIANCE,
            manifest_hash: hex::encode(digest),
        }
    }
}

/// The documented name of the type that creates bills of materials. Equivalent to [`AiBom::from_names`].
#[derive(Debug, Clone, Copy, Default)]
pub struct AiBomGenerator;

impl AiBomGenerator {
    /// Creates a bill of materials. Equivalent to [`AiBom::from_names`].
    ///
    /// # Errors
    ///
    /// If the name of the model is empty.
    pub fn generate_manifest(
        llm_model: impl Into<String>,
        qwed_engines_used: impl IntoIterator<Item = impl Into<String>>,
        mcp_tools_used: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<AiBom, AiBomError> {
        AiBom::from_names(llm_model, qwed_engines_used, mcp_tools_used)
    }
}
