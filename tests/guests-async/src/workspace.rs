//! The files of the workspace, and the names of error codes.

use std::fmt::Debug;

use wasip3::filesystem::preopens::get_directories;
use wasip3::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

/// Opens a path of the workspace.
pub(crate) async fn open(path: &str, access: DescriptorFlags) -> Result<Descriptor, ErrorCode> {
    let preopens = get_directories();
    let (dir, _) = preopens.iter().find(|(_, name)| name == ".").expect("a workspace");
    let create = OpenFlags::CREATE;
    let open = if access == DescriptorFlags::READ { OpenFlags::empty() } else { create };
    dir.open_at(PathFlags::SYMLINK_FOLLOW, path.to_owned(), open, access).await
}

/// Returns the name that WIT has for a code.
pub(crate) fn name(code: impl Debug) -> String {
    let text = format!("{code:?}");
    let text = text.rsplit("::").next().unwrap_or_default();
    let mut name = String::new();
    for letter in text.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}
