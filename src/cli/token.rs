//! `qwed-mcp token`: creates, lists, rotates and revokes the tokens for governed tools. It prints a token only once,
//! when it creates the token.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Format;
use super::output::{NotPrinted, document, print};
use super::table::Table;
use crate::config::Settings;
use crate::data_folder::data_folder;
use crate::ledger::{
    Revoked, Role, Rotated, Store, Token, TokenId, TokenRecord, UserName, time_text,
};

/// The maximum validity of a token: ten years.
const SPAN_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make a token and print it; it is never shown again
    Create(Create),
    /// List the tokens, without their texts, which are not stored
    List {
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Make a token, print it, and revoke the token that it replaces; it is never shown again
    ///
    /// The new token has the same user and role. It is valid for as long as the old one was from its start.
    Rotate {
        /// The number of the token, as `list` prints it
        #[arg(value_name = "ID")]
        id: TokenId,
        /// The validity of the new token, instead of the old token's
        #[arg(long, value_name = "SPAN", value_parser = span)]
        expires: Option<Duration>,
    },
    /// Revoke a token, immediately and permanently
    Revoke {
        /// The number of the token, as `list` prints it
        #[arg(value_name = "ID")]
        id: TokenId,
    },
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// The user of the token: 1 to 64 letters, digits and . _ - @
    #[arg(long, value_name = "NAME")]
    user: UserName,
    /// The role, which sets the user's permissions
    #[arg(long, value_parser = role_parser())]
    role: Role,
    /// The validity, such as 12h, 30d or 8w; default: forever
    #[arg(long, value_name = "SPAN", value_parser = span)]
    expires: Option<Duration>,
}

pub(super) fn role_parser() -> impl TypedValueParser<Value = Role> {
    let help = |role| match role {
        Role::Admin => "May do everything",
        Role::User => "May run tools and read their results",
        Role::Viewer => "May read the results of runs",
    };
    let values = Role::ALL.map(|role| PossibleValue::new(role.as_str()).help(help(role)));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Role>())
}

pub(super) fn run(command: &Command, settings: &Settings) -> anyhow::Result<ExitCode> {
    let folder = data_folder(settings.data_dir.as_deref())?;
    let place = settings.store_in(&folder);
    match command {
        Command::Create(options) => create(&place.open()?, options),
        Command::List { format } => list(&place.open_to_read()?, *format),
        Command::Rotate { id, expires } => rotate(&place.open_existing()?, *id, *expires),
        Command::Revoke { id } => revoke(&place.open_existing()?, *id),
    }
}

/// Creates a token. Prints only the token on standard output, so that the admin can pipe it to its destination without
/// seeing it.
fn create(store: &Store, options: &Create) -> anyhow::Result<ExitCode> {
    let (record, token) = store.create_token(&options.user, options.role, options.expires)?;
    hand_over(&record, &token)
}

/// Revokes a token and creates its replacement. Prints only the new token on standard output.
fn rotate(store: &Store, id: TokenId, expires: Option<Duration>) -> anyhow::Result<ExitCode> {
    match store.rotate_token(id, expires)? {
        Rotated::Now(record, token) => hand_over(&record, &token),
        Rotated::Revoked => {
            tracing::error!(
                "token {id} was already revoked; `qwed-mcp token create` makes a new one"
            );
            Ok(ExitCode::FAILURE)
        }
        Rotated::Unknown => {
            tracing::error!("there is no token {id}; see `qwed-mcp token list`");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Prints a token on standard output, and its user, role and validity on standard error.
fn hand_over(record: &TokenRecord, token: &Token) -> anyhow::Result<ExitCode> {
    let TokenRecord { id, user, .. } = record;
    let mut stdout = io::stdout();
    if let Err(error) = writeln!(stdout, "{}", token.reveal()).and_then(|()| stdout.flush()) {
        tracing::error!(
            "token {id} was not printed, so it cannot be used; `qwed-mcp token rotate {id}` replaces it"
        );
        return Err(NotPrinted::new(&format!("token {id}"), error).into());
    }
    let expires = match record.expires {
        Some(expires) => format!("until {}", time_text(expires)),
        None => "without an end".to_owned(),
    };
    let role = record.role.as_str();
    // Ignore the error, because the token is already printed.
    let _ = writeln!(
        io::stderr(),
        "token {id} for {user}, role {role}, {expires}; it is shown this once, so keep it"
    );
    Ok(ExitCode::SUCCESS)
}

fn list(store: &Store, format: Format) -> anyhow::Result<ExitCode> {
    let (tokens, uses) = (store.tokens()?, store.last_uses()?);
    let now = Utc::now();
    let last_use = |token: &TokenRecord| uses.get(&token.id.to_string()).map(String::as_str);
    let text = match format {
        Format::Text => as_table(&tokens, last_use, now),
        Format::Json => {
            let object = |token| as_json(token, last_use(token), now);
            document(json!({ "tokens": tokens.iter().map(object).collect::<Vec<_>>() }))
        }
    };
    print("the tokens", &text)?;
    Ok(ExitCode::SUCCESS)
}

fn revoke(store: &Store, id: TokenId) -> anyhow::Result<ExitCode> {
    let text = match store.revoke(id)? {
        Revoked::Now => format!("token {id} is revoked\n"),
        Revoked::Before => format!("token {id} was revoked before\n"),
        Revoked::Unknown => {
            tracing::error!("there is no token {id}; see `qwed-mcp token list`");
            return Ok(ExitCode::FAILURE);
        }
    };
    print("the changes", &text)?;
    Ok(ExitCode::SUCCESS)
}

fn as_table<'u>(
    tokens: &[TokenRecord],
    last_use: impl Fn(&TokenRecord) -> Option<&'u str>,
    now: DateTime<Utc>,
) -> String {
    let mut table = Table::new([
        ("ID", 4),
        ("STATE", 7),
        ("ROLE", 6),
        ("CREATED", 20),
        ("EXPIRES", 20),
        ("LAST USE", 20),
        ("USER", 0),
    ]);
    for token in tokens {
        table.row([
            &token.id.to_string(),
            token.state(now).as_str(),
            token.role.as_str(),
            &seconds(&time_text(token.created)),
            &token.expires.map_or_else(|| "-".to_owned(), |time| seconds(&time_text(time))),
            &last_use(token).map_or_else(|| "-".to_owned(), seconds),
            token.user.as_str(),
        ]);
    }
    table.to_string()
}

/// Returns a time as text, without fractions of a second.
pub(super) fn seconds(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time.to_owned(),
    }
}

fn as_json(token: &TokenRecord, last_use: Option<&str>, now: DateTime<Utc>) -> Value {
    json!({
        "id": token.id,
        "user": token.user,
        "role": token.role,
        "state": token.state(now),
        "created": time_text(token.created),
        "expires": token.expires.map(time_text),
        "revoked": token.revoked.map(time_text),
        "last_use": last_use,
    })
}

/// Parses a duration: a number, followed by a unit, such as `90s`, `15m`, `12h`, `30d`, `8w`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let expected = "expected a number and one of s, m, h, d, w, for example 30d; at most 3650d";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.strip_prefix(digits) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 60 * 60,
        Some("d") => 24 * 60 * 60,
        Some("w") => 7 * 24 * 60 * 60,
        Some(_) | None => return Err(expected.to_owned()),
    };
    let is_number = digits.chars().all(|c| c.is_ascii_digit());
    let seconds = digits.parse::<u64>().ok().filter(|_| is_number);
    let span = seconds.and_then(|count| count.checked_mul(unit)).map(Duration::from_secs);
    let is_in_bounds = |span: &Duration| !span.is_zero() && *span <= SPAN_MAX;
    span.filter(is_in_bounds).ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_a_number_and_a_unit() {
        for (text, seconds) in [
            ("1s", Some(1)),
            ("15m", Some(900)),
            ("12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("8w", Some(4_838_400)),
            ("3650d", Some(315_360_000)),
            ("3651d", None),
            ("18446744073709551615w", None),
            ("0d", None),
            ("-1d", None),
            ("+1d", None),
            ("1.5d", None),
            ("1 d", None),
            ("1D", None),
            ("1dd", None),
            ("30", None),
            ("d", None),
            ("", None),
        ] {
            assert_eq!(span(text).ok(), seconds.map(Duration::from_secs), "{text:?}");
        }
    }
}
