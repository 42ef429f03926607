//! A peer over HTTP: Streamable HTTP at `/mcp` on a port that the system picks. If the definition
//! says so, it also has an authorization server.
//!
//! The URL is printed on stdout. The peer ends when its stdin does.

mod exchange;
mod oauth;
mod request;

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use serde_json::json;

use crate::definition::{Definition, Http, Redirect};
use crate::peer::Peer;
use crate::stdio;

use oauth::Oauth;
use request::{Request, Response};

/// A server and the state that its connections share.
struct Server {
    peer: Arc<Peer>,
    http: Http,
    /// The origin of all URLs, as `http://127.0.0.1:PORT`.
    origin: String,
    port: u16,
    oauth: Mutex<Oauth>,
    /// The sessions by number. Each is `true` while it is open.
    sessions: Mutex<Vec<bool>>,
}

/// Serves until stdin ends.
pub(crate) fn serve(definition: Definition, file: PathBuf) -> Result<(), String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listener = listener.map_err(|error| format!("there is no port: {error}"))?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let origin = format!("http://127.0.0.1:{port}");
    let http = definition.http.clone();
    let peer = Peer::new(definition, file);
    stdio::watch(&peer);
    let oauth = Mutex::new(Oauth::new(&origin));
    let server = Arc::new(Server {
        peer,
        http,
        port,
        oauth,
        sessions: Mutex::default(),
        origin: origin.clone(),
    });
    thread::spawn(move || {
        for connection in listener.incoming() {
            // A client may have gone before its connection was accepted.
            let Ok(connection) = connection else { continue };
            let server = server.clone();
            // A client may also go during an exchange, which ends with its connection.
            thread::spawn(move || drop(server.connection(connection)));
        }
    });
    writeln!(io::stdout(), "{origin}/mcp").map_err(|error| format!("cannot print: {error}"))?;
    let mut rest = Vec::new();
    io::stdin().read_to_end(&mut rest).map_err(|error| format!("cannot read stdin: {error}"))?;
    Ok(())
}

impl Server {
    /// Answers the requests of a connection, until it is closed.
    fn connection(&self, mut connection: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(connection.try_clone()?);
        while let Some(request) = Request::read(&mut reader)? {
            self.peer.journal.note(&format!("{} {}", request.method, request.target));
            match request.path() {
                "/mcp" | "/moved" => {
                    if !self.mcp(&request, &mut connection)? {
                        return Ok(());
                    }
                }
                _ => self.other(&request).write(&mut connection)?,
            }
        }
        Ok(())
    }

    /// Answers a request to the protocol's endpoint. Returns `false` if the connection ends with
    /// it.
    fn mcp(&self, request: &Request, connection: &mut TcpStream) -> io::Result<bool> {
        if request.path() == "/mcp"
            && let Some(redirect) = self.http.redirect
        {
            let host = match redirect {
                Redirect::Same => "127.0.0.1",
                // Another origin, although it leads to the same server.
                Redirect::Cross => "localhost",
            };
            let place = format!("http://{host}:{}/moved", self.port);
            Response::empty(307).header("location", &place).write(connection)?;
            return Ok(true);
        }
        if let Err(refused) = self.authorized(request) {
            refused.write(connection)?;
            return Ok(true);
        }
        if let Err(refused) = self.in_session(request) {
            refused.write(connection)?;
            return Ok(true);
        }
        match request.method.as_str() {
            "POST" => self.post(request, connection),
            "GET" if self.http.sse => self.listen(connection),
            "DELETE" if self.http.sessions => {
                let number = session_number(request);
                let mut sessions = self.sessions.lock();
                if let Some(session) = number.and_then(|number| sessions.get_mut(number)) {
                    *session = false;
                }
                drop(sessions);
                Response::empty(204).write(connection)?;
                Ok(true)
            }
            _ => {
                Response::empty(405).write(connection)?;
                Ok(true)
            }
        }
    }

    /// Checks the token of a request.
    fn authorized(&self, request: &Request) -> Result<(), Response> {
        let wanted = self.http.token.is_some() || self.http.oauth.is_some();
        if !wanted {
            return Ok(());
        }
        let token = request.header("authorization").and_then(|it| it.strip_prefix("Bearer "));
        let is_known = token.is_some_and(|token| {
            let by_oauth = self
                .http
                .oauth
                .as_ref()
                .is_some_and(|options| self.oauth.lock().accepts(token, options));
            self.http.token.as_deref() == Some(token) || by_oauth
        });
        if is_known {
            return self.sufficient(request);
        }
        let mut challenge = "Bearer".to_owned();
        if self.http.oauth.is_some() {
            let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.origin);
            challenge += &format!(" resource_metadata=\"{metadata}\", scope=\"tools\"");
        }
        if token.is_some() {
            challenge += if challenge.contains(' ') { "," } else { "" };
            challenge += " error=\"invalid_token\"";
        }
        Err(Response::empty(401).header("www-authenticate", &challenge))
    }

    /// Refuses a call that needs a scope which all tokens lack.
    fn sufficient(&self, request: &Request) -> Result<(), Response> {
        let lacks = self.http.oauth.as_ref().and_then(|options| options.lacks.as_deref());
        match lacks {
            Some(scope) if request.json()["method"] == "tools/call" => {
                let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
                Err(Response::empty(403).header("www-authenticate", &challenge))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a request names its session.
    fn in_session(&self, request: &Request) -> Result<(), Response> {
        let opens = request.json()["method"] == "initialize";
        let is_modern = request.header("mcp-protocol-version") == Some(crate::message::MODERN);
        if !self.http.sessions || opens || is_modern {
            return Ok(());
        }
        if request.header("mcp-session-id").is_none() {
            return Err(Response::empty(400));
        }
        let sessions = self.sessions.lock();
        let number = session_number(request);
        let is_open = number.is_some_and(|number| sessions.get(number) == Some(&true));
        if is_open { Ok(()) } else { Err(Response::empty(404)) }
    }

    /// Opens a session and returns its id.
    fn open_session(&self) -> String {
        let mut sessions = self.sessions.lock();
        sessions.push(true);
        format!("session-{}", sessions.len() - 1)
    }

    /// Answers a request to any other path than the protocol's endpoint.
    fn other(&self, request: &Request) -> Response {
        match &self.http.oauth {
            Some(options) => self.oauth.lock().answer(request, options),
            None => Response::json(404, &json!({ "error": "not found" })),
        }
    }
}

fn session_number(request: &Request) -> Option<usize> {
    request.header("mcp-session-id")?.strip_prefix("session-")?.parse().ok()
}
