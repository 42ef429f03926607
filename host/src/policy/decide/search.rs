//! The directories in which a native tool looks for programs and for the code that they load. They
//! never include a directory in which another tool may write.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::named_paths::absolute_paths;
use super::reach::WritablePlaces;
use crate::paths;

/// The variable with the directories of programs.
pub(super) const PATH: &str = "PATH";

/// The variables that name directories or files with code for the loader and for interpreters. In
/// the sandbox they keep the values from the tool's entry, and affect only that tool.
const CODE: [&str; 12] = [
    "BASH_ENV",
    "ENV",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NODE_PATH",
    "PERL5LIB",
    "PERLLIB",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "RUBYLIB",
];

/// The variables with which a user's command for a token or a key starts. A `*` stands for any
/// text. docs/concepts/policy.md lists them.
const FOR_COMMANDS: [&str; 45] = [
    "*_PROXY",
    "*_proxy",
    "AWS_*",
    "AZURE_*",
    "BITWARDENCLI_*",
    "BROWSER",
    "BW_*",
    "CLOUDSDK_*",
    "DBUS_SESSION_BUS_ADDRESS",
    "DESKTOP_SESSION",
    "DISPLAY",
    "DOCKER_*",
    "GH_*",
    "GITHUB_TOKEN",
    "GNOME_*",
    "GNUPGHOME",
    "GOOGLE_*",
    "GPG_*",
    "HOME",
    "KDE_*",
    "KRB5CCNAME",
    "KUBECONFIG",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LOGNAME",
    "OP_*",
    "PASSWORD_STORE_*",
    "PATH",
    "PINENTRY_USER_DATA",
    "REGISTRY_AUTH_FILE",
    "SOPS_*",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "VAULT_*",
    "WAYLAND_DISPLAY",
    "WSLENV",
    "WSL_*",
    "XAUTHORITY",
    "XDG_*",
];

/// The variables that keep their values even if tools may write there. No program runs without
/// them, and they name no code.
const KEPT: [&str; 2] = ["HOME", "TMPDIR"];

/// Removes from the environment of a native tool the directories of `PATH` that are relative or in
/// which a tool may write. For an unconfined tool, also removes such directories from the variables
/// of [`CODE`]. Returns the directories removed from `PATH`.
pub(super) fn keep_out_of_reach(
    env: &mut Vec<(OsString, OsString)>,
    is_unconfined: bool,
    reach: &WritablePlaces<'_>,
) -> Vec<PathBuf> {
    let mut lost = Vec::new();
    env.retain_mut(|(name, value)| {
        let is_path = name == PATH;
        if !(is_path || is_unconfined && CODE.iter().any(|code| name == code)) {
            return true;
        }
        let list = with_colons(name, value);
        let (kept, left_out): (Vec<PathBuf>, _) =
            std::env::split_paths(&list).partition(|dir| is_out_of_reach(dir, reach));
        if left_out.is_empty() {
            return true;
        }
        if is_path {
            lost = left_out;
        }
        *value = std::env::join_paths(kept).unwrap_or_default();
        // An empty list would mean the working directory.
        !value.is_empty()
    });
    lost
}

/// Returns the list in a variable with colons between its elements. The loader also takes
/// semicolons in `LD_LIBRARY_PATH`, and white space in `LD_PRELOAD` (`ld.so`(8)).
fn with_colons(name: &OsStr, value: &OsStr) -> OsString {
    let others: &[u8] = match name.as_bytes() {
        b"LD_LIBRARY_PATH" => b";",
        b"LD_PRELOAD" => b" \t\n\r\x0b\x0c",
        _ => b"",
    };
    let bytes = value.as_bytes().iter();
    OsString::from_vec(bytes.map(|byte| if others.contains(byte) { b':' } else { *byte }).collect())
}

/// Removes from the variables of a program that the host starts without a sandbox every path at
/// which a tool may write: such a file could be a program, a module or a configuration that starts
/// one. [`keep_out_of_reach`] has shortened `PATH`. A variable is read as a list, as `PATH` is. An
/// empty variable is removed, and so is one that names such a path in another way, such as a
/// command.
pub(super) fn leave_out_written(
    env: &mut Vec<(OsString, OsString)>,
    home: Option<&Path>,
    reach: &WritablePlaces<'_>,
) {
    env.retain_mut(|(name, value)| {
        if name == PATH || KEPT.iter().any(|kept| name == kept) {
            return true;
        }
        let (kept, left_out): (Vec<PathBuf>, Vec<PathBuf>) = std::env::split_paths(value)
            .partition(|path| !path.is_absolute() || is_out_of_reach(path, reach));
        if !left_out.is_empty() {
            *value = std::env::join_paths(kept).unwrap_or_default();
        }
        let named = absolute_paths(value, home);
        let names_written = named.iter().any(|path| !is_out_of_reach(path, reach));
        (left_out.is_empty() || !value.is_empty()) && !names_written
    });
}

/// Returns whether a user's command for a token or a key starts with this variable.
pub(in crate::policy) fn is_for_commands(name: &OsStr) -> bool {
    let name = name.as_bytes();
    FOR_COMMANDS.iter().any(|known| match known.as_bytes() {
        [start @ .., b'*'] => name.starts_with(start),
        [b'*', end @ ..] => name.ends_with(end),
        known => name == known,
    })
}

fn is_out_of_reach(dir: &Path, reach: &WritablePlaces<'_>) -> bool {
    dir.is_absolute() && paths::resolution_steps(dir).iter().all(|step| reach.holds(step).is_none())
}

/// Returns the program of this name in the first of `dirs` that has it.
pub(super) fn find(name: &OsStr, dirs: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    dirs.into_iter().map(|dir| dir.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_as_the_loader_splits_it() {
        for (name, value, expected) in [
            ("LD_LIBRARY_PATH", "/a;/w/lib:/b", "/a:/w/lib:/b"),
            ("LD_PRELOAD", "/a.so /w/b.so\t/c;d", "/a.so:/w/b.so:/c;d"),
            ("PYTHONPATH", "/a b;c", "/a b;c"),
        ] {
            assert_eq!(with_colons(name.as_ref(), value.as_ref()), *expected, "{name}");
        }
    }

    #[test]
    fn a_command_starts_with_known_variables_only() {
        for (name, expected) in [
            ("PATH", true),
            ("HOME", true),
            ("LC_ALL", true),
            ("https_proxy", true),
            ("HTTPS_PROXY", true),
            ("AWS_PROFILE", true),
            ("OP_SESSION_my", true),
            ("SSH_AUTH_SOCK", true),
            ("PERL5OPT", false),
            ("PERLLIB", false),
            ("PYTHONPATH", false),
            ("NODE_OPTIONS", false),
            ("GIT_CONFIG_COUNT", false),
            ("LD_PRELOAD", false),
            ("BASH_ENV", false),
            ("SSH_AUTH_SOCK_2", false),
            ("HOMEBREW", false),
        ] {
            assert_eq!(is_for_commands(name.as_ref()), expected, "{name}");
        }
        assert!(FOR_COMMANDS.is_sorted());
    }
}
