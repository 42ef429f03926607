//! The paths of the host's own files and directories, each declared once.
//!
//! Also owns how these files are opened and created, and, in `trust`, the check of who else may
//! write to them.

mod draft;
mod found_place;
mod inode_state;
mod lock_holder;
mod private_file;
mod resolution;
mod trust;

use std::ffi::OsString;
#[cfg(target_os = "linux")]
use std::ffi::{CStr, OsStr};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Once;

use rustix::fs::OFlags;
#[cfg(target_os = "linux")]
use rustix::fs::{CWD, Mode, ResolveFlags, openat2};
#[cfg(target_os = "linux")]
use rustix::io::Errno;
use strum::VariantArray as _;

pub use draft::{draft_directory_in, draft_in};
#[cfg(target_os = "linux")]
pub(crate) use found_place::is_absence;
#[cfg(test)]
pub(crate) use found_place::tests::{open_scratch, while_closed};
pub(crate) use found_place::{FoundPlace, find_place};
#[cfg(target_os = "linux")]
pub(crate) use inode_state::{CALL_AGE, TICK};
pub(crate) use inode_state::{InodeState, has_settled};
pub use lock_holder::lock_holder;
pub(crate) use private_file::{lock, open_private, wait_for_lock};
pub use private_file::{lock_directory, lock_of_user, read_secret, replace_secret, secret_of_user};
#[cfg(target_os = "linux")]
pub(crate) use resolution::resolve_within;
pub(crate) use resolution::{LinkEnd, Resolution, resolve};
pub use trust::{
    OtherWriter, UntrustedAncestor, check_ancestors, is_own, is_trusted, other_writer,
    program_owner,
};
pub(crate) use trust::{is_changeable, open_trusted, open_trusted_dir, other_names};

/// The files and directories of one installation and one user.
///
/// [`of_installation`](Self::of_installation) fills in all fields: the installation's paths below a
/// prefix, and the user's paths from the environment (`HOME`, `XDG_CONFIG_HOME` and similar
/// variables). You can replace every field. A service without a user sets its own paths:
///
/// ```no_run
/// use std::path::PathBuf;
///
/// use ikigai_host::{Host, Paths};
///
/// # fn main() -> Result<(), ikigai_host::BuildError> {
/// let own = PathBuf::from("/var/lib/my-service");
/// let paths = Paths {
///     // Tools besides those of the installation. It is required: without it there is a warning.
///     user_tools: Some(own.join("tools")),
///     required: vec![own.join("tools")],
///     policy: Some(own.join("policy.toml")),
///     cache: Some(own.join("cache")),
///     state: Some(own.join("state")),
///     ..Paths::of_installation("/usr")
/// };
/// let host = Host::builder("/srv/work").paths(paths).build()?;
/// # Ok(())
/// # }
/// ```
///
/// A field that is `None` turns off the features that need it: without `cache` each process
/// compiles anew, without `state` calls are not recorded. No tool may write to any of the paths,
/// except below `home`.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The tools of the installation: `PREFIX/libexec/ikigai`. The built-in grants are for tools in
    /// this directory.
    pub system_tools: Option<PathBuf>,
    /// The compiled components of the installation: `PREFIX/libexec/ikigai/.cache`. Machine code is
    /// loaded only from here and from `cache`.
    pub system_cache: Option<PathBuf>,
    /// The tools of the user: `~/.ikigai/tools`; `None` without a home.
    pub user_tools: Option<PathBuf>,
    /// The paths among `system_tools`, `user_tools` and `policy` that were named explicitly, and so
    /// must exist. A missing tool directory is a warning of the snapshot. A missing policy is an
    /// error of the builder.
    pub required: Vec<PathBuf>,
    /// The cache: `$XDG_CACHE_HOME/ikigai` or `~/.cache/ikigai`.
    pub cache: Option<PathBuf>,
    /// The configuration: `$XDG_CONFIG_HOME/ikigai` or `~/.config/ikigai`. The host only protects
    /// it.
    pub config: Option<PathBuf>,
    /// The data: `$XDG_DATA_HOME/ikigai` or `~/.local/share/ikigai`. The host only protects it.
    pub data: Option<PathBuf>,
    /// The state: `$XDG_STATE_HOME/ikigai` or `~/.local/state/ikigai`. Contains the [audit
    /// log](crate::audit) and, in `calls`, a file for each running native call.
    pub state: Option<PathBuf>,
    /// The user's policy: `policy.toml` of `config`. It need not exist, unless it is `required`.
    pub policy: Option<PathBuf>,
    /// The administrator's policy: `/etc/ikigai/policy.toml`, which need not exist. A program
    /// should not let its users choose this path: a user who could name another file would escape
    /// the administrator's policy.
    pub ceiling: PathBuf,
    /// The user's home, which `~` stands for in a policy file. Without `HOME`, it is the home of the
    /// account.
    pub home: Option<PathBuf>,
    /// The program that every native call runs under: `PREFIX/libexec/ikigai-supervisor`. It is not
    /// in the tool directory, because each file there is asked for its schema. Without it, native
    /// tools cannot be called.
    pub supervisor: Option<PathBuf>,
    /// The program that compiles components: `PREFIX/libexec/ikigai-compiler`, of the same version
    /// as this library. Without it, components that are not in a cache cannot be called.
    pub compiler: Option<PathBuf>,
}

/// The administrator's policy, which bounds every user.
const CEILING: &str = "/etc/ikigai/policy.toml";

/// The kinds of a user's files that have a variable of the XDG base directory specification.
#[derive(Clone, Copy, strum::VariantArray)]
enum XdgDir {
    Cache,
    Config,
    Data,
    State,
}

impl XdgDir {
    /// Returns the variable, and the directory without it, relative to the home.
    const fn variable_and_usual(self) -> (&'static str, &'static str) {
        match self {
            Self::Cache => ("XDG_CACHE_HOME", ".cache"),
            Self::Config => ("XDG_CONFIG_HOME", ".config"),
            Self::Data => ("XDG_DATA_HOME", ".local/share"),
            Self::State => ("XDG_STATE_HOME", ".local/state"),
        }
    }

    /// Returns the host's directory of this kind without the variable.
    fn usual(self, home: &Path) -> PathBuf {
        home.join(self.variable_and_usual().1).join(OWN)
    }
}

/// The user's tools, relative to the home.
const USER_TOOLS: &str = ".ikigai/tools";

/// The extension of the lock file beside a directory of tools.
const LOCK_EXTENSION: &str = "lock";

/// The name of the user's directory for one kind of files.
const OWN: &str = "ikigai";

/// The name of a policy file.
pub const POLICY: &str = "policy.toml";

impl Paths {
    /// Returns the user's directories, from the environment, and the installation that the running
    /// program belongs to: `PREFIX/bin/PROGRAM` belongs to `PREFIX`. Suits the program `ikigai`,
    /// and a program that is installed below the same prefix. Other programs use
    /// [`of_installation`](Self::of_installation).
    #[must_use]
    pub fn of_user() -> Self {
        let program = running_program().ok().and_then(|program| resolved(&program).ok());
        // An installation has `bin/ikigai` and `libexec`. A build tree has `target/debug/ikigai`
        // and `target/libexec`.
        Self::with(program.as_deref().and_then(Path::parent).and_then(Path::parent))
    }

    /// Returns the user's directories, from the environment, and the installation below `prefix`,
    /// such as `/usr`.
    #[must_use]
    pub fn of_installation(prefix: impl AsRef<Path>) -> Self {
        Self::with(Some(prefix.as_ref()))
    }

    fn with(prefix: Option<&Path>) -> Self {
        let dir_of = |name: &str| {
            let dir = variable(name).map(PathBuf::from).filter(|dir| dir.is_absolute())?;
            // Without doubled slashes: paths are compared.
            Some(dir.components().collect::<PathBuf>())
        };
        let account = || std::env::home_dir().filter(|home| home.is_absolute());
        let home = dir_of("HOME").or_else(account);
        // The XDG base directory specification: relative paths must be ignored.
        let xdg = |kind: XdgDir| match dir_of(kind.variable_and_usual().0) {
            Some(dir) => Some(dir.join(OWN)),
            None => home.as_deref().map(|home| kind.usual(home)),
        };
        let config = xdg(XdgDir::Config);
        let libexec = prefix.map(|prefix| prefix.join("libexec"));
        let system_tools = libexec.as_ref().map(|libexec| libexec.join("ikigai"));
        Self {
            system_cache: system_tools.as_ref().map(|dir| dir.join(SYSTEM_CACHE)),
            system_tools,
            supervisor: libexec.as_ref().map(|libexec| libexec.join("ikigai-supervisor")),
            compiler: libexec.map(|libexec| libexec.join("ikigai-compiler")),
            user_tools: home.as_ref().map(|home| home.join(USER_TOOLS)),
            required: Vec::new(),
            cache: xdg(XdgDir::Cache),
            policy: config.as_ref().map(|dir| dir.join(POLICY)),
            config,
            data: xdg(XdgDir::Data),
            state: xdg(XdgDir::State),
            ceiling: PathBuf::from(CEILING),
            home,
        }
    }

    /// Returns the lock file of the user's tools, next to their directory and named after it:
    /// `~/.ikigai/tools.lock`. It need not exist.
    #[must_use]
    pub fn lock(&self) -> Option<PathBuf> {
        Some(self.user_tools.as_ref()?.with_added_extension(LOCK_EXTENSION))
    }

    /// Returns the directory for tools from workspaces: `tools` of `data`. It need not exist.
    #[must_use]
    pub fn workspace_tools(&self) -> Option<PathBuf> {
        Some(self.data.as_ref()?.join("tools"))
    }

    /// Returns the directory in which the running native calls of this user are noted.
    pub(crate) fn calls(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("calls"))
    }

    /// Returns the directories in which runs of this user record something: `state`, and the
    /// directory that is the state without `XDG_STATE_HOME`. Without `state`, nothing is recorded.
    pub(crate) fn states(&self) -> Vec<PathBuf> {
        let Some(state) = &self.state else { return Vec::new() };
        let usual = self.home.as_ref().map(|home| XdgDir::State.usual(home));
        let usual = usual.filter(|usual| usual != state);
        [Some(state.clone()), usual].into_iter().flatten().collect()
    }

    /// Returns the paths that no tool may write: all of these fields except `home`, the lock file,
    /// the running program, and the user's own places without variables such as `XDG_CONFIG_HOME`:
    /// other runs use them. Paths are canonical as far as they exist. Links that lead to one of them
    /// are included, because a replaced link leads elsewhere.
    #[must_use]
    pub fn protected(&self) -> Vec<PathBuf> {
        let Self {
            system_tools,
            system_cache,
            user_tools,
            required,
            cache,
            config,
            data,
            state,
            policy,
            ceiling,
            home: _,
            supervisor,
            compiler,
        } = self;
        let dirs = [system_tools, system_cache, user_tools, cache, config, data, state, policy];
        let programs = [supervisor, compiler].into_iter().flatten().cloned();
        let all = dirs.into_iter().flatten().chain(required).chain([ceiling]).cloned();
        let all = all.chain(programs).chain(running_program()).chain(self.lock());
        let usual = self.home.iter().flat_map(|home| {
            let dirs = XdgDir::VARIANTS.iter().map(|kind| kind.usual(home));
            let tools = home.join(USER_TOOLS);
            dirs.chain([tools.with_added_extension(LOCK_EXTENSION), tools])
        });
        let mut all: Vec<PathBuf> = all.chain(usual).collect();
        all.sort();
        all.dedup();
        all.into_iter().flat_map(|path| resolution_steps(&path)).collect()
    }
}

/// Returns the path of the running program, with links resolved.
///
/// # Errors
///
/// Fails if the system does not know the path.
pub fn running_program() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|error| executed_path().ok_or(error))
}

/// Returns the path that was executed. The kernel hands it to each process, so that a root without
/// `/proc` has it too. Unlike the link in `/proc`, the path may be relative or lead over links.
#[cfg(target_os = "linux")]
fn executed_path() -> Option<PathBuf> {
    // SAFETY: without an entry, the call returns 0.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    if path.is_null() {
        return None;
    }
    // SAFETY: the kernel wrote a string above the stack of this process, and nothing frees it.
    let path = unsafe { CStr::from_ptr(path) };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    path.canonicalize().ok().filter(|path| path.is_file())
}

/// Returns `None`: this kernel does not hand it over.
#[cfg(not(target_os = "linux"))]
fn executed_path() -> Option<PathBuf> {
    None
}

/// The reason why a path cannot be the workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// It does not exist or cannot be accessed.
    #[error("the workspace `{}` cannot be used", path.display())]
    Unusable {
        /// The path as it was given.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// It is not a directory.
    #[error("the workspace `{}` is not a directory", .0.display())]
    NotADirectory(PathBuf),
}

/// Returns the canonical path of the workspace `dir`.
///
/// # Errors
///
/// Fails if it is not a usable directory.
pub fn workspace(dir: &Path) -> Result<PathBuf, WorkspaceError> {
    let unusable = |source| WorkspaceError::Unusable { path: dir.to_owned(), source };
    let (workspace, metadata) = existing(dir).map_err(unusable)?;
    if !metadata.is_dir() {
        return Err(WorkspaceError::NotADirectory(dir.to_owned()));
    }
    Ok(workspace)
}

/// Returns the final target of `path`, which need not exist. Returns `None` for a relative path if
/// the current directory does not exist.
#[must_use]
pub fn canonical(path: &Path) -> Option<PathBuf> {
    resolution_steps(path).pop()
}

/// Returns the path of an existing file or directory, with links resolved.
///
/// Almost always the result is the path itself, which takes one system call to find out.
pub(crate) fn resolved(path: &Path) -> io::Result<PathBuf> {
    match open_if_plain(path) {
        // A path may have redundant slashes and dots.
        Ok(_) => Ok(path.components().collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(error),
        Err(_) => path.canonicalize(),
    }
}

/// Returns the same path as [`resolved`], and the metadata.
pub(crate) fn existing(path: &Path) -> io::Result<(PathBuf, fs::Metadata)> {
    match open_if_plain(path) {
        Ok(open) => Ok((path.components().collect(), fs::File::from(open).metadata()?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(error),
        Err(_) => {
            let path = path.canonicalize()?;
            let metadata = fs::metadata(&path)?;
            Ok((path, metadata))
        }
    }
}

/// Opens a file if its path has no links and no `..`. If it fails with `NotFound`, the path has no
/// links either, because the kernel refuses a link before it looks for the names behind it.
fn open_if_plain(path: &Path) -> io::Result<OwnedFd> {
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(is_plain) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let open = open_without_links(path, OFlags::PATH | OFlags::CLOEXEC)?;
    open.ok_or_else(|| ErrorKind::Unsupported.into())
}

/// Opens a path without links. The last component may be a link only if `flags` ask for the link
/// itself. Returns `None` if the kernel does not support that: before Linux 5.6, or in a container
/// that refuses the system call.
#[cfg(target_os = "linux")]
pub(crate) fn open_without_links(path: &Path, flags: OFlags) -> io::Result<Option<OwnedFd>> {
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(open) => Ok(Some(open)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns `None`: this kernel does not have the system call.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open_without_links(_: &Path, _: OFlags) -> io::Result<Option<OwnedFd>> {
    Ok(None)
}

/// Returns the steps in which a path is resolved: the canonical path of each link on the way, and
/// then the final target, which need not exist.
#[must_use]
pub(crate) fn resolution_steps(path: &Path) -> Vec<PathBuf> {
    // Almost always the path has no links, which takes one system call to find out.
    match open_if_plain(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => resolve(path).steps,
        _ => vec![path.components().collect()],
    }
}

/// The directory inside the system tools that the installation fills with compiled components. Its
/// name is hidden, so that it is not a candidate for a tool.
pub(crate) const SYSTEM_CACHE: &str = ".cache";

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Creates a directory that only its user can enter, unless it exists.
///
/// # Errors
///
/// Fails if it cannot be created, or would be created in a directory of another user. Root could do
/// that, for example with `sudo` and its caller's home, and the caller then could not use the
/// directory.
pub fn make_private(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Err(above) = check_ancestors(dir, is_own)
        && !above.is_writable
    {
        return Err(above.into());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Creates a directory that all users can enter and only its owner can change, unless it exists.
///
/// # Errors
///
/// Fails if it cannot be created.
pub(crate) fn make_shared(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        make_shared(parent)?;
    }
    fs::create_dir(dir)?;
    // The mode must not depend on the umask.
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))
}

/// Opens a regular file for reading, and returns it with its metadata. Does not follow a link.
/// Never blocks, unlike opening a FIFO.
///
/// # Errors
///
/// Fails if it is not a regular file, or cannot be opened.
pub(crate) fn open_regular(path: &Path) -> io::Result<(fs::File, fs::Metadata)> {
    open_for_reading(path, OFlags::NOFOLLOW)
}

/// Opens a regular file as [`open_regular`] does, but follows a link to it.
pub(crate) fn open_regular_behind_links(path: &Path) -> io::Result<(fs::File, fs::Metadata)> {
    open_for_reading(path, OFlags::empty())
}

fn open_for_reading(path: &Path, flags: OFlags) -> io::Result<(fs::File, fs::Metadata)> {
    let flags = flags | OFlags::NONBLOCK;
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((file, metadata))
}

/// Logs once that the cache cannot be written. Calls still work, but slower.
pub(crate) fn log_uncached(dir: &Path, error: &io::Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::warn!(
            "nothing is stored in the cache `{}`, so each run compiles components and asks tools \
             again: {error}",
            dir.display()
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_knows_the_running_program_without_proc() {
        let by_proc = std::env::current_exe().expect("a path");
        assert_eq!(executed_path(), Some(by_proc.clone()));
        assert_eq!(running_program().expect("a path"), by_proc);
    }

    #[test]
    fn every_link_is_a_step() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let root = scratch.path().canonicalize().expect("a path");
        for name in ["home", "work", "real"] {
            fs::create_dir(root.join(name)).expect("a directory");
        }
        symlink("../work/hop", root.join("home/.config")).expect("a link");
        symlink(root.join("real"), root.join("work/hop")).expect("a link");
        assert_eq!(
            resolution_steps(&root.join("home/.config/ikigai")),
            [root.join("home/.config"), root.join("work/hop"), root.join("real/ikigai")]
        );
        symlink("../work/absent", root.join("home/.dangling")).expect("a link");
        assert_eq!(
            resolution_steps(&root.join("home/.dangling/tools")),
            [root.join("home/.dangling"), root.join("work/absent/tools")]
        );
        symlink("loop", root.join("loop")).expect("a link");
        assert!(resolution_steps(&root.join("loop")).len() <= 41);
    }
}
