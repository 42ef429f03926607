//! `ikigai audit`: what was called, by whom, and what came of it.

mod filter;
mod story;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::filter::{Filter, OutcomeFilter, parse_time};
use self::story::{HEADINGS, Story, columns};
use super::cancelled_by_signals;
use super::list::plain_table;
use crate::complete;
use crate::error::{self, CliError};
use crate::options::Options;
use crate::output::{eprint, print, print_exact};
use ikigai_host::audit::{Batch, Line, Reader};

/// How many calls are shown before those that come, unless it is said.
const FOLLOWED_TAIL: usize = 10;

/// How often the log is looked at for more.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only calls of this tool; may be repeated
    #[arg(long = "tool", value_name = "NAME", add = complete::tools())]
    tools: Vec<String>,
    /// Only calls that ended so: ok, failed, or an error code such as TOOL_TIMEOUT
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<OutcomeFilter>,
    /// Only calls from this time on: 2026-01-31T12:00:00Z, 2026-01-31, or 10m for ten
    /// minutes ago
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Only calls before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Timestamp>,
    /// Only the last N of them; of one alone everything is told
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
    /// Tell everything of each call
    #[arg(long, conflicts_with = "json")]
    long: bool,
    /// Print the records as they are, one JSON object a line
    #[arg(long)]
    json: bool,
    /// Go on with those that come, until interrupted
    #[arg(long)]
    follow: bool,
}

pub(super) async fn run(options: &Options, arguments: Arguments) -> Result<ExitCode, CliError> {
    let dir = options.paths().state.ok_or_else(|| {
        let text = "there is no place for an audit log";
        CliError::usage(anyhow::Error::msg(text)).hint("set HOME or XDG_STATE_HOME")
    })?;
    let mut reader = Reader::open(&dir).map_err(|error| refused(error, &dir))?;
    let filter = Filter {
        tools: arguments.tools,
        outcome: arguments.outcome,
        since: arguments.since,
        until: arguments.until,
    };
    let form = if arguments.json {
        Form::Json
    } else if arguments.long || (arguments.tail == Some(1) && !arguments.follow) {
        Form::Stories
    } else {
        Form::Table
    };
    let most = arguments.tail.unwrap_or(if arguments.follow { FOLLOWED_TAIL } else { usize::MAX });
    let mut printer = Printer { form, zone: TimeZone::system(), filter, damaged: 0 };
    let lines = printer.last(&mut reader, most)?;
    if arguments.follow {
        return printer.follow(reader, lines).await;
    }
    if reader.is_torn() {
        printer.damaged += 1;
    }
    printer.print_all(&lines)?;
    printer.print_damaged();
    if lines.is_empty() {
        eprint(&format!("no such calls are recorded in {}\n", dir.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn refused(error: std::io::Error, dir: &Path) -> CliError {
    let text = format!("the audit log in `{}` is not read", dir.display());
    CliError::failed(anyhow::Error::new(error).context(text))
        .hint("move away what is not ikigai's; `ikigai doctor` says what the log should be")
}

/// How records are told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Table,
    Stories,
}

struct Printer {
    form: Form,
    zone: TimeZone,
    filter: Filter,
    /// Lines that are no records.
    damaged: u64,
}

impl Printer {
    /// The last calls that are asked for, oldest first.
    fn last(&mut self, reader: &mut Reader, most: usize) -> Result<Vec<Line>, CliError> {
        let mut lines: VecDeque<Line> = VecDeque::new();
        while lines.len() < most
            && let Some(batch) = reader.read_back()
        {
            let wanted = self.wanted(batch?);
            wanted.into_iter().rev().take(most - lines.len()).for_each(|it| lines.push_front(it));
        }
        Ok(lines.into())
    }

    fn wanted(&mut self, batch: Batch) -> Vec<Line> {
        self.damaged += batch.damaged;
        batch.lines.into_iter().filter(|line| self.filter.takes(&line.record)).collect()
    }

    fn print_all(&self, lines: &[Line]) -> Result<(), CliError> {
        if self.form != Form::Table {
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

    /// Goes on with what comes, each as soon as it is there.
    async fn follow(mut self, mut reader: Reader, lines: Vec<Line>) -> Result<ExitCode, CliError> {
        let cancel = cancelled_by_signals()?;
        if self.form == Form::Table {
            print(&row(HEADINGS.map(|(name, _)| name.to_owned())))?;
        }
        self.print_each(&lines)?;
        loop {
            self.print_damaged();
            let pause = tokio::time::sleep(POLL_INTERVAL);
            if cancel.run_until_cancelled(pause).await.is_none() {
                return Ok(ExitCode::from(error::INTERRUPTED));
            }
            // Found out now, not when the next call comes.
            if nobody_reads() {
                return Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into());
            }
            let lines = self.wanted(reader.read_new()?);
            self.print_each(&lines)?;
        }
    }

    fn print_each(&self, lines: &[Line]) -> Result<(), CliError> {
        let mut text = String::new();
        for line in lines {
            match self.form {
                Form::Json => {
                    // A line that was read as a record is text.
                    text.push_str(&String::from_utf8_lossy(&line.text));
                    text.push('\n');
                }
                Form::Table => {
                    text.push_str(&row(columns(&line.record, &self.zone)));
                }
                Form::Stories => {
                    let story = Story { record: &line.record, zone: &self.zone };
                    // Writing to a string cannot fail.
                    let _ = writeln!(text, "{story}");
                }
            }
        }
        // The last story ends the output.
        if self.form == Form::Stories && text.ends_with("\n\n") {
            text.pop();
        }
        match self.form {
            Form::Json => print_exact(&text),
            Form::Table | Form::Stories => print(&text),
        }
    }

    /// Says how many lines were no records, once for each time they were met.
    fn print_damaged(&mut self) {
        match std::mem::take(&mut self.damaged) {
            0 => {}
            1 => eprint("warning: 1 line of the audit log is damaged, and was left out\n"),
            count => {
                eprint(&format!(
                    "warning: {count} lines of the audit log are damaged, and were left out\n"
                ));
            }
        }
    }
}

/// A line of a table whose other lines are not known yet.
fn row(columns: [String; HEADINGS.len()]) -> String {
    let mut text = String::new();
    for ((_, width), column) in HEADINGS.iter().zip(columns) {
        text.push_str(&format!(" {column:width$} "));
    }
    format!("{}\n", text.trim_end())
}

/// Whether stdout is a pipe, or a terminal, that has lost its other end.
fn nobody_reads() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok()
        && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
