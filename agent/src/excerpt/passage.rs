//! Long texts: the head and the tail of a text, and the shares of several texts in a limit.

use std::borrow::Cow;

/// The most characters of a line that is kept.
pub(super) const LONGEST_LINE: usize = 2000;

/// The most of a result that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The characters of all texts together.
    pub characters: usize,
    /// The lines of each text.
    pub lines: usize,
}

impl Extent {
    /// Returns an extent of this number of characters in any number of lines.
    #[must_use]
    pub const fn of_characters(characters: usize) -> Self {
        Self { characters, lines: usize::MAX }
    }

    /// Returns the part for the head and the part for the tail of a text.
    fn split(self) -> (Self, Self) {
        let tail = Self { characters: self.characters / 3, lines: self.lines / 3 };
        let head =
            Self { characters: self.characters - tail.characters, lines: self.lines - tail.lines };
        (head, tail)
    }
}

/// One text of a result.
pub(super) struct Passage {
    pub(super) text: String,
    pub(super) characters: usize,
    pub(super) lines: usize,
    /// Characters of the text within JSON.
    pub(super) weight: usize,
}

impl Passage {
    pub(super) fn new(text: String) -> Self {
        let (characters, weight) = (text.chars().count(), text.chars().map(weight).sum());
        let lines = text.lines().count();
        Self { text, characters, lines, weight }
    }

    /// Returns as much of the text as fits into `room`, and a description of the cut. Two thirds
    /// come from the head and the rest from the tail. A text that fits is returned whole. Lines are
    /// counted from `first_line`, as they are in the text that is kept.
    pub(super) fn cut(&self, room: Extent, first_line: usize) -> (Cow<'_, str>, Option<String>) {
        if self.weight <= room.characters && self.lines <= room.lines {
            return (Cow::Borrowed(&self.text), None);
        }
        let (head, tail) = room.split();
        let head = fitting(self.text.chars(), head);
        let tail = fitting(self.text.chars().rev(), tail);
        let at =
            |character| self.text.char_indices().nth(character).map_or(self.text.len(), |it| it.0);
        let (head_end, tail_start) = (at(head), at(self.characters - tail));
        let left_out = self.characters - head - tail;
        let line = |byte: usize| first_line + newlines_before(&self.text, byte);
        let (first, last) = (line(head_end), line(tail_start));
        let cut = format!(
            "{}\n[... {left_out} characters left out, from line {first} to line {last} ...]\n{}",
            &self.text[..head_end],
            &self.text[tail_start..],
        );
        let (characters, lines) = (self.characters, self.kept_lines());
        let description = format!(
            "has {characters} characters in {lines} lines; its first {head} and its last {tail} \
             characters are shown, {left_out} are left out."
        );
        (Cow::Owned(cut), Some(description))
    }

    /// Returns the number of lines in the text that is kept.
    pub(super) fn kept_lines(&self) -> usize {
        let ended = newlines_before(&self.text, self.text.len());
        ended + usize::from(!self.text.is_empty() && !self.text.ends_with('\n'))
    }
}

/// Returns the number of characters that a character takes in JSON. An escape of a backslash and a
/// single letter counts as one character. Such escapes occur in all texts, and the line ends of a
/// text must not make it too long.
fn weight(character: char) -> usize {
    match character {
        '\u{8}' | '\t' | '\n' | '\u{c}' | '\r' => 1,
        '\0'..='\u{1f}' => 6,
        _ => 1,
    }
}

/// Returns how many of the first characters fit into `room`.
fn fitting(characters: impl Iterator<Item = char>, room: Extent) -> usize {
    let mut used = Extent { characters: 0, lines: 0 };
    characters
        .take_while(|character| {
            used.characters += weight(*character);
            let fits = used.characters <= room.characters && used.lines < room.lines;
            used.lines += usize::from(*character == '\n');
            fits
        })
        .count()
}

/// Returns the number of newlines before the character at this byte, including those between the
/// pieces of broken lines.
fn newlines_before(text: &str, byte: usize) -> usize {
    let breaks = breaks(text, LONGEST_LINE).take_while(|at| *at <= byte).count();
    text[..byte].matches('\n').count() + breaks
}

/// Returns the bytes at which a line continues after `longest` characters.
fn breaks(text: &str, longest: usize) -> impl Iterator<Item = usize> {
    let mut column = 0;
    text.char_indices().filter_map(move |(at, character)| {
        let is_break = character != '\n' && column == longest;
        column = if character == '\n' { 0 } else { 1 + if is_break { 0 } else { column } };
        is_break.then_some(at)
    })
}

/// Returns the characters that each text may have so that all fit. Short texts get all that they
/// have, and the long ones share the rest equally.
pub(super) fn shares(lengths: &[usize], room: usize) -> Vec<usize> {
    let mut by_length: Vec<usize> = (0..lengths.len()).collect();
    by_length.sort_by_key(|text| lengths[*text]);
    let (mut left, mut others) = (room, lengths.len());
    let mut shares = vec![0; lengths.len()];
    for text in by_length {
        shares[text] = lengths[text].min(left / others);
        left -= shares[text];
        others -= 1;
    }
    shares
}

/// Returns the text with a newline after every `longest` characters of a line, and true if it
/// has such lines.
pub(super) fn broken(text: String, longest: usize) -> (String, bool) {
    let mut broken = String::new();
    let mut start = 0;
    for at in breaks(&text, longest) {
        broken.push_str(&text[start..at]);
        broken.push('\n');
        start = at;
    }
    if start == 0 {
        return (text, false);
    }
    broken.push_str(&text[start..]);
    (broken, true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_are_exact() {
        let passage = Passage::new("ab\ncd\nef\ngh\nij\n".to_owned());
        let (shown, description) = passage.cut(Extent::of_characters(6), 1);
        assert_eq!(shown, "ab\nc\n[... 9 characters left out, from line 2 to line 5 ...]\nj\n");
        assert_eq!(
            description.as_deref(),
            Some(
                "has 15 characters in 5 lines; its first 4 and its last 2 characters are shown, \
                 9 are left out."
            )
        );
    }

    #[test]
    fn a_text_of_more_lines_than_there_is_room_for_is_cut_between_lines() {
        let passage = Passage::new("a\nb\nc\nd\ne\nf".to_owned());
        let (shown, _) = passage.cut(Extent { characters: 100, lines: 3 }, 1);
        assert_eq!(shown, "a\nb\n\n[... 5 characters left out, from line 3 to line 5 ...]\n\nf");
        let (shown, description) = passage.cut(Extent { characters: 100, lines: 6 }, 1);
        assert_eq!((&*shown, description), (passage.text.as_str(), None));
    }

    #[test]
    fn lines_are_counted_as_they_are_kept() {
        let line = "x".repeat(2 * LONGEST_LINE + 1);
        let passage = Passage::new(format!("{line}\n{line}\n"));
        assert_eq!(passage.kept_lines(), 6);
        for (byte, newlines) in
            [(0, 0), (1999, 0), (2000, 1), (4000, 2), (4001, 2), (4002, 3), (8003, 5), (8004, 6)]
        {
            assert_eq!(newlines_before(&passage.text, byte), newlines, "at {byte}");
        }
        let exact = Passage::new("x".repeat(LONGEST_LINE));
        assert_eq!((exact.kept_lines(), newlines_before(&exact.text, LONGEST_LINE)), (1, 0));
    }

    #[test]
    fn what_json_writes_longer_takes_more_room() {
        let passage = Passage::new("\0".repeat(100));
        assert_eq!((passage.characters, passage.weight), (100, 600));
        let (shown, _) = passage.cut(Extent::of_characters(90), 1);
        assert_eq!(shown.chars().filter(|c| *c == '\0').count(), 15);
    }

    #[test]
    fn the_short_have_all_and_the_long_equally_much() {
        assert_eq!(shares(&[100, 5, 100], 45), [20, 5, 20]);
        assert_eq!(shares(&[3, 4], 100), [3, 4]);
        assert_eq!(shares(&[], 10), [0; 0]);
    }

    #[test]
    fn lines_are_broken_only_where_they_are_long() {
        assert_eq!(broken("ääää\nbb".to_owned(), 4), ("ääää\nbb".to_owned(), false));
        assert_eq!(broken("abcde\nff\nghijklmno".to_owned(), 4).0, "abcd\ne\nff\nghij\nklmn\no");
    }

    proptest! {
        #[test]
        fn head_and_tail_are_of_the_text(text in "[a-zä\n]{0,60}", room in 0usize..70) {
            let passage = Passage::new(text.clone());
            let (shown, description) = passage.cut(Extent::of_characters(room), 1);
            match description {
                None => prop_assert_eq!(shown, text),
                Some(_) => {
                    let (head, tail) = shown.split_once("\n[... ").expect("a mark");
                    let tail = tail.split_once(" ...]\n").expect("an end").1;
                    prop_assert!(text.starts_with(head) && text.ends_with(tail));
                    prop_assert_eq!(head.chars().count() + tail.chars().count(), room);
                }
            }
        }

        #[test]
        fn no_more_lines_are_shown_than_there_is_room_for(
            text in "[a\n]{0,60}",
            lines in 0usize..20,
        ) {
            let passage = Passage::new(text.clone());
            let (shown, description) = passage.cut(Extent { characters: 1000, lines }, 1);
            prop_assert_eq!(description.is_some(), passage.lines > lines);
            if description.is_some() {
                let (head, tail) = shown.split_once("\n[... ").expect("a mark");
                let tail = tail.split_once(" ...]\n").expect("an end").1;
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert!(head.len() + tail.len() <= text.len());
                prop_assert!(head.matches('\n').count() + tail.matches('\n').count() <= lines);
            }
        }

        #[test]
        fn breaking_adds_newlines_only(text in "[ab\n]{0,60}", longest in 1usize..9) {
            let (broken, _) = broken(text.clone(), longest);
            prop_assert!(broken.lines().all(|line| line.len() <= longest));
            prop_assert_eq!(broken.replace('\n', ""), text.replace('\n', ""));
        }

        #[test]
        fn shares_fit(lengths in prop::collection::vec(0usize..100, 0..6), room in 0usize..300) {
            let shares = shares(&lengths, room);
            prop_assert!(shares.iter().sum::<usize>() <= room);
            prop_assert!(shares.iter().zip(&lengths).all(|(share, length)| share <= length));
        }
    }
}
