//! The target of a file parameter: a file of the workspace, or an asset of the host under
//! `ikigai://`.
//!
//! The host checks the rest of a URI, after the scheme.

use ikigai_protocol::{ToolCode, is_asset};

use crate::answer::ToolFailure;

/// The target of a file parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileTarget<'p> {
    /// A file, by its path, which has no NUL.
    File(&'p [u8]),
    /// An asset, by its URI as it was given, which has no NUL.
    Asset(&'p str),
}

impl<'p> FileTarget<'p> {
    /// Returns the target that `value`, given as `parameter`, names.
    pub(crate) fn named(parameter: &str, value: &'p str) -> Result<Self, ToolFailure> {
        if value.contains('\0') {
            let message = format!("`{parameter}` holds a NUL byte, which no path can");
            return Err(ToolFailure::new(ToolCode::InvalidArg, message));
        }
        if is_asset(value) {
            return Ok(Self::Asset(value));
        }
        Ok(Self::File(value.as_bytes()))
    }

    /// Returns the last component, as `basename` does.
    pub(crate) fn base_name(self) -> &'p [u8] {
        match self {
            Self::File(path) => base_name(path),
            Self::Asset(uri) => base_name(uri.as_bytes()),
        }
    }
}

/// Refuses an asset as the value of a parameter that says where to search.
pub(crate) fn refuse_asset(parameter: &str, value: &str) -> Result<(), ToolFailure> {
    if !is_asset(value) {
        return Ok(());
    }
    let message = format!(
        "`{parameter}` names an asset, and only files are searched: {value}; `file_read` reads an \
         asset by its URI"
    );
    Err(ToolFailure::new(ToolCode::InvalidArg, message))
}

fn base_name(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(path.len().min(1), |at| at + 1);
    let name = &path[..end];
    match name.iter().rposition(|byte| *byte == b'/') {
        Some(at) if at + 1 < name.len() => &name[at + 1..],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_names() {
        for (path, name) in
            [("a/b.c", "b.c"), ("b", "b"), ("/a/", "a"), ("/", "/"), ("//", "/"), ("", "")]
        {
            assert_eq!(base_name(path.as_bytes()), name.as_bytes(), "{path}");
        }
        assert_eq!(FileTarget::Asset("ikigai:///blocks/decisions.md").base_name(), b"decisions.md");
        assert_eq!(FileTarget::Asset("ikigai://prefs.md").base_name(), b"prefs.md");
    }

    #[test]
    fn the_scheme_alone_tells_assets_from_files() {
        let named = |value| FileTarget::named("file_path", value);
        for uri in ["ikigai:///a", "ikigai://a/b", "ikigai://", "ikigai:/a", "IKIGAI:///a"] {
            assert_eq!(named(uri), Ok(FileTarget::Asset(uri)));
        }
        for path in ["ikigai", "./ikigai:///a", "ikigai\u{e9}//", "ikigai\u{e9}:", ""] {
            assert_eq!(named(path), Ok(FileTarget::File(path.as_bytes())));
        }
        assert!(named("a\0b").is_err() && named("ikigai:///a\0").is_err());
    }

    #[test]
    fn a_search_of_assets_is_refused_and_not_empty() {
        for uri in ["ikigai://", "ikigai:///blocks", "IKIGAI://*"] {
            let failure = refuse_asset("path", uri).expect_err(uri);
            let text = String::from_utf8(failure.to_json()).expect("UTF-8");
            assert!(text.contains("INVALID_ARG") && text.contains("`file_read`"), "{text}");
        }
        for path in ["", ".", "ikigai", "src/ikigai:"] {
            assert_eq!(refuse_asset("path", path), Ok(()));
        }
    }
}
