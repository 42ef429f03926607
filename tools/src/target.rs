//! What a file parameter names: a file of the workspace, or a document of the
//! host under `ikigai://`.
//!
//! The one place where the scheme is told apart. No port serves documents yet,
//! so naming one is refused here.

use ikigai_protocol::ToolCode;

use crate::answer::Failure;

const DOCUMENT_SCHEME: &str = "ikigai://";

/// Checks a file parameter and returns the path it names.
pub(crate) fn file_path<'p>(parameter: &str, value: &'p str) -> Result<&'p [u8], Failure> {
    if value.starts_with(DOCUMENT_SCHEME) {
        let failure =
            Failure::about(ToolCode::PermissionDenied, "Permission denied", value.as_bytes());
        return Err(failure.because(" (no documents are granted to this tool)"));
    }
    if value.contains('\0') {
        let message = format!("`{parameter}` holds a NUL byte, which no path can");
        return Err(Failure::new(ToolCode::InvalidArg, message));
    }
    Ok(value.as_bytes())
}

/// The last component, as `basename` gives it.
pub(crate) fn base_name(path: &[u8]) -> &[u8] {
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
    }

    #[test]
    fn documents_and_nul_are_refused() {
        let document = file_path("file_path", "ikigai:///a").expect_err("refused").to_json();
        assert!(String::from_utf8_lossy(&document).contains("PERMISSION_DENIED"));
        assert!(file_path("file_path", "a\0b").is_err());
        assert_eq!(file_path("file_path", "ikigai"), Ok(&b"ikigai"[..]));
    }
}
