//! The archive: an installation below one directory, in two forms. Machines without zstd, such as
//! the bases of Debian and Alpine, take the one with gzip.

use crate::dist::compress;
use crate::dist::payload::ReleasePayload;
use crate::dist::release::Release;
use crate::dist::tar::tar;
use crate::project::CargoProject;

/// The script that installs archives, which also removes them.
const SCRIPT: &str = "share/ikigai/install.sh";

pub(crate) fn archive(
    project: &CargoProject,
    release: &Release,
    payload: &ReleasePayload,
) -> anyhow::Result<()> {
    let mut tree = payload.tree.clone();
    tree.add_file(SCRIPT.to_owned(), &project.root.join("etc").join("install.sh"))?;
    let root = format!("ikigai-{}-{}", release.version, payload.target.triple);
    let content = tar(&tree, &root, release.time)?;
    release.write(&format!("{root}.tar.zst"), compress::zstd(&content, release.effort)?)?;
    release.write(&format!("{root}.tar.gz"), compress::gzip(&content, release.effort)?)
}
