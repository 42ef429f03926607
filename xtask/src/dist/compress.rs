//! Compresses the files of a release. The same program makes the same bytes of the same input.
//!
//! gzip is done here, so that npm packages and small files need no program. The better formats are
//! those of `zstd` and `xz`, which are installed where releases are made.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, bail};
use flate2::{Compression, GzBuilder};

/// The trade between time and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompressionEffort {
    /// For trying things: seconds.
    Low,
    /// For a release: the smallest file.
    High,
}

impl CompressionEffort {
    /// Returns the effort for a cargo profile.
    pub(crate) fn for_profile(profile: &str) -> Self {
        if profile == crate::build::EVERYDAY { Self::Low } else { Self::High }
    }

    /// Returns the level of deflate.
    pub(crate) fn deflate(self) -> Compression {
        match self {
            Self::Low => Compression::fast(),
            Self::High => Compression::best(),
        }
    }
}

/// Compresses with gzip, without a name and a time in the header.
pub(crate) fn gzip(bytes: &[u8], effort: CompressionEffort) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), effort.deflate());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Compresses with zstd. The window covers the whole content, because the programs share code.
pub(crate) fn zstd(bytes: &[u8], effort: CompressionEffort) -> anyhow::Result<Vec<u8>> {
    let level = match effort {
        CompressionEffort::Low => "-3",
        CompressionEffort::High => "-19",
    };
    // 128 MiB is the largest window that `zstd -d` accepts without being asked. The number of
    // threads does not change the result.
    filter("zstd", &[level, "--long=27", "-T0", "--no-progress", "-q", "-c"], bytes)
}

/// Compresses with xz, which every dpkg reads.
pub(crate) fn xz(bytes: &[u8], effort: CompressionEffort) -> anyhow::Result<Vec<u8>> {
    let level = match effort {
        CompressionEffort::Low => "-0",
        CompressionEffort::High => "-9",
    };
    // With several threads, xz would cut the content into blocks.
    filter("xz", &[level, "--threads=1", "--check=crc64", "-c"], bytes)
}

/// Returns the stdout of a program that reads `bytes`.
pub(crate) fn filter(program: &str, args: &[&str], bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{program}`; install the package `{program}`"))?;
    let stdin = child.stdin.take();
    let output = thread::scope(|scope| {
        // A second thread, because the program writes while it reads.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(bytes)));
        child.wait_with_output()
    });
    let output = output.with_context(|| format!("cannot read from `{program}`"))?;
    if !output.status.success() {
        bail!("`{program}` failed ({})", output.status);
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn gzip_writes_no_time() {
        let written = gzip(b"text", CompressionEffort::High).expect("compressed");
        assert_eq!(written[3..8], [0; 5], "no name, no time");
        let mut text = String::new();
        GzDecoder::new(&written[..]).read_to_string(&mut text).expect("decompressed");
        assert_eq!(text, "text");
    }

    #[test]
    fn a_filter_may_write_while_it_reads() {
        let bytes = vec![7; 1 << 20];
        assert_eq!(filter("cat", &[], &bytes).expect("output"), bytes);
        assert!(filter("false", &[], &[]).is_err());
    }
}
