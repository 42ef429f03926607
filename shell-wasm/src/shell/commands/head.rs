//! `head`, since the interpreter's cannot read a device that has no end.

use bashkit::{Command, CommandContext, CommandInput, CommandStatus, Result, async_trait};

use super::options::{self, ParsedOptions};
use super::{absolute, fail, reason};

const OPTIONS: options::OptionSpec =
    options::OptionSpec { words: "# c,bytes= n,lines= q,quiet ,silent v,verbose", refusal: 1 };

const DEFAULT_LINES: u64 = 10;

/// The number of bytes that are read at once of a device without an end.
const CHUNK_BYTES: usize = 4096;

/// The amount of each input that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Amount {
    bytes: bool,
    count: u64,
    /// `true` for all but the last `count` lines or bytes.
    but_last: bool,
}

impl Amount {
    fn parse(text: &str, bytes: bool) -> Option<Self> {
        let (but_last, number) = match text.strip_prefix('-') {
            Some(number) => (true, number),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let digits = number.len() - number.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let factor = match &number[digits..] {
            "" => 1,
            "b" => 512,
            "kB" => 1000,
            "k" | "K" | "KiB" => 1 << 10,
            "MB" => 1_000_000,
            "M" | "MiB" => 1 << 20,
            "GB" => 1_000_000_000,
            "G" | "GiB" => 1 << 30,
            _ => return None,
        };
        let count = number[..digits].parse::<u64>().ok()?.saturating_mul(factor);
        Some(Self { bytes, count, but_last })
    }

    /// Returns the part of a whole input that is shown.
    fn apply(self, contents: &[u8]) -> &[u8] {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        if self.bytes {
            let shown = if self.but_last { contents.len().saturating_sub(count) } else { count };
            return &contents[..shown.min(contents.len())];
        }
        let lines = || contents.split_inclusive(|byte| *byte == b'\n');
        let shown = if self.but_last { lines().count().saturating_sub(count) } else { count };
        &contents[..lines().take(shown).map(<[u8]>::len).sum()]
    }
}

/// `head [-n LINES] [-c BYTES] [-qv] [FILE…]`
pub(super) struct Head;

struct HeadOptions {
    amount: Amount,
    headers: Option<bool>,
}

#[async_trait]
impl Command for Head {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match OPTIONS.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let (options, files) = match parse(&parsed) {
            Ok(parsed) => parsed,
            Err(reason) => return fail(&context, &reason).await,
        };
        let files = if files.is_empty() { vec!["-"] } else { files };
        let headers = options.headers.unwrap_or(files.len() > 1);
        let mut status = CommandStatus::success();
        for (index, file) in files.iter().enumerate() {
            let contents = match device(file) {
                _ if *file == "-" || *file == "/dev/stdin" => Ok(None),
                Some(_) => Ok(None),
                None => context.fs.read_file(&absolute(context.cwd, file)).await.map(Some),
            };
            let contents = match contents {
                Ok(contents) => contents,
                Err(error) => {
                    let verb = match context.fs.stat(&absolute(context.cwd, file)).await {
                        Ok(found) if found.file_type.is_dir() => "error reading",
                        _ => "cannot open",
                    };
                    let preposition = if verb == "cannot open" { " for reading" } else { "" };
                    let text = format!("{verb} '{file}'{preposition}: {}", reason(&error));
                    status = fail(&context, &text).await?;
                    continue;
                }
            };
            if headers {
                let name = if *file == "-" { "standard input" } else { file };
                let gap = if index > 0 { "\n" } else { "" };
                context.stdout.write_all(format!("{gap}==> {name} <==\n").as_bytes()).await?;
            }
            match (contents, device(file)) {
                (Some(contents), _) => {
                    context.stdout.write_all(options.amount.apply(&contents)).await?;
                }
                (None, Some(fill)) => {
                    if !options.amount.bytes || options.amount.but_last {
                        return fail(&context, &format!("{file} has no end; use -c BYTES")).await;
                    }
                    write_device(&context, fill, options.amount.count).await?;
                }
                (None, None) => write_input(&context, options.amount).await?,
            }
        }
        Ok(status)
    }
}

/// A function that fills a buffer with the contents of a device without an end.
type Fill = fn(&mut [u8]) -> std::result::Result<(), getrandom::Error>;

fn device(path: &str) -> Option<Fill> {
    match path {
        "/dev/zero" => Some(|buffer| {
            buffer.fill(0);
            Ok(())
        }),
        "/dev/random" | "/dev/urandom" => Some(getrandom::fill),
        _ => None,
    }
}

async fn write_device(context: &CommandContext<'_>, fill: Fill, count: u64) -> Result<()> {
    let mut left = count;
    let mut buffer = [0; CHUNK_BYTES];
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        fill(&mut buffer[..length]).map_err(std::io::Error::other)?;
        context.stdout.write_all(&buffer[..length]).await?;
        left -= length as u64;
    }
    Ok(())
}

/// Shows the standard input, and reads no further than necessary.
async fn write_input(context: &CommandContext<'_>, amount: Amount) -> Result<()> {
    if amount.but_last {
        let mut contents = Vec::new();
        let input: &CommandInput = &context.stdin;
        while let Some(chunk) = input.read_chunk().await? {
            contents.extend_from_slice(&chunk);
        }
        return context.stdout.write_all(amount.apply(&contents)).await;
    }
    let mut left = amount.count;
    while left > 0 {
        let Some(chunk) = context.stdin.read_chunk().await? else { break };
        let shown = Amount { count: left, ..amount }.apply(&chunk);
        context.stdout.write_all(shown).await?;
        let taken = if amount.bytes {
            shown.len()
        } else {
            shown.iter().filter(|byte| **byte == b'\n').count()
        };
        left -= taken as u64;
    }
    Ok(())
}

fn parse(parsed: &ParsedOptions) -> std::result::Result<(HeadOptions, Vec<&str>), String> {
    let amount = match parsed.last_of(&["bytes", "lines", "#"]) {
        None => Amount { bytes: false, count: DEFAULT_LINES, but_last: false },
        Some(name) => {
            let bytes = name == "bytes";
            let value = parsed.value(name).unwrap_or_default();
            let kind = if bytes { "bytes" } else { "lines" };
            Amount::parse(value, bytes)
                .ok_or_else(|| format!("invalid number of {kind}: '{value}'"))?
        }
    };
    let headers = parsed.last_of(&["quiet", "silent", "verbose"]).map(|name| name == "verbose");
    Ok((HeadOptions { amount, headers }, parsed.operands.iter().map(String::as_str).collect()))
}
