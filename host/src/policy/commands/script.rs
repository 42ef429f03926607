//! The reader of scripts: the simple commands of a script with literal words, or the reason why a
//! script is not of that form.
//!
//! The part of the language that it reads:
//!
//! ```text
//! script      = list of commands, with `&&`, `||`, `|`, `;` or newlines between them
//! command     = word { word | redirection }
//! redirection = `2>&1` | ( `>` | `2>` | `&>` | `<` ) `/dev/null`
//! word        = plain characters, '…', "…" without `$`, backquotes and `!`, and `\` with a character
//! comment     = `#` at the beginning of a word, to the end of the line
//! ```
//!
//! It refuses everything else. An accepted script means the same in every shell that may run it.
//! For example, a shell that is not bash reads `&>/dev/null` as `&` and a redirection, so a word
//! after it would begin another command.

use ikigai_protocol::is_invisible;

/// The longest script that is read, in bytes. From 100 KiB on, the tool passes a script to the
/// shell in pieces.
const LONGEST: usize = 64 << 10;

/// A command that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    /// The words, without their quotes.
    pub(super) words: Vec<String>,
    /// True if more words may follow that could not be read.
    pub(super) is_open: bool,
}

/// The part of a script that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    /// The commands, in their order.
    pub(super) commands: Vec<SimpleCommand>,
    /// The reason why the rest was not read.
    pub(super) unread: Option<&'static str>,
}

/// Reads a script.
pub(super) fn read(script: &str) -> Script {
    let mut reader = ScriptReader { rest: script, ..ScriptReader::default() };
    let outcome = check_characters(script);
    // Read the script anyway, for the rules that deny.
    let read = reader.script();
    let unread = outcome.and(read).err();
    if unread.is_some() && !reader.words.is_empty() {
        let words = std::mem::take(&mut reader.words);
        reader.commands.push(SimpleCommand { words, is_open: true });
    }
    Script { commands: reader.commands, unread }
}

/// Refuses characters that a shell or a reader may mistake for others.
fn check_characters(script: &str) -> ScriptResult<()> {
    if script.len() > LONGEST {
        return Err("the script is too long");
    }
    let is_strange = |c: char| {
        let is_blank = matches!(c, '\n' | '\t' | ' ');
        !is_blank && (c.is_control() || c.is_whitespace() || is_invisible(c))
    };
    if script.contains(is_strange) {
        return Err("the script has a control character, or one that cannot be seen");
    }
    // The component's shell also looks for them within quotes.
    if script.contains("<(") || script.contains(">(") {
        return Err("the script has a process substitution");
    }
    Ok(())
}

type ScriptResult<T> = Result<T, &'static str>;

#[derive(Default)]
struct ScriptReader<'a> {
    rest: &'a str,
    commands: Vec<SimpleCommand>,
    /// The words of the command that is being read.
    words: Vec<String>,
    /// True after an operator that needs another command.
    expects: bool,
    /// True after `&>/dev/null`, to the end of the command.
    is_silenced: bool,
}

impl ScriptReader<'_> {
    fn script(&mut self) -> ScriptResult<()> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            let Some(next) = self.rest.chars().next() else { break };
            match next {
                '#' => {
                    // Keep the newline, because it ends the command.
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                }
                '\n' => {
                    self.rest = &self.rest[1..];
                    self.end_of_command();
                }
                ';' => {
                    self.rest = &self.rest[1..];
                    self.operator(false)?;
                    if self.rest.starts_with([';', '&']) {
                        return Err("the script has `;;` or `;&`");
                    }
                }
                '|' | '&' if self.takes("&&") || self.takes("||") => self.operator(true)?,
                '&' if self.takes("&>") => {
                    self.null_device()?;
                    self.is_silenced = true;
                }
                '&' => return Err("the script has `&`, which runs a command in the background"),
                '|' if self.rest.starts_with("|&") => return Err("the script has `|&`"),
                '|' => {
                    self.rest = &self.rest[1..];
                    self.operator(true)?;
                }
                '<' => {
                    self.rest = &self.rest[1..];
                    self.null_device()?;
                }
                '>' => {
                    self.rest = &self.rest[1..];
                    self.null_device()?;
                }
                '2' if self.takes("2>&1") => self.end_of_redirection()?,
                '2' if self.takes("2>") => self.null_device()?,
                _ if self.is_silenced => return Err("the script has a word after `&>/dev/null`"),
                _ => {
                    let word = self.word()?;
                    self.words.push(word);
                    self.expects = false;
                }
            }
        }
        if self.expects {
            return Err("the script ends in an operator");
        }
        self.end_of_command();
        Ok(())
    }

    /// Consumes a text if the rest begins with it.
    fn takes(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn end_of_command(&mut self) {
        self.is_silenced = false;
        if !self.words.is_empty() {
            let words = std::mem::take(&mut self.words);
            self.commands.push(SimpleCommand { words, is_open: false });
        }
    }

    /// Ends the command before an operator.
    fn operator(&mut self, expects: bool) -> ScriptResult<()> {
        if self.words.is_empty() {
            return Err("the script has an operator without a command before it");
        }
        self.end_of_command();
        self.expects = expects;
        Ok(())
    }

    /// Reads the file of a redirection.
    fn null_device(&mut self) -> ScriptResult<()> {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        if !self.takes("/dev/null") {
            return Err("the script has a redirection to something else than `/dev/null`");
        }
        self.end_of_redirection()
    }

    fn end_of_redirection(&mut self) -> ScriptResult<()> {
        if self.words.is_empty() {
            return Err("the script has a redirection before a command");
        }
        if !self.rest.is_empty() && !self.rest.starts_with([' ', '\t', '\n', ';', '|', '&']) {
            return Err("the script has a redirection to something else than `/dev/null`");
        }
        Ok(())
    }

    fn word(&mut self) -> ScriptResult<String> {
        let mut word = String::new();
        while let Some(next) = self.rest.chars().next() {
            if matches!(next, ' ' | '\t' | '\n' | ';' | '|' | '&') {
                break;
            }
            self.rest = &self.rest[next.len_utf8()..];
            match next {
                '\'' => {
                    let (inside, rest) = self
                        .rest
                        .split_once('\'')
                        .ok_or("the script has a quote without an end")?;
                    word.push_str(inside);
                    self.rest = rest;
                }
                '"' => self.double_quoted(&mut word)?,
                '\\' => word.push(self.escaped()?),
                _ if is_plain(next) => word.push(next),
                _ => return Err(unread_because_of(next)),
            }
        }
        Ok(word)
    }

    /// Reads a text in double quotes, after the opening quote.
    fn double_quoted(&mut self, word: &mut String) -> ScriptResult<()> {
        while let Some(next) = self.rest.chars().next() {
            self.rest = &self.rest[next.len_utf8()..];
            match next {
                '"' => return Ok(()),
                '\\' => {
                    let escaped = self.rest.chars().next();
                    let escaped = escaped.filter(|c| matches!(c, '"' | '\\' | '$' | '`'));
                    word.push(escaped.ok_or("the script has `\\` in double quotes")?);
                    self.rest = &self.rest[1..];
                }
                '$' | '`' | '!' => return Err(unread_because_of(next)),
                _ => word.push(next),
            }
        }
        Err("the script has a quote without an end")
    }

    /// Reads the character after a backslash outside of quotes.
    fn escaped(&mut self) -> ScriptResult<char> {
        let escaped = self.rest.chars().next();
        let escaped = escaped.filter(|c| c.is_ascii_graphic() || *c == ' ');
        let escaped = escaped.ok_or("the script has `\\` before what is not a plain character")?;
        self.rest = &self.rest[1..];
        Ok(escaped)
    }
}

/// Returns whether a character stands for itself outside of quotes, in every position of a word
/// except the first.
fn is_plain(c: char) -> bool {
    // A `#` at the beginning of a word starts a comment, which was read earlier.
    const PLAIN: &[char] = &['_', '-', '.', ',', ':', '/', '@', '%', '+', '=', '^', '#'];
    c.is_ascii_alphanumeric() || PLAIN.contains(&c) || !c.is_ascii()
}

/// Returns the reason why a script with this character outside of single quotes is not read.
fn unread_because_of(c: char) -> &'static str {
    match c {
        '$' => "the script has `$`, which begins an expansion",
        '`' => "the script has a backquote, which begins a substitution",
        '*' | '?' | '[' | ']' => "the script has a pattern of file names",
        '{' | '}' => "the script has a brace",
        '~' => "the script has `~`, which may stand for a directory",
        '!' => "the script has `!`",
        '(' | ')' => "the script has a parenthesis",
        '<' | '>' => "the script has a redirection that is not read",
        _ => "the script has a character that is not read",
    }
}
