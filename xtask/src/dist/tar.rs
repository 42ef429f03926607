//! Writes tar files that depend on nothing but their content: sorted, with one time for all
//! entries, and owned by root.
//!
//! Long names have GNU's extra header: BusyBox and dpkg read it, and neither reads the POSIX one.

use std::collections::BTreeSet;

use crate::dist::tree::FileTree;
use crate::place::PROGRAM;

const BLOCK: usize = 512;

/// The longest name that fits into a header.
const LONGEST_NAME: usize = 100;

/// The type flags of the entries.
const REGULAR: u8 = b'0';
const DIRECTORY: u8 = b'5';
const LONG_NAME: u8 = b'L';

/// Returns a tar file with these files below `root` and the directories that they lie in. `time` is
/// the time of every entry, in seconds since 1970.
pub(crate) fn tar(tree: &FileTree, root: &str, time: u64) -> anyhow::Result<Vec<u8>> {
    let mut writer = TarWriter { written: Vec::new(), time };
    let mut directories = BTreeSet::new();
    for (path, file) in tree.iter() {
        let path = format!("{root}/{path}");
        for (end, _) in path.match_indices('/') {
            let directory = &path[..=end];
            if directories.insert(directory.to_owned()) {
                writer.append(directory, DIRECTORY, PROGRAM, &[]);
            }
        }
        writer.append(&path, REGULAR, file.mode, &file.bytes()?);
    }
    Ok(writer.finish())
}

struct TarWriter {
    written: Vec<u8>,
    time: u64,
}

impl TarWriter {
    fn append(&mut self, name: &str, kind: u8, mode: u32, content: &[u8]) {
        if name.len() > LONGEST_NAME {
            let text = format!("{name}\0");
            self.header("././@LongLink", LONG_NAME, 0o644, text.len());
            self.content(text.as_bytes());
        }
        self.header(name, kind, mode, content.len());
        self.content(content);
    }

    fn header(&mut self, name: &str, kind: u8, mode: u32, size: usize) {
        let mut header = [0_u8; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &name.as_bytes()[..name.len().min(LONGEST_NAME)]);
        put(100, format!("{mode:07o}").as_bytes());
        put(108, b"0000000");
        put(116, b"0000000");
        put(124, format!("{size:011o}").as_bytes());
        put(136, format!("{:011o}", self.time).as_bytes());
        // The checksum counts its own field as spaces.
        put(148, b"        ");
        put(156, &[kind]);
        put(257, b"ustar  \0");
        put(265, b"root");
        put(297, b"root");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.written.extend_from_slice(&header);
    }

    fn content(&mut self, content: &[u8]) {
        self.written.extend_from_slice(content);
        self.pad_to(BLOCK);
    }

    fn pad_to(&mut self, unit: usize) {
        self.written.resize(self.written.len().next_multiple_of(unit), 0);
    }

    /// Ends the file: two empty blocks, and the record size that other programs write.
    fn finish(mut self) -> Vec<u8> {
        self.written.resize(self.written.len() + 2 * BLOCK, 0);
        self.pad_to(20 * BLOCK);
        self.written
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn listed(tar: &[u8]) -> String {
        let mut child = Command::new("tar")
            .args(["--list", "--verbose", "--numeric-owner", "--utc", "--file=-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("tar");
        child.stdin.take().expect("a pipe").write_all(tar).expect("read by tar");
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    #[test]
    fn tar_reads_what_is_written() {
        let mut tree = FileTree::default();
        let long = format!("d/{}", "n".repeat(120));
        tree.insert(long.as_str(), "1");
        tree.insert("a", "#!/bin/sh\n");
        let written = tar(&tree, "root", 86_400).expect("a tar file");
        let listing = listed(&written);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<_> = listing.lines().map(words).collect();
        let long = format!("root/{long}");
        let day = ["1970-01-02", "00:00"];
        assert_eq!(lines.len(), 4, "{listing}");
        assert_eq!(lines[0], ["drwxr-xr-x", "0/0", "0", day[0], day[1], "root/"]);
        assert_eq!(lines[1], ["-rwxr-xr-x", "0/0", "10", day[0], day[1], "root/a"]);
        assert_eq!(lines[2], ["drwxr-xr-x", "0/0", "0", day[0], day[1], "root/d/"]);
        assert_eq!(lines[3], ["-rw-r--r--", "0/0", "1", day[0], day[1], &long]);
    }
}
