//! `diff`, since the interpreter's has two options and no directories.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};
use chrono::{DateTime, Utc};

use super::options::{OptionSpec, ParsedOptions};
use super::{absolute, inner, reason};

mod edits;

use edits::Hunk;

const OPTIONS: OptionSpec = OptionSpec {
    words: "b,ignore-space-change B,ignore-blank-lines i,ignore-case N,new-file q,brief \
            r,recursive s,report-identical-files u U,unified= w,ignore-all-space \
            ,strip-trailing-cr a,text x,exclude= ,label= ,no-dereference",
    refusal: 2,
};

/// The lines of context, unless a number is given.
const CONTEXT: usize = 3;

/// `diff [-abBiNqrsuw] [-U LINES] [-x NAME] FROM TO`
pub(super) struct Diff;

struct Comparison<'c> {
    context: &'c CommandContext<'c>,
    parsed: &'c ParsedOptions,
    unified: Option<usize>,
    status: i32,
}

/// One side: its name, and its contents.
struct Side {
    name: String,
    contents: Vec<u8>,
    modified: std::time::SystemTime,
}

#[async_trait]
impl Command for Diff {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match OPTIONS.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let unified = match parsed.last_of(&["u", "unified"]) {
            Some("u") => Some(CONTEXT),
            Some(_) => match parsed.value("unified").unwrap_or_default().parse() {
                Ok(lines) => Some(lines),
                Err(_) => return OPTIONS.misused(&context, "invalid context length").await,
            },
            None => None,
        };
        let (from, to) = match parsed.operands.as_slice() {
            [from, to] => (from.clone(), to.clone()),
            [] => return OPTIONS.misused(&context, "missing operand").await,
            [one] => {
                let text = format!("missing operand after '{one}'");
                return OPTIONS.misused(&context, &text).await;
            }
            [_, _, extra, ..] => {
                return OPTIONS.misused(&context, &format!("extra operand '{extra}'")).await;
            }
        };
        let mut comparison = Comparison { context: &context, parsed: &parsed, unified, status: 0 };
        comparison.operands(from, to).await?;
        Ok(CommandStatus::with_code(comparison.status))
    }
}

impl Comparison<'_> {
    async fn print(&mut self, line: &str) -> Result<()> {
        self.context.stdout.write_all(line.as_bytes()).await?;
        self.status = self.status.max(1);
        Ok(())
    }

    async fn complain(&mut self, text: &str) -> Result<()> {
        self.status = OPTIONS.refusal;
        self.context.stderr.write_all(format!("diff: {text}\n").as_bytes()).await
    }

    fn path(&self, name: &str) -> PathBuf {
        absolute(self.context.cwd, name)
    }

    async fn is_dir(&self, name: &str) -> bool {
        let found = self.context.fs.stat(&self.path(name)).await;
        found.is_ok_and(|found| found.file_type.is_dir())
    }

    async fn operands(&mut self, from: String, to: String) -> Result<()> {
        let base =
            |name: &str| name.trim_end_matches('/').rsplit('/').next().unwrap_or("").to_owned();
        let within =
            |dir: &str, name: &str| format!("{}/{}", dir.trim_end_matches('/'), base(name));
        match (self.is_dir(&from).await, self.is_dir(&to).await) {
            (true, true) => self.directories(&from, &to).await,
            (true, false) => self.files(&within(&from, &to), &to, false).await,
            (false, true) => self.files(&from, &within(&to, &from), false).await,
            (false, false) => self.files(&from, &to, false).await,
        }
    }

    async fn directories(&mut self, from: &str, to: &str) -> Result<()> {
        let mut names = [BTreeSet::new(), BTreeSet::new()];
        for (names, dir) in names.iter_mut().zip([from, to]) {
            match self.context.fs.read_dir(&self.path(dir)).await {
                Ok(entries) => names.extend(entries.into_iter().map(|entry| entry.name)),
                Err(error) => self.complain(&format!("{dir}: {}", reason(&error))).await?,
            }
        }
        let [old, new] = names;
        let excluded: BTreeSet<&str> = self.parsed.values("exclude").collect();
        for name in old.union(&new).filter(|name| !is_excluded(&excluded, name)) {
            let beneath = |dir: &str| format!("{}/{name}", dir.trim_end_matches('/'));
            let (left, right) = (beneath(from), beneath(to));
            let dirs = (self.is_dir(&left).await, self.is_dir(&right).await);
            match (old.contains(name), new.contains(name)) {
                (true, true) if dirs == (true, true) => {
                    if self.parsed.has("recursive") {
                        Box::pin(self.directories(&left, &right)).await?;
                    } else {
                        let line = format!("Common subdirectories: {left} and {right}\n");
                        self.context.stdout.write_all(line.as_bytes()).await?;
                    }
                }
                (true, true) if dirs.0 != dirs.1 => {
                    let kind = |dir| if dir { "directory" } else { "regular file" };
                    let (one, other) = (kind(dirs.0), kind(dirs.1));
                    let line = format!("File {left} is a {one} while file {right} is a {other}\n");
                    self.print(&line).await?;
                }
                (true, true) => self.files(&left, &right, true).await?,
                _ if self.parsed.has("new-file") && (dirs.0 || dirs.1) => {
                    Box::pin(self.one_sided(&left, &right)).await?;
                }
                _ if self.parsed.has("new-file") => self.files(&left, &right, true).await?,
                (there, _) => {
                    let dir = if there { from } else { to };
                    self.print(&format!("Only in {}: {name}\n", dir.trim_end_matches('/'))).await?;
                }
            }
        }
        Ok(())
    }

    /// Compares a directory that is on one side only, with `-N`.
    async fn one_sided(&mut self, left: &str, right: &str) -> Result<()> {
        let there = if self.is_dir(left).await { left } else { right };
        for entry in self.context.fs.read_dir(&self.path(there)).await? {
            let (left, right) =
                (format!("{left}/{}", entry.name), format!("{right}/{}", entry.name));
            if entry.metadata.file_type.is_dir() {
                Box::pin(self.one_sided(&left, &right)).await?;
            } else {
                self.files(&left, &right, true).await?;
            }
        }
        Ok(())
    }

    async fn side(&mut self, name: &str) -> Result<Option<Side>> {
        if name == "-" {
            let contents = inner::input(self.context).await?;
            let modified = bashkit::time::SystemTime::now();
            return Ok(Some(Side { name: name.to_owned(), contents, modified }));
        }
        let path = self.path(name);
        let fs = &self.context.fs;
        let read = match fs.read_file(&path).await {
            Ok(contents) => fs.stat(&path).await.map(|found| (contents, found.modified)),
            Err(bashkit::Error::Io(error))
                if error.kind() == std::io::ErrorKind::NotFound && self.parsed.has("new-file") =>
            {
                Ok((Vec::new(), std::time::UNIX_EPOCH))
            }
            Err(error) => Err(error),
        };
        match read {
            Ok((contents, modified)) => {
                Ok(Some(Side { name: name.to_owned(), contents, modified }))
            }
            Err(error) => {
                self.complain(&format!("{name}: {}", reason(&error))).await?;
                Ok(None)
            }
        }
    }

    /// Compares two files. For files inside compared directories, it first prints the command that
    /// would compare only those two.
    async fn files(&mut self, from: &str, to: &str, within: bool) -> Result<()> {
        let (old, new) = (self.side(from).await?, self.side(to).await?);
        let (Some(old), Some(new)) = (old, new) else { return Ok(()) };
        let alike = |line: &[u8]| self.alike(line);
        let same = old.contents == new.contents;
        let binary = |contents: &[u8]| contents.contains(&0) && !self.parsed.has("text");
        if !same && (binary(&old.contents) || binary(&new.contents)) {
            let start = if self.parsed.has("brief") { "Files" } else { "Binary files" };
            self.print(&format!("{start} {from} and {to} differ\n")).await?;
            return Ok(());
        }
        let (left, right) = (edits::lines(&old.contents), edits::lines(&new.contents));
        let mut changes = if same { Vec::new() } else { edits::compare(&left, &right, &alike) };
        if self.parsed.has("ignore-blank-lines") {
            let blank = |line: &&[u8]| line.iter().all(u8::is_ascii_whitespace);
            changes.retain(|change| {
                !(left[change.old.clone()].iter().all(blank)
                    && right[change.new.clone()].iter().all(blank))
            });
        }
        if changes.is_empty() {
            if self.parsed.has("report-identical-files") {
                let line = format!("Files {from} and {to} are identical\n");
                self.context.stdout.write_all(line.as_bytes()).await?;
            }
            return Ok(());
        }
        self.status = self.status.max(1);
        if self.parsed.has("brief") {
            return self.print(&format!("Files {from} and {to} differ\n")).await;
        }
        let mut out = Vec::new();
        if within {
            let options = self.context.args.iter().filter(|a| a.starts_with('-') && a.len() > 1);
            let options: String = options.map(|option| format!(" {option}")).collect();
            out.extend(format!("diff{options} {from} {to}\n").bytes());
        }
        match self.unified {
            Some(around) => {
                let labels: Vec<&str> = self.parsed.values("label").collect();
                for (mark, side, label) in
                    [("---", &old, labels.first()), ("+++", &new, labels.get(1))]
                {
                    let title = label.map_or_else(|| title(side), |label| (*label).to_owned());
                    out.extend(format!("{mark} {title}\n").bytes());
                }
                for hunk in Hunk::gather(&changes, around, left.len(), right.len()) {
                    hunk.write_unified(&mut out, &left, &right);
                }
            }
            None => changes.iter().for_each(|change| change.write_normal(&mut out, &left, &right)),
        }
        self.context.stdout.write_all(&out).await
    }

    /// Returns the form of a line that is compared.
    fn alike(&self, line: &[u8]) -> Vec<u8> {
        let has = |name| self.parsed.has(name);
        let mut line = line.to_vec();
        if has("strip-trailing-cr") && line.ends_with(b"\r\n") {
            line.truncate(line.len() - 2);
            line.push(b'\n');
        }
        if has("ignore-all-space") {
            line.retain(|byte| !byte.is_ascii_whitespace());
        } else if has("ignore-space-change") {
            let words = line.split(u8::is_ascii_whitespace).enumerate();
            let words =
                words.filter(|(at, word)| *at == 0 || !word.is_empty()).map(|(_, word)| word);
            line = words.collect::<Vec<_>>().join(&b' ');
        }
        if has("ignore-case") {
            line.make_ascii_lowercase();
        }
        line
    }
}

fn is_excluded(excluded: &BTreeSet<&str>, name: &str) -> bool {
    excluded.iter().any(|pattern| match pattern.split_once('*') {
        None => *pattern == name,
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    })
}

fn title(side: &Side) -> String {
    let modified: DateTime<Utc> = side.modified.into();
    format!("{}\t{}", side.name, modified.format("%Y-%m-%d %H:%M:%S.%9f %z"))
}
