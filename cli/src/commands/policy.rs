//! `ikigai policy`: the grants of tools, the rules that decide them, and commands that change them.

pub(super) mod grant;
mod least;
mod misplaced;
mod record;
pub(super) mod revoke;
mod show;
mod signers;
mod suggest;
mod test;

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

pub(super) use self::least::is_seen_without_grant;
pub(super) use self::misplaced::misplaced_tables;
use crate::error::{CliError, with_path};
use crate::options::SharedOptions;
use crate::output::eprint;
use ikigai_host::policy::Proposal;
use ikigai_protocol::written_out;

#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// Show what each tool may touch, and which line says so
    Show(show::Arguments),
    /// Grant a tool something, or limit it, in your own policy file
    ///
    /// Adds what the flags name to the tool's entry in the file. If the tool has no entry, the new
    /// entry also has what the profile grants. With --replace, the flags replace the lists that they
    /// name. A grant for your own tool applies to the contents of its files: when they change, the
    /// tool does not run until you grant it again. Asks before it writes if stdin is a terminal.
    #[command(after_help = grant::EXAMPLES)]
    Grant(grant::Arguments),
    /// Take back all that your policy file grants a tool, or the parts that flags name
    ///
    /// Without flags, takes back everything. Your own native tool then does not run until you grant
    /// it again with `ikigai policy grant TOOL`. Its entry remains in the file, with an empty list
    /// of digests (`sha256 = []`). Every other tool gets what its profile grants.
    #[command(after_help = "Examples:\n  ikigai policy revoke customer_db\n  \
                            ikigai policy revoke bash --read ~/data --net example.com:443\n  \
                            ikigai policy revoke bash --toolchain rust --limit wall_clock\n  \
                            ikigai policy revoke grep --yes --json")]
    Revoke(revoke::Arguments),
    /// Propose grants for the accesses that the audit log lists as refused
    ///
    /// Prints each refused access, how often and when it was last refused, and the command that
    /// would grant it. Leaves out calls of earlier versions of a tool's file. Grants nothing.
    #[command(after_help = suggest::EXAMPLES)]
    Suggest(suggest::Arguments),
    /// Call a tool, and propose the smallest grant that these calls need
    ///
    /// Calls the tool with each set of arguments. Records which access the tool uses and which is
    /// refused. Then shows an entry for your policy file that grants both. Asks before it writes
    /// the entry; without a terminal, it writes only with --yes.
    #[command(after_help = record::EXAMPLES)]
    Record(record::Arguments),
    /// Check whether a tool may do something, and which line decides
    ///
    /// Exits 0 if it is allowed, 1 if it is not, 2 if the tool does not exist.
    #[command(after_help = test::EXAMPLES)]
    Test(test::Arguments),
}

pub(super) async fn run(
    options: &SharedOptions,
    command: PolicyCommand,
) -> Result<ExitCode, CliError> {
    match command {
        PolicyCommand::Show(arguments) => show::run(options, arguments).await,
        PolicyCommand::Grant(arguments) => grant::run(options, arguments).await,
        PolicyCommand::Revoke(arguments) => revoke::run(options, arguments).await,
        PolicyCommand::Suggest(arguments) => suggest::run(options, arguments).await,
        PolicyCommand::Record(arguments) => record::run(options, arguments).await,
        PolicyCommand::Test(arguments) => test::run(options, arguments).await,
    }
}

/// Shows a change of the policy file, asks if a terminal is there, and writes it. Returns false if
/// the answer was no.
pub(super) fn carry_out(proposal: &Proposal, yes: bool) -> Result<bool, CliError> {
    Ok(written(proposal, yes)?.is_some())
}

/// Does the same as [`carry_out`], and returns the proposal as it was written; `None` if the answer
/// was no.
pub(super) fn written(proposal: &Proposal, yes: bool) -> Result<Option<Proposal>, CliError> {
    let path = proposal.path.display();
    if proposal.is_unchanged() {
        eprint(&format!("`{path}` already says this; nothing was changed\n"));
        return Ok(Some(proposal.clone()));
    }
    let asks = !yes && std::io::stdin().is_terminal();
    if !asks {
        // The user did not agree to the file as a whole, so keep other changes made in the
        // meantime.
        let merged = with_path(proposal.write_merged(), "write", &proposal.path)?;
        show(&merged);
        return Ok(Some(merged));
    }
    show(proposal);
    if !agreed("Write this?")? {
        eprint("nothing was changed\n");
        return Ok(None);
    }
    with_path(proposal.write(), "write", &proposal.path)?;
    Ok(Some(proposal.clone()))
}

/// Prints the lines of the policy file that change. Escapes deceptive characters, since the user
/// must agree with each line.
fn show(proposal: &Proposal) {
    let lines = proposal.difference();
    let lines: String = lines.iter().map(|line| format!("{}\n", written_out(line))).collect();
    eprint(&format!("{}\n{lines}", proposal.path.display()));
}

/// Asks the user at the terminal, who must answer yes.
pub(super) fn agreed(question: &str) -> Result<bool, CliError> {
    let answer = answer(&format!("{question} [y/N] "))?;
    Ok(matches!(answer.as_deref(), Some("y" | "yes")))
}

/// Asks the user at the terminal, who must answer yes. The answer `d` shows the `details` first.
pub(super) fn agreed_with_details(question: &str, details: &str) -> Result<bool, CliError> {
    loop {
        let answer = answer(&format!("{question} [y/N, d for details] "))?;
        match answer.as_deref() {
            Some("d" | "details") => eprint(details),
            answer => return Ok(matches!(answer, Some("y" | "yes"))),
        }
    }
}

/// Asks the user at the terminal about an earlier agreement: an empty line means yes.
pub(super) fn agreed_again(question: &str) -> Result<bool, CliError> {
    let answer = answer(&format!("{question} [Y/n] "))?;
    Ok(matches!(answer.as_deref(), Some("" | "y" | "yes")))
}

/// Returns the answer to a question, in small letters; `None` at the end of the input.
pub(super) fn answer(question: &str) -> Result<Option<String>, CliError> {
    eprint(question);
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim().to_ascii_lowercase()))
}

/// Returns a path with `~` in place of the home directory.
pub(super) fn with_tilde(path: &str, home: Option<&PathBuf>) -> String {
    let home = home.map(|home| home.display().to_string()).filter(|home| home.len() > 1);
    match home.and_then(|home| path.strip_prefix(&home).map(str::to_owned)) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}
