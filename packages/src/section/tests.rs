use proptest::prelude::*;
use wasmparser::{Parser, Payload, Validator};

use super::*;

fn binary(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("a module or component")
}

/// Returns a working core module and component, with custom sections of other programs.
fn files() -> [Vec<u8>; 2] {
    [
        binary(
            r#"(module (@custom "other" "\00\01ikigai:manifest")
                (func (export "_start")) (memory 1) (data (i32.const 0) "x"))"#,
        ),
        binary(
            r#"(component (core module $m (func (export "f") (result i32) i32.const 7))
                (core instance $i (instantiate $m))
                (func (export "f") (result u32) (canon lift (core func $i "f"))))"#,
        ),
    ]
}

/// The contents of the manifest's sections, and the other sections with id and bytes.
type Sections = (Vec<Vec<u8>>, Vec<(u8, Vec<u8>)>);

/// Returns the outermost sections, as wasmparser sees them.
fn sections(file: &[u8]) -> Sections {
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(file) {
        let payload = payload.expect("a section");
        let outermost = depth == 0;
        match &payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            _ => {}
        }
        match (&payload, payload.as_section()) {
            (Payload::CustomSection(custom), _) if outermost && custom.name() == SECTION => {
                ours.push(custom.data().to_vec());
            }
            (_, Some((id, range))) if outermost => others.push((id, file[range].to_vec())),
            _ => {}
        }
    }
    (ours, others)
}

#[test]
fn the_section_is_written_last_and_the_file_stays_valid() {
    for file in files() {
        assert_eq!(read(&file[..]).expect("read"), None);
        let written = write(&file, b"{}").expect("written");
        assert_eq!(read(&written[..]).expect("read").as_deref(), Some(&b"{}"[..]));
        assert!(written.starts_with(&file), "nothing before it moved");
        Validator::new().validate_all(&written).expect("valid");
        let again = write(&written, b"{\"a\":1}").expect("replaced");
        assert_eq!(read(&again[..]).expect("read").as_deref(), Some(&b"{\"a\":1}"[..]));
        assert_eq!(sections(&again).0.len(), 1);
        assert_eq!(remove(&again).expect("removed"), file);
    }
}

#[test]
fn a_nested_section_does_not_speak_for_the_whole() {
    let nested = r#"(@custom "ikigai:manifest" "{}")"#;
    for text in
        [format!("(component (core module {nested}))"), format!("(component (component {nested}))")]
    {
        let file = binary(&text);
        assert_eq!(read(&file[..]).expect("read"), None, "{text}");
        let written = write(&file, b"outer").expect("written");
        assert_eq!(read(&written[..]).expect("read").as_deref(), Some(&b"outer"[..]));
        assert_eq!(remove(&written).expect("removed"), file, "the nested one stays");
    }
}

#[test]
fn two_sections_are_an_error_until_one_is_written() {
    let [module, component] = files();
    for file in [module, component] {
        let one = write(&file, b"one").expect("written");
        let two = [&one[..], &one[file.len()..]].concat();
        let error = read(&two[..]).expect_err("two").to_string();
        let (first, second) = (file.len(), one.len());
        let told = format!("has two sections `ikigai:manifest`, at bytes {first} and {second}");
        assert_eq!(error, told);
        assert_eq!(write(&two, b"one").expect("written"), one);
        assert_eq!(remove(&two).expect("removed"), file);
    }
}

/// A reader that fails the test if more bytes are read than allowed.
struct Bounded<R>(R, u64);

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(into)?;
        self.1 = self.1.checked_sub(count as u64).expect("no more is read");
        Ok(count)
    }
}

/// The most bytes that may be read ahead.
const AHEAD: u64 = 128 << 10;

/// Returns the header of a module and the beginning of a section of this size.
fn beginning(id: u8, size: usize) -> Vec<u8> {
    let mut file = b"\0asm\x01\0\0\0".to_vec();
    file.push(id);
    write_size(size, &mut file);
    file
}

#[test]
fn what_is_too_large_is_refused_while_it_is_read() {
    let name = [&[SECTION.len() as u8][..], SECTION.as_bytes()].concat();
    let mut file = beginning(CUSTOM, name.len() + MAX_SECTION_BYTES + 1);
    file.extend(&name);
    let endless = Bounded(file.chain(io::repeat(b' ')), AHEAD);
    let error = read(endless).expect_err("a large section").to_string();
    assert_eq!(error, "has a section `ikigai:manifest` of 65537 bytes; at most 65536 are allowed");

    let huge = beginning(10, MAX_FILE_BYTES as usize);
    let endless = Bounded(huge.chain(io::repeat(0)), AHEAD);
    assert!(matches!(read(endless), Err(SectionError::FileTooLarge)));

    let [module, _] = files();
    let most = vec![b' '; MAX_SECTION_BYTES];
    let written = write(&module, &most).expect("as large as may be");
    assert_eq!(read(&written[..]).expect("read"), Some(most));
    let large = vec![b' '; MAX_SECTION_BYTES + 1];
    assert!(matches!(write(&module, &large), Err(SectionError::SectionTooLarge { bytes: 65537 })));
}

#[test]
fn a_file_without_end_is_not_read_to_it() {
    // These sections are small, so the size of a single one reveals nothing.
    let one = [&b"\x00\x80\x80\x02\x02xx"[..], &[0; (2 << 14) - 3]].concat();
    struct Endless(Vec<u8>, usize);
    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let from = &self.0[self.1..];
            let count = from.len().min(into.len());
            into[..count].copy_from_slice(&from[..count]);
            self.1 = (self.1 + count) % self.0.len();
            Ok(count)
        }
    }
    let header = &b"\0asm\x01\0\0\0"[..];
    let endless = Bounded(header.chain(Endless(one, 0)), MAX_FILE_BYTES + AHEAD);
    assert!(matches!(read(endless), Err(SectionError::FileTooLarge)));
}

#[test]
fn other_files_and_cut_ones_are_told() {
    for file in [&b""[..], b"\0as", b"\0asm\x02\0\0\0", b"#!/bin/sh\necho", b"<!doctype html>"] {
        assert!(matches!(read(file), Err(SectionError::NotWasm)), "{file:?}");
    }
    let header = b"\0asm\x01\0\0\0";
    for rest in [
        &b"\x00"[..],
        b"\x00\x00",
        b"\x00\x02\x05a",
        b"\x01\x05ab",
        b"\x01\xff\xff\xff\xff\xff\x00",
        b"\x00\x80",
        b"\x00\x12\x0fikigai:manifest{",
    ] {
        let file = [&header[..], rest].concat();
        let error = read(&file[..]).expect_err("broken").to_string();
        let told = "is broken or cut off: its section at byte 8 cannot be read";
        assert_eq!(error, told, "{rest:?}");
    }
    let [module, _] = files();
    let written = write(&module, b"{}").expect("written");
    for end in module.len() + 1..written.len() {
        assert!(read(&written[..end]).is_err(), "{end}");
    }
}

#[test]
fn a_reader_that_fails_is_told() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let error = read(files()[0].chain(Failing)).expect_err("fails");
    assert!(matches!(error, SectionError::Read(_)), "{error:?}");
}

/// Generates custom sections of any content. Some have a size field with more bytes than needed,
/// and some have nearly the manifest's name.
fn custom() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        "[a-z:]{0,20}",
        Just("ikigai:manifest2".to_owned()),
        Just("ikigai:manifes".to_owned()),
        Just("Ikigai:manifest".to_owned()),
    ];
    (name, proptest::collection::vec(any::<u8>(), 0..40), any::<bool>()).prop_map(
        |(name, data, is_long)| {
            let body = [&[name.len() as u8][..], name.as_bytes(), &data].concat();
            let size = body.len() as u8;
            let size = if is_long { vec![size | 0x80, 0x80, 0] } else { vec![size] };
            [&[CUSTOM][..], &size, &body].concat()
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_reads_back_and_the_rest_stays_byte_for_byte(
        before in proptest::collection::vec(custom(), 0..6),
        contents in proptest::collection::vec(any::<u8>(), 0..300),
        replaced in proptest::option::of((any::<proptest::sample::Index>(), 0..9_usize)),
        index in 0..2_usize,
    ) {
        let mut file = files()[index].clone();
        let plain = [&file[..], &before.concat()].concat();
        let position = replaced.map(|(at, length)| (at.index(before.len() + 1), length));
        for (at, section) in before.iter().map(Some).chain([None]).enumerate() {
            if let Some((_, length)) = position.filter(|(position, _)| *position == at) {
                file = write(&file, &vec![b'x'; length]).expect("written");
            }
            file.extend(section.into_iter().flatten());
        }
        let written = write(&file, &contents).expect("written");
        prop_assert_eq!(read(&written[..]).expect("read"), Some(contents.clone()));
        let (ours, others) = sections(&written);
        prop_assert_eq!(ours, [contents]);
        prop_assert_eq!(others, sections(&plain).1);
        prop_assert_eq!(remove(&written).expect("removed"), plain);
        Validator::new().validate_all(&written).expect("valid");
    }

    #[test]
    fn random_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        header in proptest::sample::select(vec![&b""[..], b"\0asm\x01\0\0\0", b"\0asm\x0d\0\x01\0"]),
    ) {
        let file = [header, &bytes].concat();
        let read_first = read(&file[..]);
        if let Ok(written) = write(&file, b"{}") {
            let back = read(&written[..]).expect("read");
            prop_assert_eq!(back.as_deref(), Some(&b"{}"[..]));
        } else {
            prop_assert!(read_first.is_err());
        }
    }
}
