//! The text of a summary: entries, oldest first, each under a heading that names its session.
//!
//! An entry that no longer fits is dropped. It is not merged with the next one, because that would
//! take another request, for notes on notes. Its conversation is still in the log, and the asset's
//! history keeps the text before.

use ikigai_assets::SessionId;
use jiff::Zoned;

use super::{MOST, MOST_OF_ENTRY};
use crate::guidance::{visible, whole_lines};

/// The beginning of a heading.
const HEADING: &str = "## ";

/// The text between two entries.
const BETWEEN: &str = "\n\n";

/// The bytes of a token.
const BYTES: u64 = 4;

fn bytes(tokens: u64) -> usize {
    // The two constants that it is called with fit.
    usize::try_from(tokens * BYTES).unwrap_or(usize::MAX)
}

/// Returns the heading of an entry of today.
pub(super) fn heading(session: &SessionId, is_end: bool) -> String {
    let part = if is_end { "" } else { ", earlier turns" };
    format!("{HEADING}{}, session {session}{part}", Zoned::now().date())
}

/// Returns an entry: the heading, and as many lines of the text as fit. Returns nothing if not even
/// the first line fits.
pub(super) fn format(heading: &str, text: &str) -> Option<String> {
    let mut entry = heading.to_owned();
    let most = bytes(MOST_OF_ENTRY) - BETWEEN.len();
    for line in visible(text).lines().map(plain).filter(|line| !line.trim().is_empty()) {
        if entry.len() + 1 + line.len() > most {
            break;
        }
        entry.push('\n');
        entry.push_str(line);
    }
    (entry.len() > heading.len()).then_some(entry)
}

/// Returns a line without the marks of a heading, so that it cannot look like an entry's heading.
fn plain(line: &str) -> &str {
    let mut line = line.trim_end();
    while let Some(rest) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#'))
        && rest.starts_with([' ', '\t'])
    {
        line = rest.trim_start();
    }
    line
}

/// Appends an entry to the text, and drops the oldest entries that no longer fit. The entry
/// replaces the entry of the session `replaced`.
pub(super) fn with(text: &str, entry: &str, replaced: Option<&SessionId>) -> String {
    let mut all = entries(text);
    if let Some(session) = replaced {
        let end = format!(", session {session}");
        all.retain(|entry| !entry.lines().next().is_some_and(|heading| heading.ends_with(&end)));
    }
    all.push(entry);
    fitting(&all).join(BETWEEN) + "\n"
}

/// Returns the newest entries of a text, as many as are sent. The text may have any author.
pub(super) fn newest(text: &str) -> String {
    let text = visible(text);
    if text.len() <= bytes(MOST) {
        return text;
    }
    let all = entries(&text);
    match fitting(&all).join(BETWEEN) {
        newest if newest.len() <= bytes(MOST) => newest,
        newest => {
            let end = newest.floor_char_boundary(bytes(MOST));
            newest[..whole_lines(&newest.as_bytes()[..end])].to_owned()
        }
    }
}

/// Returns the entries of a text. Text before the first heading counts as an entry.
fn entries(text: &str) -> Vec<&str> {
    let mut starts = vec![0];
    let headings = text.match_indices("\n## ").map(|(at, _)| at + 1);
    starts.extend(headings);
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let entries = starts.iter().zip(ends).map(|(start, end)| text[*start..end].trim_end());
    entries.filter(|entry| !entry.trim().is_empty()).collect()
}

/// Returns the last entries that fit, but at least one.
fn fitting<'a>(entries: &'a [&'a str]) -> &'a [&'a str] {
    let mut room = bytes(MOST);
    let fits = |entry: &&&str| {
        let rest = room.checked_sub(entry.len() + BETWEEN.len());
        room = rest.unwrap_or(0);
        rest.is_some()
    };
    let count = entries.iter().rev().take_while(fits).count().max(1);
    &entries[entries.len().saturating_sub(count)..]
}

#[cfg(test)]
mod tests {
    use ikigai_assets::tokens;
    use proptest::prelude::*;

    use super::*;

    const ONE: &str = "0199b6f2-7c5a-7000-8000-000000000001";
    const TWO: &str = "0199b6f2-7c5a-7000-8000-000000000002";

    fn session(id: &str) -> SessionId {
        id.parse().expect("an id")
    }

    fn added(text: &str, id: &str, is_end: bool, notes: &str) -> String {
        let session = session(id);
        let entry = format(&heading(&session, is_end), notes).expect("an entry");
        with(text, &entry, is_end.then_some(&session))
    }

    #[test]
    fn an_entry_names_its_session_and_has_plain_lines() {
        let entry = format(
            "## today, session 1",
            "# Decided\n\n- use `x`\n#12 is open\n##\t# # next \u{200b}\n",
        );
        let expected = "## today, session 1\nDecided\n- use `x`\n#12 is open\nnext \\u{200b}";
        assert_eq!(entry.as_deref(), Some(expected));
        assert!(
            heading(&session(ONE), false).ends_with(&format!(", session {ONE}, earlier turns"))
        );
    }

    #[test]
    fn an_entry_has_as_many_lines_as_there_is_room_for() {
        let line = "x".repeat(500);
        let entry = format("## h", &format!("{line}\n{line}\n{line}")).expect("an entry");
        assert_eq!(entry.lines().count(), 3, "{entry}");
        assert_eq!(format("## h", &"x".repeat(1300)), None, "a line is not cut");
        assert_eq!(format("## h", " \n\n"), None);
    }

    #[test]
    fn the_end_of_a_session_takes_the_place_of_its_earlier_end_alone() {
        let mut text = added("", ONE, true, "first end");
        text = added(&text, ONE, false, "part of one");
        text = added(&text, TWO, true, "end of two");
        text = added(&text, ONE, true, "second end");
        let notes: Vec<&str> =
            text.lines().filter(|it| !it.is_empty() && !it.starts_with('#')).collect();
        assert_eq!(notes, ["part of one", "end of two", "second end"], "{text}");
        assert!(text.ends_with("second end\n"), "{text}");
    }

    #[test]
    fn the_oldest_entries_make_room() {
        let mut text = "What somebody wrote by hand.\n".to_owned();
        for number in 0..40 {
            text = added(&text, ONE, false, &format!("note {number}\n{}", "x".repeat(1000)));
            assert!(tokens(text.len()) <= MOST, "{number}");
        }
        assert!(!text.contains("by hand") && !text.contains("note 9\n"), "{text}");
        assert!(text.contains("note 30\n") && text.contains("note 39\n"), "{text}");
        assert!(text.starts_with("## "), "{text}");
    }

    #[test]
    fn of_a_text_that_is_too_long_the_newest_part_is_sent() {
        assert_eq!(newest("short"), "short");
        let text = format!("{}\n## new\nnote\n", "old line\n".repeat(10_000));
        assert_eq!(newest(&text), "## new\nnote");
        let one = "a line\n".repeat(10_000);
        let sent = newest(&one);
        assert!(tokens(sent.len()) <= MOST && sent.ends_with("a line\n"), "{}", sent.len());
        let text = "ä".repeat(20_000);
        assert!(tokens(newest(&text).len()) <= MOST);
    }

    proptest! {
        #[test]
        fn nothing_that_is_added_has_more_tokens_than_may_be(
            text in "[#\\n a-cä]{0,9000}", notes in "[#\\n a-cä]{0,900}", is_end: bool,
        ) {
            let session = session(ONE);
            let Some(entry) = format(&heading(&session, is_end), &notes) else { return Ok(()) };
            prop_assert!(tokens(entry.len()) <= MOST_OF_ENTRY);
            let new = with(&text, &entry, is_end.then_some(&session));
            prop_assert!(tokens(new.len()) <= MOST);
            prop_assert!(new.contains(&entry));
            prop_assert_eq!(entries(&new).len(), entries(&new[..new.len() - entry.len() - 1]).len() + 1);
        }
    }
}
