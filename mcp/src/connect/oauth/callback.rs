//! The address on this machine to which a browser brings the answer of an issuer: RFC 8252.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::OAuthError;
use super::authorization::Authorization;

/// The path of the address.
const PATH: &str = "/callback";

/// The longest head of a request in bytes.
const LONGEST: usize = 16 << 10;

/// The time within which a browser must send its request, and read the answer.
const TIME: Duration = Duration::from_secs(10);

/// The most connections at once. Browsers open some that they do not use, so the oldest connection
/// makes room for a new one.
const AT_ONCE: usize = 16;

/// A listener that waits for the answer to one login.
#[derive(Debug)]
pub struct Callback {
    listener: TcpListener,
    address: SocketAddr,
}

/// A browser's request and its query.
#[derive(Debug)]
struct CallbackRequest {
    stream: TcpStream,
    query: String,
}

/// The browsers whose requests are being read, the oldest first.
#[derive(Default)]
struct Browsers {
    tasks: JoinSet<Option<CallbackRequest>>,
    waiting: VecDeque<AbortHandle>,
}

impl Browsers {
    /// Starts to read one more request. If there are too many, aborts the oldest.
    fn hear(&mut self, asked: impl Future<Output = Option<CallbackRequest>> + Send + 'static) {
        self.waiting.retain(|it| !it.is_finished());
        if self.waiting.len() >= AT_ONCE
            && let Some(oldest) = self.waiting.pop_front()
        {
            oldest.abort();
        }
        self.waiting.push_back(self.tasks.spawn(asked));
    }
}

impl Callback {
    /// Listens only on this machine. If the port is 0, the system picks one.
    ///
    /// # Errors
    ///
    /// Fails if the port is taken.
    pub async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Returns the address that the browser opens.
    #[must_use]
    pub fn redirect(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Waits for the answer to a login, and returns its code. Other requests are refused, and the
    /// wait continues, because every program on this machine can send one.
    ///
    /// # Errors
    ///
    /// Fails if the answer has no code.
    pub async fn code(&self, login: &Authorization) -> Result<String, OAuthError> {
        let mut browsers = Browsers::default();
        loop {
            let asked = tokio::select! {
                accepted = self.listener.accept() => {
                    match accepted {
                        Ok((stream, _)) => {
                            browsers.hear(asked(stream));
                        }
                        Err(error) => {
                            // Most errors concern one connection. An error that persists must not
                            // keep a processor busy.
                            tracing::debug!("a browser was not heard: {error}");
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                    }
                    continue;
                }
                Some(asked) = browsers.tasks.join_next() => asked,
            };
            let Ok(Some(CallbackRequest { mut stream, query })) = asked else { continue };
            let answer = login.answered(&query);
            let page = match &answer {
                None => (400, "This answer belongs to no login that ikigai waits for."),
                Some(Ok(_)) => (200, "ikigai has the answer. You can close this page."),
                Some(Err(_)) => (400, "The login failed. The terminal says why."),
            };
            say(&mut stream, page).await;
            if let Some(answer) = answer {
                return answer;
            }
        }
    }
}

/// Reads a request, and returns it if its path is the callback's.
async fn asked(mut stream: TcpStream) -> Option<CallbackRequest> {
    let head = tokio::time::timeout(TIME, head(&mut stream)).await.ok()?.ok()?;
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if method != "GET" || path != PATH {
        say(&mut stream, (404, "There is nothing here.")).await;
        return None;
    }
    Some(CallbackRequest { query: query.to_owned(), stream })
}

/// Reads the head of a request.
async fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut bytes).await?;
        if read == 0 || head.len() + read > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&bytes[..read]);
    }
    String::from_utf8(head).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Answers a browser with a page.
async fn say(stream: &mut TcpStream, (status, text): (u16, &str)) {
    let reason = if status == 200 { "OK" } else { "Refused" };
    // The page's own address contains the code, so the headers keep it away from other sites.
    let page = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         content-length: {}\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n\
         x-content-type-options: nosniff\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    let sent = tokio::time::timeout(TIME, async {
        stream.write_all(page.as_bytes()).await?;
        stream.shutdown().await
    });
    // If the browser does not read the page, its answer still counts.
    if let Err(error) = sent.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        tracing::debug!("a browser was not answered: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_without_a_request_keep_no_browser_waiting() {
        let mut browsers = Browsers::default();
        for _ in 0..3 * AT_ONCE {
            browsers.hear(std::future::pending());
        }
        browsers.hear(std::future::ready(None));
        let (mut made_room, mut heard) = (0, 0);
        while heard == 0 {
            match browsers.tasks.join_next().await.expect("some are left") {
                Ok(_) => heard += 1,
                Err(error) => made_room += usize::from(error.is_cancelled()),
            }
        }
        // The tasks that started last are still there.
        assert_eq!(browsers.tasks.len() + made_room + heard, 3 * AT_ONCE + 1);
        assert!(browsers.tasks.len() >= AT_ONCE - 1, "{}", browsers.tasks.len());
        while browsers.tasks.len() > AT_ONCE - 1 {
            browsers.tasks.join_next().await.expect("one that made room").expect_err("aborted");
        }
    }
}
