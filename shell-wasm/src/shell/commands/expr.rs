//! `expr`, since the interpreter's has no precedence.

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

/// The exit code for a value that is empty or zero.
const EXIT_NULL: i32 = 1;

/// The exit code for an expression that does not parse.
const EXIT_INVALID: i32 = 2;

/// The operators from the loosest to the tightest, as in POSIX; all associate to the left.
const LEVELS: [&[&str]; 5] =
    [&["|"], &["&"], &["<", "<=", "=", "==", "!=", ">=", ">"], &["+", "-"], &["*", "/", "%"]];

/// `expr EXPRESSION`
pub(super) struct Expr;

#[async_trait]
impl Command for Expr {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let mut parser = Parser { words: context.args, next: 0 };
        let value = if context.args.is_empty() {
            Err("missing operand".to_owned())
        } else {
            parser.level(0)
        };
        let value = value.and_then(|value| match context.args.get(parser.next) {
            None => Ok(value),
            Some(word) => Err(format!("syntax error: unexpected argument '{word}'")),
        });
        match value {
            Ok(value) => {
                context.stdout.write_all(format!("{value}\n").as_bytes()).await?;
                Ok(CommandStatus::with_code(if is_null(&value) { EXIT_NULL } else { 0 }))
            }
            Err(reason) => {
                context.stderr.write_all(format!("expr: {reason}\n").as_bytes()).await?;
                Ok(CommandStatus::with_code(EXIT_INVALID))
            }
        }
    }
}

struct Parser<'w> {
    words: &'w [String],
    next: usize,
}

type ExprResult = std::result::Result<String, String>;

impl Parser<'_> {
    fn level(&mut self, level: usize) -> ExprResult {
        let Some(operators) = LEVELS.get(level) else { return self.matching() };
        let mut left = self.level(level + 1)?;
        while let Some(operator) = self.words.get(self.next).cloned() {
            if !operators.contains(&operator.as_str()) {
                break;
            }
            self.next += 1;
            let right = self.level(level + 1)?;
            left = apply(&operator, left, right)?;
        }
        Ok(left)
    }

    fn matching(&mut self) -> ExprResult {
        let mut left = self.operand()?;
        while self.words.get(self.next).is_some_and(|word| word == ":") {
            self.next += 1;
            let pattern = self.operand()?;
            left = matched(&left, &pattern)?;
        }
        Ok(left)
    }

    fn operand(&mut self) -> ExprResult {
        let word = self.word()?;
        match word.as_str() {
            "(" => {
                let value = self.level(0)?;
                let close = self.word().map_err(|_| "syntax error: expecting ')'".to_owned())?;
                if close == ")" {
                    Ok(value)
                } else {
                    Err(format!("syntax error: expecting ')' instead of '{close}'"))
                }
            }
            ")" => Err("syntax error: unexpected ')'".to_owned()),
            "+" => self.word(),
            "length" => Ok(self.operand()?.chars().count().to_string()),
            "match" => {
                let text = self.operand()?;
                let pattern = self.operand()?;
                matched(&text, &pattern)
            }
            "index" => {
                let text = self.operand()?;
                let wanted = self.operand()?;
                let place = text.chars().position(|letter| wanted.contains(letter));
                Ok(place.map_or(0, |place| place + 1).to_string())
            }
            "substr" => {
                let text = self.operand()?;
                let (start, length) = (self.operand()?, self.operand()?);
                let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
                Ok(match (number(&start), number(&length)) {
                    (Some(start), Some(length)) => {
                        text.chars().skip(start - 1).take(length).collect()
                    }
                    _ => String::new(),
                })
            }
            _ => Ok(word),
        }
    }

    fn word(&mut self) -> ExprResult {
        let word = self.words.get(self.next).cloned();
        self.next += 1;
        word.ok_or_else(|| {
            let last = self.words.last().map_or("", String::as_str);
            format!("syntax error: missing argument after '{last}'")
        })
    }
}

fn is_null(value: &str) -> bool {
    value.is_empty() || integer(value) == Some(0)
}

fn integer(value: &str) -> Option<i128> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| valid)
}

fn apply(operator: &str, left: String, right: String) -> ExprResult {
    let truth = |truth: bool| Ok(i32::from(truth).to_string());
    match operator {
        "|" => {
            return Ok(match (is_null(&left), is_null(&right)) {
                (false, _) => left,
                (true, false) => right,
                (true, true) => "0".to_owned(),
            });
        }
        "&" => return Ok(if is_null(&left) || is_null(&right) { "0".to_owned() } else { left }),
        _ => {}
    }
    let numbers = integer(&left).zip(integer(&right));
    let order = numbers.map_or_else(|| left.cmp(&right), |(left, right)| left.cmp(&right));
    match operator {
        "<" => return truth(order.is_lt()),
        "<=" => return truth(order.is_le()),
        "=" | "==" => return truth(order.is_eq()),
        "!=" => return truth(order.is_ne()),
        ">=" => return truth(order.is_ge()),
        ">" => return truth(order.is_gt()),
        _ => {}
    }
    let (left, right) = numbers.ok_or("non-integer argument")?;
    let result = match operator {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        _ if right == 0 => return Err("division by zero".to_owned()),
        "/" => left.checked_div(right),
        _ => left.checked_rem(right),
    };
    result.map(|number| number.to_string()).ok_or_else(|| "numeric result out of range".to_owned())
}

/// Matches a basic regular expression at the start; returns the first group, or the length.
fn matched(text: &str, pattern: &str) -> ExprResult {
    let translated = extended(pattern);
    let regex = regex::Regex::new(&format!("^(?:{translated})"))
        .map_err(|_| format!("invalid regular expression `{pattern}`"))?;
    let groups = regex.captures_len() > 1;
    Ok(match (regex.captures(text), groups) {
        (Some(found), true) => found.get(1).map_or("", |group| group.as_str()).to_owned(),
        (Some(found), false) => found[0].chars().count().to_string(),
        (None, true) => String::new(),
        (None, false) => "0".to_owned(),
    })
}

/// Rewrites a basic regular expression in the syntax of an extended one.
fn extended(pattern: &str) -> String {
    let mut out = String::new();
    let mut letters = pattern.strip_prefix('^').unwrap_or(pattern).chars().peekable();
    let mut at_start = true;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(special @ ('(' | ')' | '{' | '}' | '|' | '+' | '?')) => {
                    out.push(special);
                    at_start = matches!(special, '(' | '|');
                    continue;
                }
                Some(other) => out.extend(['\\', other]),
                None => out.push_str("\\\\"),
            },
            '[' => {
                out.push('[');
                // `]` is literal as the first character.
                for special in ['^', ']'] {
                    if letters.next_if_eq(&special).is_some() {
                        out.push_str(if special == ']' { "\\]" } else { "^" });
                    }
                }
                for inner in letters.by_ref() {
                    out.push_str(match inner {
                        '\\' => "\\\\",
                        _ => "",
                    });
                    if inner != '\\' {
                        out.push(inner);
                    }
                    if inner == ']' && !out.ends_with(":]") {
                        break;
                    }
                }
            }
            '*' if at_start => out.push_str("\\*"),
            '(' | ')' | '{' | '}' | '|' | '+' | '?' => out.extend(['\\', letter]),
            other => out.push(other),
        }
        at_start = false;
    }
    out
}
