//! The Landlock domain of a sandboxed tool. With namespaces it is a second boundary around the
//! tool's files, without them the only one.
//!
//! Owns the rules. The tool's own process enters the domain ([`super::launch`]).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{CWD, Mode, OFlags, open, openat};

use super::view::{DEVICES, OWN_HOSTS, View, ViewEntry};

/// The newest version whose rights are handled here. An older kernel handles the rights that it
/// knows.
const NEWEST: ABI = ABI::V7;

/// The first version whose domains keep their processes from signalling others.
pub(super) const SCOPES_SIGNALS: i32 = 6;

/// Returns the version of the running kernel's Landlock.
///
/// # Errors
///
/// Fails if the kernel has no Landlock.
pub(super) fn version() -> io::Result<i32> {
    const ASK_FOR_VERSION: libc::c_uint = 1;
    // SAFETY: a system call that reads nothing: no rules, and their size 0.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            ASK_FOR_VERSION,
        )
    };
    if version < 1 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(version).map_err(io::Error::other)
}

/// Makes a domain of the entries of `view`, the tool's own directories `writable`, and what
/// every tool has. Without `internet` it allows no TCP.
pub(super) fn build(view: &View, writable: &[PathBuf], internet: bool) -> io::Result<OwnedFd> {
    let domain = create(internet).and_then(|rules| fill(rules, view, writable));
    let domain: Option<OwnedFd> = domain.map_err(io::Error::other)?.into();
    domain.ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

fn create(internet: bool) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    let rules = if internet { rules } else { rules.handle_access(AccessNet::from_all(NEWEST))? };
    rules.create()
}

fn fill(
    mut rules: RulesetCreated,
    view: &View,
    writable: &[PathBuf],
) -> Result<RulesetCreated, RulesetError> {
    let (all, read) = (AccessFs::from_all(NEWEST), AccessFs::from_read(NEWEST));
    for ViewEntry { source, directory, writable, .. } in view.machine.iter().chain(&view.entries) {
        let access = if *writable { all } else { read };
        rules = rules.add_rule(PathBeneath::new(source.as_fd(), fitting(access, *directory)))?;
    }
    let listing = BitFlags::from(AccessFs::ReadDir);
    let looking = listing | AccessFs::ReadFile;
    let own = [("/", listing), ("/proc", looking)].map(|(path, access)| (Path::new(path), access));
    let hosts = (Path::new(OWN_HOSTS), AccessFs::ReadFile.into());
    let own = own.into_iter().chain(view.own_hosts.then_some(hosts));
    let own = own.chain(writable.iter().map(|path| (path.as_path(), all)));
    for (path, access) in own {
        // A path that does not exist needs no rule.
        if let Ok(place) = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            rules = rules.add_rule(PathBeneath::new(place, access))?;
        }
    }
    for path in DEVICES {
        if let Ok(device) = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            let access = AccessFs::ReadFile | AccessFs::WriteFile;
            rules = rules.add_rule(PathBeneath::new(device, access))?;
        }
    }
    Ok(rules)
}

/// Limits `access` to the rights that a file can have, unless it is a directory.
fn fitting(access: BitFlags<AccessFs>, directory: bool) -> BitFlags<AccessFs> {
    if directory { access } else { access & AccessFs::from_file(NEWEST) }
}
