//! The way that a path takes through links, with a bound.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// The number of links that the kernel follows before it gives up.
const MOST_LINKS: usize = 40;

/// The way that a path takes through links.
#[derive(Debug)]
pub(crate) struct Resolution {
    /// The canonical path of each link on the way, and then the final target, which need not
    /// exist. If the way is too long, the links up to the bound.
    pub(crate) steps: Vec<PathBuf>,
    /// The directories that the way leaves by `..`. If one of them becomes a link, the way leads
    /// elsewhere.
    pub(crate) left: Vec<PathBuf>,
    pub(crate) end: LinkEnd,
}

/// The end of a way through links.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// This canonical path, which exists.
    At(PathBuf),
    /// Nothing is there.
    Nothing,
    /// The way leads into this directory, in which this user may not look up names.
    Closed(PathBuf),
    /// It cannot be looked at for another reason, or the kernel would not follow so many links.
    Failed,
    /// The way has more components than were to be looked at.
    TooFar,
}

/// Resolves a path, however long the way is.
pub(crate) fn resolve(path: &Path) -> Resolution {
    let mut uses = usize::MAX;
    resolve_counted(path, &mut uses)
}

/// Resolves a path, and looks at no more components than `most`, and than are `left` for several
/// paths. Each component takes one.
pub(crate) fn resolve_within(path: &Path, most: usize, left: &mut usize) -> Resolution {
    let most = most.min(*left);
    let mut own = most;
    let resolution = resolve_counted(path, &mut own);
    *left -= most - own;
    resolution
}

fn resolve_counted(path: &Path, uses: &mut usize) -> Resolution {
    let (mut steps, mut left) = (Vec::new(), Vec::new());
    // A relative path has no steps if the current directory is gone.
    let Ok(path) = std::path::absolute(path) else {
        return Resolution { steps, left, end: LinkEnd::Failed };
    };
    let mut failure = None;
    let mut at = PathBuf::from("/");
    // In reverse order: the last component comes first.
    let mut rest: Vec<OsString> = parts(&path);
    while let Some(name) = rest.pop() {
        let Some(fewer) = uses.checked_sub(1) else {
            return Resolution { steps, left, end: LinkEnd::TooFar };
        };
        *uses = fewer;
        if name == ".." {
            left.push(at.clone());
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let target = match fs::read_link(&next) {
            Ok(target) if steps.len() < MOST_LINKS => target,
            other => {
                let end = match other.map_err(|error| error.kind()) {
                    // It is there, and is not a link.
                    Err(ErrorKind::InvalidInput) => None,
                    Err(ErrorKind::NotFound) => Some(LinkEnd::Nothing),
                    Err(ErrorKind::PermissionDenied) => Some(LinkEnd::Closed(at.clone())),
                    _ => Some(LinkEnd::Failed),
                };
                failure = failure.or(end);
                at = next;
                continue;
            }
        };
        steps.push(next);
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        rest.extend(parts(&target));
    }
    let end = failure.unwrap_or_else(|| LinkEnd::At(at.clone()));
    steps.push(at);
    Resolution { steps, left, end }
}

/// Returns the names of a path, including `..`, in reverse order.
fn parts(path: &Path) -> Vec<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    let mut names: Vec<_> = path.components().filter_map(name).collect();
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_way_ends_where_the_kernel_ends_it_or_at_the_bound() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        let path = |name: &str| root.join(name);
        fs::create_dir(path("dir")).expect("made");
        fs::write(path("dir/file"), "").expect("written");
        for (target, link) in [
            ("dir/../dir/file", "there"),
            ("there", "again"),
            ("absent/file", "nowhere"),
            ("loop", "loop"),
            ("dir/file/inner", "through"),
        ] {
            symlink(target, path(link)).expect("linked");
        }
        for link in ["there", "again"] {
            let found = resolve(&path(link));
            assert_eq!(found.end, LinkEnd::At(path(link).canonicalize().expect("there")));
        }
        assert_eq!(resolve(&path("again")).left, [path("dir")]);
        assert_eq!(resolve(&path("nowhere")).end, LinkEnd::Nothing);
        assert_eq!(resolve(&path("loop")).end, LinkEnd::Failed);
        assert_eq!(resolve(&path("through")).end, LinkEnd::Failed);
        // The path itself, the text of `again`, and that of `there`.
        let needed = path("again").components().count() - 1 + 1 + 4;
        let mut left = needed + 1;
        assert_eq!(
            resolve_within(&path("again"), usize::MAX, &mut left).end,
            LinkEnd::At(path("dir/file"))
        );
        assert_eq!(left, 1);
        left = needed - 1;
        let found = resolve_within(&path("again"), usize::MAX, &mut left);
        assert_eq!((found.end, left), (LinkEnd::TooFar, 0));
        assert_eq!(found.steps, [path("again"), path("there")]);
    }
}
