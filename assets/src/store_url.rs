//! Where a store is. The one type that holds a password, and it tells nobody: what is
//! shown of an address has neither user nor password nor parameters.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use url::Url;

/// The address of a store.
///
/// | text | store |
/// |---|---|
/// | `sqlite:PATH`, `sqlite://PATH` | a file; `PATH` is taken as it stands, without escapes |
/// | `memory:` | one of its own in memory, gone when it is dropped |
/// | `postgres://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETERS`, also `postgresql://` | a database of a server |
///
/// What a PostgreSQL address leaves out is taken from libpq's variables and from its
/// password file. Parameters are [`POSTGRES_PARAMETERS`], with libpq's meaning. Where
/// `sslmode` is not given and the host is another machine, it is `verify-full`: a store
/// that lies on the network is reached over TLS, by a certificate that this machine trusts.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(pub(crate) Location);

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Location {
    Memory,
    Sqlite(PathBuf),
    Postgres(Url),
}

/// The parameters that an address of PostgreSQL may have. Others are refused, since one
/// that is misspelt, and therefore ignored, could be the one that asks for TLS.
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

/// Why a text is no address of a store. The text itself is not repeated: it may hold a
/// password, all the more where it is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStoreUrl {
    /// Another scheme, or none.
    #[error("a store's address starts with `sqlite:`, `postgres://` or `memory:`")]
    Scheme,
    /// `sqlite:` and nothing after it.
    #[error("a store's address needs a path after `sqlite:`")]
    NoPath,
    /// What follows `postgres:` is no URL.
    #[error("the address of the PostgreSQL store is malformed: {0}")]
    Malformed(url::ParseError),
    /// A parameter that is not in [`POSTGRES_PARAMETERS`].
    #[error("the address of the PostgreSQL store has a parameter that is not known; known are {}", POSTGRES_PARAMETERS.join(", "))]
    Parameter,
    /// A parameter whose value makes no sense.
    #[error("the address of the PostgreSQL store has a parameter with a malformed value")]
    Value,
    /// What follows the host is no name of a database.
    #[error(
        "the address of the PostgreSQL store has a database's name with `/`, `@` or `:` in it; in a password these are written %2F, %40 and %3A"
    )]
    Database,
}

impl StoreUrl {
    /// The store in this file.
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self(Location::Sqlite(path.into()))
    }

    /// A store of its own in memory.
    #[must_use]
    pub fn memory() -> Self {
        Self(Location::Memory)
    }

    /// The file, where the store is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.0 {
            Location::Sqlite(path) => Some(path),
            Location::Memory | Location::Postgres(_) => None,
        }
    }

    /// Reads an address.
    ///
    /// # Errors
    ///
    /// For what is none; nothing is opened.
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
        // The rest of a password, as a rule, in which a slash was not escaped.
        if url.path().trim_start_matches('/').contains(['/', '@', ':']) {
            return Err(InvalidStoreUrl::Database);
        }
        Ok(Self(Location::Postgres(url)))
    }

    /// The password, as it stands in the address and as it is meant.
    pub(crate) fn passwords(&self) -> Vec<String> {
        let Location::Postgres(url) = &self.0 else { return Vec::new() };
        let Some(written) = url.password().filter(|it| !it.is_empty()) else { return Vec::new() };
        // In a form a plus is a space, which in an address it is not.
        let form = format!("password={}", written.replace('+', "%2B"));
        let meant = url::form_urlencoded::parse(form.as_bytes()).map(|(_, it)| it.into_owned());
        meant.chain([written.to_owned()]).collect()
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        !matches!(self.0, Location::Postgres(_))
    }
}

impl FromStr for StoreUrl {
    type Err = InvalidStoreUrl;

    fn from_str(text: &str) -> Result<Self, InvalidStoreUrl> {
        Self::parse(text)
    }
}

/// Without user, password and parameters.
impl fmt::Display for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Location::Memory => out.write_str("memory:"),
            Location::Sqlite(path) => write!(out, "sqlite:{}", path.display()),
            Location::Postgres(url) => {
                write!(out, "postgres://{}", url.host_str().unwrap_or_default())?;
                if let Some(port) = url.port() {
                    write!(out, ":{port}")?;
                }
                out.write_str(url.path())
            }
        }
    }
}

/// As it is displayed, and for the same reason.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidStoreUrl, StoreUrl};

    #[test]
    fn what_is_shown_tells_no_secret() {
        let text = "postgres://ann:s3cret@db.example:5433/team?user=ann2&sslmode=require";
        let url = StoreUrl::parse(text).expect("valid");
        assert_eq!(url.to_string(), "postgres://db.example:5433/team");
        assert_eq!(format!("{url:?}"), "StoreUrl(postgres://db.example:5433/team)");
    }

    #[test]
    fn what_is_malformed_is_not_repeated() {
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
}
