//! The clients: the places of their files, the form of an entry, and the remaining steps for the
//! user.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::{ServerEntry, home, set};
use crate::variables::ProgramVariable;

/// A client with a file for its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientProgram {
    /// Claude Code: ~/.claude.json, or .mcp.json of the project
    ClaudeCode,
    /// Codex: ~/.codex/config.toml, or .codex/config.toml of the project
    Codex,
    /// Visual Studio Code: mcp.json of the user's profile, or .vscode/mcp.json
    #[value(name = "vscode")]
    VsCode,
    /// Cursor: ~/.cursor/mcp.json, or .cursor/mcp.json of the project
    Cursor,
    /// Claude Desktop: its claude_desktop_config.json
    ClaudeDesktop,
    /// opencode: ~/.config/opencode/opencode.json, or opencode.json of the project
    #[value(name = "opencode")]
    OpenCode,
    /// Gemini CLI: ~/.gemini/settings.json, or .gemini/settings.json of the project
    GeminiCli,
    /// Qwen Code: ~/.qwen/settings.json, or .qwen/settings.json of the project
    QwenCode,
    /// Cline in Visual Studio Code: its cline_mcp_settings.json
    Cline,
    /// Continue: ~/.continue/mcpServers/ikigai.json
    Continue,
    /// Zed: ~/.config/zed/settings.json
    Zed,
    /// Windsurf: ~/.codeium/windsurf/mcp_config.json
    Windsurf,
}

/// The range of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EntryScope {
    /// All of your projects
    User,
    /// The project in the workspace
    Project,
}

impl ClientProgram {
    /// Returns the workspace for a server that the client starts in the directory of a project.
    /// Returns `None` if the client starts servers elsewhere and has no variable for the directory.
    pub(crate) fn workspace(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode | Self::Codex | Self::OpenCode | Self::GeminiCli | Self::QwenCode => {
                Some(".")
            }
            Self::VsCode | Self::Cursor => Some("${workspaceFolder}"),
            Self::ClaudeDesktop | Self::Cline | Self::Continue | Self::Zed | Self::Windsurf => None,
        }
    }

    /// Returns the file with the servers of this scope.
    pub(crate) fn file(self, scope: EntryScope, project: &Path) -> anyhow::Result<PathBuf> {
        if scope == EntryScope::Project {
            return Ok(project.join(match self {
                Self::ClaudeCode => ".mcp.json",
                Self::Codex => ".codex/config.toml",
                Self::VsCode => ".vscode/mcp.json",
                Self::Cursor => ".cursor/mcp.json",
                Self::OpenCode => "opencode.json",
                Self::GeminiCli => ".gemini/settings.json",
                Self::QwenCode => ".qwen/settings.json",
                Self::ClaudeDesktop
                | Self::Cline
                | Self::Continue
                | Self::Zed
                | Self::Windsurf => bail!(
                    "this client starts servers outside of the project, so an entry that a project \
                     shares cannot specify the directory; leave out `--scope project`"
                ),
            }));
        }
        let home = home().context("HOME is not set")?;
        let config = || set(ProgramVariable::XdgConfigHome).unwrap_or_else(|| home.join(".config"));
        let applications = if cfg!(target_os = "macos") {
            home.join("Library/Application Support")
        } else {
            config()
        };
        Ok(match self {
            Self::ClaudeCode => {
                set(ProgramVariable::ClaudeConfigDir).unwrap_or(home).join(".claude.json")
            }
            Self::Codex => {
                let own = set(ProgramVariable::CodexHome);
                own.unwrap_or_else(|| home.join(".codex")).join("config.toml")
            }
            Self::VsCode => applications.join("Code/User/mcp.json"),
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::ClaudeDesktop => applications.join("Claude/claude_desktop_config.json"),
            Self::OpenCode => config().join("opencode/opencode.json"),
            Self::GeminiCli => home.join(".gemini/settings.json"),
            Self::QwenCode => home.join(".qwen/settings.json"),
            Self::Cline => applications.join(
                "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            ),
            Self::Continue => home.join(".continue/mcpServers/ikigai.json"),
            Self::Zed => config().join("zed/settings.json"),
            Self::Windsurf => home.join(".codeium/windsurf/mcp_config.json"),
        })
    }

    /// Returns the member of a JSON file that contains the servers.
    pub(super) fn servers(self) -> &'static str {
        match self {
            Self::VsCode => "servers",
            Self::OpenCode => "mcp",
            Self::Zed => "context_servers",
            _ => "mcpServers",
        }
    }

    /// Returns the members of an entry in a JSON file. Most clients that have their own time limit
    /// for calls read the limit from the entry.
    pub(super) fn members(self, entry: &ServerEntry) -> Map<String, Value> {
        let ServerEntry { command, args, seconds } = entry;
        let (command, args) = (json!(command), json!(args));
        let members = match self {
            Self::OpenCode => {
                let all = std::iter::once(&entry.command).chain(&entry.args);
                let line: Vec<&String> = all.collect();
                json!({ "type": "local", "command": line, "timeout": seconds * 1000 })
            }
            Self::VsCode => json!({ "type": "stdio", "command": command, "args": args }),
            Self::GeminiCli | Self::QwenCode => {
                json!({ "command": command, "args": args, "timeout": seconds * 1000 })
            }
            Self::Cline => json!({ "command": command, "args": args, "timeout": seconds }),
            _ => json!({ "command": command, "args": args }),
        };
        let Value::Object(members) = members else { return Map::new() };
        members
    }

    /// Returns what the user has to do or know after the entry was written, as whole sentences.
    pub(crate) fn next_steps(self, scope: EntryScope) -> Vec<&'static str> {
        let is_shared = scope == EntryScope::Project;
        let mut steps = Vec::new();
        match self {
            Self::ClaudeCode if is_shared => steps.push(
                "Start `claude` once in the project and accept the server. Until then, Claude Code does not use it.",
            ),
            Self::Codex if is_shared => {
                steps.push("Codex reads this file once you trust the project. It asks when it starts.");
            }
            Self::GeminiCli if is_shared => steps.push(
                "Start `gemini` once in the project and trust the folder. Until then, Gemini CLI ignores this file, \
                 the server and every rule in it, without a message.",
            ),
            _ => {}
        }
        steps.extend(self.own_shell());
        match self {
            Self::ClaudeCode => steps.push(
                "`claude -p` does not ask you. It refuses the tools unless you add --allowedTools mcp__ikigai.",
            ),
            Self::Codex => steps.push(
                "Codex asks before each call, and `codex exec` refuses every call, unless the entry has \
                 default_tools_approval_mode = \"approve\".",
            ),
            Self::GeminiCli => steps.push(
                "`gemini -p` does not ask you. It offers ikigai's tools only with the second rule. With that rule, \
                 Gemini CLI never asks about them; ikigai's policy decides.",
            ),
            Self::QwenCode => steps.push(
                "`qwen -p` does not ask you. It refuses ikigai's tools unless `allow` lists them. With `allow`, Qwen \
                 Code never asks about them; ikigai's policy decides.",
            ),
            _ => {}
        }
        steps
    }

    /// Returns the step that disables the client's own shell, if it has one.
    fn own_shell(self) -> Option<&'static str> {
        Some(match self {
            Self::ClaudeCode => {
                "Claude Code's own Bash still runs outside of the sandbox. To allow only ikigai's bash, add \
                 {\"permissions\":{\"deny\":[\"Bash\",\"Monitor\",\"PowerShell\"]}} to .claude/settings.json."
            }
            Self::Codex => {
                "Codex's own shell still runs in Codex's sandbox. To allow only ikigai's bash, add \
                 `shell_tool = false` to [features] in the same file."
            }
            Self::OpenCode => {
                "opencode's own bash still runs outside of the sandbox. To allow only ikigai's bash, add \
                 {\"permission\":{\"bash\":\"deny\"}} to the same file."
            }
            Self::GeminiCli => GEMINI_RULES,
            Self::QwenCode => {
                "Qwen Code's own shell still runs outside of the sandbox. To allow only ikigai's bash, add \
                 {\"permissions\":{\"deny\":[\"run_shell_command\"],\"allow\":[\"mcp__ikigai\"]}} to the same file."
            }
            Self::Zed => {
                "Zed's own `terminal` still runs outside of the sandbox. To allow only ikigai's bash, turn it off \
                 in the agent's profile."
            }
            Self::VsCode | Self::Cursor | Self::Cline | Self::Continue | Self::Windsurf => {
                "The client's own terminal still runs outside of the sandbox. To allow only ikigai's bash, turn it \
                 off in the client's settings."
            }
            Self::ClaudeDesktop => return None,
        })
    }
}

/// The step about the rules that deny Gemini CLI's own shell and allow ikigai's tools. The rules
/// are in the user's own file, because Gemini CLI ignores rules in a folder that it does not trust.
const GEMINI_RULES: &str = r#"Gemini CLI's own shell still runs outside of the sandbox. To allow only ikigai's bash, put these rules into
  ~/.gemini/policies/ikigai.toml:

  [[rule]]
  toolName = "run_shell_command"
  decision = "deny"
  priority = 200

  [[rule]]
  mcpName = "ikigai"
  toolName = "*"
  decision = "allow"
  priority = 200
"#;
