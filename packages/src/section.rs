//! The custom section `ikigai:manifest` of a core module or component.
//!
//! Owns the walk over the outermost sections of a file. Sections of nested modules and components
//! are ignored, because a part does not speak for the whole. Nothing else in the file is checked.
//! The compiler does that.
//!
//! A file is a header of 8 bytes, followed by sections. A section consists of an id of one byte,
//! its size in LEB128, and its bytes
//! (<https://webassembly.github.io/spec/core/binary/modules.html#sections>). Components have the
//! same form, and their custom sections have the same id, 0.

use std::io::{self, BufReader, Read};

use wasmparser::{BinaryReader, Chunk, Parser, Payload};

/// The first bytes of every core module and component.
pub const MAGIC: &[u8] = b"\0asm";

/// The name of the section.
pub const SECTION: &str = "ikigai:manifest";

/// The largest contents of the section in bytes.
pub const MAX_SECTION_BYTES: usize = 64 << 10;

/// The largest file of a tool in bytes.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// The id of custom sections.
const CUSTOM: u8 = 0;

/// The size of the header in bytes.
const HEADER: u64 = 8;

/// The longest size field in LEB128, in bytes.
const LONGEST_SIZE: usize = 5;

/// The reason why the section of a file cannot be read or written. Each text completes a sentence
/// that begins with the file.
#[derive(Debug, thiserror::Error)]
pub enum SectionError {
    /// The file cannot be read.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// The file is neither a core module nor a component.
    #[error("is not a WebAssembly module or component")]
    NotWasm,
    /// A section has an invalid size or name, or the file ends inside it.
    #[error("is broken or cut off: its section at byte {offset} cannot be read")]
    Broken {
        /// The offset of the section.
        offset: u64,
    },
    /// The file is larger than [`MAX_FILE_BYTES`].
    #[error("is larger than {MAX_FILE_BYTES} bytes, which no tool may be")]
    FileTooLarge,
    /// The section is larger than [`MAX_SECTION_BYTES`].
    #[error("has a section `{SECTION}` of {bytes} bytes; at most {MAX_SECTION_BYTES} are allowed")]
    SectionTooLarge {
        /// The size of its contents.
        bytes: u64,
    },
    /// The file has two manifests, so it is not clear which one counts.
    #[error("has two sections `{SECTION}`, at bytes {first} and {second}")]
    Twice {
        /// The offset of the first.
        first: u64,
        /// The offset of the second.
        second: u64,
    },
}

/// Returns the contents of the section, or `None` if the file does not have it. Reads the file to
/// its end, but keeps only this section in memory.
///
/// # Errors
///
/// Fails if the file cannot be read, is not valid WebAssembly, is too large, or has two such
/// sections or one that is too large.
pub fn read(file: impl Read) -> Result<Option<Vec<u8>>, SectionError> {
    let mut walk = SectionWalk::begin(file)?;
    let mut found: Option<(u64, Vec<u8>)> = None;
    while let Some(section) = walk.next()? {
        let Some(contents) = section.manifest else { continue };
        if let Some((first, _)) = found {
            return Err(SectionError::Twice { first, second: section.start });
        }
        found = Some((section.start, contents));
    }
    Ok(found.map(|(_, contents)| contents))
}

/// Returns the file with a last section that has these `contents`. It replaces every such section
/// in the file. All other sections keep their contents and their order.
///
/// # Errors
///
/// Fails if the file is not valid WebAssembly, or if the file or the section is too large.
pub fn write(file: &[u8], contents: &[u8]) -> Result<Vec<u8>, SectionError> {
    if contents.len() > MAX_SECTION_BYTES {
        return Err(SectionError::SectionTooLarge { bytes: contents.len() as u64 });
    }
    let mut written = remove(file)?;
    let mut section = Vec::with_capacity(contents.len() + SECTION.len() + 2 * LONGEST_SIZE);
    write_size(SECTION.len(), &mut section);
    section.extend_from_slice(SECTION.as_bytes());
    section.extend_from_slice(contents);
    written.push(CUSTOM);
    write_size(section.len(), &mut written);
    written.append(&mut section);
    if written.len() as u64 > MAX_FILE_BYTES {
        return Err(SectionError::FileTooLarge);
    }
    Ok(written)
}

/// Returns the file without any such section. All other sections stay unchanged.
///
/// # Errors
///
/// Fails if the file is not valid WebAssembly, is too large, or has such a section that is too
/// large.
pub fn remove(file: &[u8]) -> Result<Vec<u8>, SectionError> {
    let mut walk = SectionWalk::begin(file)?;
    let mut kept = Vec::with_capacity(file.len());
    let mut start = 0;
    while let Some(section) = walk.next()? {
        if section.manifest.is_some() {
            kept.extend_from_slice(part(file, start, section.start));
            start = walk.offset;
        }
    }
    kept.extend_from_slice(part(file, start, walk.offset));
    Ok(kept)
}

/// Returns the bytes of a file between two offsets.
fn part(file: &[u8], start: u64, end: u64) -> &[u8] {
    let index = |offset| usize::try_from(offset).unwrap_or(usize::MAX).min(file.len());
    &file[index(start)..index(end)]
}

/// Writes a number in LEB128, in as few bytes as possible.
fn write_size(mut number: usize, into: &mut Vec<u8>) {
    loop {
        let bits = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            return into.push(bits);
        }
        into.push(bits | 0x80);
    }
}

/// A section that the walk has passed.
struct Section {
    /// The offset of its id.
    start: u64,
    /// Its contents, if it is the manifest's section.
    manifest: Option<Vec<u8>>,
}

/// A walk over the outermost sections of a file.
struct SectionWalk<R> {
    reader: BufReader<R>,
    /// The number of bytes read so far.
    offset: u64,
}

impl<R: Read> SectionWalk<R> {
    /// Reads the header.
    fn begin(reader: R) -> Result<Self, SectionError> {
        let mut walk = Self { reader: BufReader::with_capacity(64 << 10, reader), offset: 0 };
        let header = walk.take(HEADER)?;
        match Parser::new(0).parse(&header, false) {
            Ok(Chunk::Parsed { payload: Payload::Version { .. }, .. }) => Ok(walk),
            _ => Err(SectionError::NotWasm),
        }
    }

    /// Skips to the end of the next section and returns it. Returns `None` at the end of the file.
    fn next(&mut self) -> Result<Option<Section>, SectionError> {
        let start = self.offset;
        let broken = SectionError::Broken { offset: start };
        let Some(id) = self.byte()? else { return Ok(None) };
        let Some(size) = self.size()? else { return Err(broken) };
        let end = self.offset + u64::from(size);
        if end > MAX_FILE_BYTES {
            return Err(SectionError::FileTooLarge);
        }
        let manifest = if id == CUSTOM { self.manifest(end, start)? } else { None };
        let rest = end - self.offset;
        let skipped = io::copy(&mut (&mut self.reader).take(rest), &mut io::sink());
        if skipped.map_err(SectionError::Read)? < rest {
            return Err(broken);
        }
        self.offset = end;
        Ok(Some(Section { start, manifest }))
    }

    /// Reads the name of the custom section that ends at `end`, and its contents if it is the
    /// manifest's.
    fn manifest(&mut self, end: u64, start: u64) -> Result<Option<Vec<u8>>, SectionError> {
        let broken = || SectionError::Broken { offset: start };
        let whole = end - self.offset;
        let mut beginning = self.take(whole.min((LONGEST_SIZE + SECTION.len()) as u64))?;
        let mut reader = BinaryReader::new(&beginning, 0);
        let length = reader.read_var_u32().map_err(|_| broken())? as usize;
        let name = reader.current_position();
        if (name + length) as u64 > whole {
            return Err(broken());
        }
        if beginning.get(name..name + length) != Some(SECTION.as_bytes()) {
            return Ok(None);
        }
        let bytes = whole - (name + length) as u64;
        if bytes > MAX_SECTION_BYTES as u64 {
            return Err(SectionError::SectionTooLarge { bytes });
        }
        let mut contents = beginning.split_off(name + length);
        contents.append(&mut self.take(end - self.offset)?);
        if contents.len() as u64 == bytes { Ok(Some(contents)) } else { Err(broken()) }
    }

    /// Reads the size of a section. Returns `None` if it is invalid.
    fn size(&mut self) -> Result<Option<u32>, SectionError> {
        let mut bytes = [0; LONGEST_SIZE];
        for length in 1..=LONGEST_SIZE {
            let Some(byte) = self.byte()? else { return Ok(None) };
            bytes[length - 1] = byte;
            if byte & 0x80 == 0 {
                return Ok(BinaryReader::new(&bytes[..length], 0).read_var_u32().ok());
            }
        }
        Ok(None)
    }

    /// Reads a byte. Returns `None` at the end of the file.
    fn byte(&mut self) -> Result<Option<u8>, SectionError> {
        let byte = self.reader.by_ref().bytes().next().transpose().map_err(SectionError::Read)?;
        self.offset += u64::from(byte.is_some());
        Ok(byte)
    }

    /// Reads `count` bytes, or fewer at the end of the file.
    fn take(&mut self, count: u64) -> Result<Vec<u8>, SectionError> {
        let mut bytes = Vec::new();
        let read = (&mut self.reader).take(count).read_to_end(&mut bytes);
        self.offset += read.map_err(SectionError::Read)? as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
