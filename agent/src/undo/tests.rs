use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;
use tempfile::TempDir;

use super::*;

/// A workspace, and a turn in it.
struct Rig {
    scratch: TempDir,
    undo: Undo,
}

impl Rig {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(scratch.path().join("workspace/sub")).expect("a directory");
        Self { scratch, undo: Undo::default() }
    }

    fn workspace(&self) -> PathBuf {
        self.scratch.path().canonicalize().expect("a path").join("workspace")
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.workspace().join(name), content).expect("written");
    }

    fn content(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.workspace().join(name)).ok()
    }

    /// Changes a file as a call of a tool would.
    async fn change(&self, name: &str, content: &str) {
        self.undo.copy(&self.workspace(), name.into());
        self.write(name, content);
        self.undo.after(&self.workspace(), name.into()).await;
    }

    fn take_back(&self) -> Undone {
        self.undo.take_back(&self.workspace())
    }
}

fn kept(undone: &Undone) -> Vec<(&str, &str)> {
    let kept = undone.kept.iter();
    kept.map(|(path, reason)| (path.to_str().expect("UTF-8"), reason.as_str())).collect()
}

#[tokio::test]
async fn files_are_as_they_were_before_the_turn() {
    let rig = Rig::new();
    rig.write("sub/a", "first");
    let path = rig.workspace().join("sub/a");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o754)).expect("permissions");
    rig.change("sub/a", "second").await;
    rig.change("sub/a", "third").await;
    rig.change("new", "new").await;
    rig.write("same", "same");
    rig.change("same", "same").await;
    let undone = rig.take_back();
    let expected =
        Undone { restored: vec!["sub/a".into()], removed: vec!["new".into()], kept: Vec::new() };
    assert_eq!(undone, expected);
    assert_eq!((rig.content("sub/a").as_deref(), rig.content("new")), (Some("first"), None));
    let mode = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o754);
    assert_eq!(fs::read_dir(rig.workspace().join("sub")).expect("a directory").count(), 1);
    assert_eq!(rig.take_back(), Undone::default(), "once");
}

#[tokio::test]
async fn what_somebody_changed_since_is_left_alone_and_named() {
    let rig = Rig::new();
    for name in ["edited", "removed", "replaced"] {
        rig.write(name, "before");
        rig.change(name, "after").await;
    }
    rig.change("created", "after").await;
    rig.write("edited", "by hand");
    rig.write("created", "by hand");
    fs::remove_file(rig.workspace().join("removed")).expect("removed");
    fs::remove_file(rig.workspace().join("replaced")).expect("removed");
    symlink("edited", rig.workspace().join("replaced")).expect("a link");
    let undone = rig.take_back();
    assert_eq!(
        kept(&undone),
        [
            ("created", "it was changed since"),
            ("edited", "it was changed since"),
            ("removed", "it was changed since"),
            ("replaced", "a link leads to it"),
        ]
    );
    assert_eq!(rig.content("edited").as_deref(), Some("by hand"));
    assert_eq!(rig.content("created").as_deref(), Some("by hand"));
    assert_eq!(rig.content("removed"), None);
}

#[tokio::test]
async fn a_call_that_changed_nothing_takes_back_nothing() {
    let rig = Rig::new();
    // Another tool made the file, and removes it while this call waits for an answer.
    rig.write("place", "of another tool");
    rig.undo.copy(&rig.workspace(), "place".into());
    fs::remove_file(rig.workspace().join("place")).expect("removed");
    rig.undo.unchanged(Path::new("place"));
    assert_eq!((rig.take_back(), rig.content("place")), (Undone::default(), None));
    // The next call of the turn finds no copy of it.
    rig.undo.copy(&rig.workspace(), "place".into());
    rig.undo.unchanged(Path::new("place"));
    rig.change("place", "new").await;
    assert_eq!((rig.take_back().removed, rig.content("place")), (vec!["place".into()], None));
    // What an earlier call of the turn changed is still taken back.
    rig.write("other", "before");
    rig.change("other", "after").await;
    rig.undo.copy(&rig.workspace(), "other".into());
    rig.undo.unchanged(Path::new("other"));
    assert_eq!((rig.take_back().restored.len(), rig.content("other")), (1, Some("before".into())));
}

#[tokio::test]
async fn nothing_is_reached_through_a_link() {
    let rig = Rig::new();
    let outside = rig.scratch.path().join("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("a"), "outside").expect("written");
    symlink(&outside, rig.workspace().join("dir")).expect("a link");
    rig.change("dir/a", "changed").await;
    assert_eq!(kept(&rig.take_back()), [("dir/a", "a link leads to it")]);
    // A directory that becomes a link after the turn.
    fs::write(outside.join("b"), "after").expect("written");
    rig.change("sub/b", "after").await;
    fs::remove_dir_all(rig.workspace().join("sub")).expect("removed");
    symlink(&outside, rig.workspace().join("sub")).expect("a link");
    assert_eq!(kept(&rig.take_back()), [("sub/b", "a link leads to it")]);
    assert_eq!(fs::read_to_string(outside.join("b")).expect("a file"), "after");
}

#[tokio::test]
async fn copies_are_bounded() {
    let rig = Rig::new();
    let file = File::create(rig.workspace().join("large")).expect("a file");
    file.set_len(MOST_BYTES + 1).expect("a hole");
    rig.change("large", "small").await;
    rig.write("other", "before");
    rig.change("other", "after").await;
    let undone = rig.take_back();
    assert_eq!(kept(&undone), [("large", "the copies hold 64 MiB")]);
    assert_eq!(undone.restored, [PathBuf::from("other")]);
}

#[test]
fn the_path_of_a_call_is_in_the_workspace_or_none() {
    let workspace = Path::new("/w");
    let path = |named: &str| changed_path(workspace, &json!({ "file_path": named }).to_string());
    for named in ["a/b", "./a/./b", "/w/a/b"] {
        assert_eq!(path(named), Some("a/b".into()), "{named}");
    }
    for named in ["../a", "a/../../b", "/etc/passwd", "/w", "", ".", "ikigai:///blocks/a.md"] {
        assert_eq!(path(named), None, "{named}");
    }
    assert_eq!(changed_path(workspace, "no JSON"), None);
}

#[tokio::test]
async fn the_changes_of_a_conversation_are_those_of_all_its_turns() {
    let rig = Rig::new();
    rig.write("a", "first");
    rig.write("same", "same");
    rig.change("a", "second").await;
    rig.undo.begin();
    rig.change("a", "third").await;
    rig.change("same", "other").await;
    rig.change("same", "same").await;
    rig.change("new", "new").await;
    let text = |content: &Option<Arc<[u8]>>| {
        content.as_ref().map(|it| String::from_utf8_lossy(it).into_owned())
    };
    let changed = || -> Vec<_> {
        let files = rig.undo.changed(&rig.workspace()).into_iter();
        let contents = files.map(|ChangedFile { path, contents }| {
            let contents = contents.expect("known");
            (path.display().to_string(), text(&contents.before), text(&contents.now))
        });
        contents.collect()
    };
    let some = |text: &str| Some(text.to_owned());
    let new = ("new".to_owned(), None, some("new"));
    assert_eq!(changed(), [("a".to_owned(), some("first"), some("third")), new]);
    // A file that was restored is as it was before its turn.
    rig.take_back();
    assert_eq!(changed(), [("a".to_owned(), some("first"), some("second"))]);
    rig.undo.begin_conversation();
    assert!(changed().is_empty());
}
