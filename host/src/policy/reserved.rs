//! The places in granted directories that a grant of the directory does not open. The tool does not
//! see places of secrets there or in the base view, and may not write to places that other programs
//! execute. A list `fs` must name such a place, or a directory or file in it.
//!
//! Owns the rule for reserved paths in a grant. Compares absolute paths without links. Follows the
//! links of the places at each decision on a grant, if a directory with such links changed.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{read_dir, read_link};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ikigai_protocol::{Access, GrantedDir};
use ikigai_supervisor::base_view::{is_in_base_view, is_users_own};
use parking_lot::Mutex;

use super::executed_places::{GIT, IN_GIT, executed_place};
use super::secret_places::{is_secret_name, secret_paths};
use crate::paths::{InodeState, has_settled, resolution_steps, resolved};

/// The places of secrets of this user and this host.
#[derive(Debug, Default)]
pub(super) struct SecretPaths {
    /// The places with a known path, before links are followed. Those of one directory lie side by
    /// side.
    given: Vec<PathBuf>,
    /// The home, in which files with certain names are secrets.
    home: Option<PathBuf>,
    /// The result of the last search for links.
    known: Mutex<Arc<KnownPlaces>>,
}

impl SecretPaths {
    /// Returns the known places of secrets of the user with this home, and the host's own places,
    /// `own`.
    pub(super) fn new(home: Option<&Path>, own: impl IntoIterator<Item = PathBuf>) -> Self {
        let real = home.map(|home| resolved(home).unwrap_or_else(|_| home.components().collect()));
        let places = [secret_paths(home), secret_paths(real.as_deref())].concat();
        let mut secrets = Self { home: real, ..Self::default() };
        secrets.add(places.into_iter().chain(own));
        secrets
    }

    /// Returns the places with a known path. They need not exist. If a place is a link now, or was
    /// one at an earlier call, also returns each link and the target that it leads to. Otherwise,
    /// after a tool removed a link, its next call would see the rest.
    pub(super) fn places(&self) -> Arc<Vec<PathBuf>> {
        let earlier = Arc::clone(&self.known.lock());
        if earlier.is_current() {
            return Arc::clone(&earlier.places);
        }
        let LinkSearch { mut places, dirs, is_steady } =
            LinkSearch::run(&self.given, self.home.as_deref());
        let stamps = is_steady.then(|| stamps(dirs)).flatten();
        let mut known = self.known.lock();
        places.extend_from_slice(&known.places);
        places.sort();
        places.dedup();
        let places = Arc::new(places);
        *known = Arc::new(KnownPlaces { places: Arc::clone(&places), stamps });
        places
    }

    /// Returns these places for one decision.
    pub(super) fn for_decision(&self) -> DecisionSecrets<'_> {
        DecisionSecrets { paths: self, places: OnceCell::new() }
    }

    /// Adds places.
    pub(super) fn add(&mut self, places: impl IntoIterator<Item = PathBuf>) {
        self.given.extend(places.into_iter().map(|place| place.components().collect::<PathBuf>()));
        self.given.sort_by(|one, other| (one.parent(), one).cmp(&(other.parent(), other)));
        self.given.dedup();
        self.known = Mutex::default();
    }
}

/// The places of secrets during one decision. If a link appears in the meantime, all steps of the
/// decision still see the same places.
pub(super) struct DecisionSecrets<'a> {
    paths: &'a SecretPaths,
    /// The places, after a step of the decision needed them.
    places: OnceCell<Arc<Vec<PathBuf>>>,
}

impl DecisionSecrets<'_> {
    /// Returns the places as [`SecretPaths::places`] does.
    pub(super) fn places(&self) -> &[PathBuf] {
        self.places.get_or_init(|| self.paths.places())
    }

    fn home(&self) -> Option<&PathBuf> {
        self.paths.home.as_ref()
    }
}

/// The places of secrets, with what their links lead to.
#[derive(Debug, Default)]
struct KnownPlaces {
    places: Arc<Vec<PathBuf>>,
    /// The directories in which a link can change the places, with their states before the search
    /// looked into them. `None` if a later change could have the same time.
    stamps: Option<Vec<(PathBuf, InodeState)>>,
}

impl KnownPlaces {
    /// Returns whether a search would find the same places.
    fn is_current(&self) -> bool {
        let is_unchanged =
            |(dir, stamp): &(PathBuf, InodeState)| FoundDir::at(dir).stamp() == Some(*stamp);
        self.stamps.as_ref().is_some_and(|stamps| stamps.iter().all(is_unchanged))
    }
}

/// The result of looking at the path of a directory.
#[derive(Clone, Copy, Debug)]
enum FoundDir {
    /// A directory; without a stamp if it changed just now.
    There(Option<InodeState>),
    /// Nothing.
    Absent,
    /// A link or a file, or the path cannot be looked at.
    Other,
}

impl FoundDir {
    /// Looks at a path. Does not follow a link at its end.
    fn at(dir: &Path) -> Self {
        match dir.symlink_metadata() {
            Ok(found) if found.is_dir() => {
                Self::There(has_settled(&found).then(|| InodeState::from_metadata(&found)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Self::Absent,
            _ => Self::Other,
        }
    }

    fn stamp(self) -> Option<InodeState> {
        match self {
            Self::There(stamp) => stamp,
            Self::Absent | Self::Other => None,
        }
    }
}

/// Returns the stamps of the directories, or `None` if one changed just now. If a directory
/// appears, the one around it changes.
fn stamps(dirs: BTreeMap<PathBuf, FoundDir>) -> Option<Vec<(PathBuf, InodeState)>> {
    let stamp = |(dir, found): (PathBuf, FoundDir)| match found {
        FoundDir::There(stamp) => Some(stamp.map(|stamp| (dir, stamp))),
        FoundDir::Absent | FoundDir::Other => None,
    };
    dirs.into_iter().filter_map(stamp).collect()
}

/// A search for the links of places.
struct LinkSearch {
    /// The places, and what the links among them lead to.
    places: Vec<PathBuf>,
    /// The directories on the way, each with those around it. The search looks into a directory
    /// only after its state is here, so a link that appears later changes the state.
    dirs: BTreeMap<PathBuf, FoundDir>,
    /// False if a link on the way changed during the search.
    is_steady: bool,
}

impl LinkSearch {
    /// Follows the links of these places, and those in the home with a secret's name.
    fn run(given: &[PathBuf], home: Option<&Path>) -> Self {
        let mut search = Self { places: given.to_vec(), dirs: BTreeMap::new(), is_steady: true };
        for beside in given.chunk_by(|one, next| one.parent() == next.parent()) {
            let dir = beside.first().and_then(|place| place.parent());
            let Some(dir) = dir.and_then(|dir| search.real_dir(dir)) else { continue };
            let names = beside.iter().filter_map(|place| place.file_name());
            let places = names.map(|name| dir.join(name));
            // There is no link in a directory that does not exist.
            if matches!(search.dirs.get(&dir), Some(FoundDir::Absent)) {
                search.places.extend(places);
            } else {
                places.for_each(|place| search.follow(place));
            }
        }
        if let Some(home) = home.and_then(|home| search.real_dir(home)) {
            let entries = read_dir(home).into_iter().flatten().flatten();
            let links = entries.filter(|entry| {
                entry.file_type().is_ok_and(|it| it.is_symlink())
                    && is_secret_name(&entry.file_name())
            });
            for link in links {
                search.follow(link.path());
            }
        }
        search
    }

    /// Adds the path of a place and, if it is a link, of each link and of the file that it leads
    /// to, which need not exist. The directories of the path have no links.
    fn follow(&mut self, place: PathBuf) {
        /// The number of links that the kernel follows before it gives up.
        const MOST_LINKS: usize = 40;
        let mut next = Some(place);
        for _ in 0..MOST_LINKS {
            let Some(at) = next else { break };
            let target = read_link(&at).ok();
            let target = target.and_then(|target| Some(at.parent()?.join(target)));
            next = target.and_then(|target| self.real(&target));
            self.places.push(at);
        }
    }

    /// Returns a path with the links of its directory resolved.
    fn real(&mut self, path: &Path) -> Option<PathBuf> {
        let dir = path.parent()?;
        match path.file_name() {
            Some(name) => Some(self.real_dir(dir)?.join(name)),
            // It ends in `..`.
            None => self.real_dir(path),
        }
    }

    /// Returns the path of a directory without links. The directory need not exist.
    fn real_dir(&mut self, dir: &Path) -> Option<PathBuf> {
        let is_plain =
            |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if dir.is_absolute() && dir.components().all(is_plain) {
            let dir: PathBuf = dir.components().collect();
            // Almost always no directory of the path is a link.
            if !matches!(self.state(&dir), FoundDir::Other) {
                return Some(dir);
            }
        }
        let mut steps = resolution_steps(dir);
        for step in &steps {
            self.state(step);
        }
        // The states of these directories are newer than the first resolution.
        self.is_steady &= resolution_steps(dir) == steps;
        steps.pop()
    }

    /// Returns the state of a directory by its normalized path, and adds the states of those
    /// around it. They are looked at in order, from the root. Below a link, the state is `Other`.
    fn state(&mut self, dir: &Path) -> FoundDir {
        if let Some(known) = self.dirs.get(dir) {
            return *known;
        }
        let state = match dir.parent().map(|above| self.state(above)) {
            None | Some(FoundDir::There(_)) => FoundDir::at(dir),
            Some(above) => above,
        };
        self.dirs.insert(dir.to_owned(), state);
        state
    }
}

/// The places in granted directories that only an explicit grant opens. The default reserves
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// The places of secrets that lie in granted directories, or in the base view of a sandbox.
    secrets: Vec<PathBuf>,
    /// The home, if the tool sees it.
    home: Option<PathBuf>,
    /// The directories and files that the grant names.
    named: Vec<GrantedDir>,
}

impl Reserved {
    /// Returns the reserved places in these directories, for a grant that names `named`.
    pub(super) fn new(
        secrets: &DecisionSecrets<'_>,
        dirs: &[GrantedDir],
        named: Vec<GrantedDir>,
    ) -> Self {
        let places = if dirs.is_empty() { &[] } else { secrets.places() };
        let home = secrets.home().filter(|home| is_in(home, dirs)).cloned();
        let secrets = places.iter().filter(|place| is_in(place, dirs)).cloned().collect();
        Self { secrets, home, named }
    }

    /// Returns the reserved places of a sandboxed process. It sees these directories and the base
    /// view. The supervisor covers the home in the tool's environment, `env`, if it is the
    /// user's own.
    pub(super) fn for_process(
        secrets: &DecisionSecrets<'_>,
        dirs: &[GrantedDir],
        named: Vec<GrantedDir>,
        env: &[(OsString, OsString)],
    ) -> Self {
        let mut reserved = Self::new(secrets, dirs, named);
        let home = env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| Path::new(home));
        let covered = home.and_then(|home| resolved(home).ok()).filter(|home| is_users_own(home));
        let is_covered = |place: &Path| covered.iter().any(|home| place.starts_with(home));
        let places = secrets.places().iter();
        let added = places.filter(|place| is_in_base_view(place) && !is_covered(place));
        reserved.secrets.extend(added.cloned());
        let uncovered = |home: &PathBuf| is_in_base_view(home) && !is_covered(home);
        reserved.home = reserved.home.or_else(|| secrets.home().cloned().filter(uncovered));
        reserved.secrets.sort();
        reserved.secrets.dedup();
        reserved
    }

    /// Returns the reserved places of the whole machine, for a grant that names `named`.
    pub(super) fn everywhere(secrets: &DecisionSecrets<'_>, named: Vec<GrantedDir>) -> Self {
        let root = GrantedDir { access: Access::ReadOnly, path: PathBuf::from("/") };
        Self::new(secrets, &[root], named)
    }

    /// Returns the reserved places for a grant that names these directories and files, without
    /// places of secrets.
    #[doc(hidden)]
    #[must_use]
    pub fn guarding(named: Vec<GrantedDir>) -> Self {
        Self { named, ..Self::default() }
    }

    /// Returns the reserved places of a user with this home.
    #[cfg(test)]
    pub(crate) fn in_home(home: &Path, dirs: &[GrantedDir], named: Vec<GrantedDir>) -> Self {
        Self::new(&SecretPaths::new(Some(home), None).for_decision(), dirs, named)
    }

    /// Returns whether a place of secrets may lie where the tool sees files.
    #[must_use]
    pub fn hides_secrets(&self) -> bool {
        !self.secrets.is_empty() || self.home.is_some()
    }

    /// Returns whether a path lies in a place of secrets that the grant does not name.
    #[must_use]
    pub fn is_secret(&self, path: &Path) -> bool {
        let is_closed = |place: &Path| path.starts_with(place) && !self.is_opened(place, path);
        self.secrets.iter().any(|place| is_closed(place))
            || self.named_in_home(path).is_some_and(|place| is_closed(&place))
    }

    /// Returns whether a path lies in a place of secrets in which the grant names neither the path
    /// nor a directory around it. Such a path may lead to one that the grant names.
    pub(super) fn is_unnamed_secret(&self, path: &Path) -> bool {
        let is_unnamed = |place: &Path| path.starts_with(place) && !self.opens(place, path);
        self.secrets.iter().any(|place| is_unnamed(place))
            || self.named_in_home(path).is_some_and(|place| is_unnamed(&place))
    }

    /// Returns whether a place of secrets may lie in a directory: a tool that renames the directory
    /// would see the secrets under another path.
    pub(crate) fn has_secrets_beneath(&self, dir: &Path) -> bool {
        self.secrets.iter().chain(&self.home).any(|place| place.starts_with(dir))
    }

    /// Returns whether the grant lets the tool write around places that other programs execute.
    #[must_use]
    pub fn guards(&self) -> bool {
        self.named.iter().any(|named| named.access == Access::ReadWrite)
    }

    /// Returns the place that other programs execute and that the path equals or lies in. Returns
    /// `None` if the grant names the place, or a directory in it that contains the path.
    #[must_use]
    pub fn executed_place(&self, path: &Path) -> Option<PathBuf> {
        let writable = self.named.iter().filter(|named| named.access == Access::ReadWrite);
        let around = writable.map(|named| &named.path).filter(|named| path.starts_with(named));
        let innermost = around.max_by_key(|named| named.as_os_str().len())?;
        let is_repository = innermost.file_name().is_some_and(|it| it.eq_ignore_ascii_case(GIT));
        let from = if is_repository { innermost.parent()? } else { innermost };
        let place = from.join(executed_place(path.strip_prefix(from).ok()?)?);
        // A tool that may write to a whole repository may also write to the files from which git
        // takes commands.
        let is_direct = place.parent() == Some(innermost);
        let is_known = |name: &OsStr| IN_GIT.iter().any(|known| name.eq_ignore_ascii_case(known));
        let is_open = is_repository
            && (place == *innermost || is_direct && place.file_name().is_some_and(is_known));
        (!is_open).then_some(place)
    }

    /// Returns whether the grant refuses an access to a path in its directories.
    pub(super) fn withholds(&self, access: Access, path: &Path) -> bool {
        self.is_secret(path) || access == Access::ReadWrite && self.executed_place(path).is_some()
    }

    /// Returns the places of secrets with a known path where the tool sees files. They need not
    /// exist.
    pub(crate) fn secrets(&self) -> &[PathBuf] {
        &self.secrets
    }

    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Returns whether the grant names a directory or file in `place` that contains the path.
    pub(crate) fn opens(&self, place: &Path, path: &Path) -> bool {
        self.named
            .iter()
            .any(|named| named.path.starts_with(place) && path.starts_with(&named.path))
    }

    /// Returns whether the grant names this directory or file.
    pub(crate) fn names(&self, path: &Path) -> bool {
        self.named.iter().any(|named| named.path == path)
    }

    /// Returns whether the grant names something in a directory, or the directory itself, to be
    /// written. A path that only a bound lists does not count.
    pub(crate) fn names_writable_in(&self, dir: &Path) -> bool {
        let mut writable = self.named.iter().filter(|named| named.access == Access::ReadWrite);
        writable.any(|named| named.path.starts_with(dir))
    }

    pub(super) fn named(&self) -> &[GrantedDir] {
        &self.named
    }

    /// Returns whether the grant names a path inside a directory.
    pub(crate) fn leads_to_named(&self, dir: &Path) -> bool {
        self.named.iter().any(|named| named.path.starts_with(dir) && named.path != dir)
    }

    /// Returns the file or directory of the home that has a secret's name and that the path equals
    /// or lies in.
    fn named_in_home(&self, path: &Path) -> Option<PathBuf> {
        let home = self.home.as_deref()?;
        let name = path.strip_prefix(home).ok()?.iter().next()?;
        is_secret_name(name).then(|| home.join(name))
    }

    /// Returns whether the grant names something in a place that contains the path or lies below
    /// it.
    fn is_opened(&self, place: &Path, path: &Path) -> bool {
        let mut within = self.named.iter().filter(|named| named.path.starts_with(place));
        within.any(|named| path.starts_with(&named.path) || named.path.starts_with(path))
    }
}

fn is_in(place: &Path, dirs: &[GrantedDir]) -> bool {
    dirs.iter().any(|dir| place.starts_with(&dir.path))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use ikigai_protocol::Access;

    use super::*;

    fn dirs(paths: &[&Path]) -> Vec<GrantedDir> {
        let dir = |path: &&Path| GrantedDir { access: Access::ReadOnly, path: path.to_path_buf() };
        paths.iter().map(dir).collect()
    }

    #[test]
    fn a_repository_that_a_grant_names_is_open_as_a_whole() {
        let write = |path: &str| GrantedDir { access: Access::ReadWrite, path: path.into() };
        let reserved = Reserved::guarding(vec![write("/w"), write("/w/.git")]);
        for free in ["/w/.git/HEAD", "/w/.git/hooks/pre-commit", "/w/.git/refs/remotes/a/HEAD"] {
            assert_eq!(reserved.executed_place(Path::new(free)), None, "{free}");
        }
        for place in ["/w/.envrc", "/w/.git/x/.envrc", "/w/.git/x/HEAD"] {
            assert!(reserved.executed_place(Path::new(place)).is_some(), "{place}");
        }
    }

    #[test]
    fn secrets_in_a_granted_directory_stay_hidden_unless_they_are_named() {
        let home = Path::new("/h/u");
        let secrets = SecretPaths::new(Some(home), [home.join(".local/state/ikigai")]);
        let reserved = |named: &[&str]| {
            let named: Vec<PathBuf> = named.iter().map(|name| home.join(name)).collect();
            let named: Vec<&Path> = named.iter().map(PathBuf::as_path).collect();
            Reserved::new(&secrets.for_decision(), &dirs(&[home]), dirs(&named))
        };
        let around = reserved(&[""]);
        for hidden in [
            ".ssh",
            ".ssh/id_ed25519",
            ".aws/credentials",
            ".local/state/ikigai/mcp.token",
            ".netrc",
            "id_rsa",
        ] {
            assert!(around.is_secret(&home.join(hidden)), "{hidden}");
        }
        for seen in ["", ".local/state", ".sshd", "work/.env", ".config/nvim", ".env.example"] {
            assert!(!around.is_secret(&home.join(seen)), "{seen}");
        }
        // The user may have written the same home in another way.
        let twice = Path::new("/h//u");
        let secrets = SecretPaths::new(Some(twice), [twice.join("./own")]);
        let same = Reserved::new(&secrets.for_decision(), &dirs(&[home]), dirs(&[home]));
        for hidden in [".ssh/id_ed25519", "own/x", "id_rsa"] {
            assert!(same.is_secret(&home.join(hidden)), "{hidden}");
        }
        // The directories on the way to a named path are visible, but their other entries are not.
        let named = reserved(&["", ".ssh/config", ".netrc"]);
        for (path, is) in [
            (".ssh", false),
            (".ssh/config", false),
            (".ssh/id_rsa", true),
            (".netrc", false),
            (".aws", true),
        ] {
            assert_eq!(named.is_secret(&home.join(path)), is, "{path}");
        }
        assert!(
            !Reserved::new(&secrets.for_decision(), &dirs(&[Path::new("/h/u/work")]), Vec::new())
                .hides_secrets()
        );
        let inner = dirs(&[Path::new("/h/u/.ssh/keys")]);
        let inner = Reserved::new(&secrets.for_decision(), &inner.clone(), inner);
        assert!(!inner.is_secret(&home.join(".ssh/keys/one")));
    }

    #[test]
    fn what_other_programs_execute_is_guarded_unless_it_is_named() {
        let grant = |named: &[(Access, &str)]| {
            let dir = |(access, path): &(Access, &str)| GrantedDir {
                access: *access,
                path: Path::new("/w").join(path),
            };
            let named: Vec<GrantedDir> = named.iter().map(dir).collect();
            Reserved::new(&SecretPaths::default().for_decision(), &named, named.clone())
        };
        let (read, write) = (Access::ReadOnly, Access::ReadWrite);
        let place = |reserved: &Reserved, path: &str| {
            let place = reserved.executed_place(&Path::new("/w").join(path))?;
            Some(place.strip_prefix("/w").expect("within").display().to_string())
        };
        let all = grant(&[(write, "")]);
        for (path, expected) in [
            (".git/hooks/pre-commit", ".git/hooks"),
            ("a/b/.envrc", "a/b/.envrc"),
            (".vscode/tasks.json", ".vscode"),
        ] {
            assert_eq!(place(&all, path).as_deref(), Some(expected), "{path}");
        }
        assert_eq!(place(&all, ".git/index"), None);
        assert_eq!(place(&grant(&[(read, "")]), ".envrc"), None);
        let named = grant(&[(write, ""), (write, ".git"), (write, ".vscode/tasks.json")]);
        for (path, expected) in [
            (".git/config", None),
            (".vscode/tasks.json", None),
            (".vscode/settings.json", Some(".vscode")),
            (".envrc", Some(".envrc")),
        ] {
            assert_eq!(place(&named, path).as_deref(), expected, "{path}");
        }
        // Names above a granted directory don't count.
        assert_eq!(place(&grant(&[(write, ".claude/work")]), ".claude/work/a"), None);
    }

    #[test]
    fn each_link_between_a_place_and_its_end_is_reserved() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("resolved");
        for dir in ["home", "dots/private/aws", "dots/conf"] {
            fs::create_dir_all(root.join(dir)).expect("made");
        }
        let (home, dots) = (root.join("home"), root.join("dots"));
        fs::write(dots.join("conf/env"), "").expect("written");
        symlink("../dots/aws", home.join(".aws")).expect("linked");
        symlink("private/aws", dots.join("aws")).expect("linked");
        symlink(dots.join("conf/env"), home.join(".env")).expect("linked");
        let secrets = SecretPaths::new(Some(&home), []);
        let reserved = Reserved::new(&secrets.for_decision(), &dirs(&[&root]), dirs(&[&root]));
        for path in ["home/.aws", "dots/aws", "dots/private/aws/credentials", "dots/conf/env"] {
            assert!(reserved.is_secret(&root.join(path)), "{path}");
        }
        assert!(
            !reserved.is_secret(&dots.join("private")) && !reserved.is_secret(&dots.join("conf"))
        );
    }

    #[test]
    fn a_place_behind_a_link_is_known_by_the_path_that_it_has() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("resolved");
        for dir in ["home", "dots/ssh"] {
            fs::create_dir_all(root.join(dir)).expect("made");
        }
        symlink(root.join("dots/ssh"), root.join("home/.ssh")).expect("linked");
        let (home, dots) = (root.join("home"), root.join("dots"));
        let secrets = SecretPaths::new(Some(&home), []);
        let reserved = Reserved::new(&secrets.for_decision(), &dirs(&[&dots]), dirs(&[&dots]));
        assert!(reserved.is_secret(&dots.join("ssh/id_rsa")));
        assert!(!reserved.is_secret(&dots.join("vim")));
    }

    #[test]
    fn a_link_that_appears_is_followed_at_the_next_decision_and_stays_known() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("resolved");
        for dir in ["home", "dots/aws", "dots/config"] {
            fs::create_dir_all(root.join(dir)).expect("made");
        }
        let (home, dots) = (root.join("home"), root.join("dots"));
        let secrets = SecretPaths::new(Some(&home), []);
        // The links lie outside of the granted directory.
        let is_secret = |path: &str| {
            let reserved = Reserved::new(&secrets.for_decision(), &dirs(&[&dots]), dirs(&[&dots]));
            reserved.is_secret(&dots.join(path))
        };
        let targets = ["aws/credentials", "config/gh", "later/kube/config", "env", "npmrc"];
        for path in targets {
            assert!(!is_secret(path), "{path}");
        }
        for (target, link) in [
            ("../dots/aws", ".aws"),
            // What these lead to does not exist yet.
            ("../dots/config", ".config"),
            ("../dots/later/kube", ".kube"),
            ("../dots/env", ".env"),
            ("../dots/one", ".npmrc"),
        ] {
            symlink(target, home.join(link)).expect("linked");
        }
        for path in targets.into_iter().take(4) {
            assert!(is_secret(path), "{path}");
        }
        // A link that another one leads to.
        symlink("npmrc", dots.join("one")).expect("linked");
        assert!(is_secret("npmrc"));
        fs::remove_file(home.join(".aws")).expect("removed");
        for path in targets {
            assert!(is_secret(path), "{path}");
        }
        assert!(!is_secret("config") && !is_secret("later") && !is_secret("config/nvim"));
    }

    #[test]
    fn the_known_places_hold_until_a_link_appears_in_a_directory_on_the_way() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("resolved");
        let known = || {
            let dirs = BTreeMap::from([(root.clone(), FoundDir::at(&root))]);
            KnownPlaces { stamps: stamps(dirs), ..KnownPlaces::default() }
        };
        assert!(!KnownPlaces::default().is_current());
        // Until the time of the next change will be another one, nothing holds.
        let settled = loop {
            match known() {
                KnownPlaces { stamps: None, .. } => std::thread::yield_now(),
                settled => break settled,
            }
        };
        assert!(settled.is_current());
        symlink("anywhere", root.join("link")).expect("linked");
        assert!(!settled.is_current());
    }
}
