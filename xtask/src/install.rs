//! `cargo xtask install`: builds, installs, compiles ahead, and proves the installation with one
//! real call.
//!
//! This module owns the layout of an installation (`bin`, `libexec`, the files below `share`, the
//! sample of a configuration) and the order of the steps. A second run without changes writes
//! nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, bail};
use clap::Args;

use crate::place::{self, CopyResult, DATA, PROGRAM};
use crate::project::{CargoProject, INSTALLED_WIT};
use crate::run::{self, note, step};
use crate::stage;
use crate::{apparmor, build};

#[derive(Args)]
pub(crate) struct InstallOptions {
    /// Directory of the installation: DIR/bin, DIR/libexec and DIR/share [default: ~/.local]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Put everything under DIR instead of /, for packagers; the paths inside stay those of the
    /// prefix
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
    /// Put the commented sample of a configuration into DIR/ikigai [default: /etc for the prefix
    /// /usr, where it is read; else it goes to PREFIX/share/doc/ikigai, to be copied from]
    #[arg(long, value_name = "DIR")]
    sysconfdir: Option<PathBuf>,
    /// The cargo profile of the native builds; `dev` to try an install without waiting for
    /// `release`
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// Optimise each program as a whole, as for a release: longer builds, faster calls; the same as
    /// `--profile release-lto`
    #[arg(long, conflicts_with = "profile")]
    release_lto: bool,
}

impl InstallOptions {
    fn profile(&self) -> &str {
        if self.release_lto { build::RELEASE_LTO } else { &self.profile }
    }
}

/// The directories of an installation; with `--destdir`, in the staged tree.
#[derive(Debug, PartialEq, Eq)]
struct InstallLayout {
    bin: PathBuf,
    libexec: PathBuf,
    tools: PathBuf,
    share: PathBuf,
    wit: PathBuf,
    profile: PathBuf,
    sample: Sample,
}

/// The shells for which the installed host writes completions: the name of each, and the directory
/// below `share` in which that shell looks for the completions of an unknown command.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/ikigai"),
    ("zsh", "zsh/site-functions/_ikigai"),
    ("fish", "fish/vendor_completions.d/ikigai.fish"),
];

/// The directory of manual pages, below `share`: `man1` for commands, `man5` for files.
const MANUAL: &str = "man";

/// The place of the commented sample of a configuration.
#[derive(Debug, PartialEq, Eq)]
struct Sample {
    file: PathBuf,
    role: SampleRole,
}

/// The role of the installed sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SampleRole {
    /// The configuration of every user of the machine.
    InForce,
    /// A configuration, in a directory that a packager chose and the host does not read.
    Unread,
    /// Documentation, to copy from.
    Documentation,
}

/// The directory whose `ikigai/config.toml` the host reads for all users. The host owns this rule.
/// It is repeated here because this program does not depend on the host.
const READ: &str = "/etc";

/// The configuration that the host reads for its user.
const OF_THE_USER: &str = "~/.config/ikigai/config.toml";

/// The tool of the call that ends an installation. The call reads a line of a file that certainly
/// exists.
const SAMPLE_TOOL: &str = "file_read";
const SAMPLE_ARGUMENTS: &str = r#"{"file_path":"Cargo.toml","limit":1}"#;

pub(crate) fn install(project: &CargoProject, options: &InstallOptions) -> anyhow::Result<()> {
    let layout = InstallLayout::new(options, env::home_dir().as_deref())?;
    let profile = options.profile();

    step(&format!("Building the host and the native tools ({})", profile));
    build::native(project, profile)?;
    let host = build::host(project, profile);
    let mut tools = build::native_tools(project, profile)?;
    let components = stage::components(project, profile, &[])?;
    let sandboxed = !components.is_empty();
    tools.extend(components);

    step(&format!("Installing into {} and {}", layout.bin.display(), layout.tools.display()));
    // The tools are installed first, so that a new host meets old tools as briefly as possible.
    let mut changed = stage::place_tools(&tools, &layout.tools)?;
    changed |= stage::place_tools(&build::helpers(project, profile), &layout.libexec)?;
    place::directory(&layout.bin)?;
    let installed = layout.bin.join(&host.name);
    changed |= place::file(&host.file, &installed, PROGRAM)? == CopyResult::Written;
    changed |= place::tree(&project.wit(), &layout.wit)?;
    if !changed {
        note("nothing changed since the last install");
    }
    step(&format!("Installing completions and manual pages into {}", layout.share.display()));
    install_completions(project, &installed, &layout.share)?;
    install_manual(project, &installed, &layout.share)?;
    let source = project.root.join("etc").join("ikigai").join("config.toml");
    install_sample(&source, &layout.sample)?;
    install_profile(project, options, &layout)?;

    if sandboxed {
        step("Compiling the components ahead of their first use");
        stage::precompile(&installed, &layout.tools)?;
    }
    prove(project, &installed, sandboxed)?;
    if options.destdir.is_none() {
        hint_path(&layout.bin);
    }
    Ok(())
}

impl InstallLayout {
    fn new(options: &InstallOptions, home: Option<&Path>) -> anyhow::Result<Self> {
        let prefix = prefix(options, home)?;
        let sysconfdir = match &options.sysconfdir {
            Some(given) => Some(std::path::absolute(given).context("cannot use `--sysconfdir`")?),
            // The file system hierarchy keeps the configuration of /usr in /etc.
            None => (prefix == Path::new("/usr")).then(|| PathBuf::from(READ)),
        };
        let (directory, role) = match sysconfdir {
            Some(read) if read == Path::new(READ) => (read, SampleRole::InForce),
            Some(other) => (other, SampleRole::Unread),
            None => (prefix.join("share").join("doc"), SampleRole::Documentation),
        };
        let destdir = options.destdir.as_ref().map(std::path::absolute).transpose();
        let destdir = destdir.context("cannot use `--destdir`")?;
        let place = |path: PathBuf| match &destdir {
            Some(destdir) => destdir.join(path.strip_prefix("/").unwrap_or(&path)),
            None => path,
        };
        Ok(Self {
            bin: place(prefix.join("bin")),
            libexec: place(prefix.join("libexec")),
            tools: place(prefix.join("libexec").join("ikigai")),
            share: place(prefix.join("share")),
            wit: place(prefix.join(INSTALLED_WIT)),
            profile: place(prefix.join(apparmor::INSTALLED)),
            sample: Sample { file: place(directory.join("ikigai").join("config.toml")), role },
        })
    }
}

/// Returns the directory below which the installed programs run.
fn prefix(options: &InstallOptions, home: Option<&Path>) -> anyhow::Result<PathBuf> {
    match (&options.prefix, home) {
        (Some(prefix), _) => std::path::absolute(prefix).context("cannot use `--prefix`"),
        (None, Some(home)) => Ok(home.join(".local")),
        (None, None) => bail!("there is no home directory to install into; give `--prefix DIR`"),
    }
}

/// Makes the installed host write the script of each shell, and installs the scripts.
pub(crate) fn install_completions(
    project: &CargoProject,
    host: &Path,
    share: &Path,
) -> anyhow::Result<()> {
    let written = empty(project, "completions")?;
    for (shell, place) in COMPLETIONS {
        let script = run::output(Command::new(host).args(["completions", shell]))?;
        let source = written.join(shell);
        fs::write(&source, script)
            .with_context(|| format!("cannot write `{}`", source.display()))?;
        put(&source, &share.join(place))?;
    }
    Ok(())
}

/// Makes the installed host write its manual pages, and installs them.
pub(crate) fn install_manual(
    project: &CargoProject,
    host: &Path,
    share: &Path,
) -> anyhow::Result<()> {
    let written = empty(project, "manual")?;
    run::output(Command::new(host).arg("__manual").arg(&written))?;
    let list = || format!("cannot list `{}`", written.display());
    for page in fs::read_dir(&written).with_context(list)? {
        let page = page.with_context(list)?;
        let path = page.path();
        let section = path.extension().unwrap_or_default().to_string_lossy();
        put(&path, &share.join(MANUAL).join(format!("man{section}")).join(page.file_name()))?;
    }
    Ok(())
}

/// Creates an empty directory in the build tree.
fn empty(project: &CargoProject, name: &str) -> anyhow::Result<PathBuf> {
    let directory = project.target.join("install").join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory)
            .with_context(|| format!("cannot empty `{}`", directory.display()))?;
    }
    place::directory(&directory)?;
    Ok(directory)
}

fn put(source: &Path, destination: &Path) -> anyhow::Result<()> {
    if let Some(parent) = destination.parent() {
        place::directory(parent)?;
    }
    place::file(source, destination, DATA).map(drop)
}

/// Installs the commented sample, and prints the path from which the host reads a configuration.
///
/// In a documentation directory, the file belongs to ikigai and is updated. In a configuration
/// directory, an existing file may have been edited, so it stays.
fn install_sample(source: &Path, sample: &Sample) -> anyhow::Result<()> {
    let file = sample.file.display();
    if sample.role != SampleRole::Documentation && sample.file.symlink_metadata().is_ok() {
        note(&format!("{file} is there already and stays as it is"));
        return Ok(());
    }
    put(source, &sample.file)?;
    match sample.role {
        SampleRole::InForce => step(&format!("Installed a commented configuration as {file}")),
        SampleRole::Unread | SampleRole::Documentation => {
            step(&format!("Installed a sample of a configuration as {file}"));
            note(&format!(
                "it is not read there; copy it to {OF_THE_USER}, or to \
                 {READ}/ikigai/config.toml for everybody"
            ));
        }
    }
    Ok(())
}

/// Installs the AppArmor profile for the installed programs. An administrator loads it, if AppArmor
/// keeps ikigai from user namespaces.
fn install_profile(
    project: &CargoProject,
    options: &InstallOptions,
    layout: &InstallLayout,
) -> anyhow::Result<()> {
    let prefix = prefix(options, env::home_dir().as_deref())?;
    // AppArmor compares paths without links.
    let prefix = match options.destdir {
        Some(_) => prefix,
        None => prefix.canonicalize().context("cannot find the installation")?,
    };
    let source = project.root.join(apparmor::SOURCE);
    let text = fs::read_to_string(&source)
        .with_context(|| format!("cannot read `{}`", source.display()))?;
    let Some(profile) = apparmor::for_prefix(&text, &prefix)? else {
        note(&format!("no AppArmor profile can name `{}`", prefix.display()));
        return Ok(());
    };
    let written = empty(project, "apparmor")?.join("ikigai");
    fs::write(&written, profile)
        .with_context(|| format!("cannot write `{}`", written.display()))?;
    put(&written, &layout.profile)
}

/// Makes one call with the installed programs, and prints its envelope.
fn prove(project: &CargoProject, installed: &Path, sandboxed: bool) -> anyhow::Result<()> {
    let backend = if sandboxed { "wasm" } else { "native" };
    step(&format!("A first call, by the {backend} build of {SAMPLE_TOOL}"));
    let mut command = Command::new(installed);
    command.current_dir(&project.root).args(["--backend", backend]);
    command.args(["tool", "call", SAMPLE_TOOL, SAMPLE_ARGUMENTS]);
    // The call proves the installation, so other settings of this user are removed.
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("IKIGAI_") {
            command.env_remove(name);
        }
    }
    command.env("IKIGAI_USER_TOOLS", empty(project, "user-tools")?);
    let envelope = run::output(&mut command).context(
        "everything is installed, but the first call failed; \
         `ikigai tool list --all` says which tools it found and why it skipped others",
    )?;
    println!("{}", envelope.trim_end());
    Ok(())
}

fn hint_path(bin: &Path) {
    let on_path = env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|directory| directory == bin));
    if !on_path {
        note(&format!(
            "{0} is not on your PATH; add it with: export PATH=\"{0}:$PATH\"",
            bin.display()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(
        prefix: Option<&str>,
        destdir: Option<&str>,
        sysconfdir: Option<&str>,
    ) -> anyhow::Result<InstallLayout> {
        let options = InstallOptions {
            prefix: prefix.map(PathBuf::from),
            destdir: destdir.map(PathBuf::from),
            sysconfdir: sysconfdir.map(PathBuf::from),
            profile: "release".to_owned(),
            release_lto: false,
        };
        InstallLayout::new(&options, Some(Path::new("/home/u")))
    }

    fn expect(
        layout: anyhow::Result<InstallLayout>,
        bin: &str,
        tools: &str,
        sample: (&str, SampleRole),
    ) {
        let (file, role) = sample;
        let sample = Sample { file: file.into(), role };
        let tools = PathBuf::from(tools);
        let libexec = tools.parent().expect("a parent").to_owned();
        let share = libexec.with_file_name("share");
        let wit = share.join("ikigai").join("wit");
        let profile = share.join("ikigai").join("apparmor").join("ikigai");
        let expected =
            InstallLayout { bin: bin.into(), libexec, tools, share, wit, profile, sample };
        assert_eq!(layout.expect("a layout"), expected);
    }

    #[test]
    fn the_home_directory_is_the_default() {
        expect(
            layout(None, None, None),
            "/home/u/.local/bin",
            "/home/u/.local/libexec/ikigai",
            ("/home/u/.local/share/doc/ikigai/config.toml", SampleRole::Documentation),
        );
    }

    #[test]
    fn the_configuration_of_usr_is_in_etc() {
        expect(
            layout(Some("/usr"), Some("/stage"), None),
            "/stage/usr/bin",
            "/stage/usr/libexec/ikigai",
            ("/stage/etc/ikigai/config.toml", SampleRole::InForce),
        );
        expect(
            layout(Some("/usr/local"), None, None),
            "/usr/local/bin",
            "/usr/local/libexec/ikigai",
            ("/usr/local/share/doc/ikigai/config.toml", SampleRole::Documentation),
        );
    }

    #[test]
    fn sysconfdir_can_be_chosen() {
        expect(
            layout(Some("/opt/i"), Some("/stage"), Some("/etc/opt")),
            "/stage/opt/i/bin",
            "/stage/opt/i/libexec/ikigai",
            ("/stage/etc/opt/ikigai/config.toml", SampleRole::Unread),
        );
        expect(
            layout(Some("/opt/i"), None, Some("/etc")),
            "/opt/i/bin",
            "/opt/i/libexec/ikigai",
            ("/etc/ikigai/config.toml", SampleRole::InForce),
        );
    }

    #[test]
    fn what_is_there_stays_where_configurations_are_and_nowhere_else() {
        let scratch = env::temp_dir().join(format!("xtask-install-{}", std::process::id()));
        fs::create_dir_all(&scratch).expect("a folder");
        let source = scratch.join("sample.toml");
        fs::write(&source, "#new").expect("written");
        for (role, kept) in [
            (SampleRole::InForce, "old"),
            (SampleRole::Unread, "old"),
            (SampleRole::Documentation, "#new"),
        ] {
            let file = scratch.join(format!("{role:?}")).join("config.toml");
            let sample = Sample { file, role };
            install_sample(&source, &sample).expect("installed");
            assert_eq!(fs::read_to_string(&sample.file).expect("read"), "#new");
            fs::write(&sample.file, "old").expect("written");
            install_sample(&source, &sample).expect("installed again");
            assert_eq!(fs::read_to_string(&sample.file).expect("read"), kept, "{role:?}");
        }
        fs::remove_dir_all(&scratch).expect("removed");
    }
}
