//! The choice of what a sandboxed tool sees: the granted directories and files, the system's
//! programs and libraries, the tool's own installation, and the working directory.
//!
//! Refuses a grant that cannot be enforced. Mounts nothing.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;

use super::hidden;
use super::installation;
use super::view::{OWN_HOSTS, View, ViewEntry, canonical, open_path, open_real};
use crate::base_view::{BASE_VIEW, BasePlace, is_users_own};
use crate::filesystems::is_ordinary;
use crate::plan::{HiddenPath, InodeId, Link, Plan, StartStep, ToolNetwork, path_of};

/// The directories of `/` that are left out of every recording. They contain file systems
/// without files; sockets and locks; short-lived files of other programs; or names that ask a
/// server when they are looked up.
const NOT_OF_MACHINE: [&str; 8] = ["dev", "lost+found", "misc", "net", "proc", "run", "sys", "tmp"];

/// The reason why a view cannot be made.
pub(super) enum ViewFault {
    /// The grant, or the call, cannot be enforced.
    Refused(String),
    /// This step of the tool's start would fail, with this `errno`.
    Step(StartStep, i32),
}

/// Chooses what the plan's tool sees.
pub(super) fn choose(plan: &Plan) -> Result<View, ViewFault> {
    let directory = path_of(&plan.directory);
    open_path(&directory, OFlags::DIRECTORY)
        .map_err(|errno| ViewFault::Step(StartStep::Directory, errno.raw_os_error()))?;
    let mut view = View { home: home_of(plan), ..View::default() };
    for dir in &plan.dirs {
        grant(&mut view, path_of(&dir.path), dir.writable, dir.searched)?;
    }
    if !view.has(Path::new("/")) {
        show_system(&mut view, plan.kind.net == ToolNetwork::Host);
        view.covered = covered(&view, plan);
    }
    show_links(&mut view, plan);
    view.program = installation::show(&mut view, plan);
    if !view.has(&directory) {
        show_again(&mut view, directory)?;
    }
    view.home = view.home.take().filter(|home| !view.has(home));
    let has_hosts = plan.machine.is_some() || view.has(Path::new(OWN_HOSTS));
    view.own_hosts = plan.kind.own_sockets && plan.kind.net != ToolNetwork::Host && !has_hosts;
    if let Some(kept) = &plan.machine {
        show_machine(&mut view, kept, plan);
    }
    // A directory comes before what is in it.
    view.entries.sort_by(|a, b| a.path.cmp(&b.path));
    // Even if `/` is granted, the tool has its own devices and processes at these places.
    let special = |path: &Path| ["/dev", "/proc"].iter().any(|dir| path.starts_with(dir));
    let seen = |path: &Path| view.has(path) && !special(path);
    // Nothing is mounted over a place that the tool does not see, so what it sees in the place is
    // read-only by itself.
    let places = plan.read_only.iter().map(|it| path_of(&it.path)).filter(|path| !seen(path));
    let places: Vec<PathBuf> = places.collect();
    let hidden = plan.hidden.iter().filter(|it| seen(&path_of(&it.path))).cloned();
    let hidden: Vec<HiddenPath> = hidden.chain(by_other_paths(&view, plan)?).collect();
    // Their other paths lie in an installation, which the tool cannot write to.
    let read_only = plan.read_only.iter().filter(|it| seen(&path_of(&it.path))).cloned().collect();
    view.pinned = plan.pinned.iter().filter(|it| seen(&path_of(&it.path))).cloned().collect();
    (view.hidden, view.read_only) = (hidden, read_only);
    for entry in &mut view.entries {
        entry.writable &= !places.iter().any(|place| entry.path.starts_with(place));
    }
    Ok(view)
}

/// Returns the hidden files under their other paths. An installation may be named by a link to a
/// granted directory, and then shows the same files a second time.
fn by_other_paths(view: &View, plan: &Plan) -> Result<Vec<HiddenPath>, ViewFault> {
    let mut hidden = Vec::new();
    if plan.hidden.is_empty() {
        return Ok(hidden);
    }
    for ViewEntry { path, source, .. } in &view.entries {
        let real = fs::read_link(format!("/proc/self/fd/{}", source.as_raw_fd()));
        let real = real.map_err(|error| {
            let path = path.display();
            ViewFault::Refused(format!("what is hidden at `{path}` cannot be found out: {error}"))
        })?;
        if real == *path {
            continue;
        }
        for it in &plan.hidden {
            if let Ok(rest) = path_of(&it.path).strip_prefix(&real)
                && let Ok(path) = CString::new(path.join(rest).as_os_str().as_bytes())
            {
                hidden.push(HiddenPath { path, found: it.found });
            }
        }
    }
    Ok(hidden)
}

/// Adds the working directory if the view hides it although a directory around it is granted. If
/// nothing around it is granted, the tool gets an empty directory there.
fn show_again(view: &mut View, directory: PathBuf) -> Result<(), ViewFault> {
    let shows = |entry: &&ViewEntry| {
        directory.starts_with(&entry.path) && !view.covers(&entry.path, &directory)
    };
    let around = view.entries.iter().find(shows);
    match around.map(|entry| entry.writable) {
        Some(writable) => grant(view, directory, writable, None),
        None => {
            view.empty = Some(directory);
            Ok(())
        }
    }
}

/// Returns the user's home and the workspace, if they are the [user's own](is_users_own) in the base
/// view and not granted.
fn covered(view: &View, plan: &Plan) -> Vec<PathBuf> {
    let home = plan.variable("HOME").and_then(|home| canonical(Path::new(&home)).ok());
    let is_granted = |path: &PathBuf| {
        view.entries.iter().any(|entry| !entry.system && path.starts_with(&entry.path))
    };
    let places = home.into_iter().chain(canonical(&path_of(&plan.directory)).ok());
    let places: BTreeSet<PathBuf> =
        places.filter(|path| is_users_own(path) && !is_granted(path)).collect();
    // An outer directory comes before those in it.
    let mut covered: Vec<PathBuf> = Vec::new();
    for place in places {
        if !covered.iter().any(|outer| place.starts_with(outer)) {
            covered.push(place);
        }
    }
    covered
}

/// Adds a granted directory or file. If it was `searched`, refuses any other file at the path:
/// it was not searched for files that are kept from the tool.
fn grant(
    view: &mut View,
    path: PathBuf,
    writable: bool,
    searched: Option<InodeId>,
) -> Result<(), ViewFault> {
    if let Some(same) = view.entries.iter_mut().find(|entry| entry.path == path) {
        same.writable |= writable;
        return Ok(());
    }
    let source = open_real(&path).map_err(|errno| {
        let name = path.display();
        ViewFault::Refused(match errno {
            Errno::NOENT => {
                format!("the granted `{name}` does not exist; make it, or take it out of the grant")
            }
            Errno::LOOP => format!(
                "the granted `{name}` is, or lies behind, a symbolic link; grant the file or \
                 directory that it leads to"
            ),
            errno => format!("the granted `{name}` cannot be opened: {}", io::Error::from(errno)),
        })
    })?;
    if searched.is_some_and(|found| !hidden::is(&source, found).unwrap_or(false)) {
        return Err(ViewFault::Refused(format!(
            "another program replaced the granted `{}` while the call was prepared; call it again",
            path.display()
        )));
    }
    // A device, a pipe or a socket is a way to something other than a file.
    let kind = fstat(&source).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if !matches!(kind, Ok(FileType::Directory | FileType::RegularFile)) {
        return Err(ViewFault::Refused(format!(
            "the granted `{}` is neither a directory nor a regular file",
            path.display()
        )));
    }
    if !is_ordinary(&source).unwrap_or(false) {
        return Err(ViewFault::Refused(format!(
            "`{}` cannot be granted to a sandboxed tool: its file system is not one of files, \
             and would show it the processes or the devices of the host",
            path.display()
        )));
    }
    view.entries.push(ViewEntry::new(path, source, writable));
    Ok(())
}

/// Adds the directories of `/` that the tool does not see already. Leaves out what is `kept`,
/// unless it lies in something granted.
fn show_machine(view: &mut View, kept: &[HiddenPath], plan: &Plan) {
    for entry in fs::read_dir("/").into_iter().flatten().flatten() {
        let path = entry.path();
        if view.has(&path) || NOT_OF_MACHINE.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        match fs::read_link(&path) {
            Ok(target) => view.machine_links.push((path, target)),
            Err(_) => {
                let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
                let place = open_path(&path, flags).ok();
                let place = place.filter(|it| is_ordinary(it).unwrap_or(false));
                view.machine.extend(place.map(|it| ViewEntry::new(path, it, false)));
            }
        }
    }
    // The tool has its own directory there.
    let temporary = Path::new("/var/tmp");
    let is_of_machine = |path: &Path| {
        !path.starts_with(temporary) && view.machine.iter().any(|it| path.starts_with(&it.path))
    };
    let granted = |path: &Path| plan.dirs.iter().find(|it| path.starts_with(path_of(&it.path)));
    let is_granted = |path: &Path| granted(path).is_some();
    let is_kept = |path: &Path| is_of_machine(path) && !is_granted(path);
    let kept = kept.iter().filter(|it| is_kept(&path_of(&it.path))).cloned().collect();
    let is_own = |path: &PathBuf| {
        is_of_machine(path) && !granted(path).is_some_and(|it| it.writable) && path.is_dir()
    };
    let own = view.home.iter().cloned().chain([path_of(&plan.directory)]);
    // An outer directory comes before those in it.
    let own: BTreeSet<PathBuf> = own.filter(is_own).collect();
    let home = view.home.take_if(|home| is_of_machine(home));
    (view.kept, view.shown_home, view.own_of_machine) = (kept, home, own.into_iter().collect());
}

/// Adds the granted links whose targets the tool sees. In a directory that it sees, a link is there
/// already.
fn show_links(view: &mut View, plan: &Plan) {
    for Link { path, target } in &plan.links {
        let (path, target) = (path_of(path), path_of(target));
        if !view.has(&path) && view.has(&target) {
            view.granted_links.push((path, target));
        }
    }
}

fn show_system(view: &mut View, net: bool) {
    let places = BASE_VIEW.iter().filter(|place| net || !place.of_network);
    for path in places.flat_map(paths_of_place) {
        if view.has(&path) {
            continue;
        }
        match open_real(&path) {
            Ok(opened) if is_public(&path, &opened) => view.show_of_system(&path, opened),
            Err(Errno::LOOP) => show_behind_links(view, path),
            _ => {}
        }
    }
}

/// Shows a place of the system whose path is a link or has links, which only an administrator can
/// make there. A link stays a link if the tool sees its target: programs take the name of the time
/// zone from the path that `localtime` leads to.
fn show_behind_links(view: &mut View, path: PathBuf) {
    let Ok(real) = canonical(&path) else { return };
    let Ok(opened) = open_real(&real) else { return };
    if !is_public(&path, &opened) {
        return;
    }
    match fs::read_link(&path) {
        Ok(target) if view.has(&real) => view.links.push((path, target)),
        _ => view.show_of_system(&path, opened),
    }
}

/// Returns the paths of a place: one, or each path in a directory that begins with its name.
fn paths_of_place(place: &BasePlace) -> Vec<PathBuf> {
    let path = Path::new(place.path);
    if !place.path.ends_with('*') {
        return vec![path.to_owned()];
    }
    let all = path.parent().and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    all.map(|entry| entry.path()).filter(|path| place.has(path)).collect()
}

/// Returns whether every user of the machine may read an open file of `/etc`. An administrator may
/// have put a password into one.
fn is_public(path: &Path, opened: &OwnedFd) -> bool {
    !path.starts_with("/etc") || fstat(opened).is_ok_and(|stat| stat.st_mode & libc::S_IROTH != 0)
}

/// Returns the home in the tool's environment, if one can be made there.
fn home_of(plan: &Plan) -> Option<PathBuf> {
    let home = PathBuf::from(plan.variable("HOME")?);
    // `/etc/../usr/home` does not lie in `/etc`.
    let home = canonical(&home).unwrap_or(home);
    let reserved = ["/proc", "/sys", "/dev", "/etc"].iter().any(|dir| home.starts_with(dir));
    (home.is_absolute() && home != Path::new("/") && !reserved).then_some(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_etc_that_some_users_may_not_read_is_not_public() {
        let is_public = |path: &str| {
            let path = Path::new(path);
            is_public(path, &open_real(path).expect("opened"))
        };
        assert!(is_public("/etc/passwd"));
        assert!(!is_public("/etc/shadow"), "root alone may read it");
        assert!(is_public("/usr"));
    }

    #[test]
    fn a_directory_other_than_the_one_that_was_searched_is_not_shown() {
        let searched = tempfile::tempdir().expect("a directory");
        let other = tempfile::tempdir().expect("a directory");
        let real = |dir: &tempfile::TempDir| dir.path().canonicalize().expect("a path");
        let stat = rustix::fs::stat(real(&searched)).expect("a state");
        let found = InodeId { directory: true, device: stat.st_dev, inode: stat.st_ino };
        let mut view = View::default();
        assert!(grant(&mut view, real(&searched), true, Some(found)).is_ok());
        let Err(ViewFault::Refused(reason)) = grant(&mut view, real(&other), true, Some(found))
        else {
            panic!("the other directory is shown");
        };
        assert!(reason.contains("call it again"), "{reason}");
        assert_eq!(view.entries.len(), 1);
    }
}
