//! Starts real registries. They end with the test, even if the test is killed.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, bail};
use tempfile::TempDir;

/// If this variable is `1`, a missing registry is a failure. It is for CI, which would not notice
/// skipped tests.
pub const REQUIRE_VARIABLE: &str = "IKIGAI_REQUIRE_REGISTRIES";

/// The script of a registry's parent process. It waits on a pipe that the test keeps open. The pipe
/// closes even if the test is killed.
const KEEPER: &str = r#"
    "$@" <&- &
    server=$!
    read -r _
    kill -KILL "$server" 2>/dev/null
    wait "$server"
"#;

/// A running registry. Dropping it stops it and removes its files.
pub struct Real {
    host: String,
    // Closed first, because the keeper waits for it.
    alive: Option<ChildStdin>,
    keeper: Child,
    log: Option<JoinHandle<()>>,
    _directory: TempDir,
}

impl Real {
    /// Starts Debian's `docker-registry`. It uses TLS if there is a certificate with a key, and a
    /// password if there is a `htpasswd` file. Returns `None` if it is not installed.
    ///
    /// # Errors
    ///
    /// Fails if it does not start, or if it is not installed and [`REQUIRE_VARIABLE`] is `1`.
    pub fn docker(
        tls: Option<(&Path, &Path)>,
        htpasswd: Option<&Path>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(program) = installed("docker-registry")? else { return Ok(None) };
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("data");
        let mut text = format!(
            "version: 0.1\nlog: {{level: info, accesslog: {{disabled: true}}}}\n\
             storage: {{filesystem: {{rootdirectory: {data:?}}}}}\n\
             http:\n  addr: 127.0.0.1:0\n"
        );
        if let Some((certificate, key)) = tls {
            text.push_str(&format!("  tls: {{certificate: {certificate:?}, key: {key:?}}}\n"));
        }
        if let Some(path) = htpasswd {
            text.push_str(&format!("auth: {{htpasswd: {{realm: tests, path: {path:?}}}}}\n"));
        }
        let path = directory.path().join("config.yml");
        fs::write(&path, text)?;
        let arguments = [program.into(), "serve".into(), path.into()];
        Self::start(&arguments, &[], directory, |line| {
            let (_, rest) = line.split_once("listening on ")?;
            let end = rest.find(|it: char| it != '.' && it != ':' && !it.is_ascii_digit());
            Some(rest[..end.unwrap_or(rest.len())].to_owned())
        })
        .map(Some)
    }

    /// Starts `ferro-oci-server`. Returns `None` if it is not installed.
    ///
    /// # Errors
    ///
    /// Fails if it does not start.
    pub fn ferro() -> anyhow::Result<Option<Self>> {
        let Some(program) = on_path("ferro-oci-server") else { return Ok(None) };
        // It does not report its port. So the system picks one, which is free again at once.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let listen = [("FERRO_OCI_LISTEN", address.clone())];
        Self::start(&[program.into()], &listen, tempfile::tempdir()?, move |line| {
            line.contains("listening").then(|| address.clone())
        })
        .map(Some)
    }

    /// Returns `HOST:PORT`.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    fn start(
        arguments: &[OsString],
        variables: &[(&str, String)],
        directory: TempDir,
        host: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 2>&1\n{KEEPER}"), "keeper"]).args(arguments);
        // Outside the test's process group, so that a signal to the group does not end the cleanup.
        command.process_group(0).current_dir(directory.path());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut keeper = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the registry")?;
        let alive = keeper.stdin.take();
        let stdout = keeper.stdout.take().context("the registry has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let mut real =
            Self { host: String::new(), alive, keeper, log: None, _directory: directory };
        let mut logged = Vec::new();
        loop {
            let Some(line) = lines.next().transpose()? else {
                bail!("the registry ended before it was ready:\n{}", logged.join("\n"));
            };
            if let Some(host) = host(&line) {
                real.host = host;
                break;
            }
            logged.push(line);
        }
        // Read to the end, because the pipe would otherwise fill up and block the registry.
        real.log = Some(thread::spawn(move || lines.map_while(Result::ok).for_each(drop)));
        Ok(real)
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        drop(self.alive.take());
        // A failure here cannot be handled, and the test already has its result.
        let _ = self.keeper.wait();
        if let Some(log) = self.log.take() {
            let _ = log.join();
        }
    }
}

/// Returns a program that CI has. If it is missing, prints a line and returns `None`.
fn installed(name: &str) -> anyhow::Result<Option<PathBuf>> {
    let found = on_path(name);
    if found.is_none() {
        if std::env::var_os(REQUIRE_VARIABLE).is_some_and(|value| value == "1") {
            bail!("`{name}` is not installed, and `{REQUIRE_VARIABLE}` asks for it");
        }
        writeln!(std::io::stderr(), "NOT TESTED: `{name}` is not installed")?;
    }
    Ok(found)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|it| it.is_file())
}
