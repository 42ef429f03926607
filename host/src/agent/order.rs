//! Which calls of one answer may run at once.
//!
//! Decides by the names and arguments of calls alone, and runs none. A call of `bash` may
//! touch anything that one before it touched, so these keep their order; so do calls that
//! name one file, if any of them writes it. Documents share a budget, which an unpinning or a
//! compaction makes room in for the write that follows it: whatever changes documents, or
//! what is pinned, keeps its order too.

use std::collections::{HashMap, VecDeque};
use std::path::{Component, Path, PathBuf};

use ikigai_assets::SCHEME;
use ikigai_provider::Call;
use serde_json::Value;

use super::SLASH_COMMAND;

/// What a call has to take turns over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shared {
    Shell,
    Documents,
    File(PathBuf),
}

/// The calls by their places in the answer, in lanes: those of one lane run one after the
/// other, lanes at once. In the order of each lane's first call.
pub(super) fn lanes(calls: &[Call], workspace: &Path) -> Vec<VecDeque<usize>> {
    let touched: Vec<Option<(Shared, bool)>> =
        calls.iter().map(|call| touched(call, workspace)).collect();
    let is_changed = |shared: &Shared| touched.iter().flatten().any(|(it, w)| *w && it == shared);
    let mut lanes: Vec<VecDeque<usize>> = Vec::new();
    let mut lane_of: HashMap<&Shared, usize> = HashMap::new();
    for (place, touched) in touched.iter().enumerate() {
        let shared = touched.as_ref().map(|(shared, _)| shared).filter(|it| is_changed(it));
        match shared.and_then(|shared| lane_of.get(shared)) {
            Some(lane) => lanes[*lane].push_back(place),
            None => {
                if let Some(shared) = shared {
                    lane_of.insert(shared, lanes.len());
                }
                lanes.push(VecDeque::from([place]));
            }
        }
    }
    lanes
}

/// What a call reads or, with `true`, changes, as far as its name says.
fn touched(call: &Call, workspace: &Path) -> Option<(Shared, bool)> {
    let changes = match call.name.as_str() {
        "bash" => return Some((Shared::Shell, true)),
        SLASH_COMMAND => return Some((Shared::Documents, true)),
        "file_write" | "file_edit" => true,
        "file_read" => false,
        _ => return None,
    };
    // What cannot be read will not run.
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let path = arguments.get("file_path")?.as_str()?;
    if path.starts_with(SCHEME) {
        return Some((Shared::Documents, changes));
    }
    Some((Shared::File(real(&workspace.join(path))), changes))
}

/// The file behind a path: links looked through as far as it exists, `.` and `..` taken out
/// of the rest.
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

    fn call(name: &str, arguments: &Value) -> Call {
        Call {
            id: String::new(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
            blob: None,
        }
    }

    fn on(name: &str, path: &str) -> Call {
        call(name, &json!({ "file_path": path }))
    }

    fn ordered(calls: &[Call], workspace: &Path) -> Vec<Vec<usize>> {
        lanes(calls, workspace).into_iter().map(Vec::from).collect()
    }

    #[test]
    fn the_shell_keeps_its_order_and_the_rest_does_not_wait_for_it() {
        let bash = |command: &str| call("bash", &json!({ "command": command }));
        let calls = [bash("a"), on("file_read", "x"), bash("b"), call("glob", &json!({}))];
        assert_eq!(ordered(&calls, Path::new("/w")), [vec![0, 2], vec![1], vec![3]]);
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
        // A file that is not there yet, below a directory with two names.
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
    fn arguments_that_cannot_be_read_wait_for_nobody() {
        let mut broken = on("file_write", "a");
        broken.arguments.truncate(5);
        let calls = [broken, on("file_write", "a"), call("file_write", &json!({ "file_path": 1 }))];
        assert_eq!(ordered(&calls, Path::new("/w")), [vec![0], vec![1], vec![2]]);
    }
}
