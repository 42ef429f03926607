//! Bracket expressions: sets, ranges, classes, collating symbols.
//!
//! A backslash is an ordinary character in them. The rules for hyphens are the GNU C library's.

use std::fmt::Write as _;

use super::{Atom, EreError, NEVER};

/// Parses the text after `[`; returns the set and the rest of the text.
pub(super) fn parse(text: &str) -> Result<(Atom, &str), EreError> {
    let mut reader = BracketReader { rest: text };
    let negated = reader.take("^");
    let mut set = BracketSet::default();
    let mut first = true;
    loop {
        if !first && reader.take("]") {
            return Ok((set.into_atom(negated), reader.rest));
        }
        // A hyphen that is neither first nor last, nor part of a range, is an error.
        if !first && reader.rest.starts_with('-') && !reader.rest.starts_with("-]") {
            return Err(if reader.rest.len() == 1 {
                EreError::Bracket
            } else {
                EreError::RangeEnd
            });
        }
        first = false;
        let start = reader.element()?;
        let Element::Char(low) = start else {
            set.add_whole(&start);
            continue;
        };
        if !reader.rest.starts_with('-') || reader.rest.starts_with("-]") {
            set.add(low, low);
            continue;
        }
        reader.take("-");
        match reader.element()? {
            Element::Char(high) if low <= high => set.add(low, high),
            _ => return Err(EreError::RangeEnd),
        }
    }
}

enum Element {
    Char(char),
    /// An equivalence class `[=x=]`: itself only, in the C locale, and no end of a range.
    Equivalence(char),
    /// A class in the syntax of the translation.
    Class(&'static str),
}

struct BracketReader<'t> {
    rest: &'t str,
}

impl BracketReader<'_> {
    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn element(&mut self) -> Result<Element, EreError> {
        if self.take("[.") {
            return self.symbol(".]").map(Element::Char);
        }
        if self.take("[=") {
            return self.symbol("=]").map(Element::Equivalence);
        }
        if self.take("[:") {
            let (name, rest) = self.rest.split_once(":]").ok_or(EreError::Bracket)?;
            self.rest = rest;
            return class(name).map(Element::Class).ok_or(EreError::Class);
        }
        let character = self.rest.chars().next().ok_or(EreError::Bracket)?;
        self.rest = &self.rest[character.len_utf8()..];
        Ok(Element::Char(character))
    }

    /// A collating symbol. The C locale knows single characters only.
    fn symbol(&mut self, end: &str) -> Result<char, EreError> {
        let (name, rest) = self.rest.split_once(end).ok_or(EreError::Bracket)?;
        self.rest = rest;
        let mut characters = name.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(EreError::Collation),
        }
    }
}

fn class(name: &str) -> Option<&'static str> {
    Some(match name {
        "alnum" => "[:alnum:]",
        "alpha" => "[:alpha:]",
        "blank" => "[:blank:]",
        "cntrl" => "[:cntrl:]",
        "digit" => "[:digit:]",
        "graph" => "[:graph:]",
        "lower" => "[:lower:]",
        "print" => "[:print:]",
        "punct" => "[:punct:]",
        "space" => "[:space:]",
        "upper" => "[:upper:]",
        "xdigit" => "[:xdigit:]",
        _ => return None,
    })
}

/// A set in the syntax of the translation, without the brackets around it.
#[derive(Default)]
struct BracketSet {
    items: String,
    beyond_ascii: bool,
}

impl BracketSet {
    fn add(&mut self, low: char, high: char) {
        // A line contains no newline, and the matcher refuses patterns that name one.
        if (low, high) == ('\n', '\n') {
            return;
        }
        self.beyond_ascii |= !high.is_ascii();
        // Writing to a String does not fail.
        let _ = write!(self.items, "\\x{{{:X}}}-\\x{{{:X}}}", u32::from(low), u32::from(high));
    }

    fn add_whole(&mut self, element: &Element) {
        match element {
            Element::Char(character) | Element::Equivalence(character) => {
                self.add(*character, *character)
            }
            Element::Class(class) => {
                let _ = write!(self.items, "[{class}]");
            }
        }
    }

    fn into_atom(self, negated: bool) -> Atom {
        match (negated, self.beyond_ascii) {
            (false, _) if self.items.is_empty() => Atom::new(NEVER.to_owned()),
            (false, _) => Atom::new(format!("[{}]", self.items)),
            (true, false) => Atom::all_but(&self.items),
            (true, true) => Atom::new(format!(r"[^{}\n]", self.items)),
        }
    }
}
