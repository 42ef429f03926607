//! The place of a tool, and the tools that are already there.

use std::fs::File;
use std::path::PathBuf;

use ikigai_host::Digest;
use ikigai_host::policy::ToolOrigin;
use ikigai_packages::{LockedTool, ToolsLock};

use super::{InstallTarget, Installer};
use crate::commands::tool::target::pinned;
use crate::error::CliError;
use crate::shipping::{ExaminedTool, Placement, ReplacedTool, manifest_at};

impl Installer<'_> {
    /// Returns the tool's file of the other kind (native or component), which would run instead.
    pub(super) fn other_build(&self, examined: &ExaminedTool) -> Option<PathBuf> {
        let InstallTarget::User { directory, .. } = &self.target else { return None };
        let other = Placement::in_directory(directory, examined.name(), !examined.is_native());
        other.path.is_file().then_some(other.path)
    }

    /// Returns whether the lock has this entry and the file is in its place. A workspace's entry
    /// must also be approved.
    pub(super) fn is_there(
        &self,
        name: &str,
        entry: &LockedTool,
        lock: &ToolsLock,
        placement: &Placement,
    ) -> Result<bool, CliError> {
        if lock.get(name) != Some(entry) || !is_placed(placement, entry.sha256) {
            return Ok(false);
        }
        match &self.target {
            InstallTarget::User { .. } => Ok(true),
            InstallTarget::Workspace(workspace) => workspace.is_approved(name, entry),
        }
    }

    /// Returns the installed tool of this name.
    pub(super) async fn installed(&self, name: &str, lock: &ToolsLock) -> Option<ReplacedTool> {
        let locked = lock.get(name)?.clone();
        let manifest = self.target.file(name, &locked).and_then(|path| manifest_at(&path));
        let snapshot = self.host.look_up(name).await;
        let schema = snapshot.get(name).map(|tool| tool.schema.to_value());
        Some(ReplacedTool { locked, needs: manifest.map(|it| it.needs), schema })
    }

    /// Returns the hint for a tool whose place is taken. Only `install` has the flag that replaces
    /// it.
    fn replacing(&self, examined: &ExaminedTool) -> String {
        if self.action == "install" {
            return "replace it with `--replace`".to_owned();
        }
        let fetched = &examined.fetched;
        let manifest = fetched.source.manifest.as_ref().map(|(digest, _)| *digest);
        let reference = pinned(&fetched.source.from, manifest, fetched.digest);
        format!("replace it: `ikigai tool install {reference} --replace`")
    }

    /// Checks that the tool does not replace another one, unless a flag allows that.
    pub(super) async fn check_place(
        &self,
        examined: &ExaminedTool,
        lock: &ToolsLock,
        placement: &Placement,
    ) -> Result<(), CliError> {
        let name = examined.name();
        let refused = |what: String| CliError::failed(anyhow::Error::msg(what));
        let source = &examined.fetched.source;
        if examined.is_native() && matches!(self.target, InstallTarget::Workspace(_)) {
            let what =
                format!("`{name}` is a native program, and a workspace can only have components");
            return Err(refused(what).hint("install it for yourself, without `--in-workspace`"));
        }
        let locked = lock.get(name);
        if let Some(locked) = locked
            && locked.from != source.from
            && !self.flags.replace
        {
            let what = format!(
                "`{name}` is installed from `{}`, and this is from `{}`",
                locked.from, source.from
            );
            return Err(refused(what).hint("replace it with `--replace`"));
        }
        let old = locked.and_then(|it| it.version.as_ref());
        let new = examined.manifest.as_ref().map(|it| &it.version);
        if let (Some(old), Some(new)) = (old, new)
            && new < old
            && !(source.is_named && self.action == "install")
            && !self.flags.downgrade
        {
            let what =
                format!("`{name}` is installed in version {old}, and this is the older {new}");
            return Err(refused(what).hint(
                "install it with `ikigai tool update --downgrade`, or specify the version that you want",
            ));
        }
        let snapshot = self.host.look_up(name).await;
        let Some(there) = snapshot.get(name) else {
            // Another command may have put the same file there since the lock was read.
            let is_same = || is_placed(placement, examined.fetched.digest);
            let is_free = !placement.path.exists() || self.flags.replace;
            if !is_free && locked.is_none() && !is_same() {
                let what = format!(
                    "`{}` is a file that ikigai did not put there",
                    placement.path.display()
                );
                return Err(refused(what).hint("move it away, or add `--replace`"));
            }
            return Ok(());
        };
        let is_user = matches!(self.target, InstallTarget::User { .. });
        if there.origin == ToolOrigin::System {
            let what = format!("`{name}` is the name of a built-in tool");
            return match (is_user, self.flags.replace) {
                (true, true) => Ok(()),
                (true, false) => Err(refused(what).hint(self.replacing(examined))),
                (false, _) => Err(refused(format!("{what}, which a workspace cannot replace"))),
            };
        }
        let present = there.build.digest;
        let is_ours = present == examined.fetched.digest
            || there.source() == "workspace"
            || locked.is_some_and(|locked| locked.sha256 == present);
        if is_user && !is_ours && !self.flags.replace {
            let path = there.build.path.display();
            let what = match locked {
                Some(_) => format!("`{path}` was changed after it was installed"),
                None => format!("`{name}` is `{path}`, which ikigai did not put there"),
            };
            return Err(refused(what).hint(self.replacing(examined)));
        }
        Ok(())
    }
}

/// Returns whether a file with these contents is in its place. An unreadable file does not count.
fn is_placed(placement: &Placement, contents: Digest) -> bool {
    let found = File::open(&placement.path).and_then(Digest::of_reader);
    found.is_ok_and(|digest| digest == contents)
}
