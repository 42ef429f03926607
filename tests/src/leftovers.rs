//! The search for processes that a test left behind.
//!
//! A process belongs to a test if the path of the test's directory occurs in its command line, its
//! environment, its working directory, its program or its open files. So a tool cannot hide behind
//! a new session, a new parent or a new name, unless it closes and forgets everything.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::eventually;

/// Fails if processes that belong to `dir` do not end. Background compilations, which large
/// components cause and which continue after the host, are killed first.
#[track_caller]
pub fn assert_none(dir: &Path) {
    end_compilations(dir);
    eventually("no process is left running", || list(dir), Vec::is_empty);
}

/// Returns the processes that belong to `dir`, each as its number and command line.
#[must_use]
pub fn list(dir: &Path) -> Vec<String> {
    let text = |(pid, process): (i32, PathBuf)| format!("{pid}: {}", command_line(&process));
    processes().filter(|(_, process)| belongs(process, dir)).map(text).collect()
}

/// Kills the background compilations that belong to `dir`. Their cache may be shared with another
/// test, which then compiles the component itself.
pub fn end_compilations(dir: &Path) {
    for (pid, process) in processes() {
        let line = command_line(&process);
        if line.starts_with("ikigai-compiler behind ") && belongs(&process, dir) {
            let pid = Pid::from_raw(pid).expect("no process has the number 0");
            // The process may have ended in the meantime. The one that it started ends with it.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn processes() -> impl Iterator<Item = (i32, PathBuf)> {
    let own = std::process::id().cast_signed();
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(move |pid| *pid != own).map(|pid| (pid, PathBuf::from(format!("/proc/{pid}"))))
}

fn belongs(process: &Path, dir: &Path) -> bool {
    let mark = dir.as_os_str().as_bytes();
    let names = |bytes: &[u8]| bytes.windows(mark.len()).any(|window| window == mark);
    let texts = ["cmdline", "environ"].map(|name| process.join(name));
    let links = ["cwd", "exe"].map(|name| process.join(name));
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    texts.iter().any(|path| fs::read(path).is_ok_and(|text| names(&text)))
        || links.into_iter().chain(open.map(|entry| entry.path())).any(|link| {
            fs::read_link(link).is_ok_and(|target| names(target.as_os_str().as_bytes()))
        })
}

fn command_line(process: &Path) -> String {
    let text = fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&text).replace('\0', " ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_found_by_whatever_it_has_of_the_test() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = fs::File::create(dir.path().join("file")).expect("a file");
        let sleep = || {
            let mut command = Command::new("sleep");
            command.arg("1000").env_clear().current_dir("/");
            command
        };
        let mut named = Command::new("sh");
        // The script waits for its stdin, because a child that it waited for would outlive it.
        named.args(["-c", "read line", "sh"]).arg(dir.path()).env_clear().current_dir("/");
        named.stdin(std::process::Stdio::piped());
        let mut in_environment = sleep();
        in_environment.env("ANY", dir.path());
        let mut working_there = sleep();
        working_there.current_dir(dir.path());
        let mut holding = sleep();
        holding.stdout(file);
        for mut command in [named, in_environment, working_there, holding] {
            let mut child = command.spawn().expect("runs");
            let pid = child.id().to_string();
            let found = || list(dir.path()).iter().any(|it| it.starts_with(&format!("{pid}: ")));
            let seen = found();
            child.kill().expect("killed");
            child.wait().expect("reaped");
            assert!(seen && !found(), "{command:?}");
        }
    }
}
