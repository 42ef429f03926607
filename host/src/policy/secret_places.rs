//! The places where secrets usually lie. A tool does not see them in granted directories, a
//! recording does not propose them for a grant, and a permissive recording does not show them.
//!
//! Owns the only list of them. Users can still grant such a place by name.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::paths::{FoundPlace, find_place};

/// A place where secrets usually lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretPlace {
    at: SecretLocation,
    /// A description of the secrets, for the user.
    pub holds: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretLocation {
    /// A path in the home, with everything below it.
    Home(&'static str),
    /// An absolute path, with everything below it.
    Machine(&'static str),
    /// A name in any directory, with everything below it; one `*` stands for any characters.
    Named(&'static str),
}

const fn home(path: &'static str, holds: &'static str) -> SecretPlace {
    SecretPlace { at: SecretLocation::Home(path), holds }
}

const fn machine(path: &'static str, holds: &'static str) -> SecretPlace {
    SecretPlace { at: SecretLocation::Machine(path), holds }
}

const fn named(name: &'static str, holds: &'static str) -> SecretPlace {
    SecretPlace { at: SecretLocation::Named(name), holds }
}

/// A browser's profile contains saved passwords, and cookies, which act as logins.
const BROWSER: &str = "the cookies and passwords of a browser";

/// A history of typed commands often contains passwords that were given as arguments.
const TYPED: &str = "what was typed, passwords among it";

/// The places, each with the secrets that lie there.
pub const SECRET_PLACES: &[SecretPlace] = &[
    home(".ssh", "private keys of SSH"),
    home(".gnupg", "private keys of GnuPG"),
    home(".password-store", "the passwords of pass"),
    home(".local/share/keyrings", "the keyring of GNOME"),
    home(".local/share/kwalletd", "the wallet of KDE"),
    home("Library/Keychains", "the keychain of macOS"),
    home(".config/op", "the login at 1Password"),
    home(".config/1Password", "the vault of 1Password"),
    home(".config/Bitwarden", "the vault of Bitwarden"),
    home(".aws", "the keys of Amazon Web Services"),
    home(".azure", "the logins at Azure"),
    home(".config/gcloud", "the logins at Google Cloud"),
    home(".kube", "the logins at clusters of Kubernetes"),
    home(".docker", "the logins at registries of images"),
    home(".config/containers/auth.json", "the logins at registries of images"),
    home(".config/gh", "the token of GitHub"),
    home(".config/glab-cli", "the token of GitLab"),
    home(".config/hub", "the token of GitHub"),
    home(".config/git/credentials", "the passwords that git stores"),
    home(".git-credentials", "the passwords that git stores"),
    home(".pgpass", "the passwords of PostgreSQL"),
    home(".my.cnf", "the password of MySQL"),
    home(".npmrc", "the token of npm"),
    home(".pypirc", "the token of PyPI"),
    home(".cargo/credentials", "the token of crates.io"),
    home(".cargo/credentials.toml", "the token of crates.io"),
    home(".gem/credentials", "the token of RubyGems"),
    home(".m2/settings.xml", "the passwords of Maven"),
    home(".m2/settings-security.xml", "the passwords of Maven"),
    home(".gradle/gradle.properties", "the passwords of Gradle"),
    home(".terraform.d/credentials.tfrc.json", "the token of Terraform"),
    home(".vault-token", "the token of Vault"),
    home(".config/rclone", "the logins at stores of files"),
    home(".local/share/ikigai", "the assets and the sessions of ikigai"),
    home(".local/state/ikigai", "the tokens, the logins and the audit log of ikigai"),
    home(".bash_history", TYPED),
    home(".zsh_history", TYPED),
    home(".histfile", TYPED),
    home(".local/share/fish/fish_history", TYPED),
    home(".python_history", TYPED),
    home(".psql_history", TYPED),
    home(".mysql_history", TYPED),
    home(".sqlite_history", TYPED),
    home(".mozilla", BROWSER),
    home(".config/mozilla", BROWSER),
    home(".config/google-chrome", BROWSER),
    home(".config/chromium", BROWSER),
    home(".config/BraveSoftware", BROWSER),
    home(".config/microsoft-edge", BROWSER),
    home(".config/vivaldi", BROWSER),
    home(".config/opera", BROWSER),
    home("snap/firefox", BROWSER),
    home("snap/chromium", BROWSER),
    home(".var/app", "the data of desktop programs, browsers among them"),
    home("Library/Application Support/Google/Chrome", BROWSER),
    home("Library/Application Support/BraveSoftware", BROWSER),
    home("Library/Application Support/Microsoft Edge", BROWSER),
    home("Library/Application Support/Firefox", BROWSER),
    home("Library/Safari", BROWSER),
    home("Library/Cookies", BROWSER),
    home(".thunderbird", "mail, and the passwords of its accounts"),
    machine("/etc/shadow", "the passwords of this machine"),
    machine("/etc/shadow-", "the passwords of this machine, as they were"),
    machine("/etc/gshadow", "the passwords of this machine"),
    machine("/etc/gshadow-", "the passwords of this machine, as they were"),
    machine("/etc/sudoers", "the rights of this machine's users"),
    machine("/etc/sudoers.d", "the rights of this machine's users"),
    machine("/etc/ssl/private", "private keys of this machine"),
    machine("/etc/krb5.keytab", "the Kerberos keys of this machine"),
    machine("/run/secrets", "the secrets that a container was given"),
    machine("/var/run/secrets", "the secrets that a container was given"),
    machine("/run/user", "the sockets and the tokens of sessions"),
    machine("/run/docker.sock", "the control of every container, which is that of root"),
    machine("/var/run/docker.sock", "the control of every container, which is that of root"),
    named(".env", "the variables of a project, keys among them"),
    named(".env.*", "the variables of a project, keys among them"),
    named(".netrc", "passwords of servers"),
    named("id_rsa", "a private key of SSH"),
    named("id_dsa", "a private key of SSH"),
    named("id_ecdsa", "a private key of SSH"),
    named("id_ed25519", "a private key of SSH"),
    named("ssh_host_*_key", "a private key of this machine"),
    named("*.kdbx", "a database of passwords"),
    named("*.p12", "a private key with its certificate"),
    named("*.pfx", "a private key with its certificate"),
];

/// Names that match the list but contain no secrets: they are meant to be read and copied.
const HARMLESS: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist"];

impl SecretPlace {
    /// Returns whether the path is this place or lies in it.
    fn holds_path(&self, path: &Path, of_user: Option<&Path>) -> bool {
        match self.at {
            SecretLocation::Home(place) => {
                of_user.is_some_and(|dir| path.starts_with(dir.join(place)))
            }
            SecretLocation::Machine(place) => path.starts_with(place),
            SecretLocation::Named(pattern) => path.iter().any(|name| matches(pattern, name)),
        }
    }

    /// Returns the path of the place, or `None` for a name that can be in any directory.
    fn path(&self, of_user: Option<&Path>) -> Option<PathBuf> {
        match self.at {
            SecretLocation::Home(place) => Some(of_user?.join(place)),
            SecretLocation::Machine(place) => Some(place.into()),
            SecretLocation::Named(_) => None,
        }
    }
}

/// Returns the place of secrets that the path equals or lies in. `of_user` is the home.
#[must_use]
pub fn secret_place(path: &Path, of_user: Option<&Path>) -> Option<&'static SecretPlace> {
    SECRET_PLACES.iter().find(|place| place.holds_path(path, of_user))
}

/// Returns whether a place of secrets with a known path lies below a directory, even if it does not
/// exist yet.
#[must_use]
pub fn holds_secret_place(dir: &Path, of_user: Option<&Path>) -> bool {
    SECRET_PLACES
        .iter()
        .filter_map(|place| place.path(of_user))
        .any(|place| place.starts_with(dir) && place != dir)
}

/// Returns whether a path is secret by its place or name, or lies in one of the `known` secret
/// places. A rule for a directory around it does not open it.
pub(super) fn is_secret(path: &Path, of_user: Option<&Path>, known: &[PathBuf]) -> bool {
    secret_place(path, of_user).is_some() || known.iter().any(|place| path.starts_with(place))
}

/// Returns the patterns of names that contain secrets in any directory. Each is exact or has one
/// `*`, in the form of the key `hide`.
pub fn secret_names() -> impl Iterator<Item = &'static str> {
    SECRET_PLACES.iter().filter_map(|place| match place.at {
        SecretLocation::Named(pattern) => Some(pattern),
        SecretLocation::Home(_) | SecretLocation::Machine(_) => None,
    })
}

/// Returns the places that exist on this machine, with links resolved, for a view that shows the
/// whole machine except them. If a place cannot be looked at, returns the last directory on the way
/// to it that can. Names that can be in any directory are searched only directly in the home, in
/// the `workspace` and in `/etc/ssh`.
#[must_use]
pub fn present_secrets(of_user: Option<&Path>, workspace: &Path) -> Vec<PathBuf> {
    let paths = secret_paths(of_user).into_iter();
    let beside = [of_user, Some(workspace), Some(Path::new("/etc/ssh"))].into_iter().flatten();
    let names = beside.flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    let names = names.filter(|entry| is_secret_name(&entry.file_name())).map(|entry| entry.path());
    let found = paths.chain(names).filter_map(|path| find_place(&path));
    let mut present: Vec<PathBuf> = found.map(FoundPlace::into_path).collect();
    present.sort();
    // A place inside another is hidden with it.
    present.dedup_by(|inner, outer| inner.starts_with(outer));
    present
}

/// Returns the places with a known path, which need not exist.
pub(super) fn secret_paths(of_user: Option<&Path>) -> Vec<PathBuf> {
    SECRET_PLACES.iter().filter_map(|place| place.path(of_user)).collect()
}

/// Returns whether a file or directory with this name contains secrets in any directory.
pub(super) fn is_secret_name(name: &OsStr) -> bool {
    secret_names().any(|pattern| matches(pattern, name))
}

/// Returns whether a name matches a pattern, which has at most one `*`. As for hidden names, case
/// does not matter, and a name need not be UTF-8.
fn matches(pattern: &str, name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let is = |part: &[u8], text: &str| part.eq_ignore_ascii_case(text.as_bytes());
    if HARMLESS.iter().any(|harmless| is(name, harmless)) {
        return false;
    }
    match pattern.split_once('*') {
        None => is(name, pattern),
        Some((before, after)) => {
            name.len() >= before.len() + after.len()
                && is(&name[..before.len()], before)
                && is(&name[name.len() - after.len()..], after)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn is_secret(path: &str) -> bool {
        super::is_secret(Path::new(path), Some(Path::new("/home/u")), &[])
    }

    #[test]
    fn secrets_are_known_by_their_place_and_by_their_name() {
        for path in [
            "/home/u/.ssh",
            "/home/u/.ssh/id_ed25519",
            "/home/u/.aws/credentials",
            "/home/u/.local/share/ikigai/store.db-wal",
            "/home/u/.config/google-chrome/Default/Cookies",
            "/home/u/work/.env",
            "/home/u/work/.env.local",
            "/srv/app/.env/inside",
            "/home/other/id_rsa",
            "/etc/shadow",
            "/etc/shadow-",
            "/etc/ssh/ssh_host_ed25519_key",
            "/home/u/passwords.kdbx",
            "/home/u/Passwords.KDBX",
            "/home/u/.ENV",
        ] {
            assert!(is_secret(path), "{path}");
        }
        for path in [
            "/",
            "/home/u",
            "/home/u/.sshd",
            "/home/u/work/env",
            "/home/u/work/.env.example",
            "/home/u/work/.ENV.Example",
            "/home/u/work/.envrc/../x",
            "/home/u/.config",
            "/etc/ssl/certs/ca.pem",
            "/etc/ssh/ssh_config",
            "/home/u/.kdbx-notes",
        ] {
            assert!(!is_secret(path), "{path}");
        }
        assert!(is_secret_name(OsStr::from_bytes(b"caf\xe9.kdbx")));
        assert!(secret_place(Path::new("/home/u/.ssh"), None).is_none());
    }

    #[test]
    fn a_directory_around_secrets_is_known() {
        let home = Some(Path::new("/home/u"));
        for dir in ["/", "/home", "/home/u", "/home/u/.config", "/home/u/.cargo", "/etc", "/run"] {
            assert!(holds_secret_place(Path::new(dir), home), "{dir}");
        }
        for dir in ["/home/u/.ssh", "/home/u/work", "/usr", "/home/u/.config/nvim"] {
            assert!(!holds_secret_place(Path::new(dir), home), "{dir}");
        }
    }

    #[test]
    fn places_that_are_there_are_hidden_by_their_real_paths() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("resolved");
        let (home, work) = (root.join("home"), root.join("work"));
        for dir in ["home/.aws", "elsewhere", "work"] {
            fs::create_dir_all(root.join(dir)).expect("made");
        }
        std::os::unix::fs::symlink(root.join("elsewhere"), home.join(".ssh")).expect("linked");
        for file in ["work/.env", "work/.env.example", "home/.netrc", "home/.aws/credentials"] {
            fs::write(root.join(file), "").expect("written");
        }
        let hidden = present_secrets(Some(&home), &work);
        let hidden: Vec<_> = hidden.iter().filter(|path| path.starts_with(&root)).collect();
        let expected = ["elsewhere", "home/.aws", "home/.netrc", "work/.env"];
        assert_eq!(hidden, expected.map(|path| root.join(path)).iter().collect::<Vec<_>>());
    }

    #[test]
    fn every_place_says_what_it_holds_and_is_named_once() {
        for (at, place) in SECRET_PLACES.iter().enumerate() {
            assert!(!place.holds.is_empty(), "{place:?}");
            assert!(SECRET_PLACES[at + 1..].iter().all(|other| other.at != place.at), "{place:?}");
        }
    }
}
