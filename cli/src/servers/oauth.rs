//! The addresses that a login may lead to.

use std::net::IpAddr;
use std::sync::Arc;

use ikigai_host::exec::mcp::{AddressGate, Remote};
use ikigai_mcp::{BoxFuture, HostResolver, OAuthHttp};
use url::{Host, Url};

use super::AddressResolver;

/// Returns an HTTP client for the server itself, limited to its granted addresses.
pub(crate) fn server_http(remote: &Remote) -> Result<OAuthHttp, String> {
    http(remote, Arc::new(AddressResolver(remote.judge.clone())), true)
}

/// Returns an HTTP client for the issuer of a server's tokens.
///
/// The server names its issuer, not a grant, so it could name any address in this machine's
/// network. The client may connect to public addresses, to addresses that the server is granted
/// and, if the server is on this machine, to addresses of this machine. Connections to other
/// machines need `https`. In addition, the user must agree to the issuer before anything is sent to
/// it.
pub(crate) fn issuer_http(remote: &Remote) -> Result<OAuthHttp, String> {
    let server_is_here = is_here(&remote.url);
    let resolver = Arc::new(OfIssuer { judge: remote.judge.clone(), server_is_here });
    http(remote, resolver, server_is_here)
}

fn http(
    remote: &Remote,
    resolver: Arc<dyn HostResolver>,
    allow_loopback: bool,
) -> Result<OAuthHttp, String> {
    Ok(OAuthHttp { resolver, tls: (*remote.judge.tls()?).clone(), allow_loopback })
}

/// Returns whether an address is on this machine. Only IP addresses count, since a name may resolve
/// to anything.
fn is_here(address: &str) -> bool {
    let url = Url::parse(address).ok();
    match url.as_ref().and_then(Url::host) {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(_)) | None => false,
    }
}

/// Checks the addresses of an issuer.
struct OfIssuer {
    judge: AddressGate,
    server_is_here: bool,
}

impl HostResolver for OfIssuer {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, Result<Vec<IpAddr>, String>> {
        let (judge, host, is_here) = (self.judge.clone(), host.to_owned(), self.server_is_here);
        Box::pin(async move {
            let found = judge.resolve_issuer(&host, port, is_here).await;
            let found = found.map_err(|error| error.to_string())?;
            Ok(found.into_iter().map(|address| address.ip()).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_here_by_its_address_alone() {
        for here in ["http://127.0.0.1:1/mcp", "https://[::1]/", "http://127.8.0.1"] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in ["http://localhost/", "https://a.example", "https://10.0.0.1", "x"] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }
}
