//! `ls`, in the format of coreutils. The interpreter's `ls` leaves out `.`, `..` and owners, and
//! whole listings if one operand is missing.
//!
//! WASI reports neither owner nor group: `?` stands in their columns, as in coreutils for unknown
//! values. Names are sorted by bytes, and times are UTC.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use bashkit::{Command, CommandContext, CommandStatus, FileType, Metadata, Result, async_trait};
use chrono::DateTime;

use super::{absolute, fail, reason};

/// The exit code for an operand that cannot be listed.
const EXIT_SERIOUS: i32 = 2;

/// The size of a disk block, in bytes, and in the units that `total` counts.
const BLOCK_BYTES: u64 = 4096;
const BLOCK_UNITS: u64 = 4;

/// The age in seconds from which a file shows its year instead of the time of day.
const HALF_A_YEAR: u64 = 31_556_952 / 2;

/// `ls [-1aAdFghlnopRrSStU] [FILE…]`
pub(super) struct Ls;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum HiddenNames {
    #[default]
    No,
    ButDots,
    All,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum SortOrder {
    #[default]
    Name,
    Size,
    Time,
    Extension,
    None,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum IndicatorStyle {
    #[default]
    None,
    Directory,
    All,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Style {
    #[default]
    Names,
    Long,
    Commas,
}

#[derive(Default)]
struct LsOptions {
    hidden: HiddenNames,
    order: SortOrder,
    mark: IndicatorStyle,
    style: Style,
    reverse: bool,
    recursive: bool,
    directories_themselves: bool,
    directories_first: bool,
    human: bool,
    no_owner: bool,
    no_group: bool,
    follow: bool,
    full_time: bool,
}

/// One line of a listing.
struct LsEntry {
    name: String,
    path: PathBuf,
    metadata: Metadata,
}

#[async_trait]
impl Command for Ls {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let (options, operands) = match parse(context.args) {
            Ok(parsed) => parsed,
            Err(reason) => {
                fail(&context, &reason).await?;
                return Ok(CommandStatus::with_code(EXIT_SERIOUS));
            }
        };
        let operands = if operands.is_empty() { vec!["."] } else { operands };
        let several = operands.len() > 1;
        let mut listing = LsRun { context: &context, options, code: 0, begun: false };
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        for operand in operands {
            match listing.operand(operand).await {
                Ok(item) if listing.is_entered(&item) => directories.push(item),
                Ok(item) => files.push(item),
                Err(error) => {
                    let text = format!("cannot access '{operand}': {}", reason(&error));
                    fail(&context, &text).await?;
                    listing.code = EXIT_SERIOUS;
                }
            }
        }
        listing.sort(&mut files);
        listing.sort(&mut directories);
        if !files.is_empty() {
            listing.write(&files, false).await?;
        }
        for directory in directories {
            let titled = several || listing.options.recursive;
            listing.enter(&directory.name, &directory.path, titled).await?;
        }
        Ok(CommandStatus::with_code(listing.code))
    }
}

struct LsRun<'l> {
    context: &'l CommandContext<'l>,
    options: LsOptions,
    code: i32,
    begun: bool,
}

impl LsRun<'_> {
    async fn operand(&self, name: &str) -> Result<LsEntry> {
        let path = absolute(self.context.cwd, name);
        let fs = &self.context.fs;
        let itself = self.options.style == Style::Long
            || self.options.mark == IndicatorStyle::All
            || self.options.directories_themselves;
        let followed = self.options.follow || name.ends_with('/') || !itself;
        let metadata = match fs.stat(&path).await {
            Ok(found) if followed => found,
            // A link without a target is listed as itself.
            _ => fs.lstat(&path).await?,
        };
        Ok(LsEntry { name: name.to_owned(), path, metadata })
    }

    fn is_entered(&self, item: &LsEntry) -> bool {
        item.metadata.file_type.is_dir() && !self.options.directories_themselves
    }

    /// Lists a directory, and those in it if that is requested.
    async fn enter(&mut self, name: &str, path: &Path, titled: bool) -> Result<()> {
        let mut items = match self.items(path).await {
            Ok(items) => items,
            Err(error) => {
                let text = format!("cannot open directory '{name}': {}", reason(&error));
                fail(self.context, &text).await?;
                self.code = EXIT_SERIOUS;
                return Ok(());
            }
        };
        self.sort(&mut items);
        if titled {
            let gap = if self.begun { "\n" } else { "" };
            self.context.stdout.write_all(format!("{gap}{name}:\n").as_bytes()).await?;
        }
        self.write(&items, true).await?;
        if self.options.recursive {
            for item in items {
                let itself = item.name == "." || item.name == "..";
                if item.metadata.file_type.is_dir() && !itself {
                    let name = format!("{}/{}", name.trim_end_matches('/'), item.name);
                    Box::pin(self.enter(&name, &item.path, true)).await?;
                }
            }
        }
        Ok(())
    }

    async fn items(&self, path: &Path) -> Result<Vec<LsEntry>> {
        let fs = &self.context.fs;
        let mut items = Vec::new();
        if self.options.hidden == HiddenNames::All {
            for name in [".", ".."] {
                let path = absolute(path, name);
                // The directory above may lie outside of what was granted.
                let metadata = match fs.stat(&path).await {
                    Ok(found) => found,
                    Err(_) => fs.stat(&absolute(&path, ".")).await.unwrap_or(Metadata {
                        file_type: FileType::Directory,
                        size: 0,
                        mode: 0,
                        modified: UNIX_EPOCH,
                        created: UNIX_EPOCH,
                    }),
                };
                items.push(LsEntry { name: name.to_owned(), path, metadata });
            }
        }
        // The listing itself does not contain modes.
        let whole = self.options.style == Style::Long || self.options.mark == IndicatorStyle::All;
        for entry in fs.read_dir(path).await? {
            if entry.name.starts_with('.') && self.options.hidden == HiddenNames::No {
                continue;
            }
            let path = path.join(&entry.name);
            let found = if self.options.follow {
                fs.stat(&path).await.ok()
            } else if whole {
                fs.lstat(&path).await.ok()
            } else {
                None
            };
            let metadata = found.unwrap_or(entry.metadata);
            items.push(LsEntry { name: entry.name, path, metadata });
        }
        Ok(items)
    }

    fn sort(&self, items: &mut [LsEntry]) {
        let extension = |item: &LsEntry| {
            item.name.rsplit_once('.').map_or_else(String::new, |(_, end)| end.to_owned())
        };
        match self.options.order {
            SortOrder::None => return,
            SortOrder::Name => items.sort_by(|a, b| a.name.cmp(&b.name)),
            SortOrder::Size => items.sort_by(|a, b| {
                (Reverse(a.metadata.size), &a.name).cmp(&(Reverse(b.metadata.size), &b.name))
            }),
            SortOrder::Time => items.sort_by(|a, b| {
                let key = |item: &LsEntry| Reverse(item.metadata.modified);
                (key(a), &a.name).cmp(&(key(b), &b.name))
            }),
            SortOrder::Extension => {
                items.sort_by(|a, b| (extension(a), &a.name).cmp(&(extension(b), &b.name)));
            }
        }
        if self.options.reverse {
            items.reverse();
        }
        if self.options.directories_first {
            items.sort_by_key(|item| !item.metadata.file_type.is_dir());
        }
    }

    async fn write(&mut self, items: &[LsEntry], with_total: bool) -> Result<()> {
        self.begun = true;
        let mut text = String::new();
        match self.options.style {
            Style::Names => {
                for item in items {
                    text.push_str(&self.marked(item));
                    text.push('\n');
                }
            }
            Style::Commas => {
                let names: Vec<String> = items.iter().map(|item| self.marked(item)).collect();
                text = format!("{}\n", names.join(", "));
            }
            Style::Long => text = self.long(items, with_total).await,
        }
        self.context.stdout.write_all(text.as_bytes()).await
    }

    async fn long(&self, items: &[LsEntry], with_total: bool) -> String {
        let mut text = String::new();
        if with_total {
            let units = items.iter().map(|item| match item.metadata.file_type {
                FileType::Symlink => 0,
                _ => item.metadata.size.div_ceil(BLOCK_BYTES) * BLOCK_UNITS,
            });
            let units: u64 = units.sum();
            let total = if self.options.human { human(units * 1024) } else { units.to_string() };
            text.push_str(&format!("total {total}\n"));
        }
        let size = |item: &LsEntry| {
            if self.options.human {
                human(item.metadata.size)
            } else {
                item.metadata.size.to_string()
            }
        };
        let width = items.iter().map(|item| size(item).len()).max().unwrap_or(0);
        for item in items {
            let owner = if self.options.no_owner { "" } else { "? " };
            let group = if self.options.no_group { "" } else { "? " };
            let arrow = match item.metadata.file_type {
                FileType::Symlink => {
                    let target = self.context.fs.read_link(&item.path).await;
                    target.map_or_else(
                        // The target of a link that leads outside is not revealed.
                        |_| " -> ?".to_owned(),
                        |target| format!(" -> {}", target.display()),
                    )
                }
                _ => String::new(),
            };
            text.push_str(&format!(
                "{} 1 {owner}{group}{:>width$} {} {}{arrow}\n",
                permissions(&item.metadata),
                size(item),
                self.time(item.metadata.modified),
                if arrow.is_empty() { self.marked(item) } else { item.name.clone() },
            ));
        }
        text
    }

    fn marked(&self, item: &LsEntry) -> String {
        let mark = match (self.options.mark, item.metadata.file_type) {
            (IndicatorStyle::All | IndicatorStyle::Directory, FileType::Directory) => "/",
            (IndicatorStyle::All, FileType::Symlink) => "@",
            (IndicatorStyle::All, FileType::Fifo) => "|",
            (IndicatorStyle::All, FileType::File) if item.metadata.mode & 0o111 != 0 => "*",
            _ => "",
        };
        format!("{}{mark}", item.name)
    }

    fn time(&self, time: SystemTime) -> String {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(0);
        let Some(moment) = DateTime::from_timestamp(seconds, since.subsec_nanos()) else {
            return "?".to_owned();
        };
        if self.options.full_time {
            return moment.format("%Y-%m-%d %H:%M:%S.%f +0000").to_string();
        }
        let age = SystemTime::now().duration_since(time);
        let recent = age.is_ok_and(|age| age.as_secs() < HALF_A_YEAR);
        let format = if recent { "%b %e %H:%M" } else { "%b %e  %Y" };
        moment.format(format).to_string()
    }
}

pub(super) fn permissions(metadata: &Metadata) -> String {
    let kind = match metadata.file_type {
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::File => '-',
    };
    let bit = |shift: u32, letter| if metadata.mode >> shift & 1 == 1 { letter } else { '-' };
    let letters = (0..9).map(|place: u32| bit(8 - place, ['r', 'w', 'x'][place as usize % 3]));
    std::iter::once(kind).chain(letters).collect()
}

/// Formats a size with at most three digits, rounded up, as coreutils does.
pub(super) fn human(bytes: u64) -> String {
    const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut unit = 0;
    let mut size = bytes as f64 / 1024.0;
    while size.ceil() >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    let tenths = (size * 10.0).ceil() / 10.0;
    if tenths < 10.0 {
        format!("{tenths:.1}{}", UNITS[unit])
    } else {
        format!("{:.0}{}", size.ceil(), UNITS[unit])
    }
}

fn parse(arguments: &[String]) -> std::result::Result<(LsOptions, Vec<&str>), String> {
    let mut options = LsOptions::default();
    let mut operands = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--" => operands.extend(arguments.by_ref().map(String::as_str)),
            "--all" => options.hidden = HiddenNames::All,
            "--almost-all" => options.hidden = HiddenNames::ButDots,
            "--directory" => options.directories_themselves = true,
            "--classify" => options.mark = IndicatorStyle::All,
            "--file-type" => options.mark = IndicatorStyle::All,
            "--group-directories-first" => options.directories_first = true,
            "--human-readable" => options.human = true,
            "--recursive" => options.recursive = true,
            "--reverse" => options.reverse = true,
            "--sort=size" => options.order = SortOrder::Size,
            "--sort=time" => options.order = SortOrder::Time,
            "--sort=none" => options.order = SortOrder::None,
            "--sort=name" => options.order = SortOrder::Name,
            "--full-time" | "--time-style=full-iso" => {
                options.style = Style::Long;
                options.full_time = true;
            }
            // Colours need a terminal, and there is none here.
            color if color.starts_with("--color") => {}
            long if long.starts_with("--") => {
                return Err(format!("unrecognized option '{long}'"));
            }
            short if short.len() > 1 && short.starts_with('-') => {
                short[1..].chars().try_for_each(|letter| options.set(letter))?;
            }
            operand => operands.push(operand),
        }
    }
    Ok((options, operands))
}

impl LsOptions {
    fn set(&mut self, letter: char) -> std::result::Result<(), String> {
        match letter {
            '1' => self.style = if self.style == Style::Long { Style::Long } else { Style::Names },
            'C' | 'x' => self.style = Style::Names,
            'a' => self.hidden = HiddenNames::All,
            'A' => self.hidden = HiddenNames::ButDots,
            'd' => self.directories_themselves = true,
            'F' => self.mark = IndicatorStyle::All,
            'p' => self.mark = IndicatorStyle::Directory,
            'f' => (self.order, self.hidden) = (SortOrder::None, HiddenNames::All),
            'g' => (self.style, self.no_owner) = (Style::Long, true),
            'G' => self.no_group = true,
            'h' => self.human = true,
            'k' | 'N' | 'q' => {}
            'l' | 'n' => self.style = Style::Long,
            'L' | 'H' => self.follow = true,
            'm' => self.style = Style::Commas,
            'o' => (self.style, self.no_group) = (Style::Long, true),
            'r' => self.reverse = true,
            'R' => self.recursive = true,
            'S' => self.order = SortOrder::Size,
            't' => self.order = SortOrder::Time,
            'U' => self.order = SortOrder::None,
            'X' => self.order = SortOrder::Extension,
            other => return Err(format!("option -{other} is not supported by this shell")),
        }
        Ok(())
    }
}
