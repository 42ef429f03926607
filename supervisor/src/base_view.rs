//! The base view: the files of the machine that every sandboxed tool sees without a grant.
//!
//! Owns the list, and the rule for a new line. Programs of many kinds must look for the file,
//! each user of the machine must be able to read it, and it must contain nothing personal. Files
//! that often hold a password or a token are left out, such as `/etc/npmrc`, `/etc/wgetrc` and
//! `/etc/environment`. So are files that identify the machine, such as `/etc/machine-id`.
//!
//! Owns the exception too: a user's own directory in such a place, which tools do not see. Opens
//! nothing.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::geteuid;

/// A place that every sandboxed tool sees read-only, if the machine has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasePlace {
    /// An absolute path. `*` at its end stands for the rest of a name.
    pub path: &'static str,
    /// A description of the files there.
    pub holds: &'static str,
    /// True if only a tool that has the machine's network sees it.
    pub of_network: bool,
}

/// All places of the base view. A file of `/etc` is shown only if every user may read it.
pub const BASE_VIEW: &[BasePlace] = &[
    place("/usr", "programs and their libraries"),
    place("/bin", "programs"),
    place("/sbin", "programs"),
    place("/lib", "libraries"),
    place("/lib32", "libraries"),
    place("/lib64", "libraries"),
    place("/libx32", "libraries"),
    place("/etc/alternatives", "the choice among programs that do the same"),
    place("/etc/ca-certificates", "certificates of authorities"),
    place("/etc/debian_version", "the version of the system"),
    place("/etc/fonts", "the configuration of fonts"),
    place("/etc/gai.conf", "the order of addresses of a name"),
    place("/etc/gitconfig", "the settings of git for every user"),
    place("/etc/group", "the names of groups"),
    place("/etc/host.conf", "the settings of the C library for names of hosts"),
    place("/etc/inputrc", "keys of the line editor"),
    place("/etc/java*", "the configuration of Java"),
    place("/etc/ld.so.cache", "the index of libraries"),
    place("/etc/ld.so.conf", "the directories of libraries"),
    place("/etc/ld.so.conf.d", "the directories of libraries"),
    place("/etc/locale.alias", "names of locales"),
    place("/etc/localtime", "the time zone"),
    place("/etc/lsb-release", "the version of the system"),
    place("/etc/magic", "marks by which `file` knows kinds of files"),
    place("/etc/mime.types", "media types by the endings of names"),
    place("/etc/networks", "names of networks"),
    place("/etc/nsswitch.conf", "the sources of names of users and hosts"),
    place("/etc/os-release", "the version of the system"),
    place("/etc/passwd", "the names of users"),
    place("/etc/perl", "the configuration of Perl"),
    place("/etc/pip.conf", "the settings of pip for every user"),
    place("/etc/protocols", "numbers of protocols"),
    place("/etc/python3*", "the configuration of Python"),
    place("/etc/redhat-release", "the version of the system"),
    place("/etc/rpc", "numbers of RPC programs"),
    place("/etc/services", "numbers of ports"),
    place("/etc/shells", "the shells of the machine"),
    // Not all of `ssl`, which also contains private keys.
    place("/etc/ssl/cert.pem", "certificates of authorities"),
    place("/etc/ssl/certs", "certificates of authorities"),
    place("/etc/ssl/openssl.cnf", "the settings of OpenSSL"),
    place("/etc/terminfo", "kinds of terminals"),
    place("/etc/timezone", "the time zone"),
    BasePlace { of_network: true, ..place("/etc/hosts", "addresses of names") },
    BasePlace { of_network: true, ..place("/etc/resolv.conf", "the servers for names") },
];

const fn place(path: &'static str, holds: &'static str) -> BasePlace {
    BasePlace { path, holds, of_network: false }
}

impl BasePlace {
    /// Returns whether a path is this place, or lies in it.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        let Some(start) = self.path.strip_suffix('*') else { return path.starts_with(self.path) };
        let (dir, start) = start.rsplit_once('/').unwrap_or(("", start));
        let below = path.strip_prefix(if dir.is_empty() { "/" } else { dir });
        let name = below.ok().and_then(|below| below.iter().next());
        name.is_some_and(|name| name.as_encoded_bytes().starts_with(start.as_bytes()))
    }
}

/// Returns whether a path lies in the base view, even if only a tool with the machine's network
/// sees it.
#[must_use]
pub fn is_in_base_view(path: &Path) -> bool {
    BASE_VIEW.iter().any(|place| place.has(path))
}

/// Returns whether a home or a workspace lies in the base view and belongs to this user, so that
/// tools see it only if it is granted. Some machines have homes below `/usr/local`, and some
/// containers a workspace in `/usr/src`. A home of another user, such as `/usr/sbin`, is a
/// directory of the system. `dir` has no links.
#[must_use]
pub fn is_users_own(dir: &Path) -> bool {
    let lies_in = |place: &BasePlace| place.has(dir) && Path::new(place.path) != dir;
    let is_own = |it: fs::Metadata| it.is_dir() && it.uid() == geteuid().as_raw();
    BASE_VIEW.iter().any(lies_in) && fs::symlink_metadata(dir).is_ok_and(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_itself_and_what_lies_in_it() {
        let is_shown = |path: &str| is_in_base_view(Path::new(path));
        for path in
            ["/usr/bin/sh", "/lib", "/lib64/ld.so", "/etc/gitconfig", "/etc/python3.11/x", "/bin"]
        {
            assert!(is_shown(path), "{path}");
        }
        for path in [
            "/",
            "/etc",
            "/etc/shadow",
            "/etc/gitconfig.d",
            "/etc/npmrc",
            "/etc/ssl/private/key",
            "/home/lib",
            "/library",
            "/users",
            "lib",
        ] {
            assert!(!is_shown(path), "{path}");
        }
    }

    #[test]
    fn each_place_stands_once_and_in_the_docs() {
        let docs = include_str!("../../docs/reference/linux-sandbox.md");
        for (at, place) in BASE_VIEW.iter().enumerate() {
            let others = &BASE_VIEW[at + 1..];
            assert!(others.iter().all(|it| !it.has(Path::new(place.path))), "{}", place.path);
            assert!(docs.contains(&format!("`{}`", place.path)), "{} in the docs", place.path);
        }
    }
}
