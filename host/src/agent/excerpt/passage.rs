//! Long texts: the head and the tail of one, and how several share the room.

use std::borrow::Cow;

/// One text of a result.
pub(super) struct Passage {
    pub(super) text: String,
    pub(super) characters: usize,
}

impl Passage {
    pub(super) fn new(text: String) -> Self {
        Self { characters: text.chars().count(), text }
    }

    /// So many characters of the text, two thirds from its head and the rest from its tail,
    /// and what is missing in words. The whole where it fits.
    pub(super) fn cut(&self, room: usize) -> (Cow<'_, str>, Option<String>) {
        if self.characters <= room {
            return (Cow::Borrowed(&self.text), None);
        }
        let (tail, head) = (room / 3, room - room / 3);
        let at =
            |character| self.text.char_indices().nth(character).map_or(self.text.len(), |it| it.0);
        let (head_end, tail_start) = (at(head), at(self.characters - tail));
        let left_out = self.characters - room;
        let line = |byte: usize| 1 + self.text[..byte].matches('\n').count();
        let (first, last) = (line(head_end), line(tail_start));
        let cut = format!(
            "{}\n[... {left_out} characters left out, from line {first} to line {last} ...]\n{}",
            &self.text[..head_end],
            &self.text[tail_start..],
        );
        let (characters, lines) = (self.characters, self.text.lines().count());
        let told = format!(
            "has {characters} characters in {lines} lines; its first {head} and its last {tail} \
             characters are shown, {left_out} are left out."
        );
        (Cow::Owned(cut), Some(told))
    }
}

/// How many characters each of the texts may have, for all of them to fit: the short ones
/// all that they have, the long ones equally much.
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

/// The text with a newline after every `longest` characters of a line, and whether it had
/// such lines.
pub(super) fn broken(text: String, longest: usize) -> (String, bool) {
    let is_long = |line: &str| line.len() > longest && line.chars().count() > longest;
    if !text.lines().any(is_long) {
        return (text, false);
    }
    let mut broken = String::with_capacity(text.len() + text.len() / longest);
    let mut column = 0;
    for character in text.chars() {
        if character == '\n' {
            column = 0;
        } else if column == longest {
            broken.push('\n');
            column = 1;
        } else {
            column += 1;
        }
        broken.push(character);
    }
    (broken, true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_are_exact() {
        let passage = Passage::new("ab\ncd\nef\ngh\nij\n".to_owned());
        let (shown, told) = passage.cut(6);
        assert_eq!(shown, "ab\nc\n[... 9 characters left out, from line 2 to line 5 ...]\nj\n");
        assert_eq!(
            told.as_deref(),
            Some(
                "has 15 characters in 5 lines; its first 4 and its last 2 characters are shown, \
                 9 are left out."
            )
        );
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
            let (shown, told) = passage.cut(room);
            match told {
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
