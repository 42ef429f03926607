//! The flags of a server over HTTP, and the settings that they make.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{ArgMatches, Args};
use ikigai_host::Paths;
use ikigai_host::paths::read_secret;
use ikigai_mcp::{ClientAccess, HttpSettings, OAuth, Tls};

use crate::error::CliError;
use crate::mcp::token;

/// The default address.
const ADDRESS: &str = "127.0.0.1:4127";

#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
pub(super) struct HttpArguments {
    /// Serve over HTTP instead of stdin and stdout [default: 127.0.0.1:4127]
    ///
    /// Clients connect to the path /mcp. By default they need the token in $XDG_RUNTIME_DIR/ikigai/mcp.token, or in
    /// ~/.local/state/ikigai/mcp.token if that variable is not set. The token is created if it does not exist.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = ADDRESS)]
    pub(super) http: Option<SocketAddr>,
    /// Read the token from this file, which only its owner may read
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// Accept access tokens from this issuer, whose keys ikigai fetches
    #[arg(long, value_name = "ISSUER", requires_all = ["http", "resource"],
          conflicts_with = "token_file")]
    oauth: Option<String>,
    /// This server's URL for clients, which is the audience of their tokens
    #[arg(long, value_name = "URL", requires = "oauth")]
    resource: Option<String>,
    /// Accept every client on this machine
    #[arg(long, requires = "http",
          conflicts_with_all = ["token_file", "oauth", "behind_proxy"])]
    no_auth: bool,
    /// Serve over TLS with this certificate chain, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["http", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, in PEM, which only its owner may read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve without TLS, behind a proxy that terminates it
    #[arg(long, requires = "http", conflicts_with = "tls_cert")]
    behind_proxy: bool,
    /// Also accept requests for this host at any port, or for HOST:PORT
    #[arg(long, value_name = "HOST", requires = "http")]
    allow_host: Vec<String>,
    /// Also accept requests from this origin, such as https://app.example
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,
}

/// Returns whether this command line of `mcp serve` asks for a server over HTTP.
pub(super) fn is_asked_for(matches: &ArgMatches) -> bool {
    let serve = matches.subcommand().and_then(|(_, mcp)| mcp.subcommand());
    serve.is_some_and(|(_, serve)| serve.get_one::<SocketAddr>("http").is_some())
}

/// A server over HTTP that the command line asks for.
pub(super) struct HttpServerSetup {
    pub(super) address: SocketAddr,
    pub(super) settings: HttpSettings,
    /// The file with the token that clients need.
    pub(super) token: Option<PathBuf>,
    pub(super) has_tls: bool,
}

impl HttpArguments {
    /// Returns the files with the secrets of the server, which no tool should see.
    pub(super) fn secrets(&self) -> Vec<PathBuf> {
        [&self.token_file, &self.tls_key].into_iter().flatten().cloned().collect()
    }

    /// Returns the server, if the command line asks for one.
    pub(super) fn asked(self) -> Result<Option<HttpServerSetup>, CliError> {
        let Some(address) = self.http else { return Ok(None) };
        self.check_remote(address)?;
        let (access, token) = self.access()?;
        let mut settings = HttpSettings::new(access);
        if !address.ip().is_unspecified() {
            // A web page cannot make its own host name out of an address.
            settings = settings.allow_host(&address.to_string()).map_err(CliError::usage)?;
        }
        for host in &self.allow_host {
            let allowed = settings.allow_host(host);
            settings = allowed.context("--allow-host").map_err(CliError::usage)?;
        }
        for origin in &self.allow_origin {
            let allowed = settings.allow_origin(origin);
            settings = allowed.context("--allow-origin").map_err(CliError::usage)?;
        }
        let tls = self.tls()?;
        let has_tls = tls.is_some();
        if let Some(tls) = tls {
            settings = settings.tls(tls);
        }
        Ok(Some(HttpServerSetup { address, settings, token, has_tls }))
    }

    /// Checks that a server which other machines can reach has TLS and authenticates its clients.
    fn check_remote(&self, address: SocketAddr) -> Result<(), CliError> {
        if address.ip().is_loopback() {
            return Ok(());
        }
        let refused = |what: &str, hint: &str| {
            let text = format!("other machines can reach `{address}`, and {what}");
            Err(CliError::usage(anyhow::Error::msg(text)).hint(hint))
        };
        if self.tls_cert.is_none() && !self.behind_proxy {
            let hint = "add `--tls-cert FILE --tls-key FILE`, or `--behind-proxy` if a proxy terminates TLS";
            return refused("there is no TLS", hint);
        }
        if self.token_file.is_none() && self.oauth.is_none() {
            let hint = "add `--token-file FILE`, or `--oauth ISSUER --resource URL`";
            return refused("any of them could use it", hint);
        }
        Ok(())
    }

    /// Returns the clients that are accepted, and the file with their token.
    fn access(&self) -> Result<(ClientAccess, Option<PathBuf>), CliError> {
        if self.no_auth {
            return Ok((ClientAccess::Anyone, None));
        }
        if let (Some(issuer), Some(resource)) = (&self.oauth, &self.resource) {
            let oauth = OAuth::new(issuer, resource).context("--oauth, --resource");
            return Ok((ClientAccess::OAuth(Box::new(oauth.map_err(CliError::usage)?)), None));
        }
        if let Some(file) = &self.token_file {
            let token = token::read(file).map_err(|error| {
                let hint = "write at least 32 letters and digits into it, and `chmod 600` it";
                CliError::usage(error).hint(hint)
            })?;
            return Ok((ClientAccess::Token(token), Some(file.clone())));
        }
        let (token, file) = token::of_user(&Paths::of_user()).map_err(|error| {
            CliError::failed(error)
                .hint("remove the file, or specify another with `--token-file FILE`")
        })?;
        Ok((ClientAccess::Token(token), Some(file)))
    }

    fn tls(&self) -> Result<Option<Tls>, CliError> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let cannot = |file: &Path| format!("`{}` cannot be read", file.display());
        let certificates = std::fs::read(certificate).with_context(|| cannot(certificate));
        let key = read_secret(key).with_context(|| cannot(key));
        let (certificates, key) =
            (certificates.map_err(CliError::usage)?, key.map_err(CliError::usage)?);
        let tls = Tls::from_pem(&certificates, key.as_bytes()).map_err(CliError::usage)?;
        Ok(Some(tls))
    }
}
