//! Changing the user's policy file: one entry at a time, by the places of what is
//! there, so that comments, order and layout stay as their author left them.
//!
//! What comes out is read again by the rules of every policy file, and compared: an
//! edit that would say anything else than what was asked for is refused.

use std::fmt::Write as _;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value as a policy file writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewValue {
    /// `"word"`
    Word(String),
    /// `12`
    Number(u64),
    /// `["a", "b"]`
    List(Vec<String>),
}

/// One key of an entry and what it is to say. A key of the table `limits` is written
/// `limits.NAME`.
pub type NewKey = (String, NewValue);

/// A file that is written in a way that cannot be changed piece by piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unchangeable;

type Changed = Result<String, Unchangeable>;

/// The text with these keys of `[tools.NAME]` set; the entry is made if there is none.
pub(super) fn set(text: &str, name: &str, keys: &[NewKey]) -> Changed {
    let mut text = text.to_owned();
    if find(&parse(&text)?, name).is_none() {
        append_header(&mut text, name);
        for (key, value) in keys {
            match key.strip_prefix("limits.") {
                Some(_) => {}
                None => line(&mut text, key, value),
            }
        }
        let limits: Vec<_> = keys
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix("limits.")?, value)))
            .collect();
        if !limits.is_empty() {
            let _ = writeln!(text, "limits = {}", inline(&limits));
        }
        return Ok(text);
    }
    for (key, value) in keys {
        text = set_key(&text, name, key, value)?;
    }
    Ok(text)
}

/// The text without `[tools.NAME]` and what belongs to it.
pub(super) fn remove(text: &str, name: &str) -> Changed {
    let table = parse(text)?;
    let Some((key, item)) = find(&table, name) else { return Ok(text.to_owned()) };
    let mut ranges = Vec::new();
    match form(text, item) {
        Form::Inline => ranges.push(whole_lines(text, &(key.start..item.span().end))?),
        Form::Header => remove_table(text, item, &mut ranges)?,
        Form::Dotted => {
            let DeValue::Table(entry) = item.get_ref() else { return Err(Unchangeable) };
            for (key, item) in entry.iter() {
                ranges.push(whole_lines(text, &(key.span().start..item.span().end))?);
            }
        }
    }
    ranges.sort_by_key(|range| range.start);
    let mut left = text.to_owned();
    for range in ranges.into_iter().rev() {
        left.replace_range(range.clone(), "");
        // Two empty lines that meet are one.
        let joined = left[..range.start].ends_with("\n\n") && left[range.start..].starts_with('\n');
        if joined || (range.start == 0 && left.starts_with('\n')) {
            left.remove(range.start);
        }
    }
    while left.ends_with("\n\n") {
        left.pop();
    }
    Ok(if left == "\n" { String::new() } else { left })
}

/// The lines that differ, marked `-` and `+`.
pub(super) fn difference(before: &str, after: &str) -> Vec<String> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let head = same(&mut before.iter().zip(&after));
    let (before, after) = (&before[head..], &after[head..]);
    let tail = same(&mut before.iter().rev().zip(after.iter().rev()));
    let gone = before[..before.len() - tail].iter().map(|line| format!("-{line}"));
    let new = after[..after.len() - tail].iter().map(|line| format!("+{line}"));
    gone.chain(new).collect()
}

/// How a table is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `[tools.NAME]`
    Header,
    /// `NAME = { … }`
    Inline,
    /// `NAME.key = …`
    Dotted,
}

fn form(text: &str, item: &Spanned<DeValue<'_>>) -> Form {
    let span = item.span();
    let own = text.get(span).unwrap_or_default();
    if own.starts_with('[') {
        Form::Header
    } else if own.starts_with('{') {
        Form::Inline
    } else {
        Form::Dotted
    }
}

fn parse(text: &str) -> Result<DeTable<'_>, Unchangeable> {
    DeTable::parse(text).map(Spanned::into_inner).map_err(|_| Unchangeable)
}

/// Where the name of an entry is, and the entry.
fn find<'a, 't>(
    table: &'a DeTable<'t>,
    name: &str,
) -> Option<(Range<usize>, &'a Spanned<DeValue<'t>>)> {
    member(member(table, "tools")?.1.get_ref().as_table()?, name)
}

fn member<'a, 't>(
    table: &'a DeTable<'t>,
    name: &str,
) -> Option<(Range<usize>, &'a Spanned<DeValue<'t>>)> {
    let found = table.iter().find(|(key, _)| key.get_ref() == name);
    found.map(|(key, item)| (key.span(), item))
}

fn set_key(text: &str, name: &str, key: &str, value: &NewValue) -> Changed {
    let table = parse(text)?;
    let (_, entry) = find(&table, name).ok_or(Unchangeable)?;
    let (holder, key) = match key.strip_prefix("limits.") {
        None => (entry, key),
        Some(limit) => {
            let limits = entry.get_ref().as_table().and_then(|entry| member(entry, "limits"));
            match limits {
                Some((_, limits)) => (limits, limit),
                None => {
                    let table = inline(&[(limit, value)]);
                    return insert(text, entry, "limits", &table);
                }
            }
        }
    };
    let written = written(value);
    let table = holder.get_ref().as_table().ok_or(Unchangeable)?;
    match member(table, key) {
        Some((_, old)) => {
            let mut text = text.to_owned();
            text.replace_range(old.span(), &written);
            Ok(text)
        }
        None => insert(text, holder, key, &written),
    }
}

/// A key that the table does not have yet.
fn insert(text: &str, holder: &Spanned<DeValue<'_>>, key: &str, value: &str) -> Changed {
    let table = holder.get_ref().as_table().ok_or(Unchangeable)?;
    let mut changed = text.to_owned();
    if form(text, holder) == Form::Inline {
        let close = holder.span().end - 1;
        let body = text[holder.span().start + 1..close].trim_end();
        let at = holder.span().start + 1 + body.len();
        let comma = if body.trim().is_empty() || body.ends_with(',') { "" } else { "," };
        changed.replace_range(at..close, &format!("{comma} {key} = {value} "));
        return Ok(changed);
    }
    // After the last key of its own, written as that one is.
    let own = table.iter().filter(|(_, item)| {
        item.get_ref().as_table().is_none() || form(text, item) == Form::Inline
    });
    let (at, lead) = match own.max_by_key(|(key, _)| key.span().start) {
        Some((last, item)) => {
            let start = line_start(text, last.span().start);
            (line_end(text, item.span().end), &text[start..last.span().start])
        }
        None if form(text, holder) == Form::Header => (line_end(text, holder.span().end), ""),
        None => return Err(Unchangeable),
    };
    let before = if text[..at].ends_with('\n') { "" } else { "\n" };
    changed.insert_str(at, &format!("{before}{lead}{key} = {value}\n"));
    Ok(changed)
}

fn remove_table(
    text: &str,
    item: &Spanned<DeValue<'_>>,
    ranges: &mut Vec<Range<usize>>,
) -> Result<(), Unchangeable> {
    let DeValue::Table(table) = item.get_ref() else { return Err(Unchangeable) };
    let mut end = item.span().end;
    for (_, inner) in table.iter() {
        if inner.get_ref().as_table().is_some() && form(text, inner) == Form::Header {
            remove_table(text, inner, ranges)?;
        } else if let Some(dotted) =
            inner.get_ref().as_table().filter(|_| form(text, inner) == Form::Dotted)
        {
            end = dotted.iter().map(|(_, item)| item.span().end).fold(end, usize::max);
        } else {
            end = end.max(inner.span().end);
        }
    }
    ranges.push(whole_lines(text, &(item.span().start..end))?);
    Ok(())
}

/// The lines that hold `span`, if nothing else is on them but a comment.
fn whole_lines(text: &str, span: &Range<usize>) -> Result<Range<usize>, Unchangeable> {
    let (start, end) = (line_start(text, span.start), line_end(text, span.end));
    let after = text[span.end..end].trim();
    let is_alone = after.is_empty() || after.starts_with('#');
    // What leads to a key is its own path (`tools.`).
    let before = text[start..span.start].trim();
    let is_path = before.is_empty() || before.ends_with('.') && !before.contains(['{', '=', ',']);
    if is_alone && is_path { Ok(start..end) } else { Err(Unchangeable) }
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// After the newline.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

fn append_header(text: &mut String, name: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if !text.is_empty() && !text.ends_with("\n\n") {
        text.push('\n');
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "[tools.{name}]");
}

fn line(text: &mut String, key: &str, value: &NewValue) {
    let _ = writeln!(text, "{key} = {}", written(value));
}

fn inline(keys: &[(&str, &NewValue)]) -> String {
    let pairs: Vec<String> =
        keys.iter().map(|(key, value)| format!("{key} = {}", written(value))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

fn written(value: &NewValue) -> String {
    match value {
        NewValue::Word(word) => string(word),
        NewValue::Number(number) => number.to_string(),
        NewValue::List(words) => {
            format!("[{}]", words.iter().map(|word| string(word)).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A basic string of TOML.
fn string(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => written.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(written, "\\u{:04X}", u32::from(c));
            }
            c => written.push(c),
        }
    }
    written.push('"');
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &[&str]) -> NewValue {
        NewValue::List(words.iter().map(|word| (*word).to_owned()).collect())
    }

    fn keys() -> Vec<NewKey> {
        vec![
            ("fs".to_owned(), list(&["ro:."])),
            ("limits.wall_clock".to_owned(), NewValue::Word("5s".to_owned())),
        ]
    }

    /// Each key of `tool` by name, as text.
    fn said(text: &str) -> Vec<(String, String)> {
        let table = parse(text).expect(text);
        let (_, entry) = find(&table, "tool").unwrap_or_else(|| panic!("no entry: {text}"));
        let mut said = Vec::new();
        for (key, item) in entry.get_ref().as_table().expect("a table").iter() {
            match item.get_ref().as_table() {
                Some(limits) => {
                    said.extend(limits.iter().map(|(limit, item)| {
                        (format!("{key}.{limit}"), text[item.span()].to_owned())
                    }))
                }
                None => said.push((key.to_string(), text[item.span()].to_owned())),
            }
        }
        said.sort();
        said
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
        ] {
            let after = set(before, "tool", &keys()).unwrap_or_else(|_| panic!("{before:?}"));
            let said = said(&after);
            for expected in [("fs", "[\"ro:.\"]"), ("limits.wall_clock", "\"5s\"")] {
                let expected = (expected.0.to_owned(), expected.1.to_owned());
                assert!(said.contains(&expected), "{before:?} became {after:?}: {said:?}");
            }
            // Comments and neighbours are where they were.
            for kept in ["# why", "# before", "# c", "[tools.zeta]", "fuel = 7", "[tools.other]"] {
                assert_eq!(before.contains(kept), after.contains(kept), "{before:?}: {after:?}");
            }
            assert_eq!(set(&after, "tool", &keys()), Ok(after.clone()), "twice is once");
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
        ] {
            assert_eq!(remove(before, "tool").as_deref(), Ok(after), "{before:?}");
        }
        assert_eq!(remove("tools = { tool = {}, b = {} }\n", "tool"), Err(Unchangeable));
    }

    #[test]
    fn strings_are_written_so_that_they_are_read_alike() {
        for text in ["plain", "with \"quotes\" and \\", "tab\tnewline\n\u{7f}", "é ✓"] {
            let written = format!("a = {}", string(text));
            let table = DeTable::parse(&written).expect("TOML").into_inner();
            let (_, item) = member(&table, "a").expect("the key");
            assert_eq!(item.get_ref().as_str(), Some(text));
        }
    }

    #[test]
    fn what_changed_is_shown_by_its_lines() {
        assert_eq!(difference("a\nb\nc\n", "a\nx\nc\n"), ["-b", "+x"]);
        assert_eq!(difference("a\n", "a\nb\n"), ["+b"]);
        assert!(difference("a\n", "a\n").is_empty());
    }
}
