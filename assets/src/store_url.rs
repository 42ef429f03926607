//! The address of a store. It may hold a password, and is displayed without user, password
//! and parameters.

use std::fmt;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use url::Url;

/// The address of a store.
///
/// | text | store |
/// |---|---|
/// | `sqlite:PATH`, `sqlite://PATH` | a file; `PATH` has no escapes |
/// | `memory:` | a private store in memory, gone when it is dropped |
/// | `postgres://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETERS` | a database of a server |
/// | `postgresql://…` | the same |
///
/// If a PostgreSQL address leaves out a part, it comes from libpq's variables or its password
/// file. Parameters are [`POSTGRES_PARAMETERS`], with libpq's meaning. If the host is another
/// machine, `sslmode` is `verify-full` by default: TLS with a certificate that this machine
/// trusts.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(pub(crate) StoreLocation);

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    Memory,
    Sqlite(PathBuf),
    Postgres(Url),
}

/// The parameters that a PostgreSQL address may have. Others are refused: a misspelt `sslmode`
/// must not be ignored.
pub const POSTGRES_PARAMETERS: [&str; 9] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "port",
    "dbname",
    "user",
    "application_name",
];

/// The suffixes of the files that SQLite keeps next to a database, and trusts like it.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The number of links that the kernel follows before it gives up.
const MOST_LINKS: usize = 40;

/// Returns the files that SQLite keeps next to a database, whether they exist or not.
pub(crate) fn companions(path: &Path) -> impl Iterator<Item = PathBuf> {
    COMPANIONS.into_iter().map(move |suffix| {
        let mut companion = path.as_os_str().to_owned();
        companion.push(suffix);
        PathBuf::from(companion)
    })
}

/// The error for a text that is not a valid address of a store. It does not repeat the text,
/// which may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStoreUrl {
    /// The scheme is missing or unknown.
    #[error("a store's address starts with `sqlite:`, `postgres://` or `memory:`")]
    Scheme,
    /// No path follows `sqlite:`.
    #[error("a store's address needs a path after `sqlite:`")]
    NoPath,
    /// The PostgreSQL address is not a valid URL.
    #[error("the address of the PostgreSQL store is malformed: {0}")]
    Malformed(url::ParseError),
    /// A parameter is not one of [`POSTGRES_PARAMETERS`].
    #[error("the address of the PostgreSQL store has an unknown parameter; known are {}", POSTGRES_PARAMETERS.join(", "))]
    Parameter,
    /// A parameter has a malformed value.
    #[error("the address of the PostgreSQL store has a parameter with a malformed value")]
    Value,
    /// The name of the database contains `/`, `@` or `:`.
    #[error(
        "the address of the PostgreSQL store has a database's name with `/`, `@` or `:` in it; in a password these are written %2F, %40 and %3A"
    )]
    Database,
}

impl StoreUrl {
    /// Returns the address of the store in a file.
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self(StoreLocation::Sqlite(path.into()))
    }

    /// Returns the address of a private store in memory.
    #[must_use]
    pub fn memory() -> Self {
        Self(StoreLocation::Memory)
    }

    /// Returns the file, if the store is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.0 {
            StoreLocation::Sqlite(path) => Some(path),
            StoreLocation::Memory | StoreLocation::Postgres(_) => None,
        }
    }

    /// Returns the files in which the store keeps its contents, whether they exist or not: its
    /// file, and the files that SQLite keeps next to it. If the file is a link, returns the same
    /// for each path that it leads to. A store in memory or on a server has no files.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let target = |path: &PathBuf| {
            let target = fs::read_link(path).ok()?;
            Some(path.parent()?.join(target))
        };
        let paths = iter::successors(self.file().map(Path::to_owned), target);
        let mut files = Vec::new();
        // A link may lead to itself.
        for path in paths.take(MOST_LINKS + 1) {
            files.extend(companions(&path));
            files.push(path);
        }
        files
    }

    /// Returns the host and the port, if the store is a server that is reached over the network.
    #[must_use]
    pub fn peer(&self) -> Option<(String, u16)> {
        let StoreLocation::Postgres(url) = &self.0 else { return None };
        // libpq's variables have the parts that the address leaves out.
        let options: PgConnectOptions = url.as_str().parse().ok()?;
        let host = options.get_host().to_owned();
        let is_socket = options.get_socket().is_some() || host.starts_with('/');
        (!is_socket).then(|| (host, options.get_port()))
    }

    /// Parses an address. Nothing is opened.
    ///
    /// # Errors
    ///
    /// Fails if `text` is not a valid address of a store.
    pub fn parse(text: &str) -> Result<Self, InvalidStoreUrl> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
                "" => Err(InvalidStoreUrl::NoPath),
                ":memory:" => Ok(Self::memory()),
                _ => Ok(Self::sqlite(path)),
            };
        }
        if text == "memory:" {
            return Ok(Self::memory());
        }
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(InvalidStoreUrl::Scheme);
        }
        let url = Url::parse(text).map_err(InvalidStoreUrl::Malformed)?;
        let known = |name: &str| POSTGRES_PARAMETERS.contains(&name);
        if !url.query_pairs().all(|(name, _)| known(&name)) {
            return Err(InvalidStoreUrl::Parameter);
        }
        // Usually the rest of a password in which a slash was not escaped.
        if url.path().trim_start_matches('/').contains(['/', '@', ':']) {
            return Err(InvalidStoreUrl::Database);
        }
        Ok(Self(StoreLocation::Postgres(url)))
    }

    /// Returns the password, decoded and as written in the address.
    pub(crate) fn passwords(&self) -> Vec<String> {
        let StoreLocation::Postgres(url) = &self.0 else { return Vec::new() };
        let Some(raw) = url.password().filter(|it| !it.is_empty()) else { return Vec::new() };
        // In a form, a plus is a space, but not in an address.
        let form = format!("password={}", raw.replace('+', "%2B"));
        let decoded = url::form_urlencoded::parse(form.as_bytes()).map(|(_, it)| it.into_owned());
        decoded.chain([raw.to_owned()]).collect()
    }

    /// Returns true for a store that this process reads and writes itself, in a file or in
    /// memory, instead of through a server.
    #[must_use]
    pub fn is_sqlite(&self) -> bool {
        !matches!(self.0, StoreLocation::Postgres(_))
    }
}

impl FromStr for StoreUrl {
    type Err = InvalidStoreUrl;

    fn from_str(text: &str) -> Result<Self, InvalidStoreUrl> {
        Self::parse(text)
    }
}

/// Displays the address without user, password and parameters.
impl fmt::Display for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            StoreLocation::Memory => out.write_str("memory:"),
            StoreLocation::Sqlite(path) => write!(out, "sqlite:{}", path.display()),
            StoreLocation::Postgres(url) => {
                write!(out, "postgres://{}", url.host_str().unwrap_or_default())?;
                if let Some(port) = url.port() {
                    write!(out, ":{port}")?;
                }
                out.write_str(url.path())
            }
        }
    }
}

/// Shows what `Display` shows, for the same reason.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::{InvalidStoreUrl, StoreUrl};

    #[test]
    fn no_secret_is_displayed() {
        let text = "postgres://ann:s3cret@db.example:5433/team?user=ann2&sslmode=require";
        let url = StoreUrl::parse(text).expect("valid");
        assert_eq!(url.to_string(), "postgres://db.example:5433/team");
        assert_eq!(format!("{url:?}"), "StoreUrl(postgres://db.example:5433/team)");
    }

    #[test]
    fn a_malformed_address_is_not_repeated() {
        for text in [
            "postgres://ann:s3cret@db:notaport/x",
            "postgres://ann:s3cret@[::x",
            "postgres://db/x?pasword=s3cret",
            "postgres://db/x?password=s3cret",
            "mysql://ann:s3cret@db/x",
            "postgres://ann:12/s3cret@db/x",
            "postgres://ann:/s3cret@db/x",
            "postgres://anns3cret/x@db/x",
        ] {
            let error = StoreUrl::parse(text).expect_err(text);
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("s3cret") && !shown.contains("ann"), "{shown}");
        }
    }

    #[test]
    fn files_and_memory() {
        for text in ["sqlite:/a b/x%20.db", "sqlite:///a b/x%20.db"] {
            assert_eq!(StoreUrl::parse(text), Ok(StoreUrl::sqlite("/a b/x%20.db")));
        }
        assert_eq!(StoreUrl::parse("sqlite:x.db"), Ok(StoreUrl::sqlite("x.db")));
        for text in ["memory:", "sqlite::memory:"] {
            assert_eq!(StoreUrl::parse(text), Ok(StoreUrl::memory()));
        }
        assert_eq!(StoreUrl::parse("sqlite:"), Err(InvalidStoreUrl::NoPath));
        assert_eq!(StoreUrl::parse("/x.db"), Err(InvalidStoreUrl::Scheme));
    }

    /// Returns the files of the store in a file, in the order of their paths.
    fn files(path: impl Into<PathBuf>) -> Vec<PathBuf> {
        let mut files = StoreUrl::sqlite(path).files();
        files.sort();
        files
    }

    #[test]
    fn the_files_of_a_store_include_those_that_sqlite_keeps_beside_it() {
        let expected = ["x.db", "x.db-journal", "x.db-shm", "x.db-wal"];
        assert_eq!(files("x.db"), expected.map(PathBuf::from));
        assert_eq!(files("/a/x.db"), expected.map(|name| PathBuf::from("/a").join(name)));
        let server = StoreUrl::parse("postgres://db.example/team").expect("valid");
        for url in [StoreUrl::memory(), server] {
            assert_eq!(url.files(), Vec::<PathBuf>::new(), "{url}");
        }
    }

    #[test]
    fn the_files_of_a_store_that_is_a_link_include_those_beside_its_target() {
        let scratch = tempfile::tempdir().expect("a directory");
        let link = scratch.path().join("link.db");
        // The target need not exist.
        symlink("there/x.db", &link).expect("linked");
        let names = ["link.db", "there/x.db"]
            .map(|name| ["", "-journal", "-shm", "-wal"].map(|suffix| format!("{name}{suffix}")));
        let expected: Vec<_> =
            names.into_iter().flatten().map(|name| scratch.path().join(name)).collect();
        assert_eq!(files(link), expected);
    }

    #[test]
    fn a_link_that_leads_to_itself_has_an_end() {
        let scratch = tempfile::tempdir().expect("a directory");
        let link = scratch.path().join("x.db");
        symlink("x.db", &link).expect("linked");
        assert!(StoreUrl::sqlite(&link).files().contains(&link));
    }
}
