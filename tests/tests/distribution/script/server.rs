//! A server of a release's files on this machine, which may do one thing wrong.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

/// The mistake of the server when it sends an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DownloadFault {
    /// Nothing.
    None,
    /// It ends the connection in the middle.
    CutOff,
    /// It sends more than the list of sizes announces.
    Endless,
    /// It redirects from `127.0.0.1` to `localhost`, which is another host by name.
    OtherHost,
}

/// The server, which ends with the test's process.
pub(crate) struct ReleaseServer {
    address: SocketAddr,
}

impl ReleaseServer {
    pub(crate) fn start(files: &Path, fault: DownloadFault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let files = files.to_owned();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let files = files.clone();
                // A client that leaves early is part of the tests.
                thread::spawn(move || drop(answer(stream, &files, fault, address.port())));
            }
        });
        Self { address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the host to which [`DownloadFault::OtherHost`] redirects.
    pub(crate) fn other_host(&self) -> String {
        format!("localhost:{}", self.address.port())
    }
}

fn answer(stream: TcpStream, files: &Path, fault: DownloadFault, port: u16) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let is_other_host = |line: &String| line.to_lowercase().starts_with("host: localhost");
    let mut was_redirected = false;
    for line in lines {
        let line = line?;
        was_redirected |= is_other_host(&line);
        if line.is_empty() {
            break;
        }
    }
    let name = request.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
    let path: PathBuf = files.join(&name);
    let mut stream = stream;
    let Ok(bytes) = fs::read(&path) else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    };
    let fault = if name.ends_with(".tar.gz") { fault } else { DownloadFault::None };
    let length = bytes.len();
    match fault {
        DownloadFault::OtherHost if !was_redirected => write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: http://localhost:{port}/{name}\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        ),
        DownloadFault::CutOff => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?;
            stream.write_all(&bytes[..length / 2])
        }
        DownloadFault::Endless => {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            stream.write_all(&bytes)?;
            loop {
                stream.write_all(&[0; 4096])?;
            }
        }
        DownloadFault::None | DownloadFault::OtherHost => {
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length";
            write!(stream, "{head}: {length}\r\n\r\n")?;
            stream.write_all(&bytes)
        }
    }
}
