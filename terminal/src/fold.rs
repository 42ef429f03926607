//! Line breaking between words for the program's own lines, if they are wider than the terminal.

use crate::cells;

/// Returns `text` with lines of at most `columns` cells. A continuation is indented to the last
/// column of its line, as in a list of commands with their descriptions, or to the line's own
/// indentation. The terminal wraps a wider word, so that it can be copied.
pub(crate) fn folded(text: &str, columns: usize) -> String {
    let mut folded = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        // The width of a tab is unknown.
        if cells::width(content) <= columns || content.contains('\t') {
            folded.push_str(line);
        } else {
            fold(&mut folded, content, columns);
            folded.push_str(&line[content.len()..]);
        }
    }
    folded
}

fn fold(folded: &mut String, line: &str, columns: usize) {
    let indent = indent(line, columns);
    let mut column = 0;
    let mut spaces = 0;
    for (at, word) in line.split(' ').enumerate() {
        spaces += usize::from(at > 0);
        if word.is_empty() {
            continue;
        }
        let width = cells::width(word);
        // At the margin, a new line would not have more room.
        if column > 0 && column + spaces > indent && column + spaces + width > columns {
            folded.push('\n');
            spaces = indent;
            column = 0;
        }
        folded.extend(std::iter::repeat_n(' ', spaces));
        folded.push_str(word);
        column += spaces + width;
        spaces = 0;
    }
}

/// Returns the cells before the continuation of a line.
fn indent(line: &str, columns: usize) -> usize {
    let start = line.len() - line.trim_start_matches(' ').len();
    let gap = line[start..].rfind("  ").map(|gap| start + gap + "  ".len());
    let last = gap.map(|column| cells::width(&line[..column])).filter(|at| *at <= columns / 2);
    last.unwrap_or(start.min(columns / 2))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(folded("one two three\nfour", 8), "one two\nthree\nfour");
        assert_eq!(folded("  one two three\n", 9), "  one two\n  three\n");
        assert_eq!(folded("世界 世界 世界", 9), "世界 世界\n世界");
        assert_eq!(folded("see /a/very/long/path end", 8), "see\n/a/very/long/path\nend");
        assert_eq!(folded("a\tb c d e f g h", 8), "a\tb c d e f g h");
    }

    #[test]
    fn the_last_column_goes_on_below_itself() {
        let help = "/pin PATH  keeps a document in the context\n/exit      leaves";
        let expected = "/pin PATH  keeps a\n           document in\n           the context\n\
                        /exit      leaves";
        assert_eq!(folded(help, 22), expected);
        let narrow = "/pin PATH  keeps\na document in the\ncontext\n/exit      leaves";
        assert_eq!(folded(help, 17), narrow, "there is no room beside it");
    }

    proptest! {
        #[test]
        fn nothing_but_spaces_changes(text in "([a-z]{1,4}[ \n]{1,3}){0,30}", columns in 9_usize..60) {
            let folded = folded(&text, columns);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(&folded), words(&text));
            let is_wide = |line: &str| line.trim().contains(' ') && cells::width(line.trim_end()) > columns;
            prop_assert!(!folded.lines().any(is_wide), "{:?}", folded);
        }
    }
}
