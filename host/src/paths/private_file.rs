//! Private files of the user: files that several hosts append to under a lock, and secrets.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::draft::LEFT_BEHIND;
use super::lock_holder::LockHolder;
use super::trust::{check_ancestors, check_trusted, is_own, open_trusted_dir};
use super::{make_private, open_regular_behind_links};

/// The bits of a mode that give any right to users other than the owner.
const OTHERS: u32 = 0o077;

/// The time after which a process that waits for a lock logs a warning.
const SILENT: Duration = Duration::from_secs(1);

/// The most bytes of a secret.
const MAX_SECRET: u64 = 64 << 10;

/// Opens a private file of the user for appending and reading, in a private directory. Creates both
/// if they do not exist. Returns the directory and the file. Never blocks, unlike opening a FIFO.
///
/// # Errors
///
/// Fails if one of them is of another kind or a link, or if another user may write to it.
pub(crate) fn open_private(dir: &Path, name: &str) -> io::Result<(OwnedFd, File)> {
    make_private(dir)?;
    let dir = open_trusted_dir(dir, is_own)?;
    let flags = OFlags::RDWR
        | OFlags::APPEND
        | OFlags::CREATE
        // Don't wait for a FIFO's reader, and don't let a terminal become this process's own.
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(&dir, name, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(io::Error::other("it is a link")),
        Err(error) => return Err(error.into()),
    };
    check_trusted(&file.metadata()?, is_own)?;
    Ok((dir, file))
}

/// Locks a file exclusively, waiting for at most `timeout`. Returns whether the file is locked.
///
/// # Errors
///
/// Fails if it cannot be locked at all.
pub(crate) fn lock(file: &File, timeout: Duration) -> io::Result<bool> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(20);
    loop {
        match rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if begun.elapsed() >= timeout => return Ok(false),
            Err(Errno::WOULDBLOCK) => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(5));
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Locks a file exclusively. After a second of waiting, logs a warning that names the process that
/// holds the lock.
///
/// # Errors
///
/// Fails if another process holds the lock for the whole `timeout`, or the file cannot be locked at
/// all.
pub(crate) fn wait_for_lock(file: &File, path: &Path, timeout: Duration) -> io::Result<()> {
    let silent = timeout.min(SILENT);
    if lock(file, silent)? {
        return Ok(());
    }
    let path = path.display();
    if timeout > silent {
        let (holder, most) = (LockHolder::of_file(file), humantime::format_duration(timeout));
        tracing::warn!("waiting for at most {most}: {holder} has locked `{path}`");
        if lock(file, timeout - silent)? {
            return Ok(());
        }
    }
    let (holder, most) = (LockHolder::of_file(file), humantime::format_duration(timeout));
    let what = format!("{holder} has locked `{path}`, and did not release it within {most}");
    Err(io::Error::new(io::ErrorKind::TimedOut, what))
}

/// Reads a secret: a file of the user or root that no other user can read, write or replace.
/// Follows a link to such a file.
///
/// # Errors
///
/// Fails if it is not such a file, cannot be read, is longer than 64 KiB, or is not UTF-8.
pub fn read_secret(path: &Path) -> io::Result<String> {
    let is_trusted = |uid| uid == 0 || is_own(uid);
    let (file, metadata) = open_regular_behind_links(path)?;
    check_trusted(&metadata, is_trusted)?;
    if metadata.mode() & OTHERS != 0 {
        return Err(io::Error::other("others than its owner may read it"));
    }
    check_ancestors(&path.canonicalize()?, is_trusted)?;
    if metadata.len() > MAX_SECRET {
        return Err(io::Error::other("it is too long for a secret"));
    }
    let mut text = String::new();
    file.take(MAX_SECRET).read_to_string(&mut text)?;
    Ok(text)
}

/// Reads the secret `name` in a private directory of the user. Creates both unless they exist, the
/// secret with the text `fresh`. If several processes create it at once, all return the same
/// secret.
///
/// # Errors
///
/// Fails if one of them is of another kind, or another user may read or write it.
pub fn secret_of_user(dir: &Path, name: &str, fresh: &str) -> io::Result<String> {
    make_private(dir)?;
    let opened = open_trusted_dir(dir, is_own)?;
    let path = dir.join(name);
    match read_secret(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let draft = draft(&opened, name, fresh)?;
    // The secret must appear with its complete contents, or not at all.
    let linked = match rustix::fs::linkat(&opened, &draft, &opened, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    };
    rustix::fs::unlinkat(&opened, &draft, AtFlags::empty())?;
    linked?;
    read_secret(&path)
}

/// Writes the secret `name` in a private directory of the user. Creates the directory unless it
/// exists. The old secret stays until the new one is complete, even if the machine fails.
///
/// # Errors
///
/// Fails if another user may write to the directory, or if it cannot be written to.
pub fn replace_secret(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    make_private(dir)?;
    let opened = open_trusted_dir(dir, is_own)?;
    let draft = draft(&opened, name, text)?;
    if let Err(error) = rustix::fs::renameat(&opened, &draft, &opened, name) {
        rustix::fs::unlinkat(&opened, &draft, AtFlags::empty())?;
        return Err(error.into());
    }
    rustix::fs::fsync(&opened)?;
    Ok(())
}

/// Takes the lock `name` in a private directory of the user. Creates both unless they exist.
/// Dropping the returned file releases the lock. After a second of waiting, logs a warning that
/// names the process that holds the lock.
///
/// # Errors
///
/// Fails with [`io::ErrorKind::TimedOut`] if another process holds the lock for the whole
/// `timeout`. Also fails if the directory or the file is of another kind or a link, or if another
/// user may write to it.
pub fn lock_of_user(dir: &Path, name: &str, timeout: Duration) -> io::Result<File> {
    let (_, file) = open_private(dir, name)?;
    wait_for_lock(&file, &dir.join(name), timeout)?;
    Ok(file)
}

/// Locks a directory for this process, for commands that replace a file in it. Dropping the
/// returned value releases the lock. Returns `None` if another process holds the lock for the whole
/// `timeout`.
///
/// # Errors
///
/// Fails if the directory cannot be opened or locked.
pub fn lock_directory(dir: &Path, timeout: Duration) -> io::Result<Option<File>> {
    let directory = File::open(dir)?;
    Ok(lock(&directory, timeout)?.then_some(directory))
}

/// Writes a secret to a file named after this process, for the caller to rename. Returns that name.
fn draft(dir: &OwnedFd, name: &str, text: &str) -> io::Result<String> {
    let prefix = format!(".{name}.");
    sweep(dir, prefix.as_bytes())?;
    let draft = format!("{prefix}{}", std::process::id());
    // Remove the draft of a killed process that had the same process ID.
    match rustix::fs::unlinkat(dir, &draft, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, &draft, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(file);
    if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
        rustix::fs::unlinkat(dir, &draft, AtFlags::empty())?;
        return Err(error);
    }
    Ok(draft)
}

/// Removes the drafts of killed processes, because they contain secrets too.
fn sweep(dir: &OwnedFd, prefix: &[u8]) -> io::Result<()> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(number) = name.to_bytes().strip_prefix(prefix) else { continue };
        if !number.iter().all(u8::is_ascii_digit) {
            continue;
        }
        let removed = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).and_then(|stat| {
            let at = Duration::from_secs(stat.st_mtime.unsigned_abs());
            let is_old = SystemTime::UNIX_EPOCH + at + LEFT_BEHIND < SystemTime::now();
            if is_old { rustix::fs::unlinkat(dir, name, AtFlags::empty()) } else { Ok(()) }
        });
        match removed {
            // The draft's process has renamed it.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_secret_is_made_once_and_read_by_nobody_else() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = scratch.path().join("run");
        assert_eq!(secret_of_user(&dir, "token", "first").expect("made"), "first");
        assert_eq!(secret_of_user(&dir, "token", "second").expect("read"), "first");
        let file = dir.join("token");
        assert_eq!(fs::metadata(&file).expect("a file").mode() & 0o7777, 0o600);
        let names = fs::read_dir(&dir).expect("a directory").count();
        assert_eq!(names, 1, "no draft is left");
        let link = scratch.path().join("link");
        symlink(&file, &link).expect("a link");
        assert_eq!(read_secret(&link).expect("read"), "first");
        for (mode, is_private) in [(0o400, true), (0o640, false), (0o604, false), (0o620, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode");
            assert_eq!(read_secret(&file).is_ok(), is_private, "{mode:o}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("a mode");
        assert!(read_secret(&file).is_err(), "others can replace it");
        assert!(secret_of_user(&dir, "other", "x").is_err(), "others can write beside it");
    }

    #[test]
    fn a_secret_is_replaced_as_a_whole_under_its_lock() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = scratch.path().join("logins");
        replace_secret(&dir, "a", "first").expect("written");
        replace_secret(&dir, "a", "second").expect("replaced");
        assert_eq!(read_secret(&dir.join("a")).expect("read"), "second");
        assert_eq!(fs::metadata(dir.join("a")).expect("a file").mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(&dir).expect("a directory").count(), 1, "no draft is left");
        let held = lock_of_user(&dir, "a.lock", Duration::ZERO).expect("a lock");
        let error = lock_of_user(&dir, "a.lock", Duration::ZERO).expect_err("held");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let holder = format!(
            "(process {}) has locked `{}`",
            std::process::id(),
            dir.join("a.lock").display()
        );
        assert!(error.to_string().contains(&holder), "{error}");
        drop(held);
        lock_of_user(&dir, "a.lock", Duration::ZERO).expect("a lock");
        // A link is replaced, and its target stays unchanged.
        let outside = scratch.path().join("outside");
        fs::write(&outside, "mine").expect("written");
        symlink(&outside, dir.join("b")).expect("a link");
        replace_secret(&dir, "b", "third").expect("written");
        // The draft of a killed process is a secret as well.
        let names = [".b.1", ".b.2", ".b.x"].map(|name| dir.join(name));
        for (path, hours) in names.iter().zip([2, 0, 2]) {
            let file = File::create(path).expect("made");
            let at = SystemTime::now() - Duration::from_secs(hours * 60 * 60);
            file.set_modified(at).expect("set");
        }
        replace_secret(&dir, "b", "fourth").expect("written");
        assert_eq!(names.map(|path| path.exists()), [false, true, true]);
        assert_eq!(fs::read_to_string(&outside).expect("read"), "mine");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("a mode");
        assert!(replace_secret(&dir, "a", "x").is_err(), "others can write beside it");
    }

    #[test]
    fn a_directory_or_a_large_file_is_no_secret() {
        let scratch = tempfile::tempdir().expect("a directory");
        assert!(read_secret(scratch.path()).is_err());
        let large = scratch.path().join("large");
        fs::write(&large, vec![b'x'; MAX_SECRET as usize + 1]).expect("written");
        fs::set_permissions(&large, fs::Permissions::from_mode(0o600)).expect("a mode");
        assert!(read_secret(&large).is_err());
    }
}
