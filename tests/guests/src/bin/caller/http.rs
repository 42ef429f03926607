//! The attempts over `wasi:http`, without a library.

use ikigai_test_guests::Attempts;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingRequest, RequestOptions,
    Scheme,
};
use wasip2::io::streams::StreamError;

/// The most redirections that are followed.
const MOST: usize = 5;

/// A URL, in three parts. Nothing is checked here, because the host must do it.
struct Target<'a> {
    scheme: Scheme,
    authority: &'a str,
    path: &'a str,
}

fn target(url: &str) -> Target<'_> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    Target { scheme, authority, path }
}

fn request(url: &str, headers: Fields) -> Result<OutgoingRequest, ErrorCode> {
    let target = target(url);
    let request = OutgoingRequest::new(headers);
    request
        .set_scheme(Some(&target.scheme))
        .and_then(|()| request.set_authority(Some(target.authority)))
        .and_then(|()| request.set_path_with_query(Some(target.path)))
        .map_err(|()| ErrorCode::HttpRequestUriInvalid)?;
    Ok(request)
}

fn send(
    request: OutgoingRequest,
    options: Option<RequestOptions>,
) -> Result<IncomingResponse, ErrorCode> {
    let waiting = handle(request, options)?;
    waiting.subscribe().block();
    // The response exists once it is ready, and can be taken only once.
    waiting.get().expect("ready").expect("once")
}

fn fetch(url: &str) -> Result<IncomingResponse, ErrorCode> {
    send(request(url, Fields::new())?, None)
}

/// Reads a body, a piece at a time.
fn read(body: &IncomingBody, mut each: impl FnMut(Vec<u8>)) -> Result<(), String> {
    let stream = body.stream().expect("once");
    loop {
        match stream.blocking_read(64 << 10) {
            Ok(piece) => each(piece),
            Err(StreamError::Closed) => return Ok(()),
            Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
        }
    }
}

fn text(response: &IncomingResponse) -> String {
    let mut text = Vec::new();
    let read = read(&response.consume().expect("once"), |piece| text.extend(piece));
    match read {
        Ok(()) => format!("{} {}", response.status(), String::from_utf8_lossy(&text)),
        Err(error) => format!("{} broken: {error}", response.status()),
    }
}

/// Returns the status and the body, or the error code.
pub(crate) fn get(url: &str) -> String {
    fetch(url).map_or_else(|error| format!("{error:?}"), |response| text(&response))
}

/// Requests with a timeout of zero for the first byte, then with a timeout of zero between two
/// bytes.
pub(crate) fn impatient(attempts: &mut Attempts, url: &str) {
    let options = RequestOptions::new();
    options.set_first_byte_timeout(Some(1_000_000)).expect("supported");
    let response = request(url, Fields::new()).and_then(|it| send(it, Some(options)));
    attempts.observe("first", &response.map_or_else(|it| format!("{it:?}"), |it| text(&it)));
    let options = RequestOptions::new();
    options.set_between_bytes_timeout(Some(1_000_000)).expect("supported");
    let url = format!("{url}halfway");
    let response = request(&url, Fields::new()).and_then(|it| send(it, Some(options)));
    attempts.observe("between", &response.map_or_else(|it| format!("{it:?}"), |it| text(&it)));
}

/// Follows redirections, as a client does.
pub(crate) fn follow(attempts: &mut Attempts, url: &str) {
    let mut url = url.to_owned();
    for _ in 0..MOST {
        let response = match fetch(&url) {
            Ok(response) => response,
            Err(error) => return attempts.observe(&url, &format!("{error:?}")),
        };
        let location = response.headers().get("location");
        let Some(location) = location.first() else {
            return attempts.observe(&url, &text(&response));
        };
        attempts.observe(&url, &response.status().to_string());
        url = String::from_utf8_lossy(location).into_owned();
    }
}

/// Keeps two copies of everything that arrives.
pub(crate) fn hoard(attempts: &mut Attempts, url: &str) {
    let mut kept = Vec::new();
    match fetch(url) {
        Ok(response) => {
            let end = read(&response.consume().expect("once"), |piece| kept.push(piece));
            attempts.observe("end", &format!("{end:?}"));
        }
        Err(error) => attempts.observe("end", &format!("{error:?}")),
    }
    attempts.observe("kept", &kept.iter().map(Vec::len).sum::<usize>().to_string());
}

/// Sends requests that name a different host than the connection, or that are not plain requests.
pub(crate) fn forge(attempts: &mut Attempts, url: &str) {
    for name in ["host", "Host", "transfer-encoding", "connection", "upgrade", "proxy-connection"] {
        attempts
            .note(name, Fields::new().append(name, b"other.test").map_err(|it| format!("{it:?}")));
    }
    let split = Fields::new().append("x", b"y\r\nhost: other.test");
    attempts.note("a header in a header", split.map_err(|it| format!("{it:?}")));
    let forged = |change: &dyn Fn(&OutgoingRequest) -> Result<(), ()>| {
        let request = request(url, Fields::new())?;
        change(&request).map_err(|()| ErrorCode::HttpRequestUriInvalid)?;
        send(request, None)
    };
    let mut forge = |what: &str, change: &dyn Fn(&OutgoingRequest) -> Result<(), ()>| {
        attempts.note(what, forged(change).map_err(|error| format!("{error:?}")));
    };
    forge("connect", &|it| it.set_method(&Method::Connect));
    forge("connect by name", &|it| it.set_method(&Method::Other("CONNECT".into())));
    forge("a method with a line in it", &|it| {
        it.set_method(&Method::Other("GET / HTTP/1.1\r\nx:".into()))
    });
    forge("another URL as the path", &|it| it.set_path_with_query(Some("http://other.test/")));
    forge("a path with a line in it", &|it| it.set_path_with_query(Some("/ HTTP/1.1\r\nx: y")));
    forge("no authority", &|it| it.set_authority(None));
    forge("no scheme", &|it| it.set_scheme(Some(&Scheme::Other("file".into()))));
}

/// Begins requests until the host refuses, and keeps them all.
pub(crate) fn connections(attempts: &mut Attempts, url: &str) {
    let mut open = Vec::new();
    let refused = loop {
        match fetch(url) {
            Ok(response) => open.push(response),
            Err(error) => break error,
        }
    };
    attempts.observe("open", &open.len().to_string());
    attempts.observe("refused", &format!("{refused:?}"));
    drop(open);
    let again = fetch(url).map(|response| response.status().to_string());
    attempts.observe("again", &again.unwrap_or_else(|error| format!("{error:?}")));
}

/// Makes the host keep long texts, in requests that are never sent.
pub(crate) fn texts(attempts: &mut Attempts) {
    let text = "a".repeat(4 << 20);
    let kept: Vec<_> = (0..50)
        .map(|_| {
            let request = OutgoingRequest::new(Fields::new());
            let taken = request.set_authority(Some(&text)).is_ok()
                || request.set_method(&Method::Other(text.clone())).is_ok()
                || request.set_scheme(Some(&Scheme::Other(text.clone()))).is_ok()
                || request.set_path_with_query(Some(&text)).is_ok();
            (request, taken)
        })
        .collect();
    let taken = kept.iter().filter(|(_, taken)| *taken).count();
    attempts.observe("taken", &taken.to_string());
}

/// Makes the host keep requests with unread bodies, until it refuses.
pub(crate) fn requests(attempts: &mut Attempts) {
    let mut kept = Vec::new();
    for _ in 0..600 {
        let request = OutgoingRequest::new(Fields::new());
        if let Ok(body) = request.body()
            && let Ok(stream) = body.write()
        {
            while let Ok(room @ 1..) = stream.check_write() {
                let room = usize::try_from(room).unwrap_or(1 << 20).min(1 << 20);
                if stream.write(&vec![1; room]).is_err() {
                    break;
                }
            }
        }
        kept.push(request);
    }
    attempts.observe("kept", &kept.len().to_string());
}

/// Begins requests without waiting for them.
pub(crate) fn drop_requests(attempts: &mut Attempts) {
    let begin = || handle(request("http://a.test/", Fields::new())?, None);
    let begun = (0..crate::DROPPED).filter(|_| begin().is_ok());
    attempts.observe("requests", &begun.count().to_string());
    // Without a path, the host cannot make a URL of the request.
    let begin = || {
        let request = OutgoingRequest::new(Fields::new());
        request.set_authority(Some("a.test")).expect("short");
        handle(request, None)
    };
    attempts.observe("malformed", &(0..1_000).filter(|_| begin().is_err()).count().to_string());
}
