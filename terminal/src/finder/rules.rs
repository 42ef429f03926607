//! The rules for the files that a walk leaves out: hidden files, and files that `.gitignore` and
//! similar files name.
//!
//! `ignore` would open the rule files itself, follow links and read to the end. A foreign
//! repository may have `/dev/zero`, a terminal or a FIFO in their place, and a tool may put one
//! there between a check and the opening. So this module opens each rule file itself, once, and
//! checks the open file. `ignore` interprets the rules.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, Match, WalkBuilder};
use parking_lot::RwLock;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// The most bytes that are read of one rule file. Large projects have some thousands.
const MOST: u64 = 1024 * 1024;

/// Returns a walk of `root` that uses the rules that can be read. If the rules of `root` cannot be
/// read, all its files are walked. Directories below with unreadable rules are left out.
pub(super) fn walk(root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder.standard_filters(false);
    let rules = Rules::around(root);
    builder.filter_entry(move |entry| entry.depth() == 0 || rules.keeps(entry));
    builder
}

/// The rules of one walk.
struct Rules {
    root: PathBuf,
    /// The root without links; the directories above it have rules too.
    real: PathBuf,
    /// The rules of the directories that the walk has entered; `None` if rules are not used.
    entered: Option<RwLock<HashMap<PathBuf, Arc<DirectoryRules>>>>,
    excluded: Gitignore,
    /// The user's own rules, for all repositories.
    global: Gitignore,
}

/// The rules of a directory and of those above it.
struct DirectoryRules {
    ignore: Gitignore,
    git_ignore: Gitignore,
    is_repository: bool,
    above: Option<Arc<DirectoryRules>>,
}

/// The position of a directory relative to the workspace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkspaceSide {
    /// In the workspace: links are not followed, and git does not follow links to rules either.
    Inside,
    /// Above it, where people keep links to their own files.
    Above,
}

/// The error for rules that cannot be read completely.
struct UnreadableRules;

impl Rules {
    fn around(root: &Path) -> Self {
        let real = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        // From the top down, so that each directory has the rules above it.
        let mut around = real.ancestors().collect::<Vec<_>>().into_iter().rev();
        let around = around.try_fold(None, |above, directory| {
            let at = if directory == real { WorkspaceSide::Inside } else { WorkspaceSide::Above };
            DirectoryRules::read(directory, at, above).map(Some)
        });
        let entered = around
            .ok()
            .flatten()
            .map(|directory| RwLock::new(HashMap::from([(real.clone(), directory)])));
        let excluded = if entered.is_some() { excluded(&real) } else { Gitignore::empty() };
        let global = Gitignore::global().0;
        Self { root: root.to_owned(), real, entered, excluded, global }
    }

    /// Returns `true` if the walk lists or enters `entry`.
    fn keeps(&self, entry: &DirEntry) -> bool {
        let Ok(below) = entry.path().strip_prefix(&self.root) else { return false };
        let path = self.real.join(below);
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        let above = path.parent().and_then(|parent| self.directory(parent));
        let named = above.as_ref().map_or(Match::None, |it| it.matched(&path, is_directory));
        let named = named
            .or(self.excluded.matched(&path, is_directory).map(|_| ()))
            .or(self.global.matched(&path, is_directory).map(|_| ()));
        let is_kept = match named {
            Match::Ignore(()) => false,
            Match::Whitelist(()) => true,
            Match::None => !entry.file_name().as_bytes().starts_with(b"."),
        };
        is_kept && (!is_directory || self.enters(path, above))
    }

    fn directory(&self, path: &Path) -> Option<Arc<DirectoryRules>> {
        let entered = self.entered.as_ref()?.read();
        entered.get(path).map(Arc::clone)
    }

    /// Reads the rules of a directory; `false` if they cannot be read.
    fn enters(&self, path: PathBuf, above: Option<Arc<DirectoryRules>>) -> bool {
        let Some(entered) = &self.entered else { return true };
        let Ok(directory) = DirectoryRules::read(&path, WorkspaceSide::Inside, above) else {
            return false;
        };
        entered.write().insert(path, directory);
        true
    }
}

impl DirectoryRules {
    fn read(
        path: &Path,
        at: WorkspaceSide,
        above: Option<Arc<Self>>,
    ) -> Result<Arc<Self>, UnreadableRules> {
        Ok(Arc::new(Self {
            ignore: read(&path.join(".ignore"), path, at)?,
            git_ignore: read(&path.join(".gitignore"), path, at)?,
            is_repository: path.join(".git").symlink_metadata().is_ok(),
            above,
        }))
    }

    /// Returns the match of the nearest rule: `.ignore` before `.gitignore`. Like git, this
    /// searches for `.gitignore` only within one repository.
    fn matched(&self, path: &Path, is_directory: bool) -> Match<()> {
        let around = || std::iter::successors(Some(self), |it| it.above.as_deref());
        let named = |rules: &Gitignore| match rules.matched(path, is_directory) {
            Match::None => None,
            found => Some(found.map(|_| ())),
        };
        let mut is_outside = false;
        let of_git =
            around().take_while(|it| !std::mem::replace(&mut is_outside, it.is_repository));
        let found = around().find_map(|it| named(&it.ignore));
        found.or_else(|| of_git.map(|it| &it.git_ignore).find_map(named)).unwrap_or(Match::None)
    }
}

/// Reads the rules for `directory` from `file`. They are empty if the file does not exist, or the
/// user may not read it.
fn read(file: &Path, directory: &Path, at: WorkspaceSide) -> Result<Gitignore, UnreadableRules> {
    let follows = if at == WorkspaceSide::Inside { OFlags::NOFOLLOW } else { OFlags::empty() };
    // Opening must not block, and no terminal may become this process's controlling terminal.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | follows;
    let open = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(file);
    let open = match open {
        Ok(open) => open,
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            return Err(UnreadableRules);
        }
        // A socket.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
            return Err(UnreadableRules);
        }
        Err(_) => return Ok(Gitignore::empty()),
    };
    let text = text_of(open).map_err(|_| UnreadableRules)?.ok_or(UnreadableRules)?;
    let mut rules = GitignoreBuilder::new(directory);
    for line in text.strip_prefix("\u{feff}").unwrap_or(&text).lines() {
        // A line that is not a valid rule is skipped, as git does.
        let _ = rules.add_line(Some(file.to_owned()), line);
    }
    Ok(rules.build().unwrap_or_else(|_| Gitignore::empty()))
}

/// Reads a small regular file; `None` for anything else.
fn text_of(file: File) -> io::Result<Option<String>> {
    let found = file.metadata()?;
    if !found.is_file() || found.len() > MOST {
        return Ok(None);
    }
    let mut text = Vec::new();
    // The file may have grown, and files in `/proc` report no length and may have no end.
    file.take(MOST + 1).read_to_end(&mut text)?;
    let is_whole = text.len() as u64 <= MOST;
    Ok(is_whole.then(|| String::from_utf8_lossy(&text).into_owned()))
}

/// Returns the rules that the repository around `root` has outside its working tree.
fn excluded(root: &Path) -> Gitignore {
    let is_repository = |directory: &&Path| {
        fs::symlink_metadata(directory.join(".git")).is_ok_and(|found| found.is_dir())
    };
    let Some(repository) = root.ancestors().find(is_repository) else { return Gitignore::empty() };
    read(&repository.join(".git/info/exclude"), repository, WorkspaceSide::Inside)
        .unwrap_or_else(|UnreadableRules| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// Returns the files that a walk of `root` finds.
    fn found(root: &Path) -> Vec<String> {
        let files = walk(root).build().map(|entry| entry.expect("an entry"));
        let files = files.filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
        let name = |entry: DirEntry| {
            entry.path().strip_prefix(root).expect("below").to_str().expect("UTF-8").to_owned()
        };
        let mut files: Vec<_> = files.map(name).collect();
        files.sort();
        files
    }

    fn workspace(files: &[(&str, &str)]) -> TempDir {
        let folder = TempDir::new().expect("a temporary directory");
        for (file, text) in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        folder
    }

    #[test]
    fn rules_that_change_while_they_are_looked_at_are_read_to_no_end() {
        use std::sync::atomic::{AtomicBool, Ordering};

        use rustix::fs::{CWD, RenameFlags, renameat_with};

        let workspace = workspace(&[("a", ""), ("sub/b", ""), ("sub/.gitignore", "nothing\n")]);
        let [one, two] = ["sub/.gitignore", "link"].map(|name| workspace.path().join(name));
        // Reading a FIFO without a writer would never end.
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, &two, kind, 0o600.into(), 0).expect("a FIFO");
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).expect("exchanged");
                }
            });
            for _ in 0..2_000 {
                let found = found(workspace.path());
                assert!(found.starts_with(&["a".to_owned()]), "{found:?}");
            }
            ended.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn the_nearest_rule_holds_and_git_s_end_at_its_repository() {
        let files = [
            (".gitignore", "*.o\n*.log\n"),
            (".ignore", "*.tmp\n"),
            ("a.o", ""),
            ("a.tmp", ""),
            ("sub/.gitignore", "!kept.o\n!.hidden\n!b.tmp\n"),
            ("sub/kept.o", ""),
            ("sub/b.o", ""),
            ("sub/b.tmp", ""),
            ("sub/.hidden", ""),
            ("sub/.other", ""),
            ("inner/.git/HEAD", ""),
            ("inner/c.log", ""),
            ("inner/c.tmp", ""),
        ];
        let workspace = workspace(&files);
        assert_eq!(found(workspace.path()), ["inner/c.log", "sub/.hidden", "sub/kept.o"]);
    }

    #[test]
    fn rules_without_an_end_are_not_read() {
        for name in [".gitignore", ".ignore"] {
            for target in ["/dev/zero", "/dev/tty"] {
                let workspace = workspace(&[("a", ""), ("sub/b", ""), ("sub/deep/c", "")]);
                let root = workspace.path();
                symlink(target, root.join("sub").join(name)).expect("a link");
                assert_eq!(found(root), ["a"], "`sub` is left out");
                symlink(target, root.join(name)).expect("a link");
                assert_eq!(found(root), ["a", "sub/b", "sub/deep/c"], "there are no rules");
                assert_eq!(found(&root.join("sub/deep")), ["c"], "above it are none either");
            }
        }
    }

    #[test]
    fn rules_that_wait_for_a_writer_are_not_read() {
        let workspace = workspace(&[("a", ""), ("sub/b", "")]);
        let fifo = workspace.path().join("sub/.gitignore");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, 0o600.into(), 0).expect("a FIFO");
        assert_eq!(found(workspace.path()), ["a"]);
    }

    #[test]
    fn rules_of_many_bytes_are_not_read() {
        let workspace = workspace(&[("a", ""), ("sub/b", ""), ("sub/.ignore", "nothing\n")]);
        let file = fs::File::options().write(true).open(workspace.path().join("sub/.ignore"));
        let file = file.expect("a file");
        file.set_len(MOST).expect("a length");
        assert_eq!(found(workspace.path()), ["a", "sub/b"]);
        file.set_len(MOST + 1).expect("a length");
        assert_eq!(found(workspace.path()), ["a"]);
    }

    #[test]
    fn rules_above_may_be_a_link_of_the_person_s_own() {
        let workspace = workspace(&[("rules", "*.o\n"), ("project/a", ""), ("project/a.o", "")]);
        let root = workspace.path();
        symlink("rules", root.join(".gitignore")).expect("a link");
        assert_eq!(found(&root.join("project")), ["a"]);
        fs::write(root.join("rules"), "").expect("a file");
        assert_eq!(found(&root.join("project")), ["a", "a.o"]);
    }

    #[test]
    fn what_a_repository_leaves_out_by_itself_is_not_found() {
        let files = [("a", ""), ("sub/a.o", ""), ("sub/b", ""), (".git/info/exclude", "*.o\n/a\n")];
        let workspace = workspace(&files);
        assert_eq!(found(workspace.path()), ["sub/b"]);
        assert_eq!(found(&workspace.path().join("sub")), ["b"]);
        let list = workspace.path().join(".git/info/exclude");
        fs::remove_file(&list).expect("a file");
        symlink("/dev/zero", &list).expect("a link");
        assert_eq!(found(workspace.path()), ["a", "sub/a.o", "sub/b"]);
    }
}
