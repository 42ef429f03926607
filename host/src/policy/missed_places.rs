//! The places that a failed run lacked, derived from the files that its tool named. The user is
//! then asked about them.
//!
//! A file becomes its directory, and a program becomes the installation that it belongs to, because
//! the next run would stop at a neighbouring file. A broad directory is never used. Compares names,
//! and looks for the directories of an installation.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ikigai_protocol::Access;

use super::reached::RequestedAccess;
use super::widen::{FsEntry, WidenContext, add_new, directory_of};

/// The most places in one question, because the user reads each of them.
const MOST: usize = 16;

/// The names of the directories with programs in an installation.
const OF_PROGRAMS: [&str; 2] = ["bin", "sbin"];

/// The names of neighbouring directories. One of them marks the parent as an installation.
const OF_LIBRARIES: [&str; 3] = ["lib", "lib64", "libexec"];

/// The directory of a home in which installers put links to programs. A tool that names such a link
/// may read it.
const OF_LINKS: &str = ".local/bin";

/// The directory of a version manager with scripts that look for the program in neighbouring
/// directories.
const SHIMS: &str = "shims";

/// Returns the places of the accesses that a tool was refused, and of the links by which it named
/// them. The place with the most refused accesses comes first. `may` says whether a place can be
/// allowed. If not, the file itself is returned.
pub(super) fn missed_places(
    refused: &[RequestedAccess],
    links: &BTreeSet<PathBuf>,
    around: WidenContext<'_>,
    may: &dyn Fn(&RequestedAccess) -> bool,
) -> Vec<RequestedAccess> {
    let mut dirs: Vec<FsEntry> = Vec::new();
    let mut others = Vec::new();
    let mut add = |access, path: PathBuf| {
        // The text is only needed in a policy file. These entries are for a question.
        add_new(&mut dirs, FsEntry { access, raw: String::new(), path }, around);
    };
    for reached in refused {
        let RequestedAccess::Path { access, path } = reached else {
            others.push(reached.clone());
            continue;
        };
        let place = place_of(*access, path, around);
        let is_open = may(&RequestedAccess::Path { access: *access, path: place.clone() });
        add(*access, if is_open { place } else { path.clone() });
    }
    for path in links.iter().filter_map(|link| place_of_link(link, around, may)) {
        add(Access::ReadOnly, path);
    }
    let named = |dir: &Path| {
        let is_in = |it: &&RequestedAccess| matches!(it, RequestedAccess::Path { path, .. } if path.starts_with(dir));
        refused.iter().filter(is_in).count()
    };
    dirs.sort_by_cached_key(|dir| (Reverse(named(&dir.path)), dir.path.clone()));
    let paths =
        dirs.into_iter().map(|FsEntry { access, path, .. }| RequestedAccess::Path { access, path });
    paths.chain(others).take(MOST).collect()
}

/// Returns the place with which a tool sees a link: the directory that holds it, or the link alone
/// where much else lies in that. Nothing if neither can be allowed.
fn place_of_link(
    link: &Path,
    around: WidenContext<'_>,
    may: &dyn Fn(&RequestedAccess) -> bool,
) -> Option<PathBuf> {
    let may = |path: &Path| {
        may(&RequestedAccess::Path { access: Access::ReadOnly, path: path.to_owned() })
    };
    let dir = link.parent()?;
    let is_of_links = around.home.is_some_and(|home| dir == home.join(OF_LINKS));
    if is_of_links || !around.is_for_itself(dir) {
        return may(dir).then(|| dir.to_owned());
    }
    // An entry that names the link grants what it leads to as well.
    let target = link.canonicalize().ok()?;
    let is_narrow = target.is_file() || !around.is_for_itself(&target);
    (is_narrow && may(&target) && may(link)).then(|| link.to_owned())
}

/// Returns the place to which a file belongs.
fn place_of(access: Access, path: &Path, around: WidenContext<'_>) -> PathBuf {
    let dir = directory_of(path, around);
    match access {
        Access::ReadOnly => installation_of(&dir, around).unwrap_or(dir),
        Access::ReadWrite => dir,
    }
}

/// Returns the installation whose programs are in a directory.
fn installation_of(dir: &Path, around: WidenContext<'_>) -> Option<PathBuf> {
    let prefix = dir.parent().filter(|prefix| !around.is_for_itself(prefix))?;
    let name = dir.file_name().and_then(OsStr::to_str)?;
    let is_one = name == SHIMS
        || OF_PROGRAMS.contains(&name) && OF_LIBRARIES.iter().any(|it| prefix.join(it).is_dir());
    is_one.then(|| prefix.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::policy::Profile;

    fn reads(path: PathBuf) -> RequestedAccess {
        RequestedAccess::Path { access: Access::ReadOnly, path }
    }

    fn writes(path: PathBuf) -> RequestedAccess {
        RequestedAccess::Path { access: Access::ReadWrite, path }
    }

    /// A home with files, and a way to get the places that a tool lacked in it.
    struct Home(tempfile::TempDir);

    impl Home {
        fn new(files: &[&str]) -> Self {
            let scratch = tempfile::tempdir().expect("a directory");
            for file in files {
                let path = scratch.path().join(file);
                fs::create_dir_all(path.parent().expect("a parent")).expect("made");
                fs::write(path, "").expect("written");
            }
            Self(scratch)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn places(&self, refused: &[RequestedAccess], links: &[&str]) -> Vec<RequestedAccess> {
            self.places_where(refused, links, &|_| true)
        }

        fn places_where(
            &self,
            refused: &[RequestedAccess],
            links: &[&str],
            may: &dyn Fn(&RequestedAccess) -> bool,
        ) -> Vec<RequestedAccess> {
            let workspace = self.path("work");
            let around = WidenContext {
                workspace: &workspace,
                home: Some(self.0.path()),
                protected: &[],
                secrets: &[],
                profile: Profile::Standard,
            };
            let links = links.iter().map(|link| self.path(link)).collect();
            missed_places(refused, &links, around, may)
        }
    }

    #[test]
    fn files_become_their_directory_and_the_one_with_the_most_is_first() {
        let home = Home::new(&["a/one", "b/one", "b/two", ".gitconfig", ".ssh/id_rsa"]);
        let missed = ["a/one", "b/one", "b/two", ".gitconfig", ".ssh/id_rsa"]
            .map(|name| reads(home.path(name)));
        let expected = ["b", ".gitconfig", ".ssh/id_rsa", "a"].map(|name| reads(home.path(name)));
        assert_eq!(home.places(&missed, &[]), expected, "home and secrets are not opened");
        let peer = RequestedAccess::Peer { host: "a.test".to_owned(), port: 443 };
        let both = [peer.clone(), reads(home.path("a/one"))];
        assert_eq!(home.places(&both, &[]), [reads(home.path("a")), peer]);
    }

    #[test]
    fn a_program_becomes_its_installation() {
        let home = Home::new(&[
            ".nvm/v20/bin/node",
            ".nvm/v20/lib/x",
            ".pyenv/shims/python3",
            "tools/bin/x",
            "bin/x",
            "lib/y",
        ]);
        for (file, place) in [
            (".nvm/v20/bin/node", ".nvm/v20"),
            (".pyenv/shims/python3", ".pyenv"),
            ("tools/bin/x", "tools/bin"),
            ("bin/x", "bin"),
        ] {
            assert_eq!(home.places(&[reads(home.path(file))], &[]), [reads(home.path(place))]);
        }
        let written = writes(home.path(".nvm/v20/bin/node"));
        assert_eq!(home.places(&[written], &[]), [writes(home.path(".nvm/v20/bin"))]);
    }

    #[test]
    fn a_link_brings_the_directory_that_holds_it() {
        let home = Home::new(&["opt/tool/run", "links/x", ".local/bin/x", "work/x"]);
        let target = reads(home.path("opt/tool/run"));
        let both = ["opt/tool", "links"].map(|name| reads(home.path(name)));
        assert_eq!(home.places(std::slice::from_ref(&target), &["links/tool"]), both);
        assert_eq!(home.places(&[], &["links/tool"]), both[1..]);
        let program = reads(home.path(".local/bin"));
        assert_eq!(home.places(&[], &[".local/bin/tool"]), [program]);
    }

    #[test]
    fn a_link_among_much_else_is_a_place_by_itself() {
        let home = Home::new(&["opt/tool/run", "work/x"]);
        let link = |name: &str, target: &Path| symlink(target, home.path(name)).expect("linked");
        link("tool", &home.path("opt/tool/run"));
        link("tools", &home.path("opt/tool"));
        link("all", home.0.path());
        let target = reads(home.path("opt/tool/run"));
        for name in ["tool", "tools"] {
            let both = ["opt/tool", name].map(|name| reads(home.path(name)));
            assert_eq!(home.places(std::slice::from_ref(&target), &[name]), both);
        }
        // Neither all of the home nor what cannot be allowed.
        for name in ["all", "gone"] {
            assert_eq!(home.places(&[], &[name]), [], "{name}");
        }
        let is_no_file = |it: &RequestedAccess| *it != target;
        assert_eq!(home.places_where(&[], &["tool"], &is_no_file), []);
    }

    #[test]
    fn a_place_that_cannot_be_allowed_is_named_file_by_file() {
        let home = Home::new(&["a/one", "a/two"]);
        let files = ["a/one", "a/two"].map(|name| reads(home.path(name)));
        let not_whole = |it: &RequestedAccess| *it != reads(home.path("a"));
        assert_eq!(home.places_where(&files, &[], &not_whole), files);
    }

    #[test]
    fn what_is_read_and_written_is_one_place_and_there_are_sixteen() {
        let home = Home::new(&["a/one", "a/two"]);
        let both = [reads(home.path("a/one")), writes(home.path("a/two"))];
        assert_eq!(home.places(&both, &[]), [writes(home.path("a"))]);
        let many: Vec<_> = (0..40).map(|at| reads(home.path(&format!("{at}/x")))).collect();
        assert_eq!(home.places(&many, &[]).len(), MOST);
    }
}
