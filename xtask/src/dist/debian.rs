//! The package for Debian and Ubuntu: an installation in `/usr`, and an AppArmor profile in `/etc`.
//!
//! Written here and not by dpkg-deb, so that each distribution makes the same file. The package's
//! texts are in etc/debian.

use std::fmt::Write as _;

use anyhow::Context as _;

use crate::dist::compress::{self, CompressionEffort};
use crate::dist::payload::ReleasePayload;
use crate::dist::release::Release;
use crate::dist::tar::tar;
use crate::dist::target::GlibcVersion;
use crate::dist::tree::FileTree;

/// The profile, which is a configuration file: dpkg asks before it replaces an edited one.
const PROFILE: &str = "etc/apparmor.d/ikigai";

const CONTROL: &str = include_str!("../../../etc/debian/control");
const COPYRIGHT: &str = include_str!("../../../etc/debian/copyright");
const OVERRIDES: &str = include_str!("../../../etc/debian/lintian-overrides");
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("../../../etc/debian/postinst")),
    ("prerm", include_str!("../../../etc/debian/prerm")),
    ("postrm", include_str!("../../../etc/debian/postrm")),
];

pub(crate) fn package(release: &Release, payload: &ReleasePayload) -> anyhow::Result<()> {
    let version = debian_version(&release.version);
    let architecture = payload.target.debian_architecture();
    let mut tree = payload.tree.renamed(place);
    add_documentation(&mut tree, release, payload, &version)?;

    let mut control = FileTree::default();
    control.insert("control", control_file(&version, architecture, payload.glibc, tree.size()?));
    control.insert("conffiles", format!("/{PROFILE}\n"));
    control.insert("md5sums", md5sums(&tree)?);
    for (name, script) in SCRIPTS {
        control.insert(name, script);
    }
    let control = compress::xz(&tar(&control, ".", release.time)?, CompressionEffort::Low)?;
    let data = compress::xz(&tar(&tree, ".", release.time)?, release.effort)?;
    let members = [
        ("debian-binary", b"2.0\n".as_slice()),
        ("control.tar.xz", &control),
        ("data.tar.xz", &data),
    ];
    let name = format!("ikigai_{version}_{architecture}.deb");
    release.write(&name, ar(&members, release.time))
}

/// Returns the path of a file on the system, relative to `/`.
fn place(path: &str) -> Option<String> {
    Some(match path {
        "share/ikigai/apparmor/ikigai" => PROFILE.to_owned(),
        "share/ikigai/systemd/ikigai-mcp.service" => {
            "usr/lib/systemd/user/ikigai-mcp.service".to_owned()
        }
        "share/zsh/site-functions/_ikigai" => "usr/share/zsh/vendor-completions/_ikigai".to_owned(),
        "share/doc/ikigai/config.toml" => "usr/share/doc/ikigai/examples/config.toml".to_owned(),
        // `copyright` has the licences, and `changelog.gz` the changes.
        "share/doc/ikigai/LICENSE-APACHE"
        | "share/doc/ikigai/LICENSE-MIT"
        | "share/doc/ikigai/CHANGELOG.md" => return None,
        path if path.starts_with("share/man/") => return None,
        path => format!("usr/{path}"),
    })
}

/// Adds the files that only Debian has, and those that it wants compressed.
fn add_documentation(
    tree: &mut FileTree,
    release: &Release,
    payload: &ReleasePayload,
    version: &str,
) -> anyhow::Result<()> {
    for (path, file) in payload.tree.iter().filter(|(path, _)| path.starts_with("share/man/")) {
        tree.insert(
            format!("usr/{path}.gz"),
            compress::gzip(&file.bytes()?, CompressionEffort::High)?,
        );
    }
    let changes = payload.tree.bytes("share/doc/ikigai/CHANGELOG.md")?;
    let changes = compress::gzip(&changes, CompressionEffort::High)?;
    tree.insert("usr/share/doc/ikigai/NEWS.md.gz", changes);
    let entry = changelog(version, release.time);
    let entry = compress::gzip(entry.as_bytes(), CompressionEffort::High)?;
    tree.insert("usr/share/doc/ikigai/changelog.gz", entry);
    tree.insert("usr/share/doc/ikigai/copyright", COPYRIGHT);
    tree.insert("usr/share/lintian/overrides/ikigai", OVERRIDES);
    Ok(())
}

/// Returns a version whose release candidates come before the release.
fn debian_version(version: &str) -> String {
    version.replacen('-', "~", 1)
}

fn control_file(version: &str, architecture: &str, glibc: GlibcVersion, size: u64) -> String {
    CONTROL
        .replace("@VERSION@", version)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@GLIBC@", &glibc.to_string())
        .replace("@SIZE@", &size.div_ceil(1024).to_string())
}

/// Returns a changelog with one entry, which points to the real one.
fn changelog(version: &str, time: u64) -> String {
    format!(
        "ikigai ({version}) unstable; urgency=medium\n\n  \
         * New version. NEWS.md.gz in this directory lists the changes.\n\n \
         -- The ikigai authors <maintainers@ikigai.invalid>  {}\n",
        rfc_2822(time)
    )
}

/// Returns a time as Debian's changelogs write it.
fn rfc_2822(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let date = crate::dist::sbom::timestamp(seconds);
    let number = |range: std::ops::Range<usize>| date[range].parse::<usize>().unwrap_or(1);
    // 1 January 1970 was a Thursday.
    let day = DAYS[(seconds / 86_400 % 7) as usize];
    let month = MONTHS[number(5..7) - 1];
    format!("{day}, {:02} {month} {} {} +0000", number(8..10), &date[..4], &date[11..19])
}

/// Returns the digests that `dpkg --verify` compares. Configuration files are left out.
fn md5sums(tree: &FileTree) -> anyhow::Result<String> {
    let mut sums = String::new();
    for (path, file) in tree.iter().filter(|(path, _)| *path != PROFILE) {
        writeln!(sums, "{}  {path}", md5(&file.bytes()?)?)?;
    }
    Ok(sums)
}

/// Returns the MD5 of `bytes`, which only this format still wants.
fn md5(bytes: &[u8]) -> anyhow::Result<String> {
    let output = compress::filter("md5sum", &[], bytes)?;
    let text = String::from_utf8(output).context("`md5sum` printed no UTF-8")?;
    let digest = text.split_whitespace().next().context("`md5sum` printed nothing")?;
    Ok(digest.to_owned())
}

/// Returns an ar file, as Debian's packages have them: all members belong to root.
fn ar(members: &[(&str, &[u8])], time: u64) -> Vec<u8> {
    let mut written = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let size = content.len();
        let header = format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, "100644");
        written.extend_from_slice(header.as_bytes());
        written.extend_from_slice(content);
        if size % 2 == 1 {
            written.push(b'\n');
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_begin_at_even_offsets() {
        let written = ar(&[("a", b"1"), ("b", b"22")], 7);
        let text = String::from_utf8(written).expect("text");
        let header = |name: &str, size: usize| {
            format!("{name:<16}7           0     0     100644  {size:<10}`\n")
        };
        assert_eq!(text, format!("!<arch>\n{}1\n{}22", header("a", 1), header("b", 2)));
    }

    #[test]
    fn a_candidate_is_older_than_its_release() {
        assert_eq!(debian_version("0.2.0-rc.1"), "0.2.0~rc.1");
        assert_eq!(debian_version("0.2.0"), "0.2.0");
    }

    #[test]
    fn times_have_a_weekday() {
        assert_eq!(rfc_2822(1_795_997_039), "Mon, 30 Nov 2026 00:03:59 +0000");
    }

    #[test]
    fn debian_has_its_own_places() {
        let placed = |path| place(path).unwrap_or_default();
        assert_eq!(placed("bin/ikigai"), "usr/bin/ikigai");
        assert_eq!(placed("share/ikigai/apparmor/ikigai"), PROFILE);
        assert_eq!(placed("share/man/man1/ikigai.1"), "", "compressed elsewhere");
    }
}
