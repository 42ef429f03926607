//! A part of a conversation as a record, for a model that writes notes on it. The record consists
//! of paragraphs. The longest of them are cut, and if there are too many, some in the middle are
//! left out.

use ikigai_provider::{Message, Part, Role};

/// The most bytes of one text.
const TEXT: usize = 8_000;

/// The most bytes of the arguments or of the result of a call.
const CALL: usize = 1_000;

/// Returns the messages as a record of at most about `most` bytes.
pub(super) fn record(messages: &[Message], most: usize) -> String {
    let entries: Vec<String> = messages
        .iter()
        .flat_map(|message| message.parts.iter().filter_map(|part| entry(message.role, part)))
        .collect();
    bounded(&entries, most)
}

/// Returns the entries as a record of at most about `most` bytes. If they have more, those in the
/// middle are left out, and the record says how many.
pub(super) fn bounded(entries: &[String], most: usize) -> String {
    let fitting = |entries: &mut dyn Iterator<Item = &String>, room: usize| {
        let mut used = 0;
        let fits = |entry: &&String| {
            used += entry.len();
            used <= room
        };
        entries.take_while(fits).count()
    };
    let all: usize = entries.iter().map(String::len).sum();
    if all <= most {
        return entries.concat();
    }
    // The first entries state the task, and the last ones the state of the work.
    let head = fitting(&mut entries.iter(), most / 3);
    let tail = fitting(&mut entries[head..].iter().rev(), most - most / 3);
    let missing = entries.len() - head - tail;
    let (head, tail) = (entries[..head].concat(), entries[entries.len() - tail..].concat());
    format!("{head}[{missing} entries are missing here]\n\n{tail}")
}

/// Returns one part as a paragraph, or nothing for data that only a provider reads.
fn entry(role: Role, part: &Part) -> Option<String> {
    Some(match (role, part) {
        (Role::User, Part::Text { text, .. }) => format!("User: {}\n\n", cut(text, TEXT)),
        (Role::Model, Part::Text { text, .. }) => format!("Assistant: {}\n\n", cut(text, TEXT)),
        (_, Part::Call(call)) => {
            format!("Assistant calls {} with {}\n\n", call.name, cut(&call.arguments, CALL))
        }
        (_, Part::Result(result)) => {
            let word = if result.is_error { "Failure" } else { "Result" };
            let images: String = result.images.iter().map(|image| format!("\n{image}")).collect();
            format!("{word} of {}: {}{images}\n\n", result.name, cut(&result.content, CALL))
        }
        (_, Part::Image(image)) => format!("User: {image}\n\n"),
        (_, Part::Blob(_)) => return None,
    })
}

/// Returns the beginning and the end of a text that is too long.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(most / 2);
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    format!("{} […] {}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::tests::image;

    fn messages(count: usize, length: usize) -> Vec<Message> {
        let text = |at: usize| format!("{at}:{}", "x".repeat(length));
        let role = |at: usize| if at.is_multiple_of(2) { Role::User } else { Role::Model };
        (0..count).map(|at| Message { role: role(at), parts: vec![Part::text(text(at))] }).collect()
    }

    #[test]
    fn a_short_part_is_recorded_as_it_is() {
        assert_eq!(record(&messages(2, 1), 1000), "User: 0:x\n\nAssistant: 1:x\n\n");
    }

    #[test]
    fn what_is_missing_is_missing_in_the_middle() {
        let record = record(&messages(100, 100), 3000);
        assert!(record.len() < 3100, "{}", record.len());
        assert!(record.starts_with("User: 0:x") && record.contains("Assistant: 99:x"), "{record}");
        assert!(record.contains(" entries are missing here]\n\n"), "{record}");
    }

    #[test]
    fn an_image_is_recorded_by_its_name() {
        let parts = vec![Part::Image(image("a.png", 0))];
        let line = "User: [image a.png, 640 × 480, 1 kB]\n\n";
        assert_eq!(record(&[Message { role: Role::User, parts }], 1000), line);
    }

    #[test]
    fn one_long_text_is_cut_between_characters() {
        let record = record(&messages(1, 1)[..0], 0);
        assert_eq!(record, "");
        let long = "ä".repeat(TEXT);
        assert!(cut(&long, 101).len() < 110);
    }
}
