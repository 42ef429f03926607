//! The rows of a question.
//!
//! Each row begins with the frame, even if a text is broken into several rows. So foreign text is
//! never at the start of a row.

use anstyle::{AnsiColor, Style};
use ikigai_protocol::written_out;
use unicode_segmentation::UnicodeSegmentation as _;

use super::{DETAILS, Facts, KeyQuestion, KeyReply, QuestionLine};
use crate::cells;
use crate::look::OutputFeatures;
use crate::sanitize;

/// The characters of the frame, which [`sanitize`] replaces in every other text.
const FRAME: [char; 3] = ['┏', '┃', '┗'];

const LABEL: &str = " ikigai asks ";
const LABEL_STYLE: Style = AnsiColor::Yellow.on_default().invert();
const FRAME_STYLE: Style = AnsiColor::Yellow.on_default();
const TEXT_STYLE: Style = Style::new().bold();
const NAME_STYLE: Style = Style::new().dimmed();

/// The words next to the label, if there is room for them.
const SILENCE: &str = "denied after 5 minutes without an answer";

/// The words while no key is an answer yet.
const WAITING: &str = "wait a moment before you press a key";

/// The words before the text for the model.
const TELLING: &str = "to the model: ";

/// Returns the rows that stay: everything except the keys.
pub(crate) fn block(question: &KeyQuestion, columns: usize, look: OutputFeatures) -> String {
    let room = room(columns);
    let label = look.style(LABEL_STYLE);
    let mut label = format!("{label}{}{label:#}", cells::truncated(LABEL, room));
    if cells::width(LABEL) + 1 + cells::width(SILENCE) <= room {
        let faint = look.style(NAME_STYLE);
        label.push_str(&format!(" {faint}{SILENCE}{faint:#}"));
    }
    let mut block = row('┏', &label, look);
    let style = look.style(TEXT_STYLE);
    for piece in broken(&harmless(&question.text), room) {
        block.push_str(&row('┃', &format!("{style}{piece}{style:#}"), look));
    }
    block + &facts(&question.facts, columns, look)
}

/// Returns the rows of facts, and of the change that follows them.
pub(crate) fn facts(facts: &Facts, columns: usize, look: OutputFeatures) -> String {
    let room = room(columns);
    let mut rows = String::new();
    let names = facts.named.iter().map(|(name, _)| cells::width(name)).max();
    // A narrow screen has no columns.
    let indent = names.map_or(0, |width| width + 2).min(room / 3);
    for (name, text) in &facts.named {
        let name = cells::truncated(&harmless(name), indent.saturating_sub(1));
        for (at, piece) in broken(&harmless(text), room - indent).into_iter().enumerate() {
            let name = if at == 0 { name.as_str() } else { "" };
            let gap = " ".repeat(indent - cells::width(name));
            let style = look.style(if name.is_empty() { Style::new() } else { NAME_STYLE });
            rows.push_str(&row('┃', &format!("{style}{name}{style:#}{gap}{piece}"), look));
        }
    }
    for line in &facts.change {
        let style = match line.chars().next() {
            Some('+') => AnsiColor::Green.on_default(),
            Some('-') => AnsiColor::Red.on_default(),
            _ => Style::new(),
        };
        let style = look.style(style);
        for piece in broken(&harmless(line), room.saturating_sub(2).max(1)) {
            rows.push_str(&row('┃', &format!("  {style}{piece}{style:#}"), look));
        }
    }
    rows
}

/// Returns the cells of a row without the frame.
fn room(columns: usize) -> usize {
    columns.saturating_sub(3).max(1)
}

fn row(corner: char, text: &str, look: OutputFeatures) -> String {
    let frame = look.style(FRAME_STYLE);
    format!("{frame}{corner}{frame:#} {text}\n")
}

/// Returns the rows that change: the keys, or the text that is being written.
pub(crate) fn last(
    question: &KeyQuestion,
    shown: &QuestionLine,
    columns: usize,
    look: OutputFeatures,
) -> Vec<String> {
    let room = room(columns);
    let framed = |corner: char, text: &str| {
        let frame = look.style(FRAME_STYLE);
        format!("{frame}{corner}{frame:#} {text}")
    };
    match shown {
        QuestionLine::Waiting => {
            let faint = look.style(NAME_STYLE);
            vec![framed('┗', &format!("{faint}{}{faint:#}", cells::truncated(WAITING, room)))]
        }
        QuestionLine::Keys => {
            let rows = keys(question, room);
            let last = rows.len() - 1;
            let corner = |at| if at == last { '┗' } else { '┃' };
            rows.iter().enumerate().map(|(at, row)| framed(corner(at), row)).collect()
        }
        QuestionLine::Telling(text) => {
            let cursor = look.style(Style::new().invert());
            let before = cells::truncated(TELLING, room);
            let rest = room.saturating_sub(cells::width(&before) + 1);
            let text = cells::truncated_before(&crate::one_line(text), rest);
            vec![framed('┗', &format!("{before}{text}{cursor} {cursor:#}"))]
        }
    }
}

/// Returns the row after an answer.
pub(crate) fn end(
    question: &KeyQuestion,
    given: Option<&KeyReply>,
    look: OutputFeatures,
) -> String {
    let meaning = |c: char| {
        let choice = question.choices.iter().chain(&question.last).find(|(key, _)| *key == c);
        choice.map_or_else(|| c.to_string(), |(_, meaning)| meaning.clone())
    };
    let text = match given {
        Some(KeyReply::Key(c)) => meaning(*c),
        Some(KeyReply::Told(_)) => "declined, and told".to_owned(),
        Some(KeyReply::Declined) => "declined".to_owned(),
        Some(KeyReply::Silence) => "denied: you did not answer for 5 minutes".to_owned(),
        None => "not asked any more".to_owned(),
    };
    let frame = look.style(FRAME_STYLE);
    format!("{frame}┗{frame:#} → {}\n", harmless(&text))
}

/// Returns the words before the text for the model, if rows cannot be replaced.
pub(crate) fn telling() -> String {
    format!("┗ {TELLING}")
}

/// Returns the keys in as few rows as they need.
fn keys(question: &KeyQuestion, room: usize) -> Vec<String> {
    let details = (DETAILS, "details".to_owned());
    let details = (!question.details.is_empty()).then_some(&details);
    let all = question.choices.iter().chain(details);
    let all = all.chain(&question.telling).chain(&question.last);
    let mut rows: Vec<String> = vec![String::new()];
    for (key, meaning) in all {
        let choice = cells::truncated(&format!("{key} {}", harmless(meaning)), room);
        let row = &mut rows[..];
        let Some(row) = row.last_mut() else { continue };
        let joined = format!("{row} · {choice}");
        if row.is_empty() {
            *row = choice;
        } else if cells::width(&joined) <= room {
            *row = joined;
        } else {
            rows.push(choice);
        }
    }
    rows
}

/// Returns the text with control characters and invisible characters written out.
fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for c in written_out(text).chars() {
        match c {
            // Replacing it with another character could make two names look the same.
            c if FRAME.contains(&c) => harmless.extend(c.escape_unicode()),
            c => harmless.push(c),
        }
    }
    sanitize(&harmless).replace(['\n', '\t'], " ")
}

/// Returns `text` in pieces of at most `room` cells, broken at spaces if possible.
fn broken(text: &str, room: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut row = String::new();
    for grapheme in text.graphemes(true) {
        let end = row.len();
        row.push_str(grapheme);
        if cells::width(&row) <= room || end == 0 {
            continue;
        }
        // A space is not used if it would leave half of the row empty.
        let space = row[..end].rfind(' ').filter(|at| *at > end / 2 && *at + 1 < row.len());
        let rest = row.split_off(space.map_or(end, |at| at + 1));
        rows.push(std::mem::replace(&mut row, rest));
    }
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn question() -> KeyQuestion {
        KeyQuestion {
            text: "May `file_read` read /etc/pass\u{202e}wd\x1b[2J\nor not?".to_owned(),
            facts: Facts::new(vec![("arguments".to_owned(), "{}".to_owned())]),
            details: Facts {
                named: vec![
                    ("file".to_owned(), "sha256 0123456789abcdef".to_owned()),
                    ("denied by".to_owned(), "the profile standard\n┗ o once".to_owned()),
                ],
                change: vec!["+fs = [\"ro:/etc\"]".to_owned()],
            },
            choices: [('o', "once"), ('s', "this session"), ('d', "deny")]
                .map(|(key, meaning)| (key, meaning.to_owned()))
                .to_vec(),
            telling: Some(('t', "deny, and tell the model".to_owned())),
            last: None,
        }
    }

    #[test]
    fn a_question_as_it_is_shown() {
        let question = question();
        let mut shown = block(&question, 60, OutputFeatures::PLAIN);
        shown.push_str(&last(&question, &QuestionLine::Keys, 60, OutputFeatures::PLAIN).join("\n"));
        assert_eq!(
            shown,
            "┏  ikigai asks  denied after 5 minutes without an answer\n\
             ┃ May `file_read` read /etc/pass\\u{202e}wd\\u{1b}[2J\\u{a}or \n\
             ┃ not?\n\
             ┃ arguments  {}\n\
             ┃ o once · s this session · d deny · ? details\n\
             ┗ t deny, and tell the model"
        );
        assert_eq!(
            facts(&question.details, 60, OutputFeatures::PLAIN),
            "┃ file       sha256 0123456789abcdef\n\
             ┃ denied by  the profile standard\\u{a}\\u{2517} o once\n\
             ┃   +fs = [\"ro:/etc\"]\n"
        );
    }

    #[test]
    fn an_end_says_what_was_answered() {
        let end = |given: Option<KeyReply>| end(&question(), given.as_ref(), OutputFeatures::PLAIN);
        assert_eq!(end(Some(KeyReply::Key('s'))), "┗ → this session\n");
        assert_eq!(end(Some(KeyReply::Told("x".to_owned()))), "┗ → declined, and told\n");
        assert_eq!(end(Some(KeyReply::Silence)), "┗ → denied: you did not answer for 5 minutes\n");
        assert_eq!(end(None), "┗ → not asked any more\n");
    }

    proptest! {
        #[test]
        fn every_row_begins_with_the_frame_and_fits(
            text in "\\PC*", fact in "\\PC*|[\\x00-\\x9f]*", columns in 8_usize..100,
        ) {
            let facts = Facts { named: vec![("arguments".to_owned(), fact.clone())], change: vec![fact] };
            let question = KeyQuestion { text: text.clone(), facts, ..question() };
            let mut block = block(&question, columns, OutputFeatures::FULL);
            block.push_str(&super::facts(&question.details, columns, OutputFeatures::FULL));
            let rows = last(&question, &QuestionLine::Keys, columns, OutputFeatures::FULL);
            let telling = last(&question, &QuestionLine::Telling(text), columns, OutputFeatures::FULL);
            for row in block.lines().map(str::to_owned).chain(rows).chain(telling) {
                let plain = row.strip_prefix("\x1b[33m").expect("the colour of the frame");
                prop_assert!(plain.starts_with(FRAME), "{row:?}");
                prop_assert_eq!(plain.matches(FRAME).count(), 1);
                // Emoji that are joined are measured as their parts.
                prop_assert!(cells::styled_width(&row) < columns + 2, "{row:?}");
            }
        }
    }
}
