//! The asset port over the host socket, whose descriptor `IKIGAI_HOST_FD` names.
//!
//! The host checks the requests. Without a socket, no asset is granted.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use ikigai_protocol::host_socket::{
    EditOutput, EditParams, HOST_FD_VARIABLE, Operation, ReadOutput, ReadParams, SocketRequest,
    WriteOutput, WriteParams, decode_answer,
};
use ikigai_protocol::{AssetError, ToolCode};
use ikigai_tools::ports::{Assets, LineWindow};
use rustix::net::{AddressFamily, SocketType, getsockname, sockopt};
use serde::de::DeserializeOwned;

/// The first number that is not a standard stream.
const FIRST: RawFd = 3;

/// The assets of the host that started this process.
#[derive(Debug)]
pub struct HostAssets {
    socket: Option<UnixStream>,
}

impl HostAssets {
    /// Takes the socket whose descriptor is `value`; without a value, no asset is granted.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not the number of a connected Unix socket.
    pub fn inherited(value: Option<&str>) -> Result<Self, String> {
        let Some(value) = value else { return Ok(Self { socket: None }) };
        let socket = value.parse().ok().filter(|number| *number >= FIRST).and_then(taken);
        match socket {
            Some(socket) => Ok(Self { socket: Some(socket) }),
            None => Err(format!("{HOST_FD_VARIABLE} is `{value}`, which is not the host's socket")),
        }
    }

    fn ask<T: DeserializeOwned>(&self, uri: &str, operation: Operation) -> Result<T, AssetError> {
        let socket = self.socket.as_ref().ok_or_else(|| AssetError::not_granted(uri))?;
        let broken = |error: &dyn std::fmt::Display| {
            AssetError::new(ToolCode::OpenFailed, format!("Cannot open asset: {uri} ({error})"))
        };
        let line = exchange(socket, &operation).map_err(|error| broken(&error))?;
        decode_answer(&line).map_err(|error| broken(&error))?
    }
}

/// Sends a request and waits for its answer.
fn exchange(mut socket: &UnixStream, operation: &Operation) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&SocketRequest::new(1, operation.clone()))?;
    line.push(b'\n');
    socket.write_all(&line)?;
    line.clear();
    BufReader::new(socket).read_until(b'\n', &mut line)?;
    if line.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(line) }
}

/// Returns a duplicate of descriptor `number`, if it is a Unix socket.
fn taken(number: RawFd) -> Option<UnixStream> {
    // SAFETY: nothing in this process closes descriptors that it did not open, so the number
    // means the same until it is duplicated; if it is not open, duplicating it fails.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    let own: OwnedFd = rustix::io::fcntl_dupfd_cloexec(inherited, FIRST).ok()?;
    let is_unix = getsockname(&own).is_ok_and(|it| it.address_family() == AddressFamily::UNIX);
    let is_stream = sockopt::socket_type(&own).is_ok_and(|it| it == SocketType::STREAM);
    (is_unix && is_stream).then(|| UnixStream::from(own))
}

impl Assets for HostAssets {
    fn read(&self, uri: &str, lines: LineWindow) -> Result<String, AssetError> {
        let offset = Some(lines.skip.saturating_add(1));
        let read = ReadParams { uri: uri.to_owned(), offset, limit: lines.limit };
        self.ask(uri, Operation::Read(read)).map(|ReadOutput { content }| content)
    }

    fn write(&self, uri: &str, content: &str) -> Result<(), AssetError> {
        let write = WriteParams { uri: uri.to_owned(), content: content.to_owned() };
        self.ask(uri, Operation::Write(write)).map(|WriteOutput { .. }| ())
    }

    fn edit(&self, uri: &str, old: &str, new: &str, all: bool) -> Result<u64, AssetError> {
        let edit =
            EditParams { uri: uri.to_owned(), old: old.to_owned(), new: new.to_owned(), all };
        self.ask(uri, Operation::Edit(edit)).map(|EditOutput { replacements }| replacements)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn only_a_connected_unix_socket_is_taken() {
        let (socket, _other) = UnixStream::pair().expect("a pair");
        let number = socket.as_raw_fd().to_string();
        assert!(HostAssets::inherited(Some(&number)).is_ok());
        let file = std::fs::File::open("/dev/null").expect("a file");
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let others = [file.as_raw_fd(), udp.as_raw_fd(), 0, -1, 9999, RawFd::MAX];
        for other in others.map(|number| number.to_string()).iter().map(String::as_str) {
            assert!(HostAssets::inherited(Some(other)).is_err(), "{other}");
        }
        assert!(HostAssets::inherited(Some("")).is_err());
        assert!(HostAssets::inherited(Some("3x")).is_err());
    }

    #[test]
    fn a_host_that_goes_away_is_an_answer() {
        let (socket, other) = UnixStream::pair().expect("a pair");
        let assets = HostAssets { socket: Some(socket) };
        drop(other);
        let error = assets.read("ikigai:///a", LineWindow::ALL).expect_err("nobody answers");
        assert_eq!(error.code, ToolCode::OpenFailed);
        let none = HostAssets::inherited(None).expect("no socket is no error");
        let error = none.write("ikigai:///a", "x").expect_err("refused");
        assert_eq!(error.code, ToolCode::PermissionDenied);
    }
}
