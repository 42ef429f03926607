//! The finder as the editor uses it.

use std::fs;

use ikigai_terminal_testing::wait_until_some;
use tempfile::TempDir;

use super::*;

fn workspace(files: &[&str]) -> TempDir {
    let folder = TempDir::new().expect("a temporary directory");
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, "").expect("a file");
    }
    folder
}

fn finder(workspace: &TempDir) -> Finder {
    let tools: NameSource = Arc::new(|| vec!["file_read".to_owned(), "file_edit".to_owned()]);
    let command = |name: &str, arguments: Option<&NameSource>| FinderCommand {
        name: name.to_owned(),
        help: format!("about {name}"),
        arguments: arguments.cloned(),
    };
    let assets: NameSource =
        Arc::new(|| vec!["blocks/decisions.md".to_owned(), "my notes".to_owned()]);
    let commands =
        vec![command("help", None), command("tool", Some(&tools)), command("pin", Some(&assets))];
    Finder::new(workspace.path(), commands, assets)
}

/// Returns the suggestions at the end of `line`, once the walk has ended.
fn offered(finder: &mut Finder, line: &str) -> Vec<String> {
    let attempt = || {
        let result = finder.complete(line, line.len());
        let names = || result.suggestions().iter().map(|found| found.value.clone()).collect();
        (finder.poll_completion() == CompletionStatus::Idle).then(names)
    };
    wait_until_some(attempt, || format!("the walk for `{line}` does not end"))
}

#[test]
fn files_are_found_by_parts_of_their_names() {
    let files = ["src/main.rs", "src/lib.rs", "a b.txt", ".hidden", "out/x.o", ".gitignore"];
    let workspace = workspace(&files);
    fs::write(workspace.path().join(".gitignore"), "out/\n").expect("a file");
    let mut finder = finder(&workspace);
    assert_eq!(offered(&mut finder, "@"), ["@\"a b.txt\"", "@src/lib.rs", "@src/main.rs"]);
    assert_eq!(offered(&mut finder, "look at @smain"), ["@src/main.rs"]);
    assert_eq!(offered(&mut finder, "@\"a b"), ["@\"a b.txt\""]);
    assert_eq!(offered(&mut finder, "@src/main.rs"), [""; 0], "it is there to the letter");
    assert_eq!(offered(&mut finder, "mail@src"), [""; 0]);
}

#[test]
fn a_name_that_was_typed_at_once_is_found() {
    let workspace = workspace(&["src/main.rs"]);
    let mut finder = finder(&workspace);
    assert_eq!(offered(&mut finder, "look at @smain"), ["@src/main.rs"]);
    finder.files.grow_old();
    fs::write(workspace.path().join("b"), "").expect("a file");
    assert_eq!(offered(&mut finder, "@src/main.rs and @b"), [""; 0], "it is there to the letter");
    assert_eq!(offered(&mut finder, "say @/b"), [""; 0]);
    assert_eq!(offered(&mut finder, "say @"), ["@b", "@src/main.rs"]);
}

#[test]
fn a_suggestion_replaces_the_word_and_says_why_it_is_there() {
    let workspace = workspace(&["src/main.rs"]);
    let mut finder = finder(&workspace);
    offered(&mut finder, "@");
    let line = "世 @sma tail";
    let result = finder.complete(line, "世 @sma".len());
    let [suggestion] = result.suggestions() else { panic!("one suggestion: {result:?}") };
    assert_eq!(&line[suggestion.span.start..suggestion.span.end], "@sma");
    assert_eq!(suggestion.match_indices.as_deref(), Some(&[0, 4, 5][..]));
    assert!(suggestion.append_whitespace);
}

#[test]
fn assets_are_listed_when_they_are_wanted() {
    let workspace = workspace(&[]);
    let mut finder = finder(&workspace);
    assert_eq!(offered(&mut finder, "@@"), ["@@blocks/decisions.md", "@@\"my notes\""]);
    assert_eq!(offered(&mut finder, "x @@dec"), ["@@blocks/decisions.md"]);
    assert_eq!(offered(&mut finder, "x (@@dec"), ["@@blocks/decisions.md"]);
}

#[test]
fn commands_and_their_arguments_are_offered_at_the_start() {
    let workspace = workspace(&[]);
    let mut finder = finder(&workspace);
    assert_eq!(offered(&mut finder, "/"), ["/help", "/tool", "/pin"]);
    assert_eq!(offered(&mut finder, "/tl"), ["/tool"]);
    assert_eq!(offered(&mut finder, "/pin"), [""; 0], "Enter is for the line");
    assert_eq!(offered(&mut finder, "/tool edit"), ["file_edit"]);
    assert_eq!(offered(&mut finder, "/help x"), [""; 0]);
    assert_eq!(offered(&mut finder, "say /"), [""; 0]);
    assert_eq!(offered(&mut finder, "/pin decision"), ["blocks/decisions.md"]);
    assert_eq!(offered(&mut finder, "/pin decisions"), [""; 0], "that is an asset's name");
    let result = finder.complete("/he", 3);
    assert_eq!(result.suggestions()[0].description.as_deref(), Some("about help"));
}

/// Returns the number of files, once the walk has ended.
fn list(files: &FileIndex) -> usize {
    files.refresh();
    let attempt = || (!files.is_walking()).then_some(());
    wait_until_some(attempt, || "the walk does not end".to_owned());
    files.found().1.iter().map(|chunk| chunk.len()).sum()
}

#[test]
fn a_file_that_came_later_is_found_by_a_later_finder() {
    let workspace = workspace(&["a"]);
    let files = FileIndex::new(workspace.path().to_owned(), 10);
    assert_eq!(list(&files), 1);
    fs::write(workspace.path().join("b"), "").expect("a file");
    files.stay_fresh();
    assert_eq!(list(&files), 1, "the list is fresh");
    files.grow_old();
    assert_eq!(list(&files), 2);
}

#[test]
fn a_workspace_that_is_gone_has_no_files() {
    let workspace = workspace(&["a"]);
    let mut finder = finder(&workspace);
    drop(workspace);
    assert_eq!(offered(&mut finder, "@"), [""; 0]);
}

#[test]
fn a_walk_of_directories_without_files_ends_too() {
    let workspace = workspace(&["d/d/d/d/d/d/d/d/a"]);
    let root = workspace.path().to_owned();
    assert_eq!(
        list(&FileIndex::new(root.clone(), 10)),
        1,
        "the root, eight directories and a file"
    );
    assert_eq!(list(&FileIndex::new(root, 9)), 0);
}
