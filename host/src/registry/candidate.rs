//! The files of a tool directory that may be tools, found by their names and modes.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_protocol::Digest;
use ikigai_supervisor::filesystems;
use rustix::io::Errno;

use super::file;
use super::memo::{FileIdentity, Memo};
use super::wrapped::{WrapDefinition, is_wrap_definition};
use crate::exec::wrap::Wrapper;
use crate::policy::{Backend, RegisteredTool, ToolOrigin};

/// The number of bytes that can be read and digested in about the time that a thread takes to
/// start.
const MUCH: u64 = 1 << 20;

/// A file that may be a tool.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) origin: ToolOrigin,
    pub(super) backend: Backend,
    /// The registered tools that the file is, if the caller named it by its path.
    pub(super) registered: Vec<RegisteredTool>,
    metadata: fs::Metadata,
    wrapped: Option<WrappedCandidate>,
}

/// The program that a candidate wraps, if the candidate is a definition.
#[derive(Clone, Debug)]
struct WrappedCandidate {
    definition: WrapDefinition,
    program: Box<Candidate>,
}

/// The reason that the file at a path cannot be a tool.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    /// It does not exist, or its metadata cannot be read.
    #[error(transparent)]
    Missing(#[from] io::Error),
    /// It is a directory, a FIFO or similar.
    #[error("it is not a regular file")]
    NotAFile,
    /// It is not executable. It may be a program or any other file.
    #[error("it is not executable; `chmod +x '{}'` makes it so", .0.display())]
    NotExecutable(PathBuf),
    /// Its contents are a component, but its name does not end in `.wasm`.
    #[error("it is WebAssembly, and its name does not end in `.wasm`; rename it")]
    Unnamed,
    /// It is the definition of a wrapped program, and has a mistake.
    #[error("{0}")]
    Definition(String),
    /// It is a definition, but its program cannot be used.
    #[error("its program `{}` cannot be used: {reason}", program.display())]
    Program { program: PathBuf, reason: String },
}

impl Candidate {
    /// Returns the file at `path`, if it is a regular file that is executable or ends in `.wasm`,
    /// or a symbolic link to one, or if it is a definition. Opens only definitions of wrapped
    /// programs. A definition has the backend of its program.
    ///
    /// # Errors
    ///
    /// Fails if it is not a candidate. The error is the reason.
    pub(super) fn at(path: PathBuf, origin: ToolOrigin) -> Result<Self, Unfit> {
        // A tool starts in its workspace, but a relative path is not relative to the workspace.
        let path = std::path::absolute(path)?;
        let metadata = fs::metadata(&path)?;
        if !metadata.is_file() {
            return Err(Unfit::NotAFile);
        }
        if is_wrap_definition(&path) {
            return Self::wrapping(path, origin, metadata);
        }
        let backend = if is_definition(&path) {
            Backend::Mcp
        } else if path.extension().is_some_and(|extension| extension == "wasm") {
            Backend::Wasm
        } else if metadata.permissions().mode() & 0o111 != 0 {
            Backend::Native
        } else if head(&path).is_some_and(|head| head == WASM) {
            return Err(Unfit::Unnamed);
        } else {
            return Err(Unfit::NotExecutable(path));
        };
        Ok(Self { path, origin, backend, registered: Vec::new(), metadata, wrapped: None })
    }

    /// Returns the definition of a wrapped program.
    fn wrapping(path: PathBuf, origin: ToolOrigin, metadata: fs::Metadata) -> Result<Self, Unfit> {
        let definition =
            WrapDefinition::read(&path).map_err(|error| Unfit::Definition(error.line()))?;
        let program = definition.program.clone();
        let unusable = |reason: String| Unfit::Program { program: program.clone(), reason };
        // A definition cannot wrap another definition, so this recursion ends.
        let program = Self::at(program.clone(), origin).map_err(|unfit| {
            let is_name =
                program.file_name().is_some_and(|name| path.with_file_name(name) == program);
            match unfit {
                Unfit::Missing(error) if is_name => unusable(format!(
                    "{error}; the path of a program that does not lie next to its definition begins \
                     with `/`"
                )),
                unfit => unusable(unfit.to_string()),
            }
        })?;
        if program.backend == Backend::Mcp {
            return Err(unusable("it defines a server".to_owned()));
        }
        let backend = program.backend;
        let wrapped = Some(WrappedCandidate { definition, program: Box::new(program) });
        Ok(Self { path, origin, backend, registered: Vec::new(), metadata, wrapped })
    }

    /// Returns the path without `.wasm`, which both builds of a tool share.
    pub(super) fn stem(&self) -> PathBuf {
        match self.backend {
            Backend::Wasm if self.wrapped.is_none() => self.path.with_extension(""),
            Backend::Native | Backend::Wasm | Backend::Mcp => self.path.clone(),
        }
    }

    /// Returns the file that runs: the candidate itself, or the program that it wraps.
    pub(super) fn program(&self) -> &Self {
        self.wrapped.as_ref().map_or(self, |wrapped| &wrapped.program)
    }

    /// Returns whether both run the same file: they are one file under any names, or have the same
    /// contents, or one of them is the program that the other wraps.
    pub(super) fn is_also(&self, other: &Self, memo: &Memo) -> bool {
        self.equals(other, memo)
            || self.wrapped.is_some() && self.program().equals(other, memo)
            || other.wrapped.is_some() && self.equals(other.program(), memo)
    }

    /// Returns whether both are one file, or have the same contents.
    fn equals(&self, other: &Self, memo: &Memo) -> bool {
        let inode = |it: &Self| (it.metadata.dev(), it.metadata.ino());
        if inode(self) == inode(other) {
            return true;
        }
        let contents = |it: &Self| it.contents(memo).ok();
        // The contents are read only if they can be the same.
        self.metadata.len() == other.metadata.len()
            && contents(self).is_some_and(|own| contents(other) == Some(own))
    }

    /// Returns the wrapper around the program, if the candidate is a definition.
    pub(super) fn wrapper(&self) -> Option<&Arc<Wrapper>> {
        self.wrapped.as_ref().map(|wrapped| &wrapped.definition.wrapper)
    }

    /// Returns whether [`Self::digest`] may take too long to run on a shared thread.
    pub(super) fn takes_long(&self, memo: &Memo) -> bool {
        let program = self.program();
        program.metadata.len() > MUCH && program.known_contents(memo).is_none()
    }

    /// Returns the digest that the candidate's grant is bound to, if its program is known.
    pub(super) fn known_digest(&self, memo: &Memo) -> Option<Digest> {
        self.program().known_contents(memo).map(|contents| self.digest_with(contents))
    }

    /// Returns the digest that the candidate's grant is bound to.
    pub(super) fn digest(&self, memo: &Memo) -> io::Result<Digest> {
        self.program().contents(memo).map(|contents| self.digest_with(contents))
    }

    /// Returns the digest that the candidate's grant is bound to, if its program has these
    /// contents. For a definition, it is the digest of the definition and the program together.
    pub(super) fn digest_with(&self, contents: Digest) -> Digest {
        self.wrapped.as_ref().map_or(contents, |wrapped| wrapped.definition.digest(contents))
    }

    /// Returns the digest of the file, if the file is known.
    fn known_contents(&self, memo: &Memo) -> Option<Digest> {
        memo.digest(&FileIdentity::from_metadata(&self.metadata))
    }

    /// Returns the digest of the file. Reads the file only if it is not known.
    pub(super) fn contents(&self, memo: &Memo) -> io::Result<Digest> {
        if let Some(digest) = self.known_contents(memo) {
            return Ok(digest);
        }
        if self.backend == Backend::Wasm {
            file::check_size(self.metadata.len())?;
        }
        let mut opened = file::open(&self.path)?;
        // The compiled code of a component is found by its digest, so it always belongs to the same
        // contents.
        let tells = self.backend == Backend::Wasm || changes_are_told(&opened);
        let before = opened.metadata()?;
        let digest = Digest::of_reader(&mut opened)?;
        // Since the first look a link may lead elsewhere, and a file may be written while it is
        // read.
        let identity = FileIdentity::from_metadata(&self.metadata);
        let is_same = |metadata: &fs::Metadata| FileIdentity::from_metadata(metadata) == identity;
        if tells && is_same(&before) && is_same(&opened.metadata()?) {
            memo.keep_digest(&identity, &self.metadata, digest);
        }
        Ok(digest)
    }
}

/// Returns whether each change from now on will change the times of a file. A store into a mapped
/// page changes the times only after the page was written back. A memory file system never writes
/// pages back.
fn changes_are_told(file: &fs::File) -> bool {
    if !filesystems::is_memory(file).is_ok_and(|is_memory| !is_memory) {
        return false;
    }
    match file.sync_all() {
        Ok(()) => true,
        // A file that cannot be written has nothing to write back.
        Err(error) => {
            matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::ROFS))
        }
    }
}

/// The files of a directory of tools.
#[derive(Default)]
pub(super) struct ToolListing {
    /// The candidates, in the order of their names.
    pub(super) candidates: Vec<Candidate>,
    /// The files that were probably meant to be tools but are not, with the reason.
    pub(super) overlooked: Vec<(PathBuf, Unfit)>,
}

/// Lists a directory of tools.
///
/// # Errors
///
/// Fails if the directory does not exist or cannot be read.
pub(super) fn list(dir: &Path, origin: ToolOrigin) -> io::Result<ToolListing> {
    let mut paths = fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<PathBuf>>>()?;
    paths.retain(|path| !is_hidden(path));
    paths.sort();
    let mut listing = ToolListing::default();
    for path in paths {
        match Candidate::at(path.clone(), origin) {
            Ok(candidate) => listing.candidates.push(candidate),
            Err(unfit) if is_meant(&path, &unfit) => listing.overlooked.push((path, unfit)),
            Err(_) => {}
        }
    }
    // A program that a definition in the same directory wraps is not a tool on its own.
    let definitions = listing.candidates.iter().filter_map(|it| it.wrapped.as_ref());
    let wrapped: Vec<PathBuf> = definitions.map(|it| it.program.path.clone()).collect();
    listing.candidates.retain(|candidate| !wrapped.contains(&candidate.path));
    Ok(listing)
}

/// Returns whether a file was probably meant to be a tool. A tool directory may also contain a
/// README, a tool's data or a folder.
fn is_meant(path: &Path, unfit: &Unfit) -> bool {
    match unfit {
        Unfit::Unnamed | Unfit::Definition(_) | Unfit::Program { .. } => true,
        Unfit::NotExecutable(_) => {
            head(path).is_some_and(|head| head == ELF || head.starts_with(SCRIPT))
        }
        // Report a link that leads nowhere, but not a file that was removed in the meantime.
        Unfit::Missing(_) => path.is_symlink(),
        Unfit::NotAFile => false,
    }
}

/// The file name suffix of server definitions.
pub(super) const DEFINITION: &str = ".mcp.toml";

/// Returns whether a file is a server definition, judging by its name.
fn is_definition(path: &Path) -> bool {
    file::name(path).strip_suffix(DEFINITION).is_some_and(|name| !name.is_empty())
}

/// The first bytes of an executable, a script and a WebAssembly file.
const ELF: [u8; 4] = *b"\x7fELF";
const SCRIPT: &[u8] = b"#!";
const WASM: [u8; 4] = *b"\0asm";

/// Returns the first bytes of a file, if the file can be read and is long enough.
fn head(path: &Path) -> Option<[u8; 4]> {
    let mut head = [0; 4];
    file::open(path).ok()?.read_exact(&mut head).ok()?;
    Some(head)
}

/// Returns whether a file is hidden: editors and installers hide unfinished files.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::paths::has_settled;

    fn program(path: &Path, text: &str) {
        fs::write(path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permitted");
    }

    /// Waits until the times of a file are reliable.
    fn settle(path: &Path) {
        while !has_settled(&fs::metadata(path).expect("a file")) {
            std::thread::yield_now();
        }
    }

    fn digest(path: &Path, memo: &Memo) -> Digest {
        let candidate = Candidate::at(path.to_owned(), ToolOrigin::User).expect("a program");
        candidate.digest(memo).expect("a digest")
    }

    #[test]
    fn an_unchanged_file_is_known() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (path, memo) = (scratch.path().join("tool"), Memo::open(None, String::new()));
        program(&path, "#!/bin/sh");
        settle(&path);
        let read = digest(&path, &memo);
        let candidate = Candidate::at(path.clone(), ToolOrigin::User).expect("a program");
        let is_memory = filesystems::is_memory(fs::File::open(&path).expect("opened"));
        let expected = (!is_memory.expect("told")).then_some(read);
        assert_eq!(candidate.known_digest(&memo), expected);
    }

    #[test]
    fn a_store_into_a_mapping_is_noticed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (path, memo) = (scratch.path().join("tool"), Memo::open(None, String::new()));
        program(&path, "#!/bin/sh\ngood");
        let file = fs::File::options().read(true).write(true).open(&path).expect("opened");
        let (length, flags) = (14, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping of a file whose length stays unchanged while the mapping is used.
        let page = unsafe {
            libc::mmap(std::ptr::null_mut(), length, flags, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(page, libc::MAP_FAILED);
        let page = page.cast::<u8>();
        let store = |byte: u8| {
            // SAFETY: the eleventh byte of the mapping, which nothing else references.
            unsafe { page.add(10).write_volatile(byte) };
        };
        // From here on, stores into the page do not change its times.
        store(b'g');
        settle(&path);
        let good = digest(&path, &memo);
        store(b'f');
        assert_ne!(digest(&path, &memo), good);
        assert_eq!(fs::read(&path).expect("read"), b"#!/bin/sh\nfood");
        // SAFETY: nothing uses the mapping after this.
        assert_eq!(unsafe { libc::munmap(page.cast(), length) }, 0);
    }

    #[test]
    fn what_is_read_behind_a_link_is_not_kept_for_what_was_looked_at() {
        let scratch = tempfile::tempdir().expect("a directory");
        let at = |name: &str| scratch.path().join(name);
        let memo = Memo::open(None, String::new());
        program(&at("evil"), "#!/bin/sh\nevil");
        program(&at("good"), "#!/bin/sh\ngood");
        symlink("evil", at("tool")).expect("linked");
        settle(&at("good"));
        let candidate = Candidate::at(at("tool"), ToolOrigin::User).expect("a program");
        fs::remove_file(at("tool")).expect("removed");
        symlink("good", at("tool")).expect("linked");
        let good = candidate.digest(&memo).expect("a digest");
        assert_ne!(digest(&at("evil"), &memo), good);
    }
}
