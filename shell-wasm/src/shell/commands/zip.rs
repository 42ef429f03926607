//! `zip` and `unzip`. The interpreter's versions use a private format that no other program can
//! read.

use std::io::{Cursor, Read as _, Write as _};
use std::time::SystemTime;

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};
use chrono::{DateTime as Time, Datelike as _, NaiveDate, Timelike as _, Utc};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::answer::ConfirmationInput;
use super::options::OptionSpec;
use super::{absolute, fail, reason};

/// One member of an archive.
struct ArchiveMember {
    /// The name, with a slash at the end for a directory.
    name: String,
    contents: Vec<u8>,
    modified: Option<DateTime>,
    stored: bool,
}

/// `zip [-jqr] ARCHIVE FILE…`
pub(super) struct Zip;

const ZIP: OptionSpec = OptionSpec { words: "# j,junk-paths q,quiet r,recurse-paths", refusal: 16 };

#[async_trait]
impl Command for Zip {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match ZIP.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let [archive, files @ ..] = parsed.operands.as_slice() else {
            return ZIP.misused(&context, "missing operand").await;
        };
        let named = archive.rsplit('/').next().unwrap_or_default().contains('.');
        let archive = if named { archive.clone() } else { format!("{archive}.zip") };
        let place = absolute(context.cwd, &archive);
        let mut members = match context.fs.read_file(&place).await {
            Ok(contents) => match members(contents) {
                Ok(members) => members,
                Err(error) => return failed(&context, &format!("{archive}: {error}")).await,
            },
            Err(_) => Vec::new(),
        };
        let mut pending: Vec<String> = files.iter().rev().cloned().collect();
        while let Some(file) = pending.pop() {
            let path = absolute(context.cwd, &file);
            let Ok(found) = context.fs.stat(&path).await else {
                return failed(&context, &format!("name not matched: {file}")).await;
            };
            let directory = found.file_type.is_dir();
            let mut contents = Vec::new();
            if !directory {
                contents = match context.fs.read_file(&path).await {
                    Ok(contents) => contents,
                    Err(error) => {
                        return failed(&context, &format!("{file}: {}", reason(&error))).await;
                    }
                };
            } else if parsed.has("recurse-paths") {
                let mut entries = context.fs.read_dir(&path).await?;
                entries.sort_by(|one, other| other.name.cmp(&one.name));
                let dir = file.trim_end_matches('/');
                pending.extend(entries.iter().map(|entry| format!("{dir}/{}", entry.name)));
            }
            let mut name = file.trim_start_matches("./").trim_matches('/').to_owned();
            if parsed.has("junk-paths") {
                name = name.rsplit('/').next().unwrap_or_default().to_owned();
            }
            if name.is_empty() || name == "." || directory && parsed.has("junk-paths") {
                continue;
            }
            let name = if directory { format!("{name}/") } else { name };
            let modified = stamp(found.modified);
            let stored = contents.is_empty();
            let verb = if members.iter().any(|member| member.name == name) {
                members.retain(|member| member.name != name);
                "updating"
            } else {
                "  adding"
            };
            members.push(ArchiveMember { name: name.clone(), contents, modified, stored });
            if !parsed.has("quiet") {
                context.stdout.write_all(format!("{verb}: {name}\n").as_bytes()).await?;
            }
        }
        if members.is_empty() {
            return failed(&context, &format!("nothing to do for {archive}")).await;
        }
        let written = match write(&members) {
            Ok(written) => written,
            Err(error) => return failed(&context, &format!("{archive}: {error}")).await,
        };
        match context.fs.write_file(&place, &written).await {
            Ok(()) => Ok(CommandStatus::success()),
            Err(error) => failed(&context, &format!("{archive}: {}", reason(&error))).await,
        }
    }
}

/// Ends either command with the exit code for errors of files.
async fn failed(context: &CommandContext<'_>, text: &str) -> Result<CommandStatus> {
    const NOTHING_DONE: i32 = 12;
    fail(context, text).await?;
    Ok(CommandStatus::with_code(NOTHING_DONE))
}

/// Returns the time of a file in the form of archives, which begins in 1980.
fn stamp(modified: SystemTime) -> Option<DateTime> {
    let time: Time<Utc> = modified.into();
    let small = |number: u32| u8::try_from(number).ok();
    DateTime::from_date_and_time(
        u16::try_from(time.year()).ok()?,
        small(time.month())?,
        small(time.day())?,
        small(time.hour())?,
        small(time.minute())?,
        small(time.second())?,
    )
    .ok()
}

fn members(contents: Vec<u8>) -> zip::result::ZipResult<Vec<ArchiveMember>> {
    let mut archive = ZipArchive::new(Cursor::new(contents))?;
    let mut members = Vec::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index)?;
        let mut contents = Vec::new();
        file.read_to_end(&mut contents)?;
        members.push(ArchiveMember {
            name: file.name()?.into_owned(),
            contents,
            modified: file.last_modified(),
            stored: file.compression() == CompressionMethod::Stored,
        });
    }
    Ok(members)
}

fn write(members: &[ArchiveMember]) -> zip::result::ZipResult<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for member in members {
        let method =
            if member.stored { CompressionMethod::Stored } else { CompressionMethod::Deflated };
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .last_modified_time(member.modified.unwrap_or_default());
        if member.name.ends_with('/') {
            writer.add_directory(member.name.as_str(), options)?;
        } else {
            writer.start_file(member.name.as_str(), options)?;
            writer.write_all(&member.contents)?;
        }
    }
    Ok(writer.finish()?.into_inner())
}

/// `unzip [-jlnopq] [-d DIRECTORY] ARCHIVE [FILE…]`
pub(super) struct Unzip;

const UNZIP: OptionSpec = OptionSpec { words: "d= j l n o p q", refusal: 10 };

#[async_trait]
impl Command for Unzip {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match UNZIP.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let [archive, wanted @ ..] = parsed.operands.as_slice() else {
            return UNZIP.misused(&context, "missing operand").await;
        };
        let mut contents = context.fs.read_file(&absolute(context.cwd, archive)).await;
        if contents.is_err() {
            contents =
                context.fs.read_file(&absolute(context.cwd, &format!("{archive}.zip"))).await;
        }
        let found = match contents {
            Ok(contents) => members(contents).map_err(|error| error.to_string()),
            Err(error) => Err(reason(&error)),
        };
        let mut found = match found {
            Ok(found) => found,
            Err(error) => {
                fail(&context, &format!("cannot open {archive}: {error}")).await?;
                return Ok(CommandStatus::with_code(9));
            }
        };
        found.retain(|member| wanted.is_empty() || wanted.contains(&member.name));
        if parsed.has("p") {
            for member in &found {
                context.stdout.write_all(&member.contents).await?;
            }
            return Ok(CommandStatus::success());
        }
        let mut said =
            if parsed.has("q") { String::new() } else { format!("Archive:  {archive}\n") };
        if parsed.has("l") {
            said.push_str(&listed(&found));
            context.stdout.write_all(said.as_bytes()).await?;
            return Ok(CommandStatus::success());
        }
        context.stdout.write_all(said.as_bytes()).await?;
        let mut status = CommandStatus::with_code(if found.is_empty() { 11 } else { 0 });
        let mut answers = ConfirmationInput::from_context(&context);
        let directory = parsed.value("d").unwrap_or_default().trim_end_matches('/');
        for member in &found {
            let last = member.name.rsplit('/').next().unwrap_or_default();
            let inner = if parsed.has("j") { last } else { &member.name };
            if inner.is_empty() {
                continue;
            }
            // A member must not lead out of the directory.
            if inner.starts_with('/') || inner.split('/').any(|part| part == "..") {
                status = failed(&context, &format!("{inner}: leads out of the directory")).await?;
                continue;
            }
            let name = if directory.is_empty() {
                inner.to_owned()
            } else {
                format!("{directory}/{inner}")
            };
            let place = absolute(context.cwd, &name);
            let there = context.fs.lstat(&place).await.is_ok();
            let verb = if name.ends_with('/') {
                if there {
                    continue;
                }
                context.fs.mkdir(&place, true).await?;
                "   creating"
            } else {
                if there && parsed.has("n") {
                    continue;
                }
                if there
                    && !parsed.has("o")
                    && !answers.agree(&context, &format!("replace {name}")).await?
                {
                    continue;
                }
                if let Some(parent) = place.parent() {
                    context.fs.mkdir(parent, true).await?;
                }
                if let Err(error) = context.fs.write_file(&place, &member.contents).await {
                    status = failed(&context, &format!("{name}: {}", reason(&error))).await?;
                    continue;
                }
                if let Some(time) = member.modified.and_then(time) {
                    context.fs.set_modified_time(&place, time).await?;
                }
                if member.stored { " extracting" } else { "  inflating" }
            };
            if !parsed.has("q") {
                let end = if name.ends_with('/') { "" } else { "  " };
                context.stdout.write_all(format!("{verb}: {name}{end}\n").as_bytes()).await?;
            }
        }
        Ok(status)
    }
}

fn time(stamp: DateTime) -> Option<SystemTime> {
    let date =
        NaiveDate::from_ymd_opt(stamp.year().into(), stamp.month().into(), stamp.day().into())?;
    let time =
        date.and_hms_opt(stamp.hour().into(), stamp.minute().into(), stamp.second().into())?;
    Some(time.and_utc().into())
}

fn listed(members: &[ArchiveMember]) -> String {
    let mut text =
        "  Length      Date    Time    Name\n---------  ---------- -----   ----\n".to_owned();
    let mut total = 0;
    for member in members {
        let stamp = member.modified.unwrap_or_default();
        total += member.contents.len();
        text.push_str(&format!(
            "{:>9}  {:04}-{:02}-{:02} {:02}:{:02}   {}\n",
            member.contents.len(),
            stamp.year(),
            stamp.month(),
            stamp.day(),
            stamp.hour(),
            stamp.minute(),
            member.name
        ));
    }
    let files = if members.len() == 1 { "file" } else { "files" };
    text.push_str("---------                     -------\n");
    text.push_str(&format!("{total:>9}                     {} {files}\n", members.len()));
    text
}
