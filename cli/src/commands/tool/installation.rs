//! The steps of `tool install`, `update` and `sync` for one tool: examine, verify, show, place,
//! lock, grant, record.

mod entry;
mod grant;
mod place;

use std::io::IsTerminal as _;

use ikigai_host::audit::{GrantSummary, InstallationRecord as Recorded, ProgramRecord};
use ikigai_host::host::{CallTarget, Host};
use ikigai_host::paths::Paths;
use ikigai_host::policy::{Profile, ToolOrigin};
use ikigai_packages::ToolsLock;
use ikigai_packages::lock::LockedTool;
use ikigai_packages::signature::SigstoreRoot;
use ikigai_packages::trust::{Trust, check_pin};
use serde::Serialize;
use serde_json::{Value, json};

use super::target::{InstallTarget, user_lock};
use crate::commands::policy::agreed;
use crate::commands::policy::grant::GrantEffect;
use crate::decision;
use crate::error::CliError;
use crate::output::eprint;
use crate::shipping::{
    ExaminedTool, Fetched, InstallReport, Placement, ReplacedTool, Requested, SignatureVerdict,
    remove_file, trust,
};
pub(super) use entry::ExpectedTool;
use entry::entry;
use grant::{Agreed, unbound};

/// The answers given on the command line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    /// Grants what is needed.
    pub(super) grant: bool,
    /// Does not ask.
    pub(super) yes: bool,
    /// Takes another signer than before.
    pub(super) accept_signer: bool,
    /// Replaces a tool that came from elsewhere.
    pub(super) replace: bool,
    /// Takes an older version.
    pub(super) downgrade: bool,
    /// Leaves the lock unchanged.
    pub(super) locked: bool,
    /// Shows the imports of a component.
    pub(super) imports: bool,
}

/// The installation of tools by one command.
pub(super) struct Installer<'a> {
    pub(super) host: &'a Host,
    pub(super) paths: &'a Paths,
    pub(super) target: InstallTarget,
    pub(super) flags: Flags,
    /// The command, for the record.
    pub(super) action: &'static str,
    pub(super) trust: Trust,
    pub(super) root: SigstoreRoot,
}

/// The result of the installation of one tool.
pub(super) struct InstallOutcome {
    /// The state.
    pub(super) state: InstallState,
    /// False if the policy forbids calls of the tool now, for example because its grant is for
    /// another file.
    pub(super) is_callable: bool,
    /// False if a ceiling or the workspace takes a part of its grant away.
    pub(super) is_whole: bool,
    /// The report for `--json`.
    pub(super) json: Value,
}

/// The result for a tool that was to be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InstallState {
    /// The tool was installed, or was granted what it needs.
    Installed,
    /// The tool was there already.
    Unchanged,
    /// The user did not agree.
    Declined,
}

impl InstallOutcome {
    /// Returns whether a script that needs the tool has to react.
    pub(super) fn is_bad(&self) -> bool {
        self.state == InstallState::Declined || !self.is_callable || !self.is_whole
    }
}

impl<'a> Installer<'a> {
    /// Makes an installation under the present policy.
    pub(super) fn new(
        host: &'a Host,
        paths: &'a Paths,
        target: InstallTarget,
        flags: Flags,
        action: &'static str,
        root: SigstoreRoot,
    ) -> Result<Self, CliError> {
        let signers = host.authority().signers()?;
        Ok(Self { host, paths, target, flags, action, trust: trust(&signers)?, root })
    }

    /// Checks that the user approved an entry of the lock before ikigai contacts the source that it
    /// names. The author of a workspace's lock chose that source.
    pub(super) fn check_approved(&self, name: &str, tool: &LockedTool) -> Result<(), CliError> {
        let InstallTarget::Workspace(workspace) = &self.target else { return Ok(()) };
        if workspace.is_approved(name, tool)? {
            return Ok(());
        }
        let what = format!("you have not approved `{name}` of `{}`", workspace.lock().display());
        Err(CliError::failed(anyhow::Error::msg(what))
            .hint("`ikigai tool sync` shows it, and asks you"))
    }

    /// Installs a tool that was fetched, if it is the expected one.
    pub(super) async fn install(
        &self,
        fetched: Fetched,
        expected: ExpectedTool<'_>,
    ) -> Result<InstallOutcome, CliError> {
        let examined = ExaminedTool::from_fetched(self.host, fetched).await?;
        let name = examined.name().to_owned();
        let lock = self.target.lock()?;
        let approvals = self.target.approvals(self.paths)?;
        let source = &examined.fetched.source;
        let approved = approvals.find(&name, source);
        let accept_signer = self.flags.accept_signer;
        let verdict =
            SignatureVerdict::reach(&examined, &self.trust, &self.root, approved, accept_signer)?;
        // The lock of a workspace may name another signer than the user approved.
        let shared = lock.get(&name).map(|tool| (&*name, tool));
        check_pin(shared, &source.from, &verdict.signer, accept_signer)
            .map_err(CliError::failed)?;
        let entry = entry(&examined, &verdict, lock.get(&name));
        expected.check(&name, &entry, self.flags.locked)?;
        let placement = self.target.placement(&name, examined.fetched.digest, examined.is_native());
        let is_there = self.is_there(&name, &entry, &lock, &placement)?;
        let installed = self.installed(&name, &lock).await;
        self.check_place(&examined, &lock, &placement).await?;
        let needs = examined.manifest.as_ref().map(|it| it.needs.clone()).unwrap_or_default();
        let requested =
            Requested::from_needs(&needs, examined.fetched.digest, examined.is_native());
        let replaced = installed.as_ref().filter(|it| it.locked.sha256 != entry.sha256);
        let report = InstallReport {
            examined: &examined,
            verdict: &verdict,
            requested: &requested,
            installed: replaced,
            has_imports: self.flags.imports,
        };
        eprint(&report.text());
        if !is_there && !self.is_agreed(&name, &entry)? {
            eprint("nothing was installed\n");
            let (is_callable, is_whole) = (true, true);
            return Ok(InstallOutcome {
                state: InstallState::Declined,
                is_callable,
                is_whole,
                json: report.json(),
            });
        }
        let proposal = self.proposal(&name, &report)?;
        let state = if is_there && self.is_granted(&name, proposal.as_ref())? {
            InstallState::Unchanged
        } else {
            let is_confined = self.host.authority().profile()?.0 == Profile::Strict;
            if examined.is_native() && proposal.is_none() && !is_confined {
                return Err(unbound(&name));
            }
            let outcome = self.carry_out(&examined, &placement, &entry, &lock, proposal.as_ref());
            if !matches!(outcome, Ok(InstallState::Unchanged)) {
                self.record(&examined, &entry, replaced, proposal.is_some(), &placement, &outcome);
            }
            outcome?
        };
        Ok(self.conclude(state, &report, &placement, proposal.as_ref()))
    }

    /// Reports the result for a tool, and whether the policy allows calls of it now.
    fn conclude(
        &self,
        state: InstallState,
        report: &InstallReport<'_>,
        placement: &Placement,
        agreed: Option<&Agreed>,
    ) -> InstallOutcome {
        let InstallReport { examined, requested, .. } = report;
        let name = examined.name();
        let decided = self.host.decide(CallTarget::from(&examined.tool));
        let is_callable = decided.is_ok();
        let effect = agreed.map(|it| GrantEffect::new(&examined.tool, &it.proposal, &decided));
        let is_whole = effect.as_ref().is_none_or(|effect| !is_callable || effect.is_whole());
        let mut json = report.json();
        if let Value::Object(json) = &mut json {
            json.insert("callable".to_owned(), json!(is_callable));
            if state == InstallState::Installed {
                let is_granted = effect.as_ref().is_some_and(GrantEffect::is_whole);
                json.insert("path".to_owned(), json!(placement.path.to_string_lossy()));
                json.insert("granted".to_owned(), json!(is_granted));
                if let Some(effect) = &effect {
                    json.insert("taken_away".to_owned(), effect.as_json());
                }
            }
        }
        if state == InstallState::Installed {
            self.tell(name, placement, requested, agreed.map(|_| is_callable && is_whole));
        } else {
            eprint(&format!("`{name}` is already installed\n"));
        }
        if !is_whole {
            eprint(&format!(
                "not all of its grant is in force here; `ikigai policy show {name}` shows what the tool \
                 may touch\n"
            ));
        }
        if let Err(denial) = decided {
            let hint = denial.hint.map_or_else(String::new, |hint| format!("hint: {hint}\n"));
            eprint(&format!("warning: `{name}` cannot be called: {}\n{hint}", denial.reason));
        }
        InstallOutcome { state, is_callable, is_whole, json }
    }

    /// Writes the file, the lock and the grant, in an order that leaves nothing wrong behind.
    /// Another command may have done the same in the meantime.
    fn carry_out(
        &self,
        examined: &ExaminedTool,
        placement: &Placement,
        entry: &LockedTool,
        seen: &ToolsLock,
        agreed: Option<&Agreed>,
    ) -> Result<InstallState, CliError> {
        let name = examined.name();
        let mut file = self.target.open(self.paths)?;
        if self.is_there(name, entry, file.lock(), placement)? && self.is_granted(name, agreed)? {
            return Ok(InstallState::Unchanged);
        }
        let now = file.lock().get(name);
        if now != seen.get(name) && now != Some(entry) {
            let what = format!("another command has just installed `{name}`");
            return Err(
                CliError::failed(anyhow::Error::msg(what)).hint("check it, and run this again")
            );
        }
        // The grant confines a native tool, so write it first.
        if examined.is_native()
            && let Some(agreed) = agreed
        {
            self.write(name, agreed)?;
        }
        placement.put(&examined.fetched)?;
        file.put(name, entry)?;
        if let InstallTarget::Workspace(workspace) = &self.target {
            // The next line takes the same lock again.
            drop(file);
            file = workspace.open_approved(&user_lock(self.paths)?)?;
            file.put(name, entry)?;
        } else if let Some(old) = self.other_build(examined) {
            remove_file(&old)?;
        }
        if !examined.is_native()
            && let Some(agreed) = agreed
        {
            self.write(name, agreed)?;
        }
        // The lock is held until here, so that two commands write their grants one after the other.
        drop(file);
        Ok(InstallState::Installed)
    }

    /// Asks the user to agree to a tool. If the user already approved this exact entry of a
    /// workspace's lock, no second answer is needed.
    fn is_agreed(&self, name: &str, entry: &LockedTool) -> Result<bool, CliError> {
        let question = match &self.target {
            InstallTarget::User { .. } => format!("Install `{name}`?"),
            InstallTarget::Workspace(workspace) if workspace.is_approved(name, entry)? => {
                return Ok(true);
            }
            InstallTarget::Workspace(_) => format!("Let `{name}` run in this workspace?"),
        };
        if self.flags.yes {
            return Ok(true);
        }
        if !std::io::stdin().is_terminal() {
            let what =
                format!("`{name}` was not installed, because ikigai needs a terminal to ask you");
            let hint = "`--yes` installs it, and `--yes --grant` also grants it what it needs";
            return Err(CliError::failed(anyhow::Error::msg(what)).hint(hint));
        }
        agreed(&question)
    }

    /// Appends a record of the installation, or of its failure, to the audit log.
    fn record(
        &self,
        examined: &ExaminedTool,
        entry: &LockedTool,
        replaced: Option<&ReplacedTool>,
        is_granted: bool,
        placement: &Placement,
        outcome: &Result<InstallState, CliError>,
    ) {
        let build = &examined.tool.build;
        let program = ProgramRecord {
            origin: ToolOrigin::User.as_str().to_owned(),
            path: placement.path.to_string_lossy().into_owned(),
            digest: entry.sha256,
            backend: build.backend().as_str().to_owned(),
            wasi: decision::wasi(build).into_iter().map(str::to_owned).collect(),
            server: None,
            backend_reason: self.action.to_owned(),
        };
        let grant = is_granted.then(|| self.granted(examined));
        let installation = Recorded {
            action: self.action.to_owned(),
            source: entry.from.clone(),
            version: entry.version.as_ref().map(ToString::to_string),
            signer: entry.signer.to_string(),
            replaced: replaced.map(|it| it.locked.sha256),
        };
        let outcome = outcome.as_ref().map(|_| ()).map_err(|error| error.reason());
        self.host.record_installation(
            examined.name(),
            Some(program),
            grant.flatten(),
            installation,
            outcome,
        );
    }

    /// Returns the present grant of the tool, in the form of a record.
    fn granted(&self, examined: &ExaminedTool) -> Option<GrantSummary> {
        let decision = self.host.decide(CallTarget::from(&examined.tool)).ok()?;
        Some(GrantSummary::from_grant(
            &decision.grant,
            examined.tool.build.backend(),
            decision.granted_by(),
        ))
    }

    /// Reports what was done, and what the user still has to do. `granted` is whether the whole
    /// written grant is in force; `None` if no grant was written.
    fn tell(
        &self,
        name: &str,
        placement: &Placement,
        requested: &Requested,
        granted: Option<bool>,
    ) {
        let place = placement.path.display();
        eprint(&match (&self.target, granted) {
            (InstallTarget::User { .. }, Some(true)) => {
                format!("installed as `{place}`, and granted\n")
            }
            (InstallTarget::User { .. }, _) => format!("installed as `{place}`\n"),
            (InstallTarget::Workspace(workspace), _) => {
                format!("locked in `{}`, and approved for you\n", workspace.lock().display())
            }
        });
        if granted.is_none()
            && let Some(command) = requested.command(name)
        {
            eprint(&format!("what it needs is not granted yet; to grant it: {command}\n"));
        }
        for withheld in &requested.withheld {
            eprint(&format!("grant these yourself, if you want: {withheld}\n"));
        }
    }
}
