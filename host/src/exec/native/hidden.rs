//! The files of a grant that a native tool does not see, or may not write to.
//!
//! The supervisor hides what exists when a call begins: this finds it, with the search of
//! [`hidden_search`](super::hidden_search). A call whose search does not end in time is refused.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use ikigai_supervisor::plan::{HiddenPath, InodeId};
use rustix::fs::{AtFlags, CWD, statat};
use rustix::io::Errno;

use super::guarded::Guarded;
use super::hidden_search::{HiddenSearch, SearchBounds};
use super::open_grant::{OpenGrant, identity};
use super::secrets::{self, SecretDirs};
use crate::exec::Call;
use crate::paths::TICK;
use crate::policy::Sandbox;

/// The files that a tool does not see, or may not write to, each with its identity.
#[derive(Default)]
pub(super) struct Unseen {
    /// Those that are hidden in what was granted.
    pub(super) hidden: Vec<HiddenPath>,
    /// The places that other programs execute.
    pub(super) guarded: Guarded,
    /// The identity of each granted directory and file that was searched.
    pub(super) searched: HashMap<PathBuf, InodeId>,
    /// Set for a permissive recording, which shows the machine: those that it does not show.
    pub(super) machine: Option<Vec<HiddenPath>>,
    /// The directories in which a place of secrets can appear while the tool runs.
    pub(super) secret_dirs: SecretDirs,
    /// Set if directories changed in each search for hidden names, so that another program may have
    /// moved one past the search.
    pub(super) may_be_incomplete: bool,
}

/// Finds the files that the tool of a call does not see. An unconfined tool has all rights of its
/// user, and nothing is hidden from it. Running calls are noted in the directory `calls`.
pub(super) async fn find_for_call(
    call: &Call,
    sets_aside: bool,
    calls: Option<Arc<Path>>,
) -> Result<Unseen, String> {
    let recorded = call.widening.clone().filter(|widening| widening.is_permissive());
    let hides = !call.grant.hide.is_empty();
    let hides_secrets = call.grant.reserved.hides_secrets();
    let guards = call.grant.reserved.guards();
    let hides_nothing = !hides && !hides_secrets && recorded.is_none();
    if hides_nothing && !guards || call.grant.sandbox == Sandbox::Off {
        return Ok(Unseen::default());
    }
    let grant = call.grant.clone();
    // A task on a blocking thread goes on when nobody waits for it any more.
    let ended = call.cancel.child_token();
    let _end_if_dropped = ended.clone().drop_guard();
    let search = move |granted: Vec<OpenGrant>| {
        let mut secret_dirs = SecretDirs::default();
        let mut secrets = Vec::new();
        if hides_secrets {
            // Before the search: a place that appears during it changes one of them.
            secret_dirs = SecretDirs::look(&grant);
            secrets = secrets::find(&grant)?;
        }
        let is_hidden = |path: &Path| grant.hides(path) || secrets.iter().any(|it| it == path);
        // Few places, each with its path, so that nothing has to be searched.
        let mut hidden = present(&secrets, &granted)?;
        let mut may_be_incomplete = false;
        if hides {
            let (found, is_incomplete) = find(&granted, &is_hidden, SearchBounds::default())?;
            let is_granted = |it: &HiddenPath| {
                let path = Path::new(OsStr::from_bytes(it.path.to_bytes()));
                granted.iter().any(|granted| path.starts_with(&granted.path))
            };
            // The search finds those in granted directories, with every other name of their files.
            hidden.retain(|it| !is_granted(it));
            hidden.extend(found);
            may_be_incomplete = is_incomplete;
        }
        let searched = granted.into_iter().map(|it| (it.path, it.found)).collect();
        if may_be_incomplete && grant.sandbox == Sandbox::Require {
            return Err("other programs changed directories during each search".to_owned());
        }
        let guarded = match guards {
            true => Guarded::find(&grant, sets_aside, &ended, calls.as_deref())?,
            false => Guarded::default(),
        };
        let machine = recorded.map(|it| present(&it.kept_from_recordings(), &[])).transpose()?;
        secret_dirs.forget_hidden(&hidden);
        Ok(Unseen { hidden, guarded, searched, machine, secret_dirs, may_be_incomplete })
    };
    let dirs = call.grant.dirs.clone();
    let search = tokio::task::spawn_blocking(move || {
        let granted = OpenGrant::open_all(&dirs)?;
        search(granted).map_err(|reason: String| {
            format!("the files that are hidden or kept from the tool are unknown: {reason}")
        })
    });
    // The kernel may have it wait for another program.
    let time = SearchBounds::default().time.min(call.limits.wall_clock);
    match tokio::time::timeout(time, search).await {
        Ok(found) => found.unwrap_or_else(|error| Err(error.to_string())),
        Err(_) => Err(format!(
            "the granted directories could not be searched within {} s, since other programs keep \
             them busy; call it again",
            time.as_secs_f32()
        )),
    }
}

/// The number of searches after which directories may still have changed during each.
const SEARCHES: u32 = 3;

/// Finds what `hides` names in the granted directories, by its absolute path, with every other name
/// of such a file. Returns as well whether it may have missed something, because directories changed
/// during each search.
///
/// # Errors
///
/// The reason why the search did not end, for a person.
pub(super) fn find(
    granted: &[OpenGrant],
    hides: &dyn Fn(&Path) -> bool,
    bounds: SearchBounds,
) -> Result<(Vec<HiddenPath>, bool), String> {
    let until = Instant::now() + bounds.time;
    let mut left = SEARCHES;
    let (search, is_settled) = loop {
        let search = HiddenSearch::by_name(hides, bounds, until).run(granted)?;
        let is_settled = search.is_settled();
        left -= 1;
        if is_settled || left == 0 {
            break (search, is_settled);
        }
        // A change right after one more search would have another time.
        thread::sleep(TICK);
    };
    for path in &search.whole {
        tracing::warn!(
            "`{}` has too much in it, and is hidden from the tool as a whole",
            path.display()
        );
    }
    Ok((outermost(&search.found)?, !is_settled))
}

/// Returns those of `places` that are there. They have no links in them. Looks for one in what was
/// `granted` there.
///
/// # Errors
///
/// The reason, for a person, if one cannot be looked at: it may be there, and the tool may see it
/// later.
fn present(places: &[PathBuf], granted: &[OpenGrant]) -> Result<Vec<HiddenPath>, String> {
    let mut found = BTreeMap::new();
    for path in places {
        let around = granted.iter().find_map(|it| Some((it, path.strip_prefix(&it.path).ok()?)));
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let stat = match around {
            Some((granted, rest)) => statat(&granted.place, rest, flags),
            None => statat(CWD, path, flags),
        };
        match stat {
            Ok(stat) => drop(found.insert(path.clone(), identity(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(format!("`{}`: {errno}", path.display())),
        }
    }
    outermost(&found)
}

/// Returns what lies in nothing else that was found.
fn outermost(found: &BTreeMap<PathBuf, InodeId>) -> Result<Vec<HiddenPath>, String> {
    let is_outermost =
        |path: &PathBuf| !path.ancestors().skip(1).any(|above| found.contains_key(above));
    let outer = found.iter().filter(|(path, _)| is_outermost(path));
    let hidden = outer.map(|(path, found)| {
        let path = CString::new(path.as_os_str().as_bytes());
        path.map(|path| HiddenPath { path, found: *found })
            .map_err(|_| "a hidden path contains a NUL".to_owned())
    });
    hidden.collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use ikigai_protocol::{Access, GrantedDir};
    use rustix::fs::{Mode, OFlags, openat};

    use super::*;
    use crate::exec::native::hidden_search::open;
    use crate::paths::{open_scratch, while_closed};

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(scratch.path()).expect("a path");
        for dir in ["a/b", "secret/deep", "out"] {
            fs::create_dir_all(root.join(dir)).expect("made");
        }
        for file in [".env", "a/b/.env", "a/plain", "secret/deep/key"] {
            fs::write(root.join(file), "x").expect("written");
        }
        fs::hard_link(root.join(".env"), root.join("a/other")).expect("linked");
        fs::hard_link(root.join("secret/deep/key"), root.join("out/key")).expect("linked");
        symlink(root.join("a"), root.join("link")).expect("linked");
        (scratch, root)
    }

    fn search(root: &Path, bounds: SearchBounds) -> Result<Vec<String>, String> {
        let hides = |path: &Path| {
            path.file_name().is_some_and(|name| name == ".env") || path == root.join("secret")
        };
        let dir = GrantedDir { access: Access::ReadWrite, path: root.to_owned() };
        let (hidden, _) = find(&OpenGrant::open_all(&[dir])?, &hides, bounds)?;
        let name = |it: &HiddenPath| {
            let path = it.path.to_str().expect("UTF-8").to_owned();
            path.trim_start_matches(root.to_str().expect("UTF-8")).to_owned()
        };
        Ok(hidden.iter().map(name).collect())
    }

    #[test]
    fn every_name_of_a_hidden_file_is_found() {
        let (_scratch, root) = tree();
        let found = search(&root, SearchBounds::default()).expect("ends");
        // The other names of a file in a hidden directory, too, and nothing by way of a link.
        assert_eq!(found, ["/.env", "/a/b/.env", "/a/other", "/out/key", "/secret"]);
    }

    #[test]
    fn places_of_the_machine_are_found_where_they_are() {
        let (_scratch, root) = tree();
        let places = ["out", "a/b", "a/b/.env", "a/plain/x", "gone"].map(|name| root.join(name));
        let found = present(&places, &[]).expect("found");
        let paths: Vec<_> = found.iter().map(|it| it.path.to_str().expect("UTF-8")).collect();
        assert_eq!(paths, [&places[1], &places[0]].map(|path| path.to_str().expect("UTF-8")));
    }

    #[test]
    fn a_place_that_cannot_be_looked_at_is_no_place_that_is_missing() {
        let (_scratch, root) = open_scratch();
        fs::create_dir(root.join("closed")).expect("made");
        fs::write(root.join("closed/key"), "x").expect("written");
        let dir = GrantedDir { access: Access::ReadOnly, path: root.clone() };
        let granted = OpenGrant::open_all(&[dir]).expect("opened");
        let places = [root.join("closed/key")];
        for granted in [&granted[..], &[]] {
            let found =
                while_closed(&root.join("closed"), 0, || present(&places, granted).is_err());
            assert!(found && present(&places, granted).is_ok());
        }
    }

    #[test]
    fn a_directory_with_too_much_in_it_is_hidden_as_a_whole_and_nothing_else() {
        let bounds = SearchBounds::default();
        let found = |make: &dyn Fn(&Path), bounds: SearchBounds| {
            let (_scratch, root) = tree();
            make(&root);
            search(&root, bounds).expect("ends")
        };
        let rest = ["/.env", "/a/b/.env", "/a/other", "/out/key", "/secret"];
        let with = |whole: &'static str| {
            let mut all: Vec<&str> = rest.iter().copied().chain([whole]).collect();
            all.sort_unstable();
            all
        };
        let names = |root: &Path| {
            for number in 0..40 {
                let dir = root.join(format!("many/{number}"));
                fs::create_dir_all(&dir).expect("made");
                fs::write(dir.join(".env"), "").expect("written");
            }
        };
        assert_eq!(found(&names, SearchBounds { hidden: 16, ..bounds }), with("/many"));
        let entries = |root: &Path| {
            fs::create_dir(root.join("many")).expect("made");
            (0..200)
                .for_each(|it| fs::write(root.join(format!("many/{it}")), "").expect("written"));
        };
        assert_eq!(found(&entries, SearchBounds { entries: 100, ..bounds }), with("/many"));
        let depth = |root: &Path| fs::create_dir_all(root.join("x/2/3/4/5")).expect("made");
        assert_eq!(found(&depth, SearchBounds { depth: 4, ..bounds }), with("/x/2/3/4/5"));
        // Directories on the way to hidden names are mounts too.
        let chains = |root: &Path| {
            for number in 0..4 {
                let dir = root.join(format!("deep/{number}/1/2/3/4/5/6"));
                fs::create_dir_all(&dir).expect("made");
                fs::write(dir.join(".env"), "").expect("written");
            }
        };
        let paths = found(&chains, SearchBounds { hidden: 16, ..bounds });
        let above: BTreeSet<&Path> =
            paths.iter().flat_map(|path| Path::new(path).ancestors().skip(1)).collect();
        assert!(above.len() <= 17 && rest.iter().all(|it| paths.iter().any(|path| path == it)));
        for number in 0..4 {
            let name = format!("/deep/{number}/1/2/3/4/5/6/.env");
            assert!(paths.iter().any(|path| Path::new(&name).starts_with(path)), "{paths:?}");
        }
        // All of what was granted, if no directory in it has most of that.
        let (_scratch, root) = tree();
        assert_eq!(search(&root, SearchBounds { hidden: 1, ..bounds }).expect("ends"), [""]);
        let late = search(&root, SearchBounds { time: Duration::ZERO, entries: 0, ..bounds });
        assert_eq!(late.expect("ends"), [""]);
    }

    #[test]
    fn a_path_that_is_too_long_for_the_kernel_is_hidden_from_where_it_is_not() {
        let (_scratch, root) = tree();
        let mut dir = open(CWD, root.as_os_str()).expect("opened");
        let name = "n".repeat(200);
        for _ in 0..25 {
            rustix::fs::mkdirat(&dir, &*name, Mode::RWXU).expect("made");
            dir = open(&dir, OsStr::new(&name)).expect("opened");
        }
        let flags = OFlags::CREATE | OFlags::WRONLY;
        drop(openat(&dir, ".env", flags, Mode::RUSR).expect("made"));
        let found = search(&root, SearchBounds::default()).expect("ends");
        assert!(found.iter().all(|path| path.len() < 4_096), "{found:?}");
        assert_eq!(found.iter().filter(|path| path.contains(&name)).count(), 1);
    }

    #[test]
    fn second_names_of_what_was_not_searched_are_hidden() {
        let (_scratch, root) = tree();
        fs::create_dir_all(root.join("x/2/3")).expect("made");
        fs::write(root.join("x/2/3/.env"), "").expect("written");
        fs::hard_link(root.join("x/2/3/.env"), root.join("seen")).expect("linked");
        let found =
            search(&root, SearchBounds { depth: 2, ..SearchBounds::default() }).expect("ends");
        assert!(found.contains(&"/seen".to_owned()), "{found:?}");
    }

    #[test]
    fn a_file_that_is_granted_by_itself_is_hidden_by_its_name() {
        let (_scratch, root) = tree();
        let granted = ["a/b/.env", "a/plain"]
            .map(|name| GrantedDir { access: Access::ReadOnly, path: root.join(name) });
        let hides = |path: &Path| path.file_name().is_some_and(|name| name == ".env");
        let granted = OpenGrant::open_all(&granted).expect("opened");
        let (hidden, _) = find(&granted, &hides, SearchBounds::default()).expect("ends");
        let paths: Vec<_> = hidden.iter().map(|it| it.path.to_bytes().to_vec()).collect();
        assert_eq!(paths, [root.join("a/b/.env").into_os_string().into_encoded_bytes()]);
    }

    /// Searches a tree in which a directory moves to where the search has been, at most `times` times.
    fn search_with_moves(times: u32) -> (Vec<PathBuf>, bool) {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(scratch.path()).expect("a path");
        for dir in ["a", "b"] {
            fs::create_dir(root.join(dir)).expect("made");
        }
        fs::create_dir(root.join("b/moved")).expect("made");
        fs::write(root.join("b/moved/.env"), "x").expect("written");
        let (seen, moves) = (Cell::new(0), Cell::new(0));
        let hides = |path: &Path| {
            if path.parent() == Some(&root) {
                seen.set(seen.get() + 1);
                let now = ["a", "b"].map(|dir| root.join(dir).join("moved"));
                let from = now.iter().find(|it| it.exists()).expect("a directory");
                // The second directory of each search is looked at when the first was searched.
                if seen.get() % 2 == 0 && from.starts_with(path) && moves.get() < times {
                    let to = now.iter().find(|it| *it != from).expect("another");
                    fs::rename(from, to).expect("renamed");
                    moves.set(moves.get() + 1);
                }
            }
            path.file_name().is_some_and(|name| name == ".env")
        };
        let dir = GrantedDir { access: Access::ReadWrite, path: root.clone() };
        let dirs = OpenGrant::open_all(&[dir]).expect("opened");
        let (hidden, may_be_incomplete) =
            find(&dirs, &hides, SearchBounds::default()).expect("ends");
        let path = |it: &HiddenPath| {
            let path = Path::new(OsStr::from_bytes(it.path.to_bytes()));
            path.strip_prefix(&root).expect("in the tree").to_owned()
        };
        let found = hidden.iter().map(path).collect();
        (found, may_be_incomplete)
    }

    #[test]
    fn a_directory_that_moves_past_the_search_is_found_by_the_next_one() {
        let (found, may_be_incomplete) = search_with_moves(1);
        assert!(found.len() == 1 && found[0].ends_with("moved/.env"), "{found:?}");
        assert!(!may_be_incomplete);
    }

    #[test]
    fn a_search_reports_that_directories_changed_each_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(dir.path()).expect("a path");
        let hides = |path: &Path| {
            fs::write(root.join("new"), "").expect("written");
            fs::remove_file(root.join("new")).expect("removed");
            path.ends_with(".env")
        };
        fs::write(root.join(".env"), "").expect("written");
        let granted = GrantedDir { access: Access::ReadOnly, path: root.clone() };
        let granted = OpenGrant::open_all(&[granted]).expect("opened");
        let (found, may_be_incomplete) =
            find(&granted, &hides, SearchBounds::default()).expect("ends");
        assert_eq!((found.len(), may_be_incomplete), (1, true));
    }

    #[test]
    fn what_was_granted_is_searched_even_if_something_else_has_its_path() {
        let (_scratch, root) = tree();
        let dir = |name: &str| GrantedDir { access: Access::ReadOnly, path: root.join(name) };
        let granted = OpenGrant::open_all(&[dir("a")]).expect("opened");
        fs::rename(root.join("a"), root.join("away")).expect("renamed");
        fs::create_dir(root.join("a")).expect("made");
        let hides = |path: &Path| path.ends_with(".env");
        let (found, may_be_incomplete) =
            find(&granted, &hides, SearchBounds::default()).expect("ends");
        let paths: Vec<_> = found.iter().map(|it| it.path.to_bytes()).collect();
        assert_eq!(paths, [root.join("a/b/.env").as_os_str().as_bytes()]);
        assert!(may_be_incomplete);
        let secret = [root.join("a/b")];
        assert_eq!(present(&secret, &granted).expect("found").len(), 1);
        assert_eq!(present(&secret, &[]).expect("found").len(), 0);
        let missing = OpenGrant::open_all(&[dir("none")]).err().expect("missing");
        assert!(missing.ends_with("does not exist; make it, or take it out of the grant"));
    }
}
