//! A recording as text.

use std::collections::BTreeSet;

use ikigai_host::exec::envelope::JsonLayout;
use ikigai_host::policy::{Backend, shell_quoted};

use super::{Recorded, Recordings, costs_in_words, missing_credentials};
use crate::commands::policy::least::one_line;
use crate::commands::policy::least::proposal::Proposed;
use crate::commands::policy::least::touch::ToolAccess;
use crate::credentials::tool_error;

/// The characters of an envelope that are shown.
const ENVELOPE_SHOWN: usize = 160;

/// The most list items that are shown.
const MOST_LISTED: usize = 40;

/// Returns the beginning of an envelope on one line, with deceptive characters escaped.
pub(super) fn shortened(envelope: &str) -> String {
    let line = one_line(envelope);
    if line.chars().count() <= ENVELOPE_SHOWN {
        return line;
    }
    line.chars().take(ENVELOPE_SHOWN).chain(['…']).collect()
}

/// Returns the line for a call that has ended.
pub(super) fn progress(number: usize, count: usize, call: &Recorded) -> String {
    let outcome = match (call.envelope.failure(), tool_error(&call.envelope)) {
        (Some((code, _)), _) => format!("failed, {}", code.as_str()),
        (None, Some((code, _))) => format!("answered {}", one_line(&code)),
        (None, None) => "ok".to_owned(),
    };
    let envelope = call.envelope.to_json(JsonLayout::Compact).unwrap_or_default();
    let (reached, used) = call.touched;
    format!(
        "call {number} of {count}: {outcome}, {} ms, reached {reached}, used {used}\n  {}\n",
        call.took_ms,
        shortened(&envelope)
    )
}

/// Returns the report on a recording.
pub(super) fn render(recordings: &Recordings, proposed: &Proposed) -> String {
    let Recordings { target, calls, noted, .. } = recordings;
    let backend = target.tool.build.backend();
    let failed = calls.iter().filter(|call| !call.envelope.is_success()).count();
    let mut text = format!(
        "{}: {} calls, {failed} failed; at most {} each\n",
        target.tool.name(),
        calls.len(),
        costs_in_words(noted, backend)
    );
    list(&mut text, "reached beyond its grant", &noted.reached);
    list(&mut text, "used of its grant", &noted.used);
    if proposed.missing > 0 {
        text.push_str(&format!("looked for {} files that are not there\n", proposed.missing));
    }
    for note in proposed.notes() {
        text.push_str(&format!("{note}\n"));
    }
    for error in missing_credentials(recordings) {
        text.push_str(&format!(
            "answered MISSING_CREDENTIALS: {}\n  variables are never inferred: grant what it needs \
             with --env NAME, and record again\n",
            one_line(&error)
        ));
    }
    if backend == Backend::Native && calls.iter().any(asks_for_assets) {
        text.push_str(
            "a native tool without a grant of assets cannot ask for them, so ikigai does not see \
             whether it needs them: --assets read grants them\n",
        );
    }
    text
}

/// Returns whether the tool itself reports that permission was denied.
fn asks_for_assets(call: &Recorded) -> bool {
    tool_error(&call.envelope).is_some_and(|(code, _)| code == "PERMISSION_DENIED")
}

fn list(text: &mut String, heading: &str, touches: &BTreeSet<ToolAccess>) {
    if touches.is_empty() {
        return;
    }
    text.push_str(&format!("{heading}:\n"));
    for touch in touches.iter().take(MOST_LISTED) {
        text.push_str(&format!("  {}\n", touch.in_words()));
    }
    match touches.len().saturating_sub(MOST_LISTED) {
        0 => {}
        more => text.push_str(&format!("  and {more} more; --json has them\n")),
    }
}

/// Returns the reason why nothing can be written, or why no change is needed.
pub(super) fn without_change(recordings: &Recordings, proposed: &Proposed) -> String {
    let target = &recordings.target;
    let name = target.tool.name();
    if proposed.is_empty() && recordings.all_failed() {
        return format!(
            "no call of `{name}` succeeded, so its needs are unknown; nothing is proposed\n"
        );
    }
    let Some(path) = target.path() else {
        return format!("`{name}` needs no other grant for these calls\n");
    };
    let grant = proposed.command(name).unwrap_or_default();
    format!(
        "`{}` is not installed, and only an installed tool can be granted something. Then:\n  \
         ikigai tool install {}\n  {grant}\n",
        one_line(&path.to_string_lossy()),
        one_line(&shell_quoted(&path.to_string_lossy()))
    )
}
