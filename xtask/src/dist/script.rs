//! `install.sh`, with the version, the place of the download and the public key of this release.

use std::fs;

use anyhow::{Context as _, bail};

use crate::dist::release::Release;
use crate::dist::signing::{KeyKind, NAMESPACE, ReleaseKey};
use crate::project::CargoProject;

/// The hosts that the script downloads from, unless its user names others.
pub(crate) struct ScriptSource<'a> {
    /// The URL of the directory with the files.
    pub(crate) base_url: Option<&'a str>,
    /// The hosts to which that URL may redirect.
    pub(crate) redirect_hosts: &'a [String],
}

/// Writes the script.
pub(crate) fn install_script(
    project: &CargoProject,
    release: &Release,
    source: &ScriptSource<'_>,
    key: Option<&ReleaseKey>,
) -> anyhow::Result<()> {
    let path = project.root.join("etc").join("install.sh");
    let script =
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let public =
        |kind| key.filter(|key| key.kind == kind).map(|key| key.public.clone()).unwrap_or_default();
    let values = [
        ("release_version", release.version.clone()),
        ("release_url", source.base_url.unwrap_or_default().to_owned()),
        ("release_redirect_hosts", source.redirect_hosts.join(" ")),
        ("release_namespace", NAMESPACE.to_owned()),
        ("release_ssh_key", public(KeyKind::Ssh)),
        ("release_minisign_key", public(KeyKind::Minisign)),
    ];
    release.write("install.sh", filled(&script, &values)?)
}

/// Returns the script with values in the lines `NAME=''`.
fn filled(script: &str, values: &[(&str, String)]) -> anyhow::Result<String> {
    let mut filled = script.to_owned();
    for (name, value) in values {
        if value.contains(['\'', '\n']) {
            bail!("`{value}` cannot be quoted for a shell");
        }
        let line = format!("\n{name}=''\n");
        if !filled.contains(&line) {
            bail!("install.sh has no line `{}`", line.trim());
        }
        filled = filled.replace(&line, &format!("\n{name}='{value}'\n"));
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn values_are_put_into_their_lines() {
        let script = "#!/bin/sh\nversion=''\nurl=''\n";
        let values = [("version", "1.2.3".to_owned()), ("url", "https://example.org".to_owned())];
        let expected = "#!/bin/sh\nversion='1.2.3'\nurl='https://example.org'\n";
        assert_eq!(filled(script, &values).expect("filled"), expected);
        assert!(filled(script, &[("other", String::new())]).is_err());
        assert!(filled(script, &[("url", "it's".to_owned())]).is_err());
    }
}
