//! The edits of the user's policy file, one entry at a time. `toml_edit` keeps comments, order and
//! layout as their author left them.
//!
//! The result is parsed again by the rules of every policy file, and compared. An edit whose result
//! differs from the request is refused.

use similar::{ChangeTag, TextDiff};
use toml_edit::{Array, Decor, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// A value in the form of a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewValue {
    /// A word: `"word"`.
    Word(String),
    /// A number: `12`.
    Number(u64),
    /// A list of words: `["a", "b"]`.
    List(Vec<String>),
    /// No value: the key is removed.
    Absent,
}

/// A key of an entry with its new value, for
/// [`Authority::propose_grant`](super::Authority::propose_grant). A key of the table `limits` is
/// written `limits.NAME`. A key of a server's table `tools` is written `tools.NAME`.
pub type NewKey = (String, NewValue);

/// A file whose form does not allow a change of single keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unchangeable;

/// The table of an entry in a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryTable {
    /// The table `[tools.NAME]`.
    Tool(String),
    /// The table `[servers.NAME]`.
    Server(String),
}

impl EntryTable {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Tool(name) | Self::Server(name) => name,
        }
    }

    /// Returns the name of the table of the entries.
    pub(super) fn table(&self) -> &'static str {
        match self {
            Self::Tool(_) => "tools",
            Self::Server(_) => "servers",
        }
    }
}

type EditResult = Result<String, Unchangeable>;

/// Returns the text with these keys of an entry set. Creates the entry if it does not exist.
pub(super) fn set(text: &str, place: &EntryTable, keys: &[NewKey]) -> EditResult {
    let (all, name) = (place.table(), place.name());
    let mut file = parse(text)?;
    if !file.contains_key(all) {
        let mut entries = Table::new();
        // The outer table needs no header line.
        entries.set_implicit(true);
        file.insert(all, Item::Table(entries));
    }
    // Comments at the end of a file stay before a new entry.
    let end = file.trailing().as_str().unwrap_or_default().trim_end().to_owned();
    let is_new = !table(file.get_mut(all))?.contains_key(name);
    let moves = is_new && end.contains('#') && file.get(all).is_some_and(Item::is_table);
    if moves {
        file.set_trailing("");
    }
    // `tools = { … }` contains only values.
    let is_inline = file.get(all).is_some_and(Item::is_inline_table);
    let entries = table(file.get_mut(all))?;
    let entry = entries.entry(name).or_insert_with(|| {
        if is_inline {
            return Item::Value(Value::InlineTable(InlineTable::new()));
        }
        let mut entry = Table::new();
        if moves {
            entry.decor_mut().set_prefix(format!("{end}\n\n"));
        }
        Item::Table(entry)
    });
    let entry = table(Some(entry))?;
    for (key, value) in keys {
        let value = value.to_toml()?;
        match key.split_once('.') {
            None => put(entry, key, value),
            Some((inner, key)) => {
                // Write one line per tool if there may be many.
                let inline = || match inner {
                    "tools" if !is_inline => Item::Table(Table::new()),
                    _ => Item::Value(Value::InlineTable(InlineTable::new())),
                };
                let inner = entry.entry(inner).or_insert_with(inline);
                put(table(Some(inner))?, key, value);
            }
        }
    }
    Ok(with_ends_of(&file.to_string(), text))
}

/// Returns the text without an entry and everything that belongs to it. Comments before it stay,
/// because they may be about the file.
pub(super) fn remove(text: &str, place: &EntryTable) -> EditResult {
    let mut file = parse(text)?;
    let mut without = file.clone();
    let entries = without.get_mut(place.table()).and_then(Item::as_table_like_mut);
    if entries.and_then(|entries| entries.remove(place.name())).is_none() {
        return Ok(text.to_owned());
    }
    let left = without.to_string();
    let Some(comments) = mark_comments_before(&mut file, place) else {
        // The empty line before an entry is useless if nothing is left before it.
        let left = if text.starts_with('\n') { &left } else { left.trim_start_matches('\n') };
        return Ok(with_ends_of(left, text));
    };
    let marked = file.to_string();
    let (head, _) = marked.split_once(MARK).ok_or(Unchangeable)?;
    let before = head.strip_suffix(&comments).unwrap_or(head);
    // The text before the entry must stay the same without the entry.
    let after = left.strip_prefix(before).ok_or(Unchangeable)?;
    let left = match (comments.trim_end(), after.trim_start_matches('\n')) {
        (comments, "") => format!("{before}{comments}\n"),
        (comments, after) => format!("{before}{comments}\n\n{after}"),
    };
    Ok(with_ends_of(&left, text))
}

/// A comment that marks the place of an entry in a text.
const MARK: &str = "# the entry that is removed\u{0}\n";

/// Adds [`MARK`] to the comments before an entry, and returns these comments, if any.
fn mark_comments_before(file: &mut DocumentMut, place: &EntryTable) -> Option<String> {
    let entries = file.get_mut(place.table())?.as_table_like_mut()?;
    let name = place.name();
    let mark = |decor: &mut Decor| {
        let comments = decor.prefix()?.as_str()?.to_owned();
        if !comments.contains('#') {
            return None;
        }
        decor.set_prefix(format!("{comments}{MARK}"));
        Some(comments)
    };
    match entries.get_mut(name)? {
        Item::Table(entry) if !entry.is_dotted() => mark(entry.decor_mut()),
        _ => mark(entries.key_mut(name)?.leaf_decor_mut()),
    }
}

/// Returns the lines that differ, marked `-` and `+`.
pub(super) fn difference(before: &str, after: &str) -> Vec<String> {
    let difference = TextDiff::from_lines(before, after);
    let changed = difference.iter_all_changes().filter(|it| it.tag() != ChangeTag::Equal);
    changed.map(|it| format!("{}{}", it.tag(), it.value().trim_end_matches(['\r', '\n']))).collect()
}

fn parse(text: &str) -> Result<DocumentMut, Unchangeable> {
    // `with_ends_of` restores the line ends.
    text.replace("\r\n", "\n").parse().map_err(|_| Unchangeable)
}

fn table(item: Option<&mut Item>) -> Result<&mut dyn TableLike, Unchangeable> {
    item.and_then(Item::as_table_like_mut).ok_or(Unchangeable)
}

/// Sets a key, or removes it. White space and comments around the old value stay around the new
/// one.
fn put(table: &mut dyn TableLike, key: &str, value: Option<Value>) {
    let Some(mut value) = value else {
        table.remove(key);
        return;
    };
    match table.get_mut(key) {
        Some(item) => {
            let decor = item.as_value().map_or_else(Decor::default, |old| old.decor().clone());
            *value.decor_mut() = decor;
            *item = Item::Value(value);
        }
        None => {
            table.insert(key, Item::Value(value));
        }
    }
}

/// Gives a changed text the line ends of the text before the change.
fn with_ends_of(text: &str, before: &str) -> String {
    if before.contains("\r\n") { text.replace('\n', "\r\n") } else { text.to_owned() }
}

impl NewValue {
    fn to_toml(&self) -> Result<Option<Value>, Unchangeable> {
        Ok(Some(match self {
            Self::Word(word) => word.as_str().into(),
            Self::Number(number) => i64::try_from(*number).map_err(|_| Unchangeable)?.into(),
            Self::List(words) => Value::Array(words.iter().collect::<Array>()),
            Self::Absent => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    static TOOL: LazyLock<EntryTable> = LazyLock::new(|| EntryTable::Tool("tool".to_owned()));

    fn list(words: &[&str]) -> NewValue {
        NewValue::List(words.iter().map(|word| (*word).to_owned()).collect())
    }

    fn keys() -> Vec<NewKey> {
        vec![
            ("fs".to_owned(), list(&["ro:."])),
            ("limits.wall_clock".to_owned(), NewValue::Word("5s".to_owned())),
        ]
    }

    /// Returns each key of `tool` with its value, as text.
    fn said(text: &str) -> Vec<(String, String)> {
        let file = parse(text).expect(text);
        let entry = file.get(TOOL.table()).and_then(|tools| tools.get("tool"));
        let entry = entry.unwrap_or_else(|| panic!("no entry: {text}"));
        let mut said = Vec::new();
        for (key, item) in entry.as_table_like().expect("a table").iter() {
            match item.as_table_like() {
                Some(limits) => said.extend(
                    limits.iter().map(|(limit, item)| (format!("{key}.{limit}"), plain(item))),
                ),
                None => said.push((key.to_owned(), plain(item))),
            }
        }
        said.sort();
        said
    }

    fn plain(item: &Item) -> String {
        item.to_string().trim().to_owned()
    }

    #[test]
    fn an_entry_is_set_however_it_is_written() {
        for before in [
            "",
            "profile = \"strict\"",
            "[tools.other]\nfs = []",
            "[tools.tool]\n",
            "[tools.tool]  # why\n# before\nfs = [\n  \"rw:.\", # old\n]\n\n[tools.zeta]\nfs = []\n",
            "[tools.tool]\nnet = []\n[tools.tool.limits]\nfuel = 7\n",
            "[tools]\ntool = {}\n",
            "[tools]\ntool = { fs = [\"rw:.\"], limits = { wall_clock = \"1s\" } } # c\n",
            "tools.tool.fs = []\ntools.other.fs = []\n",
            "[tools]\ntool.fs = []\n",
            "[tools.tool]\nlimits.fuel = 1\n",
            "[tools.tool]\r\nfs = []\r\n",
            "tools = { other = { fs = [\"rw:.\"] } }\n",
            "tools = {}\n",
        ] {
            let after = set(before, &TOOL, &keys()).unwrap_or_else(|_| panic!("{before:?}"));
            let said = said(&after);
            for expected in [("fs", "[\"ro:.\"]"), ("limits.wall_clock", "\"5s\"")] {
                let expected = (expected.0.to_owned(), expected.1.to_owned());
                assert!(said.contains(&expected), "{before:?} became {after:?}: {said:?}");
            }
            // Comments and neighbours stay in place.
            for kept in ["# why", "# before", "# c", "[tools.zeta]", "fuel = 7", "[tools.other]"] {
                assert_eq!(before.contains(kept), after.contains(kept), "{before:?}: {after:?}");
            }
            assert_eq!(set(&after, &TOOL, &keys()), Ok(after.clone()), "twice is once");
        }
    }

    #[test]
    fn comments_at_the_end_of_a_file_stay_before_a_new_entry() {
        let keys = [("fs".to_owned(), list(&["ro:."]))];
        for (before, after) in [
            ("# mine\n", "# mine\n\n[tools.tool]\nfs = [\"ro:.\"]\n"),
            (
                "[tools.b]\nfs = []\n# end\n",
                "[tools.b]\nfs = []\n# end\n\n[tools.tool]\nfs = [\"ro:.\"]\n",
            ),
        ] {
            assert_eq!(set(before, &TOOL, &keys).as_deref(), Ok(after), "{before:?}");
            assert_eq!(remove(after, &TOOL).as_deref(), Ok(before), "{after:?}");
        }
    }

    #[test]
    fn an_entry_is_removed_with_all_that_is_its_own() {
        for (before, after) in [
            ("[tools.tool]\nfs = []\n", ""),
            (
                "# top\nprofile = \"strict\"\n\n[tools.tool]\n# its own\nfs = []\n\n[tools.b]\n",
                "# top\nprofile = \"strict\"\n\n[tools.b]\n",
            ),
            (
                "[tools.a]\n\n[tools.tool.limits]\nfuel = 1\n\n[tools.tool]\nfs = []\n\n# b's\n[tools.b]\n",
                "[tools.a]\n\n# b's\n[tools.b]\n",
            ),
            ("[tools]\ntool = { fs = [] } # c\nb = {}\n", "[tools]\nb = {}\n"),
            ("tools.tool.fs = []\ntools.b.fs = []\n", "tools.b.fs = []\n"),
            ("[tools.b]\n", "[tools.b]\n"),
            ("# mine\n\n[tools.tool]\nfs = []\n", "# mine\n"),
            (
                "# of the file\n\n[tools.tool]\nfs = []\n\n# b's\n[tools.b]\n",
                "# of the file\n\n# b's\n[tools.b]\n",
            ),
            ("# c\r\n\r\n[tools.tool]\r\nfs = []\r\n\r\n[tools.b]\r\n", "# c\r\n\r\n[tools.b]\r\n"),
            ("[tools]\n# c\ntool = {}\nb = {}\n", "[tools]\n# c\n\nb = {}\n"),
        ] {
            assert_eq!(remove(before, &TOOL).as_deref(), Ok(after), "{before:?}");
        }
        let inline = remove("tools = { tool = {}, b = {} }\n", &TOOL).expect("changed");
        assert_eq!(parse(&inline).expect("TOML").to_string(), "tools = { b = {} }\n");
    }

    #[test]
    fn what_changed_is_shown_by_its_lines() {
        assert_eq!(difference("a\nb\nc\n", "a\nx\nc\n"), ["-b", "+x"]);
        assert_eq!(difference("a\n", "a\nb\n"), ["+b"]);
        assert!(difference("a\n", "a\n").is_empty());
    }
}
