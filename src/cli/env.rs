//! `qwed-mcp env`: makes, lists and removes environments for scripts.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::Format;
use super::output::{document, print};
use super::table::Table;
use super::token::seconds;
use crate::config::Settings;
use crate::environments::{
    Builder, ChangeError, Environment, Environments, Lock, Order, Progress, PythonWanted, Removal,
    Requirement, Turn,
};
use crate::executor::{OneShotExecutor, PackagesError};
use crate::ledger::time_text;
use crate::logging::Causes;
use crate::terminal::visible;

/// The maximum length of a progress line on a terminal, in characters.
const LINE_CHARS_MAX: usize = 78;

/// If standard error is not a terminal, a progress line is printed at least at this interval, even without progress.
const SILENCE_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make an environment with the QWED packages, in locked versions
    ///
    /// Servers use it from their next start. The previous environment stays until the new one is complete.
    Create(Create),
    /// List the environments, newest first; servers use the newest
    List {
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Remove an environment, or all of them
    Remove {
        /// The name, as `list` prints it; without a name, all are removed
        name: Option<String>,
    },
    /// Print the folder of the newest environment, which servers use
    Path,
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// The Python for the environment: a version such as 3.13, or the absolute path of an interpreter
    #[arg(long, value_name = "VERSION")]
    python: Option<PythonWanted>,
    /// A package to add, by its name on PyPI, such as polars or 'polars>=1'; may be repeated
    #[arg(long, value_name = "PACKAGE")]
    with: Vec<Requirement>,
    /// A lock file with versions and hashes, to install instead of the QWED packages
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Download nothing: use the cache of uv, and the places in `UV_FIND_LINKS` or `PIP_FIND_LINKS`
    #[arg(long)]
    offline: bool,
}

pub(super) fn run(command: Command, settings: &Settings) -> anyhow::Result<ExitCode> {
    let environments = Environments::of(settings)?;
    match command {
        Command::Create(options) => create(options, &environments, settings),
        Command::List { format } => list(&environments, format),
        Command::Remove { name } => remove(name.as_deref(), &environments),
        Command::Path => path(&environments),
    }
}

fn create(
    options: Create,
    environments: &Environments,
    settings: &Settings,
) -> anyhow::Result<ExitCode> {
    let lock = match &options.lock {
        Some(file) => Lock::read(file)
            .with_context(|| format!("{} is not a lock file that can be used", file.display()))?,
        None => Lock::sdk().context("the built-in lock file cannot be used")?,
    };
    let Create { python, with, offline, .. } = options;
    let python = python.unwrap_or(PythonWanted::Any);
    let constraints = lock.clone();
    let order = Order { lock, constraints, with, python, is_offline: offline };
    super::orphans::adopt().context("failed to become a child subreaper")?;
    let turn = environments.turn()?;
    clean_up(&turn);
    let before = environments.list()?;
    let mut display = Display::new();
    let made = super::runtime()?.block_on(async {
        tokio::select! {
            made = build(&turn, &order, settings, &mut display) => made.map(Some),
            () = interrupted() => Ok(None),
        }
    });
    display.clear();
    let Some(environment) = made.context(UNCHANGED)? else {
        tracing::error!("interrupted: nothing was changed");
        return Ok(ExitCode::from(super::INTERRUPTED));
    };
    Display::say(&format!("Made {} in {}", environment.name, seconds_since(display.begun)));
    for name in clean_up(&turn) {
        Display::say(&format!(
            "{name} is in use by a server that runs, and stays until it has ended"
        ));
    }
    for left_out in left_out(before.first(), &environment) {
        Display::say(&format!(
            "{left_out} was in the environment before; --with {left_out} adds it"
        ));
    }
    Display::say(hint(settings));
    print("the environment", &format!("{}\n", environment.path.display()))?;
    Ok(ExitCode::SUCCESS)
}

const UNCHANGED: &str = "the environment was not created, and nothing was changed";

/// Builds an environment and imports its packages in the sandbox. Servers can use the environment only after this
/// import.
async fn build(
    turn: &Turn<'_>,
    order: &Order,
    settings: &Settings,
    display: &mut Display,
) -> anyhow::Result<Environment> {
    let draft = Builder::new(turn).build(order, &mut |progress| display.show(progress)).await?;
    display.show(Progress::Step("Importing the packages in the sandbox"));
    let settings = Settings { python: Some(draft.python().into()), ..settings.clone() };
    let untrusted = super::untrusted(super::policy(&settings).as_ref());
    let executor = OneShotExecutor::new(&settings, untrusted);
    let python = match executor.try_packages(|distribution| draft.has(distribution)).await {
        Ok(python) => python,
        Err(PackagesError::NotTried { version, reason }) => {
            let error = PackagesError::NotTried { version: version.clone(), reason };
            tracing::warn!("{error}");
            version
        }
        Err(error @ (PackagesError::Interpreter(_) | PackagesError::Import(_))) => {
            return Err(error.into());
        }
    };
    Ok(draft.complete(python)?)
}

/// Waits for SIGINT, SIGTERM or SIGHUP.
async fn interrupted() {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let signals = kinds.map(|kind| {
        Box::pin(async move {
            match signal(kind) {
                Ok(mut signal) => drop(signal.recv().await),
                // If no handler can be installed, the signal has its default effect: it ends this process. So wait only
                // for the other signals.
                Err(_) => std::future::pending().await,
            }
        })
    });
    futures_util::future::select_all(signals).await;
}

/// Returns the packages that the user added to the previous environment and that are missing in the new one.
fn left_out(before: Option<&Environment>, now: &Environment) -> Vec<String> {
    let asked_before = before.map(|before| before.marker.with.clone()).unwrap_or_default();
    let is_there = |text: &String| {
        let requirement: Option<Requirement> = text.parse().ok();
        requirement.is_none_or(|it| now.marker.packages.contains_key(it.name()))
    };
    asked_before.into_iter().filter(|text| !is_there(text)).collect()
}

/// Returns a hint about which servers use the new environment.
fn hint(settings: &Settings) -> &'static str {
    if settings.python.is_some() {
        "Servers use it only if QWED_MCP_PYTHON is not set; here it is set"
    } else if settings.data_dir.is_some() {
        "It is used by servers that have the same QWED_MCP_DATA_DIR, from their next start on"
    } else if std::env::var_os("XDG_DATA_HOME").is_some() {
        "It is used by servers that have the same XDG_DATA_HOME, which clients may not pass on, \
         from their \
         next start on"
    } else {
        "It is used by servers of this user from their next start on; `qwed-mcp doctor` shows it"
    }
}

fn list(environments: &Environments, format: Format) -> anyhow::Result<ExitCode> {
    clean_up_if_free(environments)?;
    let of_scripts = environments.of_scripts();
    let mut all: Vec<(&Environments, Environment)> = Vec::new();
    for place in [environments, &of_scripts] {
        all.extend(place.list()?.into_iter().map(|environment| (place, environment)));
    }
    let text = match format {
        Format::Text => as_table(&all),
        Format::Json => {
            let objects = all.iter().map(|(place, environment)| as_json(place, environment));
            document(json!({ "environments": objects.collect::<Vec<_>>() }))
        }
    };
    print("the environments", &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Removes incomplete environments, and older complete environments that are not in use. Returns the names of the older
/// environments that are in use. A failure is only logged: an environment that stays is harmless, because new servers
/// use the newest one.
fn clean_up(turn: &Turn<'_>) -> Vec<String> {
    turn.clean_up().unwrap_or_else(|error| {
        tracing::warn!(error = %Causes(&error), "older environments were not removed");
        Vec::new()
    })
}

/// Removes incomplete and older environments, unless another process is creating or removing environments.
fn clean_up_if_free(environments: &Environments) -> anyhow::Result<()> {
    if !environments.path().exists() {
        return Ok(());
    }
    match environments.turn() {
        Ok(turn) => {
            clean_up(&turn);
            Ok(())
        }
        Err(ChangeError::Busy { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn remove(name: Option<&str>, environments: &Environments) -> anyhow::Result<ExitCode> {
    let turn = environments.turn()?;
    let of_scripts = environments.of_scripts();
    // Lock the environments of scripts only if one of them may be removed. The installation of a script's packages also
    // takes this lock, and must not prevent the removal of other environments.
    let may_be_of_scripts =
        name.is_none_or(|name| name.contains('/')) && of_scripts.path().exists();
    let turn_of_scripts = may_be_of_scripts.then(|| of_scripts.turn()).transpose()?;
    let (mut is_found, mut code) = (name.is_none(), ExitCode::SUCCESS);
    for turn in [Some(&turn), turn_of_scripts.as_ref()].into_iter().flatten() {
        for environment in turn.environments().list()? {
            let shown = turn.environments().shown_name(&environment);
            if name.is_some_and(|name| name != shown) {
                continue;
            }
            is_found = true;
            match turn.remove(&environment)? {
                Removal::Removed => print("the changes", &format!("{shown} is removed\n"))?,
                Removal::InUse => {
                    tracing::error!("{shown} is in use by a running server; stop the server first");
                    code = ExitCode::FAILURE;
                }
            }
        }
    }
    if let (Some(name), false) = (name, is_found) {
        let mut places = [environments, &of_scripts].into_iter();
        if let Some(folder) = places.find_map(|place| place.unreadable(name)) {
            let folder = folder.display();
            tracing::error!(
                "{name} cannot be read, so it was not removed; delete the folder {folder}"
            );
        } else {
            tracing::error!("there is no environment {name}; see `qwed-mcp env list`");
        }
        return Ok(ExitCode::FAILURE);
    }
    clean_up(&turn);
    Ok(code)
}

fn path(environments: &Environments) -> anyhow::Result<ExitCode> {
    environments.list()?;
    let Some(newest) = environments.newest()? else {
        tracing::error!("there is no environment; `qwed-mcp env create` makes one");
        return Ok(ExitCode::FAILURE);
    };
    print("the environment", &format!("{}\n", newest.environment.path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn as_table(all: &[(&Environments, Environment)]) -> String {
    let mut table = Table::new([
        ("NAME", 6),
        ("STATE", 10),
        ("CREATED", 20),
        ("PYTHON", 7),
        ("PACKAGES", 8),
        ("WITH", 0),
    ]);
    for (environments, environment) in all {
        let marker = &environment.marker;
        let with = if marker.with.is_empty() { "-".to_owned() } else { marker.with.join(", ") };
        let packages = marker.packages.len().to_string();
        let shown_name = environments.shown_name(environment);
        let kind = match (marker.is_sdk, shown_name == environment.name) {
            (true, _) => "QWED",
            (false, true) => "own lock",
            (false, false) => "of a script",
        };
        table.row([
            &shown_name,
            if environments.is_in_use(environment) { "in use" } else { "not in use" },
            &seconds(&time_text(marker.created)),
            &marker.python,
            &format!("{packages} ({kind})"),
            &with,
        ]);
    }
    table.to_string()
}

fn as_json(environments: &Environments, environment: &Environment) -> Value {
    let Environment { path, marker, .. } = environment;
    json!({
        "name": environments.shown_name(environment),
        "path": path.display().to_string(),
        "in_use": environments.is_in_use(environment),
        "created": time_text(marker.created),
        "python": marker.python,
        "tool": marker.tool,
        "sdk": marker.is_sdk,
        "lock_sha256": marker.lock_sha256,
        "with": marker.with,
        "packages": marker.packages,
    })
}

/// The display of progress on standard error. On a terminal, one line is rewritten. Elsewhere, each step gets a line.
struct Display {
    is_terminal: bool,
    step: String,
    /// The last line of output from the current step.
    detail: String,
    begun: Instant,
    /// The time at which the last progress line was printed. Used if standard error is not a terminal.
    said: Instant,
}

impl Display {
    fn new() -> Self {
        let is_terminal = io::stderr().is_terminal();
        let (step, detail, begun) = (String::new(), String::new(), Instant::now());
        Self { is_terminal, step, detail, begun, said: begun }
    }

    fn show(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Step(step) => {
                step.clone_into(&mut self.step);
                self.detail.clear();
                self.said = Instant::now();
                if !self.is_terminal {
                    Self::say(&format!("{step} …"));
                }
            }
            Progress::Line(line) => line.trim().clone_into(&mut self.detail),
            Progress::Tick => {}
        }
        if self.is_terminal {
            self.renew();
        } else if let Some(line) = self.reminder(Instant::now()) {
            Self::say(&line);
        }
    }

    /// Returns a line with the elapsed time, if the last line was printed at least [`SILENCE_MAX`] ago.
    fn reminder(&mut self, now: Instant) -> Option<String> {
        if now.duration_since(self.said) < SILENCE_MAX {
            return None;
        }
        self.said = now;
        let seconds = now.duration_since(self.begun).as_secs();
        Some(format!("{} … ({seconds} s so far)", self.step))
    }

    /// Rewrites the progress line on the terminal.
    fn renew(&self) {
        let line = format!("{} ({}) {}", self.step, seconds_since(self.begun), self.detail);
        let line: String = visible(&line).chars().take(LINE_CHARS_MAX).collect();
        // Ignore the error, because a lost progress line is harmless.
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }

    fn clear(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    fn say(line: &str) {
        let _ = writeln!(io::stderr(), "{line}");
    }
}

fn seconds_since(begun: Instant) -> String {
    format!("{} s", begun.elapsed().as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_step_is_not_silent() {
        let mut display = Display { step: "Compiling".to_owned(), ..Display::new() };
        let begun = display.begun;
        let lines = [9, 10, 19, 20].map(|s| display.reminder(begun + Duration::from_secs(s)));
        let said = |seconds| Some(format!("Compiling … ({seconds} s so far)"));
        assert_eq!(lines, [None, said(10), None, said(20)]);
    }
}
