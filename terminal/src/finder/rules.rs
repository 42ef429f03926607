//! Which ignore files a walk may read.
//!
//! `ignore` opens every `.gitignore` and `.ignore` that it meets, follows links and reads to
//! the end. A repository of somebody else's may have `/dev/zero`, a terminal or a FIFO there;
//! so each directory is looked at before the walk gets to it. Knows names and kinds of files,
//! not what the rules in them mean.

use std::fs::{self, Metadata};
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder};

/// The files of rules that a walk reads in every directory.
const NAMES: [&str; 2] = [".gitignore", ".ignore"];

/// How many bytes of rules are read of one file. Those of large projects have some thousands.
const MOST: u64 = 1024 * 1024;

/// A walk of `root` that reads no rules but those that can be read. Where they cannot, all
/// files of `root` are walked; directories below that have such rules are left out.
pub(super) fn walk(root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    // The place of a repository's own list may be written in a file, which would be followed
    // to anywhere; so it is read here.
    builder.require_git(false).git_exclude(false);
    let has_rules = fs::canonicalize(root).is_ok_and(|root| {
        let mut above = root.ancestors().skip(1);
        can_read_rules(&root, At::Inside) && above.all(|it| can_read_rules(it, At::Above))
    });
    if !has_rules {
        builder.parents(false).ignore(false).git_ignore(false);
        return builder;
    }
    let excluded = excluded(root);
    builder.filter_entry(move |entry| is_entered(entry, &excluded));
    builder
}

fn is_entered(entry: &DirEntry, excluded: &Gitignore) -> bool {
    let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
    !excluded.matched(entry.path(), is_directory).is_ignore()
        && (!is_directory || can_read_rules(entry.path(), At::Inside))
}

/// Whose a directory is that may have rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// The workspace and below: links are not followed, and git follows none to rules either.
    Inside,
    /// Above it, where people keep links to files of theirs.
    Above,
}

/// Whether what `directory` has for rules are small files.
fn can_read_rules(directory: &Path, at: At) -> bool {
    NAMES.iter().map(|name| directory.join(name)).all(|path| match fs::symlink_metadata(&path) {
        // What has no length, as the files of `/proc`, may have no end.
        Ok(found) if at == At::Above && found.is_symlink() => {
            fs::metadata(&path).map_or(true, |target| is_small_file(&target) && target.len() > 0)
        }
        Ok(found) => is_small_file(&found),
        // There is none, or nobody can read it.
        Err(_) => true,
    })
}

fn is_small_file(found: &Metadata) -> bool {
    found.is_file() && found.len() <= MOST
}

/// What the repository around `root` leaves out without saying so in a file of its tree.
fn excluded(root: &Path) -> Gitignore {
    let is_repository = |directory: &&Path| {
        fs::symlink_metadata(directory.join(".git")).is_ok_and(|found| found.is_dir())
    };
    let Some(repository) = root.ancestors().find(is_repository) else { return Gitignore::empty() };
    let list = repository.join(".git/info/exclude");
    if !fs::symlink_metadata(&list).is_ok_and(|found| is_small_file(&found)) {
        return Gitignore::empty();
    }
    let mut rules = GitignoreBuilder::new(repository);
    // A line that is no rule is passed over, as in the other files.
    let _ = rules.add(&list);
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// The files that a walk of `root` finds.
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
    fn rules_without_an_end_are_not_read() {
        for name in NAMES {
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
