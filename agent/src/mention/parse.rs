//! Parses the mentions of files and assets in a prompt, without opening any file.

use std::ops::Range;

/// The kind of a mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MentionKind {
    /// `@path`
    File,
    /// `@@path`
    Asset,
}

/// A piece of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptPiece<'a> {
    /// A text that stays as it is.
    Plain(&'a str),
    /// A mention.
    Mention(Mention<'a>),
}

/// A mention of a file or asset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention<'a> {
    /// The kind of the mention.
    pub kind: MentionKind,
    /// The mention as it is written, with its signs.
    pub written: &'a str,
    /// The name.
    pub name: &'a str,
    /// The number of bytes at the end of `name` that may be the sentence's punctuation; 0 for a
    /// quoted name.
    pub punctuation: usize,
}

/// Splits a prompt into its pieces. Together they are the whole prompt, without the backslash of
/// `\@`.
///
/// A mention is at the start of a word: at the start of the text, after white space or after an
/// opening bracket. Its name ends at the next white space, or is between quotation marks. A single
/// `@` is plain text.
#[must_use]
pub fn parse(text: &str) -> Vec<PromptPiece<'_>> {
    let mut pieces = Vec::new();
    let mut plain_from = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find('@') {
        let sign = at + found;
        at = sign + 1;
        if text[..sign].ends_with('\\') && is_start(text, sign - 1) {
            // The backslash is removed, and the rest of the word is plain text, even in `\@@x`.
            push_plain(&mut pieces, &text[plain_from..sign - 1]);
            plain_from = sign;
            at = word_end(text, sign);
            continue;
        }
        if !is_start(text, sign) {
            continue;
        }
        if let Some((mention, range)) = mention(text, sign) {
            push_plain(&mut pieces, &text[plain_from..range.start]);
            (plain_from, at) = (range.end, range.end);
            pieces.push(PromptPiece::Mention(mention));
        }
    }
    push_plain(&mut pieces, &text[plain_from..]);
    pieces
}

fn push_plain<'a>(pieces: &mut Vec<PromptPiece<'a>>, text: &'a str) {
    if !text.is_empty() {
        pieces.push(PromptPiece::Plain(text));
    }
}

fn is_start(text: &str, at: usize) -> bool {
    let before = text[..at].chars().next_back();
    before.is_none_or(|c| c.is_whitespace() || matches!(c, '(' | '[' | '{'))
}

fn word_end(text: &str, from: usize) -> usize {
    text[from..].find(char::is_whitespace).map_or(text.len(), |end| from + end)
}

fn mention(text: &str, sign: usize) -> Option<(Mention<'_>, Range<usize>)> {
    let (kind, start) = match text[sign..].starts_with("@@") {
        true => (MentionKind::Asset, sign + 2),
        false => (MentionKind::File, sign + 1),
    };
    if let Some(quoted) = text[start..].strip_prefix('"') {
        // A name has no newline. Without this, a single quotation mark would take the rest of the
        // text.
        let end = quoted.find(['"', '\n'])?;
        let name = &quoted[..end];
        let range = sign..start + 1 + end + 1;
        let is_name = quoted[end..].starts_with('"') && !name.trim().is_empty();
        let mention = Mention { kind, written: &text[range.clone()], name, punctuation: 0 };
        return is_name.then_some((mention, range));
    }
    let range = sign..word_end(text, start);
    let name = &text[start..range.end];
    let bare = name.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '\'', '"']);
    if bare.is_empty() || name.starts_with('@') {
        return None;
    }
    let punctuation = name.len() - bare.len();
    Some((Mention { kind, written: &text[range.clone()], name, punctuation }, range))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the mentions of a text, each as `kind name punctuation`.
    fn found(text: &str) -> Vec<String> {
        let mention = |piece| match piece {
            PromptPiece::Plain(_) => None,
            PromptPiece::Mention(Mention {
                kind: MentionKind::File, name, punctuation, ..
            }) => Some(format!("file {name} {punctuation}")),
            PromptPiece::Mention(Mention {
                kind: MentionKind::Asset, name, punctuation, ..
            }) => Some(format!("asset {name} {punctuation}")),
        };
        parse(text).into_iter().filter_map(mention).collect()
    }

    fn plain(text: &str) -> String {
        let plain = |piece| match piece {
            PromptPiece::Plain(text) => text,
            PromptPiece::Mention(mention) => mention.written,
        };
        parse(text).into_iter().map(plain).collect()
    }

    #[test]
    fn files_and_assets() {
        let text = "Implement auth following @@auth-patterns and update @src/auth.c";
        assert_eq!(found(text), ["asset auth-patterns 0", "file src/auth.c 0"]);
        assert_eq!(found("@a\n@b\t(@c)"), ["file a 0", "file b 0", "file c) 1"]);
        assert_eq!(found(r#"see @"a b.txt", @@"x y""#), ["file a b.txt 0", "asset x y 0"]);
        assert_eq!(found("is it @a.txt?! or @b."), ["file a.txt?! 2", "file b. 1"]);
        assert_eq!(found("@../x @/etc/hosts"), ["file ../x 0", "file /etc/hosts 0"]);
    }

    #[test]
    fn what_is_no_mention() {
        for text in
            ["me@example.org", "a@@b", "@", "@@", "@ a", "@.", "@@@x", "@\"", "@\"\"", "@\"a\nb\""]
        {
            assert_eq!(found(text), [""; 0], "{text}");
            assert_eq!(plain(text), text);
        }
    }

    #[test]
    fn a_backslash_at_the_start_of_a_word_goes() {
        assert_eq!(parse(r"\@a"), [PromptPiece::Plain("@a")]);
        assert_eq!(plain(r"a \@b (\@@c d\@e"), r"a @b (@@c d\@e");
        assert_eq!(found(r"\@@a @b"), ["file b 0"]);
        assert_eq!(plain(r"\\@a"), r"\\@a");
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "[@\\\\\" a(.\n]{0,20}") {
            let all = plain(&text);
            prop_assert_eq!(all.replace('\\', ""), text.replace('\\', ""));
            if !text.contains("\\@") {
                prop_assert_eq!(all, text);
            }
        }

        #[test]
        fn names_are_what_is_written(text in "(@|@@|\\\\|\"|a| |[(]|\u{e9}|[.]){0,20}") {
            for piece in parse(&text) {
                if let PromptPiece::Mention(mention) = piece {
                    prop_assert!(text.contains(mention.written));
                    prop_assert!(mention.written.contains(mention.name));
                    prop_assert!(mention.punctuation < mention.name.len());
                    prop_assert!(mention.name.is_char_boundary(mention.name.len() - mention.punctuation));
                }
            }
        }
    }
}
