//! The parts of an entry that the flags of `ikigai policy revoke` take back.
//!
//! Each flag takes back what the same flag of `policy grant` grants. An emptied list stays in the
//! entry. Without that list, the tool would get what the profile gives it.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use ikigai_host::policy::{
    Access, EntryLists, Net, NewKey, Permissions, Written, WrittenPath, shell_quoted,
};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::remedy::policy::flags;

#[derive(Debug, Args)]
pub(super) struct Parts {
    /// Take back the grant to read this directory or file alone
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    read: Vec<PathBuf>,
    /// Take back the grant to write this directory or file alone
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    write: Vec<PathBuf>,
    /// Take back the grant to connect to this host alone
    #[arg(long, alias = "connect", value_name = "HOST:PORT")]
    net: Vec<String>,
    /// Take back this variable alone
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
}

impl Parts {
    /// Returns whether no flag names a part.
    pub(super) fn is_empty(&self) -> bool {
        let Self { read, write, net, env } = self;
        read.is_empty() && write.is_empty() && net.is_empty() && env.is_empty()
    }
}

/// The lists of an entry without the parts that were taken back.
pub(super) struct Remainder {
    before: EntryLists,
    after: EntryLists,
}

impl Remainder {
    /// Takes the parts out of the lists of an entry. Fails if the entry does not have one of them.
    pub(super) fn new(name: &str, written: Written, parts: &Parts) -> Result<Self, CliError> {
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
        let remainder = Self { before, after };
        if missing.is_empty() {
            return Ok(remainder);
        }
        let what = format!(
            "nothing to revoke: the entry of `{name}` in your policy file does not have {}",
            missing.join(" ")
        );
        let has = in_flags(&remainder.before);
        let hint = if has.is_empty() {
            "it names no directories, hosts or variables".to_owned()
        } else {
            format!("it has {has}")
        };
        Err(CliError::failed(anyhow::Error::msg(what)).hint(hint))
    }

    /// Returns the keys of the entry that change.
    pub(super) fn keys(&self) -> Vec<NewKey> {
        self.after.keys(&self.before)
    }

    /// Returns what stays, as the flags that grant it; `None` if no directory, host or variable
    /// stays.
    pub(super) fn in_flags(&self) -> String {
        in_flags(&self.after)
    }

    /// Returns what stays, as JSON.
    pub(super) fn as_json(&self) -> Value {
        let EntryLists { fs, net, env, .. } = &self.after;
        let any = net.any.then(|| "*".to_owned());
        let net = any.into_iter().chain(net.peers.iter().map(ToString::to_string));
        json!({
            "fs": fs.iter().map(WrittenPath::rule).collect::<Vec<_>>(),
            "net": net.collect::<Vec<_>>(),
            "env": env,
        })
    }
}

fn in_flags(lists: &EntryLists) -> String {
    let EntryLists { fs, net, env, .. } = lists;
    let permissions = Permissions {
        dirs: fs.iter().map(|rule| (rule.access, rule.written.clone())).collect(),
        net: net.clone(),
        env: env.clone(),
        ..Permissions::default()
    };
    flags(&permissions).join(" ")
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

    fn written() -> Written {
        let rule = |access, path: &str| WrittenPath {
            access,
            written: path.to_owned(),
            path: PathBuf::from(path),
        };
        Written {
            fs: Some(vec![rule(Access::ReadWrite, "/a"), rule(Access::ReadOnly, "/b")]),
            net: Some(Net::parse(["a.example:443"]).expect("a list")),
            env: Some(vec!["A".to_owned(), "B".to_owned()]),
            ..Written::default()
        }
    }

    fn parts(read: &str, net: &str, env: &str) -> Parts {
        let one = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Parts {
            read: one(read).map(PathBuf::from).into_iter().collect(),
            write: Vec::new(),
            net: one(net).into_iter().collect(),
            env: one(env).into_iter().collect(),
        }
    }

    #[test]
    fn the_rest_of_each_list_stays() {
        let parts = parts("/b", "A.example:443", "A");
        let remainder =
            Remainder::new("tool", written(), &parts).unwrap_or_else(|_| panic!("parts"));
        assert_eq!(remainder.in_flags(), "--write /a --env B");
        let changed: Vec<String> = remainder.keys().into_iter().map(|(key, _)| key).collect();
        assert_eq!(changed, ["fs", "net", "env"]);
        assert_eq!(remainder.as_json(), json!({ "fs": ["rw:/a"], "net": [], "env": ["B"] }));
    }

    #[test]
    fn what_the_entry_does_not_have_is_refused() {
        for parts in [parts("/a", "", ""), parts("", "b.example:443", ""), parts("", "", "C")] {
            assert!(Remainder::new("tool", written(), &parts).is_err(), "{parts:?}");
        }
    }
}
