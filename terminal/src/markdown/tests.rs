//! Rendering, checked on the screen of an emulated terminal.

use std::num::NonZero;

use proptest::prelude::*;

use super::Markdown;

/// Returns the output for `pieces`, one after the other.
fn written<'a>(pieces: impl IntoIterator<Item = &'a str>, width: usize) -> String {
    let mut markdown = Markdown::new(width, true);
    let mut written: String = pieces.into_iter().map(|piece| markdown.push(piece)).collect();
    written.push_str(&markdown.finish());
    written
}

/// Returns a terminal after `text` was written to it, through a line discipline.
fn screen(text: &str, width: u16) -> vt100::Parser {
    let width = NonZero::new(width).expect("a terminal with columns");
    let mut parser = vt100::Parser::new(const { NonZero::new(60).expect("rows") }, width, 0);
    parser.process(text.replace('\n', "\r\n").as_bytes());
    parser
}

/// Returns the lines of `text` as they appear on the screen.
fn shown(text: &str, width: u16) -> String {
    let screen = screen(&written([text], width.into()), width);
    let lines = screen.screen().contents();
    lines.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

const EVERYTHING: &str = "\
# The title

Some *emphasis*, **strong**, `code`, ~~gone~~ and [a link](https://example.org/a).
A line of its own, 5 * 3 = 15 and snake_case_name stay.

- one
- two with `code`
  - nested
    1. deep
    2. deeper
- three

  its second paragraph

> quoted text
> > twice

```rust
fn main() { println!(\"**not bold**\"); }

```

| Name | Size |
|------|-----:|
| a.rs | 12   |
| `b`  | 3    |

---
Setext
======
12. twelve
";

#[test]
fn everything_at_80_columns() {
    insta::assert_snapshot!(shown(EVERYTHING, 80));
}

#[test]
fn everything_at_30_columns() {
    insta::assert_snapshot!(shown(EVERYTHING, 30));
}

#[test]
fn styles_are_on_what_they_were_put_on() {
    let screen = screen(&written(["a *b* **c** `d` ~~e~~ **f *g***\n"], 80), 80);
    let cell = |column| screen.screen().cell(0, column).expect("a cell");
    assert_eq!(screen.screen().contents(), "a b c d e f g");
    assert!(!cell(0).italic() && cell(2).italic() && cell(4).bold());
    assert_eq!(cell(6).fgcolor(), vt100::Color::Idx(6));
    assert!(cell(10).bold() && cell(12).bold() && cell(12).italic());
}

#[test]
fn words_are_written_as_soon_as_they_are_complete() {
    let mut markdown = Markdown::new(80, true);
    assert_eq!(markdown.push("Hel"), "");
    assert_eq!(markdown.push("lo wor"), "Hello");
    assert_eq!(markdown.push("ld **bo"), " world");
    assert_eq!(markdown.push("ld and more"), "");
    assert_eq!(
        markdown.push("** x"),
        " \u{1b}[1mbold\u{1b}[0m \u{1b}[1mand\u{1b}[0m \u{1b}[1mmore\u{1b}[0m"
    );
    assert!(markdown.is_mid_line());
    assert_eq!(markdown.push("\n"), " x\n");
    assert!(!markdown.is_mid_line());
}

#[test]
fn what_is_never_closed_is_shown_as_it_is() {
    assert_eq!(shown("a **b c\n\nd `e\n\n[f](g h\n\n*", 80), "a **b c\n\nd `e\n\n[f](g h\n\n•");
    let long = format!("**{}", "word ".repeat(200));
    let mut markdown = Markdown::new(80, true);
    assert!(markdown.push(&long).contains("word"), "an open mark holds up only so much");
}

#[test]
fn emphasis_may_span_lines() {
    assert_eq!(written(["**a\nb**\n"], 80), "\u{1b}[1ma\u{1b}[0m\n\u{1b}[1mb\u{1b}[0m\n");
}

#[test]
fn nothing_of_a_line_that_looks_like_a_definition_is_lost() {
    assert_eq!(
        shown("[1]: https://example.org\n\n# C #\n\n#hash\n", 80),
        "[1]: https://example.org\n\nC #\n\n#hash"
    );
}

#[test]
fn wrapping_counts_cells() {
    assert_eq!(shown("世界世界世界 ab\n", 9), "世界世界\n世界 ab");
    assert_eq!(
        shown("- e\u{301}e\u{301}e\u{301} 👩‍👧 abcdef\n", 10),
        "• e\u{301}e\u{301}e\u{301} 👩‍👧\n  abcdef"
    );
    assert_eq!(shown("- abcdefghijkl\n", 10), "• abcdefgh\n  ijkl");
}

#[test]
fn an_address_is_left_to_the_terminal() {
    let written = written(["see https://example.org/a/long/path end\n"], 20);
    assert_eq!(written, "see\nhttps://example.org/a/long/path\nend\n");
}

#[test]
fn code_is_kept_to_the_letter() {
    let code = "\tif a  {\n    b *c* d   \n}\n  ``\n\n";
    let text = format!("```\n{code}```\n- x\n  ```\n{code}  ```\n");
    let written = written([text.as_str()], 10);
    assert_eq!(written.matches(code).count(), 2, "{written:?}");
    assert_eq!(shown("a\n\n    indented *code*\n", 9).lines().last(), Some("    indented *code*"));
}

/// Returns the block of code with these marks around it.
fn block(language: &str, code: &str) -> String {
    format!("```{language}\n{code}```\n")
}

#[test]
fn code_in_a_known_language_is_coloured_and_otherwise_the_same() {
    let code = "\tfn  a() {  \n\n    let n = 7; // **why**\n}\n";
    let coloured = written([block("rust", code).as_str()], 10);
    assert!(coloured.contains("\x1b[35mfn\x1b[0m"), "{coloured:?}");
    let plain = String::from_utf8(strip(&coloured)).expect("text");
    assert_eq!(plain, block("rust", code));
    let unknown = written([block("no-such-language", code).as_str()], 10);
    assert!(unknown.contains(code), "{unknown:?}");
}

#[test]
fn code_is_not_coloured_where_nobody_wants_colours() {
    let mut markdown = Markdown::new(80, false);
    let code = "fn main() {}\n";
    let written = markdown.push(&block("rust", code)) + &markdown.finish();
    assert!(written.contains(code), "{written:?}");
}

#[test]
fn a_line_of_code_is_there_when_it_has_ended() {
    let mut markdown = Markdown::new(80, true);
    markdown.push("```rust\n");
    assert_eq!(markdown.push("fn ma"), "");
    let line = markdown.push("in() {}\nlet");
    assert_eq!(strip(&line), b"fn main() {}\n");
    assert_eq!(strip(&markdown.push("")), b"");
    assert_eq!(strip(&markdown.finish()), b"let\n");
    let next = markdown.push("fn\n");
    assert_eq!(next, "fn\n", "the next text is no code");
}

#[test]
fn coloured_code_stands_in_items_and_quotes() {
    let text = "- x\n  ```rust\n  fn a() {}\n  ```\n\n> ```sh\n> ls # all\n> ```\n";
    assert_eq!(shown(text, 80), "• x\n  ```rust\n  fn a() {}\n  ```\n\n│ ```sh\n│ ls # all\n│ ```");
}

#[test]
fn a_long_block_or_line_of_code_is_not_coloured_to_its_end() {
    let line = "let n = 7; // why\n";
    let long = block("rust", &line.repeat(1_000_000 / line.len()));
    let shown = written([long.as_str()], 80);
    let coloured = shown.matches("\x1b[35mlet").count() * line.len();
    assert!((60_000..=64 << 10).contains(&coloured), "{coloured}");
    assert_eq!(String::from_utf8(strip(&shown)).expect("text"), long);

    let wide = format!("fn a() {{}}\nlet s = \"{}\";\nfn b() {{}}\n", "x".repeat(100_000));
    let shown = written([block("rust", &wide).as_str()], 80);
    assert!(shown.contains("\x1b[35mfn\x1b[0m"), "{}", &shown[..200]);
    let rest = wide.strip_prefix("fn a() {}\n").expect("the first line");
    assert!(shown.contains(rest), "nothing after it is coloured");
}

#[test]
fn code_cannot_smuggle_what_a_terminal_obeys() {
    let code = "let a = \"\x1b[2J\x1b]0;title\x07\"; // \u{9b}2J \u{202e}\n";
    let shown = written([block("rust", code).as_str()], 80);
    assert!(shown.contains("␛[2J␛]0;title␇"), "{shown:?}");
    let is_obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\x1b');
    assert!(!shown.chars().any(is_obeyed) && !shown.contains('\u{202e}'), "{shown:?}");
    let styles = shown.split("\x1b[").skip(1).filter(|rest| {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        digits.starts_with('m')
    });
    assert_eq!(styles.count(), shown.matches('\x1b').count(), "{shown:?}");
}

#[test]
fn lists_keep_their_numbers_and_their_levels() {
    let text = "1. a\n  - b\n  - c\n2. d\n\n   e\n\nf\n\n10) g\n- [x] done\n";
    assert_eq!(shown(text, 80), "1. a\n   ◦ b\n   ◦ c\n2. d\n\n   e\n\nf\n\n10) g\n• [x] done");
}

#[test]
fn blocks_stand_in_items_and_quotes() {
    let text = "- # head\n- - twice\n- ```\n  code\n  ```\n> - a\n>   b\n>\n> ```\n> c\n> ```\n";
    let expected = "• head\n• ◦ twice\n•\n```\n  code\n  ```\n│ • a\n│   b\n\n│ ```\n│ c\n│ ```";
    assert_eq!(shown(text, 80), expected);
}

#[test]
fn a_table_fits_its_terminal() {
    let text = "| a | b |\n|:-:|--:|\n| 世界 | one two three four five six seven |\n| x \\| y | `z` |\nend\n";
    insta::assert_snapshot!(shown(text, 30));
    assert_eq!(shown("| not a table |\ntext\n", 30), "| not a table |\ntext");
}

#[test]
fn entities_cannot_smuggle_what_a_terminal_obeys() {
    let written =
        written(["&#27;[2J `\x1b[2J` &#x9b;c &#31;&#30;x &amp;\n| &#27;c |\n|---|\n"], 80);
    let left: String = written.chars().filter(|c| c.is_control() && *c != '\n').collect();
    let ours = written.matches("\x1b[").count();
    assert_eq!(left.len(), ours, "{written:?}");
    assert!(!written.contains("\x1b[2J") && written.contains("␛[2J"), "{written:?}");
}

#[test]
fn the_next_text_begins_anew() {
    let mut markdown = Markdown::new(80, true);
    let first = markdown.push("- a\n```\ncode") + &markdown.finish();
    assert!(first.ends_with("code\n"), "{first:?}");
    assert_eq!(markdown.push("b\n"), "b\n");
}

/// Generates pieces of Markdown, so that a random text has structure.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "# ",
        "## ",
        "- ",
        "* ",
        "  - ",
        "1. ",
        "> ",
        "```",
        "```rust\n",
        "~~~",
        "`",
        "**",
        "*",
        "_",
        "~~",
        "[",
        "](",
        ")",
        "| a | b |\n",
        "|---|:-:|\n",
        "---",
        "===",
        "\n",
        "\n\n",
        " ",
        "    ",
        "\t",
        "word",
        "世界",
        "👩‍👧",
        "e\u{301}",
        "\\",
        "&amp;",
        "&#27;",
        "<b>",
        "https://x.org/y",
        "\x1b[2J",
        "\r\n",
        "1",
        "!",
        "\u{202e}",
    ]);
    prop::collection::vec(fragment, 0..40).prop_map(|fragments| fragments.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_cut_of_a_text_gives_the_same(
        text in fragments(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        width in 10_usize..100,
    ) {
        let mut ends: Vec<usize> =
            cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        ends.push(text.len());
        ends.sort_unstable();
        let mut start = 0;
        let pieces = ends.iter().map(|end| &text[std::mem::replace(&mut start, *end)..*end]);
        prop_assert_eq!(written(pieces, width), written([text.as_str()], width));
    }

    #[test]
    fn no_word_is_lost(words in prop::collection::vec("[a-z]{1,12}", 1..30), between in fragments()) {
        let text = words.join(&between);
        let written = written([text.as_str()], 40);
        let plain: String = String::from_utf8(strip(&written)).expect("text")
            .chars().filter(char::is_ascii_lowercase).collect();
        let expected: String = words.concat();
        let mut rest = plain.chars();
        prop_assert!(expected.chars().all(|c| rest.any(|r| r == c)), "{written:?}");
    }

    #[test]
    fn only_code_and_addresses_are_wider_than_the_screen(text in "([a-z#>*`|\\-]{1,14}[ \n]){1,60}", width in 20_usize..60) {
        let is_code = text.contains("```") || text.contains("    ");
        prop_assume!(!is_code);
        for line in String::from_utf8(strip(&written([text.as_str()], width))).expect("text").lines() {
            prop_assert!(unicode_width::UnicodeWidthStr::width(line) <= width, "{line:?}");
        }
    }
}

/// Returns `text` without the styles of the rendering.
fn strip(text: &str) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.extend(before.bytes());
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain.extend(rest.bytes());
    plain
}

/// Each of these texts once kept a line undecided to its end, so that every character scanned the
/// line again: a megabyte took many minutes.
#[test]
fn a_long_line_is_looked_at_once() {
    const LENGTH: usize = 1_000_000;
    for (before, repeated) in [
        ("", "> "),
        ("", "- "),
        ("", "* "),
        ("", "-"),
        ("", "#"),
        ("", " "),
        ("", "`"),
        ("", "```x"),
        ("", "|-"),
        ("a\n", "="),
        ("```\n", "`"),
        ("", "**a"),
        ("", "[a"),
    ] {
        let text = format!("{before}{}", repeated.repeat(LENGTH / repeated.len()));
        let shown = written([text.as_str()], 80);
        assert!(shown.len() < 20 * LENGTH, "{repeated:?} becomes {} bytes", shown.len());
    }
}

#[test]
fn what_nests_deeper_than_anybody_reads_is_text() {
    let markers = shown(&format!("{}x\n", "- ".repeat(20)), 80);
    assert!(markers.starts_with("• ◦ ▪ ▪") && markers.ends_with("▪ - - - - x"), "{markers}");
    let quotes = shown(&format!("{}x\n", "> ".repeat(20)), 80);
    assert_eq!(quotes, format!("{}> > > > x", "│ ".repeat(16)));
    let lists: String = (0..20).map(|level| format!("{}- {level}\n", "  ".repeat(level))).collect();
    let shown = shown(&lists, 80);
    let indents: Vec<_> = shown.lines().map(|line| line.find('▪').unwrap_or_default()).collect();
    assert_eq!(indents[13..], [26, 28, 30, 30, 30, 30, 30], "{shown}");
}

#[test]
fn a_long_row_is_one_of_a_table_still() {
    let long = "word ".repeat(500);
    let shown = shown(&format!("| a | b |\n|---|---|\n| {long} | c |\n"), 200);
    assert!(shown.starts_with('┌') && !shown.contains("| c |"), "{shown}");
}

#[test]
fn a_table_is_at_its_own_indentation() {
    let table = |indent: &str| {
        ["| a | b |", "|---|---|", "| 1 | 2 |"].map(|row| format!("{indent}{row}\n")).concat()
    };
    let column = |text: &str| {
        let shown = shown(text, 80);
        let line = shown.lines().find(|line| line.contains('┌')).expect(text).to_owned();
        line.chars().take_while(|c| *c == ' ').count()
    };
    assert_eq!(column(&format!("- one\n\n{}", table(""))), 0);
    assert_eq!(column(&format!("- one\n{}", table(""))), 0, "there is no blank line");
    assert_eq!(column(&format!("- one\n  - two\n\n{}", table("  "))), 2, "it is in the outer list");
    assert_eq!(column(&format!("1. one\n\n{}", table("   "))), 3);
    assert_eq!(shown(&format!("- one\n\n{}- two\n", table("")), 80).lines().last(), Some("• two"));
}
