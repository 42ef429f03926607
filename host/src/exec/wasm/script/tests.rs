//! Scripts in components that have the shell's slot and nothing else of the shell.

use super::*;

/// The capacity of the slots of these tests.
const ROOM: usize = 64;

const SCRIPT: &[u8] = b"#!/bin/sh\necho one\n";

/// Returns the bytes of an empty slot.
fn slot(capacity: usize) -> Vec<u8> {
    let capacity_bytes = u32::try_from(capacity).expect("small").to_le_bytes();
    [&ScriptSlot::MAGIC[..], &capacity_bytes, &[0; 4], &vec![ScriptSlot::FILL; capacity]].concat()
}

fn literal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
}

/// Returns the text of a core module with these data.
fn module(data: &[u8]) -> String {
    let data = literal(data);
    format!(
        "(core module (memory 2) (data (i32.const 0) \"first\") (data (i32.const 16) \"{data}\"))"
    )
}

fn component(parts: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {parts})")).expect(parts)
}

/// Returns a component with a slot in the middle of its data.
fn shell() -> Vec<u8> {
    component(&module(&[b"before ", &slot(ROOM)[..], b" after"].concat()))
}

/// Returns the scripts that a program of this file would find in its slots.
fn scripts(component: &[u8]) -> Vec<Vec<u8>> {
    let layout = ComponentLayout::from_component(component).expect("readable");
    let script = |slot: Range<usize>| {
        let (header, text) = component[slot].split_at(ScriptSlot::HEADER);
        let length = u32::from_le_bytes(header[LENGTH].try_into().expect("four bytes"));
        let (script, rest) = text.split_at(length as usize);
        assert!(rest.iter().all(|byte| *byte == ScriptSlot::FILL), "{rest:?}");
        script.to_vec()
    };
    layout.slots.into_iter().map(script).collect()
}

#[test]
fn a_script_takes_the_place_in_the_shell_and_nothing_else_changes() {
    let shell = shell();
    assert_eq!(scripts(&shell), [b""]);
    let tool = embed(&shell, SCRIPT).expect("embedded");
    assert_eq!(scripts(&tool), [SCRIPT]);
    let at = position(&shell, &ScriptSlot::MAGIC).expect("a slot");
    let after = at + ScriptSlot::HEADER + ROOM;
    let without_slot = |bytes: &[u8]| [&bytes[..at], &bytes[after..]].concat();
    assert_eq!(without_slot(&tool), without_slot(&shell));
    assert!(tool[after..].starts_with(b" after"));
}

#[test]
fn another_script_replaces_the_first() {
    let first = embed(&shell(), &[SCRIPT, b"echo and more\n"].concat()).expect("embedded");
    assert_eq!(embed(&first, SCRIPT), embed(&shell(), SCRIPT));
    // A script may contain what marks the place.
    let mut with_magic = b"#!/bin/sh\n".to_vec();
    with_magic.extend(ScriptSlot::MAGIC);
    let first = embed(&shell(), &with_magic).expect("embedded");
    assert_eq!(scripts(&first), [with_magic]);
    assert_eq!(embed(&first, SCRIPT), embed(&shell(), SCRIPT));
}

#[test]
fn every_build_in_the_file_gets_the_script() {
    let nested = format!("(component {})", module(&slot(ROOM + 10)));
    let shell = component(&(module(&slot(ROOM)) + &nested + &module(b"other")));
    let tool = embed(&shell, SCRIPT).expect("embedded");
    assert_eq!(scripts(&tool), [SCRIPT, SCRIPT]);
    // The smallest place is the limit.
    let script = [b"#!/bin/sh\n", &[b':'; ROOM][..]].concat();
    let size = script.len();
    assert_eq!(embed(&shell, &script), Err(ScriptError::TooLarge { size, capacity: ROOM }));
}

#[test]
fn a_script_may_fill_its_place_and_no_more() {
    let mut script = SCRIPT.to_vec();
    script.resize(ROOM, b'#');
    assert_eq!(scripts(&embed(&shell(), &script).expect("embedded")), [script.as_slice()]);
    script.push(b'#');
    let refused = embed(&shell(), &script).expect_err("too large");
    assert!(refused.to_string().contains("has 65 bytes"), "{refused}");
    assert!(refused.to_string().contains("carries 64 at most"), "{refused}");
}

#[test]
fn sections_that_speak_for_the_shell_are_left_out() {
    let of_the_shell = "(@custom \"ikigai:manifest\" \"{}\") (@custom \"version\" \"1\")";
    let about_its_code = "(@custom \"producers\" \"\\00\")";
    let in_the_module =
        module(&slot(ROOM)).replace("(memory", "(@custom \"version\" \"2\") (memory");
    let parts = [of_the_shell, &in_the_module, about_its_code, of_the_shell].concat();
    let expected = component(&[&in_the_module, about_its_code].concat());
    let tool = embed(&component(&parts), SCRIPT).expect("embedded");
    assert_eq!(tool, embed(&expected, SCRIPT).expect("embedded"));
    let found = |text: &[u8]| position(&tool, text).is_some();
    assert!(!found(b"ikigai:manifest") && found(b"producers") && found(b"version"));
}

#[test]
fn a_file_without_a_place_is_refused() {
    let whole = shell();
    let at = position(&whole, &ScriptSlot::MAGIC).expect("a slot");
    let mut larger_than_its_data = whole.clone();
    larger_than_its_data[at + CAPACITY.start + 2] = 1;
    let module_alone =
        wat::parse_str(module(&slot(ROOM)).replace("(core module", "(module")).expect("a module");
    let custom = format!("(@custom \"data\" \"{}\")", literal(&slot(ROOM)));
    for without in [
        Vec::new(),
        b"#!/bin/sh\n".to_vec(),
        component(""),
        component(&custom),
        component(&module(&slot(ROOM)[..ScriptSlot::HEADER - 1])),
        larger_than_its_data,
        module_alone,
    ] {
        assert_eq!(embed(&without, SCRIPT), Err(ScriptError::NoSlot), "{without:?}");
    }
    for end in 0..whole.len() {
        assert!(embed(&whole[..end], SCRIPT).is_err(), "cut at {end}");
    }
    // An export of a missing function.
    let broken = component(&(module(&slot(ROOM)) + "(export \"run\" (func 7))"));
    let refused = embed(&broken, SCRIPT).expect_err("no component");
    assert!(matches!(&refused, ScriptError::Invalid(why) if why.contains("func")), "{refused}");
}

#[test]
fn what_the_shell_cannot_run_is_refused_with_the_line_or_the_name() {
    let refusal = |script: &[u8]| embed(&shell(), script).expect_err("refused");
    assert_eq!(refusal(b""), ScriptError::NoShebang);
    assert_eq!(refusal(b"echo\n#!/bin/sh\n"), ScriptError::NoShebang);
    assert_eq!(refusal(b"\xef\xbb\xbf#!/bin/sh\n"), ScriptError::NoShebang);
    assert_eq!(refusal(b"#!/bin/sh\n\n\xff\n"), ScriptError::NotUtf8(3));
    assert_eq!(refusal(b"#!/bin/sh\n\0\n"), ScriptError::Nul(2));
    let other = |name: &str| ScriptError::OtherInterpreter(name.to_owned());
    assert_eq!(refusal(b"#!/usr/bin/python3\n"), other("/usr/bin/python3"));
    assert_eq!(refusal(b"#!/usr/bin/env node\n"), other("node"));
    assert_eq!(refusal(b"#!"), other(""));
    assert_eq!(refusal(b"#!/bin/sh\r\necho\r\n"), other("/bin/sh\\r"));
    assert_eq!(refusal(b"#!/bin/\x1b[2J\n"), other("/bin/\\u{1b}[2J"));
    assert_eq!(refusal(b"#! /bin/bash -e -u\n"), ScriptError::Options("-e -u".to_owned()));
    for fine in ["#!/bin/sh", "#! /usr/bin/env\tbash \n", "#!sh\necho ✓\n"] {
        assert_eq!(scripts(&embed(&shell(), fine.as_bytes()).expect(fine)), [fine.as_bytes()]);
    }
}
