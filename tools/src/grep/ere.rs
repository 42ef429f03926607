//! POSIX extended regular expressions, with the GNU escapes, translated into the
//! syntax of the `regex` crate.
//!
//! The grammar and the error texts are `regcomp`'s in the GNU C library, with one exception: a `{`
//! that begins no interval stands for itself, as in GNU grep. Classes and word characters are the C
//! locale's. A character is a UTF-8 character, and a byte that belongs to none counts as a
//! character.
//!
//! Back-references are refused, since no engine in linear time has them. The result only says
//! whether a line matches, so leftmost-longest and leftmost-first are the same.

mod bracket;

use std::fmt::Write as _;

use thiserror::Error;

/// The deepest nesting of groups and stacked repetitions. It bounds the recursion in the compiler
/// of expressions, even on the small stack of a component.
const MAX_DEPTH: usize = 64;

/// The nodes of the translation at the depth of [`MAX_DEPTH`].
pub(super) const NEST_LIMIT: u32 = MAX_DEPTH as u32 * 6 + 16;

/// The value of RE_DUP_MAX in the GNU C library.
const MAX_REPEAT: u32 = 0x7fff;

/// The reason why a pattern is refused, in the words of `regerror`.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum EreError {
    #[error("Unmatched ( or \\(")]
    Parenthesis,
    #[error("Unmatched [, [^, [:, [., or [=")]
    Bracket,
    #[error("Invalid range end")]
    RangeEnd,
    #[error("Invalid content of \\{{\\}}")]
    Interval,
    #[error("Invalid character class name")]
    Class,
    #[error("Invalid collation character")]
    Collation,
    #[error("Invalid preceding regular expression")]
    Repetition,
    #[error("Trailing backslash")]
    TrailingBackslash,
    #[error("Invalid back reference")]
    BackReference,
    #[error("Back-references such as \\1 are not supported")]
    Unsupported,
    #[error("Regular expression too big")]
    TooBig,
}

/// A class that matches nothing.
const NEVER: &str = r"[^\x{0}-\x{10FFFF}]";

/// Translates `pattern` for a matcher in multi-line mode.
pub(super) fn translate(pattern: &str) -> Result<String, EreError> {
    Translator { rest: pattern, levels: vec![OpenGroup::default()], groups: 0 }.run()
}

/// A part of the pattern that can be repeated.
#[derive(Debug)]
struct Atom {
    text: String,
    /// The text to repeat instead of `text` under `*` and `+`, if it describes the same language
    /// with a smaller automaton.
    repeated: Option<String>,
    repetition: Option<Repetition>,
    depth: usize,
}

#[derive(Clone, Copy, Debug)]
struct Repetition {
    min: u32,
    max: Option<u32>,
}

impl Repetition {
    /// Returns `true` for `*`, `+` and `?`: repeating one of them again needs no nesting.
    fn is_simple(self) -> bool {
        self.min <= 1 && self.max.is_none_or(|max| max == 1)
    }
}

impl Atom {
    fn new(text: String) -> Self {
        Self { text, repeated: None, repetition: None, depth: 0 }
    }

    /// Returns an atom for any character but a set of ASCII characters.
    fn all_but(ascii: &str) -> Self {
        let byte = format!(r"(?-u:[^{ascii}\n])");
        let text = format!(r"(?:{byte}|[^\x{{0}}-\x{{7F}}])");
        Self { repeated: Some(byte), ..Self::new(text) }
    }

    fn literal(character: char) -> Self {
        Self::new(match character {
            '\n' => NEVER.to_owned(),
            _ if character.is_alphanumeric() => character.to_string(),
            _ => format!("\\x{{{:X}}}", u32::from(character)),
        })
    }

    fn repeat(&mut self, next: Repetition) -> Result<(), EreError> {
        match self.repetition {
            Some(last) if last.is_simple() && next.is_simple() => {
                let max = if last.max.is_none() || next.max.is_none() { None } else { Some(1) };
                self.repetition = Some(Repetition { min: last.min.min(next.min), max });
            }
            Some(_) => {
                let depth = self.depth + 1;
                if depth > MAX_DEPTH {
                    return Err(EreError::TooBig);
                }
                let mut text = "(?:".to_owned();
                self.write(&mut text);
                text.push(')');
                *self = Self { depth, repetition: Some(next), ..Self::new(text) };
            }
            None => self.repetition = Some(next),
        }
        Ok(())
    }

    fn write(&self, out: &mut String) {
        let unbounded = self.repetition.is_some_and(|repetition| repetition.max.is_none());
        out.push_str(self.repeated.as_ref().filter(|_| unbounded).unwrap_or(&self.text));
        // Writing to a String does not fail.
        let _ = match self.repetition {
            None => Ok(()),
            Some(Repetition { min: 0, max: None }) => out.write_str("*"),
            Some(Repetition { min: 1, max: None }) => out.write_str("+"),
            Some(Repetition { min: 0, max: Some(1) }) => out.write_str("?"),
            Some(Repetition { min, max: None }) => write!(out, "{{{min},}}"),
            Some(Repetition { min, max: Some(max) }) => write!(out, "{{{min},{max}}}"),
        };
    }
}

/// An open group, or the whole pattern.
#[derive(Debug, Default)]
struct OpenGroup {
    out: String,
    /// The atom that a repetition would apply to; `None` at the start and after an anchor.
    last: Option<Atom>,
    depth: usize,
}

impl OpenGroup {
    fn flush(&mut self) {
        if let Some(atom) = self.last.take() {
            self.depth = self.depth.max(atom.depth);
            atom.write(&mut self.out);
        }
    }

    fn push(&mut self, atom: Atom) {
        self.flush();
        self.last = Some(atom);
    }

    fn anchor(&mut self, text: &str) {
        self.flush();
        self.out.push_str(text);
    }
}

struct Translator<'p> {
    rest: &'p str,
    levels: Vec<OpenGroup>,
    /// The number of closed groups, for the message on back-references.
    groups: u32,
}

impl Translator<'_> {
    fn run(mut self) -> Result<String, EreError> {
        while let Some(character) = self.next() {
            match character {
                '(' => {
                    if self.levels.len() > MAX_DEPTH {
                        return Err(EreError::TooBig);
                    }
                    self.levels.push(OpenGroup::default());
                }
                ')' if self.levels.len() > 1 => self.close()?,
                '|' => self.level().anchor("|"),
                '^' => self.level().anchor("^"),
                '$' => self.level().anchor("$"),
                '*' => self.repeat(0, None)?,
                '+' => self.repeat(1, None)?,
                '?' => self.repeat(0, Some(1))?,
                '{' => self.interval()?,
                '.' => self.level().push(Atom::all_but("")),
                '[' => {
                    let (set, rest) = bracket::parse(self.rest)?;
                    self.rest = rest;
                    self.level().push(set);
                }
                '\\' => self.escape()?,
                other => self.level().push(Atom::literal(other)),
            }
        }
        let mut whole = self.levels.pop().unwrap_or_default();
        if !self.levels.is_empty() {
            return Err(EreError::Parenthesis);
        }
        whole.flush();
        Ok(whole.out)
    }

    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    /// Returns the innermost open group. There always is one: the outermost is never closed.
    fn level(&mut self) -> &mut OpenGroup {
        if self.levels.is_empty() {
            self.levels.push(OpenGroup::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    fn close(&mut self) -> Result<(), EreError> {
        let mut inner = self.levels.pop().unwrap_or_default();
        inner.flush();
        let depth = inner.depth + 1;
        if depth > MAX_DEPTH {
            return Err(EreError::TooBig);
        }
        self.groups += 1;
        self.level().push(Atom { depth, ..Atom::new(format!("(?:{})", inner.out)) });
        Ok(())
    }

    fn repeat(&mut self, min: u32, max: Option<u32>) -> Result<(), EreError> {
        let atom = self.level().last.as_mut().ok_or(EreError::Repetition)?;
        atom.repeat(Repetition { min, max })
    }

    /// Parses the text after `{`: `{n}`, `{n,}`, `{,m}`, `{n,m}`, or a brace that stands for
    /// itself.
    fn interval(&mut self) -> Result<(), EreError> {
        let Some((min, max, rest)) = parse_interval(self.rest) else {
            self.level().push(Atom::literal('{'));
            return Ok(());
        };
        self.rest = rest;
        if self.level().last.is_none() {
            return Err(EreError::Repetition);
        }
        if max.is_some_and(|max| min > max) {
            return Err(EreError::Interval);
        }
        if max.unwrap_or(min) > MAX_REPEAT {
            return Err(EreError::TooBig);
        }
        self.repeat(min, max)
    }

    fn escape(&mut self) -> Result<(), EreError> {
        let groups = self.groups;
        let escaped = self.next().ok_or(EreError::TrailingBackslash)?;
        let level = self.level();
        match escaped {
            '<' => level.anchor(r"(?-u:\b{start})"),
            '>' => level.anchor(r"(?-u:\b{end})"),
            'b' => level.anchor(r"(?-u:\b)"),
            'B' => level.anchor(r"(?-u:\B)"),
            '`' => level.anchor("^"),
            '\'' => level.anchor("$"),
            'w' => level.push(Atom::new(r"(?-u:\w)".to_owned())),
            'W' => level.push(Atom::all_but(r"\w")),
            's' => level.push(Atom::new(r"(?-u:\s)".to_owned())),
            'S' => level.push(Atom::all_but(r"\s")),
            '1'..='9' if u32::from(escaped) - u32::from('0') > groups => {
                return Err(EreError::BackReference);
            }
            '1'..='9' => return Err(EreError::Unsupported),
            other => level.push(Atom::literal(other)),
        }
        Ok(())
    }
}

/// Returns the two numbers of an interval and the text after it; `None` if it is not an interval.
/// Numbers that are too large become the largest.
fn parse_interval(text: &str) -> Option<(u32, Option<u32>, &str)> {
    let (inside, rest) = text.split_once('}')?;
    let number = |digits: &str| {
        let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        valid.then(|| digits.parse().unwrap_or(u32::MAX))
    };
    match inside.split_once(',') {
        None => number(inside).map(|exact| (exact, Some(exact), rest)),
        Some((min, max)) => {
            let min = if min.is_empty() { 0 } else { number(min)? };
            let max = if max.is_empty() { None } else { Some(number(max)?) };
            Some((min, max, rest))
        }
    }
}

#[cfg(test)]
mod tests;
