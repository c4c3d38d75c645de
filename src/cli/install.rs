//! `qwed-mcp install`: lists, adds and removes this server's entry in the configurations of MCP clients.

mod skill;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, ValueEnum};

use super::USAGE;
use super::output::print;
use super::table::{Table, printable};
use crate::clients::{
    ALLOW_CODE, Action, CLIENTS, Change, Client, Effect, Format, Launch, Note, PYTHON, Places,
    Request, ServerName, Writing, client, is_program, launch, link, snippet, state,
};
use crate::executor::package_folders;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("target").args(["client", "skill"]))]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(super) struct Options {
    /// The clients to configure
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', value_parser = clients())]
    client: Vec<&'static Client>,
    /// Change the file of the project in the current folder instead of the user's
    #[arg(long)]
    project: bool,
    /// Allow scripts to run (`QWED_MCP_TRUSTED_CODE_EXECUTION=true`)
    #[arg(long, conflicts_with = "remove")]
    allow_code: bool,
    /// The interpreter for scripts (`QWED_MCP_PYTHON`)
    #[arg(long, value_name = "PATH", conflicts_with = "remove")]
    python: Option<PathBuf>,
    /// The name of the entry; default: the name of an existing entry of this server, or `qwed`
    #[arg(long)]
    name: Option<ServerName>,
    /// Show what would change, and change nothing
    #[arg(long, requires = "target")]
    dry_run: bool,
    /// Remove the entry of this server, or the skill
    #[arg(long, requires = "target")]
    remove: bool,
    /// Print the entry, and change nothing
    #[arg(long, value_name = "FORM", conflicts_with_all = ["remove", "dry_run", "project"])]
    print: Option<Form>,
    /// Copy the skill `verify-claims` into the folders for agents' skills, instead of changing clients
    #[arg(long, conflicts_with_all = ["allow_code", "python", "name", "print", "client"])]
    skill: bool,
}

/// The format of a printed entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For the files of most clients
    Json,
    /// For the file of Codex
    Toml,
    /// A link that opens Cursor or VS Code
    Link,
}

fn clients() -> impl TypedValueParser<Value = &'static Client> {
    let values = CLIENTS.iter().map(|client| PossibleValue::new(client.name).help(client.title));
    PossibleValuesParser::new(values).try_map(|name| client(&name).ok_or("there is no such client"))
}

pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let is_macos = cfg!(target_os = "macos");
    let places = Places::from_lookup(|name| std::env::var_os(name), is_macos)?;
    let project = options.project.then(std::env::current_dir).transpose();
    let project = project.context("failed to find the current folder")?;
    if options.skill {
        return skill::install(&places, project.as_deref(), options.remove, options.dry_run);
    }
    if options.client.is_empty() && options.print.is_none() {
        if options.allow_code || options.python.is_some() || options.name.is_some() {
            tracing::error!("choose the clients to change with --client");
            return Ok(ExitCode::from(USAGE));
        }
        return list(&places, project.as_deref());
    }
    let variables = match variables(options, &places) {
        Ok(variables) => variables,
        Err(python) => {
            tracing::error!(
                "--python: {} is not an executable file; give its path, or a name on PATH",
                python.display()
            );
            return Ok(ExitCode::from(USAGE));
        }
    };
    let program = std::env::current_exe().and_then(|program| program.canonicalize());
    let program = program.context("failed to find the path of this program")?;
    let action = if options.remove { Ok(None) } else { launch(&program, &places).map(Some) };
    let launch = match action {
        Ok(launch) => launch,
        Err(error) => {
            tracing::error!("{error}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let job = Job { options, places: &places, project, launch, variables };
    match options.print {
        Some(form) => job.print(form),
        None => job.change(),
    }
}

/// Returns the variables that the options set, with their values. Fails if `--python` does not name an executable file.
/// The error is the value of the option.
fn variables(options: &Options, places: &Places) -> Result<Vec<(String, String)>, PathBuf> {
    let mut variables = Vec::new();
    if options.allow_code {
        variables.push((ALLOW_CODE.to_owned(), "true".to_owned()));
    }
    if let Some(python) = &options.python {
        // A value without a slash is a name, which is looked up on `PATH`, as in a shell.
        let name = python.to_str().filter(|name| !name.contains('/'));
        // Do not resolve symlinks, because an interpreter finds its virtual environment by the path of the symlink.
        let path = || std::path::absolute(python).ok().filter(|path| is_program(path));
        let path = name.and_then(|name| places.program(name)).or_else(path);
        let path = path.and_then(|path| path.into_os_string().into_string().ok());
        variables.push((PYTHON.to_owned(), path.ok_or_else(|| python.clone())?));
    }
    Ok(variables)
}

/// Returns whether an interpreter works but has no `SymPy` package. Starts the interpreter once to list its package
/// folders.
fn lacks_sympy(python: &str) -> bool {
    let Ok(runtime) = super::runtime() else { return false };
    let folders = runtime.block_on(package_folders(Path::new(python)));
    let has_sympy = |folder: &PathBuf| folder.join("sympy/__init__.py").is_file();
    folders.is_some_and(|folders| !folders.iter().any(has_sympy))
}

/// Prints the clients that are installed on this machine, with the entries of this server in their files.
fn list(places: &Places, project: Option<&Path>) -> anyhow::Result<ExitCode> {
    let mut table = Table::new([("CLIENT", 14), ("ENTRY", 5), ("CODE", 4), ("FILE", 0)]);
    let (mut missing, mut problems, mut found) = (Vec::new(), String::new(), 0);
    for client in CLIENTS {
        if project.is_some() && client.project.is_empty() {
            continue;
        }
        let state = match state(client, places, project) {
            Ok(state) => state,
            Err(error) => {
                // Writing to a string cannot fail.
                let _ = writeln!(problems, "{}: {error}", client.name);
                continue;
            }
        };
        if !state.is_found {
            missing.push(client.name);
            continue;
        }
        found += 1;
        let file = state.file.display().to_string();
        if let Some(obstacle) = state.obstacle {
            let _ = writeln!(problems, "{}: {obstacle}", client.name);
        }
        match state.entries {
            _ if client.format == Format::Yaml => table.row([client.name, "?", "?", &file]),
            Ok(entries) if entries.is_empty() => table.row([client.name, "-", "-", &file]),
            Ok(entries) => {
                for entry in entries {
                    let older = if entry.is_of_older_version { " (0.2.x)" } else { "" };
                    let name = format!("{}{older}", entry.name);
                    let code = if entry.allows_code { "on" } else { "off" };
                    table.row([client.name, &name, code, &file]);
                }
            }
            Err(error) => {
                let _ = writeln!(problems, "{}: {error}", client.name);
                table.row([client.name, "?", "?", &file]);
            }
        }
    }
    let mut text = String::new();
    if found > 0 {
        let _ = writeln!(text, "{table}");
    }
    if !missing.is_empty() {
        let _ = writeln!(text, "Not found here: {}.", missing.join(", "));
    }
    text.push_str("Nothing was changed: `qwed-mcp install --client NAME` adds the entry.\n");
    text.push_str(&problems);
    show("the clients", &text)?;
    Ok(ExitCode::SUCCESS)
}

/// The changes that the command line requests.
struct Job<'a> {
    options: &'a Options,
    places: &'a Places,
    project: Option<PathBuf>,
    /// The command that the entry starts. `None` if the command line requests the removal of the entry.
    launch: Option<Launch>,
    variables: Vec<(String, String)>,
}

impl Job<'_> {
    fn print(&self, form: Form) -> anyhow::Result<ExitCode> {
        let Some(launch) = &self.launch else { return Ok(ExitCode::from(USAGE)) };
        let default = |names: &[&str]| names.iter().filter_map(|name| client(name)).collect();
        let clients: Vec<&Client> = match (self.options.client.as_slice(), form) {
            ([], Form::Json) => default(&["claude-desktop"]),
            ([], Form::Toml) => default(&["codex"]),
            ([], Form::Link) => default(&["cursor", "vscode"]),
            (named, _) => named.to_vec(),
        };
        let name = self.name();
        let mut text = String::new();
        for client in clients {
            let fits = match form {
                Form::Json => client.format == Format::Json,
                Form::Toml => client.format == Format::Toml,
                Form::Link => true,
            };
            if !fits {
                tracing::error!("the file of {} has another format", client.title);
                return Ok(ExitCode::from(USAGE));
            }
            if form == Form::Link {
                match link(client, &name, launch, &self.variables) {
                    Ok(link) => text.extend([link.as_str(), "\n"]),
                    Err(error) => {
                        tracing::error!("{error}");
                        return Ok(ExitCode::from(USAGE));
                    }
                }
            } else {
                text.push_str(&snippet(client, &name, launch, &self.variables, self.places));
            }
        }
        print("the entry", &text)?;
        Ok(ExitCode::SUCCESS)
    }

    fn change(&self) -> anyhow::Result<ExitCode> {
        let mut notes = Notes::default();
        let mut has_failed = false;
        for client in &self.options.client {
            if let (Writing::PrintOnly(why), Some(launch)) = (client.writing, &self.launch) {
                let entry = snippet(client, &self.name(), launch, &self.variables, self.places);
                let title = client.title;
                let text =
                    format!("{title}: add this to its file yourself, because {why}\n\n{entry}\n");
                print("the entry", &text)?;
                notes.has_entry = true;
                continue;
            }
            if let Err(error) = self.change_one(client, &mut notes) {
                tracing::error!("{}: {error}", client.title);
                has_failed = true;
            }
        }
        show("notes", &notes.text(self))?;
        Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn change_one(&self, client: &Client, notes: &mut Notes) -> anyhow::Result<()> {
        let action = match &self.launch {
            Some(launch) => Action::Install { launch, variables: &self.variables },
            None => Action::Remove,
        };
        let name = self.options.name.as_ref();
        let request = Request { action, name, project: self.project.as_deref() };
        let change = Change::prepare(client, request, self.places)?;
        let mut text = format!("{}: {}\n", client.title, change.file.display());
        // Show the difference before anything is written.
        text.push_str(&change.diff);
        show("the change", &text)?;
        let is_made = !self.options.dry_run && !change.is_nothing();
        let backup = if is_made { change.apply(client)? } else { None };
        let mut text = outcome(&change, self.options.dry_run);
        if let Some(backup) = backup {
            let _ = write!(text, " Backup: {}.", backup.display());
            notes.has_backup = true;
        }
        text.push_str("\n\n");
        show("the change", &text)?;
        notes.take(client, &change);
        Ok(())
    }

    /// Returns the path of the interpreter that `--python` names.
    fn python(&self) -> Option<&str> {
        let python = self.variables.iter().find(|(name, _)| name == PYTHON);
        python.map(|(_, path)| path.as_str())
    }

    fn name(&self) -> ServerName {
        let name = self.options.name.clone();
        name.unwrap_or_else(ServerName::usual)
    }
}

/// Prints a text with control characters escaped. The text contains names and commands from the files of other
/// programs.
fn show(subject: &str, text: &str) -> anyhow::Result<()> {
    let mut shown = String::new();
    for line in text.split_inclusive(['\n', '\t']) {
        let words = line.trim_end_matches(['\n', '\t']);
        shown.extend([&printable(words), line.get(words.len()..).unwrap_or_default()]);
    }
    print(subject, &shown)
}

/// Describes a change that was made. If `is_dry`, describes the change that would be made.
fn outcome(change: &Change, is_dry: bool) -> String {
    let name = &change.name;
    let verb = if is_dry { "would be" } else { "is" };
    let by = match &change.by_claude {
        Some(claude) => format!(", by {}", claude.display()),
        None => String::new(),
    };
    match &change.effect {
        Effect::Add => format!("`{name}` {verb} added{by}."),
        Effect::Update => format!("`{name}` {verb} changed."),
        Effect::TakeOver { command, .. } => {
            format!("`{name}`, which started `{command}`, {verb} taken over.")
        }
        Effect::AlreadyThere => format!("`{name}` is already there; nothing to change."),
        Effect::Remove => format!("`{name}` {verb} removed{by}."),
        Effect::Absent => "This server has no entry; nothing to change.".to_owned(),
    }
}

/// The notes that are printed after all files are changed.
#[derive(Debug, Default)]
struct Notes {
    /// The titles of the clients with an entry that was added, changed or removed.
    changed: Vec<&'static str>,
    lines: Vec<String>,
    is_gate_shut: bool,
    /// Whether at least one entry was changed or printed.
    has_entry: bool,
    has_backup: bool,
}

impl Notes {
    fn take(&mut self, client: &Client, change: &Change) {
        if !change.is_nothing() {
            self.changed.push(client.title);
            self.has_entry = true;
        }
        let is_removal = matches!(change.effect, Effect::Remove | Effect::Absent);
        self.is_gate_shut |= !is_removal && !change.allows_code;
        if let Effect::TakeOver { python: Some(python), .. } = &change.effect {
            self.lines.push(format!(
                "{}: scripts ran with the packages of {python}; `--python {python}` keeps them.",
                client.title
            ));
        }
        if !change.others.is_empty() {
            self.lines.push(format!(
                "{}: this server also has the entry {}; `--remove --name NAME` removes an entry.",
                client.title,
                change.others.join(", ")
            ));
        }
        if !change.is_found && !is_removal {
            self.lines
                .push(format!("{}: this client was not found on this machine.", client.title));
        }
        if change.is_on_windows && !is_removal {
            self.lines.push(format!(
                "{}: the entry starts WSL from Windows, which was not tried on Windows.",
                client.title
            ));
        }
    }

    fn text(mut self, job: &Job<'_>) -> String {
        if let Some(note) = job.launch.as_ref().and_then(note).filter(|_| self.has_entry) {
            self.lines.push(note);
        }
        if self.has_backup {
            let text = if job.project.is_some() {
                "The backup may have keys in it: keep it out of the repository, and delete it once \
                 the client \
                 works."
            } else {
                "A backup can be deleted once the client works."
            };
            self.lines.push(text.to_owned());
        }
        if job.launch.is_some() && !self.changed.is_empty() {
            if job.project.is_some() {
                self.lines.push(
                    "The file of a project is shared, but the entry has a path of this machine."
                        .to_owned(),
                );
            }
            if job.project.is_some() && job.options.allow_code {
                self.lines.push(
                    "Everyone who uses this file and approves the server allows scripts to run."
                        .to_owned(),
                );
            }
            if self.is_gate_shut {
                self.lines.push(
                    "Scripts are analysed and not run; `--allow-code` lets them run.".to_owned(),
                );
            }
        }
        if let Some(launch) = job.launch.as_ref().filter(|_| self.has_entry) {
            let (setting, profile) = (Path::new(APPARMOR_RESTRICTS), Path::new(APPARMOR_PROFILE));
            self.lines.extend(restricted_namespaces(launch, setting, profile));
        }
        if let Some(python) = job.python().filter(|_| self.has_entry)
            && lacks_sympy(python)
        {
            self.lines.push(format!(
                "{python} has no SymPy: `qwed-mcp env create` makes an environment that has it, \
                 which scripts \
                 use if no entry names another interpreter."
            ));
        }
        if !self.changed.is_empty() && !job.options.dry_run {
            let clients = self.changed.join(", ");
            self.lines.push(format!("Restart {clients}: the file is read at the start."));
        }
        self.lines.push(String::new());
        self.lines.join("\n")
    }
}

/// Explains why the entry contains an unusual command. Returns `None` for a usual command.
fn note(launch: &Launch) -> Option<String> {
    let command = &launch.command;
    Some(match launch.note.as_ref()? {
        Note::ByUvx { program, why } => format!(
            "{} is in a temporary place ({why}), so the entry starts it by {command}, which may \
             download it at the first start. `uv tool install \"qwed-mcp[sdk]>=0.3\"` gives it a \
             place.",
            program.display()
        ),
        Note::ByLink { program, why } => {
            format!("The entry has {command}, which leads to {} ({why}).", program.display())
        }
        Note::Versioned { why } => {
            format!(
                "The entry has the path of this version ({why}); run this again after an update."
            )
        }
        Note::BuildFolder => {
            format!("{command} is in a build folder: the entry runs the last build.")
        }
    })
}

/// The setting of Ubuntu that refuses user namespaces to programs without an `AppArmor` profile.
const APPARMOR_RESTRICTS: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
/// The path of the `AppArmor` profile that lets this program create user namespaces. It exists only if an admin has
/// installed it.
const APPARMOR_PROFILE: &str = "/etc/apparmor.d/qwed-mcp";

/// Returns a message with the command that is necessary before scripts can run on Ubuntu. Returns `None` if the kernel
/// does not restrict user namespaces, or if the profile is for this program's path. A profile applies to only one path.
fn restricted_namespaces(launch: &Launch, setting: &Path, profile: &Path) -> Option<String> {
    let read = |file: &Path| fs::read_to_string(file).unwrap_or_default();
    if read(setting).trim() != "1" {
        return None;
    }
    if let Some(Note::ByUvx { .. }) = launch.note {
        return Some(
            "Ubuntu allows the sandbox only to programs with a permanent path: run `uv tool \
             install \"qwed-mcp[sdk]>=0.3\"`, and then this command from there."
                .to_owned(),
        );
    }
    let command = &launch.command;
    // Search for the path with and without quotation marks, because a profile quotes a path with spaces.
    let is_known = read(profile).contains(&format!("\"{command}\""))
        || read(profile).contains(&format!(" {command} "));
    (!is_known).then(|| {
        let program = quoted(command);
        let place = profile.display();
        format!(
            "Ubuntu forbids the namespaces of the sandbox until an admin runs: {program} doctor \
             --apparmor-profile | sudo tee {place} && sudo apparmor_parser --replace {place}"
        )
    })
}

/// Quotes a path for a shell, if it contains special characters.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(is_plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_is_asked_for_where_apparmor_restricts_namespaces() {
        let folder = tempfile::tempdir().unwrap();
        let (setting, profile) = (folder.path().join("setting"), folder.path().join("profile"));
        let launch = |command: &str, note| Launch {
            command: command.to_owned(),
            arguments: Vec::new(),
            note,
        };
        let program = launch("/opt/my tools/qwed-mcp", None);
        assert_eq!(restricted_namespaces(&program, &setting, &profile), None);
        fs::write(&setting, "0\n").unwrap();
        assert_eq!(restricted_namespaces(&program, &setting, &profile), None);
        fs::write(&setting, "1\n").unwrap();
        let text = restricted_namespaces(&program, &setting, &profile).unwrap();
        let command = "'/opt/my tools/qwed-mcp' doctor --apparmor-profile | sudo tee ";
        assert!(text.contains(command), "{text}");
        fs::write(&profile, "profile qwed-mcp /usr/bin/qwed-mcp flags=(unconfined) {\n").unwrap();
        assert!(restricted_namespaces(&program, &setting, &profile).is_some());
        let packaged = launch("/usr/bin/qwed-mcp", None);
        assert_eq!(restricted_namespaces(&packaged, &setting, &profile), None);
        fs::write(&profile, "profile qwed-mcp \"/opt/my tools/qwed-mcp\" flags\n").unwrap();
        assert_eq!(restricted_namespaces(&program, &setting, &profile), None);
        let note = Note::ByUvx { program: "/x".into(), why: "it is in the cache of uv" };
        let text = restricted_namespaces(&launch("/bin/uvx", Some(note)), &setting, &profile);
        assert!(text.unwrap().contains("a permanent path"));
    }
}
