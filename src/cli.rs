//! The command line: parses the arguments, reads the settings, sets up logging and runs the command. Without a command
//! it serves MCP. Logs and errors never go to standard output.

mod aibom;
mod audit;
mod check;
mod doctor;
mod env;
mod github;
mod install;
mod judge;
mod manual;
mod output;
mod pictures;
mod policy;
mod python_api;
mod receipt;
mod replay;
mod run;
mod runs;
mod sarif;
#[cfg_attr(not(feature = "teams"), path = "cli/serve_absent.rs")]
mod serve;
mod table;
mod token;
mod verify;
mod verify_skill;
mod welcome;

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anstream::ColorChoice;
use anyhow::Context as _;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use strsim::damerau_levenshtein;
use tokio::runtime::{Builder, Runtime};

use crate::Secret;
use crate::aibom::Session;
use crate::config::{self, Settings};
use crate::data_folder::{self, NoDataFolder};
use crate::environments::ChangeError;
#[cfg(all(target_os = "linux", not(qwed_portable)))]
use crate::executor::WarmExecutor;
use crate::executor::{Executor, OneShotExecutor, Untrusted, orphans, secrecy};
use crate::gateway::INPUT_BYTES_MAX;
use crate::governance::{self, Governance, PolicyFile};
use crate::ledger::StoreError;
use crate::logging::{self, Causes, Reader};
use crate::postgres::{Database, DatabaseError, DatabaseUrl};
use crate::provenance::SkillProvenanceGuard;
use crate::server::{Server, serve};
use crate::terminal::Label;
use crate::traces::Traces;

/// The maximum time that the shutdown of the runtime waits for blocked threads, such as a thread that reads standard
/// input.
const RUNTIME_SHUTDOWN: Duration = Duration::from_millis(50);

/// The maximum number of logged findings about a skill manifest. A hostile manifest can have any number of findings.
const FINDINGS_LOGGED_MAX: usize = 50;

/// The maximum number of bytes that are read from a script. The safety analysis then rejects scripts that exceed a
/// lower limit.
const SCRIPT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The exit code for invalid arguments, the same as clap's.
const USAGE: u8 = 2;

/// The exit code after Ctrl-C: 128 plus the number of SIGINT.
const INTERRUPTED: u8 = 130;

const ABOUT: &str =
    "MCP server that lets a language model check its own claims with Python scripts";

const LONG_ABOUT: &str = "\
MCP server that lets a language model check its own claims with Python scripts.

Without a command it serves an MCP client on standard input and output; that is what a client's
configuration starts. Settings come from environment variables: QWED_MCP_TRUSTED_CODE_EXECUTION=true
allows code to run, QWED_MCP_PYTHON names the interpreter. All of them, and everything else:
https://github.com/QWED-AI/qwed-mcp/tree/main/docs";

/// The display order of an option that comes after all others except `--help`.
const LAST: usize = 900;

const RUN_EXAMPLES: &str = "\
Examples:
  qwed-mcp run script.py
  echo 'print(6 * 7)' | qwed-mcp run -
  qwed-mcp run --batch scripts.jsonl --output answers.jsonl";

const CHECK_EXAMPLES: &str = "\
Examples:
  qwed-mcp check script.py
  qwed-mcp check --format sarif src/*.py > findings.sarif";

const VERIFY_EXAMPLES: &str = "\
Examples:
  qwed-mcp verify README.md docs/*.md
  qwed-mcp verify --format github --receipts receipts docs/*.md";

const INSTALL_EXAMPLES: &str = "\
Examples:
  qwed-mcp install
  qwed-mcp install --client cursor --allow-code
  qwed-mcp install --client cursor --remove";

const TOKEN_EXAMPLES: &str = "\
Examples:
  qwed-mcp token create --user ann --role user --expires 30d
  qwed-mcp token revoke 1";

#[derive(Parser)]
#[command(name = "qwed-mcp", version, about = ABOUT, long_about = LONG_ABOUT)]
struct CommandLine {
    /// When to use colours: `auto` uses them on a terminal, unless `NO_COLOR` is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto", display_order = LAST)]
    color: Colours,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    #[command(about = serve::ABOUT, after_help = serve::EXAMPLES)]
    Serve(Box<serve::Options>),
    /// Run a script as a client's call would, and show its output
    ///
    /// The exit code is the script's own. It is 124 after a timeout, 125 if the script could not be run, 126 if it was
    /// refused, 127 if it could not be read, 128 plus the number of the signal if a signal ended it, and 130 for
    /// Ctrl-C.
    #[command(after_help = RUN_EXAMPLES)]
    Run(run::Options),
    /// Analyse scripts and list the findings, without running anything
    ///
    /// The exit code is 0 if no script would be blocked, 1 if one would be, and 2 if one could not be read or analysed.
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// The scripts, or - for standard input
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: check::CheckFormat,
        /// Also exit with 1 if a script has no check that can fail
        #[arg(long)]
        require_check: bool,
        /// The name of an input that the scripts may read; may be repeated
        #[arg(long, value_name = "NAME")]
        input: Vec<String>,
    },
    /// Run the claims in documents, and report what they verify
    ///
    /// A claim is a block of Python code that is marked `verify`: a fenced block of Markdown with the info string `python verify`,
    /// a `code-block:: python` in reStructuredText with the option `:class: verify`, or a code cell of a notebook with the tag
    /// `verify`. Each claim is a script of its own. The exit code is 0 if all claims are verified, 1 if one is not, 2 if a
    /// document could not be read, 130 after a signal.
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(verify::Options),
    /// Check whether skills may be loaded, by their manifests
    ///
    /// The exit code is 0 if all skills are trusted, 1 if one is blocked, 2 if a manifest could not be read.
    VerifySkill(verify_skill::Options),
    /// Print an AI bill of materials
    ///
    /// To record the engines and tools that a server really used, set `QWED_MCP_AIBOM` to a file for that server. The
    /// exit code is 0, or 2 if the arguments name no model.
    Aibom(aibom::Options),
    /// Report the environment of scripts: interpreter, packages, sandbox, limits
    ///
    /// If `QWED_MCP_POLICY` is set, also reports whether governed tools can run tests. The exit code is 0 if scripts
    /// can run, 1 if they cannot. With a policy it is 0 if tests can run, and if scripts can run too or
    /// `QWED_MCP_TRUSTED_CODE_EXECUTION` does not allow them.
    Doctor {
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
        /// Print only the `AppArmor` profile that this program needs on Ubuntu
        ///
        /// To load it, run `qwed-mcp doctor --apparmor-profile | sudo tee /etc/apparmor.d/qwed-mcp` and then
        /// `sudo apparmor_parser --replace /etc/apparmor.d/qwed-mcp`.
        #[arg(long, conflicts_with = "format")]
        apparmor_profile: bool,
        /// Print a block for a report to the project, without paths and names
        #[arg(long, conflicts_with_all = ["format", "apparmor_profile"])]
        share: bool,
    },
    /// Add this server to the configurations of MCP clients
    ///
    /// Without a client, lists the clients that are found and changes nothing. A file that cannot be read is left
    /// alone. A file that is changed gets a backup next to it. The exit code is 0, 1 if a file could not be changed, 2
    /// for invalid arguments.
    #[command(after_help = INSTALL_EXAMPLES)]
    Install(install::Options),
    /// Make, list and remove environments for scripts, with the QWED packages
    ///
    /// Environments are in the data folder. The exit code is 0, 1 if nothing was done, 2 if the data folder cannot be
    /// used.
    #[command(subcommand)]
    Env(env::Command),
    /// Check a policy file of the governed tools, and test its decisions
    #[command(subcommand)]
    Policy(policy::Command),
    /// Record which of the admin's own tests have to pass
    #[command(subcommand)]
    Judge(judge::Command),
    /// Make, list, rotate and revoke the tokens of users of governed tools
    ///
    /// Tokens are stored in `QWED_MCP_DATA_DIR`. The exit code is 0, 1 if the token does not exist, 2 if the store
    /// cannot be used.
    #[command(subcommand, after_help = TOKEN_EXAMPLES)]
    Token(token::Command),
    /// Read the audit log of the governed tools, and verify that it is intact
    ///
    /// The log is in `QWED_MCP_DATA_DIR`.
    #[command(subcommand)]
    Audit(audit::Command),
    /// List, show and prune the artifacts of governed runs
    ///
    /// Artifacts are in `QWED_MCP_DATA_DIR`.
    #[command(subcommand)]
    Runs(runs::Command),
    /// Make the key that signs receipts, and show and verify receipts
    #[command(subcommand)]
    Receipt(receipt::Command),
    /// Run the script of a receipt again, and report the differences
    ///
    /// The exit code is 0 if nothing differs, 1 if something differs, 2 if the receipt is not good or the script does
    /// not match it, 3 if a replay could not be run, 4 if the replays differ from each other.
    Replay(replay::Options),
    /// Print the completions of commands and options for a shell
    ///
    /// For example: qwed-mcp completions bash > ~/.local/share/bash-completion/completions/qwed-mcp
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages into a folder
    ManPages {
        /// The folder, which is created if it does not exist
        folder: PathBuf,
    },
    /// Answer the calls of the Python package `qwed_mcp`, one line of JSON for each
    ///
    /// The package starts this command itself.
    PythonApi,
}

/// The condition for the use of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Colours {
    Auto,
    Always,
    Never,
}

impl Colours {
    fn choice(self) -> ColorChoice {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
    }
}

/// The output format of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object
    Json,
}

/// Runs the command line, and returns the exit code of the process.
pub fn run() -> ExitCode {
    let CommandLine { color, command } = match parse() {
        Ok(command_line) => command_line,
        Err(error) => return print_usage(&error),
    };
    color.choice().write_global();
    let reader = match command {
        None if welcome::is_person() => Reader::Person,
        None | Some(Command::PythonApi) => Reader::Admin,
        Some(Command::Serve(ref options)) => options.reader(),
        Some(Command::Run(ref options)) if options.prints_error() => Reader::Caller,
        Some(Command::Replay(_)) => Reader::Caller,
        Some(_) => Reader::Person,
    };
    // Record no traces if the log is for a person, as for `doctor`. Traces are about calls, and most commands with a
    // log for a person make no calls.
    let started = if reader == Reader::Person { Ok(None) } else { Traces::start() };
    let (_traces, further, not_sent) = match started {
        Ok(started) => {
            let (traces, further) = started.unzip();
            (traces, further, None)
        }
        Err(error) => (None, None, Some(error)),
    };
    logging::start(&config::log_filter(), reader, further);
    if let Some(error) = not_sent {
        tracing::error!(error = %Causes(&error), "traces are not sent");
    }
    let result = match command {
        None if welcome::is_person() => welcome::print_welcome(),
        None => serve_client(),
        Some(command) => carry_out(command),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            tracing::error!("{error:#}");
            // For an error in printing, do not use exit code 1, because some commands use it for a regular result.
            let is_unprinted = error.is::<output::NotPrinted>();
            if is_unprinted { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
        }
    }
}

/// Returns the command line as a clap command, with help texts for people.
fn command() -> clap::Command {
    for_people(CommandLine::command())
}

/// Removes the backticks of doc comments from all help texts. Also lets options have negative numbers, such as `-1`, as
/// values.
fn for_people(command: clap::Command) -> clap::Command {
    let mut command = command.mut_args(|mut arg| {
        if let Some(help) = arg.get_help().map(unmarked) {
            arg = arg.help(help);
        }
        if let Some(help) = arg.get_long_help().map(unmarked) {
            arg = arg.long_help(help);
        }
        let takes_value = arg.get_action().takes_values() && !arg.is_positional();
        arg.allow_negative_numbers(takes_value)
    });
    if let Some(about) = command.get_about().map(unmarked) {
        command = command.about(about);
    }
    if let Some(about) = command.get_long_about().map(unmarked) {
        command = command.long_about(about);
    }
    command.mut_subcommands(for_people)
}

/// Removes backticks around a single word. Replaces backticks around several words by single quotes.
fn unmarked(text: &StyledStr) -> String {
    let mut plain = String::new();
    for (index, part) in text.to_string().split('`').enumerate() {
        let quote = if index % 2 == 1 && part.contains(char::is_whitespace) { "'" } else { "" };
        plain.extend([quote, part, quote]);
    }
    plain
}

/// Suggests a command in an error about an unknown command, if the two names differ by one typing error. Replaces
/// clap's own suggestion, because clap does not count two swapped letters as one typing error.
fn with_nearest_command(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let arguments = std::env::args_os().skip(1);
    let command =
        arguments.fold(command, |inner, name| inner.find_subcommand(name).unwrap_or(inner));
    let names = command.get_subcommands().map(clap::Command::get_name);
    let nearest = names.min_by_key(|known| damerau_levenshtein(name, known));
    if let Some(nearest) = nearest.filter(|known| damerau_levenshtein(name, known) <= 1) {
        let tip = ContextValue::Strings(vec![nearest.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, tip);
    }
    error
}

fn parse() -> Result<CommandLine, clap::Error> {
    // Clients usually start the server without arguments. Then do not build the tree of all commands and options,
    // because the tree would take a tenth of the server's memory.
    if std::env::args_os().len() <= 1 {
        return Ok(CommandLine { color: Colours::Auto, command: None });
    }
    let mut command = command();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let matches = matches.map_err(|error| with_nearest_command(error, &command))?;
    if let (Some(run), Some(given)) =
        (command.find_subcommand_mut("run"), matches.subcommand_matches("run"))
    {
        run::check(run, given)?;
    }
    CommandLine::from_arg_matches(&matches)
}

/// Prints the requested help or the error in the arguments. Returns the exit code.
fn print_usage(error: &clap::Error) -> ExitCode {
    // Parse again and ignore errors, to find `--color` and the command although some other argument is wrong.
    let lenient = command().ignore_errors(true);
    let lenient = lenient.disable_help_flag(true).disable_version_flag(true);
    let understood = lenient.try_get_matches().ok();
    let color =
        understood.as_ref().and_then(|it| it.try_get_one::<Colours>("color").ok().flatten());
    color.unwrap_or(&Colours::Auto).choice().write_global();
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        // Ignore a failed write to standard error, because the failure cannot be reported anywhere else.
        let _ = anstream::stderr().write_all(text.as_bytes());
    } else if let Err(error) = output::print_styled("the help", &text) {
        Label::Error.say(format_args!("{error:#}"));
        return ExitCode::from(USAGE);
    }
    let run = understood.as_ref().and_then(|it| it.subcommand_matches("run"));
    match u8::try_from(error.exit_code()) {
        // For invalid arguments, `run` has a different exit code, because a script may itself exit with [`USAGE`].
        Ok(USAGE) if let Some(run) = run => {
            let file = run.try_get_one::<PathBuf>("batch");
            ExitCode::from(run::usage(file.is_ok_and(|file| file.is_some())))
        }
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    }
}

fn carry_out(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(options) => serve::run(*options),
        Command::Run(options) => Ok(run::run(&options)),
        Command::Check { files, format, require_check, input } => {
            check::check(&files, format, require_check, &input)
        }
        Command::Verify(options) => Ok(verify::run(&options)),
        Command::VerifySkill(options) => verify_skill::verify(&options),
        Command::Aibom(options) => aibom::print(&options),
        Command::Doctor { apparmor_profile: true, .. } => doctor::print_apparmor_profile(),
        Command::Doctor { share: true, .. } => doctor::diagnose(&settings(), doctor::Form::Shared),
        Command::Doctor { format, .. } => {
            doctor::diagnose(&settings(), doctor::Form::Document(format))
        }
        Command::Install(options) => install::run(&options),
        Command::Env(command) => usage_if_store_unusable(env::run(command, &settings())),
        Command::Policy(command) => policy::run(&command, &settings()),
        Command::Judge(command) => judge::run(&command, &settings()),
        Command::Token(command) => usage_if_store_unusable(token::run(&command, &settings())),
        Command::Audit(command) => usage_if_store_unusable(audit::run(&command, &settings())),
        Command::Runs(command) => usage_if_store_unusable(runs::run(&command, &settings())),
        Command::Receipt(command) => receipt::run(&command, &settings()),
        Command::Replay(options) => replay::run(&options, &settings()),
        Command::Completions { shell } => manual::print_completions(shell),
        Command::ManPages { folder } => manual::write_pages(&folder),
        Command::PythonApi => python_api::answer(),
    }
}

/// Logs an error about a store or data folder that cannot be used, and returns the exit code for invalid arguments.
/// Passes on other errors.
fn usage_if_store_unusable(result: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    result.or_else(|error| {
        let is_about_folder = error.downcast_ref().is_some_and(ChangeError::is_about_folder);
        if !error.is::<StoreError>() && !error.is::<NoDataFolder>() && !is_about_folder {
            return Err(error);
        }
        tracing::error!("{error:#}");
        Ok(ExitCode::from(USAGE))
    })
}

fn serve_client() -> anyhow::Result<ExitCode> {
    if welcome::is_person() {
        tracing::warn!("serving MCP on a terminal; an MCP client should start this, see --help");
    }
    serve_with(settings(), |runtime, server, _| {
        let served = async move {
            server.start_jobs();
            serve(server).await
        };
        Ok(runtime.block_on(served)?)
    })
}

/// Builds a server and calls `work` with it. If a database is configured, the server shares its background jobs with
/// other replicas through the database. It runs none of them before `work` calls [`Server::start_jobs`]. When `work` has
/// returned, writes the bill of materials of the session.
fn serve_with(
    mut settings: Settings,
    work: impl FnOnce(&Runtime, Arc<Server>, &Settings) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    if !settings.dumpable {
        secrecy::conceal().context("failed to protect this process from other processes")?;
    }
    if let Some(manifest) = &settings.skill_manifest {
        verify_skill(manifest)?;
    }
    if settings.policy.is_some() {
        settings.auth_token = governance::own_token(&settings)?;
    }
    let policy = policy(&settings);
    let executor = executor(&settings, untrusted(policy.as_ref()));
    let session = settings.aibom.as_ref().map(|file| {
        aibom::warn_if_unusable(file);
        Arc::new(Session::new(settings.llm_model.clone()))
    });
    // Open the store before the receipts. If the data folder is unusable, the error is then about the store, not
    // about receipts.
    let governance = policy
        .map(|policy| govern(&settings, policy, Arc::clone(&executor), session.clone()))
        .transpose()?;
    let receipts = receipt::writer(&settings)?;
    let governance =
        governance.map(|governance| Arc::new(governance.with_receipts(receipts.clone())));
    let server = Server::new(&settings, executor, governance, session.clone(), receipts.as_ref());
    in_runtime(|runtime| {
        let server = match &settings.store {
            Some(url) => share_jobs(runtime, server, &settings, url)?,
            None => server,
        };
        let ended = work(runtime, Arc::new(server), &settings);
        // Write the bill of materials even if the session ended with an error.
        if let (Some(session), Some(file)) = (session, &settings.aibom) {
            aibom::write(&session, file)?;
        }
        ended?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Opens the store of the governed tools, and creates the `Governance` that executes their calls.
fn govern(
    settings: &Settings,
    policy: Arc<PolicyFile>,
    executor: Arc<dyn Executor>,
    session: Option<Arc<Session>>,
) -> anyhow::Result<Governance> {
    let folder = data_folder::data_folder(settings.data_dir.as_deref())?;
    let store = settings.store_in(&folder).open();
    let store = store.context("the governed tools cannot be offered")?;
    store.record_older_tokens().context("the governed tools cannot be offered")?;
    Ok(Governance::new(settings, policy, &folder, store, executor, session))
}

/// Verifies the skill manifest. Fails if the manifest is not trusted, and the server then does not start.
fn verify_skill(manifest: &Path) -> anyhow::Result<()> {
    let verification = SkillProvenanceGuard::new()
        .verify_file(manifest, None)
        .with_context(|| format!("skill manifest {} is not usable", manifest.display()))?;
    if !verification.verified {
        for finding in verification.findings.iter().take(FINDINGS_LOGGED_MAX) {
            tracing::error!(risk = ?verification.risk_level, "skill manifest: {finding}");
        }
        anyhow::bail!(
            "skill manifest {} is not trusted: {}",
            manifest.display(),
            verification.message
        );
    }
    tracing::info!(skill = verification.skill_name, "skill manifest is trusted");
    Ok(())
}

/// Reads a script from a file, or from standard input. Fails if the script is larger than [`SCRIPT_BYTES_MAX`],
/// because the input may be endless.
fn read_script(file: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    read_bounded(file, SCRIPT_BYTES_MAX, |source| source.read_to_end(&mut bytes))?;
    let code = text_of(bytes)?;
    if code.trim().is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the script is empty"));
    }
    Ok(code)
}

/// Decodes a text in UTF-8. The error contains the position of the first invalid byte.
fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let position = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("not UTF-8 at byte {position}"))
    })
}

/// Opens a file, or standard input if `file` is `-`. Calls `read` with a reader of the first `bytes_max + 1` bytes.
/// `read` returns the number of bytes that were read. Fails if this number is greater than `bytes_max`.
fn read_bounded(
    file: &Path,
    bytes_max: u64,
    read: impl FnOnce(&mut dyn Read) -> io::Result<usize>,
) -> io::Result<()> {
    let source: &mut dyn Read =
        if file == Path::new("-") { &mut io::stdin() } else { &mut File::open(file)? };
    let length = read(&mut source.take(bytes_max + 1))?;
    if u64::try_from(length).unwrap_or(u64::MAX) > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(())
}

/// A file that a script may read, and its name in the script: `NAME=FILE`.
#[derive(Debug, Clone)]
struct InputFile {
    name: String,
    file: PathBuf,
}

impl FromStr for InputFile {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = text.split_once('=').filter(|(_, file)| !file.is_empty());
        let (name, file) = named.ok_or("write it as NAME=FILE")?;
        if file == "-" {
            return Err("an input is a file, not standard input");
        }
        Ok(Self { name: name.to_owned(), file: file.into() })
    }
}

type NamedFiles = Vec<(String, Vec<u8>)>;

/// Reads the files for a script. The error has the path of the file that could not be read.
fn read_inputs(files: &[InputFile]) -> Result<NamedFiles, (&Path, io::Error)> {
    let mut room = u64::try_from(INPUT_BYTES_MAX).unwrap_or(u64::MAX);
    let mut read = |InputFile { name, file }: &InputFile| {
        let mut bytes = Vec::new();
        read_bounded(file, room, |source| source.read_to_end(&mut bytes))?;
        room = room.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok((name.clone(), bytes))
    };
    files.iter().map(|of| read(of).map_err(|error| (&*of.file, error))).collect()
}

/// Reads the settings from the environment, and logs the warnings about them.
fn settings() -> Settings {
    let (settings, warnings) = Settings::from_env();
    for warning in warnings.into_iter().chain(settings.crowding()) {
        tracing::warn!("{warning}");
    }
    settings
}

/// Connects a server to the database through which replicas share background jobs.
fn share_jobs(
    runtime: &Runtime,
    server: Server,
    settings: &Settings,
    url: &Secret,
) -> anyhow::Result<Server> {
    let shared = async {
        let database = Database::open(DatabaseUrl::parse(url)?).await?;
        if let Some(excess) = database.excess().await? {
            tracing::warn!(
                %excess,
                "the user of QWED_MCP_STORE can change the audit log, tokens and results; make a \
                 role for servers with \
                 deploy/postgres.sql"
            );
        }
        Ok::<_, DatabaseError>(server.with_shared_jobs(settings, database))
    };
    runtime.block_on(shared).context("background jobs cannot be shared")
}

/// Calls `work` with a new runtime, and shuts the runtime down afterwards.
fn in_runtime(work: impl FnOnce(&Runtime) -> anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    orphans::adopt().context("failed to become a child subreaper")?;
    let runtime = runtime()?;
    let result = work(&runtime);
    // Do not wait without a timeout, because a thread that reads standard input may be blocked forever.
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN);
    result
}

/// Returns the policy file of the governed tools, if one is configured.
fn policy(settings: &Settings) -> Option<Arc<PolicyFile>> {
    settings.policy.clone().map(|path| Arc::new(PolicyFile::new(path)))
}

/// Returns the workspace of the governed tools. Code in the workspace must not run outside the sandbox. Without a
/// policy, the result is empty.
fn untrusted(policy: Option<&Arc<PolicyFile>>) -> Untrusted {
    policy.map(|policy| Arc::clone(policy).into()).unwrap_or_default()
}

/// Creates the executor of a server. The executor uses warm interpreters if the settings allow this.
fn executor(settings: &Settings, untrusted: Untrusted) -> Arc<dyn Executor> {
    #[cfg(all(target_os = "linux", not(qwed_portable)))]
    if settings.warm {
        return Arc::new(WarmExecutor::new(settings, untrusted));
    }
    Arc::new(OneShotExecutor::new(settings, untrusted))
}

/// Creates a runtime with one thread. One thread is enough, because other processes run the scripts. Pipes are also
/// faster if no data passes between threads.
fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("failed to start the runtime")
}
