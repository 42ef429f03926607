//! The accesses of a tool beyond its grant, and those within it.

use std::fmt;
use std::path::{Path, PathBuf};

use ikigai_protocol::{Access, written_out};
use serde::{Deserialize, Serialize};

use super::{Grant, Net};

/// An access beyond a tool's grant. It prints in words for the user, with deceptive characters
/// escaped: `read /etc/hosts`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RequestedAccess {
    /// A file, or a directory with all that is in it; absolute, with links resolved. A path that is
    /// a link itself stands for the link: the tool needs to see it.
    Path {
        /// The requested access.
        #[serde(with = "access")]
        access: Access,
        /// The file or the directory.
        #[serde(with = "lossy")]
        path: PathBuf,
    },
    /// A peer on the network, as requested by the tool.
    Peer {
        /// A name, or an address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A name on the network that is looked up before the port is known. Allowing it allows all of
    /// its ports.
    Host {
        /// The name.
        host: String,
    },
    /// The call itself, which the policy denies as long as the tool's contents are not granted.
    Run,
}

impl fmt::Display for RequestedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { access, path } => {
                let verb = match access {
                    Access::ReadOnly => "read",
                    Access::ReadWrite => "write in",
                };
                write!(f, "{verb} {}", written_out(&path.to_string_lossy()))
            }
            Self::Peer { host, port } if host.contains(':') => {
                write!(f, "connect [{}]:{port}", written_out(host))
            }
            Self::Peer { host, port } => write!(f, "connect {}:{port}", written_out(host)),
            Self::Host { host } => write!(f, "connect {} on any port", written_out(host)),
            Self::Run => f.write_str("run"),
        }
    }
}

impl RequestedAccess {
    /// Returns several accesses in words: `read /a; read /b`.
    pub(crate) fn list(all: &[Self]) -> String {
        all.iter().map(Self::to_string).collect::<Vec<_>>().join("; ")
    }

    /// Returns whether a command and a policy file can name the path of this access.
    pub(crate) fn is_nameable(&self) -> bool {
        let Self::Path { path, .. } = self else { return true };
        path.to_str().is_some_and(|path| !path.contains(char::is_control))
    }

    /// Returns a policy's `net` list with this peer. Returns `None` for another access, or if a
    /// policy cannot name the peer.
    pub(crate) fn peers(&self) -> Option<Net> {
        let entry = match self {
            Self::Peer { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Peer { host, port } => format!("{host}:{port}"),
            Self::Host { host } => format!("{host}:*"),
            Self::Path { .. } | Self::Run => return None,
        };
        Net::parse([entry.as_str()]).ok()
    }
}

/// A granted access that a call used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UsedAccess {
    /// A granted directory, through which the tool opened a file.
    Dir {
        /// The directory, as in the grant.
        #[serde(with = "lossy")]
        path: PathBuf,
    },
    /// A file that a recorded call used.
    File {
        /// The access that the tool used.
        #[serde(with = "access")]
        access: Access,
        /// The file.
        #[serde(with = "lossy")]
        path: PathBuf,
    },
    /// A peer on the network, as requested by the tool.
    Peer {
        /// A name, or an address.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Grant {
    /// Returns whether a path is hidden in a granted directory that contains it. The path is
    /// absolute, with links resolved.
    #[must_use]
    pub fn hides(&self, path: &Path) -> bool {
        let mut around = self.dirs.iter().filter(|dir| path.starts_with(&dir.path));
        around.any(|dir| self.hide.hides(&dir.path, path)) || self.reserved.is_secret(path)
    }

    /// Returns whether the grant covers this access, and does not hide it.
    pub(crate) fn shows(&self, reached: &RequestedAccess) -> bool {
        let is_hidden = matches!(reached, RequestedAccess::Path { path, .. } if self.hides(path));
        !is_hidden && self.covers(reached)
    }

    /// Returns the directories and files that the grant lets the tool write to, including those
    /// that lie in others.
    pub(crate) fn writable_dirs(&self) -> impl Iterator<Item = &Path> {
        let mut dirs: Vec<&Path> = self
            .dirs
            .iter()
            .chain(self.reserved.named())
            .filter(|dir| dir.access == Access::ReadWrite)
            .map(|dir| &*dir.path)
            .collect();
        dirs.sort_unstable();
        dirs.dedup();
        dirs.into_iter()
    }

    /// Returns the access to ask the user about instead of this one. For a file in a place that
    /// other programs execute, it is the access to the whole place, because all of its files matter
    /// equally. For a secret in a writable directory, it is to write, because the tool may write to
    /// everything that it sees there.
    pub(crate) fn question_for(&self, reached: RequestedAccess) -> RequestedAccess {
        let RequestedAccess::Path { access, path } = reached else { return reached };
        let executed = self.reserved.executed_place(&path);
        let mut writable = self.dirs.iter().filter(|dir| dir.access == Access::ReadWrite);
        match (access, executed) {
            (Access::ReadWrite, Some(path)) => RequestedAccess::Path { access, path },
            (Access::ReadOnly, None)
                if self.reserved.is_secret(&path)
                    && writable.any(|dir| path.starts_with(&dir.path)) =>
            {
                RequestedAccess::Path { access: Access::ReadWrite, path }
            }
            _ => RequestedAccess::Path { access, path },
        }
    }

    /// Returns whether the grant already has this access.
    #[must_use]
    pub fn covers(&self, reached: &RequestedAccess) -> bool {
        match reached {
            RequestedAccess::Path { access, path } => {
                let is_link = self.links.iter().any(|link| link.path == *path);
                let mut dirs = self.dirs.iter();
                is_link && *access == Access::ReadOnly
                    || dirs.any(|dir| dir.access >= *access && path.starts_with(&dir.path))
                        && !self.reserved.withholds(*access, path)
            }
            RequestedAccess::Peer { host, port } => match host.parse::<std::net::IpAddr>() {
                Ok(ip) => self.net.allows_address((ip, *port).into()),
                Err(_) => self.net.allows_name(host, Some(*port)),
            },
            // The name may be looked up if one of its ports is allowed. The port is checked when
            // the tool connects.
            RequestedAccess::Host { host } => self.net.allows_name(host, None),
            RequestedAccess::Run => true,
        }
    }
}

/// A path as text. Bytes that are not UTF-8 become U+FFFD, so that a record can always be written.
mod lossy {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&path.to_string_lossy())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(PathBuf::from(String::deserialize(from)?))
    }
}

/// The access in the form of a policy file: `ro` or `rw`.
mod access {
    use std::borrow::Cow;

    use ikigai_protocol::Access;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(access: &Access, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(access.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Access, D::Error> {
        match &*Cow::<'de, str>::deserialize(from)? {
            "ro" => Ok(Access::ReadOnly),
            "rw" => Ok(Access::ReadWrite),
            other => Err(D::Error::unknown_variant(other, &["ro", "rw"])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{GrantedDir, Hide, Reserved};

    fn path(access: Access, path: &str) -> RequestedAccess {
        RequestedAccess::Path { access, path: path.into() }
    }

    #[test]
    fn an_access_is_told_without_characters_that_deceive() {
        let hostile = path(Access::ReadOnly, "/a\n\u{202e}b");
        assert_eq!(hostile.to_string(), format!("read {}", written_out("/a\n\u{202e}b")));
        assert!(!hostile.to_string().contains(['\n', '\u{202e}']));
        assert!(!hostile.is_nameable() && RequestedAccess::Run.is_nameable());
        let names = [("/a b", true), ("/ä'$", true), ("/a\rb", false), ("/\t", false)];
        for (name, expected) in names {
            assert_eq!(path(Access::ReadOnly, name).is_nameable(), expected, "{name:?}");
        }
        let peer = |host: &str| RequestedAccess::Peer { host: host.into(), port: 443 }.to_string();
        assert_eq!(
            (peer("a.test"), peer("fd00::1")),
            ("connect a.test:443".into(), "connect [fd00::1]:443".into())
        );
    }

    #[test]
    fn a_question_about_a_secret_in_a_writable_directory_is_about_writing() {
        let asked = |access, asked: &str| {
            let dirs = vec![GrantedDir { access, path: "/home/u".into() }];
            let reserved = Reserved::in_home(Path::new("/home/u"), &dirs, dirs.clone());
            let grant = Grant { dirs, reserved, ..Grant::default() };
            grant.question_for(path(Access::ReadOnly, asked))
        };
        let (ro, rw) = (Access::ReadOnly, Access::ReadWrite);
        assert_eq!(asked(rw, "/home/u/.ssh/id"), path(rw, "/home/u/.ssh/id"));
        assert_eq!(asked(ro, "/home/u/.ssh/id"), path(ro, "/home/u/.ssh/id"));
        assert_eq!(asked(rw, "/home/u/project/id"), path(ro, "/home/u/project/id"));
        assert_eq!(asked(rw, "/home/o/.ssh/id"), path(ro, "/home/o/.ssh/id"));
    }

    #[test]
    fn a_grant_covers_what_lies_in_it() {
        let dir = GrantedDir { access: Access::ReadOnly, path: "/w".into() };
        let net = Net::parse(["a.test:443", "10.0.0.0/8:*"]).expect("peers");
        let grant = Grant { dirs: vec![dir], net, ..Grant::default() };
        let peer = |host: &str, port| RequestedAccess::Peer { host: host.into(), port };
        assert!(grant.covers(&path(Access::ReadOnly, "/w/a")));
        assert!(grant.covers(&peer("a.test", 443)) && grant.covers(&peer("10.1.2.3", 1)));
        let name = |host: &str| RequestedAccess::Host { host: host.into() };
        assert!(grant.covers(&name("a.test")) && !grant.covers(&name("b.test")));
        for not in [
            path(Access::ReadWrite, "/w/a"),
            path(Access::ReadOnly, "/w-a"),
            peer("a.test", 80),
            peer("192.168.0.1", 443),
        ] {
            assert!(!grant.covers(&not), "{not}");
        }
    }

    #[test]
    fn what_is_hidden_is_shown_by_no_answer() {
        let dirs = vec![GrantedDir { access: Access::ReadOnly, path: "/w".into() }];
        let hide = Hide::parse([".env", "/keys"]).expect("patterns");
        let grant = Grant { dirs, hide, ..Grant::default() };
        assert!(grant.shows(&path(Access::ReadOnly, "/w/a")));
        for hidden in ["/w/.env", "/w/a/.ENV", "/w/keys/a", "/w/.env/a"] {
            let hidden = path(Access::ReadOnly, hidden);
            assert!(grant.covers(&hidden) && !grant.shows(&hidden), "{hidden}");
        }
    }

    #[test]
    fn a_record_names_the_kind_and_the_access() {
        let line = serde_json::to_string(&path(Access::ReadOnly, "/a")).expect("JSON");
        assert_eq!(line, r#"{"kind":"path","access":"ro","path":"/a"}"#);
        assert_eq!(
            serde_json::from_str::<RequestedAccess>(&line).ok(),
            Some(path(Access::ReadOnly, "/a"))
        );
        let name = RequestedAccess::Host { host: "a.test".into() };
        let line = serde_json::to_string(&name).expect("JSON");
        assert_eq!(line, r#"{"kind":"host","host":"a.test"}"#);
        assert_eq!(name.to_string(), "connect a.test on any port");
    }
}
