//! The parts of an entry that the flags of `ikigai policy revoke` take back.
//!
//! Each flag takes back what the same flag of `policy grant` grants. An emptied `fs` stays in the
//! entry, because without it the tool would get what the profile gives it. The other emptied lists
//! are removed. The entry of an unconfined tool keeps them, because there a missing list means
//! everything.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use ikigai_host::policy::{
    Access, AssetAccess, EntryLists, EntryPermissions, LimitKey, Net, NewKey, NewValue,
    Permissions, Sandbox, WrittenPath, shell_quoted,
};
use ikigai_host::toolchain::ToolchainInstallation;
use serde_json::{Map, Value, json};

use crate::commands::policy::grant::limit_key;
use crate::commands::policy::grant::toolchain::{InstalledToolchains, names};
use crate::error::CliError;
use crate::remedy::policy::{flags, limit_flag, limit_value};

#[derive(Debug, Args)]
pub(super) struct RevokedParts {
    /// Take back only the grant to read this directory or file
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    read: Vec<PathBuf>,
    /// Take back only the grant to write this directory or file
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    write: Vec<PathBuf>,
    /// Take back only the grant to connect to this host
    #[arg(long, alias = "connect", value_name = "HOST:PORT")]
    net: Vec<String>,
    /// Take back only this variable
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// Take back only the directories and variables of this toolchain
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = names())]
    pub(super) toolchain: Vec<String>,
    /// Take back only this limit, such as wall_clock
    #[arg(long, value_name = "LIMIT", value_parser = limit_key)]
    limit: Vec<LimitKey>,
}

impl RevokedParts {
    /// Returns whether no flag names a part.
    pub(super) fn is_empty(&self) -> bool {
        let Self { read, write, net, env, toolchain, limit } = self;
        let lists = [read.is_empty(), write.is_empty(), net.is_empty(), env.is_empty()];
        lists.iter().all(|is_empty| *is_empty) && toolchain.is_empty() && limit.is_empty()
    }
}

/// The lists and the limits of an entry without the parts that were taken back.
pub(super) struct Remainder {
    before: EntryLists,
    after: EntryLists,
    /// The access to assets, if the entry names it.
    assets: Option<AssetAccess>,
    limits: Vec<(LimitKey, u64)>,
    /// True if the entry frees the tool from the sandbox.
    is_free: bool,
    /// The limits that were taken back.
    lifted: Vec<LimitKey>,
}

impl Remainder {
    /// Takes the parts out of an entry. Fails if the entry does not have one of them.
    pub(super) fn new(
        name: &str,
        written: EntryPermissions,
        parts: &RevokedParts,
        toolchains: &InstalledToolchains,
    ) -> Result<Self, CliError> {
        let (assets, mut limits) = (written.assets, written.limits.clone());
        let is_free = written.sandbox == Some(Sandbox::Off);
        let before = EntryLists::from(written);
        let mut after = before.clone();
        let mut missing = Vec::new();
        let dirs = [
            ("--read", Access::ReadOnly, &parts.read),
            ("--write", Access::ReadWrite, &parts.write),
        ];
        for (flag, access, dirs) in dirs {
            for dir in dirs {
                let had = after.fs.len();
                after.fs.retain(|rule| rule.access != access || !is_named(rule, dir));
                if after.fs.len() == had {
                    missing.push(format!("{flag} {}", shell_quoted(&dir.to_string_lossy())));
                }
            }
        }
        for peer in &parts.net {
            let named = Net::parse([peer.as_str()])
                .map_err(|what| CliError::usage(anyhow::Error::msg(format!("--net: {what}"))))?;
            let had = after.net.clone();
            after.net.any &= !named.any;
            after.net.peers.retain(|held| !named.peers.contains(held));
            if after.net == had {
                missing.push(format!("--net {}", shell_quoted(peer)));
            }
        }
        for name in &parts.env {
            let had = after.env.len();
            after.env.retain(|held| held != name);
            if after.env.len() == had {
                missing.push(format!("--env {}", shell_quoted(name)));
            }
        }
        let is_granted = |it: &&ToolchainInstallation| has_all(&before, it);
        let granted: Vec<&ToolchainInstallation> =
            toolchains.others.iter().filter(is_granted).collect();
        for found in &toolchains.named {
            let had = after.clone();
            take_out(&mut after, found, &granted);
            if after == had {
                missing.push(format!("--toolchain {}", found.toolchain.name));
            }
        }
        for key in &parts.limit {
            let had = limits.len();
            limits.retain(|(held, _)| held != key);
            if limits.len() == had {
                missing.push(format!("--limit {}", key.as_str()));
            }
        }
        let lifted = parts.limit.clone();
        let remainder = Self { before, after, assets, limits, is_free, lifted };
        if missing.is_empty() {
            return Ok(remainder);
        }
        let what = format!(
            "nothing to revoke: the entry of `{name}` in your policy file does not have {}",
            missing.join(" ")
        );
        let has = remainder.flags_of(&remainder.before);
        let hint =
            if has.is_empty() { "it grants nothing".to_owned() } else { format!("it has {has}") };
        Err(CliError::failed(anyhow::Error::msg(what)).hint(hint))
    }

    /// Returns the keys of the entry that change.
    pub(super) fn keys(&self) -> Vec<NewKey> {
        let lists = self.after.keys(&self.before).into_iter();
        let lists = lists.map(|(key, value)| {
            let is_needless = !self.is_free && matches!(&*key, "net" | "env" | "path");
            let is_empty = value == NewValue::List(Vec::new());
            let value = if is_needless && is_empty { NewValue::Absent } else { value };
            (key, value)
        });
        let lifted: Vec<String> = match (&self.lifted[..], self.limits.is_empty()) {
            ([_, ..], true) => vec!["limits".to_owned()],
            (lifted, _) => lifted.iter().map(|key| format!("limits.{}", key.as_str())).collect(),
        };
        lists.chain(lifted.into_iter().map(|key| (key, NewValue::Absent))).collect()
    }

    /// Returns what stays, as the flags that grant it; nothing if the entry grants nothing.
    pub(super) fn in_flags(&self) -> String {
        self.flags_of(&self.after)
    }

    fn flags_of(&self, lists: &EntryLists) -> String {
        let EntryLists { fs, net, env, .. } = lists;
        let permissions = Permissions {
            dirs: fs.iter().map(|rule| (rule.access, rule.written.clone())).collect(),
            net: net.clone(),
            env: env.clone(),
            assets: self.assets.unwrap_or_default(),
        };
        let limits = self.limits.iter().map(|(key, value)| limit_flag(*key, *value));
        let unconfined = self.is_free.then(|| "--unconfined".to_owned());
        let flags = flags(&permissions).into_iter().chain(limits).chain(unconfined);
        flags.collect::<Vec<_>>().join(" ")
    }

    /// Returns what stays, as JSON.
    pub(super) fn as_json(&self) -> Value {
        let EntryLists { fs, net, env, .. } = &self.after;
        let any = net.any.then(|| "*".to_owned());
        let net = any.into_iter().chain(net.peers.iter().map(ToString::to_string));
        let limits = self
            .limits
            .iter()
            .map(|(key, value)| (key.as_str().to_owned(), Value::from(limit_value(*key, *value))));
        json!({
            "fs": fs.iter().map(WrittenPath::rule).collect::<Vec<_>>(),
            "net": net.collect::<Vec<_>>(),
            "env": env,
            "assets": self.assets.map(AssetAccess::as_str),
            "limits": limits.collect::<Map<_, _>>(),
        })
    }
}

/// Returns whether the lists have each directory of a toolchain.
fn has_all(lists: &EntryLists, found: &ToolchainInstallation) -> bool {
    let mut places = found.places.iter();
    !found.places.is_empty()
        && places.all(|place| lists.fs.iter().any(|rule| is_named(rule, &place.path)))
}

/// Takes a toolchain out of the lists, but for what it shares with one of the others, which are
/// granted too.
fn take_out(
    lists: &mut EntryLists,
    found: &ToolchainInstallation,
    others: &[&ToolchainInstallation],
) {
    let is_own = |path: &Path| {
        let is_it = |it: &ToolchainInstallation| it.places.iter().any(|place| place.path == path);
        is_it(found) && !others.iter().any(|it| is_it(it))
    };
    let own = found.places.iter().map(|place| place.path.as_path()).filter(|path| is_own(path));
    let own: Vec<&Path> = own.collect();
    lists.fs.retain(|rule| !own.iter().any(|path| is_named(rule, path)));
    lists.env.retain(|name| {
        let is_of = |it: &ToolchainInstallation| it.env.contains(&name.as_str());
        !is_of(found) || others.iter().any(|it| is_of(it))
    });
    lists
        .path
        .retain(|dir| !found.path.contains(dir) || others.iter().any(|it| it.path.contains(dir)));
}

/// Returns whether a path names the directory or file of a rule, as written there or by another
/// name.
fn is_named(rule: &WrittenPath, path: &Path) -> bool {
    let real = || Some(path.canonicalize().ok()? == rule.path.canonicalize().ok()?);
    Path::new(&rule.written) == path
        || std::path::absolute(path).is_ok_and(|path| path == rule.path)
        || real().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> EntryPermissions {
        let rule = |access, path: &str| WrittenPath {
            access,
            written: path.to_owned(),
            path: PathBuf::from(path),
        };
        EntryPermissions {
            fs: Some(vec![rule(Access::ReadWrite, "/a"), rule(Access::ReadOnly, "/b")]),
            net: Some(Net::parse(["a.example:443"]).expect("a list")),
            env: Some(vec!["A".to_owned(), "B".to_owned()]),
            limits: vec![(LimitKey::Fuel, 7), (LimitKey::WallClock, 5_000_000_000)],
            ..EntryPermissions::default()
        }
    }

    fn parts(read: &str, net: &str, env: &str) -> RevokedParts {
        let one = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        RevokedParts {
            read: one(read).map(PathBuf::from).into_iter().collect(),
            write: Vec::new(),
            net: one(net).into_iter().collect(),
            env: one(env).into_iter().collect(),
            toolchain: Vec::new(),
            limit: Vec::new(),
        }
    }

    fn remainder(parts: &RevokedParts) -> Result<Remainder, CliError> {
        Remainder::new("tool", written(), parts, &InstalledToolchains::default())
    }

    #[test]
    fn the_rest_of_each_list_stays() {
        let parts =
            RevokedParts { limit: vec![LimitKey::Fuel], ..parts("/b", "A.example:443", "A") };
        let remainder = remainder(&parts).unwrap_or_else(|_| panic!("parts"));
        assert_eq!(remainder.in_flags(), "--write /a --env B --limit wall_clock=5s");
        let changed: Vec<String> = remainder.keys().into_iter().map(|(key, _)| key).collect();
        assert_eq!(changed, ["fs", "net", "env", "limits.fuel"]);
        let limits = json!({ "wall_clock": "5s" });
        assert_eq!(
            remainder.as_json(),
            json!({ "fs": ["rw:/a"], "net": [], "env": ["B"], "assets": null, "limits": limits })
        );
    }

    #[test]
    fn an_emptied_list_stays_only_where_a_missing_one_means_more() {
        let remainder = |sandbox| {
            let written = EntryPermissions {
                fs: Some(vec![written().fs.expect("a list").remove(1)]),
                env: Some(vec!["A".to_owned()]),
                limits: vec![(LimitKey::Fuel, 7)],
                sandbox,
                ..written()
            };
            let parts =
                RevokedParts { limit: vec![LimitKey::Fuel], ..parts("/b", "a.example:443", "A") };
            let toolchains = InstalledToolchains::default();
            let remainder = Remainder::new("tool", written, &parts, &toolchains);
            remainder.unwrap_or_else(|_| panic!("parts")).keys()
        };
        let key = |name: &str, value| (name.to_owned(), value);
        let empty = || NewValue::List(Vec::new());
        assert_eq!(
            remainder(None),
            [
                key("fs", empty()),
                key("net", NewValue::Absent),
                key("env", NewValue::Absent),
                key("limits", NewValue::Absent)
            ]
        );
        assert_eq!(
            remainder(Some(Sandbox::Off)),
            [
                key("fs", empty()),
                key("net", empty()),
                key("env", empty()),
                key("limits", NewValue::Absent)
            ]
        );
    }

    #[test]
    fn what_the_entry_does_not_have_is_refused() {
        let limit = RevokedParts { limit: vec![LimitKey::Memory], ..parts("", "", "") };
        for parts in
            [parts("/a", "", ""), parts("", "b.example:443", ""), parts("", "", "C"), limit]
        {
            assert!(remainder(&parts).is_err(), "{parts:?}");
        }
    }
}
