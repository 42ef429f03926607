//! The contents of a called file: those that the policy decides on, and those that would run.

use std::iter;

use ikigai_protocol::Digest;

use super::attempt::denied;
use super::in_flight::CHANGED;
use super::{CallTarget, Host};
use crate::exec::Outcome;
use crate::policy::{Backend, PolicySnapshot};

impl Host {
    /// Returns the contents for which the policy decides: the contents that the scan found, and the
    /// present contents if the policy checks them.
    pub(super) async fn contents(
        &self,
        files: &PolicySnapshot,
        target: CallTarget<'_>,
    ) -> Result<Vec<Digest>, Box<Outcome>> {
        let (found, backend) = (target.build.digest, target.build.backend());
        if !self.authority().looks_at_content(files, backend, target.origin, target.name) {
            return Ok(vec![found]);
        }
        let present = self.present_contents(target).await?;
        // The names of a file that its path names were found for the contents at that time.
        if target.name.is_none() && present != [found] {
            return Err(denied(CHANGED));
        }
        // A native tool is started from its file. A component was compiled from the contents that
        // the scan found, so both must be granted. The same applies to a definition, which the scan
        // read.
        let mut contents = match backend {
            Backend::Native if target.build.wrapped_program().is_none() => present,
            Backend::Native | Backend::Wasm | Backend::Mcp => {
                iter::once(found).chain(present).collect()
            }
        };
        // Almost always they are the same. Then the user is asked about them once.
        contents.dedup();
        Ok(contents)
    }

    /// Returns the digests of the contents that would run now.
    pub(super) async fn contents_to_run(
        &self,
        target: CallTarget<'_>,
    ) -> Result<Vec<Digest>, Box<Outcome>> {
        let found = target.build.digest;
        match target.build.backend() {
            // A component was compiled from the contents that the scan found.
            Backend::Wasm => Ok(vec![found]),
            Backend::Native | Backend::Mcp => {
                let mut present = self.present_contents(target).await?;
                // The scan read the definition. Its program is started from the file.
                if target.build.wrapped_program().is_some() {
                    present.insert(0, found);
                    present.dedup();
                }
                Ok(present)
            }
        }
    }

    async fn present_contents(&self, target: CallTarget<'_>) -> Result<Vec<Digest>, Box<Outcome>> {
        let present = self.registry.present_contents(target.build).await;
        present.map_err(|reason| Box::new(Outcome::not_started(reason)))
    }
}
