//! The policy lines that the needs of a tool would become.

use std::net::IpAddr;

use ikigai_host::Digest;
use ikigai_host::policy::{NewKey, NewValue, is_public};
use ikigai_packages::needs::{Need, Needs, NetworkPeer};

/// The grant that a tool requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requested {
    /// The keys of the tool's entry.
    pub(crate) keys: Vec<NewKey>,
    /// The needs that a manifest never grants, each with the reason. The user can grant them by
    /// hand.
    pub(crate) withheld: Vec<String>,
}

impl Requested {
    /// Returns the grant of these needs for a file. It makes a native tool run in the sandbox,
    /// whatever the profile is.
    pub(crate) fn from_needs(needs: &Needs, digest: Digest, is_native: bool) -> Self {
        let mut requested = Self::default();
        let (mut fs, mut net, mut env) = (Vec::new(), Vec::new(), Vec::new());
        let mut keys = vec![("sha256".to_owned(), NewValue::List(vec![digest.to_string()]))];
        if is_native {
            keys.push(("sandbox".to_owned(), NewValue::Word("require".to_owned())));
        }
        for need in needs.iter() {
            match need {
                Need::Fs(need) => fs.push(need.dir.to_string()),
                Need::Env(need) => env.push(need.name.clone()),
                Need::Net(need) => match objection(&need.peer) {
                    None => net.push(need.peer.to_string()),
                    Some(why) => requested.withheld.push(format!("net {} ({why})", need.peer)),
                },
                Need::Assets(access) => {
                    let word = NewValue::Word(access.as_str().to_owned());
                    keys.push(("assets".to_owned(), word));
                }
                Need::Limit(name, limit) => {
                    let text = limit.to_string();
                    // A count is written as a number, and a duration or a size as a word.
                    let value = text.parse().map_or(NewValue::Word(text), NewValue::Number);
                    keys.push((format!("limits.{}", name.as_str()), value));
                }
            }
        }
        for (key, words) in [("fs", fs), ("net", net), ("env", env)] {
            if !words.is_empty() {
                keys.push((key.to_owned(), NewValue::List(words)));
            }
        }
        requested.keys = keys;
        requested
    }

    /// Returns the command that grants all of it; `None` if nothing is requested.
    pub(crate) fn command(&self, name: &str) -> Option<String> {
        let mut command = format!("ikigai policy grant {name}");
        let before = command.len();
        let mut add = |flag: &str, word: &str| {
            // This cannot fail: a manifest's words never contain a NUL.
            let word = shlex::try_quote(word).unwrap_or_default();
            command.push_str(&format!(" --{flag} {word}"));
        };
        for (key, value) in &self.keys {
            match (key.as_str(), value) {
                ("fs", NewValue::List(dirs)) => {
                    for dir in dirs {
                        let (access, path) = dir.split_once(':').unwrap_or(("ro", dir));
                        add(if access == "rw" { "write" } else { "read" }, path);
                    }
                }
                ("net" | "env", NewValue::List(words)) => {
                    words.iter().for_each(|word| add(key, word));
                }
                ("assets" | "sandbox", NewValue::Word(word)) => add(key, word),
                (limit, value) => {
                    let Some(limit) = limit.strip_prefix("limits.") else { continue };
                    match value {
                        NewValue::Word(word) => add("limit", &format!("{limit}={word}")),
                        NewValue::Number(number) => add("limit", &format!("{limit}={number}")),
                        NewValue::List(_) | NewValue::Absent => {}
                    }
                }
            }
        }
        (command.len() > before).then_some(command)
    }

    /// Returns the key that extends a grant to the next version of a file, and changes nothing
    /// else.
    pub(crate) fn renewal(digest: Digest) -> Vec<NewKey> {
        vec![("sha256".to_owned(), NewValue::List(vec![digest.to_string()]))]
    }
}

/// Returns the reason why a manifest never grants this peer.
fn objection(peer: &NetworkPeer) -> Option<&'static str> {
    match peer {
        NetworkPeer::Any => Some("every address"),
        NetworkPeer::At { host, .. } if host.contains('/') => Some("a network"),
        NetworkPeer::At { host, .. } => {
            // A name only gives access to public addresses.
            let address: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
            (!is_public(address)).then_some("a private address")
        }
    }
}

#[cfg(test)]
mod tests {
    use ikigai_packages::Manifest;

    use super::*;

    fn requested(needs: &str, is_native: bool) -> Requested {
        let json = format!(r#"{{"manifest":1,"name":"a","version":"1.0.0","needs":{needs}}}"#);
        let manifest = Manifest::from_json(json.as_bytes()).expect(needs);
        Requested::from_needs(&manifest.needs, Digest::from_bytes(b""), is_native)
    }

    #[test]
    fn needs_become_the_keys_of_an_entry() {
        let needs = r#"{"fs":[{"dir":"ro:.","why":"w"}],"net":[{"peer":"a.example:443","why":"w"}],
            "env":[{"name":"KEY","why":"w"}],"limits":{"wall_clock":"5s","fuel":7}}"#;
        let Requested { keys, withheld } = requested(needs, false);
        let value =
            |key: &str| keys.iter().find(|(it, _)| it == key).map(|(_, value)| value.clone());
        let list = |word: &str| Some(NewValue::List(vec![word.to_owned()]));
        assert_eq!(value("fs"), list("ro:."));
        assert_eq!(value("net"), list("a.example:443"));
        assert_eq!(value("env"), list("KEY"));
        assert_eq!(value("limits.wall_clock"), Some(NewValue::Word("5s".to_owned())));
        assert_eq!(value("limits.fuel"), Some(NewValue::Number(7)));
        assert_eq!(value("sha256"), list(&Digest::from_bytes(b"").to_string()));
        assert_eq!(value("sandbox"), None);
        assert!(withheld.is_empty());
        let sandbox = requested("{}", true).keys;
        assert!(sandbox.contains(&("sandbox".to_owned(), NewValue::Word("require".to_owned()))));
    }

    #[test]
    fn a_manifest_is_never_granted_more_than_public_places() {
        for (peer, is_granted) in [
            ("*", false),
            ("10.0.0.7:443", false),
            ("127.0.0.1:*", false),
            ("[::1]:80", false),
            ("[fd00::7]:80", false),
            ("169.254.169.254:80", false),
            ("10.0.0.0/8:443", false),
            ("0.0.0.0/0:*", false),
            ("93.184.216.34:443", true),
            ("a.example:*", true),
        ] {
            let needs = format!(r#"{{"net":[{{"peer":"{peer}","why":"w"}}]}}"#);
            let Requested { keys, withheld } = requested(&needs, false);
            assert_eq!(keys.iter().any(|(key, _)| key == "net"), is_granted, "{peer}");
            assert_eq!(withheld.len(), usize::from(!is_granted), "{peer}");
        }
    }
}
