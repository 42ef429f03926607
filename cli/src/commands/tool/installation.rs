//! The steps of `tool install`, `update` and `sync` for one tool: examined, judged, shown, placed,
//! locked, granted, recorded.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use ikigai_host::audit::{Granted, Installation as Recorded, Program};
use ikigai_host::host::{Host, Subject, request};
use ikigai_host::paths::Paths;
use ikigai_host::policy::{NewKey, NewValue, Profile, Proposal, ToolOrigin};
use ikigai_supply::lock::LockedTool;
use ikigai_supply::signature::Root;
use ikigai_supply::trust::Trust;
use ikigai_supply::{Lock, Manifest, Signer};
use serde_json::{Value, json};

use crate::commands::policy::agreed;
use crate::error::CliError;
use crate::output::eprint;
use crate::shipping::{
    Examined, Fetched, Installed, LockFile, Placement, Report, Requested, Verdict, WorkspaceTools,
    read_lock, remove_file, trust,
};

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

/// A change of the policy that a person agreed to.
struct Agreed {
    keys: Vec<NewKey>,
    proposal: Proposal,
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
        let pinned = pinned(&lock, &examined.fetched.source.from);
        let verdict = Verdict::of(
            &examined,
            &self.trust,
            &self.root,
            pinned.as_ref(),
            self.flags.accept_signer,
        )?;
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

    /// Writes the change that a person agreed to into the policy as it is by now: another command may
    /// have granted something to another tool meanwhile.
    fn write(&self, name: &str, agreed: &Agreed) -> Result<(), CliError> {
        let hint = "the tool is installed; `ikigai policy grant` grants it something";
        let Agreed { keys, proposal } = agreed;
        let now = self.host.authority().propose_grant(name, keys)?;
        if !now.is_unchanged() && now.difference() != proposal.difference() {
            let what = format!("the entry of `{name}` in `{}` has changed", now.path.display());
            return Err(CliError::failed(anyhow::Error::msg(what)).hint(hint));
        }
        now.write().map_err(|error| {
            let what = format!("cannot write `{}`", now.path.display());
            CliError::failed(anyhow::Error::new(error).context(what)).hint(hint)
        })
    }

    fn user_lock(&self) -> Result<PathBuf, CliError> {
        self.paths.lock().ok_or_else(no_home)
    }

    fn placement(&self, examined: &Examined) -> Placement {
        match &self.target {
            Target::User { directory, .. } => {
                Placement::in_directory(directory, examined.name(), examined.is_native())
            }
            Target::Workspace(workspace) => Placement::at(workspace.file(examined.fetched.digest)),
        }
    }

    /// Returns the file of the other kind with the tool's name, which would run instead.
    fn other_build(&self, examined: &Examined) -> Option<PathBuf> {
        let Target::User { directory, .. } = &self.target else { return None };
        let other = Placement::in_directory(directory, examined.name(), !examined.is_native());
        other.path.is_file().then_some(other.path)
    }

    fn is_placed(&self, placement: &Placement, examined: &Examined) -> bool {
        let there = std::fs::File::open(&placement.path).and_then(ikigai_host::Digest::of_reader);
        let is_placed = there.is_ok_and(|digest| digest == examined.fetched.digest);
        match &self.target {
            Target::User { .. } => is_placed,
            Target::Workspace(workspace) => {
                let lock = self.lock().unwrap_or_default();
                let entry = lock.get(examined.name());
                let is_approved = |entry| workspace.is_approved(examined.name(), entry);
                is_placed && entry.is_some_and(|entry| is_approved(entry).unwrap_or(false))
            }
        }
    }

    /// Returns the tool of this name that is installed now.
    async fn installed(&self, name: &str, lock: &Lock) -> Option<Installed> {
        let locked = lock.get(name)?.clone();
        let path = match &self.target {
            Target::User { directory, .. } => {
                let places = [false, true]
                    .map(|is_native| Placement::in_directory(directory, name, is_native));
                places.into_iter().map(|it| it.path).find(|path| path.is_file())
            }
            Target::Workspace(workspace) => Some(workspace.file(locked.sha256)),
        };
        let manifest = path.as_ref().and_then(|path| std::fs::File::open(path).ok());
        let manifest = manifest.and_then(|file| Manifest::of_file(file).ok().flatten());
        let snapshot = self.host.look_up(name).await;
        let schema = snapshot.get(name).map(|tool| tool.schema.to_value());
        Some(Installed { locked, needs: manifest.map(|it| it.needs), schema })
    }

    /// Checks that the tool takes nobody's place.
    async fn check_place(
        &self,
        examined: &Examined,
        lock: &Lock,
        placement: &Placement,
    ) -> Result<(), CliError> {
        let name = examined.name();
        let refused = |what: String| CliError::failed(anyhow::Error::msg(what));
        let source = &examined.fetched.source;
        if examined.is_native() && matches!(self.target, Target::Workspace(_)) {
            let what =
                format!("`{name}` is a native program, and a workspace brings components only");
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
            return Err(refused(what).hint("`--replace` takes this one in its place"));
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
                "`ikigai tool update --downgrade` takes it, or name the version that you want",
            ));
        }
        let snapshot = self.host.look_up(name).await;
        let Some(there) = snapshot.get(name) else {
            if placement.path.exists() && locked.is_none() && !self.flags.replace {
                let what = format!(
                    "`{}` is a file that ikigai did not put there",
                    placement.path.display()
                );
                return Err(refused(what).hint("move it away, or give `--replace`"));
            }
            return Ok(());
        };
        let is_user = matches!(self.target, Target::User { .. });
        if there.origin == ToolOrigin::System {
            let what = format!("`{name}` is the name of a standard tool");
            return match (is_user, self.flags.replace) {
                (true, true) => Ok(()),
                (true, false) => {
                    Err(refused(what).hint("`--replace` puts this one in its place for you"))
                }
                (false, _) => Err(refused(format!("{what}, which no workspace replaces"))),
            };
        }
        let present = there.build.digest;
        let is_ours = present == examined.fetched.digest
            || there.source() == "workspace"
            || locked.is_some_and(|locked| locked.sha256 == present);
        if is_user && !is_ours && !self.flags.replace {
            let path = there.build.path.display();
            let what = match locked {
                Some(_) => format!("`{path}` is not what was installed: somebody changed it"),
                None => format!("`{name}` is `{path}`, which ikigai did not put there"),
            };
            return Err(refused(what).hint("`--replace` puts this one in its place"));
        }
        Ok(())
    }

    /// Returns the change of the policy that a person agreed to; nothing if there is none to make.
    fn proposal(&self, name: &str, report: &Report<'_>) -> Result<Option<Agreed>, CliError> {
        let Report { examined, requested, .. } = report;
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
        let subject = Subject::from(&examined.tool);
        if let Err(denial) =
            self.host.authority().decide_with(&proposal, &request(subject, &contents))
        {
            eprint(&format!("warning: the tool may still not be called: {denial}\n"));
        }
        let lines: String = proposal.difference().iter().map(|line| format!("{line}\n")).collect();
        eprint(&format!("\n{}\n{lines}", proposal.path.display()));
        if self.flags.grant {
            return Ok(Some(Agreed { keys, proposal }));
        }
        let question = if is_renewal { "Renew its grant?" } else { "Grant it this?" };
        Ok(agreed(question)?.then_some(Agreed { keys, proposal }))
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

/// Returns the signer of what was installed from the same source.
fn pinned(lock: &Lock, from: &str) -> Option<Signer> {
    lock.iter().find(|(_, tool)| tool.from == from).map(|(_, tool)| tool.signer.clone())
}

/// Returns the entry of the lock for a tool. What was wanted before is wanted still, where nothing else
/// was asked for.
fn entry(examined: &Examined, verdict: &Verdict, old: Option<&LockedTool>) -> LockedTool {
    let Fetched { digest, size, source, .. } = &examined.fetched;
    let before = old.filter(|old| old.from == source.from).and_then(|old| old.wanted.clone());
    LockedTool {
        version: examined.manifest.as_ref().map(|it| it.version.clone()),
        from: source.from.clone(),
        wanted: source.wanted.clone().or(before),
        manifest: source.manifest.as_ref().map(|(digest, _)| *digest),
        sha256: *digest,
        size: *size,
        signer: verdict.signer.clone(),
        needs: examined.manifest.as_ref().map(|it| it.needs.digest()),
    }
}

/// Checks that the file for a tool is still that tool: an update installs no other one.
fn check_name(asked: &str, found: &str, entry: &LockedTool) -> Result<(), CliError> {
    if asked == found {
        return Ok(());
    }
    let what = format!("`{}` has the tool `{found}` now, and not `{asked}`", entry.from);
    let hint = format!(
        "`ikigai tool install` installs the new one, and `ikigai tool remove {asked}` removes the \
         old one"
    );
    Err(CliError::failed(anyhow::Error::msg(what)).hint(hint))
}

/// Checks that a file is what a lock says of it.
fn check_expected(
    (name, locked): (&str, &LockedTool),
    found: &str,
    entry: &LockedTool,
) -> Result<(), CliError> {
    let differing = |what: &str, one: &dyn std::fmt::Display, other: &dyn std::fmt::Display| {
        let text = format!("the lock says of `{name}` that its {what} is {one}, and it is {other}");
        CliError::failed(anyhow::Error::msg(text))
            .hint("ask whoever wrote the lock; `ikigai tool install` writes it anew")
    };
    let version = |tool: &LockedTool| {
        tool.version.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
    };
    if name != found {
        return Err(differing("name", &name, &found));
    }
    if locked.sha256 != entry.sha256 {
        return Err(differing("digest", &locked.sha256, &entry.sha256));
    }
    if locked.version != entry.version {
        return Err(differing("version", &version(locked), &version(entry)));
    }
    if locked.signer != entry.signer {
        return Err(differing("signer", &locked.signer, &entry.signer));
    }
    if locked.needs != entry.needs {
        return Err(differing("list of needs", &"another one", &"not that"));
    }
    Ok(())
}

fn unconfined(name: &str) -> CliError {
    let what = format!("`{name}` is a native program, which would run with all of your rights");
    CliError::failed(anyhow::Error::msg(what)).hint(
        "`--grant` installs it with an entry of your policy that keeps it in the sandbox; or ask its \
         author for a component",
    )
}

/// Returns the error of a user without a home.
pub(super) fn no_home() -> CliError {
    let error = anyhow::Error::msg("there is no directory for your tools");
    CliError::usage(error).hint("set HOME, or name one with --user-tools")
}
