//! `du`, in blocks as most file systems have them: WASI reports a file's length only.

use std::path::Path;

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

use super::ls::human;
use super::{absolute, fail, reason};

/// The size of a disk block, in bytes.
const BLOCK_BYTES: u64 = 4096;

/// `du [-abchkms] [-d DEPTH] [FILE…]`
pub(super) struct Du;

#[derive(Clone, Copy, PartialEq, Eq)]
enum SizeUnit {
    Bytes,
    Kib,
    Mib,
    Human,
}

struct DuOptions {
    all: bool,
    summary: bool,
    total: bool,
    /// `true` for lengths instead of blocks.
    apparent: bool,
    unit: SizeUnit,
    depth: usize,
}

#[async_trait]
impl Command for Du {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let (options, files) = match parse(context.args) {
            Ok(parsed) => parsed,
            Err(reason) => return fail(&context, &reason).await,
        };
        let files = if files.is_empty() { vec!["."] } else { files };
        let mut counted = DuRun { context: &context, options, text: String::new(), code: 0 };
        let mut total = 0;
        for file in files {
            total += counted.count(file, &absolute(context.cwd, file), 0).await?;
        }
        if counted.options.total {
            counted.line(total, "total");
        }
        context.stdout.write_all(counted.text.as_bytes()).await?;
        Ok(CommandStatus::with_code(counted.code))
    }
}

struct DuRun<'c> {
    context: &'c CommandContext<'c>,
    options: DuOptions,
    text: String,
    code: i32,
}

impl DuRun<'_> {
    /// Counts the bytes beneath `path`, and writes a line for each entry to be shown.
    async fn count(&mut self, name: &str, path: &Path, depth: usize) -> Result<u64> {
        let found = match self.context.fs.lstat(path).await {
            Ok(found) => found,
            Err(error) => {
                let text = format!("cannot access '{name}': {}", reason(&error));
                fail(self.context, &text).await?;
                self.code = 1;
                return Ok(0);
            }
        };
        let directory = found.file_type.is_dir();
        let mut bytes = match (self.options.apparent, found.file_type.is_symlink()) {
            (true, _) => found.size,
            (false, true) => 0,
            (false, false) => found.size.div_ceil(BLOCK_BYTES) * BLOCK_BYTES,
        };
        if directory {
            match self.context.fs.read_dir(path).await {
                Ok(mut entries) => {
                    entries.sort_by(|a, b| a.name.cmp(&b.name));
                    for entry in entries {
                        let name = format!("{}/{}", name.trim_end_matches('/'), entry.name);
                        let path = path.join(&entry.name);
                        bytes += Box::pin(self.count(&name, &path, depth + 1)).await?;
                    }
                }
                Err(error) => {
                    let text = format!("cannot read directory '{name}': {}", reason(&error));
                    fail(self.context, &text).await?;
                    self.code = 1;
                }
            }
        }
        let options = &self.options;
        let wanted = directory || options.all;
        if depth == 0 || wanted && !options.summary && depth <= options.depth {
            self.line(bytes, name);
        }
        Ok(bytes)
    }

    fn line(&mut self, bytes: u64, name: &str) {
        let size = match self.options.unit {
            SizeUnit::Bytes => bytes.to_string(),
            SizeUnit::Kib => bytes.div_ceil(1 << 10).to_string(),
            SizeUnit::Mib => bytes.div_ceil(1 << 20).to_string(),
            SizeUnit::Human => human(bytes),
        };
        self.text.push_str(&format!("{size}\t{name}\n"));
    }
}

fn parse(arguments: &[String]) -> std::result::Result<(DuOptions, Vec<&str>), String> {
    let mut options = DuOptions {
        all: false,
        summary: false,
        total: false,
        apparent: false,
        unit: SizeUnit::Kib,
        depth: usize::MAX,
    };
    let depth = |text: Option<&str>| {
        text.and_then(|text| text.parse().ok()).ok_or_else(|| "invalid maximum depth".to_owned())
    };
    let mut files = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--" => files.extend(arguments.by_ref().map(String::as_str)),
            "--all" => options.all = true,
            "--summarize" => options.summary = true,
            "--total" => options.total = true,
            "--human-readable" => options.unit = SizeUnit::Human,
            "--apparent-size" => options.apparent = true,
            "--bytes" => (options.apparent, options.unit) = (true, SizeUnit::Bytes),
            "-d" | "--max-depth" => options.depth = depth(arguments.next().map(String::as_str))?,
            long if long.starts_with("--max-depth=") => {
                options.depth = depth(long.strip_prefix("--max-depth="))?;
            }
            short if short.starts_with("-d") => options.depth = depth(short.strip_prefix("-d"))?,
            short if short.len() > 1 && short.starts_with('-') => {
                for letter in short[1..].chars() {
                    match letter {
                        'a' => options.all = true,
                        's' => options.summary = true,
                        'c' => options.total = true,
                        'h' => options.unit = SizeUnit::Human,
                        'k' => options.unit = SizeUnit::Kib,
                        'm' => options.unit = SizeUnit::Mib,
                        'b' => (options.apparent, options.unit) = (true, SizeUnit::Bytes),
                        _ => {
                            return Err(format!("option '{short}' is not supported by this shell"));
                        }
                    }
                }
            }
            file => files.push(file),
        }
    }
    Ok((options, files))
}
