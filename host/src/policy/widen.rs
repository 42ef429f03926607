//! The permissions of a tool with what it reached for besides, as an entry of the user's file has them.

use std::path::{Path, PathBuf};

use ikigai_protocol::Access;

use super::decision::Request;
use super::edit::{NewKey, NewValue};
use super::reached::Reached;
use super::remedy::Permissions;
use super::rule::Entry;
use super::{AssetAccess, Net, ToolOrigin, standard};

/// The directories in which so much else lies that a file of them is granted by itself.
const BROAD: &[&str] = &["/", "/etc", "/home", "/root", "/tmp", "/usr", "/var", "/var/tmp", "/run"];

/// The size of a permission for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The file alone.
    Exact,
    /// Its directory, as is usual for what holds for good.
    Directory,
}

/// Returns the permissions of an entry, or of the profile where there is none, and these besides.
pub(super) fn permissions(
    entry: Option<&Entry>,
    request: &Request<'_>,
    reached: &[Reached],
    scope: Scope,
    workspace: &Path,
) -> Permissions {
    let entry = entry.filter(|entry| !entry.grants_nothing());
    let is_system = request.origin == ToolOrigin::System;
    let of_profile = || {
        let access = request.name.filter(|_| is_system).and_then(standard::access);
        access.map(|access| (access, ".".to_owned())).into_iter().collect::<Vec<_>>()
    };
    let dirs = entry.and_then(|entry| entry.fs.as_ref());
    let mut dirs = dirs.map_or_else(of_profile, |at| {
        at.value.iter().map(|rule| (rule.access, rule.raw.clone())).collect()
    });
    let mut net = entry.and_then(|entry| entry.net.as_ref()).map(|at| at.value.clone());
    for reached in reached {
        match reached {
            Reached::Path { access, path } => {
                let path = match scope {
                    Scope::Exact => path.clone(),
                    Scope::Directory => directory_of(path),
                };
                add(&mut dirs, *access, &path, workspace);
            }
            Reached::Peer { host, port } => {
                let entry = match host.contains(':') {
                    true => format!("[{host}]:{port}"),
                    false => format!("{host}:{port}"),
                };
                // What is no peer of a policy cannot be written, and so cannot be allowed for good.
                let Ok(peers) = Net::parse([entry.as_str()]) else { continue };
                let net = net.get_or_insert_default();
                for peer in peers.peers {
                    if !net.peers.contains(&peer) {
                        net.peers.push(peer);
                    }
                }
            }
            Reached::Run => {}
        }
    }
    let assets = entry.and_then(|entry| entry.assets.as_ref()).map(|at| at.value);
    Permissions {
        dirs,
        net: net.unwrap_or_default(),
        env: entry
            .and_then(|entry| entry.env.as_ref())
            .map(|at| at.value.clone())
            .unwrap_or_default(),
        assets: assets.unwrap_or(AssetAccess::None),
    }
}

/// Returns the keys of an entry with these permissions, bound to the contents of the request.
pub(super) fn keys(request: &Request<'_>, permissions: &Permissions) -> Vec<NewKey> {
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

/// Returns the directory of a file; a directory stays, and so does a file of a directory that is broad.
fn directory_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.to_owned();
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let is_broad = |dir: &Path| {
        BROAD.iter().any(|broad| dir == Path::new(broad)) || home.as_deref() == Some(dir)
    };
    match path.parent() {
        Some(dir) if !is_broad(dir) => dir.to_owned(),
        _ => path.to_owned(),
    }
}

/// Adds a path to a list that grants no path twice.
fn add(dirs: &mut Vec<(Access, String)>, access: Access, path: &Path, workspace: &Path) {
    let raw = match path.strip_prefix(workspace) {
        Ok(beneath) if beneath.as_os_str().is_empty() => ".".to_owned(),
        Ok(beneath) => beneath.to_string_lossy().into_owned(),
        Err(_) => path.to_string_lossy().into_owned(),
    };
    let absolute = |raw: &str| workspace.join(raw.strip_prefix("./").unwrap_or(raw));
    // `.` is joined as itself.
    let absolute = |raw: &str| if raw == "." { workspace.to_owned() } else { absolute(raw) };
    // A list has one access for a directory and all that is in it.
    let mut access = access;
    for (own, dir) in dirs.iter() {
        if absolute(dir).starts_with(path) {
            access = access.max(*own);
        }
    }
    dirs.retain(|(_, dir)| !absolute(dir).starts_with(path));
    match dirs.iter_mut().find(|(_, dir)| path.starts_with(absolute(dir))) {
        Some((own, _)) => *own = (*own).max(access),
        None => dirs.push((access, raw)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(dirs: &[(Access, String)]) -> Vec<String> {
        dirs.iter().map(|(access, dir)| format!("{}:{dir}", access.as_str())).collect()
    }

    #[test]
    fn a_list_never_contradicts_itself() {
        let workspace = Path::new("/w");
        let mut dirs = vec![(Access::ReadOnly, ".".to_owned())];
        add(&mut dirs, Access::ReadOnly, Path::new("/w/a"), workspace);
        assert_eq!(listed(&dirs), ["ro:."]);
        add(&mut dirs, Access::ReadOnly, Path::new("/data/x"), workspace);
        add(&mut dirs, Access::ReadWrite, Path::new("/data/y"), workspace);
        assert_eq!(listed(&dirs), ["ro:.", "ro:/data/x", "rw:/data/y"]);
        add(&mut dirs, Access::ReadOnly, Path::new("/data"), workspace);
        assert_eq!(listed(&dirs), ["ro:.", "rw:/data"]);
        add(&mut dirs, Access::ReadWrite, Path::new("/w/a"), workspace);
        assert_eq!(listed(&dirs), ["rw:.", "rw:/data"]);
    }

    #[test]
    fn a_file_of_a_broad_directory_is_granted_by_itself() {
        assert_eq!(directory_of(Path::new("/etc/hosts")), Path::new("/etc/hosts"));
        assert_eq!(directory_of(Path::new("/srv/data/x")), Path::new("/srv/data"));
    }
}
