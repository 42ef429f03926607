//! The lists of a release: the size of each file, and the digest of each file. The list of digests
//! covers the list of sizes, so one signature is enough for both.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

/// The list of digests, in the format of `sha256sum`.
pub(crate) const SUMS: &str = "SHA256SUMS";

/// The list of sizes, in bytes. `install.sh` reads no more than that.
const SIZES: &str = "SIZES";

/// Writes both lists over the files of `directory`.
pub(crate) fn write(directory: &Path) -> anyhow::Result<()> {
    let mut sizes = String::new();
    for name in names(directory)? {
        let path = directory.join(&name);
        let metadata = fs::metadata(&path);
        let size = metadata.with_context(|| format!("cannot read `{}`", path.display()))?.len();
        writeln!(sizes, "{size}  {name}")?;
    }
    let save = |name: &str, text: &str| {
        fs::write(directory.join(name), text).with_context(|| format!("cannot write `{name}`"))
    };
    save(SIZES, &sizes)?;
    let mut sums = String::new();
    for name in names(directory)? {
        let path = directory.join(&name);
        let bytes = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        writeln!(sums, "{}  {name}", sha256(&bytes))?;
    }
    save(SUMS, &sums)
}

/// Returns a digest in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn names(directory: &Path) -> anyhow::Result<Vec<String>> {
    let list = || format!("cannot list `{}`", directory.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).with_context(list)? {
        let Ok(name) = entry.with_context(list)?.file_name().into_string() else {
            bail!("`{}` contains a name that is not UTF-8", directory.display());
        };
        names.push(name);
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::{env, process};

    use super::*;

    #[test]
    fn the_digests_cover_the_sizes() {
        let directory = env::temp_dir().join(format!("xtask-sums-{}", process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join("b"), "").expect("written");
        fs::write(directory.join("a"), "abc").expect("written");
        write(&directory).expect("lists");
        let read = |name: &str| fs::read_to_string(directory.join(name)).expect("read");
        assert_eq!(read(SIZES), "3  a\n0  b\n");
        let sums = read(SUMS);
        let lines: Vec<_> = sums.lines().collect();
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(lines[0], format!("{}  SIZES", sha256(b"3  a\n0  b\n")));
        assert_eq!(lines[1], format!("{digest}  a"));
        assert_eq!(lines.len(), 3);
        fs::remove_dir_all(&directory).expect("removed");
    }
}
