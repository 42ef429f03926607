//! Documents of this crate: TOML that people write, and JSON that a tool's file contains.
//!
//! Owns the tree that both are parsed into, the strict reading of its members, and the place of
//! each mistake. The module that reads a member defines its meaning.

mod error;
mod json;
mod toml;

pub use error::{DocumentError, MemberPath, Position, ValuePlace};

pub(crate) use self::json::parse as parse_json;
pub(crate) use self::toml::parse as parse_toml;

use crate::harmless;
use error::article;
use ikigai_protocol::is_deceptive;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: ValuePlace,
    value: NodeValue,
}

/// A TOML or JSON value.
#[derive(Clone, Debug)]
enum NodeValue {
    Text(String),
    Number(u64),
    Bool(bool),
    List(Vec<Node>),
    /// The members in the order of the document. Their keys differ.
    Table(Vec<TableMember>),
    /// A value of a type that this crate's documents never use, such as a float.
    Other(&'static str),
}

/// A member of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableMember {
    pub(crate) key: String,
    /// The place of the key.
    pub(crate) place: ValuePlace,
    pub(crate) node: Node,
}

impl Node {
    fn kind(&self) -> &'static str {
        match self.value {
            NodeValue::Text(_) => "string",
            NodeValue::Number(_) => "integer",
            NodeValue::Bool(_) => "boolean",
            NodeValue::List(_) => "list",
            NodeValue::Table(_) => "table",
            NodeValue::Other(kind) => kind,
        }
    }

    /// Returns an error about this value.
    pub(crate) fn fail(&self, what: impl Into<String>) -> DocumentError {
        DocumentError::at(self.place.clone(), what)
    }

    fn misplaced(&self, key: &str, expected: &str) -> DocumentError {
        let what = format!(
            "`{}`: expected {expected}, found {}",
            harmless::line(key),
            article(self.kind())
        );
        self.fail(what)
    }

    /// Returns the members of a table. `key` names the table in errors, as it does in the functions
    /// below.
    pub(crate) fn table(&self, key: &str) -> Result<Table<'_>, DocumentError> {
        match &self.value {
            NodeValue::Table(members) => Ok(Table { place: &self.place, members }),
            _ => Err(self.misplaced(key, "a table")),
        }
    }

    pub(crate) fn list(&self, key: &str) -> Result<&[Self], DocumentError> {
        match &self.value {
            NodeValue::List(nodes) => Ok(nodes),
            _ => Err(self.misplaced(key, "a list")),
        }
    }

    /// Returns the text unchanged. It may contain any character.
    pub(crate) fn text(&self, key: &str) -> Result<&str, DocumentError> {
        match &self.value {
            NodeValue::Text(text) => Ok(text),
            _ => Err(self.misplaced(key, "a string")),
        }
    }

    /// Returns a text of one line for the user, of at most `longest` characters.
    ///
    /// In TOML, characters that control a terminal are refused, because the author can fix them. In
    /// JSON, which comes from elsewhere, they are replaced, so that the user sees the rest of the
    /// text.
    pub(crate) fn prose(&self, key: &str, longest: usize) -> Result<String, DocumentError> {
        let text = self.text(key)?;
        if text.trim().is_empty() {
            return Err(self.fail(format!("`{key}` is empty")));
        }
        if text.chars().count() > longest {
            return Err(self.fail(format!("`{key}` has more than {longest} characters")));
        }
        match (&self.place, text.chars().find(|c| is_deceptive(*c))) {
            (_, None) => Ok(text.to_owned()),
            (ValuePlace::Position(_), Some(c)) => Err(self
                .fail(format!("`{key}` has the character U+{:04X}", u32::from(c)))
                .hint("write one line, without control characters and marks of direction")),
            (ValuePlace::Member(_), Some(_)) => {
                let harmless = |c| if is_deceptive(c) { char::REPLACEMENT_CHARACTER } else { c };
                Ok(text.chars().map(harmless).collect())
            }
        }
    }

    pub(crate) fn boolean(&self, key: &str) -> Result<bool, DocumentError> {
        match self.value {
            NodeValue::Bool(value) => Ok(value),
            _ => Err(self.misplaced(key, "`true` or `false`")),
        }
    }

    pub(crate) fn number(&self, key: &str) -> Result<u64, DocumentError> {
        match self.value {
            NodeValue::Number(number) => Ok(number),
            _ => Err(self.misplaced(key, "a whole number")),
        }
    }

    /// Parses the text as a `T`. The error's text completes a sentence that begins with the text.
    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, DocumentError> {
        let text = self.text(key)?;
        parse(text).map_err(|why| self.fail(format!("`{}` {why}", harmless::line(text))))
    }
}

/// The members of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    place: &'a ValuePlace,
    members: &'a [TableMember],
}

impl<'a> Table<'a> {
    /// Checks that the table has no keys other than these.
    pub(crate) fn only(self, known: &[&str]) -> Result<Self, DocumentError> {
        match self.members.iter().find(|member| !known.contains(&member.key.as_str())) {
            Some(member) => Err(member.unknown(known)),
            None => Ok(self),
        }
    }

    /// Checks that the member `key` has the only version that this program reads. Callers check it
    /// first, because a newer version may have other members.
    pub(crate) fn version(self, key: &str) -> Result<Self, DocumentError> {
        let node =
            self.get(key).ok_or_else(|| self.missing(key).hint(format!("write `{key} = 1`")))?;
        match node.number(key)? {
            1 => Ok(self),
            0 => Err(node
                .fail(format!("`{key} = 0` does not exist"))
                .hint(format!("write `{key} = 1`"))),
            newer => Err(node
                .fail(format!("`{key} = {newer}` needs a newer ikigai"))
                .hint(format!("this one reads `{key} = 1`; update ikigai"))),
        }
    }

    pub(crate) fn members(self) -> &'a [TableMember] {
        self.members
    }

    pub(crate) fn get(self, key: &str) -> Option<&'a Node> {
        self.members.iter().find(|member| member.key == key).map(|member| &member.node)
    }

    pub(crate) fn require(self, key: &str) -> Result<&'a Node, DocumentError> {
        self.get(key).ok_or_else(|| self.missing(key))
    }

    /// Reads the member `key` if it is present.
    pub(crate) fn optional<T>(
        self,
        key: &str,
        read: impl FnOnce(&'a Node) -> Result<T, DocumentError>,
    ) -> Result<Option<T>, DocumentError> {
        self.get(key).map(read).transpose()
    }

    fn missing(self, key: &str) -> DocumentError {
        DocumentError::at(self.place.clone(), format!("`{key}` is missing"))
    }
}

impl TableMember {
    /// Returns the error for a key that is not in `known`.
    pub(crate) fn unknown(&self, known: &[&str]) -> DocumentError {
        /// The similarity below which a suggestion would be noise.
        const SIMILAR: f64 = 0.7;
        let near = known
            .iter()
            .map(|known| (strsim::jaro_winkler(&self.key, known), known))
            .filter(|(similarity, _)| *similarity > SIMILAR)
            .max_by(|one, other| one.0.total_cmp(&other.0));
        let what = format!("unknown key `{}`", harmless::line(&self.key));
        DocumentError::at(self.place.clone(), what).hint(match near {
            Some((_, near)) => format!("did you mean `{near}`?"),
            None => format!("known here are {}", known.join(", ")),
        })
    }
}
