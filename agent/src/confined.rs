//! Remarks for the user if a `bash` command failed because of its sandbox. Few users know that
//! `bash` has one, and `cargo: command not found` sounds as if the machine lacked the program.
//!
//! Owns the signs of such failures in an output. A sign proves nothing, since a command prints what
//! it likes. So a remark says that a program is hidden only after ikigai found it in a directory of
//! `PATH` that the sandbox leaves out. It names a command that would allow more only if the policy
//! would agree to it. It says nothing about files: if a model asks for a key in the home directory,
//! ikigai must not recommend that the user grant it.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use ikigai_host::host::{CallTarget, Host, request};
use ikigai_host::policy::{Backend, Decision, NewKey, NewValue, Remedy, ToolOrigin};
use ikigai_host::registry::{Snapshot, Tool};
use ikigai_host::toolchain::{ToolchainOffer, missing_program};
use ikigai_protocol::{Access, GrantedDir};
use serde_json::Value;

use crate::called::FinishedCall;

/// The built-in shell.
pub(super) const SHELL: &str = "bash";

/// The messages, in lower case, of programs that cannot resolve a name or have no route to a
/// network. They come from curl and git, glibc, the kernel and Node.
const NO_NETWORK: [&str; 5] = [
    "could not resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "network is unreachable",
    "eai_again",
];

/// The remarks that were made in a conversation. Each is made once.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    on_programs: AtomicBool,
    on_network: AtomicBool,
}

/// Returns the remarks on the sandbox after a call of the shell, without those that were `made`.
pub(super) fn remarks(
    host: &Host,
    made: &Remarks,
    snapshot: &Snapshot,
    called: &FinishedCall,
) -> Vec<String> {
    let Remarks { on_programs, on_network } = made;
    let is_open = |made: &AtomicBool| !made.load(Ordering::Relaxed);
    if called.name != SHELL || !(is_open(on_programs) || is_open(on_network)) {
        return Vec::new();
    }
    let shell = snapshot.get(SHELL).filter(|tool| tool.origin == ToolOrigin::System);
    let (Some(shell), Some(output)) = (shell, output(&called.content)) else { return Vec::new() };
    let Ok(decision) = host.decide(shell.into()) else { return Vec::new() };
    if decision.is_unconfined(shell.build.backend()) {
        return Vec::new();
    }
    let call = Confined { host, shell, decision: &decision };
    let program = is_open(on_programs).then(|| call.on_programs(&output)).flatten();
    let network = is_open(on_network).then(|| call.on_network(&output)).flatten();
    for (made, remark) in [(on_programs, &program), (on_network, &network)] {
        made.fetch_or(remark.is_some(), Ordering::Relaxed);
    }
    [program, network].into_iter().flatten().collect()
}

/// Returns the command's output from the envelope: all of it if the command ended on its own, or
/// the beginning if it was killed.
fn output(envelope: &str) -> Option<String> {
    let envelope: Value = serde_json::from_str(envelope).ok()?;
    let output = envelope["result"]["output"].as_str().or_else(|| envelope["stdout"].as_str());
    // If a command was killed, `stdout` has the beginning of its JSON.
    output.map(|text| text.replace("\\n", "\n"))
}

/// The shell, and the grant that it has.
struct Confined<'a> {
    host: &'a Host,
    shell: &'a Tool,
    decision: &'a Decision,
}

impl Confined<'_> {
    fn on_programs(&self, output: &str) -> Option<String> {
        let names: BTreeSet<&str> = output.lines().filter_map(missing_program).collect();
        let path = env::var_os("PATH").unwrap_or_default();
        let find = |name: &&str| {
            env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
        };
        let (name, program) = names.iter().find_map(|name| Some((name, find(name)?)))?;
        if self.shell.build.backend() == Backend::Wasm {
            return Some(format!(
                "`{name}` is a program of this machine, and {SHELL} is a shell inside WebAssembly, \
                 which runs none of them"
            ));
        }
        let home = self.host.registry().paths().home.as_deref()?;
        let dirs = self.hidden(&program, home)?;
        let hint = self.hint_of_toolchain(name, &program).or_else(|| self.hint_of_dirs(dirs));
        Some(with_hint(
            format!(
                "{SHELL} runs in a sandbox without your home directory, and does not see `{}`",
                program.display()
            ),
            hint,
        ))
    }

    /// Returns the directories in the home directory that a program needs, if the sandbox hides it.
    /// The program may need others too.
    fn hidden(&self, program: &Path, home: &Path) -> Option<Vec<PathBuf>> {
        // The home directory may itself be behind a link.
        let home = &home.canonicalize().ok()?;
        let program = program.parent()?.canonicalize().ok()?.join(program.file_name()?);
        let real = program.canonicalize().ok()?;
        let is_seen = |path: &Path| {
            !path.starts_with(home)
                || self.decision.grant.dirs.iter().any(|dir| path.starts_with(&dir.path))
        };
        if is_seen(&program) && is_seen(&real) {
            return None;
        }
        let dirs = [&program, &real].map(|it| root(it, home));
        let mut needed: Vec<PathBuf> = Vec::new();
        for dir in dirs {
            if !is_seen(&dir) && dir.is_dir() && !needed.iter().any(|it| dir.starts_with(it)) {
                needed.push(dir);
            }
        }
        Some(needed)
    }

    /// Returns the sentence that grants the shell a program's toolchain, if the program belongs to
    /// one and the policy would allow all of it.
    fn hint_of_toolchain(&self, name: &str, program: &Path) -> Option<String> {
        let authority = self.host.authority();
        let contents = [self.shell.build.digest];
        let request = request(CallTarget::from(self.shell), &contents);
        let (paths, programs) = ([program.to_owned()], BTreeSet::from([name]));
        let offer = ToolchainOffer::find(&paths, &programs, authority, &request)?;
        let toolchains = offer.found.iter().map(|found| found.toolchain.name.to_owned()).collect();
        let tool = self.shell.name().to_owned();
        authority.hint(&Remedy::GrantToolchains { tool, toolchains })
    }

    /// Returns the sentence that lets the shell read these directories as well, if the policy would
    /// allow that.
    fn hint_of_dirs(&self, dirs: Vec<PathBuf>) -> Option<String> {
        let authority = self.host.authority();
        let workspace = authority.workspace();
        let as_written = |path: &Path| match path.strip_prefix(workspace) {
            Ok(inner) if inner == Path::new("") => Some(".".to_owned()),
            Ok(inner) => inner.to_str().map(str::to_owned),
            Err(_) => path.to_str().map(str::to_owned),
        };
        let has = self.decision.grant.dirs.iter();
        let has =
            has.map(|dir| Some(format!("{}:{}", dir.access.as_str(), as_written(&dir.path)?)));
        let mut rules: Vec<String> = has.collect::<Option<_>>()?;
        let new: Vec<String> = dirs.iter().map(|path| as_written(path)).collect::<Option<_>>()?;
        rules.extend(new.iter().map(|dir| format!("ro:{dir}")));
        let decision = self.with(("fs".to_owned(), NewValue::List(rules)))?;
        let is_granted = |path: &PathBuf| {
            let is_it = |dir: &GrantedDir| dir.path == *path;
            decision.grant.dirs.iter().any(is_it)
        };
        let is_enough = !dirs.is_empty() && dirs.iter().all(is_granted);
        let new = new.into_iter().map(|dir| (Access::ReadOnly, dir)).collect();
        let remedy = Remedy::GrantDirs { tool: self.shell.name().to_owned(), dirs: new };
        is_enough.then(|| authority.hint(&remedy)).flatten()
    }

    fn on_network(&self, output: &str) -> Option<String> {
        // If the shell was granted hosts, the envelope already lists the hosts that were refused.
        if !self.decision.grant.net.is_none() || self.shell.build.backend() == Backend::Wasm {
            return None;
        }
        let output = output.to_lowercase();
        let sign = NO_NETWORK.iter().find(|sign| output.contains(**sign))?;
        let all = NewValue::List(vec!["*".to_owned()]);
        let is_allowed = self.with(("net".to_owned(), all)).is_some_and(|it| it.grant.net.any);
        let remedy = Remedy::GrantPeers { tool: self.shell.name().to_owned() };
        let hint = is_allowed.then(|| self.host.authority().hint(&remedy)).flatten();
        let text = format!(
            "{SHELL} runs in a sandbox without a network, and the output of a command has \
             \"{sign}\""
        );
        Some(with_hint(text, hint))
    }

    /// Decides on the shell as if the user's policy had this key.
    fn with(&self, key: NewKey) -> Option<Decision> {
        let authority = self.host.authority();
        let proposal = authority.propose_grant(self.shell.name(), &[key]).ok()?;
        let contents = [self.shell.build.digest];
        authority.decide_with(&proposal, &request(CallTarget::from(self.shell), &contents)).ok()
    }
}

fn with_hint(text: String, hint: Option<String>) -> String {
    match hint {
        Some(hint) => format!("{text}; {hint}"),
        None => text,
    }
}

/// Returns the directory in the home directory that contains everything of a program: the parent of
/// its `bin`. If that parent is the home directory itself, or has secrets next to programs, such as
/// the tokens in `~/.cargo`, returns only the `bin`.
fn root(program: &Path, home: &Path) -> PathBuf {
    let dir = program.parent().unwrap_or(program);
    let around = dir.parent().filter(|_| dir.file_name().is_some_and(|name| name == "bin"));
    let is_shared = |around: &Path| {
        !around.starts_with(home)
            || [home.to_owned(), home.join(".local"), home.join(".cargo")].contains(&around.into())
    };
    match around {
        Some(around) if !is_shared(around) => around.to_owned(),
        _ => dir.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_belongs_to_the_directory_around_its_bin() {
        let home = Path::new("/home/u");
        for (program, dir) in [
            (".nvm/versions/node/v22/bin/node", ".nvm/versions/node/v22"),
            (".cargo/bin/cargo", ".cargo/bin"),
            (".local/bin/uv", ".local/bin"),
            ("bin/mine", "bin"),
            (".pyenv/shims/python", ".pyenv/shims"),
        ] {
            assert_eq!(root(&home.join(program), home), home.join(dir), "{program}");
        }
        assert_eq!(root(Path::new("/home/bin/x"), home), Path::new("/home/bin"));
    }

    #[test]
    fn the_output_of_a_command_that_was_ended_counts() {
        let ended = r#"{"tool_success":true,"result":{"output":"a\nb","exit_code":1}}"#;
        assert_eq!(output(ended).as_deref(), Some("a\nb"));
        let cut = r#"{"tool_success":false,"error":"","stdout":"{\"output\":\"a\\nb"}"#;
        assert_eq!(output(cut).as_deref(), Some("{\"output\":\"a\nb"));
        assert_eq!(output("no JSON"), None);
    }
}
