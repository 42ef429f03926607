//! The suggestion for one tool as text.

use std::collections::BTreeMap;

use ikigai_host::registry::Tool;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Suggestion;
use super::gather::{Gathered, Tally};
use crate::commands::policy::least::one_line;
use crate::commands::policy::least::touch::ToolAccess;
use crate::commands::tool::list::plain_table;
use ikigai_protocol::written_out;

/// The most refusals that are listed.
const MOST_LISTED: usize = 50;

/// The characters of a digest that are shown.
const DIGEST_SHOWN: usize = 12;

/// Returns the suggestion for a tool.
pub(super) fn render(
    tool: &Tool,
    gathered: &Gathered,
    suggestion: &Suggestion,
    difference: &[String],
) -> String {
    let digest: String = tool.build.digest.to_string().chars().take(DIGEST_SHOWN).collect();
    let calls = calls_in_words(gathered.calls);
    let mut text = format!("{} (sha256 {digest}…, {calls})\n", tool.name());
    if !gathered.refused.is_empty() {
        text.push_str(&table_of(&gathered.refused));
    }
    let mut line = |indent: usize, line: &str| {
        text.push_str(&format!("{:indent$}{line}\n", ""));
    };
    if suggestion.changes() {
        match suggestion.command(tool.name()) {
            Some(command) => line(2, &command),
            None => line(2, "no flag can empty a list; write this in your policy file:"),
        }
        difference.iter().for_each(|changed| line(4, &written_out(changed)));
    } else {
        line(2, "nothing to change");
    }
    for note in suggestion.notes.iter().chain(&suggestion.proposed.notes()) {
        line(2, &one_line(note));
    }
    match gathered.of_other_contents {
        0 => {}
        1 => line(2, "1 call of an earlier version of the file is left out"),
        many => line(2, &format!("{many} calls of an earlier version of the file are left out")),
    }
    text.push('\n');
    text
}

/// Returns a number of calls with its noun.
pub(super) fn calls_in_words(calls: u64) -> String {
    format!("{calls} {}", if calls == 1 { "call" } else { "calls" })
}

/// Returns the refused accesses as lines of a table.
pub(super) fn table_of(refused: &BTreeMap<ToolAccess, Tally>) -> String {
    let mut table = plain_table();
    table.set_header(["REFUSED", "CALLS", "LAST"]);
    for (touch, tally) in refused.iter().take(MOST_LISTED) {
        table.add_row([touch.in_words(), tally.calls.to_string(), local(tally.last)]);
    }
    let table = table.to_string();
    let mut text: String = table.lines().map(|row| format!(" {}\n", row.trim_end())).collect();
    match refused.len().saturating_sub(MOST_LISTED) {
        0 => {}
        more => text.push_str(&format!("  and {more} more; --json has them\n")),
    }
    text
}

fn local(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}
