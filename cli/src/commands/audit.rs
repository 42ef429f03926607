//! `ikigai audit`: the recorded calls, as a table, in detail, or as JSON.

mod details;
pub(super) mod filter;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use strum::VariantArray as _;

use self::details::{CallDetails, HEADINGS, columns};
use self::filter::{Filter, OutcomeFilter, parse_time};
use super::cancelled_by_signals;
use super::tool::list::plain_table;
use crate::choice;
use crate::complete;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{eprint, print, print_exact};
use ikigai_host::audit::{Batch, LogLine, LogReader, Record, Via};

/// The number of calls that `--follow` shows before new ones, unless `--tail` sets it.
const FOLLOWED_TAIL: usize = 10;

/// The interval at which the log is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Example uses of the command.
pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai audit --failed --since today\n  \
    ikigai audit --tool bash --since yesterday --until today\n  \
    ikigai audit --tail 1\n\n\
    A call is shown if it meets every flag. `--tool bash --tool grep` shows the calls of both \
    tools, and `--outcome failed --refused` shows the failed calls that were refused something.\n\n\
    `--audit-arguments`, or `audit_arguments = true` in the configuration, records the text of arguments.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only calls of this tool; may be repeated
    #[arg(long = "tool", value_name = "NAME", add = complete::tools())]
    tools: Vec<String>,
    /// Only calls that failed, were refused something, or whose answer reports an error
    #[arg(long)]
    failed: bool,
    /// Only calls with this outcome: ok, failed, cancelled, or an error code such as TOOL_TIMEOUT
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<OutcomeFilter>,
    /// Only calls that were refused, or whose tool was refused an access
    #[arg(long)]
    refused: bool,
    /// Only what this command did; may be repeated
    #[arg(long, value_name = "COMMAND", value_parser = choice::parser(Via::VARIANTS, via_help))]
    via: Vec<Via>,
    /// Only calls from this time on: 2026-01-31T12:00:00Z, 2026-01-31, yesterday, or 10m for ten
    /// minutes ago
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Only calls before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Timestamp>,
    /// Only the call with this id, shown in full; ID is the text in the column ID, or the beginning
    /// of the whole id; may be repeated
    #[arg(long = "id", value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    ids: Vec<String>,
    /// Only the last N calls; a single call is shown in full
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
    /// Show every detail of each call
    #[arg(long, conflicts_with = "json")]
    long: bool,
    /// Print the records as they are, one JSON object per line
    #[arg(long)]
    json: bool,
    /// Keep printing new calls, until interrupted
    #[arg(long)]
    follow: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let dir = options.paths().state.ok_or_else(|| {
        let text = "no directory is known for the audit log";
        CliError::usage(anyhow::Error::msg(text)).hint("set HOME or XDG_STATE_HOME")
    })?;
    let mut reader = LogReader::open(&dir).map_err(|error| refused(error, &dir))?;
    let filter = Filter {
        ids: arguments.ids.iter().map(|id| id.to_lowercase()).collect(),
        tools: arguments.tools,
        outcome: arguments.outcome,
        refused: arguments.refused,
        failed: arguments.failed,
        via: arguments.via,
        since: arguments.since,
        until: arguments.until,
    };
    let is_of_few = arguments.tail == Some(1) || !arguments.ids.is_empty();
    let form = if arguments.json {
        RecordForm::Json
    } else if arguments.long || (is_of_few && !arguments.follow) {
        RecordForm::Long
    } else {
        RecordForm::Table
    };
    let most = arguments.tail.unwrap_or(if arguments.follow { FOLLOWED_TAIL } else { usize::MAX });
    let mut printer = RecordPrinter { form, zone: TimeZone::system(), filter, damaged: 0 };
    let lines = printer.last(&mut reader, most)?;
    if arguments.follow {
        return printer.follow(reader, lines).await;
    }
    if reader.is_torn() {
        printer.damaged += 1;
    }
    printer.print_all(&lines)?;
    printer.print_damaged();
    if form == RecordForm::Table && lines.iter().any(|line| lacks_arguments(&line.record)) {
        eprint(ARGUMENTS_NOTE);
    }
    if lines.is_empty() && most > 0 {
        eprint(&format!("no such calls are recorded in `{}`\n", dir.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The note below a table of calls whose arguments were not recorded.
const ARGUMENTS_NOTE: &str = "The arguments of these calls were not recorded. `--audit-arguments` \
    records them for one command; `audit_arguments = true` in the configuration, for every call.\n";

/// Returns whether a call had arguments whose text was not recorded.
fn lacks_arguments(record: &Record) -> bool {
    record.arguments.as_ref().is_some_and(|arguments| arguments.text.is_none())
}

fn via_help(via: Via) -> Option<&'static str> {
    Some(match via {
        Via::Call => "Calls by `tool call`, and by models",
        Via::Run => "Calls by `tool run`",
        Via::Check => "Calls by `tool check`",
        Via::Mcp => "Calls by clients of `mcp serve`",
        Via::Install => "Tools that were installed, updated or removed",
    })
}

/// Returns the error for a log that cannot be read.
pub(super) fn refused(error: std::io::Error, dir: &Path) -> CliError {
    let text = format!("cannot read the audit log in `{}`", dir.display());
    CliError::failed(anyhow::Error::new(error).context(text))
        .hint("move away files that are not ikigai's; `ikigai doctor` shows what is wrong")
}

/// The form in which records are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordForm {
    Json,
    Table,
    Long,
}

struct RecordPrinter {
    form: RecordForm,
    zone: TimeZone,
    filter: Filter,
    /// The number of lines that are not records.
    damaged: u64,
}

impl RecordPrinter {
    /// Reads the last calls that match the filter, oldest first.
    fn last(&mut self, reader: &mut LogReader, most: usize) -> Result<Vec<LogLine>, CliError> {
        let mut lines: VecDeque<LogLine> = VecDeque::new();
        while lines.len() < most
            && let Some(batch) = reader.read_back()
        {
            let wanted = self.wanted(batch?);
            wanted.into_iter().rev().take(most - lines.len()).for_each(|it| lines.push_front(it));
        }
        Ok(lines.into())
    }

    fn wanted(&mut self, batch: Batch) -> Vec<LogLine> {
        self.damaged += batch.damaged;
        batch.lines.into_iter().filter(|line| self.filter.takes(&line.record)).collect()
    }

    fn print_all(&self, lines: &[LogLine]) -> Result<(), CliError> {
        if self.form != RecordForm::Table {
            return self.print_each(lines);
        }
        if lines.is_empty() {
            return Ok(());
        }
        let mut table = plain_table();
        table.set_header(HEADINGS.map(|(name, _)| name));
        for line in lines {
            table.add_row(columns(&line.record, &self.zone));
        }
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        print(&format!("{}\n", lines.join("\n")))
    }

    /// Prints these calls, and then each new one as soon as it is recorded.
    async fn follow(
        mut self,
        mut reader: LogReader,
        lines: Vec<LogLine>,
    ) -> Result<ExitCode, CliError> {
        let cancel = cancelled_by_signals()?;
        if self.form == RecordForm::Table {
            print(&row(HEADINGS.map(|(name, _)| name.to_owned())))?;
        }
        self.print_each(&lines)?;
        loop {
            self.print_damaged();
            let pause = tokio::time::sleep(POLL_INTERVAL);
            if cancel.run_until_cancelled(pause).await.is_none() {
                return Ok(ExitCode::from(error::INTERRUPTED));
            }
            // Checked now, and not when the next call is printed.
            if nobody_reads() {
                return Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into());
            }
            let lines = self.wanted(reader.read_new()?);
            self.print_each(&lines)?;
        }
    }

    fn print_each(&self, lines: &[LogLine]) -> Result<(), CliError> {
        let mut text = String::new();
        for line in lines {
            match self.form {
                RecordForm::Json => {
                    // A line that was parsed as a record is valid UTF-8.
                    text.push_str(&String::from_utf8_lossy(&line.text));
                    text.push('\n');
                }
                RecordForm::Table => {
                    text.push_str(&row(columns(&line.record, &self.zone)));
                }
                RecordForm::Long => {
                    let details = CallDetails { record: &line.record, zone: &self.zone };
                    // Writing to a string cannot fail.
                    let _ = writeln!(text, "{details}");
                }
            }
        }
        // Print no empty line at the end.
        if self.form == RecordForm::Long && text.ends_with("\n\n") {
            text.pop();
        }
        match self.form {
            RecordForm::Json => print_exact(&text),
            RecordForm::Table | RecordForm::Long => print(&text),
        }
    }

    /// Prints the number of damaged lines since the last time.
    fn print_damaged(&mut self) {
        warn_damaged(std::mem::take(&mut self.damaged));
    }
}

/// Prints how many lines of the log are not records, if there are any.
pub(super) fn warn_damaged(count: u64) {
    match count {
        0 => {}
        1 => eprint("warning: 1 line of the audit log is damaged, and was left out\n"),
        count => {
            eprint(&format!(
                "warning: {count} lines of the audit log are damaged, and were left out\n"
            ));
        }
    }
}

/// Returns a line of a table whose other lines are not known yet.
fn row(columns: [String; HEADINGS.len()]) -> String {
    let mut text = String::new();
    for ((_, width), column) in HEADINGS.iter().zip(columns) {
        text.push_str(&format!(" {column:width$} "));
    }
    format!("{}\n", text.trim_end())
}

/// Returns true if stdout is a pipe or a terminal whose other end is closed.
fn nobody_reads() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok()
        && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
