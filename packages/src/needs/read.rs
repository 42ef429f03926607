//! Reads needs from TOML or JSON.

use std::collections::BTreeMap;
use std::str::FromStr;

use ikigai_protocol::host_socket::HOST_FD_VARIABLE;
use ikigai_protocol::{DIRS_VARIABLE, ProviderKey, STORE_VARIABLE, is_invisible};
use strum::VariantArray;

use super::{
    AssetNeed, DirNeed, LimitName, LimitValue, Needs, NetworkPeer, PeerNeed, VariableNeed,
    WorkspaceDir,
};
use crate::document::{DocumentError, Node, Table};
use crate::harmless;

/// The most entries in a list. The user reads each of them before granting it.
const MOST: usize = 100;

/// The longest reason in characters.
const LONGEST_WHY: usize = 500;

/// The longest variable name in bytes.
const LONGEST_NAME: usize = 256;

type NeedsReadResult<T> = Result<T, DocumentError>;

/// Reads the table `needs`.
pub(crate) fn read(node: &Node) -> NeedsReadResult<Needs> {
    let table = node.table("needs")?.only(&["assets", "env", "fs", "limits", "net"])?;
    let needs = Needs {
        assets: table.optional("assets", assets)?,
        env: entries(table, "env", &["name", "optional", "why"], variable, |need| &*need.name)?,
        fs: entries(table, "fs", &["dir", "why"], directory, |need| need.dir.path())?,
        limits: table.optional("limits", limits)?.unwrap_or_default(),
        net: entries(table, "net", &["peer", "why"], peer, |need| &need.peer)?,
    };
    check_overlap(table, &needs.fs)?;
    Ok(needs)
}

/// Reads the list of tables `key`. Their subjects must differ.
fn entries<T, S: Eq + ?Sized>(
    table: Table<'_>,
    key: &str,
    known: &[&str],
    one: impl Fn(Table<'_>) -> NeedsReadResult<T>,
    subject: impl Fn(&T) -> &S,
) -> NeedsReadResult<Vec<T>> {
    let Some(node) = table.get(key) else { return Ok(Vec::new()) };
    let nodes = node.list(key)?;
    if nodes.len() > MOST {
        return Err(node.fail(format!("`{key}` has more than {MOST} entries")));
    }
    let mut entries: Vec<T> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let entry = one(node.table(key)?.only(known)?)?;
        if entries.iter().any(|before| subject(before) == subject(&entry)) {
            let name = known[0];
            return Err(node.fail(format!("this `{name}` of `needs.{key}` is there twice")));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn peer(table: Table<'_>) -> NeedsReadResult<PeerNeed> {
    Ok(PeerNeed {
        peer: table.require("peer")?.parsed("peer", NetworkPeer::from_str)?,
        why: why(table)?,
    })
}

fn variable(table: Table<'_>) -> NeedsReadResult<VariableNeed> {
    let node = table.require("name")?;
    let name = node.text("name")?;
    check_variable(node, name)?;
    let optional = table.optional("optional", |node| node.boolean("optional"))?;
    Ok(VariableNeed {
        name: name.to_owned(),
        optional: optional.unwrap_or_default(),
        why: why(table)?,
    })
}

/// Checks that a manifest may ask for this variable.
fn check_variable(node: &Node, name: &str) -> NeedsReadResult<()> {
    if name == DIRS_VARIABLE || name == HOST_FD_VARIABLE {
        return Err(node
            .fail(format!("`{name}` is set by ikigai itself"))
            .hint("remove this need"));
    }
    if name == STORE_VARIABLE {
        let what = format!("`{name}` is for ikigai itself: it may hold a password");
        return Err(node.fail(what).hint("for assets, write `assets = \"read\"`"));
    }
    if ProviderKey::ALL.iter().any(|key| key.as_str() == name) {
        let what =
            format!("`{name}` is the key of a provider of models, which no tool may ask for");
        let hint = format!(
            "leave it out; the user can grant it with `ikigai policy grant NAME --env {name}`"
        );
        return Err(node.fail(what).hint(hint));
    }
    let is_bad =
        |c: char| matches!(c, '=' | '"' | '\'' | '*') || c.is_whitespace() || is_invisible(c);
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains(is_bad) {
        return Err(node.fail(format!("`{}` is not a valid variable name", harmless::line(name))));
    }
    Ok(())
}

fn directory(table: Table<'_>) -> NeedsReadResult<DirNeed> {
    Ok(DirNeed {
        dir: table.require("dir")?.parsed("dir", WorkspaceDir::from_str)?,
        why: why(table)?,
    })
}

/// Checks that no directory is inside another with a different access, because no policy can grant
/// both.
fn check_overlap(table: Table<'_>, needs: &[DirNeed]) -> NeedsReadResult<()> {
    for (index, DirNeed { dir: inner, .. }) in needs.iter().enumerate() {
        let contradicts =
            |outer: &&WorkspaceDir| inner.is_in(outer) && inner.access() != outer.access();
        if let Some(outer) = needs.iter().map(|need| &need.dir).find(contradicts) {
            let what = format!(
                "`{inner}` lies in `{outer}`: a directory has one access, which applies to \
                 everything in it"
            );
            let hint = "ask for the same access to both, or for one of them";
            return Err(table.require("fs")?.list("fs")?[index].fail(what).hint(hint));
        }
    }
    Ok(())
}

fn why(table: Table<'_>) -> NeedsReadResult<String> {
    let hint = "say in one line what the tool does with it; people read it before they grant it";
    let node = table.require("why").map_err(|error| error.hint(hint))?;
    node.prose("why", LONGEST_WHY)
}

fn assets(node: &Node) -> NeedsReadResult<AssetNeed> {
    node.parsed("assets", |word| {
        word.parse().map_err(|_| "is not an access to assets; expected `none`, `read` or `write`")
    })
}

fn limits(node: &Node) -> NeedsReadResult<BTreeMap<LimitName, LimitValue>> {
    let known: Vec<&str> = LimitName::VARIANTS.iter().map(|name| name.as_str()).collect();
    let mut limits = BTreeMap::new();
    for member in node.table("limits")?.members() {
        let name = member.key.parse().map_err(|_| member.unknown(&known))?;
        limits.insert(name, LimitValue::read(name, &member.node)?);
    }
    Ok(limits)
}
