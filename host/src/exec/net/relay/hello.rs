//! The first message of TLS, for the name of the server that it asks for (RFC 8446, RFC 6066).
//!
//! Reads what a program sends to its peer, and trusts nothing of it.

/// The type of a record with a part of the handshake, which is the first byte of TLS.
pub(super) const HANDSHAKE: u8 = 22;

/// The type of a record with an alert.
const ALERT: u8 = 21;

/// The types of the other records. A server may take some of them before the first message.
const OTHER_RECORDS: [u8; 4] = [20, ALERT, 23, 24];

/// The high half of the version in every record since SSL 3.
pub(super) const MAJOR: u8 = 3;

/// The type of the first message of a handshake.
pub(super) const CLIENT_HELLO: u8 = 1;

/// The extension with the name of the server.
const SERVER_NAME: u16 = 0;

/// The extension with a second first message, encrypted for the server behind the address (RFC
/// 9849). Only that server can find out for which server the message is.
const ENCRYPTED_HELLO: u16 = 0xfe0d;

/// The longest record, and the number of records in which the first message may come. Programs use
/// one or two.
pub(super) const RECORD: usize = 1 << 14;
const RECORDS: usize = 64;

/// The finding about the first bytes of a tunnel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FirstBytes {
    /// At least this many bytes are needed to decide.
    Less(usize),
    /// They are not TLS.
    Other,
    /// They are a first TLS message for this server, in lower case, or without a server's name, in
    /// records of this many bytes.
    Hello(Option<String>, usize),
    /// They are a first message in the form of SSL 2, which cannot have a name.
    Old,
    /// They begin as TLS, but the rest is malformed.
    Malformed,
}

/// Returns the finding about the first bytes of a tunnel.
pub(super) fn look(bytes: &[u8]) -> FirstBytes {
    match *bytes {
        [] => return FirstBytes::Less(1),
        [HANDSHAKE, ..] => {}
        [kind] if OTHER_RECORDS.contains(&kind) => return FirstBytes::Less(2),
        [kind, MAJOR, ..] if OTHER_RECORDS.contains(&kind) => return FirstBytes::Malformed,
        // Go's TLS takes a warning of any version below 16.0, and ignores it.
        [ALERT, 0..=0x0f, _, 0, 2, ..] => return FirstBytes::Malformed,
        [ALERT, 0..=0x0f, _, 0] => return FirstBytes::Less(5),
        [ALERT, 0..=0x0f, _] => return FirstBytes::Less(4),
        [ALERT, 0..=0x0f] => return FirstBytes::Less(3),
        // Some servers still take this form.
        [0x80..=0xff, _, CLIENT_HELLO, MAJOR, ..] => return FirstBytes::Old,
        [0x80..=0xff, _, CLIENT_HELLO] => return FirstBytes::Less(4),
        [0x80..=0xff] | [0x80..=0xff, _] => return FirstBytes::Less(3),
        _ => return FirstBytes::Other,
    }
    let mut message = Vec::new();
    let mut rest = bytes;
    let mut seen = 0;
    for _ in 0..RECORDS {
        let Some((&[kind, major, _, high, low], after)) = rest.split_first_chunk::<5>() else {
            return FirstBytes::Less(seen + 5);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || major != MAJOR || !(1..=RECORD).contains(&length) {
            return FirstBytes::Malformed;
        }
        seen += 5 + length;
        let Some((part, after)) = after.split_at_checked(length) else {
            return FirstBytes::Less(seen);
        };
        message.extend_from_slice(part);
        rest = after;
        if message[0] != CLIENT_HELLO {
            return FirstBytes::Malformed;
        }
        let mut fields = Fields(&message[1..]);
        if let Some(body) = fields.list(3) {
            return match server_name(body) {
                Some(name) => FirstBytes::Hello(name, seen),
                None => FirstBytes::Malformed,
            };
        }
    }
    FirstBytes::Malformed
}

/// Returns the name of the server in a first message; nothing if the message is malformed.
fn server_name(message: &[u8]) -> Option<Option<String>> {
    let mut fields = Fields(message);
    // The version and the random bytes.
    fields.bytes(2 + 32)?;
    let (_session, _ciphers, _compression) = (fields.list(1)?, fields.list(2)?, fields.list(1)?);
    if fields.0.is_empty() {
        return Some(None);
    }
    let mut extensions = Fields(fields.list(2)?);
    if !fields.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let (kind, content) = (extensions.number(2)?, extensions.list(2)?);
        if kind == usize::from(ENCRYPTED_HELLO) {
            return None;
        }
        if kind != usize::from(SERVER_NAME) {
            continue;
        }
        let mut names = Fields(content);
        let mut names = Fields(names.list(2).filter(|_| names.0.is_empty())?);
        // 0 is the only kind of name that exists.
        if names.number(1)? != 0 || found.is_some() {
            return None;
        }
        let name = names.list(2)?;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
        if !names.0.is_empty() || name.is_empty() || !name.iter().all(is_part) {
            return None;
        }
        let name = std::str::from_utf8(name).ok()?.trim_end_matches('.').to_ascii_lowercase();
        found = Some(name);
    }
    Some(found)
}

/// Bytes that are taken from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes a number of this many bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let taken = self.bytes(bytes)?;
        Some(taken.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Takes a list after its length, which has this many bytes.
    fn list(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let length = self.number(bytes)?;
        self.bytes(length)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::crypto::ring::default_provider;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    /// Returns the first message that rustls sends.
    fn hello(name: &str) -> Vec<u8> {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = name.to_owned().try_into().expect("a name");
        let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).expect("written");
        bytes
    }

    /// Splits a record into records of this length.
    fn split(record: &[u8], length: usize) -> Vec<u8> {
        let records = record[5..].chunks(length).map(|part| {
            let length = u16::try_from(part.len()).expect("short").to_be_bytes();
            [&[HANDSHAKE, 3, 1], &length[..], part].concat()
        });
        records.collect::<Vec<_>>().concat()
    }

    #[test]
    fn the_name_is_found_whole_and_in_pieces() {
        let whole = hello("A.Example.test");
        let found =
            |bytes: &[u8]| FirstBytes::Hello(Some("a.example.test".to_owned()), bytes.len());
        assert_eq!(look(&whole), found(&whole));
        let pieces = split(&whole, 20);
        assert_eq!(look(&pieces), found(&pieces));
        // Bytes after it are not part of it.
        assert_eq!(look(&[&whole[..], b"more"].concat()), found(&whole));
        assert_eq!(look(&split(&whole, 1)), FirstBytes::Malformed, "in too many records");
        // A message for an address has no name.
        let nameless = hello("127.0.0.1");
        assert_eq!(look(&nameless), FirstBytes::Hello(None, nameless.len()));
        for bytes in [whole.clone(), split(&whole, 20)] {
            for length in 1..bytes.len() {
                let FirstBytes::Less(needed) = look(&bytes[..length]) else { panic!("{length}") };
                assert!(needed > length && needed <= bytes.len(), "{needed} after {length}");
            }
        }
    }

    #[test]
    fn other_bytes_are_no_tls_and_damaged_ones_are_malformed() {
        assert_eq!(look(b""), FirstBytes::Less(1));
        assert_eq!(look(b"SSH-2.0-x"), FirstBytes::Other);
        assert_eq!(look(b"GET / HTTP/1.1\r\n"), FirstBytes::Other);
        assert_eq!(look(b"\x15\x00\x00\x01\x85\xa6"), FirstBytes::Other);
        assert_eq!(look(b"\xff\xfd\x18"), FirstBytes::Other);
        // A warning before the first message, and a message in the form of SSL 2.
        assert_eq!(look(b"\x15\x03\x01\x00\x02\x01\x5a"), FirstBytes::Malformed);
        assert_eq!(look(b"\x80\x2e\x01\x03\x01\x00\x15"), FirstBytes::Old);
        // A warning that Go ignores, with any version.
        assert_eq!(look(b"\x15\x00\x00\x00\x02\x01\x5a"), FirstBytes::Malformed);
        assert_eq!((look(b"\x15"), look(b"\x80")), (FirstBytes::Less(2), FirstBytes::Less(3)));
        let whole = hello("a.test");
        let changed = |at: usize, to: u8| {
            let mut bytes = whole.clone();
            bytes[at] = to;
            look(&bytes)
        };
        assert_eq!(changed(1, 2), FirstBytes::Malformed, "another version");
        assert_eq!(changed(5, 2), FirstBytes::Malformed, "another message");
        // The length of the session is beyond the message.
        assert_eq!(changed(5 + 4 + 34, 0xff), FirstBytes::Malformed);
        // No change turns it into a message for another name, or makes the reader panic.
        for at in 0..whole.len() {
            for to in [0, 1, 0x7f, 0xff] {
                changed(at, to);
            }
        }
    }

    #[test]
    fn two_names_are_malformed() {
        let extension = |names: &[u8]| {
            let list = [&u16::try_from(names.len()).expect("short").to_be_bytes(), names].concat();
            let length = u16::try_from(list.len()).expect("short").to_be_bytes();
            [&[0, 0], &length[..], &list].concat()
        };
        let message = |extensions: &[u8]| {
            let length = u16::try_from(extensions.len()).expect("short").to_be_bytes();
            [&[3; 34], &[0, 0, 2, 0x13, 1, 1, 0][..], &length, extensions].concat()
        };
        let one = extension(b"\0\0\x01a");
        assert_eq!(server_name(&message(&one)), Some(Some("a".to_owned())));
        assert_eq!(server_name(&message(b"")), Some(None));
        for extensions in [
            [one.clone(), one].concat(),
            extension(b"\0\0\x01a\0\0\x01b"),
            extension(b"\x01\0\x01a"),
            extension(b"\0\0\0"),
            extension(b"\0\0\x02a\0"),
            extension(b"\0\0\x09a"),
            // A second message, encrypted for another server.
            b"\xfe\x0d\0\x01\0".to_vec(),
        ] {
            assert_eq!(server_name(&message(&extensions)), None, "{extensions:?}");
        }
    }
}
