//! Adds this program to the configuration of a client.
//!
//! Owns the places and the formats of the clients' files, and the edit. The edit keeps everything
//! else in them: other servers, the order, comments, and the members of an entry that this program
//! does not set. `client` has the clients; `file` reads and replaces the file.

mod client;
mod file;

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use ikigai_host::paths::running_program;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value, json};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table};

use crate::variables::ProgramVariable;

pub(crate) use client::{ClientProgram, EntryScope};
pub(crate) use file::ClientFile;

/// The name of the entry.
const NAME: &str = "ikigai";

/// The member of Codex's file that contains the servers.
const CODEX_SERVERS: &str = "mcp_servers";

/// The command that a client starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerEntry {
    /// The program. For one user it is an absolute path, since a client may lack the `PATH` of a
    /// shell. In a file that others share, it is only the name.
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// The time for which the client waits for the answer of a call.
    pub(crate) seconds: u64,
}

/// The seconds that a client waits for an answer after the time limit of the call.
pub(crate) const PATIENCE_SECONDS: u64 = 30;

impl ClientProgram {
    /// Returns the text of the file with the entry, replacing an earlier entry.
    ///
    /// # Errors
    ///
    /// Fails if the text is not in the client's format. Then nothing may be changed.
    pub(crate) fn edited(self, text: &str, entry: &ServerEntry) -> anyhow::Result<String> {
        match self {
            Self::Codex => edited_toml(text, entry),
            _ => edited_json(text, self.servers(), &self.members(entry)),
        }
    }

    /// Returns the text of the file without the entry; `None` if it has no entry.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`edited`](Self::edited).
    pub(crate) fn removed(self, text: &str) -> anyhow::Result<Option<String>> {
        match self {
            Self::Codex => removed_toml(text),
            _ => removed_json(text, self.servers()),
        }
    }
}

/// Returns a path of this program that stays the same after updates: the path in `PATH` if it leads
/// to this program, or else its own path.
pub(crate) fn program() -> io::Result<PathBuf> {
    let own = running_program()?;
    let name = own.file_name().unwrap_or_default().to_owned();
    let path = ProgramVariable::Path.value().unwrap_or_default();
    let found = env::split_paths(&path)
        .map(|dir| dir.join(&name))
        .filter(|program| program.is_absolute())
        .find(|program| fs::canonicalize(program).is_ok_and(|program| program == own));
    Ok(found.unwrap_or(own))
}

/// Returns the home directory of the user, where most clients have their files.
pub(crate) fn home() -> Option<PathBuf> {
    set(ProgramVariable::Home)
}

fn set(variable: ProgramVariable) -> Option<PathBuf> {
    variable.value().filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn edited_json(text: &str, servers: &str, own: &Map<String, Value>) -> anyhow::Result<String> {
    let parse = |text: &str| CstRootNode::parse(text, &ParseOptions::default());
    // Editors on Windows write a byte order mark.
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(text) => ("\u{feff}", text),
        None => ("", text),
    };
    let root = parse(text).context("it is not JSON")?;
    let before = root.to_serde_value();
    let object = root.object_value_or_create().context("it is not a JSON object")?;
    if let Some(property) = object.get(servers)
        && property.value().is_some_and(|value| value.as_null_keyword().is_some())
    {
        property.set_value(CstInputValue::Object(Vec::new()));
    }
    let servers_object = object
        .object_value_or_create(servers)
        .with_context(|| format!("its member `{servers}` is not an object"))?;
    let entry = servers_object
        .object_value_or_create(NAME)
        .with_context(|| format!("its member `{servers}.{NAME}` is not an object"))?;
    entry.ensure_multiline();
    for (name, value) in own {
        replace(&entry, name, value);
    }
    let mut after = root.to_string();
    if !after.ends_with('\n') {
        after.push('\n');
    }
    let written = parse(&after).ok().and_then(|root| root.to_serde_value());
    // If a member is there twice, the client may read another one than was edited.
    let entry = written.as_ref().map(|written| &written[servers][NAME]);
    let is_there = own.iter().all(|(name, value)| entry.is_some_and(|it| it[name] == *value));
    let rest = |value: Option<Value>| without(value.unwrap_or_default(), servers, own);
    let is_kept = rest(written) == rest(before);
    ensure!(is_there && is_kept, "it cannot be changed without losing something");
    Ok(format!("{mark}{after}"))
}

fn removed_json(text: &str, servers: &str) -> anyhow::Result<Option<String>> {
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(text) => ("\u{feff}", text),
        None => ("", text),
    };
    let root = CstRootNode::parse(text, &ParseOptions::default()).context("it is not JSON")?;
    let Some(object) = root.object_value() else { return Ok(None) };
    let Some(list) = object.object_value(servers) else { return Ok(None) };
    let Some(entry) = list.get(NAME) else { return Ok(None) };
    entry.remove();
    if is_bare(&list.to_string())
        && let Some(property) = object.get(servers)
    {
        property.remove();
    }
    Ok(Some(format!("{mark}{root}")))
}

fn removed_toml(text: &str) -> anyhow::Result<Option<String>> {
    let mut document: DocumentMut = text.parse().context("it is not TOML")?;
    let servers = document.get_mut(CODEX_SERVERS).and_then(Item::as_table_like_mut);
    let Some(servers) = servers else { return Ok(None) };
    let Some(entry) = servers.remove(NAME) else { return Ok(None) };
    let is_last = servers.is_empty();
    let list = if is_last { document.remove(CODEX_SERVERS) } else { None };
    // The comments may be about the whole file.
    let comments: String = list.iter().chain([&entry]).filter_map(comments_above).collect();
    if !comments.is_empty() {
        let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
        document.set_trailing(format!("{comments}{trailing}"));
    }
    Ok(Some(document.to_string()))
}

fn comments_above(item: &Item) -> Option<String> {
    let above = item.as_table()?.decor().prefix()?.as_str()?;
    above.contains('#').then(|| above.to_owned())
}

/// Returns true if a JSON or TOML text has neither members nor comments.
pub(crate) fn is_bare(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    matches!(text.split_whitespace().collect::<String>().as_str(), "" | "{}")
}

fn replace(object: &CstObject, name: &str, value: &Value) {
    let input = match value {
        Value::Array(values) => CstInputValue::Array(values.iter().map(text_input).collect()),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        other => text_input(other),
    };
    match object.get(name) {
        Some(property) => property.set_value(input),
        None => drop(object.append(name, input)),
    }
}

fn text_input(value: &Value) -> CstInputValue {
    CstInputValue::String(value.as_str().unwrap_or_default().to_owned())
}

/// Returns the value of a file without the members that an edit sets, and without objects that are
/// empty then.
fn without(mut value: Value, servers: &str, own: &Map<String, Value>) -> Value {
    if value.is_null() {
        value = json!({});
    }
    if let Some(entry) = value[servers][NAME].as_object_mut() {
        entry.retain(|name, _| !own.contains_key(name));
    }
    for (of, name) in [(Some(servers), NAME), (None, servers)] {
        let parent = match of {
            Some(of) => value.get_mut(of),
            None => Some(&mut value),
        };
        if let Some(parent) = parent.and_then(Value::as_object_mut) {
            let is_empty = |it: &Value| it.is_null() || it.as_object().is_some_and(Map::is_empty);
            if parent.get(name).is_some_and(is_empty) {
                parent.shift_remove(name);
            }
        }
    }
    value
}

fn edited_toml(
    text: &str,
    ServerEntry { command, args, seconds }: &ServerEntry,
) -> anyhow::Result<String> {
    let mut document: DocumentMut = text.parse().context("it is not TOML")?;
    let servers = document.entry(CODEX_SERVERS).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let is_inline = servers.is_inline_table();
    let servers = servers
        .as_table_like_mut()
        .with_context(|| format!("its member `{CODEX_SERVERS}` is not a table"))?;
    let entry = servers.entry(NAME).or_insert_with(|| {
        if is_inline { Item::Value(InlineTable::new().into()) } else { Item::Table(Table::new()) }
    });
    let entry = entry
        .as_table_like_mut()
        .with_context(|| format!("its member `{CODEX_SERVERS}.{NAME}` is not a table"))?;
    let args: Array = args.iter().map(String::as_str).collect();
    let seconds = i64::try_from(*seconds).unwrap_or(i64::MAX);
    for (name, value) in [
        ("command", command.as_str().into()),
        ("args", toml_edit::Value::from(args)),
        ("tool_timeout_sec", seconds.into()),
    ] {
        match entry.get_mut(name).and_then(Item::as_value_mut) {
            Some(old) => {
                // A comment after the value belongs to it.
                let decor = old.decor().clone();
                *old = value;
                *old.decor_mut() = decor;
            }
            None => drop(entry.insert(name, Item::Value(value))),
        }
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn entry() -> ServerEntry {
        let args = ["--workspace", ".", "mcp", "serve"].map(str::to_owned).to_vec();
        ServerEntry { command: "/usr/bin/ikigai".to_owned(), args, seconds: 150 }
    }

    fn parsed(text: &str) -> Value {
        let root = CstRootNode::parse(text, &ParseOptions::default()).expect("JSON");
        root.to_serde_value().expect("a value")
    }

    #[test]
    fn an_entry_is_added_to_what_is_there_and_nothing_else_changes() {
        let text = "// mine\n{\n  \"theme\": \"dark\", // stays\n  \"mcpServers\": {\n    \"other\": { \
         \"command\": \"x\" },\n  },\n}\n";
        let edited = ClientProgram::Cursor.edited(text, &entry()).expect("edited");
        for kept in
            ["// mine\n", "\"theme\": \"dark\", // stays", "\"other\": { \"command\": \"x\" }"]
        {
            assert!(edited.contains(kept), "{edited}");
        }
        let servers = &parsed(&edited)["mcpServers"];
        assert_eq!(servers["ikigai"]["command"], "/usr/bin/ikigai", "{edited}");
        assert_eq!(servers["ikigai"]["args"], json!(entry().args), "{edited}");
        // A second edit changes nothing.
        assert_eq!(ClientProgram::Cursor.edited(&edited, &entry()).expect("edited"), edited);
    }

    #[test]
    fn a_mark_and_a_null_are_no_obstacle() {
        let edited =
            ClientProgram::VsCode.edited("\u{feff}{\"servers\":null}", &entry()).expect("edited");
        let text = edited.strip_prefix('\u{feff}').expect("a mark");
        assert_eq!(parsed(text)["servers"]["ikigai"]["command"], "/usr/bin/ikigai", "{edited}");
    }

    #[test]
    fn an_entry_that_is_there_keeps_the_members_of_its_user() {
        let text =
            r#"{"servers":{"ikigai":{"env":{"A":"b"},"command":"old","args":[]}},"inputs":[]}"#;
        let edited = ClientProgram::VsCode.edited(text, &entry()).expect("edited");
        let value = parsed(&edited);
        assert_eq!(value["servers"]["ikigai"]["env"], json!({ "A": "b" }), "{edited}");
        assert_eq!(value["servers"]["ikigai"]["command"], "/usr/bin/ikigai");
        assert_eq!(value["servers"]["ikigai"]["type"], "stdio");
        let text = "# mine\nmodel = \"m\"\n\n[mcp_servers.ikigai]\nenv = { A = \"b\" }\ncommand = \"old\" # \
         why\n\n[mcp_servers.other]\ncommand = \"x\"\n";
        let edited = ClientProgram::Codex.edited(text, &entry()).expect("edited");
        for kept in
            ["# mine\nmodel = \"m\"\n", "env = { A = \"b\" }", "# why", "[mcp_servers.other]"]
        {
            assert!(edited.contains(kept), "{edited}");
        }
        assert!(edited.contains("command = \"/usr/bin/ikigai\""), "{edited}");
        assert_eq!(ClientProgram::Codex.edited(&edited, &entry()).expect("edited"), edited);
    }

    #[test]
    fn an_empty_file_and_none_become_one_with_the_entry() {
        for client in ClientProgram::value_variants() {
            for text in ["", "\n"] {
                let edited = client.edited(text, &entry()).expect("edited");
                assert!(edited.contains("/usr/bin/ikigai"), "{client:?}: {edited}");
            }
        }
        let edited = ClientProgram::Codex
            .edited("mcp_servers = { other = { command = \"x\" } }\n", &entry());
        let edited = edited.expect("edited");
        assert!(edited.parse::<DocumentMut>().is_ok() && edited.contains("ikigai"), "{edited}");
    }

    #[test]
    fn an_entry_has_the_time_limit_in_the_unit_of_its_client() {
        for (client, pointer, expected) in [
            (ClientProgram::OpenCode, "/mcp/ikigai/timeout", Some(150_000)),
            (ClientProgram::GeminiCli, "/mcpServers/ikigai/timeout", Some(150_000)),
            (ClientProgram::QwenCode, "/mcpServers/ikigai/timeout", Some(150_000)),
            (ClientProgram::Cline, "/mcpServers/ikigai/timeout", Some(150)),
            (ClientProgram::Cursor, "/mcpServers/ikigai/timeout", None),
        ] {
            let edited = client.edited("", &entry()).expect("edited");
            let value = parsed(&edited);
            let timeout = value.pointer(pointer).and_then(Value::as_u64);
            assert_eq!(timeout, expected, "{client:?}: {edited}");
        }
    }

    #[test]
    fn an_entry_that_is_taken_back_leaves_what_was_there() {
        for client in ClientProgram::value_variants() {
            let texts = match client {
                ClientProgram::Codex => {
                    ["# mine\nmodel = \"m\"\n", "[mcp_servers.other]\ncommand = \"x\"\n"]
                }
                _ => ["{\n  // mine\n  \"a\": 1\n}\n", "{\n  \"a\": {\n    \"b\": 2\n  }\n}\n"],
            };
            for text in texts {
                assert_eq!(client.removed(text).expect("read"), None, "{client:?}");
                let edited = client.edited(text, &entry()).expect("edited");
                let removed = client.removed(&edited).expect("read").expect("it was there");
                let plain = |text: &str| text.replace(",\n", "\n");
                assert_eq!(plain(&removed), plain(text), "{client:?}");
            }
        }
    }

    #[test]
    fn a_file_without_members_and_comments_is_bare() {
        for (client, text, is_left_bare) in [
            (ClientProgram::ClaudeCode, "", true),
            (ClientProgram::Codex, "", true),
            (ClientProgram::ClaudeCode, "\u{feff}{\n}\n", true),
            (ClientProgram::ClaudeCode, "// mine\n{}\n", false),
            (ClientProgram::ClaudeCode, "{\n  \"mcpServers\": {\n    // mine\n  }\n}\n", false),
            (ClientProgram::ClaudeCode, "{\"mcpServers\": {}, \"a\": 1}", false),
            (ClientProgram::Codex, "# mine\n", false),
            (ClientProgram::Codex, "# mine\n[mcp_servers]\n", false),
            (ClientProgram::Codex, "# mine\n[mcp_servers.ikigai]\n", false),
            (ClientProgram::Codex, "a = 1\n", false),
        ] {
            let edited = client.edited(text, &entry()).expect("edited");
            let removed = client.removed(&edited).expect("read").expect("it was there");
            assert_eq!(is_bare(&removed), is_left_bare, "{text:?}: {removed:?}");
            assert_eq!(removed.contains("mine"), text.contains("mine"), "{text:?}: {removed:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_the_clients_is_refused() {
        let doubled = r#"{"mcpServers":{},"mcpServers":{"a":{"command":"b"}}}"#;
        for text in [
            doubled,
            "{",
            "[]",
            "7",
            r#"{"mcpServers":[]}"#,
            r#"{"mcpServers":{"ikigai":7}}"#,
            "not JSON",
        ] {
            assert!(ClientProgram::ClaudeCode.edited(text, &entry()).is_err(), "{text}");
        }
        for text in ["= 1", "mcp_servers = 7", "[mcp_servers]\nikigai = 7"] {
            assert!(ClientProgram::Codex.edited(text, &entry()).is_err(), "{text}");
        }
    }
}
