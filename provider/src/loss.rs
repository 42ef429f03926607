//! The losses of a translation: parts of a tool's schema that a provider's form cannot express,
//! described for the schema's author.
//!
//! Only the types are here; the translation of each provider decides what is lost.

use std::fmt;

use thiserror::Error;

/// A part of a tool's schema that a provider's form does not express as the tool does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The position in the tool's `parameters`, as a JSON pointer; empty for the whole. Without a
    /// slash, `description` and `returns` are the members of the schema with these names.
    pub at: String,
    /// The effect on that part.
    pub effect: LossEffect,
    /// The reason.
    pub reason: LossReason,
}

/// The effect of a [`Loss`] on the part that it points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossEffect {
    /// The whole tool is sent with `strict: false`, its schema otherwise unchanged.
    NotStrict,
    /// The whole schema is sent as JSON Schema (`parametersJsonSchema`), with nothing removed.
    AsJsonSchema,
    /// The keyword is not sent.
    Removed,
    /// The keyword is not sent; the description has its meaning in words.
    Described,
    /// The text is sent up to its limit.
    Cut,
    /// The same meaning is sent in the keywords of JSON Schema 2020-12.
    Rewritten,
    /// The model passes `null` instead of omitting the argument, and the tool receives it.
    NullForAbsent,
}

/// The reason of a [`Loss`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// The provider has no such keyword.
    Keyword(String),
    /// A schema without a type accepts any value.
    Untyped,
    /// An object may have names that the schema does not list.
    FreeForm,
    /// An array has no `items`.
    NoItems,
    /// `required` lists a name that `properties` does not have.
    Undeclared(String),
    /// A keyword next to `$ref` or `anyOf`, or next to a type that it does not apply to.
    Beside(String),
    /// A reference to a position other than a definition at the root.
    Reference(String),
    /// A definition that only refers to itself.
    Endless(String),
    /// Two alternatives that the nulls of strict mode make indistinguishable.
    Ambiguous,
    /// An `enum` or `const` with a value that is not a scalar, or not of the schema's type.
    Enumerated,
    /// A `format` that the provider does not accept.
    Format(String),
    /// A `pattern` that is not a plain regular expression.
    Pattern,
    /// A type, or a set of types, that the form cannot express.
    Type(String),
    /// A property name that the form does not accept.
    PropertyName(String),
    /// A documented limit is exceeded.
    Limit {
        /// The things that are counted.
        what: &'static str,
        /// Their number.
        found: usize,
        /// The limit on it.
        limit: usize,
    },
    /// An optional property that accepts null itself.
    AlreadyNullable,
    /// A form of an older draft.
    Draft,
}

/// The reason why a tool cannot be offered to a provider at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Inexpressible {
    /// The name does not match the provider's pattern.
    #[error("the name `{name}` does not match {pattern}, the provider's pattern for names")]
    Name {
        /// The tool's name.
        name: String,
        /// A regular expression.
        pattern: &'static str,
    },
    /// Another tool has the same name.
    #[error("another tool is called `{name}` already")]
    Duplicate {
        /// The name of both tools.
        name: String,
    },
    /// Earlier tools have reached the provider's limit on the number of tools.
    #[error("a request has room for {limit} tools, and others come before it")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The provider refuses the name of a property.
    #[error("the property `{name}` does not match {pattern}, the provider's pattern for keys")]
    PropertyName {
        /// The property's name.
        name: String,
        /// A regular expression.
        pattern: &'static str,
    },
    /// The parameters are not a valid JSON Schema. A provider that checks them would refuse the
    /// whole request.
    #[error("`{at}` in `parameters` must be {expected}")]
    Malformed {
        /// A JSON pointer into `parameters`.
        at: String,
        /// The kind of value that is valid there.
        expected: &'static str,
    },
}

impl Inexpressible {
    /// Returns whether the tool could be offered if there were fewer others.
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

impl fmt::Display for LossEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotStrict => "sent with `strict: false`",
            Self::AsJsonSchema => "sent as `parametersJsonSchema`",
            Self::Removed => "not sent",
            Self::Cut => "cut",
            Self::Described => "sent in the description",
            Self::Rewritten => "sent in the words of JSON Schema 2020-12",
            Self::NullForAbsent => "null is sent if the argument is left out",
        })
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyword(word) => write!(f, "the provider has no `{word}` here"),
            Self::Untyped => f.write_str("without `type` any value is accepted"),
            Self::FreeForm => {
                f.write_str("the object may have names that the schema does not list")
            }
            Self::NoItems => f.write_str("an array without `items` may hold anything"),
            Self::Undeclared(name) => {
                write!(f, "`required` names `{name}`, which is not a property")
            }
            Self::Beside(word) => {
                write!(f, "`{word}` cannot be combined with the other keywords here")
            }
            Self::Reference(target) => {
                write!(f, "`{target}` is not a definition in `$defs` or `definitions` at the root")
            }
            Self::Endless(target) => write!(f, "`{target}` refers to itself and to nothing else"),
            Self::Ambiguous => f.write_str(
                "two alternatives have the same properties; distinguish them by a required `const`",
            ),
            Self::Enumerated => f.write_str("values must be scalars of the type beside them"),
            Self::Format(format) => write!(f, "the provider does not know the format `{format}`"),
            Self::Pattern => {
                f.write_str("look-around and back-references are not supported in a `pattern`")
            }
            Self::Type(types) => write!(f, "the provider cannot express the type {types}"),
            Self::PropertyName(name) => write!(f, "the provider cannot express the name `{name}`"),
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
