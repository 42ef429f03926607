//! One record for people: a row of a table, or all details of the call.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytesize::ByteSize;
use ikigai_protocol::is_invisible;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::filter::short_id;
use crate::commands::tool::list::plain_table;
use ikigai_host::audit::{
    Arguments, GrantSummary, InstallationRecord, ProgramRecord, QuestionRecord, Record, Via,
};
use ikigai_host::policy::RequestedAccess;
use ikigai_supervisor::isolation::Isolation;

/// The columns of the table, and the width of each if the other rows are not known yet.
pub(super) const HEADINGS: [(&str, usize); 9] = [
    ("ID", 8),
    ("TIME", 19),
    ("TOOL", 16),
    ("BACKEND", 7),
    ("SANDBOX", 10),
    ("OUTCOME", 17),
    ("ENDED WITH", 17),
    ("TOOK", 8),
    ("REFUSED", 0),
];

/// Returns a row of the table.
pub(super) fn columns(record: &Record, zone: &TimeZone) -> [String; HEADINGS.len()] {
    let none = || "-".to_owned();
    [
        plain(short_id(&record.id)),
        record.time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        plain(&short_name(&record.tool)),
        record.program.as_ref().map_or_else(none, |program| plain(&program.backend)),
        sandbox(record).to_owned(),
        result(record),
        end(record).or_else(|| answer(record)).unwrap_or_default(),
        if record.installed.is_some() { none() } else { took(own_time(record)) },
        refused(record),
    ]
}

/// Returns the name of a tool, or the last part of its path if the call named the tool by path.
fn short_name(tool: &str) -> Cow<'_, str> {
    match tool.rsplit_once('/') {
        Some((_, name)) => Cow::Owned(format!("…/{name}")),
        None => Cow::Borrowed(tool),
    }
}

/// Returns the time of a call without the time that the user took to answer, in microseconds.
fn own_time(record: &Record) -> u64 {
    record.total_us.saturating_sub(record.waited_us())
}

/// Returns the error that the tool's own answer reports.
fn answer(record: &Record) -> Option<String> {
    record.answer.as_ref().map(|error| plain(&error.to_string()))
}

/// Returns the first refused access, and the number of other refusals.
fn refused(record: &Record) -> String {
    match &record.refusals()[..] {
        [] if record.is_refused() => THE_CALL.to_owned(),
        [] => String::new(),
        [one] => refusal(one),
        [first, others @ ..] => format!("{}, and {} more", refusal(first), others.len()),
    }
}

/// The refusal if the tool may not run at all.
const THE_CALL: &str = "the call itself";

/// Returns a refused access in the words of the table.
fn refusal(access: &str) -> String {
    if access == RequestedAccess::Run.to_string() { THE_CALL.to_owned() } else { plain(access) }
}

/// Returns the outcome of a call or of an installation.
fn result(record: &Record) -> String {
    match &record.installed {
        Some(installed) => format!("{} {}", plain(&installed.action), plain(&record.outcome)),
        None => plain(&record.outcome),
    }
}

/// Returns the isolation of the call in one word, as `tool list` has it.
fn sandbox(record: &Record) -> &'static str {
    let asked = record.grant.as_ref().and_then(|grant| grant.sandbox.as_deref());
    match (&record.isolation, asked) {
        _ if record.exit_code.is_none() => "-",
        (_, Some("off")) if !is_of_the_system(record) => "unconfined",
        (Some(isolation), _) if isolation.unmet().next().is_none() => "sandboxed",
        (Some(isolation), _) if is_of_the_system(record) && !isolation.fs.is_enforced() => {
            "self-confined"
        }
        (Some(_), _) => "partial",
        (None, _) => "-",
    }
}

fn is_of_the_system(record: &Record) -> bool {
    record.program.as_ref().is_some_and(|program| program.origin == "system")
}

/// Returns the reason why the call ended, unless it exited with 0.
fn end(record: &Record) -> Option<String> {
    if record.cancelled {
        return Some("cancelled".to_owned());
    }
    if let Some(limit) = &record.limit {
        return Some(plain(limit));
    }
    record.exit_code.filter(|code| *code != 0).map(|code| format!("exit {code}"))
}

/// All details of a call.
pub(super) struct CallDetails<'a> {
    pub(super) record: &'a Record,
    pub(super) zone: &'a TimeZone,
}

impl fmt::Display for CallDetails<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.record;
        let mut table = plain_table();
        let mut row = |name: &str, value: String| {
            table.add_row([name.to_owned(), value]);
        };
        row("tool", heading(record));
        let time = local(record.time, self.zone);
        if let Some(installed) = &record.installed {
            row("time", time);
            row("record", plain(&record.id));
            row("installation", installation(installed));
        } else {
            row("time", format!("{time}, took {}", times(record)));
            row("call", format!("{} (`{}`)", plain(&record.id), command(record.via)));
        }
        if let Some(principal) = &record.principal {
            row("principal", plain(principal).to_string());
        }
        if let Some(client) = &record.client {
            row("client", format!("{}, as it calls itself", plain(client)));
        }
        row("outcome", outcome(record));
        if let Some(QuestionRecord { answer, by, waited_ms }) = &record.consent {
            let by = by.as_ref().map(|by| format!(" by the {}", plain(by))).unwrap_or_default();
            row("may it run", format!("{}{by}, after {waited_ms} ms", plain(answer)));
        }
        if let Some(program) = &record.program {
            row("program", self::program(program));
        }
        if let Some(ms) = record.extended_to_ms {
            let time = humantime::format_duration(Duration::from_millis(ms));
            row("time limit", format!("extended to {time} while it ran"));
        }
        row("workspace", plain(&record.workspace));
        if let Some(arguments) = &record.arguments {
            row("arguments", self::arguments(arguments));
        }
        if let Some(grant) = &record.grant {
            row("files", files(grant));
            row("network", network(grant));
            row("variables", variables(grant));
            if let Some(assets) = &grant.assets {
                row("assets", plain(assets));
            }
            if !grant.sources.is_empty() {
                row("granted by", lines_or(grant.sources.iter(), ""));
            }
            if let Some(sandbox) = &grant.sandbox {
                row("sandbox", format!("asked for: {}", plain(sandbox)));
            }
        }
        for (boundary, state) in record.isolation.iter().flat_map(Isolation::describe) {
            row(&format!("kept: {boundary}"), plain(&state));
        }
        if let Some(places) = record.isolation.as_ref().and_then(|it| it.places.as_ref()) {
            row("kept: places", plain(&places.to_string()));
        }
        let refusals = record.refusals();
        if !refusals.is_empty() {
            let refusals: Vec<String> = refusals.iter().map(|it| refusal(it)).collect();
            row("was refused", lines_or(refusals.iter(), ""));
        }
        if record.exit_code.is_some() {
            row("used", used(record));
        }
        for line in table.to_string().lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn heading(record: &Record) -> String {
    let name = plain(&record.tool);
    match &record.program {
        Some(_) if is_of_the_system(record) => format!("{name}, a built-in tool"),
        Some(program) => format!("{name}, a {} tool", plain(&program.origin)),
        None => name,
    }
}

fn times(record: &Record) -> String {
    let own = record.duration_us.map(|own| format!("{} of it the tool", took(own)));
    let waited = Some(record.waited_us()).filter(|waited| *waited > 0);
    let waited = waited.map(|waited| format!("plus {} for your answers", took(waited)));
    let parts: Vec<String> = own.into_iter().chain(waited).collect();
    match parts.is_empty() {
        true => took(own_time(record)),
        false => format!("{} ({})", took(own_time(record)), parts.join(", ")),
    }
}

fn outcome(record: &Record) -> String {
    let mut text = plain(&record.outcome);
    if let Some(error) = &record.error {
        text.push_str(&format!(": {}", plain(error)));
    }
    if let Some(end) = end(record) {
        text.push_str(&format!("\nended by: {end}"));
    }
    if let Some(answer) = answer(record) {
        text.push_str(&format!("\nits answer reports: {answer}"));
    }
    text
}

fn program(program: &ProgramRecord) -> String {
    let wasi: String =
        program.wasi.iter().map(|version| format!(", WASI {}", plain(version))).collect();
    format!(
        "{}{wasi}: {}\n{}\nsha256 {}",
        plain(&program.backend),
        plain(&program.backend_reason),
        plain(&program.path),
        program.digest
    )
}

fn installation(installed: &InstallationRecord) -> String {
    let InstallationRecord { action, source, version, signer, replaced } = installed;
    let version = version.as_ref().map(|it| format!(", version {}", plain(it))).unwrap_or_default();
    let mut text =
        format!("{} from {}{version}\nsigned by: {}", plain(action), plain(source), plain(signer));
    if let Some(replaced) = replaced {
        text.push_str(&format!("\nreplaced: sha256 {replaced}"));
    }
    text
}

fn arguments(arguments: &Arguments) -> String {
    let Arguments { bytes, sha256, text } = arguments;
    let text = text.as_ref().map(|text| format!("\n{}", plain(text))).unwrap_or_default();
    format!("{}, sha256 {sha256}{text}", ByteSize(*bytes))
}

/// The access of a tool that runs unconfined, whatever its grant.
const UNCONFINED: &str = "unconfined: everything that its user may do";

fn is_unconfined(grant: &GrantSummary) -> bool {
    grant.sandbox.as_deref() == Some("off")
}

fn files(grant: &GrantSummary) -> String {
    if is_unconfined(grant) { UNCONFINED.to_owned() } else { lines_or(grant.dirs.iter(), "none") }
}

fn network(grant: &GrantSummary) -> String {
    if is_unconfined(grant) { UNCONFINED.to_owned() } else { lines_or(grant.net.iter(), "none") }
}

fn variables(grant: &GrantSummary) -> String {
    if grant.env == ["*"] {
        return "its user's environment, without the keys of model providers".to_owned();
    }
    if grant.env.is_empty() { "none".to_owned() } else { plain(&grant.env.join(" ")) }
}

fn used(record: &Record) -> String {
    let mut parts = Vec::new();
    parts.extend(record.peak_memory.map(|bytes| format!("{} of memory", ByteSize(bytes))));
    parts.extend(record.fuel.map(|fuel| format!("{fuel} fuel")));
    parts.extend(record.stdout_bytes.map(|bytes| format!("{} on stdout", ByteSize(bytes))));
    parts.extend(record.stderr_bytes.map(|bytes| format!("{} on stderr", ByteSize(bytes))));
    parts.join(", ")
}

/// Returns the texts, one per line, or `empty` if there are none.
fn lines_or<'a>(lines: impl Iterator<Item = &'a String>, empty: &str) -> String {
    let lines: Vec<String> = lines.map(|line| plain(line)).collect();
    if lines.is_empty() { empty.to_owned() } else { lines.join("\n") }
}

fn local(time: Timestamp, zone: &TimeZone) -> String {
    time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.3f%:z").to_string()
}

fn took(microseconds: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "three digits of it are shown")]
    let seconds = microseconds as f64 / 1e6;
    match microseconds {
        0..1_000 => format!("{microseconds} µs"),
        1_000..1_000_000 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

/// Returns the command of the program that made the call.
fn command(via: Via) -> String {
    match via {
        Via::Mcp => "mcp serve".to_owned(),
        Via::Call | Via::Run | Via::Check | Via::Install => format!("tool {}", via.as_str()),
    }
}

/// Returns a text with invisible characters escaped: control characters, separators of lines, and
/// characters that reorder a line. Names and errors come from models, clients and tools.
fn plain(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if is_invisible(character) {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_record_stays_on_its_line_and_in_its_order() {
        let hostile = "a\u{2028}b\u{2029}c\u{85}d\u{b}e\r\nf\u{202e}g\u{2066}h\u{200b}i";
        let escaped = r"a\u{2028}b\u{2029}c\u{85}d\u{b}e\r\nf\u{202e}g\u{2066}h\u{200b}i";
        let hostile = || Some(hostile.to_owned());
        let record = Record { client: hostile(), error: hostile(), ..Record::default() };
        let shown = CallDetails { record: &record, zone: &TimeZone::UTC }.to_string();
        assert!(!shown.replace('\n', "").contains(is_invisible), "{shown}");
        // The table may be wrapped to the width of a terminal.
        let unwrapped: String = shown.split_whitespace().collect();
        assert_eq!(unwrapped.matches(escaped).count(), 2, "{shown}");
        assert_eq!(plain("schön 日本 \u{1f469}"), "schön 日本 \u{1f469}");
    }
}
