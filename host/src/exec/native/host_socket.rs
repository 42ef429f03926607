//! The host's end of the socket over which a native tool reaches assets.
//!
//! Owns the conversation: a line, its answer, the next line. `ikigai-protocol` owns the format
//! of lines, [`AssetGate`] the permissions. It keeps one line of a tool, of a bounded length, and
//! one answer; a tool that sends without reading blocks itself. Requests that are not answered
//! when the call ends are dropped.

use std::io;
use std::os::fd::OwnedFd;

use ikigai_protocol::host_socket::{
    EditOutput, EditParams, Id, ListParams, MAX_LINE, Operation, ReadOutput, ReadParams,
    RequestFault, RequestRefusal, WriteOutput, WriteParams, decode, encode_failure, encode_refusal,
    encode_result,
};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;

use super::streams::StreamSignals;
use crate::exec::Call;
use crate::exec::assets::{AssetError, AssetGate, Window};
use crate::exec::pipes::ThreadedReader;
use crate::policy::AssetAccess;

/// The size of a read, in bytes.
const CHUNK: usize = 64 << 10;

/// The buffer that a line may leave allocated for the next one, in bytes.
const KEPT: usize = 1 << 20;

/// Returns the host's end and the tool's, if the call is granted assets.
pub(super) fn open(call: &Call) -> io::Result<Option<(UnixStream, OwnedFd)>> {
    if call.grant.assets == AssetAccess::None {
        return Ok(None);
    }
    let (own, its) = std::os::unix::net::UnixStream::pair()?;
    own.set_nonblocking(true)?;
    // The kernel gives the tool's end a name to which no program can connect, and a socket takes no
    // second name. A name that the tool chose would belong to the host's network.
    rustix::net::bind(&its, &rustix::net::SocketAddrUnix::new_unnamed())?;
    Ok(Some((UnixStream::from_std(own)?, its.into())))
}

/// Answers the tool's requests until it closes the socket or ends.
pub(super) async fn serve(socket: Option<UnixStream>, gate: &AssetGate, signals: &StreamSignals) {
    let Some(socket) = socket else { return };
    // A separate task: a long line is work, and the tool's streams must not wait for it.
    let mut conversation = tokio::spawn(converse(socket, gate.clone()));
    tokio::select! {
        biased;
        () = signals.ended.cancelled() => conversation.abort(),
        ended = &mut conversation => match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a tool's host socket broke"),
            Err(error) => tracing::error!(%error, "a tool's host socket was lost"),
        },
    }
}

async fn converse(socket: UnixStream, gate: AssetGate) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(CHUNK, ThreadedReader::new(socket));
    let mut line = Vec::new();
    loop {
        line.clear();
        line.shrink_to(KEPT);
        match next_line(&mut reader, &mut line).await? {
            BufferedLine::Whole => {
                let answer = answer(&gate, &line).await?;
                write_all(reader.get_ref().end()?, &answer).await?;
            }
            BufferedLine::TooLong => {
                // The beginning of the next line could only be found by reading on.
                let message = format!("a line has at most {MAX_LINE} bytes; the socket is closed");
                let refusal =
                    RequestRefusal { id: Id::Null, fault: RequestFault::Request, message };
                return write_all(reader.get_ref().end()?, &encode_refusal(&refusal)?).await;
            }
            BufferedLine::End => return Ok(()),
        }
    }
}

/// Writes to the socket, which takes no lock that the tool can hold.
async fn write_all(socket: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        socket.writable().await?;
        match socket.try_write(bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The content of the buffer after a read.
enum BufferedLine {
    /// A line, without its newline.
    Whole,
    /// The beginning of a line that is too long.
    TooLong,
    /// Nothing, or a line without a newline, which is ignored.
    End,
}

async fn next_line(
    reader: &mut BufReader<ThreadedReader<UnixStream>>,
    line: &mut Vec<u8>,
) -> io::Result<BufferedLine> {
    reader.take(MAX_LINE as u64 + 1).read_until(b'\n', line).await?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(BufferedLine::Whole);
    }
    Ok(if line.len() > MAX_LINE { BufferedLine::TooLong } else { BufferedLine::End })
}

async fn answer(gate: &AssetGate, line: &[u8]) -> serde_json::Result<Vec<u8>> {
    let (id, operation) = match decode(line) {
        Ok(request) => request,
        Err(refusal) => return encode_refusal(&refusal),
    };
    match operation {
        Operation::Read(ReadParams { uri, offset, limit }) => {
            let content = gate.read(uri, Window { offset, limit }).await;
            encode(&id, content.map(|content| ReadOutput { content }))
        }
        Operation::Write(WriteParams { uri, content }) => {
            let bytes = content.len() as u64;
            encode(&id, gate.write(uri, content).await.map(|()| WriteOutput { bytes }))
        }
        Operation::Edit(EditParams { uri, old, new, all }) => {
            let replacements = gate.edit(uri, old, new, all).await;
            encode(&id, replacements.map(|replacements| EditOutput { replacements }))
        }
        Operation::List(ListParams { prefix }) => encode(&id, gate.list(prefix).await),
    }
}

fn encode<T: Serialize>(id: &Id, outcome: Result<T, AssetError>) -> serde_json::Result<Vec<u8>> {
    match outcome {
        Ok(result) => encode_result(id, &result),
        Err(error) => encode_failure(id, &error),
    }
}
