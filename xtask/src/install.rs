//! `cargo xtask install`: build, put into place, compile ahead, and prove it with
//! one real call.
//!
//! Owns the layout of an install (`bin`, `libexec/ikigai`, the configuration) and
//! its order. A second run with nothing changed writes nothing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::build;
use crate::place::{self, DATA, PROGRAM, Placed};
use crate::project::Project;
use crate::run::{self, note, step};
use crate::stage;

#[derive(Args)]
pub(crate) struct Options {
    /// Where to install: DIR/bin and DIR/libexec/ikigai [default: ~/.local]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Put everything under DIR instead of /, for packagers; the paths inside stay those of the prefix
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
    /// Where the configuration goes [default: /etc for the prefix /usr, else PREFIX/etc]
    #[arg(long, value_name = "DIR")]
    sysconfdir: Option<PathBuf>,
    /// The cargo profile of the native builds; `dev` to try an install without waiting for `release`
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
}

/// Where everything goes; with `--destdir`, on the staged tree.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    bin: PathBuf,
    libexec: PathBuf,
    config: PathBuf,
}

/// The call that ends an install: a line of a file that is certainly there.
const SAMPLE_TOOL: &str = "file_read";
const SAMPLE_ARGUMENTS: &str = r#"{"file_path":"Cargo.toml","limit":1}"#;

pub(crate) fn install(project: &Project, options: &Options) -> anyhow::Result<()> {
    let layout = Layout::new(options, env::home_dir().as_deref())?;

    step(&format!("Building the host and the native tools ({})", options.profile));
    build::native(project, &options.profile)?;
    let host = build::host(project, &options.profile);
    let mut tools = build::native_tools(project, &options.profile)?;
    let components = stage::components(project, &[])?;
    let sandboxed = !components.is_empty();
    tools.extend(components);

    step(&format!("Installing into {} and {}", layout.bin.display(), layout.libexec.display()));
    // The tools first: a new host never meets old tools for longer than it must.
    let mut changed = stage::place_tools(&tools, &layout.libexec)?;
    place::directory(&layout.bin)?;
    let installed = layout.bin.join(&host.name);
    changed |= place::file(&host.file, &installed, PROGRAM)? == Placed::Written;
    if !changed {
        note("nothing changed since the last install");
    }
    install_config(project, &layout.config)?;

    if sandboxed {
        step("Compiling the components ahead of their first use");
        stage::precompile(&installed, &layout.libexec)?;
    }
    prove(project, &installed, sandboxed)?;
    if options.destdir.is_none() {
        hint_path(&layout.bin);
    }
    Ok(())
}

impl Layout {
    fn new(options: &Options, home: Option<&Path>) -> anyhow::Result<Self> {
        let prefix = match (&options.prefix, home) {
            (Some(prefix), _) => std::path::absolute(prefix).context("cannot use `--prefix`")?,
            (None, Some(home)) => home.join(".local"),
            (None, None) => {
                bail!("there is no home directory to install into; give `--prefix DIR`")
            }
        };
        let sysconfdir = match &options.sysconfdir {
            Some(given) => std::path::absolute(given).context("cannot use `--sysconfdir`")?,
            // The file system hierarchy keeps the configuration of /usr in /etc.
            None if prefix == Path::new("/usr") => PathBuf::from("/etc"),
            None => prefix.join("etc"),
        };
        let destdir = options.destdir.as_ref().map(std::path::absolute).transpose();
        let destdir = destdir.context("cannot use `--destdir`")?;
        let place = |path: PathBuf| match &destdir {
            Some(destdir) => destdir.join(path.strip_prefix("/").unwrap_or(&path)),
            None => path,
        };
        Ok(Self {
            bin: place(prefix.join("bin")),
            libexec: place(prefix.join("libexec").join("ikigai")),
            config: place(sysconfdir.join("ikigai").join("config.toml")),
        })
    }
}

/// Installs the commented sample, unless there is a configuration: that is the user's.
fn install_config(project: &Project, destination: &Path) -> anyhow::Result<()> {
    if destination.symlink_metadata().is_ok() {
        note(&format!("{} is there already and stays as it is", destination.display()));
        return Ok(());
    }
    if let Some(parent) = destination.parent() {
        place::directory(parent)?;
    }
    let sample = project.root.join("etc").join("ikigai").join("config.toml");
    place::file(&sample, destination, DATA)?;
    step(&format!("Installed a commented sample as {}", destination.display()));
    Ok(())
}

/// Makes one call with what was installed, and prints its envelope.
fn prove(project: &Project, installed: &Path, sandboxed: bool) -> anyhow::Result<()> {
    let backend = if sandboxed { "wasm" } else { "native" };
    step(&format!("A first call, by the {backend} build of {SAMPLE_TOOL}"));
    let mut command = Command::new(installed);
    command.current_dir(&project.root).args(["--backend", backend]);
    command.args(["tool", "call", SAMPLE_TOOL, SAMPLE_ARGUMENTS]);
    // What is proved is the install, not what else this user has set up.
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("IKIGAI_") {
            command.env_remove(name);
        }
    }
    command.env("IKIGAI_USER_TOOLS", project.target.join("no-user-tools"));
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
    ) -> anyhow::Result<Layout> {
        let options = Options {
            prefix: prefix.map(PathBuf::from),
            destdir: destdir.map(PathBuf::from),
            sysconfdir: sysconfdir.map(PathBuf::from),
            profile: "release".to_owned(),
        };
        Layout::new(&options, Some(Path::new("/home/u")))
    }

    fn expect(layout: anyhow::Result<Layout>, bin: &str, libexec: &str, config: &str) {
        let expected = Layout { bin: bin.into(), libexec: libexec.into(), config: config.into() };
        assert_eq!(layout.expect("a layout"), expected);
    }

    #[test]
    fn the_home_directory_is_the_default() {
        expect(
            layout(None, None, None),
            "/home/u/.local/bin",
            "/home/u/.local/libexec/ikigai",
            "/home/u/.local/etc/ikigai/config.toml",
        );
    }

    #[test]
    fn the_configuration_of_usr_is_in_etc() {
        expect(
            layout(Some("/usr"), Some("/stage"), None),
            "/stage/usr/bin",
            "/stage/usr/libexec/ikigai",
            "/stage/etc/ikigai/config.toml",
        );
        expect(
            layout(Some("/usr/local"), None, None),
            "/usr/local/bin",
            "/usr/local/libexec/ikigai",
            "/usr/local/etc/ikigai/config.toml",
        );
    }

    #[test]
    fn sysconfdir_can_be_chosen() {
        expect(
            layout(Some("/opt/i"), Some("/stage"), Some("/etc/opt")),
            "/stage/opt/i/bin",
            "/stage/opt/i/libexec/ikigai",
            "/stage/etc/opt/ikigai/config.toml",
        );
    }
}
