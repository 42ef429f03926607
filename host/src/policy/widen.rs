//! The permissions of a tool together with further requested accesses, in the form of an entry of
//! the user's file.

use std::path::{Path, PathBuf};

use ikigai_protocol::Access;

use super::decision::PolicyRequest;
use super::edit::{NewKey, NewValue};
use super::executed_places::executed_place;
use super::reached::RequestedAccess;
use super::remedy::Permissions;
use super::rule::{DirRule, PolicyEntry};
use super::secret_places::is_secret;
use super::written::{WrittenPath, path_in_policy};
use super::{AssetAccess, Backend, Profile, Sandbox, ToolOrigin, is_broad_place, standard};

/// The places around a tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct WidenContext<'a> {
    /// The directory that it works in.
    pub(super) workspace: &'a Path,
    /// The home of its user, canonical.
    pub(super) home: Option<&'a Path>,
    /// The host's own places.
    pub(super) protected: &'a [PathBuf],
    /// The known places of secrets, with what their links lead to.
    pub(super) secrets: &'a [PathBuf],
    /// The profile in force.
    pub(super) profile: Profile,
}

impl WidenContext<'_> {
    /// Returns whether a path lies in a place of secrets, which a grant must name.
    fn is_secret(&self, path: &Path) -> bool {
        is_secret(path, self.home, self.secrets)
    }

    /// Returns whether a directory is broad, or contains the host's own files, so that it must not
    /// be granted for a single file.
    pub(super) fn is_for_itself(&self, dir: &Path) -> bool {
        is_broad_place(dir, self.home)
            || dir != self.workspace && self.workspace.starts_with(dir)
            || standard::protected_path_in(dir, self.protected).is_some()
    }
}

/// The extent of a permission for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileScope {
    /// Only the file.
    Exact,
    /// Its directory, as is usual for permanent permissions.
    Directory,
}

/// Returns the permissions of an entry, or of the profile if the entry is missing, together with
/// these accesses. `every` is the part of `[tools."*"]` that applies to the tool. Returns `None` if
/// a policy file cannot name every access.
pub(super) fn permissions(
    (entry, every): (Option<&PolicyEntry>, Option<&PolicyEntry>),
    request: &PolicyRequest<'_>,
    reached: &[RequestedAccess],
    scope: FileScope,
    around: WidenContext<'_>,
) -> Option<Permissions> {
    let workspace = around.workspace;
    let entry = entry.filter(|entry| !entry.grants_nothing());
    let dirs = directories(entry, every, request, around).into_iter();
    let mut dirs: Vec<FsEntry> = dirs
        .map(|WrittenPath { access, written, path }| FsEntry { access, raw: written, path })
        .collect();
    let mut net = entry.and_then(|entry| entry.net.as_ref()).map(|at| at.value.clone());
    for reached in reached {
        match reached {
            RequestedAccess::Path { access, path } => {
                let path = match scope {
                    FileScope::Exact => path.clone(),
                    FileScope::Directory => directory_of(path, around),
                };
                let raw = path_in_policy(&path, workspace)?;
                add_new(&mut dirs, FsEntry { access: *access, raw, path }, around);
            }
            RequestedAccess::Peer { .. } | RequestedAccess::Host { .. } => {
                let peers = reached.peers()?;
                let net = net.get_or_insert_default();
                for peer in peers.peers {
                    if !net.peers.contains(&peer) {
                        net.peers.push(peer);
                    }
                }
            }
            RequestedAccess::Run => {}
        }
    }
    let assets = entry.and_then(|entry| entry.assets.as_ref()).map(|at| at.value);
    let env = entry.and_then(|entry| entry.env.as_ref()).map(|at| at.value.clone());
    Some(Permissions {
        dirs: dirs.into_iter().map(|dir| (dir.access, dir.raw)).collect(),
        net: net.unwrap_or_default(),
        env: env.unwrap_or_default(),
        assets: assets.unwrap_or(AssetAccess::None),
    })
}

/// Returns the list `fs` of an entry, or the profile's directories if the entry has no list.
/// `every` is the part of `[tools."*"]` that applies to the tool. It bounds the profile's
/// directories.
pub(super) fn directories(
    entry: Option<&PolicyEntry>,
    every: Option<&PolicyEntry>,
    request: &PolicyRequest<'_>,
    around: WidenContext<'_>,
) -> Vec<WrittenPath> {
    if let Some(at) = entry.and_then(|entry| entry.fs.as_ref()) {
        return at.value.iter().map(WrittenPath::from_rule).collect();
    }
    let access = match request.origin {
        ToolOrigin::System => request.name.and_then(standard::access),
        ToolOrigin::User if leaves_profile(entry) && request.backend == Backend::Native => {
            standard::native_access(around.profile)
        }
        ToolOrigin::User => None,
    };
    let Some(access) = access else { return Vec::new() };
    let path = around.workspace.to_owned();
    let workspace = WrittenPath { access, written: ".".to_owned(), path };
    let Some(bound) = every.and_then(|every| every.fs.as_ref()) else { return vec![workspace] };
    let narrowed = bound.value.iter().filter_map(|rule| narrowed(&workspace, rule));
    let mut dirs: Vec<WrittenPath> = narrowed.filter_map(|dir| unopened(dir, around)).collect();
    let all = dirs.clone();
    let is_in = |dir: &WrittenPath, other: &WrittenPath| {
        dir.path != other.path && dir.path.starts_with(&other.path) && dir.access <= other.access
    };
    dirs.retain(|dir| !all.iter().any(|other| is_in(dir, other)));
    dirs
}

/// Returns a path that only a bound lists as the tool has it now. In an entry, the same path would
/// open a place of secrets, or a place that other programs execute.
fn unopened(mut dir: WrittenPath, around: WidenContext<'_>) -> Option<WrittenPath> {
    if dir.path == around.workspace {
        return Some(dir);
    }
    if around.is_secret(&dir.path) {
        return None;
    }
    let relative = dir.path.strip_prefix(around.workspace).ok()?;
    if executed_place(relative).is_some() {
        dir.access = Access::ReadOnly;
    }
    Some(dir)
}

/// Returns whether a user native tool has the profile's permissions. It does not if its entry is
/// bound to contents, or frees it from the sandbox. An entry whose grant was revoked is not bound
/// to contents.
fn leaves_profile(entry: Option<&PolicyEntry>) -> bool {
    entry.is_none_or(|entry| {
        let is_bound = entry.sha256.as_ref().is_some_and(|at| !at.value.is_empty());
        let is_free = entry.sandbox.as_ref().is_some_and(|at| at.value == Sandbox::Off);
        !is_bound && !is_free
    })
}

/// Returns the part of a directory that a bound allows.
fn narrowed(dir: &WrittenPath, bound: &DirRule) -> Option<WrittenPath> {
    let access = dir.access.min(bound.access);
    if dir.path.starts_with(&bound.path) {
        return Some(WrittenPath { access, ..dir.clone() });
    }
    let is_within = bound.path.starts_with(&dir.path);
    is_within.then(|| WrittenPath { access, ..WrittenPath::from_rule(bound) })
}

/// A directory or a file of a list `fs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FsEntry {
    pub(super) access: Access,
    /// The path as written.
    pub(super) raw: String,
    /// The absolute path.
    pub(super) path: PathBuf,
}

/// Returns the keys of an entry with these permissions, bound to the contents of the request.
pub(super) fn keys(request: &PolicyRequest<'_>, permissions: &Permissions) -> Vec<NewKey> {
    let Permissions { dirs, net, .. } = permissions;
    let mut keys: Vec<NewKey> = Vec::new();
    if request.origin == ToolOrigin::User {
        let mut digests: Vec<String> = request.contents.iter().map(ToString::to_string).collect();
        digests.dedup();
        keys.push(("sha256".to_owned(), NewValue::List(digests)));
    }
    if !dirs.is_empty() {
        let dirs = dirs.iter().map(|(access, dir)| format!("{}:{dir}", access.as_str()));
        keys.push(("fs".to_owned(), NewValue::List(dirs.collect())));
    }
    if !net.is_none() {
        let any = net.any.then(|| "*".to_owned());
        let peers = net.peers.iter().map(ToString::to_string);
        keys.push(("net".to_owned(), NewValue::List(any.into_iter().chain(peers).collect())));
    }
    keys
}

/// Returns the keys, other than digests, that let a user native tool run unconfined. Such an entry
/// has no list of directories or hosts, because nothing would enforce it.
#[must_use]
pub fn unconfining_keys() -> Vec<NewKey> {
    let off = NewValue::Word(Sandbox::Off.as_str().to_owned());
    let keys = [("sandbox", off), ("fs", NewValue::Absent), ("net", NewValue::Absent)];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns the directory of a file. Returns the path itself if it is a directory, or if its
/// directory is broad, or contains secrets or the host's own places.
pub(super) fn directory_of(path: &Path, around: WidenContext<'_>) -> PathBuf {
    let WidenContext { workspace, .. } = around;
    match path.parent() {
        // A file with secrets is a place of secrets, or lies in one.
        _ if path.is_dir() || around.is_secret(path) => path.to_owned(),
        // Files that other programs execute also stay single.
        _ if executed_place(path.strip_prefix(workspace).unwrap_or(path)).is_some() => {
            path.to_owned()
        }
        Some(dir) if !around.is_for_itself(dir) => dir.to_owned(),
        _ => path.to_owned(),
    }
}

/// Returns whether only a grant by its name opens a path in a granted directory.
fn is_reserved(new: &FsEntry, dirs: &[FsEntry], around: WidenContext<'_>) -> bool {
    let is_executed = |dir: &FsEntry| {
        new.path.strip_prefix(&dir.path).is_ok_and(|relative| executed_place(relative).is_some())
    };
    let writes = new.access == Access::ReadWrite;
    around.is_secret(&new.path) || writes && dirs.iter().any(is_executed)
}

/// Adds a path to a list.
pub(super) fn add_new(dirs: &mut Vec<FsEntry>, new: FsEntry, around: WidenContext<'_>) {
    match is_reserved(&new, dirs, around) {
        true => add_by_name(dirs, new),
        false => add(dirs, new),
    }
}

/// Adds a path that a grant of a directory around it does not open.
fn add_by_name(dirs: &mut Vec<FsEntry>, mut new: FsEntry) {
    let is_around = |dir: &&mut FsEntry| new.path.starts_with(&dir.path);
    // A directory and everything in it must have one access.
    for dir in dirs.iter_mut().filter(is_around) {
        new.access = new.access.max(dir.access);
        dir.access = new.access;
    }
    if dirs.iter().all(|dir| dir.path != new.path) {
        dirs.push(new);
    }
}

/// Adds a path to a list. The list grants no path twice, and has one access for a directory and
/// everything in it.
fn add(dirs: &mut Vec<FsEntry>, mut new: FsEntry) {
    let within = dirs.iter().filter(|dir| dir.path.starts_with(&new.path));
    new.access = within.map(|dir| dir.access).fold(new.access, Access::max);
    dirs.retain(|dir| !dir.path.starts_with(&new.path));
    match dirs.iter_mut().find(|dir| new.path.starts_with(&dir.path)) {
        Some(around) => around.access = around.access.max(new.access),
        None => dirs.push(new),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn reads(path: &str) -> RequestedAccess {
        RequestedAccess::Path { access: Access::ReadOnly, path: path.into() }
    }

    fn writes(path: &str) -> RequestedAccess {
        RequestedAccess::Path { access: Access::ReadWrite, path: path.into() }
    }

    fn around(protected: &[PathBuf]) -> WidenContext<'_> {
        let (workspace, home) = (Path::new("/w"), Some(Path::new("/h")));
        WidenContext { workspace, home, protected, secrets: &[], profile: Profile::Standard }
    }

    fn glob() -> PolicyRequest<'static> {
        PolicyRequest {
            name: Some("glob"),
            names: &[],
            registered: &[],
            origin: ToolOrigin::System,
            backend: Backend::Wasm,
            fell_back: false,
            path: Path::new("/system/glob.wasm"),
            program: None,
            contents: &[],
            wasi: &[],
            tool: None,
        }
    }

    /// Returns the list of `glob`, which reads the workspace `/w`, together with these accesses.
    fn listed(reached: &[RequestedAccess]) -> Option<Vec<String>> {
        let permissions =
            permissions((None, None), &glob(), reached, FileScope::Exact, around(&[]))?;
        let dirs = permissions.dirs.iter();
        Some(dirs.map(|(access, dir)| format!("{}:{dir}", access.as_str())).collect())
    }

    #[test]
    fn a_list_never_contradicts_itself() {
        for (reached, expected) in [
            (vec![reads("/w/a")], vec!["ro:."]),
            (vec![reads("/d/x"), writes("/d/y")], vec!["ro:.", "ro:/d/x", "rw:/d/y"]),
            (vec![reads("/d/x"), writes("/d/y"), reads("/d")], vec!["ro:.", "rw:/d"]),
            (vec![writes("/w/a")], vec!["rw:."]),
        ] {
            assert_eq!(listed(&reached).expect("a list"), expected, "{reached:?}");
        }
    }

    #[test]
    fn a_reserved_place_is_listed_beside_the_directory_around_it() {
        let reached = reads("/h/.ssh/config");
        let around = WidenContext { workspace: Path::new("/h"), ..around(&[]) };
        let request = glob();
        let permissions = permissions((None, None), &request, &[reached], FileScope::Exact, around);
        let dirs = permissions.expect("permissions").dirs;
        let read = |dir: &str| (Access::ReadOnly, dir.to_owned());
        assert_eq!(dirs, [read("."), read(".ssh/config")]);
        let listed = listed(&[writes("/w/.git/hooks"), writes("/w/a")]);
        assert_eq!(listed.expect("a list"), ["rw:.", "rw:.git/hooks"]);
    }

    #[test]
    fn no_name_of_a_file_becomes_the_home_a_flag_or_another_file() {
        let dir = "/w/~/.ssh";
        let mut dirs = Vec::new();
        let raw = path_in_policy(Path::new(dir), Path::new("/w")).expect("a name");
        add(&mut dirs, FsEntry { access: Access::ReadOnly, raw, path: dir.into() });
        assert_eq!(dirs[0].raw, "./~/.ssh");
        let flag = path_in_policy(Path::new("/w/--sandbox=off"), Path::new("/w"));
        assert_eq!(flag.as_deref(), Some("./--sandbox=off"));
        let strange = Path::new(OsStr::from_bytes(b"/d/\xff"));
        let reached = RequestedAccess::Path { access: Access::ReadOnly, path: strange.to_owned() };
        assert_eq!(listed(&[reached]), None);
    }

    #[test]
    fn a_file_among_much_else_or_secrets_is_granted_by_itself() {
        let protected = [PathBuf::from("/own/tools")];
        let granted = |path| directory_of(Path::new(path), around(&protected));
        for alone in [
            "/etc/hosts",
            "/usr/share/x",
            "/h/x",
            "/h/.ssh/config",
            "/h/.config/x",
            "/h/project/.env",
            "/own/x",
            "/x",
        ] {
            assert_eq!(granted(alone), Path::new(alone));
        }
        for (file, dir) in [
            ("/srv/data/x", "/srv/data"),
            ("/h/.config/tool/x", "/h/.config/tool"),
            ("/h/project/x", "/h/project"),
            ("/w/x", "/w"),
        ] {
            assert_eq!(granted(file), Path::new(dir));
        }
    }
}
