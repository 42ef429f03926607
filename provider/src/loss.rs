//! What a translation could not carry over, in words for whoever wrote the schema.
//!
//! Nothing here decides anything: the translation of each provider does, and says so with
//! these types.

use std::fmt;

use thiserror::Error;

/// One thing that a provider's form of a schema does not say as the tool said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Where in the tool's `parameters`, as a JSON pointer; empty for the whole. `description`
    /// and `returns`, without a slash, are the members of the schema that are called so.
    pub at: String,
    /// What became of it.
    pub effect: Effect,
    /// Why.
    pub reason: Reason,
}

/// What became of the part that a [`Loss`] points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The whole tool goes out with `strict: false`, its schema otherwise as it was.
    NotStrict,
    /// The whole schema goes out as JSON Schema (`parametersJsonSchema`), nothing removed.
    AsJsonSchema,
    /// The keyword is not sent.
    Removed,
    /// The keyword is not sent; the description says it in words.
    Described,
    /// The text is sent up to its limit.
    Cut,
    /// The same meaning, in the words of JSON Schema 2020-12.
    Rewritten,
    /// The model passes `null` where it would leave the argument out, and the tool sees it.
    NullForAbsent,
}

/// Why something could not be carried over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The provider has no such keyword.
    Keyword(String),
    /// A schema without a type accepts any value.
    Untyped,
    /// An object with names that the schema does not know.
    FreeForm,
    /// An array whose elements are not described.
    NoItems,
    /// `required` names what `properties` does not have.
    Undeclared(String),
    /// A keyword beside `$ref` or `anyOf`, or beside a type that it says nothing about.
    Beside(String),
    /// A reference to somewhere else than a definition at the root.
    Reference(String),
    /// A definition that is only a reference to itself.
    Endless(String),
    /// Two alternatives that the nulls of strict mode make alike.
    Ambiguous,
    /// `enum` or `const` with a value that is no scalar, or not of the type.
    Enumerated,
    /// A `format` that the provider does not take.
    Format(String),
    /// A `pattern` beyond plain regular expressions.
    Pattern,
    /// A type, or a set of types, that the form has no room for.
    Type(String),
    /// A name of a property that the form does not take.
    PropertyName(String),
    /// A documented size is exceeded.
    Limit {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// An optional property that may be null as well.
    AlreadyNullable,
    /// An older draft's way to say it.
    Draft,
}

/// Why a tool cannot be offered to a provider at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Inexpressible {
    /// The provider's pattern for names.
    #[error("the name `{name}` does not match {pattern}, the provider's pattern for names")]
    Name {
        /// The tool's name.
        name: String,
        /// A regular expression.
        pattern: &'static str,
    },
    /// Two tools cannot share a name.
    #[error("another tool is called `{name}` already")]
    Duplicate {
        /// The name of both.
        name: String,
    },
    /// The provider takes so many tools, and others came before.
    #[error("a request has room for {limit} tools, and others come before it")]
    TooMany {
        /// How many it takes.
        limit: usize,
    },
    /// A name of a property that the provider refuses.
    #[error("the property `{name}` does not match {pattern}, the provider's pattern for keys")]
    PropertyName {
        /// The property's name.
        name: String,
        /// A regular expression.
        pattern: &'static str,
    },
    /// Not JSON Schema: a provider that checks would refuse the whole request.
    #[error("`{at}` in `parameters` must be {expected}")]
    Malformed {
        /// A JSON pointer into `parameters`.
        at: String,
        /// What belongs there.
        expected: &'static str,
    },
}

impl Inexpressible {
    /// Whether the tool itself could be offered, and others took all the room.
    #[must_use]
    pub fn is_too_many(&self) -> bool {
        matches!(self, Self::TooMany { .. })
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "/" } else { &self.at };
        write!(f, "`{at}`: {}: {}", self.effect, self.reason)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotStrict => "sent with `strict: false`",
            Self::AsJsonSchema => "sent as `parametersJsonSchema`",
            Self::Removed => "not sent",
            Self::Cut => "cut",
            Self::Described => "sent in the description",
            Self::Rewritten => "sent in the words of JSON Schema 2020-12",
            Self::NullForAbsent => "null is passed where the argument is left out",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyword(word) => write!(f, "the provider has no `{word}` here"),
            Self::Untyped => f.write_str("without `type` any value is accepted"),
            Self::FreeForm => {
                f.write_str("the object may have names that the schema does not list")
            }
            Self::NoItems => f.write_str("an array without `items` may hold anything"),
            Self::Undeclared(name) => write!(f, "`required` names `{name}`, which is no property"),
            Self::Beside(word) => write!(f, "`{word}` cannot stand here beside the other keywords"),
            Self::Reference(target) => {
                write!(f, "`{target}` is no definition in `$defs` or `definitions` at the root")
            }
            Self::Endless(target) => write!(f, "`{target}` refers to itself and to nothing else"),
            Self::Ambiguous => f.write_str(
                "two alternatives have the same properties; on_event them apart by a required `const`",
            ),
            Self::Enumerated => f.write_str("values must be scalars of the type beside them"),
            Self::Format(format) => write!(f, "the provider does not know the format `{format}`"),
            Self::Pattern => {
                f.write_str("look-around and back-references are not supported in a `pattern`")
            }
            Self::Type(types) => write!(f, "the type {types} has no form here"),
            Self::PropertyName(name) => write!(f, "the name `{name}` has no form here"),
            Self::Limit { what, found, limit } => {
                write!(f, "{found} {what}, over the provider's limit of {limit}")
            }
            Self::AlreadyNullable => {
                f.write_str("the property is optional, and null is a value of it")
            }
            Self::Draft => f.write_str("an older draft's form, which the provider refuses"),
        }
    }
}
