//! Contains the table of MCP clients, with one row for each client. It never accesses a file.

use Place::{AppSupport, Config, Home, Variable};

/// An MCP client, with the facts about its configuration files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// The client's name on the command line.
    pub name: &'static str,
    pub title: &'static str,
    pub format: Format,
    /// The key of the object with the entries of servers in the client's file.
    pub(super) key: &'static str,
    pub(super) shape: Shape,
    /// The candidates for the path of the user's file on Linux. The first that exists is used, or the first if none
    /// exists.
    pub(super) linux: &'static [Place],
    /// The candidates for the path of the user's file on macOS. The first that exists is used, or the first if none
    /// exists.
    pub macos: &'static [Place],
    /// The candidates for the path of a project's file, relative to the root of the project. The first that exists is
    /// used, or the first if none exists.
    pub project: &'static [&'static str],
    /// The names of the client's programs. If one of them is on `PATH`, the client counts as installed.
    pub programs: &'static [&'static str],
    pub writing: Writing,
    pub(super) windows: Windows,
    /// The value of `QWED_MCP_RESULT_CHARS` in a new entry, in characters. `None` for clients that do not cut long
    /// results.
    pub(super) result_chars: Option<u32>,
    /// The reasons for the values in this row, with their source.
    pub why: &'static str,
}

/// The syntax of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON with comments and trailing commas.
    Json,
    Toml,
    Yaml,
}

/// The members of an entry in the client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The members are `command`, `args` and `env`.
    Plain,
    /// The members are the same as in `Plain`, and `type` is `stdio`.
    Typed,
    /// The members are the same as in `Plain`, and `source` is `custom`.
    Zed,
    /// The members are the same as in `Typed`, and `tools` allows all tools.
    Copilot,
    /// The members are `type`, `command` (the program and its arguments), `environment` and `enabled`.
    OpenCode,
    /// The members are `type`, `cmd`, `args`, `envs` and `enabled`.
    Goose,
}

/// The path of a user's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The file is below the home folder.
    Home(&'static str),
    /// The file is below `XDG_CONFIG_HOME`, or below `.config` in the home folder if that variable is not set.
    Config(&'static str),
    /// The file is below `Library/Application Support` in the home folder.
    AppSupport(&'static str),
    /// The path `file` is below the folder that the variable `name` contains. If the variable is not set, the path
    /// `else_home` is below the home folder.
    Variable { name: &'static str, file: &'static str, else_home: &'static str },
}

/// The system on which a client runs, if this program runs in WSL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Windows {
    /// The client runs in WSL, or reads its file from WSL.
    InWsl,
    /// The client runs only on Windows. It uses `wsl.exe` to start a program in WSL.
    FromWsl,
}

/// The way in which a client's file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// This program changes the file.
    Ours,
    /// If the client's own program is installed, the client's program adds and removes entries. In all other cases,
    /// this program changes the file.
    ClientsOwn,
    /// The file is not changed, for the given reason. The entry is only printed.
    PrintOnly(&'static str),
}

/// The path of Codex's file, which is the same on every system.
const CODEX: Place =
    Variable { name: "CODEX_HOME", file: "config.toml", else_home: ".codex/config.toml" };
const CLAUDE_CODE: Place =
    Variable { name: "CLAUDE_CONFIG_DIR", file: ".claude.json", else_home: ".claude.json" };
const CLINE: &str =
    "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";

/// All clients, in the order in which `qwed-mcp install` lists them.
pub const CLIENTS: &[Client] = &[
    Client {
        name: "claude-desktop",
        title: "Claude Desktop",
        format: Format::Json,
        key: "mcpServers",
        shape: Shape::Plain,
        linux: &[Config("Claude/claude_desktop_config.json")],
        macos: &[AppSupport("Claude/claude_desktop_config.json")],
        project: &[],
        programs: &["claude-desktop"],
        writing: Writing::Ours,
        windows: Windows::FromWsl,
        result_chars: Some(40_000),
        why: "Anthropic's guide for local servers; on Windows below %APPDATA%, which WSL reaches; \
              on Linux the builds of others keep the name below the folder for configurations; results \
              above 1 MB are an error, and its coding agent writes those above 25,000 tokens to a \
              file (claude-code#66519, #78478)",
    },
    Client {
        name: "claude-code",
        title: "Claude Code",
        format: Format::Json,
        key: "mcpServers",
        shape: Shape::Typed,
        linux: &[CLAUDE_CODE],
        macos: &[CLAUDE_CODE],
        project: &[".mcp.json"],
        programs: &["claude"],
        writing: Writing::ClientsOwn,
        windows: Windows::InWsl,
        result_chars: Some(40_000),
        why: "Anthropic's reference of `claude mcp`; the user's file is also the program's state, \
              which running sessions write; it writes results above 25,000 tokens to a file \
              (claude-code#45766)",
    },
    Client {
        name: "cursor",
        title: "Cursor",
        format: Format::Json,
        key: "mcpServers",
        shape: Shape::Plain,
        linux: &[Home(".cursor/mcp.json")],
        macos: &[Home(".cursor/mcp.json")],
        project: &[".cursor/mcp.json"],
        programs: &["cursor"],
        writing: Writing::Ours,
        windows: Windows::InWsl,
        result_chars: None,
        why: "Cursor's page on MCP",
    },
    Client {
        name: "vscode",
        title: "VS Code",
        format: Format::Json,
        key: "servers",
        shape: Shape::Typed,
        linux: &[Config("Code/User/mcp.json")],
        macos: &[AppSupport("Code/User/mcp.json")],
        project: &[".vscode/mcp.json"],
        programs: &["code"],
        writing: Writing::Ours,
        windows: Windows::InWsl,
        result_chars: None,
        why: "VS Code's reference of mcp.json; other clients use another key",
    },
    Client {
        name: "windsurf",
        title: "Windsurf",
        format: Format::Json,
        key: "mcpServers",
        shape: Shape::Plain,
        linux: &[Home(".codeium/windsurf/mcp_config.json")],
        macos: &[Home(".codeium/windsurf/mcp_config.json")],
        project: &[],
        programs: &["windsurf"],
        writing: Writing::Ours,
        windows: Windows::InWsl,
        result_chars: None,
        why: "Windsurf's page on Cascade and MCP; it has no file for a project",
    },
    Client {
        name: "zed",
        title: "Zed",
        format: Format::Json,
        key: "context_servers",
        shape: Shape::Zed,
        linux: &[Config("zed/settings.json")],
        macos: &[Home(".config/zed/settings.json")],
        project: &[".zed/settings.json"],
        programs: &["zed", "zeditor"],
        writing: Writing::Ours,
        windows: Windows::InWsl,
        result_chars: None,
        why: "Zed's paths.rs: macOS too has it below ~/.config; the file is all of its settings",
    },
    Client {
        name: "codex",
        title: "Codex",
        format: Format::Toml,
        key: "mcp_servers",
        shape: Shape::Plain,
        linux: &[CODEX],
        macos: &[CODEX],
        project: &[".codex/config.toml"],
        programs: &["codex"],
        writing: Writing::Ours,
        windows: Windows::InWsl,
        result_chars: Some(40_000),
        why: "Codex's reference of config.toml; the file of a project counts once it is trusted; \
              it leaves out the middle of results above 10,000 tokens (codex#7906, #20260)",
    },
    Client {
        name: "gemini-cli",
        title: "Gemini CLI",
        format: Format::Json,
        key: "mcpServers",
        shape: Shape::Plain,
        linux: &[Home(".gemini/settings.json")],
        macos: &[Home(".gemini/settings.json")],
        project: &[".gemini/settings.json"],
        programs: &["gemini"],
        writing: Writing::Ours,
        windows: Windows::InWsl,
        result_chars: Some(36_000),
        why: "Gemini CLI's page on MCP servers; it leaves out a part of results above 40,000 characters (gemini-cli#18446)",
    },
    Client {
        name: "copilot-cli",
        title: "Copilot CLI",
        format: Format::Json,
        key: "mcpServers",
        shape: Shape::Copilot,
        linux: &[Home(".copilot/mcp-config.json")],
        macos: &[Home(".copilot/mcp-config.json")],
        project: &[".mcp.json"],
        programs: &["copilot"],
        writing: Writing::Ours,
        windows: Windows::InWsl,
        result_chars: Some(28_000),
        why: "GitHub's page on Copilot CLI; it takes `local` and `stdio` as types, and shares the \
              file of a project with Claude Code, which takes `stdio` only; it writes results above \
              30 KB to a file (copilot-cli#1732)",
    },
    Client {
        name: "opencode",
        title: "opencode",
        format: Format::Json,
        key: "mcp",
        shape: Shape::OpenCode,
        linux: &[Config("opencode/opencode.json"), Config("opencode/opencode.jsonc")],
        macos: &[Home(".config/opencode/opencode.json"), Home(".config/opencode/opencode.jsonc")],
        project: &["opencode.json", "opencode.jsonc"],
        programs: &["opencode"],
        writing: Writing::Ours,
        windows: Windows::InWsl,
        result_chars: Some(40_000),
        why: "opencode's page on MCP servers; it shows the first 50 KiB or 2,000 lines (opencode#22565)",
    },
    Client {
        name: "cline",
        title: "Cline",
        format: Format::Json,
        key: "mcpServers",
        shape: Shape::Plain,
        linux: &[Config(CLINE)],
        macos: &[AppSupport(CLINE)],
        project: &[],
        programs: &[],
        writing: Writing::Ours,
        windows: Windows::InWsl,
        result_chars: None,
        why: "Cline keeps it in VS Code's folder for the extension; it has no file for a project",
    },
    Client {
        name: "kiro",
        title: "Kiro",
        format: Format::Json,
        key: "mcpServers",
        shape: Shape::Plain,
        linux: &[Home(".kiro/settings/mcp.json")],
        macos: &[Home(".kiro/settings/mcp.json")],
        project: &[".kiro/settings/mcp.json"],
        programs: &["kiro"],
        writing: Writing::Ours,
        windows: Windows::InWsl,
        result_chars: None,
        why: "Kiro's page on MCP",
    },
    Client {
        name: "goose",
        title: "goose",
        format: Format::Yaml,
        key: "extensions",
        shape: Shape::Goose,
        linux: &[Config("goose/config.yaml")],
        macos: &[Home(".config/goose/config.yaml")],
        project: &[],
        programs: &["goose"],
        writing: Writing::PrintOnly("an automatic edit of YAML would lose comments and layout"),
        windows: Windows::InWsl,
        result_chars: None,
        why: "goose's page on its configuration",
    },
    Client {
        name: "antigravity",
        title: "Antigravity",
        format: Format::Json,
        key: "mcpServers",
        shape: Shape::Plain,
        linux: &[Home(".gemini/config/mcp_config.json")],
        macos: &[Home(".gemini/config/mcp_config.json")],
        project: &[],
        programs: &["antigravity"],
        writing: Writing::PrintOnly("the path of its file differs between versions"),
        windows: Windows::InWsl,
        result_chars: None,
        why: "its guides name ~/.gemini/config and ~/.gemini/antigravity",
    },
];

/// Returns the client with this name on the command line.
pub fn client(name: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete_and_in_no_others_way() {
        for (number, client) in CLIENTS.iter().enumerate() {
            assert!(client.why.len() > 15, "{}", client.name);
            assert!(!client.linux.is_empty() && !client.macos.is_empty(), "{}", client.name);
            for other in &CLIENTS[number + 1..] {
                assert_ne!(client.name, other.name);
                assert_ne!(client.linux, other.linux, "{} {}", client.name, other.name);
            }
            let is_yaml = client.format == Format::Yaml;
            assert!(!is_yaml || matches!(client.writing, Writing::PrintOnly(_)), "{}", client.name);
        }
    }
}
