//! The steps of `tool install`, `update` and `sync` for one tool: examined, judged, shown, placed,
//! locked, granted, recorded.

mod entry;
mod grant;
mod place;

use std::io::IsTerminal as _;
use std::path::PathBuf;

use ikigai_host::audit::{Granted, Installation as Recorded, Program};
use ikigai_host::host::{Host, Subject};
use ikigai_host::paths::Paths;
use ikigai_host::policy::{Profile, ToolOrigin};
use ikigai_supply::Lock;
use ikigai_supply::lock::LockedTool;
use ikigai_supply::signature::Root;
use ikigai_supply::trust::Trust;
use serde_json::{Value, json};

use crate::commands::policy::agreed;
use crate::error::CliError;
use crate::output::eprint;
use crate::shipping::{
    Examined, Fetched, Installed, LockFile, Placement, Report, Requested, Verdict, WorkspaceTools,
    read_lock, remove_file, trust,
};
use entry::{check_expected, check_name, entry};
use grant::{Agreed, unconfined};

/// The user or the workspace that gets a tool.
pub(super) enum Target {
    /// The user: the directory of the user's tools, and the lock beside it.
    User {
        /// The directory.
        directory: PathBuf,
        /// The lock.
        lock: PathBuf,
    },
    /// The workspace: its own lock, and the files of all workspaces.
    Workspace(WorkspaceTools),
}

/// The answers that were given on the command line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    /// Grants what is needed.
    pub(super) grant: bool,
    /// Does not ask.
    pub(super) yes: bool,
    /// Takes another signer than before.
    pub(super) accept_signer: bool,
    /// Takes the place of a tool that came from elsewhere.
    pub(super) replace: bool,
    /// Takes an older version.
    pub(super) downgrade: bool,
    /// Leaves the lock as it is.
    pub(super) locked: bool,
}

/// The way of a tool to its place.
pub(super) struct Installation<'a> {
    pub(super) host: &'a Host,
    pub(super) paths: &'a Paths,
    pub(super) target: Target,
    pub(super) flags: Flags,
    /// The command, for the record.
    pub(super) action: &'static str,
    pub(super) trust: Trust,
    pub(super) root: Root,
}

/// The tool that a file must be.
#[derive(Clone, Copy)]
pub(super) enum Expected<'a> {
    /// Whatever it is: a person named the place.
    Any,
    /// The tool of this name.
    Name(&'a str),
    /// The tool of this name as a lock has it.
    Locked(&'a str, &'a LockedTool),
}

/// The end of the installation of one tool.
pub(super) struct Done {
    /// The state for `--json`: `installed`, `unchanged` or `declined`.
    pub(super) state: &'static str,
    /// The report for `--json`.
    pub(super) json: Value,
}

impl<'a> Installation<'a> {
    /// Returns the way by the policy that is in force now.
    pub(super) fn new(
        host: &'a Host,
        paths: &'a Paths,
        target: Target,
        flags: Flags,
        action: &'static str,
        root: Root,
    ) -> Result<Self, CliError> {
        let signers = host.authority().signers()?;
        Ok(Self { host, paths, target, flags, action, trust: trust(&signers)?, root })
    }

    /// Returns the lock as it is now.
    pub(super) fn lock(&self) -> Result<Lock, CliError> {
        match &self.target {
            Target::User { lock, .. } => read_lock(lock),
            Target::Workspace(workspace) => read_lock(&workspace.lock()),
        }
    }

    /// Checks that the user approved an entry of the lock, before the place that it names is asked:
    /// whoever wrote the lock of a workspace chose that place.
    pub(super) fn check_approved(&self, name: &str, tool: &LockedTool) -> Result<(), CliError> {
        let Target::Workspace(workspace) = &self.target else { return Ok(()) };
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
        expected: Expected<'_>,
    ) -> Result<Done, CliError> {
        let examined = Examined::of(self.host, fetched).await?;
        let name = examined.name().to_owned();
        let lock = self.lock()?;
        let pinned = lock.of_source(&examined.fetched.source.from).map(|tool| &tool.signer);
        let accept_signer = self.flags.accept_signer;
        let verdict = Verdict::of(&examined, &self.trust, &self.root, pinned, accept_signer)?;
        let entry = entry(&examined, &verdict, lock.get(&name));
        match expected {
            Expected::Any => {}
            Expected::Name(asked) => check_name(asked, &name, &entry)?,
            Expected::Locked(asked, locked) => {
                check_expected((asked, locked), &name, &entry)?;
                if self.flags.locked && *locked != entry {
                    let what = format!("the lock would change: its entry of `{name}` is not whole");
                    return Err(CliError::failed(anyhow::Error::msg(what))
                        .hint("`ikigai tool sync` without `--locked` completes it"));
                }
            }
        }
        let placement = self.placement(&examined);
        let is_there = lock.get(&name) == Some(&entry) && self.is_placed(&placement, &examined);
        let installed = self.installed(&name, &lock).await;
        self.check_place(&examined, &lock, &placement).await?;
        let needs = examined.manifest.as_ref().map(|it| it.needs.clone()).unwrap_or_default();
        let requested = Requested::of(&needs, examined.fetched.digest, examined.is_native());
        let replaced = installed.as_ref().filter(|it| it.locked.sha256 != entry.sha256);
        let report = Report {
            examined: &examined,
            verdict: &verdict,
            requested: &requested,
            installed: replaced,
        };
        let mut json = report.json();
        eprint(&report.text());
        let question = match (&self.target, is_there) {
            (_, true) => None,
            (Target::User { .. }, false) => Some(format!("Install `{name}`?")),
            (Target::Workspace(_), false) => Some(format!("Let `{name}` run in this workspace?")),
        };
        if let Some(question) = question
            && !self.is_agreed(&question)?
        {
            eprint("nothing was installed\n");
            return Ok(Done { state: "declined", json });
        }
        let proposal = self.proposal(&name, &report)?;
        if is_there && proposal.as_ref().is_none_or(|it| it.proposal.is_unchanged()) {
            eprint(&format!("`{name}` is installed already\n"));
            return Ok(Done { state: "unchanged", json });
        }
        let is_confined = self.host.authority().profile()?.0 == Profile::Strict;
        if examined.is_native() && proposal.is_none() && !is_confined {
            return Err(unconfined(&name));
        }
        let outcome = self.carry_out(&examined, &placement, &entry, &lock, proposal.as_ref());
        self.record(&examined, &entry, replaced, proposal.is_some(), &placement, &outcome);
        outcome?;
        if let Value::Object(json) = &mut json {
            json.insert("path".to_owned(), json!(placement.path.to_string_lossy()));
            json.insert("granted".to_owned(), json!(proposal.is_some()));
        }
        self.tell(&name, &placement, &requested, proposal.is_some());
        Ok(Done { state: "installed", json })
    }

    /// Writes file, lock and grant, in the order that leaves nothing wrong behind.
    fn carry_out(
        &self,
        examined: &Examined,
        placement: &Placement,
        entry: &LockedTool,
        seen: &Lock,
        agreed: Option<&Agreed>,
    ) -> Result<(), CliError> {
        let name = examined.name();
        let mut file = match &self.target {
            Target::User { lock, .. } => LockFile::of_user(lock)?,
            Target::Workspace(workspace) => {
                LockFile::of_workspace(&workspace.lock(), &self.user_lock()?)?
            }
        };
        let now = file.lock().get(name);
        if now != seen.get(name) && now != Some(entry) {
            let what = format!("another command has installed `{name}` meanwhile");
            return Err(
                CliError::failed(anyhow::Error::msg(what)).hint("look at it, and run this again")
            );
        }
        // A native tool is confined by its grant, so that comes first.
        if examined.is_native()
            && let Some(agreed) = agreed
        {
            self.write(name, agreed)?;
        }
        placement.put(&examined.fetched)?;
        file.change(|lock| lock.put(name, entry.clone()).map(drop).map_err(CliError::failed))?;
        if let Target::Workspace(workspace) = &self.target {
            // The lock that was taken above is the same.
            drop(file);
            file = workspace.open_approved(&self.user_lock()?)?;
            file.change(|lock| lock.put(name, entry.clone()).map(drop).map_err(CliError::failed))?;
        } else if let Some(old) = self.other_build(examined) {
            remove_file(&old)?;
        }
        let written = match agreed {
            Some(agreed) if !examined.is_native() => self.write(name, agreed),
            Some(_) | None => Ok(()),
        };
        // Until now, so that of two commands one writes its grant after the other.
        drop(file);
        written
    }

    fn user_lock(&self) -> Result<PathBuf, CliError> {
        self.paths.lock().ok_or_else(no_home)
    }

    fn is_agreed(&self, question: &str) -> Result<bool, CliError> {
        if self.flags.yes || !std::io::stdin().is_terminal() {
            return Ok(true);
        }
        agreed(question)
    }

    /// Appends the record of what was done, or could not be, to the audit log.
    fn record(
        &self,
        examined: &Examined,
        entry: &LockedTool,
        replaced: Option<&Installed>,
        is_granted: bool,
        placement: &Placement,
        outcome: &Result<(), CliError>,
    ) {
        let build = &examined.tool.build;
        let program = Program {
            origin: ToolOrigin::User.as_str().to_owned(),
            path: placement.path.to_string_lossy().into_owned(),
            digest: entry.sha256,
            backend: build.backend().as_str().to_owned(),
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
        let outcome = outcome.as_ref().copied().map_err(|error| error.text());
        self.host.record_installation(
            examined.name(),
            Some(program),
            grant.flatten(),
            installation,
            outcome,
        );
    }

    /// Returns the grant that holds for the tool now, as a record has it.
    fn granted(&self, examined: &Examined) -> Option<Granted> {
        let decision = self.host.decide(Subject::from(&examined.tool)).ok()?;
        Some(Granted::of(&decision.grant, examined.tool.build.backend(), decision.granted_by()))
    }

    /// Tells a person what was done, and what is left to do.
    fn tell(&self, name: &str, placement: &Placement, requested: &Requested, is_granted: bool) {
        let place = placement.path.display();
        eprint(&match (&self.target, is_granted) {
            (Target::User { .. }, true) => format!("installed as `{place}`, and granted\n"),
            (Target::User { .. }, false) => format!("installed as `{place}`\n"),
            (Target::Workspace(workspace), _) => {
                format!("locked in `{}`, and approved for you\n", workspace.lock().display())
            }
        });
        if !is_granted && let Some(command) = requested.command(name) {
            eprint(&format!("it is not granted what it needs; to grant it: {command}\n"));
        }
        for withheld in &requested.withheld {
            eprint(&format!("grant by hand, if you want to: {withheld}\n"));
        }
    }
}

/// Returns the error of a user without a home.
pub(super) fn no_home() -> CliError {
    let error = anyhow::Error::msg("there is no directory for your tools");
    CliError::usage(error).hint("set HOME, or name one with --user-tools")
}
