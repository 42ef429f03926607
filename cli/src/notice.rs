//! The notice after an upgrade to a version that runs native tools without a grant in the sandbox.
//!
//! The audit log has the tools that ran unconfined before. Their owner reads about them once, at a
//! terminal. A file in the state directory prevents the notice from being printed again.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::path::Path;

use ikigai_host::audit::{LogReader, Record};
use ikigai_host::host::Host;
use ikigai_protocol::written_out;

use crate::output::eprint;

/// The file that exists once the notice was printed or was not needed.
const MARK: &str = "unconfined-notice";

/// The most tools that the notice names.
const NAMED: usize = 10;

/// Prints the notice, if it is due. `state` is the directory of the audit log.
pub(crate) fn print_if_due(host: &Host, state: Option<&Path>) {
    let Some(state) = state.filter(|state| state.is_dir()) else { return };
    let mark = state.join(MARK);
    if !io::stderr().is_terminal() || mark.exists() {
        return;
    }
    let names = match formerly_unconfined(host, state) {
        Ok(names) => names,
        // `ikigai audit` and `ikigai doctor` report what is wrong with the log.
        Err(error) => return tracing::debug!(%error, "the audit log cannot be read"),
    };
    if !names.is_empty() {
        eprint(&text(&names));
    }
    if let Err(error) = File::create_new(&mark) {
        tracing::debug!(path = %mark.display(), %error, "cannot be written");
    }
}

/// Returns the native tools that ran unconfined by the rules of the profile and have no grant in
/// the user's policy.
fn formerly_unconfined(host: &Host, state: &Path) -> io::Result<BTreeSet<String>> {
    let mut reader = LogReader::open(state)?;
    let mut names = BTreeSet::new();
    while let Some(batch) = reader.read_back() {
        let records = batch?.lines.into_iter().map(|line| line.record);
        names.extend(records.filter(ran_unconfined).map(|record| record.tool));
    }
    let is_granted = |name: &String| {
        host.authority().written(name).is_some_and(|written| written.sha256.is_some())
    };
    names.retain(|name| !is_granted(name));
    Ok(names)
}

/// Returns whether a record is about a native tool of the user that ran unconfined and whose file
/// still exists. A program named by its path has no name to grant.
fn ran_unconfined(record: &Record) -> bool {
    let (Some(program), Some(grant)) = (&record.program, &record.grant) else { return false };
    program.origin == "user"
        && program.backend == "native"
        && grant.sandbox.as_deref() == Some("off")
        && !record.tool.contains('/')
        && Path::new(&program.path).is_file()
}

fn text(names: &BTreeSet<String>) -> String {
    let named = names.iter().take(NAMED).map(|name| format!("`{}`", written_out(name)));
    let mut list = named.collect::<Vec<_>>().join(", ");
    if names.len() > NAMED {
        list.push_str(&format!(" and {} more", names.len() - NAMED));
    }
    format!(
        "note: your native tools now run in the sandbox until you grant them more: they can use the workspace, \
         but neither the network nor your home. These ran unconfined before: {list}.\n\
         hint: `ikigai policy grant NAME --unconfined` lets a tool run with all of your rights again\n"
    )
}
