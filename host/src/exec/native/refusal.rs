//! Messages about programs that could not be started: the reason, and what to do.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ikigai_supervisor::plan::StartStep;
use ikigai_supervisor::shebang::{LINE, Shebang};

/// Returns the message about a `step` of the start of `program` that failed with `errno`.
pub(super) fn explain(
    program: &Path,
    workspace: &Path,
    step: StartStep,
    errno: i32,
    sandboxed: bool,
) -> String {
    let error = io::Error::from_raw_os_error(errno);
    let name = program.display();
    match step {
        // The kernel charges the memory of the sandbox to the call as well.
        StartStep::Exec | StartStep::Landlock | StartStep::Filter if errno == libc::ENOMEM => {
            format!("`{name}` needs more memory to start than its limit allows")
        }
        StartStep::Exec => match errno {
            libc::ENOENT => not_found(program, sandboxed),
            libc::EACCES => format!(
                "`{name}` may not be executed: it lacks execute permission (`chmod +x`), \
                 or lies in a directory or on a mount that forbids it, or its interpreter does"
            ),
            libc::ENOEXEC => not_executable(program),
            libc::E2BIG => format!(
                "the arguments and the environment of `{name}` are too long for the system; \
                 pass large values on stdin"
            ),
            libc::ETXTBSY => {
                format!("`{name}` is still being written; try again when it is complete")
            }
            libc::ELOOP => {
                format!("`{name}` is a symbolic link, or has an interpreter, that leads to itself")
            }
            _ => format!("`{name}` could not be executed: {error}"),
        },
        StartStep::Directory => {
            format!("the workspace `{}` cannot be entered: {error}", workspace.display())
        }
        StartStep::Clone => format!(
            "no process could be made for `{name}`: {error}; the system or the user may have too many"
        ),
        StartStep::Bind | StartStep::Limits | StartStep::Cgroup | StartStep::Streams => {
            format!("a process for `{name}` could not be prepared: {error}")
        }
        StartStep::Landlock | StartStep::Filter => {
            format!("the sandbox of `{name}` could not be closed: {step:?}: {error}")
        }
    }
}

/// Returns the message about a program that is missing, or whose interpreter or loader is.
fn not_found(program: &Path, sandboxed: bool) -> String {
    let name = program.display();
    let head = match head(program) {
        Ok(head) => head,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return format!("`{name}` does not exist");
        }
        Err(error) => return format!("`{name}` or its interpreter cannot be found: {error}"),
    };
    match interpreter(&head) {
        Some(line) if sandboxed && Path::new(&line).exists() => format!(
            "the interpreter `{line}` of `{name}`, or what it is installed with, is not shown to a \
             sandboxed tool; install it beneath `/usr`, or grant the tool its directory"
        ),
        Some(line) => format!(
            "the interpreter `{line}` of `{name}` does not exist; \
             install it, or correct the first line of the script"
        ),
        None => format!(
            "the loader that `{name}` asks for does not exist: it was built for another \
             C library or architecture; build it here, or link it statically"
        ),
    }
}

/// Returns the message about a file that the kernel does not know how to execute.
fn not_executable(program: &Path) -> String {
    let name = program.display();
    match head(program) {
        Ok(head) if head.is_empty() => format!("`{name}` is empty"),
        Ok(head) if head.starts_with(b"\x7fELF") => format!(
            "`{name}` is built for another architecture, or damaged; build it for {}",
            std::env::consts::ARCH
        ),
        Ok(head) if head.starts_with(b"#!") => {
            format!("the first line of `{name}` names no interpreter that can be run")
        }
        _ => format!(
            "`{name}` is not an executable for this system; if it is a script, \
             its first line has to name the interpreter, as in `#!/bin/sh`"
        ),
    }
}

fn head(program: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    // The file may have been replaced since, and a FIFO would block the host.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(program)?;
    file.take(LINE).read_to_end(&mut head)?;
    Ok(head)
}

/// Returns the name after `#!`, without its argument. A carriage return, which an editor of
/// another system may have left and which is part of the name to the kernel, is shown.
fn interpreter(head: &[u8]) -> Option<String> {
    let line = Shebang::parse(head)?;
    Some(line.interpreter.to_string_lossy().replace('\r', "\\r"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_says_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let message = |content: &[u8], errno: i32| {
            let path = dir.path().join("tool");
            std::fs::write(&path, content).expect("written");
            explain(&path, dir.path(), StartStep::Exec, errno, false)
        };
        for (content, errno, expected) in [
            (&b"#!/nowhere/python3 -u\nprint()"[..], libc::ENOENT, "`/nowhere/python3`"),
            (b"#!/bin/sh\r\n", libc::ENOENT, "`/bin/sh\\r`"),
            (b"\x7fELF...", libc::ENOENT, "loader"),
            (b"\x7fELF...", libc::ENOEXEC, std::env::consts::ARCH),
            (b"echo hi\n", libc::ENOEXEC, "`#!/bin/sh`"),
            (b"", libc::ENOEXEC, "is empty"),
            (b"echo hi\n", libc::EACCES, "`chmod +x`"),
            (b"", libc::E2BIG, "stdin"),
        ] {
            let text = message(content, errno);
            assert!(text.contains(expected), "`{text}` does not say `{expected}`");
        }
        let absent =
            explain(&dir.path().join("absent"), dir.path(), StartStep::Exec, libc::ENOENT, false);
        assert!(absent.ends_with("does not exist"), "{absent}");
        for step in [StartStep::Exec, StartStep::Landlock, StartStep::Filter] {
            let text = explain(dir.path(), dir.path(), step, libc::ENOMEM, true);
            assert!(text.contains("more memory to start"), "{text}");
        }
    }
}
