//! A store that is a database of a PostgreSQL server: its connections and their timeouts, and
//! the statements that run on them.

use std::net::IpAddr;
use std::str::FromStr as _;
use std::time::Duration;

use backon::Retryable as _;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::query::Query;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgExecutor, PgPool, Postgres};
use url::Url;

use super::SqlParameter;
use super::failure::{self, DatabaseFailure};
use super::row::{Column, Row};
use crate::backoff::PAUSES;
use crate::error::{Error, Result};
use crate::options::StoreOptions;
use crate::store_url::{InvalidStoreUrl, StoreLocation, StoreUrl};

/// The connections of a process to a server, whose own limit is 100 by default.
const CONNECTIONS: u32 = 8;

/// The time for which an idle connection is used without a check.
const FRESH: Duration = Duration::from_secs(2);

/// The time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(60);

/// Makes a pool of connections.
///
/// Connects once before that: a pool assumes that a server that refuses is about to start, and
/// would report only a timeout.
pub(super) async fn pool(address: &Url, options: &StoreOptions) -> Result<PgPool> {
    let store = StoreUrl(StoreLocation::Postgres(address.clone()));
    let connection = connection(address, options)?;
    let probe = async {
        let connect = || connection.connect();
        connect.retry(PAUSES).when(is_transient).await?.close().await
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
        // A ping costs a round trip, so only a connection that was idle for some time is pinged.
        .test_before_acquire(false)
        .before_acquire(|connection, metadata| {
            Box::pin(async move {
                if metadata.idle_for >= FRESH {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .connect_lazy_with(connection))
}

/// Returns whether another attempt may succeed soon: other clients have all connections
/// (`too_many_connections`), or the server is starting (`cannot_connect_now`).
fn is_transient(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("53300" | "57P03"))
}

fn connection(address: &Url, options: &StoreOptions) -> Result<PgConnectOptions> {
    // The error is left out, since it may contain a part of the address.
    let mut connection =
        PgConnectOptions::from_str(address.as_str()).map_err(|_| InvalidStoreUrl::Value)?;
    if !names_tls_mode(address) && is_remote(&connection) {
        connection = connection.ssl_mode(PgSslMode::VerifyFull);
    }
    Ok(connection
        .options([
            ("statement_timeout", options.statement_timeout.as_millis().to_string()),
            // A process that is stopped during a transaction holds its locks.
            (
                "idle_in_transaction_session_timeout",
                options.statement_timeout.as_millis().to_string(),
            ),
        ])
        .disable_statement_logging())
}

/// Returns whether the address or the environment sets `sslmode`.
fn names_tls_mode(address: &Url) -> bool {
    address.query_pairs().any(|(name, _)| name == "sslmode")
        || std::env::var_os("PGSSLMODE").is_some()
}

/// Returns whether the server is on another machine.
fn is_remote(connection: &PgConnectOptions) -> bool {
    if connection.get_socket().is_some() {
        return false;
    }
    let host = connection.get_host().trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    !(is_loopback || host == "localhost" || host.starts_with('/'))
}

/// Runs a statement that reads.
pub(super) async fn rows<T>(
    executor: impl PgExecutor<'_>,
    statement: &'static str,
    values: &[SqlParameter<'_>],
    read: impl Fn(&Row<'_>) -> Column<T>,
) -> Column<Vec<T>> {
    let rows = bound(statement, values).fetch_all(executor).await?;
    rows.into_iter().map(|row| read(&Row::Postgres(row))).collect()
}

/// Runs a statement that writes, and returns the number of rows that it changed.
pub(super) async fn execute(
    connection: &mut PgConnection,
    statement: &'static str,
    values: &[SqlParameter<'_>],
) -> std::result::Result<u64, DatabaseFailure> {
    Ok(bound(statement, values).execute(connection).await?.rows_affected())
}

/// Runs statements that have no parameters.
pub(super) async fn script(
    connection: &mut PgConnection,
    statements: &'static str,
) -> std::result::Result<(), DatabaseFailure> {
    Ok(sqlx::raw_sql(statements).execute(connection).await.map(|_| ())?)
}

fn bound(
    statement: &'static str,
    values: &[SqlParameter<'_>],
) -> Query<'static, Postgres, PgArguments> {
    values.iter().fold(sqlx::query(statement), |query, value| match *value {
        SqlParameter::Text(text) => query.bind(text.to_owned()),
        SqlParameter::OptionalText(text) => query.bind(text.map(str::to_owned)),
        SqlParameter::Bytes(bytes) => query.bind(bytes.to_vec()),
        SqlParameter::Int(number) => query.bind(number),
        SqlParameter::Flag(flag) => query.bind(flag),
    })
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use sqlx::postgres::PgConnectOptions;

    use super::is_remote;

    #[test]
    fn addresses_of_other_machines() {
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
