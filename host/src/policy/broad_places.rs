//! The broad directories, which contain much more than one tool needs. A question or a recording
//! never proposes to grant such a directory, but may propose a directory or a file inside it.
//!
//! Owns the only list of these directories, and compares only names: the caller has resolved links.
//! Users can still grant such a directory by name.

use std::path::Path;

use super::secret_places::holds_secret_place;

/// Directories of many programs and users. They are never proposed themselves, but a directory
/// inside may be.
const BROAD: &[&str] = &[
    "/",
    "/bin",
    "/boot",
    "/etc",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/run",
    "/run/user",
    "/sbin",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/libexec",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/etc",
    "/usr/local/lib",
    "/usr/local/share",
    "/usr/sbin",
    "/usr/share",
    "/usr/src",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/run",
    "/var/spool",
    "/var/tmp",
    "/Applications",
    "/Library",
    "/System",
    "/Users",
    "/Volumes",
    "/private",
    "/private/etc",
    "/private/tmp",
    "/private/var",
];

/// Directories of a home in which many programs keep their own directories.
const BROAD_IN_HOME: &[&str] = &[
    "",
    ".cache",
    ".config",
    ".local",
    ".local/bin",
    ".local/lib",
    ".local/share",
    ".local/state",
    "Desktop",
    "Documents",
    "Downloads",
    "Library",
    "Library/Application Support",
    "Library/Caches",
    "Library/Preferences",
];

/// Directories in which the kernel shows processes, devices and its own state.
const KERNEL: &[&str] = &["/proc", "/sys", "/dev"];

/// Returns whether a grant of the directory would open far more than a tool needs. Such a directory
/// has the files of many programs or users, comes from the kernel, or contains a place of secrets.
/// `of_user` is the home.
#[must_use]
pub fn is_broad_place(dir: &Path, of_user: Option<&Path>) -> bool {
    BROAD.iter().any(|place| dir == Path::new(place))
        || is_of_kernel(dir)
        || is_a_home(dir)
        || of_user.is_some_and(|home| {
            home.starts_with(dir) || BROAD_IN_HOME.iter().any(|place| dir == home.join(place))
        })
        || holds_secret_place(dir, of_user)
}

/// Returns whether the kernel generates the files at this path.
#[must_use]
pub fn is_of_kernel(path: &Path) -> bool {
    KERNEL.iter().any(|place| path.starts_with(place))
}

/// Returns whether the directory lies where users' homes usually are.
fn is_a_home(dir: &Path) -> bool {
    let parent = dir.parent();
    ["/home", "/Users", "/run/user"].iter().any(|place| parent == Some(Path::new(place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broad_directories_are_known_and_those_in_them_are_not_broad() {
        let is_broad = |dir: &str| is_broad_place(Path::new(dir), Some(Path::new("/home/u")));
        for dir in
            ["/", "/etc", "/proc/self", "/home/u", "/home/other", "/home/u/.config", "/var/lib"]
        {
            assert!(is_broad(dir), "{dir}");
        }
        for dir in ["/etc/ssl/certs", "/home/u/.config/tool", "/home/u/.ssh", "/data"] {
            assert!(!is_broad(dir), "{dir}");
        }
        assert!(!is_broad_place(Path::new("/h/.config"), None));
    }
}
