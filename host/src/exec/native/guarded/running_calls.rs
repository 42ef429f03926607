//! The names that running calls found, or did not find, when they began. A name that one of them
//! did not find is new for each of them.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fs::fstat;
use rustix::io::Errno;

/// The device and the inode of a directory.
type DirKey = (u64, u64);

/// A name in the directory with this device and inode.
type PlaceKey = (u64, u64, OsString);

/// The places that did not exist when a running call began. If another call makes such a place in
/// the meantime, the place is new for both calls.
static ABSENT: Mutex<Option<HashMap<PlaceKey, Weak<()>>>> = Mutex::new(None);

/// The names that a directory had when the first running call began that looked there. Names that
/// another call adds later are new for each of these calls.
static LISTED: Mutex<Option<HashMap<DirKey, Weak<HashSet<OsString>>>>> = Mutex::new(None);

/// Notes the names in a directory for a call that begins. Returns the names that were noted for the
/// first call that still runs.
pub(super) fn note_listed(
    dir: &OwnedFd,
    names: Vec<OsString>,
) -> Result<Arc<HashSet<OsString>>, Errno> {
    let stat = fstat(dir)?;
    let mut listed = LISTED.lock();
    let listed = listed.get_or_insert_default();
    listed.retain(|_, names| names.strong_count() > 0);
    let noted = listed.entry((stat.st_dev, stat.st_ino)).or_default();
    Ok(noted.upgrade().unwrap_or_else(|| {
        let names = Arc::new(names.into_iter().collect());
        *noted = Arc::downgrade(&names);
        names
    }))
}

/// Forgets the places that were absent for calls that have ended.
pub(super) fn forget_ended() {
    let mut absent = ABSENT.lock();
    if let Some(absent) = absent.as_mut() {
        absent.retain(|_, call| call.strong_count() > 0);
    }
}

/// Notes that a name is absent for a call that begins.
pub(super) fn note_absent(dir: &OwnedFd, name: &OsStr) -> Result<Arc<()>, Errno> {
    let stat = fstat(dir)?;
    let mut absent = ABSENT.lock();
    let absent = absent.get_or_insert_default();
    let noted = absent.entry((stat.st_dev, stat.st_ino, name.to_owned())).or_default();
    Ok(noted.upgrade().unwrap_or_else(|| {
        let call = Arc::default();
        *noted = Arc::downgrade(&call);
        call
    }))
}

/// Returns whether a name was absent when another call began that is still running.
pub(super) fn is_absent(dir: &OwnedFd, name: &OsStr) -> Result<bool, String> {
    let mut absent = ABSENT.lock();
    let Some(absent) = absent.as_mut().filter(|absent| !absent.is_empty()) else {
        return Ok(false);
    };
    let stat = fstat(dir).map_err(|errno| errno.to_string())?;
    let noted = absent.get(&(stat.st_dev, stat.st_ino, name.to_owned()));
    Ok(noted.is_some_and(|call| call.strong_count() > 0))
}
