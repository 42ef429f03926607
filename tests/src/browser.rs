//! A browser without a window, which logs in without asking a person.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

/// The answer to a request for a page.
pub struct WebPage {
    /// The status, such as `302`.
    pub status: String,
    /// The address that the answer redirects to.
    pub location: Option<String>,
    /// The text of the page.
    pub text: String,
}

impl WebPage {
    /// Requests the page at an address that begins with `http://`.
    #[track_caller]
    pub fn get(url: &str) -> Self {
        let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("another scheme: {url}"));
        let (address, path) = rest.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(address).expect("connected");
        let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut reader = BufReader::new(stream);
        let (mut head, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("a number");
            }
            head.push(line);
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).expect("a page");
        let status = head[0].split(' ').nth(1).expect("a status").to_owned();
        let location = head.iter().find_map(|line| line.strip_prefix("location: "));
        let location = location.map(ToOwned::to_owned);
        Self { status, location, text: String::from_utf8(text).expect("UTF-8") }
    }

    /// Requests the page at an address, follows its redirects, and returns the last page.
    #[track_caller]
    pub fn open(url: &str) -> Self {
        let mut page = Self::get(url);
        while let Some(place) = page.location.take() {
            page = Self::get(&place);
        }
        page
    }
}
