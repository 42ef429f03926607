//! The accesses of a watched tool, from the supervisor's report to the notes about the call.
//!
//! The report has the names that the tool used. This process sees the files by these names, and
//! keeps those that a grant could be about: they exist and the host's user has the access.
//! Everything in the report was chosen by the tool.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use ikigai_protocol::{Access, written_out};
use ikigai_supervisor::base_view::is_in_base_view;
use ikigai_supervisor::plan::{
    self, FileAccess, ObservedAccesses, SupervisorReport, ToolEnd, WatchLevel,
};
use rustix::fs::{Access as Right, access};

use super::Supervisor;
use super::guarded::Guarded;
use super::set_aside::{PlaceState, SetAside};
use crate::exec::Call;
use crate::exec::widening::Widening;
use crate::paths;
use crate::policy::{Grant, RequestedAccess, UsedAccess};

/// Returns the part of the accesses of a call that its supervisor reports.
pub(super) fn watch_of(call: &Call, supervisor: &Supervisor) -> WatchLevel {
    match &call.widening {
        _ if supervisor.shown.is_some() => WatchLevel::All,
        Some(widening) if widening.recording().is_some() => WatchLevel::All,
        Some(widening) if widening.watches() => WatchLevel::Reached,
        _ => WatchLevel::Nothing,
    }
}

/// Notes the accesses that a watched call tried and used, by its report if there is one.
pub(super) async fn note(
    report: Option<&mut SupervisorReport>,
    call: &Call,
    supervisor: &Supervisor,
) {
    let never_ran = report.as_ref().is_some_and(|it| is_unstarted(&it.end));
    let seen = report.map(|report| std::mem::take(&mut report.seen)).unwrap_or_default();
    if let Some(shown) = &supervisor.shown {
        shown.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&seen);
    }
    let Some(widening) = call.widening.clone() else { return };
    if !seen.watched && !never_ran {
        widening.unwatched();
    }
    let grant = call.grant.clone();
    let noted = tokio::task::spawn_blocking(move || {
        let ObservedAccesses { watched: _, reached, used, peers, more } = seen;
        for touch in &reached {
            let Some(reached) = of_path(touch) else { continue };
            missed_links(touch, &grant).for_each(|link| widening.missed_link(link));
            if !grant.covers(&reached) {
                widening.probed(grant.question_for(reached));
            }
        }
        let is_recorded = widening.recording().is_some();
        for used in used {
            note_used(&widening, used, &grant.dirs, is_recorded);
        }
        for peer in peers {
            let (host, port) = (peer.ip().to_string(), peer.port());
            match grant.net.any {
                true => widening.used(UsedAccess::Peer { host, port }),
                false => widening.refused(RequestedAccess::Peer { host, port }),
            }
        }
        match widening.recording() {
            _ if more == 0 => {}
            Some(_) => {
                tracing::warn!(more, "the tool tried to use more than a recording can store")
            }
            None => tracing::debug!(more, "a watched tool tried to use more than is recorded"),
        }
    });
    match tokio::time::timeout(NOTING, noted).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the accesses of a watched tool are lost"),
        Err(_) => tracing::warn!("a file system did not answer: accesses of a tool are lost"),
    }
}

/// Sets aside what the tool made at guarded places, and notes it as refused.
///
/// # Errors
///
/// Fails if something is still there, or if a directory was too large to be searched. The text says
/// which, and why.
pub(super) async fn set_aside(mut guarded: Guarded, call: &Call) -> Result<(), String> {
    let too_large = std::mem::take(&mut guarded.too_large);
    let unknown_to_others = guarded.unknown_to_others.take();
    let done = tokio::task::spawn_blocking(move || guarded.set_aside()).await;
    let done = done.map_err(|error| error.to_string())?;
    let mut left = unknown_to_others.map_or(Ok(()), |reason| {
        Err(format!("calls of other `ikigai` processes do not know this call: {reason}"))
    });
    for dir in too_large {
        let shown = written_out(&dir.to_string_lossy());
        let text = format!(
            "`{shown}` was read-only for the tool, since it has too many files that other programs \
             execute, links that lead too far, or files that cannot be looked at; remove what is \
             not needed there"
        );
        left = Err(text.clone());
        match &call.widening {
            Some(widening) => widening.set_aside(text),
            None => tracing::warn!("{text}"),
        }
    }
    let (texts, first_left) = texts_of(&done);
    if let Some(first_left) = first_left {
        left = Err(first_left);
    }
    match &call.widening {
        Some(widening) => {
            let made = done.into_iter().filter(|it| !matches!(it.now, PlaceState::Replaced));
            let places: BTreeSet<PathBuf> = made.map(|it| it.place).collect();
            for path in places {
                widening.refused(RequestedAccess::Path { access: Access::ReadWrite, path });
            }
            texts.into_iter().for_each(|text| widening.set_aside(text));
        }
        None => texts.iter().for_each(|text| tracing::warn!("{text}")),
    }
    left
}

/// Returns a text for each of the first [`LISTED`] files that a tool made at guarded places, and
/// one with the number of the others. A tool can make any number. Those that are still there, and
/// places that were replaced, come first; also returns the text about the first of these.
fn texts_of(done: &[SetAside]) -> (Vec<String>, Option<String>) {
    let (moved, left): (Vec<&SetAside>, Vec<&SetAside>) =
        done.iter().partition(|it| matches!(it.now, PlaceState::Renamed(_)));

    let text = |it: &&SetAside| {
        let shown = written_out(&it.path.to_string_lossy());
        match &it.now {
            PlaceState::Renamed(name) => {
                let name = written_out(&name.to_string_lossy());
                format!(
                    "the tool made `{shown}`, which other programs execute; it is now called `{name}`"
                )
            }
            PlaceState::Left(reason) => {
                format!(
                    "the tool made `{shown}`, which other programs execute, and it is still there: {reason}"
                )
            }
            PlaceState::Replaced => format!(
                "`{shown}`, which other programs execute, was replaced or removed while the tool ran; \
                 look at it if you did not do that"
            ),
        }
    };
    let first_left = left.first().map(text);
    let all = left.iter().chain(&moved);
    let mut texts: Vec<String> = all.take(LISTED).map(text).collect();

    let more = done.len().saturating_sub(LISTED);
    if more > 0 {
        let still = left.len().saturating_sub(LISTED);
        let renamed = more - still;
        texts.push(format!(
            "the tool made {more} more such files: {renamed} are renamed in the same way, and \
             {still} are still there"
        ));
    }
    (texts, first_left)
}

/// Returns whether a tool with this end never ran, so that the supervisor watched nothing.
fn is_unstarted(end: &ToolEnd) -> bool {
    match end {
        ToolEnd::NotStarted(..) | ToolEnd::Refused(_) | ToolEnd::Unconfined(_) => true,
        ToolEnd::Code(_) | ToolEnd::Signal(_) | ToolEnd::Killed(_) => false,
    }
}

/// The largest number of files that the notes about a call list as set aside.
const LISTED: usize = 16;

/// The time limit for looking at the paths that a tool named. A path may lie on a server that is
/// gone.
const NOTING: Duration = Duration::from_secs(2);

/// Notes the granted directory of a file that was used, and in a recording the file itself.
fn note_used(
    widening: &Widening,
    touch: FileAccess,
    dirs: &[ikigai_protocol::GrantedDir],
    is_recorded: bool,
) {
    let around = dirs.iter().filter(|dir| touch.path.starts_with(&dir.path));
    if let Some(dir) = around.max_by_key(|dir| dir.path.as_os_str().len()) {
        widening.used(UsedAccess::Dir { path: dir.path.clone() });
    }
    if !is_recorded {
        return;
    }
    let access = match touch.access {
        plan::AccessKind::Read => Access::ReadOnly,
        plan::AccessKind::Change | plan::AccessKind::Make => Access::ReadWrite,
    };
    widening.used(UsedAccess::File { access, path: touch.path });
}

/// Returns the access that would have to be granted for a file that the tool named, or `None` if a
/// grant would not help.
fn of_path(touch: &FileAccess) -> Option<RequestedAccess> {
    let existing = std::fs::canonicalize(&touch.path).ok();
    let (path, access) = match (touch.access, existing) {
        (plan::AccessKind::Read, Some(path)) => (path, Access::ReadOnly),
        (plan::AccessKind::Change | plan::AccessKind::Make, Some(path)) => {
            (path, Access::ReadWrite)
        }
        // A file that is to be made lies in a directory that is to be granted.
        (plan::AccessKind::Make, None) => (directory_of(&touch.path)?, Access::ReadWrite),
        (plan::AccessKind::Read | plan::AccessKind::Change, None) => return None,
    };
    let right = match access {
        Access::ReadOnly => Right::READ_OK,
        Access::ReadWrite => Right::READ_OK | Right::WRITE_OK,
    };
    let grantable = std::fs::metadata(&path).is_ok_and(|it| it.is_file() || it.is_dir());
    (grantable && self::access(&path, right).is_ok())
        .then_some(RequestedAccess::Path { access, path })
}

/// Returns the links through which a tool named a file and which the tool does not see, whether it
/// sees the file or not.
fn missed_links(touch: &FileAccess, grant: &Grant) -> impl Iterator<Item = PathBuf> {
    let mut steps = paths::resolution_steps(&touch.path);
    // The last is the file.
    steps.pop();
    let is_seen = |link: &PathBuf| {
        let read = RequestedAccess::Path { access: Access::ReadOnly, path: link.clone() };
        grant.covers(&read) || is_in_base_view(link)
    };
    steps.into_iter().filter(move |link| !is_seen(link))
}

fn directory_of(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path.parent()?).ok().filter(|it| it.is_dir())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ikigai_protocol::GrantedDir;

    use super::*;

    #[test]
    fn what_a_grant_could_be_about_is_kept() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(scratch.path()).expect("a path");
        fs::write(root.join("file"), "x").expect("written");
        std::os::unix::fs::symlink(root.join("file"), root.join("link")).expect("linked");
        let reached = |name: &str, access| of_path(&FileAccess { path: root.join(name), access });
        let path = |access, path| Some(RequestedAccess::Path { access, path });
        let (read, write) = (Access::ReadOnly, Access::ReadWrite);
        use plan::AccessKind::{Change, Make, Read};
        assert_eq!(reached("link", Read), path(read, root.join("file")));
        assert_eq!(reached("file", Change), path(write, root.join("file")));
        assert_eq!(reached("file", Make), path(write, root.join("file")));
        assert_eq!(reached("new", Make), path(write, root.clone()));
        for (name, access) in [("new", Read), ("new", Change), ("no/new", Make)] {
            assert_eq!(reached(name, access), None, "{name}");
        }
        let null = FileAccess { path: "/dev/null".into(), access: Read };
        assert_eq!(of_path(&null), None, "a device");
    }

    #[test]
    fn the_notes_list_the_first_files_that_were_set_aside_and_count_the_others() {
        let made = |number: usize, is_left: bool| SetAside {
            path: format!("/w/.claude/{number}").into(),
            place: "/w/.claude".into(),
            now: match is_left {
                true => PlaceState::Left("busy".to_owned()),
                false => PlaceState::Renamed("new".into()),
            },
        };
        let few: Vec<SetAside> = (0..LISTED).map(|number| made(number, false)).collect();
        let (texts, first_left) = texts_of(&few);
        assert_eq!((texts.len(), first_left), (LISTED, None));
        // The last of many is still there.
        let many: Vec<SetAside> =
            (0..60_000).map(|number| made(number, number == 59_999)).collect();
        let (texts, first_left) = texts_of(&many);
        assert_eq!(texts.len(), LISTED + 1);
        let first_left = first_left.expect("one is left");
        assert!(first_left.contains("/w/.claude/59999") && first_left.contains("busy"));
        assert_eq!(texts[0], first_left);
        assert!(texts[LISTED].contains("59984 more") && texts[LISTED].contains("0 are still"));
    }

    #[test]
    fn a_link_that_the_tool_does_not_see_is_missed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(scratch.path()).expect("a path");
        for dir in ["bin", "lib"] {
            fs::create_dir(root.join(dir)).expect("made");
        }
        fs::write(root.join("lib/program"), "x").expect("written");
        std::os::unix::fs::symlink("../lib/program", root.join("bin/name")).expect("linked");
        std::os::unix::fs::symlink("bin", root.join("dir")).expect("linked");
        let missed = |dirs: &[&str]| {
            let dirs = dirs
                .iter()
                .map(|dir| GrantedDir { access: Access::ReadOnly, path: root.join(dir) });
            let grant = Grant { dirs: dirs.collect(), ..Grant::default() };
            let touch = FileAccess { path: root.join("dir/name"), access: plan::AccessKind::Read };
            missed_links(&touch, &grant).collect::<Vec<_>>()
        };
        assert_eq!(missed(&[]), [root.join("dir"), root.join("bin/name")]);
        assert_eq!(missed(&["lib"]), [root.join("dir"), root.join("bin/name")]);
        assert_eq!(missed(&["bin"]), [root.join("dir")]);
        assert_eq!(missed(&[""]), Vec::<PathBuf>::new());
    }
}
