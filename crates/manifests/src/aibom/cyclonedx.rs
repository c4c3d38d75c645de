//! Converts the bill of materials to a `CycloneDX` 1.6 document, for programs that read software inventories.
//!
//! Source: ECMA-424, `CycloneDX` bill of materials specification, 1st edition (version 1.6).

use std::collections::HashSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{AiBom, Component, ComponentType, SERVER};

const SCHEMA: &str = "http://cyclonedx.org/schema/bom-1.6.schema.json";
const SPEC_VERSION: &str = "1.6";

/// The characters that are percent-encoded in a package URL.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl AiBom {
    /// Returns the bill of materials as a `CycloneDX` 1.6 document.
    ///
    /// In the document, models are components of the type `machine-learning-model`. Verification engines are
    /// libraries, with a package URL if the version is known. Tools are services. The hash of the manifest is a
    /// property. Duplicate components are left out. Each document has a new serial number.
    pub fn to_cyclonedx(&self) -> Value {
        let parts = &self.components;
        let mut seen = HashSet::new();
        let mut unique = |component: &&Component| seen.insert((*component).clone());
        let components: Vec<Value> = parts
            .models
            .iter()
            .chain(&parts.verification_engines)
            .chain(&parts.runtime)
            .filter(&mut unique)
            .map(as_component)
            .collect();
        let services: Vec<Value> =
            parts.mcp_tools.iter().filter(&mut unique).map(as_service).collect();
        let server = Component::new(SERVER, ComponentType::McpServer)
            .with_version(Some(env!("CARGO_PKG_VERSION").to_owned()));
        let mut tool = as_component(&server);
        if let Some(fields) = tool.as_object_mut() {
            // Remove the server's `bom-ref`, because it must be unique within a document, and the components may also
            // contain the server.
            fields.remove("bom-ref");
        }
        let property = |name: &str, value: &str| json!({ "name": name, "value": value });
        let mut properties = vec![
            property("qwed:compliance", self.compliance),
            property("qwed:manifest_hash", &self.manifest_hash),
        ];
        if self.incomplete {
            properties.push(property("qwed:incomplete", "true"));
        }
        json!({
            "$schema": SCHEMA,
            "bomFormat": "CycloneDX",
            "specVersion": SPEC_VERSION,
            "serialNumber": Uuid::new_v4().urn().to_string(),
            "version": 1,
            "metadata": {
                "timestamp": self.timestamp,
                "tools": { "components": [tool] },
                "properties": properties,
            },
            "components": components,
            "services": services,
        })
    }
}

fn as_component(component: &Component) -> Value {
    let kind = match component.kind {
        ComponentType::Generator => "machine-learning-model",
        ComponentType::QwedDeterministic => "library",
        ComponentType::Interpreter => "platform",
        ComponentType::McpServer | ComponentType::McpClient | ComponentType::ActionExecution => {
            "application"
        }
    };
    let mut value = json!({
        "type": kind,
        "bom-ref": reference(component),
        "name": component.name,
        "properties": [part(component)],
    });
    let Some(fields) = value.as_object_mut() else { return value };
    if let Some(version) = &component.version {
        fields.insert("version".to_owned(), json!(version));
    }
    if let (Some(distribution), Some(version)) = (&component.distribution, &component.version) {
        fields.insert("purl".to_owned(), json!(package_url(distribution, version)));
    }
    if component.kind == ComponentType::Generator {
        // The model card contains only the task, because the bill contains no other facts about the model.
        let card = json!({ "modelParameters": { "task": "text-generation" } });
        fields.insert("modelCard".to_owned(), card);
    }
    value
}

fn as_service(tool: &Component) -> Value {
    json!({ "bom-ref": reference(tool), "name": tool.name, "properties": [part(tool)] })
}

fn part(component: &Component) -> Value {
    json!({ "name": "qwed:type", "value": json!(component.kind) })
}

/// Returns the `bom-ref` of a component, which identifies it within the document.
fn reference(component: &Component) -> String {
    let kind = json!(component.kind);
    let kind = kind.as_str().unwrap_or_default();
    match &component.version {
        Some(version) => format!("{kind}:{}@{version}", component.name),
        None => format!("{kind}:{}", component.name),
    }
}

/// Returns the package URL (type `pypi`) of a Python distribution. In the URL, the name is in lower case and has `-`
/// instead of `_`.
fn package_url(distribution: &str, version: &str) -> String {
    let name = distribution.to_lowercase().replace('_', "-");
    let escaped = |text| utf8_percent_encode(text, RESERVED).to_string();
    format!("pkg:pypi/{}@{}", escaped(&name), escaped(version))
}
