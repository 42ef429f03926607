//! Reads from an ELF program what a release promises about it: the glibc that it needs, and the
//! list of its crates that cargo-auditable stores.
//!
//! Only 64-bit little-endian programs are read, which all targets of a release have.

use anyhow::{Context as _, bail};

use crate::dist::target::GlibcVersion;

/// The section of cargo-auditable.
const AUDITABLE: &str = ".dep-v0";

/// The program header of the interpreter, which only dynamic programs have.
const PT_INTERP: u32 = 3;

/// A program, as bytes of an ELF file.
pub(crate) struct ElfProgram<'a> {
    bytes: &'a [u8],
    sections: Vec<ElfSection<'a>>,
}

struct ElfSection<'a> {
    name: &'a str,
    /// The index of the section with this section's strings.
    link: usize,
    content: &'a [u8],
}

impl<'a> ElfProgram<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> anyhow::Result<Self> {
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            bail!("it is not a 64-bit little-endian ELF file");
        }
        let table = usize::try_from(u64_at(bytes, 0x28)?)?;
        let (size, count) = (u16_at(bytes, 0x3a)?, u16_at(bytes, 0x3c)?);
        let header = |index: usize| {
            let at = table + index * usize::from(size);
            bytes.get(at..at + 64).context("a section header is missing")
        };
        let content = |header: &[u8]| -> anyhow::Result<&'a [u8]> {
            const NO_BITS: u32 = 8;
            if u32_at(header, 4)? == NO_BITS {
                return Ok(&[]);
            }
            let start = usize::try_from(u64_at(header, 0x18)?)?;
            let length = usize::try_from(u64_at(header, 0x20)?)?;
            let end = start.checked_add(length).context("a section has no end")?;
            bytes.get(start..end).context("a section is cut off")
        };
        let names = content(header(usize::from(u16_at(bytes, 0x3e)?))?)?;
        let mut sections = Vec::new();
        for index in 0..usize::from(count) {
            let header = header(index)?;
            let name = string_at(names, u32_at(header, 0)?)?;
            let link = u32_at(header, 0x28)? as usize;
            sections.push(ElfSection { name, link, content: content(header)? });
        }
        Ok(Self { bytes, sections })
    }

    /// Returns whether the program needs no interpreter and so no shared library.
    pub(crate) fn is_static(&self) -> anyhow::Result<bool> {
        let table = usize::try_from(u64_at(self.bytes, 0x20)?)?;
        let (size, count) = (u16_at(self.bytes, 0x36)?, u16_at(self.bytes, 0x38)?);
        for index in 0..usize::from(count) {
            if u32_at(self.bytes, table + index * usize::from(size))? == PT_INTERP {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the newest version of glibc that the program's symbols ask for.
    pub(crate) fn glibc(&self) -> anyhow::Result<Option<GlibcVersion>> {
        let Some(needed) = self.section(".gnu.version_r") else { return Ok(None) };
        let strings = self.sections.get(needed.link).context("the versions have no names")?.content;
        let mut newest = None;
        let mut at = 0;
        loop {
            let (count, first) = (u16_at(needed.content, at + 2)?, u32_at(needed.content, at + 8)?);
            let mut version = at + first as usize;
            for _ in 0..count {
                let name = string_at(strings, u32_at(needed.content, version + 8)?)?;
                newest = newest.max(glibc_version(name));
                version += u32_at(needed.content, version + 12)? as usize;
            }
            match u32_at(needed.content, at + 12)? as usize {
                0 => return Ok(newest),
                next => at += next,
            }
        }
    }

    /// Returns the compressed list of crates that cargo-auditable stored in the program.
    pub(crate) fn auditable(&self) -> Option<&'a [u8]> {
        self.section(AUDITABLE).map(|section| section.content)
    }

    fn section(&self, name: &str) -> Option<&ElfSection<'a>> {
        self.sections.iter().find(|section| section.name == name)
    }
}

/// Returns the version in `GLIBC_2.28` or `GLIBC_2.2.5`.
fn glibc_version(name: &str) -> Option<GlibcVersion> {
    let mut numbers = name.strip_prefix("GLIBC_")?.split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some(GlibcVersion { major: number()?, minor: number()? })
}

fn string_at(strings: &[u8], at: u32) -> anyhow::Result<&str> {
    let rest = strings.get(at as usize..).context("a name lies outside its table")?;
    let end = rest.iter().position(|byte| *byte == 0).context("a name has no end")?;
    std::str::from_utf8(&rest[..end]).context("a name is not UTF-8")
}

fn u16_at(bytes: &[u8], at: usize) -> anyhow::Result<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> anyhow::Result<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> anyhow::Result<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> anyhow::Result<[u8; N]> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().context("the file is cut off")
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    #[test]
    fn the_test_itself_is_a_dynamic_program() {
        let bytes = fs::read(env::current_exe().expect("a path")).expect("read");
        let program = ElfProgram::parse(&bytes).expect("an ELF file");
        if cfg!(target_env = "gnu") {
            assert!(!program.is_static().expect("headers"));
            let glibc = program.glibc().expect("versions").expect("a version");
            assert!(glibc >= GlibcVersion { major: 2, minor: 17 }, "{glibc}");
        }
        assert!(
            program.auditable().is_none() || program.auditable().is_some_and(|it| !it.is_empty())
        );
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |name| glibc_version(name).expect("a version");
        assert!(version("GLIBC_2.4") < version("GLIBC_2.28"));
        assert_eq!(version("GLIBC_2.2.5"), GlibcVersion { major: 2, minor: 2 });
        assert_eq!(glibc_version("GLIBC_PRIVATE"), None);
        assert_eq!(glibc_version("GCC_3.0"), None);
    }

    #[test]
    fn a_file_that_is_cut_off_is_an_error() {
        assert!(ElfProgram::parse(b"\x7fELF\x02\x01").is_err());
        assert!(ElfProgram::parse(b"text").is_err());
    }
}
