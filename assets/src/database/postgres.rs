//! A store that is a database of a PostgreSQL server: how it is connected to, and how long
//! it may take.

use std::net::IpAddr;
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _};
use url::Url;

use super::failure;
use crate::backoff::Backoff;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::store_url::{InvalidStoreUrl, Location, StoreUrl};

/// Connections of a process to a server, whose own limit is 100 unless it is raised.
const CONNECTIONS: u32 = 8;

/// A connection that was used so short a time ago is taken to work.
const TRUSTED: Duration = Duration::from_secs(2);

/// A connection that is not used goes back to the server.
const IDLE: Duration = Duration::from_secs(60);

/// Connects once before there is a pool: a pool takes a server that refuses for one that is
/// about to start, and says in the end only that it has waited.
pub(super) async fn pool(address: &Url, options: &Options) -> Result<PgPool> {
    let store = StoreUrl(Location::Postgres(address.clone()));
    let connection = connection(address, options)?;
    let probe = async {
        let mut backoff = Backoff::new(u32::MAX);
        loop {
            match connection.connect().await {
                // Others have what there is, or it is about to start: for a moment, as a rule.
                Err(sqlx::Error::Database(error)) if is_passing(&*error) => backoff.pause().await,
                connected => return connected?.close().await,
            };
        }
    };
    match tokio::time::timeout(options.connect_timeout, probe).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(failure::connecting(store, error)),
        Err(_) => return Err(Error::Slow { store, waited: options.connect_timeout }),
    }
    Ok(PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(options.connect_timeout)
        .idle_timeout(IDLE)
        // Whether the server is still there is asked only where it may have gone meanwhile.
        .test_before_acquire(false)
        .before_acquire(|connection, metadata| {
            Box::pin(async move {
                if metadata.idle_for >= TRUSTED {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .connect_lazy_with(connection))
}

/// `too_many_connections` and `cannot_connect_now`.
fn is_passing(error: &dyn sqlx::error::DatabaseError) -> bool {
    matches!(error.code().as_deref(), Some("53300" | "57P03"))
}

fn connection(address: &Url, options: &Options) -> Result<PgConnectOptions> {
    // What exactly is left out, since it may be a part of the address.
    let mut connection =
        PgConnectOptions::from_str(address.as_str()).map_err(|_| InvalidStoreUrl::Value)?;
    if !names_tls_mode(address) && is_remote(&connection) {
        connection = connection.ssl_mode(PgSslMode::VerifyFull);
    }
    Ok(connection
        .options([
            ("statement_timeout", options.statement_timeout.as_millis().to_string()),
            // A process that was stopped in the middle of a transaction holds its locks.
            (
                "idle_in_transaction_session_timeout",
                options.statement_timeout.as_millis().to_string(),
            ),
        ])
        .disable_statement_logging())
}

fn names_tls_mode(address: &Url) -> bool {
    address.query_pairs().any(|(name, _)| name == "sslmode")
        || std::env::var_os("PGSSLMODE").is_some()
}

fn is_remote(connection: &PgConnectOptions) -> bool {
    if connection.get_socket().is_some() {
        return false;
    }
    let host = connection.get_host().trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    !(is_loopback || host == "localhost" || host.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use sqlx::postgres::PgConnectOptions;

    use super::is_remote;

    #[test]
    fn what_is_another_machine() {
        let remote = |url: &str| is_remote(&PgConnectOptions::from_str(url).expect(url));
        for url in ["postgres://db.example/x", "postgres://10.0.0.1/x", "postgres://[2001:db8::1]"]
        {
            assert!(remote(url), "{url}");
        }
        for url in [
            "postgres://localhost/x",
            "postgres://127.0.0.2/x",
            "postgres://[::1]/x",
            "postgres://x/y?host=/run/postgresql",
            "postgres://%2Frun%2Fpostgresql/x",
        ] {
            assert!(!remote(url), "{url}");
        }
    }
}
