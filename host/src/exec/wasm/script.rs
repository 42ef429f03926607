//! Puts a script into the component of the shell, which makes a component that is the script.
//!
//! The shell has a place for it among its data, a [`ScriptSlot`]. The script takes that place byte
//! for byte, so that nothing else in the file moves. Decides which scripts can be carried, and
//! reads and writes no file.

use std::ops::Range;

use ikigai_protocol::ScriptSlot;
use wasmparser::{BinaryReaderError, Parser, Payload, Validator};

/// The beginning of a script.
const SHEBANG: &str = "#!";

/// The programs that the shell can stand in for.
const SHELLS: [&str; 2] = ["sh", "bash"];

/// The program that looks up another program.
const ENV: &str = "env";

/// The custom sections around everything else that a script's tool takes over from the shell: they
/// are about the code, which is the same. Any other speaks for the shell as a whole (its manifest,
/// its version, its signature), and would say something false about the tool.
const KEPT_SECTIONS: [&str; 2] = ["component-name", "producers"];

/// The longest part of a script's first line that a message shows, in characters.
const SHOWN: usize = 80;

/// The reason that a script cannot be put into the shell.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The component has no place for a script.
    #[error("this shell cannot contain a script: reinstall ikigai")]
    NoSlot,
    /// With the script in it, the file is not a component any more.
    #[error("the shell cannot be used with a script in it ({0}): reinstall ikigai")]
    Invalid(String),
    /// The script does not begin with `#!`.
    #[error("the script does not begin with `#!`: make `#!/bin/sh` its first line")]
    NoShebang,
    /// The first line names another program than a shell.
    #[error(
        "the script is for `{0}`, but only scripts for `sh` and `bash` can become components: if \
         it is one, make `#!/bin/sh` its first line"
    )]
    OtherInterpreter(String),
    /// The first line has options for the shell.
    #[error(
        "the script passes `{0}` to its shell on the first line, which this shell does not \
         support: write `set {0}` on its own line"
    )]
    Options(String),
    /// The script is not text in UTF-8.
    #[error("the script is not UTF-8 in line {0}: save it as UTF-8")]
    NotUtf8(usize),
    /// The script contains a NUL byte.
    #[error("the script has a NUL byte in line {0}, which no shell script can have: remove it")]
    Nul(usize),
    /// The script is larger than its place.
    #[error(
        "the script has {size} bytes, and the shell carries {capacity} at most: make it shorter, or \
         write the tool in a compiled language"
    )]
    TooLarge {
        /// The size of the script.
        size: usize,
        /// The size of the largest script.
        capacity: usize,
    },
}

/// Returns the component `shell` with `script` in it, which replaces any script that it carried
/// before. The result is a tool that is the script.
///
/// # Errors
///
/// See [`ScriptError`].
pub fn embed(shell: &[u8], script: &[u8]) -> Result<Vec<u8>, ScriptError> {
    check(script)?;
    // A file that cannot be read has no place either.
    let layout = ComponentLayout::from_component(shell).map_err(|_| ScriptError::NoSlot)?;
    let capacity = layout.slots.iter().map(Range::len).min().ok_or(ScriptError::NoSlot)?;
    let capacity = capacity - ScriptSlot::HEADER;
    let (Ok(length), true) = (u32::try_from(script.len()), script.len() <= capacity) else {
        return Err(ScriptError::TooLarge { size: script.len(), capacity });
    };
    let mut filled = shell.to_vec();
    for slot in layout.slots {
        let (header, text) = filled[slot].split_at_mut(ScriptSlot::HEADER);
        header[LENGTH].copy_from_slice(&length.to_le_bytes());
        let (place, rest) = text.split_at_mut(script.len());
        place.copy_from_slice(script);
        rest.fill(ScriptSlot::FILL);
    }
    // The last first, so that the places of the others stay.
    for section in layout.of_the_shell.into_iter().rev() {
        filled.drain(section);
    }
    match Validator::new().validate_all(&filled) {
        Ok(_) => Ok(filled),
        Err(error) => Err(ScriptError::Invalid(error.to_string())),
    }
}

/// The bytes of a slot with its capacity and with the length of its text.
const CAPACITY: Range<usize> = ScriptSlot::HEADER - 8..ScriptSlot::HEADER - 4;
const LENGTH: Range<usize> = ScriptSlot::HEADER - 4..ScriptSlot::HEADER;

/// Checks that the shell can run a script, as far as its first line and its bytes say.
fn check(script: &[u8]) -> Result<(), ScriptError> {
    let line_of = |at: usize| script[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    let text = str::from_utf8(script)
        .map_err(|error| ScriptError::NotUtf8(line_of(error.valid_up_to())))?;
    if let Some(at) = text.find('\0') {
        return Err(ScriptError::Nul(line_of(at)));
    }
    let Some(rest) = text.strip_prefix(SHEBANG) else { return Err(ScriptError::NoShebang) };
    let line = rest.split('\n').next().unwrap_or_default();
    let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
    let mut interpreter = words.next().unwrap_or_default();
    if file_name(interpreter) == ENV {
        interpreter = words.next().unwrap_or_default();
    }
    if !SHELLS.contains(&file_name(interpreter)) {
        return Err(ScriptError::OtherInterpreter(shown(interpreter)));
    }
    let options: Vec<&str> = words.collect();
    if options.is_empty() { Ok(()) } else { Err(ScriptError::Options(shown(&options.join(" ")))) }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns a part of a script for a message: it may be long or unprintable.
fn shown(text: &str) -> String {
    text.escape_debug().take(SHOWN).collect()
}

/// The places in a component that a script changes.
#[derive(Default)]
struct ComponentLayout {
    /// The slots in the data of its modules, nested ones too, since a component may contain a
    /// second build of itself.
    slots: Vec<Range<usize>>,
    /// The outermost custom sections that speak for the shell.
    of_the_shell: Vec<Range<usize>>,
}

impl ComponentLayout {
    fn from_component(component: &[u8]) -> Result<Self, BinaryReaderError> {
        let mut layout = Self::default();
        if !Parser::is_component(component) {
            return Ok(layout);
        }
        let mut depth = 0_usize;
        // Sections are reported without their headers. A header begins at the end of the last
        // section.
        let mut end_of_last = 0;
        for payload in Parser::new(0).parse_all(component) {
            let payload = payload?;
            if let Payload::DataSection(section) = &payload {
                for data in section.clone() {
                    let data = data?;
                    let start = data.range.end - data.data.len();
                    let slots = slots(data.data).into_iter();
                    layout.slots.extend(slots.map(|it| it.start + start..it.end + start));
                }
            }
            if depth == 0 {
                let end = match (&payload, payload.as_section()) {
                    (Payload::Version { range, .. }, _) => range.end,
                    (_, Some((_, range))) => range.end,
                    _ => end_of_last,
                };
                if let Payload::CustomSection(section) = &payload
                    && !KEPT_SECTIONS.contains(&section.name())
                {
                    layout.of_the_shell.push(end_of_last..end);
                }
                end_of_last = end;
            }
            match payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                // The last of them ends the component itself.
                Payload::End(_) => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        Ok(layout)
    }
}

/// Returns the places of the slots in the data of a module. A slot must be complete in its data.
fn slots(data: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = position(&data[from..], &ScriptSlot::MAGIC).map(|at| from + at) {
        from = at + ScriptSlot::MAGIC.len();
        let Some(Ok(capacity)) = data[at..].get(CAPACITY).map(<[u8; 4]>::try_from) else { break };
        let size = usize::try_from(u32::from_le_bytes(capacity)).unwrap_or(usize::MAX);
        let end = (at + ScriptSlot::HEADER).saturating_add(size);
        if end <= data.len() {
            // A script in the slot may contain the magic itself.
            from = end;
            found.push(at..end);
        }
    }
    found
}

fn position(data: &[u8], wanted: &[u8]) -> Option<usize> {
    data.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests;
