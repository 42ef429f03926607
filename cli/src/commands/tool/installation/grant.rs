//! The policy change that grants a tool what it needs.

use std::io::IsTerminal as _;

use ikigai_host::host::{CallTarget, request};
use ikigai_host::policy::{NewKey, NewValue, Proposal};

use super::Installer;
use crate::commands::policy::grant::GrantEffect;
use crate::commands::policy::{agreed, agreed_again};
use crate::error::{CliError, with_path};
use crate::output::eprint;
use crate::shipping::{InstallReport, Requested};

/// A policy change that the user agreed to.
pub(super) struct Agreed {
    pub(super) keys: Vec<NewKey>,
    pub(super) proposal: Proposal,
}

impl Installer<'_> {
    /// Returns the policy change that the user agreed to; `None` without a change.
    pub(super) fn proposal(
        &self,
        name: &str,
        report: &InstallReport<'_>,
    ) -> Result<Option<Agreed>, CliError> {
        let InstallReport { examined, requested, .. } = report;
        let is_renewal = self.host.authority().is_bound_to_content(name)
            && report.installed.is_some_and(|old| old.locked.signer == report.verdict.signer)
            && !report.is_grown();
        let asks =
            requested.keys.iter().any(|(key, value)| key != "sha256" && *value != NewValue::Absent);
        if !is_renewal && !asks {
            return Ok(None);
        }
        let digest = examined.fetched.digest;
        let keys = if is_renewal { Requested::renewal(digest) } else { requested.keys.clone() };
        let proposal = self.host.authority().propose_grant(name, &keys)?;
        if proposal.is_unchanged() {
            return Ok(Some(Agreed { keys, proposal }));
        }
        let is_interactive = std::io::stdin().is_terminal();
        if !self.flags.grant && (self.flags.yes || !is_interactive) {
            return Ok(None);
        }
        let contents = [digest];
        let subject = CallTarget::from(&examined.tool);
        let decided = self.host.authority().decide_with(&proposal, &request(subject, &contents));
        GrantEffect::new(&examined.tool, &proposal, &decided).warn();
        let lines: String = proposal.difference().iter().map(|line| format!("{line}\n")).collect();
        eprint(&format!("\n{}\n{lines}", proposal.path.display()));
        if self.flags.grant {
            return Ok(Some(Agreed { keys, proposal }));
        }
        let is_agreed =
            if is_renewal { agreed_again("Renew its grant?") } else { agreed("Grant it this?") };
        Ok(is_agreed?.then_some(Agreed { keys, proposal }))
    }

    /// Returns whether the policy already has the change that the user agreed to.
    pub(super) fn is_granted(&self, name: &str, agreed: Option<&Agreed>) -> Result<bool, CliError> {
        let Some(agreed) = agreed else { return Ok(true) };
        Ok(self.host.authority().propose_grant(name, &agreed.keys)?.is_unchanged())
    }

    /// Writes the change that the user agreed to into the present policy. In the meantime another
    /// command may have granted something to another tool.
    pub(super) fn write(&self, name: &str, agreed: &Agreed) -> Result<(), CliError> {
        let hint = "the tool is installed; `ikigai policy grant` grants it something";
        let Agreed { keys, proposal } = agreed;
        let now = self.host.authority().propose_grant(name, keys)?;
        // An entry of another tool before it adds an empty line between the two.
        let lines = |proposal: &Proposal| {
            let lines = proposal.difference().into_iter();
            lines.filter(|line| line.len() > 1).collect::<Vec<_>>()
        };
        if !now.is_unchanged() && lines(&now) != lines(proposal) {
            let what = format!("the entry of `{name}` in `{}` has changed", now.path.display());
            return Err(CliError::failed(anyhow::Error::msg(what)).hint(hint));
        }
        let written = with_path(now.write_merged(), "write", &now.path);
        written.map(drop).map_err(|error| error.hint(hint))
    }
}

/// Returns the error for a native program that no policy entry would bind to its contents.
pub(super) fn unbound(name: &str) -> CliError {
    let what = format!("`{name}` is a native program, which needs a grant to be installed");
    CliError::failed(anyhow::Error::msg(what)).hint(
        "`--grant` installs it with an entry of your policy that binds it to its contents and keeps it \
         in the sandbox; or ask its author for a component",
    )
}
