//! A limit of a call that a tool needs.

use std::fmt;

use bytesize::ByteSize;
use serde::Serialize;
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::document::{DocumentError, Node};

/// The name of a limit, as in a policy. The variants are sorted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(EnumString, IntoStaticStr, VariantArray, Serialize)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// The fuel, about one unit per instruction.
    Fuel,
    /// The number of open handles.
    Handles,
    /// The memory, a size.
    Memory,
    /// The stdout, a size.
    Output,
    /// The number of processes and threads.
    Processes,
    /// The wall clock, a duration.
    WallClock,
}

/// A limit as the author wrote it, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitValue {
    /// The value, more than zero: nanoseconds, bytes or a count.
    pub value: u64,
    /// The text of a duration or size. `None` for a count.
    text: Option<String>,
}

impl LimitName {
    /// Returns the key that a policy uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl LimitValue {
    pub(super) fn read(name: LimitName, node: &Node) -> Result<Self, DocumentError> {
        let key = name.as_str();
        let parse = match name {
            LimitName::Fuel | LimitName::Handles | LimitName::Processes => {
                return match node.number(key)? {
                    0 => Err(node.fail(format!("`{key}` must be more than zero"))),
                    value => Ok(Self { value, text: None }),
                };
            }
            LimitName::Memory | LimitName::Output => size,
            LimitName::WallClock => duration,
        };
        let value = node.parsed(key, parse)?;
        Ok(Self { value, text: Some(node.text(key)?.to_owned()) })
    }
}

/// Parses a size into bytes.
fn size(text: &str) -> Result<u64, &'static str> {
    match text.parse::<ByteSize>() {
        Ok(size) if size.as_u64() > 0 => Ok(size.as_u64()),
        Ok(_) => Err("must be more than zero"),
        Err(_) => Err("is not a size; write it as 64KiB or 512MiB"),
    }
}

/// Parses a duration into nanoseconds. A policy allows at most one week.
fn duration(text: &str) -> Result<u64, &'static str> {
    /// One week in nanoseconds.
    const LONGEST: u64 = 7 * 24 * 60 * 60 * 1_000_000_000;
    let duration = humantime::parse_duration(text)
        .map_err(|_| "is not a duration; write it as 500ms, 30s or 2m")?;
    match u64::try_from(duration.as_nanos()) {
        Ok(nanoseconds) if (1..=LONGEST).contains(&nanoseconds) => Ok(nanoseconds),
        _ => Err("must be more than zero and at most 7days"),
    }
}

impl fmt::Display for LimitValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => write!(f, "{}", self.value),
        }
    }
}

impl Serialize for LimitValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.text {
            Some(text) => serializer.serialize_str(text),
            None => serializer.serialize_u64(self.value),
        }
    }
}
