//! Parses a lock.

use std::collections::BTreeMap;
use std::str::FromStr;

use ikigai_protocol::Digest;
use semver::Version;

use super::{LONGEST_FROM, LockedTool, MAX_LOCK_BYTES, WantedVersion, is_source};
use crate::document::{self, DocumentError, Node, Position, Table, ValuePlace};
use crate::harmless;
use crate::manifest;
use crate::signer::Signer;

const TOOL_KEYS: &[&str] =
    &["name", "version", "from", "wanted", "manifest", "sha256", "size", "signer", "needs"];

/// The prefix of the digest of a manifest or of needs.
const SHA256: &str = "sha256:";

type LockReadResult<T> = Result<T, DocumentError>;

pub(super) fn read(text: &[u8]) -> LockReadResult<BTreeMap<String, LockedTool>> {
    // The TOML parser's message about these marks would not help the user.
    if let Some(line) = text.split(|byte| *byte == b'\n').position(is_conflict_mark) {
        let place = ValuePlace::Position(Position { line: line + 1, column: 1 });
        let hint = "merge both sides by hand, or take one of them (`git checkout --ours` or \
                    `--theirs`)";
        return Err(DocumentError::at(place, "has the marks of a conflict of git").hint(hint));
    }
    let document = document::parse_toml(text, MAX_LOCK_BYTES)?;
    let table = document.table("the lock")?.version("version")?.only(&["version", "tool"])?;
    let mut tools = BTreeMap::new();
    let mut lines: BTreeMap<&str, Option<Position>> = BTreeMap::new();
    for node in table.get("tool").map_or(Ok(&[][..]), |node| node.list("tool"))? {
        let table = node.table("tool")?.only(TOOL_KEYS)?;
        let name = table.require("name")?;
        let text = name.text("name")?;
        let error = name.fail(format!("`{}` is locked twice", harmless::line(text)));
        if let Some(first) = lines.insert(text, error.position()) {
            let first = first.map_or_else(String::new, |first| format!(" of line {}", first.line));
            return Err(error.hint(format!("remove this entry or the one{first}")));
        }
        tools.insert(manifest::name(name)?, tool(table)?);
    }
    Ok(tools)
}

/// Returns whether git wrote this line between the sides of a conflict.
fn is_conflict_mark(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let has_label = [&b"<<<<<<<"[..], b"|||||||", b">>>>>>>"]
        .iter()
        .filter_map(|mark| line.strip_prefix(*mark))
        .any(|rest| rest.first().is_none_or(|byte| *byte == b' '));
    has_label || line == b"======="
}

fn tool(table: Table<'_>) -> LockReadResult<LockedTool> {
    Ok(LockedTool {
        version: table.optional("version", |node| node.parsed("version", version))?,
        from: from(table.require("from")?)?,
        wanted: table.optional("wanted", |node| node.parsed("wanted", WantedVersion::from_str))?,
        manifest: table.optional("manifest", |node| node.parsed("manifest", prefixed))?,
        sha256: digest(table.require("sha256")?)?,
        size: table.require("size")?.number("size")?,
        signer: signer(table.require("signer")?)?,
        needs: table.optional("needs", |node| node.parsed("needs", prefixed))?,
    })
}

fn version(text: &str) -> Result<Version, String> {
    text.parse().map_err(|error| format!("is not a version such as `1.2.0`: {error}"))
}

fn from(node: &Node) -> LockReadResult<String> {
    let text = node.text("from")?;
    if is_source(text) {
        return Ok(text.to_owned());
    }
    let what = format!(
        "`from` is empty, longer than {LONGEST_FROM} bytes, or has characters that cannot be seen"
    );
    Err(node.fail(what))
}

fn digest(node: &Node) -> LockReadResult<Digest> {
    // The error would contain the text itself, of any length.
    node.parsed("sha256", |text| {
        text.parse::<Digest>().map_err(|_| "is not a SHA-256 digest (64 hexadecimal digits)")
    })
}

fn prefixed(text: &str) -> Result<Digest, &'static str> {
    let digest = text.strip_prefix(SHA256).and_then(|hex| hex.parse().ok());
    digest.ok_or("is not a digest; expected `sha256:` and 64 hexadecimal digits")
}

fn signer(node: &Node) -> LockReadResult<Signer> {
    node.parsed("signer", |text| {
        text.parse::<Signer>().map_err(|_| {
            "does not name a signer; expected `ssh:SHA256:…`, `minisign:KEYID`, \
             `sigstore:ISSUER#SUBJECT` or `none`"
        })
    })
}
