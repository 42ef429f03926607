//! The places that the user's programs execute automatically: when the user enters a directory,
//! opens it in an editor or runs a git command, or when an agent starts there. A tool that may
//! write around such a place may not write to it, unless a list `fs` names it.
//!
//! Owns the only list of them. A place is a name in any directory, with everything below it. Names
//! are compared without case, because some file systems do the same.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A place that a program executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutedPlace {
    /// The name of the file or directory.
    pub name: &'static str,
    /// The program that executes it, for the user.
    pub by: &'static str,
}

const fn place(name: &'static str, by: &'static str) -> ExecutedPlace {
    ExecutedPlace { name, by }
}

const AGENT: &str = "agents, when they start in the directory";
const EDITOR: &str = "editors, when they open the directory";
const ENTERED: &str = "the shell, when it enters the directory";
const SHELL: &str = "the shell, when it starts";
const BARE: &str =
    "git, which takes a directory with this file, `objects` and `refs` for a repository";
const HOOKS: &str = "git, for a commit and other commands";
const STARTED: &str = "an interpreter or a debugger, when it starts in the directory or a home";

/// The file that makes git recognise a repository. Its name is compared with case.
const HEAD: &str = "HEAD";

/// The directory of a repository, in which tools may write everything except [`IN_GIT`].
pub const GIT: &str = ".git";

/// The places in the directory of a repository from which git takes commands.
pub const IN_GIT: &[&str] =
    &["hooks", "config", "config.worktree", "commondir", "remotes", "branches", MODULES, WORKTREES];

/// The repositories of submodules, each with hooks and a configuration.
pub(crate) const MODULES: &str = "modules";

/// The further working trees of a repository, each of which may have a configuration.
pub(crate) const WORKTREES: &str = "worktrees";

/// The places, each with the program that executes it. [`GIT`] is a further place.
pub const EXECUTED_PLACES: &[ExecutedPlace] = &[
    place(".githooks", HOOKS),
    place(".husky", HOOKS),
    place(".lefthook", HOOKS),
    place(".lefthook-local.json", HOOKS),
    place(".lefthook-local.toml", HOOKS),
    place(".lefthook-local.yaml", HOOKS),
    place(".lefthook-local.yml", HOOKS),
    place(".lefthook.json", HOOKS),
    place(".lefthook.toml", HOOKS),
    place(".lefthook.yaml", HOOKS),
    place(".lefthook.yml", HOOKS),
    place("lefthook-local.json", HOOKS),
    place("lefthook-local.toml", HOOKS),
    place("lefthook-local.yaml", HOOKS),
    place("lefthook-local.yml", HOOKS),
    place("lefthook.json", HOOKS),
    place("lefthook.toml", HOOKS),
    place("lefthook.yaml", HOOKS),
    place("lefthook.yml", HOOKS),
    place(".overcommit.yml", HOOKS),
    place(".pre-commit-config.yaml", HOOKS),
    place(HEAD, BARE),
    place(".agents", AGENT),
    place(".aider.conf.yml", AGENT),
    place(".amazonq", AGENT),
    place(".claude", AGENT),
    place(".clinerules", AGENT),
    place(".codex", AGENT),
    place(".crush", AGENT),
    place(".crush.json", AGENT),
    place(".cursor", AGENT),
    place(".factory", AGENT),
    place(".gemini", AGENT),
    place(".ikigai", AGENT),
    place(".kiro", AGENT),
    place(".mcp.json", AGENT),
    place(".opencode", AGENT),
    place(".openhands", AGENT),
    place(".qwen", AGENT),
    place(".roo", AGENT),
    place(".windsurf", AGENT),
    place("crush.json", AGENT),
    place("opencode.json", AGENT),
    place("opencode.jsonc", AGENT),
    place(".devcontainer", EDITOR),
    place(".devcontainer.json", EDITOR),
    place(".dir-locals.el", EDITOR),
    place(".dir-locals-2.el", EDITOR),
    place(".exrc", EDITOR),
    place(".helix", EDITOR),
    place(".idea", EDITOR),
    place(".nvim.lua", EDITOR),
    place(".nvimrc", EDITOR),
    place(".vimrc", EDITOR),
    place(".vscode", EDITOR),
    place(".zed", EDITOR),
    place(".envrc", ENTERED),
    place(".mise", ENTERED),
    place(".mise.local.toml", ENTERED),
    place(".mise.toml", ENTERED),
    place("mise.toml", ENTERED),
    place("mise.local.toml", ENTERED),
    place(".bash_aliases", SHELL),
    place(".bash_completion", SHELL),
    place(".bash_login", SHELL),
    place(".bash_logout", SHELL),
    place(".bash_profile", SHELL),
    place(".bashrc", SHELL),
    place(".cshrc", SHELL),
    place(".kshrc", SHELL),
    place(".login", SHELL),
    place(".mkshrc", SHELL),
    place(".profile", SHELL),
    place(".tcshrc", SHELL),
    place(".zlogin", SHELL),
    place(".zlogout", SHELL),
    place(".zprofile", SHELL),
    place(".zshenv", SHELL),
    place(".zshrc", SHELL),
    place(".gitconfig", HOOKS),
    place(".Rprofile", STARTED),
    place(".byebugrc", STARTED),
    place(".gdbinit", STARTED),
    place(".ghci", STARTED),
    place(".iex.exs", STARTED),
    place(".irbrc", STARTED),
    place(".lldbinit", STARTED),
    place(".ocamlinit", STARTED),
    place(".octaverc", STARTED),
    place(".pdbrc", STARTED),
    place(".perldb", STARTED),
    place(".pryrc", STARTED),
    place(".rdbgrc", STARTED),
    place(".rdbgrc.rb", STARTED),
];

/// Returns the place that a path in a directory equals or lies in. The path has no `..` and no
/// links.
#[must_use]
pub fn executed_place(relative: &Path) -> Option<PathBuf> {
    let mut place = PathBuf::new();
    let mut names = relative.iter();
    while let Some(name) = names.next() {
        place.push(name);
        if is(name, GIT) {
            // `.git` itself is a place, because creating it makes a repository. Inside `.git`, only
            // the listed names are places.
            let Some(inner) = names.next() else { return Some(place) };
            place.push(inner);
            if IN_GIT.iter().any(|known| is(inner, known)) {
                return Some(place);
            }
            return inner_place(place, inner, names);
        }
        let is_place = |known: &ExecutedPlace| match known.name {
            HEAD => name == HEAD,
            known => is(name, known),
        };
        if EXECUTED_PLACES.iter().any(is_place) {
            return Some(place);
        }
    }
    None
}

/// Returns the place that a path in a part of a repository equals or lies in. A link may give the
/// part a name outside of the repository. So it may not contain places, or files that would make it
/// a repository. Branch names are free.
fn inner_place<'a>(
    mut place: PathBuf,
    part: &OsStr,
    names: impl Iterator<Item = &'a OsStr>,
) -> Option<PathBuf> {
    if part == "refs" {
        return None;
    }
    for name in names {
        place.push(name);
        if part == "logs" && name == "refs" {
            return None;
        }
        let is_head = name == HEAD && part != "logs";
        let known = EXECUTED_PLACES.iter().map(|place| place.name).filter(|known| *known != HEAD);
        let mut known = known.chain(IN_GIT.iter().copied()).chain([GIT]);
        if is_head || known.any(|known| is(name, known)) {
            return Some(place);
        }
    }
    None
}

fn is(name: &OsStr, known: &str) -> bool {
    name.eq_ignore_ascii_case(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_known_by_the_first_place_on_it() {
        let place = |path: &str| executed_place(Path::new(path)).map(|it| it.display().to_string());
        for (path, expected) in [
            (".git", ".git"),
            (".git/hooks/pre-commit", ".git/hooks"),
            ("a/b/.GIT/Config", "a/b/.GIT/Config"),
            (".git/modules/x/config", ".git/modules"),
            (".vscode/tasks.json", ".vscode"),
            ("a/.claude/hooks/x.sh", "a/.claude"),
            (".mcp.json", ".mcp.json"),
            ("sub/HEAD", "sub/HEAD"),
            (".git/x/HEAD", ".git/x/HEAD"),
            (".git/x/.vscode/tasks.json", ".git/x/.vscode"),
            (".git/logs/config", ".git/logs/config"),
            ("sub/.ENVRC", "sub/.ENVRC"),
            ("sub/.Ghci", "sub/.Ghci"),
            (".qwen/settings.json", ".qwen"),
            ("crush.json", "crush.json"),
        ] {
            assert_eq!(place(path).as_deref(), Some(expected), "{path}");
        }
        for free in [
            "",
            "a",
            ".git/index",
            ".git/refs/heads/config",
            ".github/workflows/ci.yml",
            "vscode",
            "head",
            ".git/HEAD",
            ".git/logs/HEAD",
            ".git/logs/refs/heads/config",
        ] {
            assert_eq!(place(free), None, "{free}");
        }
    }

    #[test]
    fn every_place_is_listed_once_and_says_who_executes_it() {
        for (at, place) in EXECUTED_PLACES.iter().enumerate() {
            assert!(!place.by.is_empty() && place.name != GIT, "{place:?}");
            let mut others = EXECUTED_PLACES[at + 1..].iter();
            assert!(others.all(|other| !is(OsStr::new(other.name), place.name)), "{place:?}");
        }
    }
}
