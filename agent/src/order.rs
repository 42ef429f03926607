//! The order of the calls of one answer: which of them may run at once.
//!
//! Decides only by the names and arguments of calls, and runs none. Calls that touch the same thing
//! keep their order if one of them changes it. A call of `bash` may touch any file, and `glob` and
//! `grep` read any. Assets share a budget, and an unpinning or a compaction makes room for the next
//! write, so all calls that change assets or pins touch the same thing. It is not known what calls
//! of other tools touch, and they wait for no other call.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Component, Path, PathBuf};

use ikigai_assets::SCHEME;
use ikigai_provider::ModelCall;
use serde_json::Value;

use crate::own_tool::SLASH_COMMAND;

/// The length in bytes from which Linux opens no path (`PATH_MAX`, `limits.h`).
const PATH_MAX: usize = 4096;

/// The thing that a call touches, as far as its name and arguments say.
#[derive(Debug)]
struct Touched {
    target: AccessTarget,
    /// The call may change it.
    changes: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum AccessTarget {
    AnyFile,
    File(PathBuf),
    Assets,
}

/// Returns the indices of the calls in serial groups: the calls of a group run one after the other,
/// and groups run at once. Groups are in the order of their first calls.
pub(super) fn serial_groups(calls: &[ModelCall], workspace: &Path) -> Vec<VecDeque<usize>> {
    let touched: Vec<Option<Touched>> =
        calls.iter().map(|call| Touched::by(call, workspace)).collect();
    // At first each call is a separate group. A group has the index of its first call.
    let mut group_of: Vec<usize> = (0..calls.len()).collect();
    for later in 0..calls.len() {
        for earlier in 0..later {
            let (one, other) = (group_of[earlier], group_of[later]);
            if one != other && must_keep_order(touched[earlier].as_ref(), touched[later].as_ref()) {
                let joined = one.min(other);
                for group in group_of.iter_mut().filter(|group| **group == one.max(other)) {
                    *group = joined;
                }
            }
        }
    }
    let mut groups: BTreeMap<usize, VecDeque<usize>> = BTreeMap::new();
    for (index, group) in group_of.into_iter().enumerate() {
        groups.entry(group).or_default().push_back(index);
    }
    groups.into_values().collect()
}

fn must_keep_order(one: Option<&Touched>, other: Option<&Touched>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    let is_same = match (&one.target, &other.target) {
        (AccessTarget::AnyFile, AccessTarget::AnyFile | AccessTarget::File(_))
        | (AccessTarget::File(_), AccessTarget::AnyFile) => true,
        (one, other) => one == other,
    };
    is_same && (one.changes || other.changes)
}

impl Touched {
    fn by(call: &ModelCall, workspace: &Path) -> Option<Self> {
        let changes = match call.name.as_str() {
            "bash" => return Some(Self { target: AccessTarget::AnyFile, changes: true }),
            "glob" | "grep" => return Some(Self { target: AccessTarget::AnyFile, changes: false }),
            SLASH_COMMAND => return Some(Self { target: AccessTarget::Assets, changes: true }),
            "file_write" | "file_edit" => true,
            "file_read" => false,
            _ => return None,
        };
        // The host refuses arguments that are not JSON.
        let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        // No file has a longer name, and searching for one would take time.
        let path = arguments.get("file_path")?.as_str().filter(|path| path.len() < PATH_MAX)?;
        let target = match path.starts_with(SCHEME) {
            true => AccessTarget::Assets,
            false => AccessTarget::File(real(&workspace.join(path))),
        };
        Some(Self { target, changes })
    }
}

/// Returns the file behind a path: follows links as far as the path exists, and removes `.` and
/// `..` from the rest.
fn real(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    for ancestor in path.ancestors().filter(|it| !it.as_os_str().is_empty()) {
        let Ok(found) = ancestor.canonicalize() else { continue };
        let Ok(rest) = path.strip_prefix(ancestor) else { break };
        let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
        return if is_plain { found.join(rest) } else { plain };
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str, arguments: &Value) -> ModelCall {
        ModelCall {
            id: String::new(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
            blob: None,
        }
    }

    fn on(name: &str, path: &str) -> ModelCall {
        call(name, &json!({ "file_path": path }))
    }

    fn ordered(calls: &[ModelCall], workspace: &Path) -> Vec<Vec<usize>> {
        serial_groups(calls, workspace).into_iter().map(Vec::from).collect()
    }

    #[test]
    fn the_shell_and_the_files_around_it_keep_their_order() {
        let bash = call("bash", &json!({ "command": "make" }));
        let calls = [
            on("file_read", "x"),
            bash.clone(),
            on("file_write", "ikigai:///a"),
            call("weather", &json!({})),
            bash,
            on("file_read", "y"),
        ];
        assert_eq!(ordered(&calls, Path::new("/w")), [vec![0, 1, 4, 5], vec![2], vec![3]]);
    }

    #[test]
    fn a_search_sees_what_was_written_before_it() {
        let search = |name: &str| call(name, &json!({ "pattern": "x" }));
        let calls = [search("glob"), search("grep"), on("file_read", "a")];
        assert_eq!(ordered(&calls, Path::new("/w")), [vec![0], vec![1], vec![2]]);
        let calls = [on("file_read", "b"), on("file_write", "a"), search("grep")];
        assert_eq!(ordered(&calls, Path::new("/w")), [vec![0], vec![1, 2]]);
        let calls = [on("file_write", "a"), on("file_write", "b"), search("grep")];
        assert_eq!(ordered(&calls, Path::new("/w")), [vec![0, 1, 2]]);
    }

    #[test]
    fn one_file_by_many_names_is_one_file() {
        let scratch = tempfile::tempdir().expect("a directory");
        let workspace = scratch.path().canonicalize().expect("a path");
        std::fs::create_dir(workspace.join("dir")).expect("made");
        std::fs::write(workspace.join("a"), "").expect("written");
        std::os::unix::fs::symlink("a", workspace.join("link")).expect("linked");
        std::os::unix::fs::symlink("dir", workspace.join("elsewhere")).expect("linked");
        let absolute = workspace.join("a");
        let names =
            ["a", "./a", "dir/../a", "missing/../a", "link", absolute.to_str().expect("UTF-8")];
        let calls = names.map(|name| on("file_edit", name));
        assert_eq!(ordered(&calls, &workspace), [vec![0, 1, 2, 3, 4, 5]]);
        // A file that does not exist yet, below a directory with two names.
        let calls = [on("file_write", "dir/new"), on("file_write", "elsewhere/new")];
        assert_eq!(ordered(&calls, &workspace), [vec![0, 1]]);
        let calls = [on("file_write", "dir/new"), on("file_write", "new")];
        assert_eq!(ordered(&calls, &workspace), [vec![0], vec![1]]);
    }

    #[test]
    fn reading_waits_only_where_somebody_writes() {
        let calls = [on("file_read", "a"), on("file_read", "a"), on("file_read", "b")];
        assert_eq!(ordered(&calls, Path::new("/w")), [vec![0], vec![1], vec![2]]);
        let calls = [on("file_read", "a"), on("file_write", "a"), on("file_read", "a")];
        assert_eq!(ordered(&calls, Path::new("/w")), [vec![0, 1, 2]]);
    }

    #[test]
    fn what_makes_room_comes_before_what_needs_it() {
        let calls = [
            call(SLASH_COMMAND, &json!({ "command": "/unpin a" })),
            on("file_write", "a"),
            on("file_write", "ikigai:///blocks/b.md"),
            on("file_edit", "ikigai://blocks/c.md"),
        ];
        assert_eq!(ordered(&calls, Path::new("/w")), [vec![0, 2, 3], vec![1]]);
    }

    #[test]
    fn names_that_no_file_can_have_cost_nothing() {
        // Searching for a name with so many parts would take hours.
        let calls = [on("file_read", &"a/".repeat(5_000_000)), on("file_write", "a")];
        assert_eq!(ordered(&calls, Path::new("/w")), [vec![0], vec![1]]);
    }

    #[test]
    fn arguments_that_cannot_be_read_wait_for_nobody() {
        let mut broken = on("file_write", "a");
        broken.arguments.truncate(5);
        let calls = [broken, on("file_write", "a"), call("file_write", &json!({ "file_path": 1 }))];
        assert_eq!(ordered(&calls, Path::new("/w")), [vec![0], vec![1], vec![2]]);
    }
}
