//! The folders in which long results are kept for principals. Each principal has its own folder.

use std::fmt::Write as _;

use ikigai_assets::AssetPath;

/// The folder of all long results. The results of the host's own agent are directly in it.
pub(crate) const OUTPUTS: &str = "outputs/";

/// Returns the folder of a principal's outputs. Different principals have different folders: every
/// byte but letters, digits and `-` is written as `_` and two hexadecimal digits.
pub(crate) fn folder(principal: &str) -> String {
    let mut folder = OUTPUTS.to_owned();
    for byte in principal.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            folder.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(folder, "_{byte:02x}");
        }
    }
    folder.push('/');
    folder
}

/// Returns whether an asset is in the folder of a principal.
pub(crate) fn is_kept_for(principal: &str, path: &AssetPath) -> bool {
    path.as_str().starts_with(&folder(principal))
}
