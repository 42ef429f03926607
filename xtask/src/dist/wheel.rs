//! The wheel: the programs go to `bin`, and everything else to the prefix of the environment, where
//! `bin/ikigai` looks for `../libexec`. No Python code is in it.

use std::io::{Cursor, Write as _};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::dist::compress::CompressionEffort;
use crate::dist::payload::{NOTICES, ReleasePayload, SBOM};
use crate::dist::release::Release;
use crate::dist::tree::FileTree;

/// The project on PyPI, where `ikigai` is a project of other authors.
const PROJECT: &str = "ikigai-host";

/// The project in names of files.
const FILE_NAME: &str = "ikigai_host";

/// The licences in the metadata, by their paths relative to the prefix.
const LICENCES: [&str; 3] =
    ["share/doc/ikigai/LICENSE-APACHE", "share/doc/ikigai/LICENSE-MIT", NOTICES];

pub(crate) fn wheel(release: &Release, payload: &ReleasePayload) -> anyhow::Result<()> {
    let version = python_version(&release.version);
    let tag = format!("py3-none-{}", payload.target.wheel_platform(payload.glibc));
    let data = format!("{FILE_NAME}-{version}.data");
    let information = format!("{FILE_NAME}-{version}.dist-info");
    let mut tree = payload.tree.renamed(|path| {
        Some(match path.strip_prefix("bin/") {
            Some(program) => format!("{data}/scripts/{program}"),
            None => format!("{data}/data/{path}"),
        })
    });
    let readme = payload.tree.bytes("share/doc/ikigai/README.md")?;
    let readme = String::from_utf8(readme).context("README.md is not UTF-8")?;
    tree.insert(format!("{information}/METADATA"), metadata(&version, &readme));
    tree.insert(
        format!("{information}/WHEEL"),
        format!("Wheel-Version: 1.0\nGenerator: ikigai\nRoot-Is-Purelib: false\nTag: {tag}\n"),
    );
    for path in LICENCES {
        let name = path.rsplit('/').next().unwrap_or(path);
        tree.insert(format!("{information}/licenses/{name}"), payload.tree.bytes(path)?);
    }
    // PEP 770 reserves this directory for bills of materials.
    tree.insert(format!("{information}/sboms/ikigai.cdx.json"), payload.tree.bytes(SBOM)?);
    let record = record(&tree, &information)?;
    let content = packed(&tree, release.effort, (&format!("{information}/RECORD"), &record))?;
    release.write(&format!("{FILE_NAME}-{version}-{tag}.whl"), content)
}

/// Returns a version as PEP 440 writes it: `0.2.0-rc.1` becomes `0.2.0rc1`.
fn python_version(version: &str) -> String {
    let Some((numbers, suffix)) = version.split_once('-') else { return version.to_owned() };
    let (name, number) = suffix.split_once('.').unwrap_or((suffix, "0"));
    match name {
        "alpha" => format!("{numbers}a{number}"),
        "beta" => format!("{numbers}b{number}"),
        "rc" => format!("{numbers}rc{number}"),
        other => format!("{numbers}.dev0+{other}.{number}"),
    }
}

fn metadata(version: &str, readme: &str) -> String {
    let names = LICENCES.iter().filter_map(|path| path.rsplit('/').next());
    let licences: String = names.map(|name| format!("License-File: {name}\n")).collect();
    format!(
        "Metadata-Version: 2.4\nName: {PROJECT}\nVersion: {version}\n\
         Summary: Runs the tools of language models in a sandbox\n\
         License-Expression: Apache-2.0 OR MIT\n{licences}\
         Keywords: mcp,sandbox,wasm,tools\n\
         Classifier: Environment :: Console\nClassifier: Operating System :: POSIX :: Linux\n\
         Classifier: Programming Language :: Rust\n\
         Description-Content-Type: text/markdown\n\n{readme}"
    )
}

/// Returns the list of all files with their digests and sizes.
fn record(tree: &FileTree, information: &str) -> anyhow::Result<String> {
    let mut record = String::new();
    for (path, file) in tree.iter() {
        let bytes = file.bytes()?;
        let digest = base64_url(&Sha256::digest(&bytes));
        record += &format!("{path},sha256={digest},{}\n", bytes.len());
    }
    // The list cannot contain its own digest.
    Ok(record + &format!("{information}/RECORD,,\n"))
}

/// Returns a zip file with these files and, at its end, `last`, as the format of wheels recommends.
fn packed(
    tree: &FileTree,
    effort: CompressionEffort,
    last: (&str, &str),
) -> anyhow::Result<Vec<u8>> {
    let level = i64::from(effort.deflate().level());
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(level))
        // Without a time zone, the time of a zip file would depend on the machine.
        .last_modified_time(DateTime::default());
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, file) in tree.iter() {
        zip.start_file(path, options.unix_permissions(file.mode))?;
        zip.write_all(&file.bytes()?)?;
    }
    let (path, text) = last;
    zip.start_file(path, options.unix_permissions(0o644))?;
    zip.write_all(text.as_bytes())?;
    Ok(zip.finish()?.into_inner())
}

/// Encodes a digest in the alphabet for URLs, without padding.
fn base64_url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut block = [0; 3];
        block[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, block[0], block[1], block[2]]);
        for index in 0..=chunk.len() {
            let sextet = bits >> (18 - 6 * index) & 0x3f;
            text.push(char::from(ALPHABET[sextet as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_encoded_without_padding() {
        assert_eq!(base64_url(b""), "");
        assert_eq!(base64_url(b"f"), "Zg");
        assert_eq!(base64_url(b"fo"), "Zm8");
        assert_eq!(base64_url(b"foob"), "Zm9vYg");
        assert_eq!(base64_url(b"\xff\xfe\xfd"), "__79");
    }

    #[test]
    fn a_suffix_is_written_as_python_has_it() {
        assert_eq!(python_version("0.2.0"), "0.2.0");
        assert_eq!(python_version("0.2.0-rc.1"), "0.2.0rc1");
        assert_eq!(python_version("0.2.0-test"), "0.2.0.dev0+test.0");
    }
}
