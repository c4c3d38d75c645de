//! Converts the arguments of a call from JSON to types, so that other modules do not parse the JSON again.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Arguments, ErrorCode, Inputs, JobId, SourceCode};

/// The error for arguments that do not parse, with the reason for the client.
#[derive(Debug)]
pub(super) struct Invalid {
    pub(super) code: ErrorCode,
    pub(super) message: Cow<'static, str>,
    pub(super) arguments: Arguments,
}

/// The parsed arguments of `execute_python_code`.
pub(super) struct Execution {
    pub(super) source: SourceCode,
    /// The argument `inputs`. Empty if the argument is missing.
    pub(super) inputs: Inputs,
    /// Whether the script runs in the background.
    pub(super) background: bool,
}

/// Parses the arguments of `execute_python_code`.
pub(super) fn execution(mut arguments: Arguments) -> Result<Execution, Invalid> {
    if !is_text(arguments.get("code")) {
        let message = "Missing required non-empty 'code' argument.".into();
        return Err(Invalid { code: ErrorCode::CodeMissing, message, arguments });
    }
    let background = match arguments.get("background") {
        None => false,
        Some(Value::Bool(background)) => *background,
        Some(_) => {
            let message = "'background' must be a boolean when provided.".into();
            return Err(Invalid { code: ErrorCode::BackgroundNotBoolean, message, arguments });
        }
    };
    let inputs = arguments.remove("inputs").unwrap_or_default();
    let inputs = match Inputs::from_json(inputs) {
        Ok(inputs) => inputs,
        Err(error) => {
            let message = error.to_string().into();
            return Err(Invalid { code: ErrorCode::InputsInvalid, message, arguments });
        }
    };
    let source = match arguments.get_mut("code").map(Value::take) {
        Some(Value::String(code)) => SourceCode::from(code),
        Some(_) | None => SourceCode::from(String::new()),
    };
    Ok(Execution { source, inputs, background })
}

/// Returns the arguments of `execute_python_code` in the form in which the decision contains them: with the digests of
/// the inputs instead of their contents.
pub(super) fn normalized_execution(
    code: &SourceCode,
    inputs: &Inputs,
    background: bool,
) -> Arguments {
    let mut arguments = Arguments::from_iter([
        ("code".to_owned(), json!(code.as_str())),
        ("background".to_owned(), json!(background)),
    ]);
    if !inputs.is_empty() {
        arguments.insert("inputs".to_owned(), Value::Object(inputs.description()));
    }
    arguments
}

/// Parses the arguments of `verification_status`: the id of a job.
pub(super) fn job_id(arguments: Arguments) -> Result<JobId, Invalid> {
    let text = arguments.get("job_id").and_then(Value::as_str).map_or("", str::trim);
    let (code, message) = match JobId::parse(text) {
        Some(job_id) => return Ok(job_id),
        None if text.is_empty() => {
            (ErrorCode::JobIdMissing, "Missing required non-empty 'job_id' argument.")
        }
        None => (ErrorCode::JobIdInvalid, "Invalid job_id format. Expected a canonical UUID."),
    };
    Err(Invalid { code, message: message.into(), arguments })
}

/// Returns the arguments of `verification_status` in the form in which the decision contains them.
pub(super) fn normalized_job_id(job_id: JobId) -> Arguments {
    Arguments::from_iter([("job_id".to_owned(), json!(job_id.to_string()))])
}

fn is_text(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
}
