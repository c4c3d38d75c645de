//! `qwed-mcp receipt`: creates the key that signs receipts, and prints and verifies receipts. This module also creates
//! the writer of receipts for other commands.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Format;
use super::output::{document, print};
use crate::config::Settings;
use crate::data_folder::data_folder;
use crate::executor::without_end_space;
use crate::receipt::{
    Deterministic, KEY_FOLDER, KeyStore, PublicKeys, RECEIPT_BYTES_MAX, ReceiptError, Receipts,
    SigningKey, Verified, compare_outputs, compare_subject, content_of, outputs_beside,
    read_bounded, verify,
};

/// The name of the folder for the receipts of governed runs. It is in the data folder.
const RECEIPT_FOLDER: &str = "receipts";

/// The maximum size of a file that is compared with a receipt, in bytes.
const CONTENT_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make the key that signs receipts
    ///
    /// The key is in the folder `keys` of the data folder. The exit code is 0, or 1 if no key was made.
    Keygen {
        /// Replace the existing key with a new one
        #[arg(long)]
        rotate: bool,
        /// The folder for the keys; default: `keys` in the data folder
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Print the content of a receipt, without verifying its signature
    ///
    /// The exit code is 0, or 2 if the file is not a receipt or could not be read.
    Show {
        /// The receipt
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Verify that receipts are unchanged since the holder of a key signed them
    ///
    /// The exit code is 0 if all are good, 1 if one is not, 2 if a receipt or the keys could not be read.
    Verify(Verify),
}

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The receipts
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The public keys: a folder that `keygen` made, or one public key; default: the keys in the data folder
    #[arg(long, value_name = "DIR")]
    key: Option<PathBuf>,
    /// Compare a file with its digest in a receipt, such as script.py=check.py
    #[arg(long, value_name = "NAME=FILE", value_parser = subject)]
    subject: Vec<(String, PathBuf)>,
    /// The form of the output
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

fn subject(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("expected NAME=FILE, such as stdout=out.txt")?;
    Ok((name.to_owned(), file.into()))
}

fn key_store(settings: &Settings) -> anyhow::Result<KeyStore> {
    Ok(KeyStore::new(data_folder(settings.data_dir.as_deref())?.join(KEY_FOLDER)))
}

/// Reads the public keys that verify receipts, from the path `named`, or from the data folder if `named` is `None`.
pub(super) fn public_keys(named: Option<&Path>, settings: &Settings) -> anyhow::Result<PublicKeys> {
    Ok(match named {
        Some(path) => PublicKeys::read(path)?,
        None => PublicKeys::read(&data_folder(settings.data_dir.as_deref())?.join(KEY_FOLDER))?,
    })
}

/// Returns the writer of receipts. Scripts leave receipts if the admin has configured a folder for receipts. Governed
/// runs, which need a policy, always leave receipts. Returns `None` if neither such a folder nor a policy is
/// configured.
pub(super) fn writer(settings: &Settings) -> anyhow::Result<Option<Arc<Receipts>>> {
    if settings.receipts.is_none() && settings.policy.is_none() {
        return Ok(None);
    }
    let named = settings.receipts.as_ref();
    let (key, key_file) = if let Some(file) = &settings.signing_key {
        (SigningKey::load(file), file.clone())
    } else {
        let store = key_store(settings)?;
        let file = store.signing_key();
        // If the admin names a folder for the receipts of scripts, the admin must also create the key. If only governed
        // runs leave receipts, create a missing key.
        let key = match named {
            Some(_) => SigningKey::load(&file),
            None => store.signing_key_or_new(),
        };
        (key, file)
    };
    let key = key.context(match named {
        Some(_) => "receipts cannot be signed; `qwed-mcp receipt keygen` makes a key",
        None => "receipts of governed runs cannot be signed",
    })?;
    let folder = match named {
        Some(folder) => folder.clone(),
        None => data_folder(settings.data_dir.as_deref())?.join(RECEIPT_FOLDER),
    };
    let receipts = Receipts::new(key, &key_file, &folder, settings.receipts_sync, named.is_some());
    let receipts =
        receipts.with_context(|| format!("receipts cannot be stored in {}", folder.display()))?;
    Ok(Some(Arc::new(receipts.with_outputs(settings.receipts_outputs))))
}

/// Returns the writer of receipts if scripts leave receipts, and `None` otherwise.
pub(super) fn writer_of_scripts(settings: &Settings) -> anyhow::Result<Option<Arc<Receipts>>> {
    if settings.receipts.is_some() { writer(settings) } else { Ok(None) }
}

pub(super) fn run(command: &Command, settings: &Settings) -> anyhow::Result<ExitCode> {
    match command {
        Command::Keygen { rotate, folder, format } => {
            let store = match folder {
                Some(folder) => KeyStore::new(folder.clone()),
                None => key_store(settings)?,
            };
            keygen(&store, *rotate, *format)
        }
        Command::Show { file, format } => show(file, *format),
        Command::Verify(options) => verify_all(options, settings),
    }
}

fn keygen(store: &KeyStore, rotate: bool, format: Format) -> anyhow::Result<ExitCode> {
    let key = store.generate(rotate)?;
    let (private, public) = (store.signing_key(), store.public_key());
    let text = match format {
        Format::Text => format!(
            "key {}\n  signs receipts: {}\n  verifies them: {}\n",
            key.id(),
            private.display(),
            public.display()
        ),
        Format::Json => document(json!({
            "keyid": key.id(),
            "signing_key": private.display().to_string(),
            "public_key": public.display().to_string(),
        })),
    };
    print("the key", &text)?;
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    read_bounded(file, RECEIPT_BYTES_MAX)
}

fn show(file: &Path, format: Format) -> anyhow::Result<ExitCode> {
    let unreadable = |error: String| {
        tracing::error!("{}: {error}", file.display());
        Ok(ExitCode::from(super::USAGE))
    };
    let bytes = match read(file) {
        Ok(bytes) => bytes,
        Err(error) => return unreadable(error.to_string()),
    };
    let receipt = match content_of(&bytes) {
        Ok(receipt) => receipt,
        Err(error) => return unreadable(error.to_string()),
    };
    let text = match format {
        Format::Text => as_text(&receipt)?,
        Format::Json => document(json!({ "keyid": receipt.keyid, "statement": receipt.statement })),
    };
    print("the receipt", &text)?;
    Ok(ExitCode::SUCCESS)
}

fn as_text(receipt: &Verified) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<13}{value}");
    };
    row("signed by", &format!("{} (not verified)", receipt.keyid));
    if let Some(predicate) = receipt.predicate()? {
        row("made", &predicate.created_on.to_rfc3339());
        row("tool", &predicate.tool);
        let decision = &predicate.decision;
        let code = decision.error_code.as_deref().unwrap_or_default();
        row("decision", format!("{} {code}", decision.status).trim_end());
        let caller = &predicate.caller;
        for (name, value) in [
            ("user", &caller.user),
            ("client", &caller.client),
            ("model", &caller.model),
            ("not run", &predicate.not_run),
        ] {
            if let Some(value) = value {
                row(name, value);
            }
        }
        if let Some(run) = &predicate.run {
            let status = run.status.as_deref().map(|it| format!(", {it}")).unwrap_or_default();
            let end = format!("{}, exit code {}{status}", run.ending, run.exit_code);
            row("end", &format!("{end}, {} ms", run.duration_ms));
        }
        if let Some(sandbox) = &predicate.sandbox {
            row("sandbox", sandbox.tier.as_deref().unwrap_or("none: it never started"));
        }
        if let Some(environment) = &predicate.environment {
            let python = &environment.interpreter;
            row("interpreter", &format!("{} {}", python.implementation, python.version));
            let (count, arch) = (environment.packages.len(), &environment.arch);
            row("packages", &format!("{count}, on {arch}"));
        }
        if let Some(Deterministic { fixed_addresses, clock }) = predicate.deterministic {
            let addresses = if fixed_addresses { ", addresses the same" } else { "" };
            let clock = clock.map(|at| format!(", clock from {}", at.to_rfc3339()));
            let clock = clock.unwrap_or_default();
            row("deterministic", &format!(" seeds of the script{addresses}{clock}"));
        }
        if let Some(words) = &predicate.may_differ_by {
            let words = words.join(", ");
            row(
                "may differ by",
                &format!(" {}", if words.is_empty() { "nothing known" } else { &words }),
            );
        }
        if let Some(audit) = &predicate.audit {
            row("audit row", &format!("{} {}", audit.seq, audit.hash));
        }
    } else {
        row("says", &format!("{:#}", receipt.statement.predicate));
    }
    for subject in &receipt.statement.subject {
        row("of", &format!("{} {}", subject.digest.sha256, subject.name));
    }
    Ok(text)
}

/// The error for a receipt that fails its verification, or for a file that cannot be read.
enum Bad {
    Receipt(ReceiptError),
    Unreadable(String),
}

fn verify_all(options: &Verify, settings: &Settings) -> anyhow::Result<ExitCode> {
    let keys = match public_keys(options.key.as_deref(), settings) {
        Ok(keys) => keys,
        Err(error) => {
            for file in &options.files {
                if let Err(error) = read(file) {
                    tracing::error!("{}: {error}", file.display());
                }
            }
            tracing::error!("{error:#}");
            return Ok(ExitCode::from(super::USAGE));
        }
    };
    let (mut code, mut text, mut receipts) = (0, String::new(), Vec::new());
    for file in &options.files {
        let found = verify_one(file, &keys, &options.subject);
        let (line, object) = match &found {
            Ok(keyid) => (format!("good, signed by {keyid}"), json!({ "keyid": keyid })),
            Err(Bad::Receipt(error)) => {
                code = code.max(1);
                (format!("NOT GOOD: {error}"), json!({ "error": error.to_string() }))
            }
            Err(Bad::Unreadable(error)) => {
                code = super::USAGE;
                (format!("cannot be read: {error}"), json!({ "error": error }))
            }
        };
        let _ = writeln!(text, "{}: {line}", file.display());
        let mut object = object;
        if let Some(fields) = object.as_object_mut() {
            fields.insert("file".to_owned(), json!(file.display().to_string()));
            fields.insert("good".to_owned(), Value::Bool(found.is_ok()));
        }
        receipts.push(object);
    }
    let text = match options.format {
        Format::Text => text,
        Format::Json => document(json!({ "receipts": receipts })),
    };
    print("the findings", &text)?;
    Ok(ExitCode::from(code))
}

fn verify_one(
    file: &Path,
    keys: &PublicKeys,
    subjects: &[(String, PathBuf)],
) -> Result<String, Bad> {
    let bytes = read(file).map_err(|error| Bad::Unreadable(error.to_string()))?;
    let receipt = verify(&bytes, keys).map_err(Bad::Receipt)?;
    if let Some(folder) = outputs_beside(file) {
        compare_outputs(&receipt.statement, &folder).map_err(Bad::Receipt)?;
    }
    for (name, file) in subjects {
        let content = read_bounded(file, CONTENT_BYTES_MAX)
            .map_err(|error| Bad::Unreadable(format!("{}: {error}", file.display())))?;
        let compare = |content: &[u8]| compare_subject(&receipt.statement, name, content);
        // A receipt contains the digest of the output that a client receives, without white space at the end. A file
        // with the output may still end in white space, so compare the trimmed content first.
        let is_stream = ["stdout", "stderr"].contains(&name.as_str());
        let trimmed = is_stream.then(|| compare(without_end_space(&content)));
        trimmed.filter(Result::is_ok).unwrap_or_else(|| compare(&content)).map_err(Bad::Receipt)?;
    }
    Ok(receipt.keyid)
}
