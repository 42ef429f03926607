//! The arguments of a call that name files, so that the user can be asked about them before the
//! call runs.
//!
//! The file tools look for a path among their directories themselves, inside the guest, so the host
//! does not see paths outside of them. So the host reads the arguments: for file tools by their
//! names, and for other tools if the schema marks a property with [`ACCESS_MARK`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ikigai_protocol::{ACCESS_MARK, Access, ToolSchema, is_asset};
use serde_json::value::RawValue;

use crate::paths;
use crate::policy::{Grant, RequestedAccess, ToolOrigin, path_arguments_of};

/// An argument that is the path of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathArgument {
    name: String,
    access: Access,
}

/// Returns the arguments of a tool that name files. If two are aliases, the first one counts.
pub(super) fn path_arguments(schema: &ToolSchema, origin: ToolOrigin) -> Vec<PathArgument> {
    let standard = match origin {
        ToolOrigin::System => path_arguments_of(&schema.name),
        ToolOrigin::User => &[],
    };
    let argument = |(name, access): &(&str, Access)| PathArgument {
        name: (*name).to_owned(),
        access: *access,
    };
    let mut found: Vec<_> = standard.iter().map(argument).collect();
    let properties = schema.parameters.get("properties").and_then(|it| it.as_object());
    for (name, property) in properties.into_iter().flatten() {
        let access = match property.get(ACCESS_MARK).and_then(|it| it.as_str()) {
            Some("ro") => Access::ReadOnly,
            Some("rw") => Access::ReadWrite,
            _ => continue,
        };
        found.push(PathArgument { name: name.clone(), access });
    }
    found
}

/// Returns the accesses to ask the user about before a call with these arguments. They are existing
/// files that the grant does not cover, and the directories of files that the call may write.
/// `arguments` are one JSON object.
pub(crate) fn questions(
    paths: &[PathArgument],
    arguments: &[u8],
    workspace: &Path,
    grant: &Grant,
) -> Vec<RequestedAccess> {
    if paths.is_empty() {
        return Vec::new();
    }
    // The host refuses arguments that are not an object. The tool refuses values that are not text.
    let members = serde_json::from_slice::<BTreeMap<Cow<'_, str>, &RawValue>>(arguments);
    let Ok(members) = members else { return Vec::new() };
    let mut found = Vec::new();
    for PathArgument { name, access } in paths {
        let text = members.get(name.as_str()).map(|raw| serde_json::from_str::<String>(raw.get()));
        let Some(Ok(text)) = text else { continue };
        // An asset is not a file.
        if text.is_empty() || is_asset(&text) {
            continue;
        }
        let Some(named) = NamedFile::from_path(&workspace.join(text), *access) else { continue };
        let reached = |path| RequestedAccess::Path { access: *access, path };
        let place = grant.reserved.executed_place(&named.file);
        if grant.covers(&reached(named.file)) {
            continue;
        }
        let question = match place {
            Some(place) if *access == Access::ReadWrite => reached(place),
            _ => grant.question_for(reached(named.asked_for)),
        };
        if !found.contains(&question) {
            found.push(question);
        }
    }
    found
}

/// A file that an argument names.
struct NamedFile {
    /// Its path, with links resolved.
    file: PathBuf,
    /// The path for a question.
    asked_for: PathBuf,
}

impl NamedFile {
    /// Returns `None` if nothing exists there that could be granted.
    fn from_path(path: &Path, access: Access) -> Option<Self> {
        let itself = |path: PathBuf| Self { asked_for: path.clone(), file: path };
        if access == Access::ReadOnly {
            return paths::resolved(path).ok().map(itself);
        }
        // Writing replaces the file by another file in its directory.
        match paths::existing(path) {
            Ok((path, metadata)) if metadata.is_dir() => Some(itself(path)),
            Ok((path, _)) => Some(Self { asked_for: path.parent()?.to_owned(), file: path }),
            Err(_) => {
                let dir = paths::resolved(path.parent()?).ok()?;
                Some(Self { file: dir.join(path.file_name()?), asked_for: dir })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_person_is_asked_for_the_files_that_arguments_name() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        fs::write(root.join("a"), "").expect("written");
        let read = |name: &str| PathArgument { name: name.into(), access: Access::ReadOnly };
        let write = |name: &str| PathArgument { name: name.into(), access: Access::ReadWrite };
        let grant = Grant::default();
        let of = |paths: &[PathArgument], arguments: &str| {
            questions(paths, arguments.as_bytes(), &root, &grant)
        };
        let path = |access, path: &str| RequestedAccess::Path { access, path: root.join(path) };
        let found = of(&[read("x")], r#"{"x": "\u0061", "y": 1}"#);
        assert_eq!(found, [path(Access::ReadOnly, "a")]);
        std::os::unix::fs::symlink("a", root.join("link")).expect("linked");
        std::os::unix::fs::symlink(".", root.join("here")).expect("linked");
        for same in ["link", "here/a", "here/./link", ".//a", "./a"] {
            let found = of(&[read("x")], &format!(r#"{{"x": "{same}"}}"#));
            assert_eq!(found, [path(Access::ReadOnly, "a")], "{same}");
        }
        assert_eq!(of(&[write("x")], r#"{"x": "here/link"}"#).len(), 1);
        fs::create_dir(root.join("s:")).expect("made");
        fs::write(root.join("s:/b"), "").expect("written");
        assert_eq!(of(&[read("x")], r#"{"x": "s://b"}"#), [path(Access::ReadOnly, "s:/b")]);
        let above = root.parent().expect("a parent").to_owned();
        let above = RequestedAccess::Path { access: Access::ReadOnly, path: above };
        assert_eq!(of(&[read("x")], r#"{"x": "here/.."}"#), [above]);
        for nothing in ["a/", "link/", "a/.", "missing/../a"] {
            assert_eq!(of(&[read("x")], &format!(r#"{{"x": "{nothing}"}}"#)), [], "{nothing}");
        }
        let found = of(&[write("x")], r#"{"x": "new"}"#);
        assert_eq!(
            found,
            [RequestedAccess::Path { access: Access::ReadWrite, path: root.clone() }]
        );
        for nothing in [
            "{}",
            r#"{"x": 1}"#,
            r#"{"x": "missing"}"#,
            r#"{"x": "ikigai:///a"}"#,
            r#"{"x": "IKIGAI:///a"}"#,
            r#"{"x": ""}"#,
            "[]",
        ] {
            assert_eq!(of(&[read("x")], nothing), [], "{nothing}");
        }
    }
}
