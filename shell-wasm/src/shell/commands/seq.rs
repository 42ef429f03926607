//! `seq`, of any length: the interpreter's stops after a hundred thousand lines.
//!
//! Numbers are decimal fractions with a common number of places, so that no step is lost to
//! rounding.

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

use super::fail;

/// The number of bytes that are written at once: the capacity of a pipe.
const CHUNK_BYTES: usize = 4096;

/// The most decimal places that are kept.
const MAX_PLACES: usize = 18;

/// `seq [-w] [-s STRING] [-f FORMAT] [FIRST [STEP]] LAST`
pub(super) struct Seq;

struct SeqOptions {
    separator: String,
    equal_width: bool,
    format: Option<NumberFormat>,
    operands: Vec<String>,
}

/// A number as its digits and the position of its point.
#[derive(Clone, Copy)]
struct Decimal {
    digits: i128,
    places: usize,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        if let Some((number, power)) = text.split_once(['e', 'E']) {
            let Self { digits, places } = Self::parse(number)?;
            let power = power.parse::<i32>().ok().filter(|power| power.unsigned_abs() < 19)?;
            let places = i32::try_from(places).ok()? - power;
            let digits = digits.checked_mul(10_i128.pow(places.min(0).unsigned_abs()))?;
            return Some(Self { digits, places: usize::try_from(places.max(0)).ok()? })
                .filter(|number| number.places <= MAX_PLACES);
        }
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = rest.split_once('.').unwrap_or((rest, ""));
        let digits = format!("{whole}{fraction}");
        let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let value = digits.parse::<i128>().ok().filter(|_| valid)?;
        let fits = fraction.len() <= MAX_PLACES && value <= i128::from(u64::MAX);
        let digits = if negative { -value } else { value };
        fits.then_some(Self { digits, places: fraction.len() })
    }

    /// Returns the digits with `places` of them after the point.
    fn scaled(self, places: usize) -> i128 {
        self.digits * 10_i128.pow(u32::try_from(places - self.places).unwrap_or(0))
    }
}

#[async_trait]
impl Command for Seq {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let options = match parse(context.args) {
            Ok(options) => options,
            Err(reason) => return fail(&context, &reason).await,
        };
        let mut numbers = Vec::new();
        for operand in &options.operands {
            let Some(number) = Decimal::parse(operand) else {
                let text = format!("invalid floating point argument: '{operand}'");
                return fail(&context, &text).await;
            };
            numbers.push(number);
        }
        let one = Decimal { digits: 1, places: 0 };
        let (first, step, last) = match numbers[..] {
            [last] => (one, one, last),
            [first, last] => (first, one, last),
            [first, step, last] => (first, step, last),
            [] => return fail(&context, "missing operand").await,
            _ => return fail(&context, &format!("extra operand '{}'", options.operands[3])).await,
        };
        if step.digits == 0 {
            let text = format!("invalid Zero increment value: '{}'", options.operands[1]);
            return fail(&context, &text).await;
        }
        // The last operand gives the end, not the number of places that are shown.
        let shown_places = first.places.max(step.places);
        let places = shown_places.max(last.places);
        let hidden = 10_i128.pow(u32::try_from(places - shown_places).unwrap_or(0));
        let (first, step, last) = (first.scaled(places), step.scaled(places), last.scaled(places));
        let plain = |number: i128| text_of(number / hidden, shown_places);
        let width = if options.equal_width {
            let end = first + (last - first) / step * step;
            plain(first).len().max(plain(end).len())
        } else {
            0
        };
        let mut line = Vec::new();
        let mut number = first;
        let in_range = |number: i128| if step > 0 { number <= last } else { number >= last };
        while in_range(number) {
            if number != first {
                line.extend_from_slice(options.separator.as_bytes());
            }
            match &options.format {
                Some(format) => line.extend_from_slice(
                    format.apply(number as f64 / 10_f64.powi(places as i32)).as_bytes(),
                ),
                None => line.extend_from_slice(padded(&plain(number), width).as_bytes()),
            }
            number += step;
            if line.len() >= CHUNK_BYTES {
                context.stdout.write_all(&line).await?;
                line.clear();
            }
        }
        if in_range(first) {
            line.push(b'\n');
        }
        context.stdout.write_all(&line).await?;
        Ok(CommandStatus::success())
    }
}

fn text_of(number: i128, places: usize) -> String {
    let digits = format!("{:0>width$}", number.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let sign = if number < 0 { "-" } else { "" };
    let point = if places > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

/// Inserts zeros between the sign and the digits.
fn padded(text: &str, width: usize) -> String {
    match text.strip_prefix('-') {
        Some(digits) => format!("-{digits:0>width$}", width = width.saturating_sub(1)),
        None => format!("{text:0>width$}"),
    }
}

/// One `printf` conversion of a number, with text around it.
struct NumberFormat {
    before: String,
    zero: bool,
    left: bool,
    width: usize,
    precision: Option<usize>,
    conversion: char,
    after: String,
}

impl NumberFormat {
    fn parse(text: &str) -> Option<Self> {
        let start = text.find('%')?;
        let rest = &text[start + 1..];
        let flags = rest.len() - rest.trim_start_matches(['0', '-', '+', ' ']).len();
        let (flags, rest) = rest.split_at(flags);
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (width, rest) = rest.split_at(digits);
        let (precision, rest) = match rest.strip_prefix('.') {
            Some(rest) => {
                let digits =
                    rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                (Some(rest[..digits].parse().unwrap_or(0)), &rest[digits..])
            }
            None => (None, rest),
        };
        let conversion = rest.chars().next().filter(|letter| matches!(letter, 'f' | 'g' | 'e'))?;
        let after = &rest[1..];
        let supported = !after.contains('%') && !flags.contains(['+', ' ']);
        supported.then(|| Self {
            before: text[..start].to_owned(),
            zero: flags.contains('0') && !flags.contains('-'),
            left: flags.contains('-'),
            width: width.parse().unwrap_or(0),
            precision,
            conversion,
            after: after.to_owned(),
        })
    }

    fn apply(&self, number: f64) -> String {
        let digits = match self.conversion {
            'f' => format!("{number:.*}", self.precision.unwrap_or(6)),
            'e' => exponent(number, self.precision.unwrap_or(6)),
            _ => general(number, self.precision.unwrap_or(6).max(1)),
        };
        let width = self.width;
        let digits = match (self.zero, self.left) {
            (true, _) => padded(&digits, width),
            (_, true) => format!("{digits:<width$}"),
            _ => format!("{digits:>width$}"),
        };
        format!("{}{digits}{}", self.before, self.after)
    }
}

/// Formats a number as C does: at least two digits of exponent, with a sign.
fn exponent(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}

fn general(number: f64, precision: usize) -> String {
    let text = format!("{number:.*e}", precision - 1);
    let power: i32 = text.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    let trimmed = |text: &str| {
        let point = text.contains('.');
        if point {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if power < -4 || i64::from(power) >= precision as i64 {
        let text = exponent(number, precision - 1);
        let (digits, power) = text.split_once('e').unwrap_or((&text, "+00"));
        return format!("{}e{power}", trimmed(digits));
    }
    let places = usize::try_from(precision as i64 - 1 - i64::from(power)).unwrap_or(0);
    trimmed(&format!("{number:.places$}"))
}

fn parse(arguments: &[String]) -> std::result::Result<SeqOptions, String> {
    let mut options = SeqOptions {
        separator: "\n".to_owned(),
        equal_width: false,
        format: None,
        operands: Vec::new(),
    };
    let format = |text: &str| {
        NumberFormat::parse(text)
            .map(Some)
            .ok_or_else(|| format!("format '{text}' is not supported"))
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = |attached: &str| {
            let next = if attached.is_empty() {
                arguments.next().cloned()
            } else {
                Some(attached.to_owned())
            };
            next.ok_or_else(|| format!("option requires an argument -- '{argument}'"))
        };
        let is_number = Decimal::parse(argument).is_some();
        match argument.as_str() {
            "--" => options.operands.extend(arguments.by_ref().cloned()),
            "-w" | "--equal-width" => options.equal_width = true,
            long if long.starts_with("--separator=") => {
                options.separator = long["--separator=".len()..].to_owned();
            }
            long if long.starts_with("--format=") => {
                options.format = format(&long["--format=".len()..])?;
            }
            short if short.starts_with("-s") => options.separator = value(&short[2..])?,
            short if short.starts_with("-f") => options.format = format(&value(&short[2..])?)?,
            other if other.len() > 1 && other.starts_with('-') && !is_number => {
                return Err(format!("invalid option -- '{}'", &other[1..]));
            }
            number => options.operands.push(number.to_owned()),
        }
    }
    Ok(options)
}
