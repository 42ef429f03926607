//! Starts the server, waits until it is ready, and ends it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;

/// The variable that, set to `1`, makes missing PostgreSQL programs a failure. It is for CI:
/// tests that did not run would go unnoticed there.
pub const REQUIRE_VARIABLE: &str = "IKIGAI_REQUIRE_POSTGRES";

/// The user `nobody`, which the server runs as if the test runs as root. PostgreSQL refuses
/// root.
const NOBODY: u32 = 65534;

/// The line that the server logs once it accepts connections.
const READY: &str = "ready to accept connections";

/// The script of the server's parent. It waits on a pipe that the test holds open and that
/// closes even if the test is killed. Then it ends the server and removes its directory. QUIT
/// ends every session at once.
const KEEPER: &str = r#"
    "$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off \
        -c full_page_writes=off -c max_connections=120 -c shared_buffers=32MB <&- &
    server=$!
    read -r _
    kill -QUIT "$server" 2>/dev/null
    wait "$server"
    rm -rf "$2/data" "$2"/.s.PGSQL.*
"#;

/// A running server. Dropping it stops the server and removes its directory.
pub struct Server {
    programs: PathBuf,
    // Closed first: the keeper waits for that.
    alive: Option<ChildStdin>,
    keeper: Child,
    log: Option<JoinHandle<()>>,
    directory: TempDir,
}

impl Server {
    /// Starts a server, if PostgreSQL's programs are installed. If not, prints that nothing was
    /// tested.
    ///
    /// # Errors
    ///
    /// Fails if the server does not start, or if the programs are missing and
    /// [`REQUIRE_VARIABLE`] is `1`.
    pub fn start() -> anyhow::Result<Option<Self>> {
        let Some(programs) = programs() else {
            let missing = "PostgreSQL's programs (`initdb`, `postgres`, `psql`) are not installed";
            if std::env::var_os(REQUIRE_VARIABLE).is_some_and(|value| value == "1") {
                bail!("{missing}, and `{REQUIRE_VARIABLE}` asks for them");
            }
            let mut stderr = std::io::stderr();
            writeln!(stderr, "NOT TESTED: {missing}; nothing was tested with PostgreSQL")?;
            return Ok(None);
        };
        // Directly below the directory for temporary files: the path of a socket has at
        // most 107 bytes.
        let directory = tempfile::Builder::new().prefix("ikigai-pg-").tempdir()?;
        if is_root() {
            chown(directory.path(), Some(NOBODY), Some(NOBODY))?;
        }
        initialize(&programs, directory.path())?;
        let mut command = unprivileged("sh", directory.path());
        command.args(["-c", KEEPER, "keeper"]).arg(&programs).arg(directory.path());
        // Outside the test's group, so that a signal to the group does not end the cleanup.
        command.process_group(0);
        let mut keeper = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let alive = keeper.stdin.take();
        let stderr = keeper.stderr.take().context("the server has no stderr")?;
        let mut server = Self { programs, alive, keeper, log: None, directory };
        let mut log = BufReader::new(stderr).lines();
        let mut logged = Vec::new();
        loop {
            let Some(line) = log.next().transpose()? else {
                bail!("the server ended before it was ready:\n{}", logged.join("\n"));
            };
            if line.contains(READY) {
                break;
            }
            logged.push(line);
        }
        // Read to the end; otherwise the pipe would fill and the server would block.
        server.log = Some(thread::spawn(move || log.map_while(Result::ok).for_each(drop)));
        Ok(Some(server))
    }

    /// Returns the directory of the server's socket. The command line of each of its processes
    /// contains it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the address of a database for the superuser `owner`, who needs no password.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.url_of("owner", database)
    }

    /// Returns the address of a database for `user`, which is `NAME` or `NAME:PASSWORD`. Only
    /// `guarded` needs a password.
    #[must_use]
    pub fn url_of(&self, user: &str, database: &str) -> String {
        let socket = self.directory.path().to_string_lossy().replace('/', "%2F");
        format!("postgres://{user}@{socket}/{database}")
    }

    /// Creates an empty database, and returns its address.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses.
    pub fn create_database(&self, name: &str) -> anyhow::Result<String> {
        self.psql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.url(name))
    }

    /// Runs statements as `owner`, and returns their output, one row per line.
    ///
    /// # Errors
    ///
    /// Fails if a statement fails.
    pub fn psql(&self, database: &str, statements: &str) -> anyhow::Result<String> {
        let output = self.psql_command(database).args(["-c", statements]).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`{statements}` failed: {stderr}");
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    }

    /// Returns the command of `psql` on a database, for a session that a test holds open.
    #[must_use]
    pub fn psql_command(&self, database: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.env_clear().args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        command.args(["-U", "owner", "-d", database, "-h"]).arg(self.directory.path());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.alive.take());
        // A failure cannot be handled here, and the test has its result.
        let _ = self.keeper.wait();
        if let Some(log) = self.log.take() {
            let _ = log.join();
        }
    }
}

fn initialize(programs: &Path, directory: &Path) -> anyhow::Result<()> {
    let output = unprivileged(programs.join("initdb"), directory)
        .args(["--no-sync", "--auth=trust", "--username=owner", "--encoding=UTF8"])
        // A locale whose order is not that of bytes would test more, but is not installed
        // everywhere.
        .args(["--locale=C.UTF-8", "--pgdata"])
        .arg(directory.join("data"))
        .stdin(Stdio::null())
        .output()
        .context("cannot run `initdb`")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`initdb` failed: {stderr}");
    let access = "local all guarded scram-sha-256\nlocal all all trust\n";
    fs::write(directory.join("data/pg_hba.conf"), access)?;
    Ok(())
}

fn unprivileged(program: impl AsRef<OsStr>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the directory of the programs: on the PATH, or the newest version in Debian's place.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_complete = |directory: &PathBuf| {
        ["initdb", "postgres", "psql"].iter().all(|name| directory.join(name).is_file())
    };
    if let Some(found) = std::env::split_paths(&path).find(is_complete) {
        return Some(found);
    }
    let version = |directory: &PathBuf| -> Option<u32> {
        directory.parent()?.file_name()?.to_str()?.parse().ok()
    };
    let installed = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    installed.map(|entry| entry.path().join("bin")).filter(is_complete).max_by_key(version)
}
