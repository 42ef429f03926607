//! The hints for denials, for limits that ended a call, and for things that a call lacks on this
//! machine, with the commands and flags of this program. The host only gives a remedy as data, and
//! puts these sentences into envelopes and into its log.

use std::slice;
use std::time::Duration;

use ikigai_host::policy::{AssetAccess, LimitKey, Permissions, Remedy, shell_quoted};
use ikigai_protocol::Access;

/// Returns the command that shows tools of a server and approves them, without a question if
/// `is_sure`. No name means all tools.
pub(crate) fn approve_command(server: &str, tools: &[String], is_sure: bool) -> String {
    let words: String = tools.iter().map(|tool| format!(" {}", shell_quoted(tool))).collect();
    let yes = if is_sure { " --yes" } else { "" };
    // The server chooses the names of its tools, and one may look like a flag.
    if tools.iter().any(|tool| tool.starts_with('-')) {
        format!("ikigai mcp approve {server}{yes} --{words}")
    } else {
        format!("ikigai mcp approve {server}{words}{yes}")
    }
}

/// Returns the remedy as a sentence without a full stop.
pub(crate) fn sentence(remedy: &Remedy) -> String {
    match remedy {
        Remedy::GrantAgain { tool } => {
            format!("if the change is yours: `ikigai policy grant {tool}`")
        }
        Remedy::BindEntry { tool } => {
            format!("`ikigai policy grant {tool}` updates the entry for this file")
        }
        Remedy::BindAndConfine { tool } => {
            format!("`ikigai policy grant {tool}` binds it to the present contents of its file")
        }
        Remedy::RequireSandbox { tool } => {
            format!("`ikigai policy grant {tool} --sandbox require` sandboxes it")
        }
        Remedy::GrantToRun { tool } => format!(
            "`ikigai policy grant {tool}` lets it run in the sandbox; --read, --write, --net and \
             --env let it touch something"
        ),
        Remedy::AddEntry { tool } => {
            format!("an entry lets it run: `ikigai policy grant {tool}`")
        }
        Remedy::RunUnconfined { tool } => format!(
            "`ikigai policy grant {tool} --unconfined` lets it run with all of your rights instead"
        ),
        Remedy::InstallAsTool => "a tool in ~/.ikigai/tools can be granted something".to_owned(),
        Remedy::AllowNative { tool } => format!(
            "`ikigai policy grant {tool} --backend native` allows its native build, sandboxed"
        ),
        Remedy::GrantReading { tool, dir } => format!(
            "`ikigai policy grant {tool} --read {}` lets it read there",
            shell_quoted(&dir.to_string_lossy())
        ),
        Remedy::GrantDirs { tool, dirs } => {
            let permissions = Permissions { dirs: dirs.clone(), ..Permissions::default() };
            format!("`{}` lets it look there", command(tool, &permissions))
        }
        Remedy::GrantToolchains { tool, toolchains } => {
            let command = with_toolchains(tool, toolchains);
            format!("`{command}` lets it use the whole toolchain")
        }
        Remedy::WidenByToolchains { tool, toolchains } => with_toolchains(tool, toolchains),
        Remedy::GrantPeers { tool } => {
            format!("`ikigai policy grant {tool} --net HOST:PORT` lets it connect to a host")
        }
        Remedy::GrantMore { tool } => {
            format!("`ikigai policy grant {tool}` lets it touch more")
        }
        // A duration or a size in several words would need quotes.
        Remedy::AllowTime { tool, time } => {
            let time = humantime::format_duration(*time).to_string().replace(' ', "");
            format!("`ikigai policy grant {tool} --limit wall_clock={time}` allows longer")
        }
        Remedy::AllowMemory { tool, bytes } => {
            let size = bytes.div_ceil(1 << 20);
            format!("`ikigai policy grant {tool} --limit memory={size}MiB` allows more")
        }
        Remedy::GrantServer { server } => {
            format!("`ikigai mcp approve {server}` shows what it is now, and grants it again")
        }
        Remedy::ApproveTool { server, tool } => {
            let command = approve_command(server, slice::from_ref(tool), false);
            format!("`{command}` shows and approves it")
        }
        Remedy::LogIn { server, scope } => match scope {
            None => format!("`ikigai mcp login {server}` logs in"),
            Some(scope) => format!(
                "`ikigai mcp login {server} --scope {}` logs in for more",
                shell_quoted(scope)
            ),
        },
        // Users see it as a command, and scripts run it.
        Remedy::Widen { tool, permissions } => command(tool, permissions),
        Remedy::AskPerson => {
            "call it at a terminal, or from a client of `ikigai mcp serve` that can \
                              ask its user; or change `approve`"
                .to_owned()
        }
        Remedy::WatchAtTerminal { tool } => format!(
            "`ikigai tool call {tool}` at a terminal sees the files that the sandbox refuses, and \
             asks about them"
        ),
        Remedy::ChooseWorkspace => "choose a directory below it with --workspace".to_owned(),
        Remedy::NamePolicyFile => "specify a file with --policy".to_owned(),
        Remedy::InspectSandbox => "run `ikigai doctor` to see what this machine lacks".to_owned(),
        Remedy::InspectAuditLog => "`ikigai doctor` says what to do".to_owned(),
    }
}

/// Returns the command that adds these permissions to the tool's grant.
pub(crate) fn command(tool: &str, permissions: &Permissions) -> String {
    let mut words = vec![format!("ikigai policy grant {tool}")];
    words.extend(flags(permissions));
    words.join(" ")
}

fn with_toolchains(tool: &str, toolchains: &[String]) -> String {
    let flags = toolchains.iter().map(|name| format!(" --toolchain {name}"));
    format!("ikigai policy grant {tool}{}", flags.collect::<String>())
}

/// Returns the flags of `policy grant` for these permissions.
pub(crate) fn flags(permissions: &Permissions) -> Vec<String> {
    let Permissions { dirs, net, env, assets } = permissions;
    let mut words = Vec::new();
    for (access, dir) in dirs {
        let flag = if *access == Access::ReadOnly { "--read" } else { "--write" };
        words.push(format!("{flag} {}", shell_quoted(dir)));
    }
    let any = net.any.then(|| "*".to_owned());
    let peers = net.peers.iter().map(ToString::to_string);
    words.extend(any.into_iter().chain(peers).map(|peer| format!("--net {}", shell_quoted(&peer))));
    words.extend(env.iter().map(|name| format!("--env {}", shell_quoted(name))));
    if *assets != AssetAccess::None {
        words.push(format!("--assets {assets}"));
    }
    words
}

/// Returns the flag for a limit, in the unit of its key.
pub(crate) fn limit_flag(key: LimitKey, value: u64) -> String {
    format!("--limit {}", shell_quoted(&format!("{}={}", key.as_str(), limit_value(key, value))))
}

/// Returns the value of a limit as a person writes it.
pub(crate) fn limit_value(key: LimitKey, value: u64) -> String {
    match key {
        LimitKey::WallClock => humantime::format_duration(Duration::from_nanos(value)).to_string(),
        LimitKey::Memory | LimitKey::Output => format!("{value}B"),
        LimitKey::Fuel | LimitKey::Handles | LimitKey::Processes => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ikigai_host::policy::Net;

    use super::*;

    #[test]
    fn a_tool_whose_name_looks_like_a_flag_is_no_flag_of_the_command() {
        let command = |tools: &[&str], is_sure| {
            let tools: Vec<String> = tools.iter().map(|tool| (*tool).to_owned()).collect();
            approve_command("docs", &tools, is_sure)
        };
        assert_eq!(command(&["a", "-x"], false), "ikigai mcp approve docs -- a -x");
        assert_eq!(command(&["--yes"], true), "ikigai mcp approve docs --yes -- --yes");
        assert_eq!(command(&["a", "b c"], true), "ikigai mcp approve docs a 'b c' --yes");
        assert_eq!(command(&[], true), "ikigai mcp approve docs --yes");
    }

    #[test]
    fn every_remedy_as_it_is_shown() {
        let tool = || "tool".to_owned();
        let permissions = Permissions {
            dirs: vec![(Access::ReadOnly, "docs".into()), (Access::ReadWrite, "my files".into())],
            net: Net::parse(["*", "db.internal:5432"]).expect("a list"),
            env: vec!["DB".to_owned()],
            assets: AssetAccess::Read,
        };
        let remedies = [
            Remedy::GrantAgain { tool: tool() },
            Remedy::Widen { tool: tool(), permissions },
            Remedy::BindEntry { tool: tool() },
            Remedy::BindAndConfine { tool: tool() },
            Remedy::RequireSandbox { tool: tool() },
            Remedy::GrantToRun { tool: tool() },
            Remedy::AddEntry { tool: tool() },
            Remedy::RunUnconfined { tool: tool() },
            Remedy::InstallAsTool,
            Remedy::AllowNative { tool: tool() },
            Remedy::GrantReading { tool: tool(), dir: PathBuf::from("/it's") },
            Remedy::GrantDirs { tool: tool(), dirs: vec![(Access::ReadOnly, "/my files".into())] },
            Remedy::GrantToolchains { tool: tool(), toolchains: vec!["rust".to_owned()] },
            Remedy::WidenByToolchains { tool: tool(), toolchains: vec!["go".to_owned()] },
            Remedy::GrantPeers { tool: tool() },
            Remedy::GrantMore { tool: tool() },
            Remedy::AllowTime { tool: tool(), time: Duration::from_secs(150) },
            Remedy::AllowMemory { tool: tool(), bytes: 4 << 30 },
            Remedy::GrantServer { server: "files".to_owned() },
            Remedy::ApproveTool { server: "files".to_owned(), tool: "read file".to_owned() },
            Remedy::LogIn { server: "docs".to_owned(), scope: None },
            Remedy::LogIn { server: "docs".to_owned(), scope: Some("read write".to_owned()) },
            Remedy::AskPerson,
            Remedy::WatchAtTerminal { tool: tool() },
            Remedy::ChooseWorkspace,
            Remedy::NamePolicyFile,
            Remedy::InspectSandbox,
            Remedy::InspectAuditLog,
        ];
        insta::assert_snapshot!(remedies.iter().map(sentence).collect::<Vec<_>>().join("\n"));
    }
}
