//! `stat`: the values that WASI reports of a file, and `?` for the others.

use std::time::UNIX_EPOCH;

use bashkit::{Command, CommandContext, CommandStatus, FileType, Metadata, Result, async_trait};
use chrono::DateTime;

use super::ls::permissions;
use super::{absolute, fail, reason};

const DEFAULT: &str = "  File: %N\\n  Size: %s\\t%F\\nAccess: (%04a/%A)\\nModify: %y\\n";

/// `stat [-L] [-c FORMAT | --printf FORMAT] FILE…`
pub(super) struct Stat;

struct StatOptions {
    follow: bool,
    format: String,
    escapes: bool,
}

#[async_trait]
impl Command for Stat {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let (options, files) = match parse(context.args) {
            Ok(parsed) => parsed,
            Err(reason) => return fail(&context, &reason).await,
        };
        if files.is_empty() {
            return fail(&context, "missing operand").await;
        }
        let mut status = CommandStatus::success();
        for file in files {
            let path = absolute(context.cwd, file);
            let fs = &context.fs;
            let found = if options.follow { fs.stat(&path).await } else { fs.lstat(&path).await };
            let metadata = match found {
                Ok(metadata) => metadata,
                Err(error) => {
                    let text = format!("cannot statx '{file}': {}", reason(&error));
                    status = fail(&context, &text).await?;
                    continue;
                }
            };
            let target = fs.read_link(&path).await.ok().filter(|_| metadata.file_type.is_symlink());
            let target = target.map(|target| target.to_string_lossy().into_owned());
            let line = filled(&options, file, target.as_deref(), &metadata);
            context.stdout.write_all(line.as_bytes()).await?;
        }
        Ok(status)
    }
}

fn parse(arguments: &[String]) -> std::result::Result<(StatOptions, Vec<&str>), String> {
    let mut options = StatOptions { follow: false, format: DEFAULT.to_owned(), escapes: true };
    let mut files = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let (format, escapes) = match argument.as_str() {
            "--" => {
                files.extend(arguments.by_ref().map(String::as_str));
                break;
            }
            "-L" | "--dereference" => {
                options.follow = true;
                continue;
            }
            "-c" | "--format" => (arguments.next().cloned(), false),
            "--printf" => (arguments.next().cloned(), true),
            other => match (
                other.strip_prefix("--format=").or_else(|| other.strip_prefix("-c")),
                other.strip_prefix("--printf="),
            ) {
                (Some(format), _) => (Some(format.to_owned()), false),
                (_, Some(format)) => (Some(format.to_owned()), true),
                _ if other.len() > 1 && other.starts_with('-') => {
                    return Err(format!("option '{other}' is not supported by this shell"));
                }
                _ => {
                    files.push(other);
                    continue;
                }
            },
        };
        let format = format.ok_or("option requires an argument")?;
        options.format = if escapes { format } else { format!("{format}\n") };
        options.escapes = escapes;
    }
    Ok((options, files))
}

fn filled(options: &StatOptions, file: &str, target: Option<&str>, metadata: &Metadata) -> String {
    let mut out = String::new();
    let mut letters = options.format.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if options.escapes => match letters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('0') => out.push('\0'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            '%' => {
                let mut width = String::new();
                while let Some(digit) =
                    letters.next_if(|next| next.is_ascii_digit() || *next == '-')
                {
                    width.push(digit);
                }
                let value = match letters.next() {
                    Some('%') | None => "%".to_owned(),
                    Some(directive) => value(directive, file, target, metadata),
                };
                let zeros = width.starts_with('0');
                let left = width.starts_with('-');
                let width: usize = width.trim_start_matches('-').parse().unwrap_or(0);
                out.push_str(&match (zeros, left) {
                    (true, _) => format!("{value:0>width$}"),
                    (_, true) => format!("{value:<width$}"),
                    _ => format!("{value:>width$}"),
                });
            }
            other => out.push(other),
        }
    }
    out
}

fn value(directive: char, file: &str, target: Option<&str>, metadata: &Metadata) -> String {
    let since = metadata.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    match directive {
        'n' => file.to_owned(),
        'N' => target.map_or_else(|| format!("'{file}'"), |to| format!("'{file}' -> '{to}'")),
        's' => metadata.size.to_string(),
        'a' => format!("{:o}", metadata.mode),
        'A' => permissions(metadata),
        'F' => kind(metadata).to_owned(),
        'Y' => since.as_secs().to_string(),
        'y' => {
            let seconds = i64::try_from(since.as_secs()).unwrap_or(0);
            let moment = DateTime::from_timestamp(seconds, since.subsec_nanos());
            moment.map_or_else(
                || "?".to_owned(),
                |moment| moment.format("%Y-%m-%d %H:%M:%S.%f +0000").to_string(),
            )
        }
        _ => "?".to_owned(),
    }
}

fn kind(metadata: &Metadata) -> &'static str {
    match metadata.file_type {
        FileType::File if metadata.size == 0 => "regular empty file",
        FileType::File => "regular file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "fifo",
    }
}
