//! Logs to standard error, because standard output carries the MCP protocol.
//!
//! The log filter is `QWED_MCP_LOG`, in the syntax `LEVEL` or `TARGET=LEVEL,…` (for example `qwed_mcp=info`). The
//! default level is `warn`. Code, output and secrets appear only at `debug` and `trace`.
//!
//! The log of a server contains times and modules, because an admin reads it later. The log of any other command is
//! for the person at the terminal, in lines such as `error: …`.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::plain_text::escape_into;
use crate::terminal::Label;

/// The target of spans that are recorded in traces but not in the log.
pub(crate) const SPANS: &str = "qwed_mcp::spans";

/// Another destination of events and spans, next to the log: a layer of `tracing`, such as the exporter of traces.
pub(crate) struct Further(Box<dyn Layer<Registry> + Send + Sync>);

impl Further {
    pub(crate) fn new(layer: Box<dyn Layer<Registry> + Send + Sync>) -> Self {
        Self(layer)
    }
}

/// The kind of reader for which the log is formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// An admin, for the log of a server.
    Admin,
    /// A program that collects the logs of servers.
    Collector,
    /// A person at the command line.
    Person,
    /// A person at the command line, if the command itself prints the error of a run. The log omits this error.
    Caller,
}

/// The target of the events about the addresses on which a server listens. These events have the level `info`, but are
/// logged whenever warnings are logged, because only the log contains the actual port if the configured port is 0.
pub(crate) const ADDRESSES: &str = "qwed_mcp::http::addresses";

/// The log target that means the whole program in a log filter, including the program's packages.
const PROGRAM: &str = "qwed_mcp";
/// The beginning of the targets of the program and of its packages, such as `qwed_ledger`.
const PACKAGES: &str = "qwed_";

/// The modules that log the error of a run. They are silenced for [`Reader::Caller`].
const RUNS: [&str; 2] = ["qwed_mcp::scripts::run", "qwed_mcp::receipt::writer"];

/// The phrases that refer to the server's log, in errors for clients. The log itself omits these phrases.
const LOOK_AT_LOG: [&str; 2] =
    ["; ask the admin to look at the server's log", ". Ask the admin to look at the server's log"];

/// Starts logging for `reader`, with the filter `wanted`. If the filter does not parse, the default filter applies and
/// a warning is logged.
pub(crate) fn start(wanted: &str, reader: Reader, further: Option<Further>) {
    let parsed = match wanted.trim() {
        "" => Ok(Targets::new()),
        filter => filter.parse::<Targets>(),
    };
    let is_rejected = parsed.is_err();
    let filter = completed(&parsed.unwrap_or_default(), reader);
    let layer = tracing_subscriber::fmt::layer().with_ansi(false);
    let layer = match reader {
        Reader::Admin => layer.with_writer(|| OneLine(io::stderr())).with_filter(filter).boxed(),
        Reader::Collector => {
            let layer = tracing_subscriber::fmt::layer().json().flatten_event(true);
            layer.with_writer(std::io::stderr).with_filter(filter).boxed()
        }
        Reader::Person | Reader::Caller => {
            let layer = layer.event_format(ForPersons).with_writer(anstream::stderr);
            layer.with_filter(filter).boxed()
        }
    };
    let further = further.map(|Further(layer)| layer);
    if tracing_subscriber::registry().with(further).with(layer).try_init().is_err() {
        // A program that embeds this crate has already set its own subscriber, which stays in use.
        return;
    }
    if is_rejected {
        tracing::warn!(
            "QWED_MCP_LOG does not parse; expected for example: qwed_mcp=info,rmcp=warn"
        );
    }
}

/// Adds the default levels to the log filter of the admin.
fn completed(wanted: &Targets, reader: Reader) -> Targets {
    let level_of =
        |name: &str| wanted.iter().find_map(|(target, level)| (target == name).then_some(level));
    let mut filter = wanted.clone();
    if filter.default_level().is_none() {
        filter = filter.with_default(LevelFilter::WARN);
    }
    if let Some(level) = level_of(PROGRAM) {
        filter = filter.with_target(PACKAGES, level);
    }
    if !wanted.iter().any(|(target, _)| target.starts_with("rmcp")) {
        // Log only errors of rmcp. It logs a warning for every error reply, and an `info` event for every
        // notification.
        filter = filter.with_target("rmcp", LevelFilter::ERROR);
    }
    if reader == Reader::Caller && *wanted == Targets::new() {
        filter.extend(RUNS.map(|module| (module.to_owned(), LevelFilter::OFF)));
    }
    if filter.would_enable(ADDRESSES, &Level::WARN) {
        filter = filter.with_target(ADDRESSES, LevelFilter::INFO);
    }
    filter.with_target(SPANS, LevelFilter::OFF)
}

/// A writer of log lines. Escapes control characters and text direction marks, because clients choose the text of some
/// fields, such as the name of a tool and the id of a request. So a field can neither start a new line nor control a
/// terminal.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let mut line = String::with_capacity(text.len());
        escape_into(&mut line, text.strip_suffix('\n').unwrap_or(&text));
        line.push('\n');
        self.0.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The format of log events for a person at the command line.
struct ForPersons;

impl<S, N> FormatEvent<S, N> for ForPersons
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut sentence = Sentence::default();
        event.record(&mut sentence);
        let label = match *event.metadata().level() {
            Level::ERROR => Label::Error,
            Level::WARN => Label::Warning,
            Level::INFO => Label::Log("info"),
            Level::DEBUG => Label::Log("debug"),
            Level::TRACE => Label::Log("trace"),
        };
        writer.write_str(&label.line(&sentence.text()))
    }
}

/// A log event as a sentence: the message, then the error after a colon, then the other fields in parentheses.
#[derive(Default)]
struct Sentence {
    message: String,
    error: String,
    others: Vec<String>,
}

impl Sentence {
    fn text(self) -> String {
        let Self { message, error, others } = self;
        if others.is_empty() {
            return message + &error;
        }
        format!("{message}{error} ({})", others.join(", "))
    }
}

impl Visit for Sentence {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = format!(": {value:?}"),
            name => self.others.push(format!("{name}={value:?}")),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// Formats an error with all its causes on one line. Leaves out the advice to look at the server's log.
pub(crate) struct Causes<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |error: &dyn Error| {
            LOOK_AT_LOG.iter().fold(error.to_string(), |text, advice| text.replace(advice, ""))
        };
        let mut text = shown(self.0);
        let mut next = self.0.source();
        while let Some(cause) = next {
            let shown = shown(cause);
            // Some errors already end with the text of their cause, so do not repeat this text.
            if !text.ends_with(&shown) {
                text.push_str(": ");
                text.push_str(&shown);
            }
            next = cause.source();
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_field_forges_no_line_and_commands_no_terminal() {
        let written = |event: &str| {
            let mut line = OneLine(Vec::new());
            line.write_all(event.as_bytes()).unwrap();
            String::from_utf8(line.0).unwrap()
        };
        assert_eq!(written("INFO tool=Ζ\tplain\n"), "INFO tool=Ζ\\tplain\n");
        let forged = "INFO tool=a\nERROR forged \u{1b}[31mred\r\u{202e}\u{85}\n";
        let shown = "INFO tool=a\\nERROR forged \\u{1b}[31mred\\r\\u{202e}\\u{85}\n";
        assert_eq!(written(forged), shown);
    }

    #[test]
    fn a_filter_for_the_program_is_also_for_its_packages() {
        let filter = |wanted: &str| completed(&wanted.parse().unwrap(), Reader::Admin);
        let program = filter("qwed_mcp=info,qwed_sandbox=error");
        for (target, level, is_logged) in [
            ("qwed_mcp::server", Level::INFO, true),
            ("qwed_ledger::postgres", Level::INFO, true),
            ("qwed_ledger::postgres", Level::DEBUG, false),
            ("qwed_sandbox::linux", Level::WARN, false),
            ("rmcp::service", Level::WARN, false),
            ("hyper", Level::INFO, false),
            ("hyper", Level::WARN, true),
        ] {
            assert_eq!(program.would_enable(target, &level), is_logged, "{target} {level}");
        }
        let module = filter("qwed_mcp::server=debug");
        assert!(!module.would_enable("qwed_ledger::store", &Level::INFO));
        assert!(filter("rmcp::service=info").would_enable("rmcp::service", &Level::INFO));
    }

    #[test]
    fn a_person_reads_a_sentence() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&lines);
        let layer = tracing_subscriber::fmt::layer().event_format(ForPersons);
        let layer = layer.with_writer(move || Lines(Arc::clone(&writer)));
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            let error = Causes(&io::Error::from_raw_os_error(28)).to_string();
            tracing::error!(id = 7, error = %error, "no receipt");
            tracing::warn!(error, "old files stay");
            tracing::error!("plain");
        });
        let written = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
        let expected = "error: no receipt: No space left on device (id=7)\n\
                        warning: old files stay: No space left on device\nerror: plain\n";
        assert_eq!(anstream::adapter::strip_str(&written).to_string(), expected);
    }

    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_error_is_shown_with_all_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("{text}")]
        struct Failure {
            text: &'static str,
            source: io::Error,
        }
        let full = || io::Error::from_raw_os_error(28);
        let failure = |text| Failure { text, source: full() };
        let expected = format!("failed to write: {}", full());
        assert_eq!(Causes(&failure("failed to write")).to_string(), expected);
        let nested = io::Error::other(failure("failed to write"));
        let outer = Failure { text: "no folder", source: nested };
        assert_eq!(Causes(&outer).to_string(), format!("no folder: {expected}"));
        assert_eq!(Causes(&full()).to_string(), full().to_string());
        let outer =
            Failure { text: "no room; ask the admin to look at the server's log", source: full() };
        assert_eq!(Causes(&outer).to_string(), format!("no room: {}", full()));
    }
}
