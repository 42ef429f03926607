//! The modules of a crate that a module may use, checked in the sources.
//!
//! Paths are found in `use`, with its braces, and inside expressions, from `crate::` or `super::`.
//! Comments and strings do not count. The output of macros is not checked.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A crate whose modules have an order.
pub(crate) struct Crate {
    /// The folder of its package.
    pub(crate) folder: &'static str,
    /// The crate's modules, from low to high. Modules in one row are independent of each other. A
    /// module may use modules of lower rows.
    layers: &'static [&'static [&'static str]],
    /// The program, or the list of modules. It is above everything.
    top: &'static str,
}

pub(crate) const HOST: Crate = Crate {
    folder: "host",
    layers: &[
        &["limits", "nearest", "paths", "reactor"],
        &["toml_file"],
        &["policy"],
        &["toolchain"],
        &["consent"],
        &["front_end"],
        &["exec"],
        &["audit", "registry"],
        &["host"],
    ],
    top: "lib",
};

pub(crate) const PROGRAM: Crate = Crate {
    folder: "cli",
    layers: &[
        &["user_command", "variables"],
        &[
            "choice",
            "config",
            "credentials",
            "decision",
            "end_signals",
            "error",
            "own_editor",
            "person",
            "progress",
            "remedy",
        ],
        &["approval", "kept", "servers"],
        &["output"],
        &["notice", "shipping"],
        &["model", "options"],
        &["repl"],
        &["help", "logging", "tool_flags"],
        &["layers"],
        &["complete", "mcp"],
        &["commands"],
    ],
    top: "main",
};

pub(crate) const ASSETS: Crate = Crate {
    folder: "assets",
    layers: &[
        &["agent", "capacity", "path", "store_url", "tokens"],
        &["budget", "references"],
        &["asset"],
        &["session"],
        &["damage"],
        &["error", "options"],
        &["backoff"],
        &["database"],
        &["store"],
    ],
    top: "lib",
};

pub(crate) const SUPERVISOR: Crate = Crate {
    folder: "supervisor",
    layers: &[
        &[
            "base_view",
            "clone",
            "core_dumps",
            "filesystems",
            "filter",
            "isolation",
            "lookup",
            "privileges",
            "process_tree",
            "shebang",
            "signals",
            "user_watches",
        ],
        &["kernel_memory", "listener", "mounts", "plan"],
        &["cgroup", "hidden", "identity", "loopback", "overlay", "reaper", "request", "view"],
        &["domain", "installation", "launch", "namespace", "observer", "root"],
        &["connections"],
        &["notices"],
        &["layers", "selection", "watch"],
        &["sandbox"],
        &["serve"],
        // The program, which uses the library.
        &["main"],
    ],
    top: "lib",
};

/// Reads all sources below `root`, by their path relative to it.
pub(crate) fn read(root: &Path) -> BTreeMap<String, String> {
    let mut sources = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).expect("below the root");
                let text = fs::read_to_string(&path).expect("a source in UTF-8");
                sources.insert(name.to_str().expect("a name in UTF-8").to_owned(), text);
            }
        }
    }
    sources
}

/// Returns every use that goes up or sideways, and every module without a layer.
pub(crate) fn wrong_arrows(of: &Crate, sources: &BTreeMap<String, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, text) in sources {
        let place: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
        let module = place[0];
        if module == of.top {
            continue;
        }
        let Some(layer) = of.layer(module) else {
            wrong.push(format!(
                "`{module}` has no place in the architecture: give it a row in \
                 tests/tests/architecture/modules.rs"
            ));
            continue;
        };
        for (line, used) in uses(text, place.len()) {
            let is_wrong = used != module && of.layer(&used).is_some_and(|other| other >= layer);
            if is_wrong {
                wrong.push(format!("{path}:{line}: `{module}` must not use `{used}`"));
            }
        }
    }
    wrong.dedup();
    wrong
}

/// Returns the rows that no source belongs to: modules that were removed, or are misspelt.
pub(crate) fn stale_rows(of: &Crate, sources: &BTreeMap<String, String>) -> Vec<&'static str> {
    let is_there = |module: &str| {
        sources.keys().any(|path| {
            path.strip_prefix(module).is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
        })
    };
    let known = of.layers.iter().copied().flatten().copied().chain([of.top]);
    known.filter(|module| !is_there(module)).collect()
}

impl Crate {
    fn layer(&self, module: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.contains(&module))
    }
}

/// Returns the top-level modules that a source names, with their lines. `depth` is the number of
/// `super` that lead from it to the crate.
///
/// In a module inside the file (`mod tests`), which is one level deeper, `super::super` counts as
/// one step too many. The name after it does not match a top-level module, unless by chance.
fn uses(text: &str, depth: usize) -> Vec<(usize, String)> {
    let tokens = tokens(text);
    let word = |at: usize| tokens.get(at).map_or("", |(_, token)| token.as_str());
    let mut uses = Vec::new();
    for at in 0..tokens.len() {
        let mut next = at;
        let mut supers = 0;
        while word(next) == "super" && word(next + 1) == "::" {
            supers += 1;
            next += 2;
        }
        let from_crate = word(at) == "crate" && word(at + 1) == "::";
        let previous = if at == 0 { "" } else { word(at - 1) };
        let is_head = previous != "::";
        if from_crate && is_head {
            next += 2;
        } else if supers != depth || previous == "::" {
            continue;
        }
        uses.extend(first_names(&tokens[next..]));
    }
    uses
}

/// Returns the names that a path starts with: one, or each at the top level of braces.
fn first_names(tokens: &[(usize, String)]) -> Vec<(usize, String)> {
    let Some((line, first)) = tokens.first() else { return Vec::new() };
    if first != "{" {
        return vec![(*line, first.clone())];
    }
    let mut names = Vec::new();
    let mut depth = 0;
    let mut at_start = true;
    for (line, token) in tokens {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," => at_start = true,
            _ => {
                if depth == 1 && at_start {
                    names.push((*line, token.clone()));
                }
                at_start = false;
            }
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// Splits a source into words, `::` and single other characters, with their lines. Comments and
/// strings are left out.
fn tokens(text: &str) -> Vec<(usize, String)> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, token) = match first {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), None),
            '"' => (string(rest), None),
            ':' if rest.starts_with("::") => (2, Some("::")),
            _ if first.is_alphanumeric() || first == '_' => {
                let is_end = |c: char| !(c.is_alphanumeric() || c == '_');
                let length = rest.find(is_end).unwrap_or(rest.len());
                (length, Some(&rest[..length]))
            }
            // A quote in a character literal would open a string.
            '\'' if rest.starts_with("'\"'") => (3, None),
            _ if first.is_whitespace() => (first.len_utf8(), None),
            _ => (first.len_utf8(), Some(&rest[..first.len_utf8()])),
        };
        if let Some(token) = token {
            tokens.push((line, token.to_owned()));
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

/// Returns the length of the string that `text` starts with, quotes included.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}
