//! Patterns of paths, compiled so that a path is compared name by name.
//!
//! A pattern is a sequence of parts, one for each name. A [state](States) is the set of parts that
//! may come next, so each name of a path is looked up once. From two states it follows whether one
//! directory hides everything that another directory hides, for any files.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use regex::bytes::RegexSet;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// The most patterns that a pattern with braces around slashes may expand to.
const MAX_ALTERNATIVES: usize = 1_000;

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternPart {
    /// A name, as an index into the [`NamePatterns`].
    Name(usize),
    /// `**`: any number of directories.
    Directories,
    /// The end. A path that reaches it is hidden, with everything below it.
    End,
}

/// The parts that may come next, in ascending order.
pub(super) type States = Vec<usize>;

/// Compiled patterns.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    pub(super) texts: Vec<String>,
    names: NamePatterns,
    /// The parts of all patterns, one after the other, each with an end.
    parts: Vec<PatternPart>,
    /// The initial state, for a directory at which the patterns begin.
    starts: States,
}

impl Patterns {
    /// Compiles patterns, each once.
    ///
    /// # Errors
    ///
    /// Fails if a pattern is malformed, or if together they are too many. The text says which
    /// pattern, and why.
    pub(super) fn compile<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let (mut texts, mut parts, mut firsts) = (Vec::<String>::new(), Vec::new(), Vec::new());
        let mut names = Vec::<String>::new();
        for pattern in patterns {
            if texts.iter().any(|known| known == pattern) {
                continue;
            }
            for row in rows(pattern)? {
                firsts.push(parts.len());
                parts.extend(row.into_iter().map(|name| match name.as_str() {
                    "**" => PatternPart::Directories,
                    _ => PatternPart::Name(
                        names.iter().position(|known| *known == name).unwrap_or_else(|| {
                            names.push(name);
                            names.len() - 1
                        }),
                    ),
                }));
                parts.push(PatternPart::End);
            }
            texts.push(pattern.to_owned());
        }
        let names =
            NamePatterns::compile(&names).map_err(|error| format!("the patterns: {error}"))?;
        let mut compiled = Self { texts, names, parts, starts: States::new() };
        compiled.starts = compiled.closed(firsts);
        Ok(compiled)
    }

    /// Returns the indexes of the pattern names that match a name.
    pub(super) fn look_up(&self, name: &OsStr) -> Vec<usize> {
        #[cfg(test)]
        super::tests::LOOK_UPS.set(super::tests::LOOK_UPS.get() + 1);
        self.names.matching(name)
    }

    /// Returns the state after a name, from the result of its look-up.
    pub(super) fn after(&self, states: &States, found: &[usize]) -> States {
        let next = states.iter().filter_map(|&state| match self.parts[state] {
            PatternPart::Name(name) => found.contains(&name).then_some(state + 1),
            PatternPart::Directories | PatternPart::End => Some(state),
        });
        self.closed(next)
    }

    /// Adds the first parts of the patterns to a state.
    pub(super) fn with_starts(&self, states: &States) -> States {
        self.closed(states.iter().chain(&self.starts).copied())
    }

    pub(super) fn is_hidden(&self, states: &States) -> bool {
        states.iter().any(|&state| self.parts[state] == PatternPart::End)
    }

    /// Returns whether all patterns apply at any depth. Then it does not matter at which directory
    /// they begin.
    pub(super) fn begin_anywhere(&self) -> bool {
        let firsts = std::iter::once(None).chain(self.parts.iter().copied().map(Some));
        let mut pairs = firsts.zip(&self.parts);
        pairs.all(|(before, part)| {
            !matches!(before, None | Some(PatternPart::End)) || *part == PatternPart::Directories
        })
    }

    /// Adds to a state the parts that come next if `**` matches no directories.
    fn closed(&self, states: impl IntoIterator<Item = usize>) -> States {
        let mut closed = States::new();
        for mut state in states {
            closed.push(state);
            while self.parts[state] == PatternPart::Directories {
                state += 1;
                closed.push(state);
            }
        }
        closed.sort_unstable();
        closed.dedup();
        closed
    }
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for Patterns {}

/// The names in patterns.
#[derive(Clone, Debug, Default)]
struct NamePatterns {
    /// The names as patterns of bytes. Here `?` is one byte, and only ASCII letters ignore case.
    bytes: GlobSet,
    /// The same names as patterns of UTF-8 characters.
    characters: Option<RegexSet>,
}

impl NamePatterns {
    fn compile(names: &[String]) -> Result<Self, String> {
        if names.is_empty() {
            return Ok(Self::default());
        }
        let (mut bytes, mut characters) = (GlobSetBuilder::new(), Vec::new());
        for name in names {
            let glob = glob(name).map_err(|error| format!("`{name}`: {}", error.kind()))?;
            characters.push(over_characters(glob.regex()));
            bytes.add(glob);
        }
        let bytes = bytes.build().map_err(|error| error.to_string())?;
        let characters = RegexSet::new(&characters).map_err(|error| error.to_string())?;
        Ok(Self { bytes, characters: Some(characters) })
    }

    fn matching(&self, name: &OsStr) -> Vec<usize> {
        let mut found = self.matching_as_it_is(name);
        if let Cow::Owned(composed) = composed(name) {
            found.extend(self.matching_as_it_is(OsStr::from_bytes(&composed)));
        }
        found
    }

    fn matching_as_it_is(&self, name: &OsStr) -> Vec<usize> {
        let mut found = self.bytes.matches(name);
        if let Some(characters) = &self.characters {
            found.extend(characters.matches(name.as_bytes()));
        }
        found
    }
}

/// Returns a name in Unicode's composed form (NFC), like the compiled patterns. A file system may
/// have decomposed the name, which looks the same.
fn composed(name: &OsStr) -> Cow<'_, [u8]> {
    let bytes = name.as_bytes();
    if bytes.utf8_chunks().all(|chunk| is_nfc(chunk.valid())) {
        return Cow::Borrowed(bytes);
    }
    let mut composed = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        composed.extend_from_slice(chunk.valid().nfc().collect::<String>().as_bytes());
        composed.extend_from_slice(chunk.invalid());
    }
    Cow::Owned(composed)
}

/// Expands a pattern into sequences of names: one, or several if it has braces around slashes.
fn rows(pattern: &str) -> Result<Vec<Vec<String>>, String> {
    let wrong = |why: &str| Err(format!("`{}` {why}", pattern.escape_debug()));
    let text: String = pattern.nfc().collect();
    let bare = text.trim_end_matches('/');
    if bare.is_empty() {
        return wrong("names nothing");
    }
    if bare.starts_with("~/") {
        return wrong("begins with `~`, which stands for no directory here: write the whole path");
    }
    if bare.contains(['\n', '\0']) {
        return wrong("is not a pattern for paths");
    }
    if let Err(error) = glob(bare) {
        return Err(format!("`{}`: {}", pattern.escape_debug(), error.kind()));
    }
    let anchored = match bare.contains('/') {
        true => bare.to_owned(),
        false => format!("**/{bare}"),
    };
    let mut alternatives = Vec::new();
    if !spread(&anchored, &mut alternatives) {
        return wrong(&format!("stands for more than {MAX_ALTERNATIVES} patterns"));
    }
    let mut rows = Vec::new();
    for alternative in alternatives {
        let mut row = split(&alternative);
        if row.iter().any(|name| matches!(name.as_str(), "." | "..")) {
            return wrong("has `.` or `..`, which no path has that is compared");
        }
        match row.last_mut() {
            // A final `**` matches everything in a directory, but not the directory itself.
            Some(last) if last == "**" => *last = "*".to_owned(),
            Some(_) => {}
            None => return wrong("names nothing"),
        }
        rows.push(row);
    }
    Ok(rows)
}

fn glob(text: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(text).literal_separator(true).case_insensitive(true).build()
}

/// Expands the braces around slashes of a well-formed pattern. Returns false if there are too many
/// alternatives.
fn spread(text: &str, alternatives: &mut Vec<String>) -> bool {
    let Some((open, close)) = braces_around_slash(text) else {
        alternatives.push(text.to_owned());
        return alternatives.len() <= MAX_ALTERNATIVES;
    };
    let (before, inner, after) = (&text[..open], &text[open + 1..close], &text[close + 1..]);
    let mut commas = Vec::new();
    let mut depth = 0;
    for (at, character) in signs(inner) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => commas.push(at),
            _ => {}
        }
    }
    commas.push(inner.len());
    let mut from = 0;
    for comma in commas {
        let branch = &inner[from..comma];
        from = comma + 1;
        // In globset, an empty alternative does not match an empty text either.
        if !branch.is_empty() && !spread(&format!("{before}{branch}{after}"), alternatives) {
            return false;
        }
    }
    true
}

/// Returns the first pair of braces around a slash. If pairs are nested, returns the outer pair.
fn braces_around_slash(text: &str) -> Option<(usize, usize)> {
    let (mut open, mut has_slash) = (Vec::new(), false);
    for (at, character) in signs(text) {
        match character {
            '{' => open.push(at),
            '/' if !open.is_empty() => has_slash = true,
            '}' => {
                let start = open.pop();
                if open.is_empty() && std::mem::take(&mut has_slash) {
                    return start.map(|start| (start, at));
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the characters that may have a meaning in a pattern, with their positions: those that
/// are neither escaped nor in a class. An escaped slash also counts.
fn signs(text: &str) -> Vec<(usize, char)> {
    let mut signs = Vec::new();
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => signs.extend(characters.next().filter(|(_, escaped)| *escaped == '/')),
            '[' => {
                characters.next_if(|(_, next)| matches!(next, '!' | '^'));
                // A bracket at the beginning belongs to the class.
                characters.next();
                characters.by_ref().find(|(_, next)| *next == ']');
            }
            _ => signs.push((at, character)),
        }
    }
    signs
}

/// Splits a pattern without braces around slashes into names.
fn split(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut from = 0;
    let slashes = signs(text).into_iter().filter(|(_, character)| *character == '/');
    for to in slashes.map(|(at, _)| at).chain([text.len()]) {
        let name = &text[from..to];
        // Drop the backslash of an escaped slash.
        let is_escaped = name.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
        let name = if is_escaped { &name[..name.len() - 1] } else { name };
        if !name.is_empty() {
            names.push(name.to_owned());
        }
        from = to + 1;
    }
    names
}

/// Converts an expression over bytes, which globset makes from a pattern, to an expression over
/// UTF-8 characters. The byte expression has each non-ASCII character written as its bytes.
fn over_characters(expression: &str) -> String {
    let mut rest = expression.strip_prefix("(?-u)").unwrap_or(expression);
    let (mut text, mut bytes) = (String::new(), Vec::new());
    while let Some(next) = rest.chars().next() {
        let escaped = rest.strip_prefix("\\x").and_then(|it| it.get(..2));
        if let Some(byte) = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = &rest[4..];
            continue;
        }
        text.push_str(&String::from_utf8_lossy(&std::mem::take(&mut bytes)));
        // The character after a backslash is part of the escape.
        let length = match (next, rest[next.len_utf8()..].chars().next()) {
            ('\\', Some(second)) => 1 + second.len_utf8(),
            _ => next.len_utf8(),
        };
        text.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    text + &String::from_utf8_lossy(&bytes)
}
