//! The colours of a block of code, line by line, in the terminal's own sixteen.
//!
//! Owns the table from scopes to styles, and the bounds within which code is coloured. The grammars
//! come from `two-face` and are part of the program. They are loaded when the first block in a
//! known language begins.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use super::wrap::Span;

/// The longest line that is coloured, in bytes. The work on a line grows faster than its length.
const LINE: usize = 1_024;

/// The bytes of a block that are coloured. A grammar takes up to a millisecond for a line.
const BLOCK: usize = 64 << 10;

/// The time that a block may take. Only a text that is made for this takes longer: a line of a
/// thousand backticks in Markdown takes half a second.
const TIME: Duration = Duration::from_secs(3);

/// The longest name of a language, in bytes.
const NAME: usize = 32;

/// Names of plain text, for which the grammars are not loaded.
const TEXT: [&str; 5] = ["", "text", "txt", "plain", "plaintext"];

static GRAMMARS: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// The styles of scopes, by the beginning of their names. The first entry that fits decides. A
/// scope without an entry has the style of the scope around it.
static STYLES: LazyLock<Vec<(Scope, Style)>> = LazyLock::new(|| {
    let plain = Style::new();
    let colour = |colour: AnsiColor| colour.on_default();
    let table = [
        ("comment", plain.dimmed()),
        // Code within a string.
        ("meta.interpolation", plain),
        ("meta.template.expression", plain),
        ("constant.character.escape", colour(AnsiColor::Cyan)),
        ("string", colour(AnsiColor::Green)),
        ("constant", colour(AnsiColor::Cyan)),
        ("keyword.operator", plain),
        ("keyword", colour(AnsiColor::Magenta)),
        ("storage", colour(AnsiColor::Magenta)),
        ("entity.name.function", colour(AnsiColor::Blue)),
        ("support.function", colour(AnsiColor::Blue)),
        ("variable.function", colour(AnsiColor::Blue)),
        ("entity.name.tag", colour(AnsiColor::Blue)),
        ("entity.other.attribute-name", colour(AnsiColor::Cyan)),
        ("entity.name", colour(AnsiColor::Yellow)),
        ("entity.other.inherited-class", colour(AnsiColor::Yellow)),
        ("support", colour(AnsiColor::Yellow)),
        ("markup.inserted", colour(AnsiColor::Green)),
        ("markup.deleted", colour(AnsiColor::Red)),
        ("markup.heading", plain.bold()),
        ("meta.diff", colour(AnsiColor::Cyan)),
    ];
    let scope = |(name, style)| Some((Scope::new(name).ok()?, style));
    table.into_iter().filter_map(scope).collect()
});

/// A block of code that is being coloured.
#[derive(Debug)]
pub(super) struct CodeBlock {
    /// The beginning of a line.
    line: String,
    state: ParseState,
    scopes: ScopeStack,
    /// The bytes of the block that may still be coloured.
    left: usize,
    /// The time that the block has taken.
    spent: Duration,
}

impl CodeBlock {
    /// Begins a block whose fence has this text after its marks. Returns `None` if no grammar knows
    /// the language that the text names.
    pub(super) fn from_info(info: &str) -> Option<Self> {
        let is_name =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '#' | '-' | '_' | '.');
        let info = info.trim_start();
        let name = info.split(|c| !is_name(c)).next().unwrap_or_default().to_ascii_lowercase();
        if name.len() > NAME || TEXT.contains(&name.as_str()) {
            return None;
        }
        let grammar = GRAMMARS.find_syntax_by_token(&name)?;
        let state = ParseState::new(grammar);
        Some(Self {
            line: String::new(),
            state,
            scopes: ScopeStack::new(),
            left: BLOCK,
            spent: Duration::ZERO,
        })
    }

    /// Takes a character of a line. Returns `false` if the line is too long to be coloured.
    pub(super) fn push(&mut self, c: char) -> bool {
        self.line.push(c);
        self.line.len() <= LINE.min(self.left)
    }

    /// Returns the unchanged line so far, for a block that is not coloured any further.
    pub(super) fn into_line(self) -> String {
        self.line
    }

    /// Ends the line and returns its parts, or `None` if it cannot be coloured.
    pub(super) fn end_line(&mut self) -> Option<Vec<Span>> {
        if self.spent >= TIME {
            return None;
        }
        // The grammars recognise the end of a line by its line feed.
        self.line.push('\n');
        self.left = self.left.saturating_sub(self.line.len());
        let begun = Instant::now();
        let changes = self.state.parse_line(&self.line, &GRAMMARS);
        self.spent += begun.elapsed();
        self.line.pop();
        let mut spans: Vec<Span> = Vec::new();
        let mut from = 0;
        for (at, change) in changes.ok()? {
            let at = at.min(self.line.len());
            push(&mut spans, &self.line[from..at], style(&self.scopes));
            from = at;
            self.scopes.apply(&change).ok()?;
        }
        push(&mut spans, &self.line[from..], style(&self.scopes));
        self.line.clear();
        Some(spans)
    }
}

/// Appends a text. If the last part has the same style, extends that part.
fn push(spans: &mut Vec<Span>, text: &str, style: Style) {
    match spans.last_mut() {
        _ if text.is_empty() => {}
        Some(last) if last.style == style => last.text.push_str(text),
        _ => spans.push(Span { text: text.to_owned(), style }),
    }
}

/// Returns the style of the innermost scope that has one.
fn style(scopes: &ScopeStack) -> Style {
    let of = |scope: &Scope| STYLES.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope));
    scopes.scopes.iter().rev().find_map(of).map_or_else(Style::new, |(_, style)| *style)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the coloured words of the lines, each with the name of its colour.
    fn coloured(info: &str, lines: &str) -> Vec<String> {
        let mut code =
            CodeBlock::from_info(info).unwrap_or_else(|| panic!("no grammar for {info}"));
        let mut words = Vec::new();
        for line in lines.lines() {
            assert!(line.chars().all(|c| code.push(c)), "{line}");
            let spans = code.end_line().expect("coloured");
            assert_eq!(spans.iter().map(|span| span.text.as_str()).collect::<String>(), line);
            words.extend(spans.iter().filter(|span| span.style != Style::new()).map(|span| {
                let style = span.style;
                let colour = style.get_fg_color().map(|colour| format!("{colour:?}"));
                format!("{}: {}", colour.unwrap_or_else(|| "-".to_owned()), span.text.trim())
            }));
        }
        words
    }

    #[track_caller]
    fn assert_has(words: &[String], expected: &[&str]) {
        for word in expected {
            assert!(
                words.iter().any(|it| it.replace("Ansi(", "").replace(')', "") == *word),
                "{word} in {words:?}"
            );
        }
    }

    #[test]
    fn the_words_of_a_language_have_their_colours() {
        let rust = coloured("rust", "// why\nfn main() { let n = 7; println!(\"a\\n\"); }");
        assert_has(&rust, &["-: // why", "Magenta: fn", "Blue: main", "Cyan: 7", "Cyan: \\n"]);
        assert_has(&coloured("py", "def f(): return 'x'"), &["Magenta: return", "Green: 'x'"]);
        assert_has(&coloured("diff", "-old\n+new"), &["Red: -old", "Green: +new"]);
        assert_has(&coloured("toml", "a = \"b\""), &["Green: \"b\""]);
    }

    #[test]
    fn a_language_is_found_by_the_first_word_of_the_fence() {
        for info in
            ["rust", " Rust ", "rust,ignore", "rs title=\"a\"", "typescript", "sh", "c++", "json"]
        {
            assert!(CodeBlock::from_info(info).is_some(), "{info}");
        }
        for info in ["", "text", "no-such-language", "{.rust}", &"x".repeat(1_000), "\u{1b}[2J"] {
            assert!(CodeBlock::from_info(info).is_none(), "{info}");
        }
    }

    #[test]
    fn every_scope_of_the_table_has_a_style() {
        assert_eq!(STYLES.len(), 21);
    }

    #[test]
    fn a_block_that_takes_long_is_coloured_no_further() {
        let mut code = CodeBlock::from_info("rust").expect("a grammar");
        assert!("fn a() {}".chars().all(|c| code.push(c)));
        code.spent = TIME;
        assert!(code.end_line().is_none());
        assert_eq!(code.into_line(), "fn a() {}");
    }

    /// Lines on which a grammar tries many matches. None may take longer than a user would wait.
    #[test]
    fn no_line_takes_long() {
        for info in ["rust", "ts", "py", "cpp", "html", "sh", "md", "sql", "yaml"] {
            for repeated in ["(", "[a", "<", "\"", "a::<", "{", "\\", "$(", "`", "* ", "://", "-"] {
                let mut code = CodeBlock::from_info(info).expect("a grammar");
                let line = repeated.repeat(LINE / repeated.len());
                assert!(line.chars().all(|c| code.push(c)));
                assert!(code.end_line().is_some());
                assert!(code.spent < Duration::from_secs(10), "{info} {repeated:?} {code:?}");
            }
        }
    }
}
