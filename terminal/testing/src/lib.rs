//! A terminal for tests: a program runs in a pseudo-terminal, its output is drawn on an emulated
//! screen, and tests send keys to it.
//!
//! ```no_run
//! use std::process::Command;
//!
//! use ikigai_terminal_testing::Terminal;
//!
//! let mut terminal = Terminal::start(&Command::new("/bin/sh"), 80, 24);
//! terminal.wait_for("$");
//! terminal.send("exit 0\r");
//! assert!(terminal.wait().success());
//! ```
//!
//! Tests wait for a condition, and never for time to pass. [`TIMEOUT`] is the only deadline of
//! every wait. A wait that reaches it fails and prints the screen. This crate knows nothing about
//! ikigai.

#![deny(missing_docs)]

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pty_process::Size;
use pty_process::blocking::Pty;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{InputModes, LocalModes, OptionalActions, tcgetattr, tcsetattr};
use vt100::{Callbacks, Parser};

/// The longest time that any wait takes before its test fails, far longer than any step takes on a
/// busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// The pause between two attempts of a wait.
const POLL: Duration = Duration::from_millis(5);

/// The number of lines above the screen that are kept.
const SCROLLBACK: usize = 10_000;

/// A program in a terminal. Dropping this kills the program.
pub struct Terminal {
    shown: String,
    child: Child,
    pty: Option<Arc<Pty>>,
    shared: Arc<Shared>,
}

struct Shared(Mutex<Screen>);

struct Screen {
    parser: Parser<Replies>,
    /// Everything that was written, for tests that look for a sequence.
    written: Vec<u8>,
    is_closed: bool,
}

/// The replies to a program's requests to the terminal.
#[derive(Default)]
struct Replies {
    due: Vec<u8>,
    is_silent: bool,
}

impl Callbacks for Replies {
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        _: Option<u8>,
        _: Option<u8>,
        params: &[&[u16]],
        c: char,
    ) {
        if c == 'n' && params == [&[6]] && !self.is_silent {
            let (row, column) = screen.cursor_position();
            let reply = format!("\x1b[{};{}R", row + 1, column + 1);
            self.due.extend(reply.into_bytes());
        }
    }
}

impl Terminal {
    /// Runs `command` in a terminal of `columns` by `rows`. Its environment has only the variables
    /// of `command`, and `TERM=xterm-256color` unless `command` sets `TERM`. A terminal of zero
    /// columns does not know its width; its screen has 80.
    #[must_use]
    pub fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let shown = format!("{command:?}");
        let (pty, pts) = pty_process::blocking::open().expect("a pseudo-terminal");
        pty.resize(Size::new(rows, columns)).expect("a size");
        let mut inside = pty_process::blocking::Command::new(command.get_program())
            .args(command.get_args())
            .env_clear()
            .env("TERM", "xterm-256color")
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(directory) = command.get_current_dir() {
            inside = inside.current_dir(directory);
        }
        let child = inside.spawn(pts).unwrap_or_else(|error| panic!("cannot run {shown}: {error}"));
        let width = if columns == 0 { 80 } else { columns };
        let (width, height) = (cells(width), cells(rows));
        let parser = Parser::new_with_callbacks(height, width, SCROLLBACK, Replies::default());
        let screen = Screen { parser, written: Vec::new(), is_closed: false };
        let shared = Arc::new(Shared(Mutex::new(screen)));
        let pty = Arc::new(pty);
        let reader = (Arc::clone(&pty), Arc::clone(&shared));
        thread::spawn(move || reader.1.read(&reader.0));
        Self { shown, child, pty: Some(pty), shared }
    }

    /// Types `keys`; keys without a character are the sequences that a terminal sends for them.
    #[track_caller]
    pub fn send(&self, keys: &str) {
        let pty = self.pty.as_ref().expect("the terminal is open");
        (&mut &**pty).write_all(keys.as_bytes()).expect("a terminal takes keys");
    }

    /// Makes the terminal `columns` by `rows`.
    pub fn resize(&self, columns: u16, rows: u16) {
        let pty = self.pty.as_ref().expect("the terminal is open");
        self.shared.0.lock().parser.screen_mut().set_size(cells(rows), cells(columns));
        pty.resize(Size::new(rows, columns)).expect("a size");
    }

    /// Closes the terminal's window.
    pub fn close(&mut self) {
        // The thread that reads holds the other reference, and the kernel sends SIGHUP only with
        // the last descriptor. So this sends the signal.
        self.pty = None;
        let _ = kill_process(Pid::from_child(&self.child), Signal::HUP);
    }

    /// Stops answering the program's requests to the terminal.
    pub fn fall_silent(&self) {
        self.shared.0.lock().parser.callbacks_mut().is_silent = true;
    }

    /// Waits until `text` is on the screen, and returns the screen.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("`{text}` is on the screen"), |screen| screen.contains(text))
    }

    /// Waits until `holds` returns true for the screen, and returns the screen. `what` describes
    /// the condition.
    #[track_caller]
    pub fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        self.wait_for_state(what, |screen| {
            let contents = screen.contents();
            holds(&contents).then_some(contents)
        })
    }

    /// Waits until `holds` returns true for everything that the program wrote. `what` describes the
    /// condition.
    #[track_caller]
    pub fn wait_until_written(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let look = |screen: &Screen| holds(&screen.written()).then_some(());
        self.wait_for_state(what, look);
    }

    /// Waits until the terminal does not [show typed text](Self::shows_typing) any more.
    #[track_caller]
    pub fn wait_until_typing_is_hidden(&self) {
        let look = |_: &Screen| (!self.shows_typing()).then_some(());
        self.wait_for_state("typed text is hidden", look);
    }

    /// Waits until `look` returns a value. Fails without waiting further if the program has closed
    /// the terminal, after which nothing changes.
    #[track_caller]
    fn wait_for_state<T>(&self, what: &str, look: impl Fn(&Screen) -> Option<T>) -> T {
        let attempt = || {
            let screen = self.shared.0.lock();
            let found = look(&screen);
            (found.is_some() || screen.is_closed).then_some(found)
        };
        let failure =
            || format!("{}: waited in vain until {what}\n{}", self.shown, framed(&self.screen()));
        let Some(found) = wait_until_some(attempt, failure) else { panic!("{}", failure()) };
        found
    }

    /// Returns the screen, without trailing white space.
    #[must_use]
    pub fn screen(&self) -> String {
        self.shared.0.lock().contents()
    }

    /// Returns all lines since the start, including those above the screen.
    #[must_use]
    pub fn everything(&self) -> String {
        let mut screen = self.shared.0.lock();
        let screen = screen.parser.screen_mut();
        let mut above = Vec::new();
        for offset in (1..=screen.scrollback_len()).rev() {
            screen.set_scrollback(offset);
            let (_, columns) = screen.size();
            above.extend(screen.rows(0, columns.get()).next());
        }
        screen.set_scrollback(0);
        format!("{}\n{}", above.join("\n"), screen.contents())
    }

    /// Returns every byte that the program wrote.
    #[must_use]
    pub fn written(&self) -> String {
        self.shared.0.lock().written()
    }

    /// Returns the column and row of the cursor, from 0.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        let (row, column) = self.shared.0.lock().parser.screen().cursor_position();
        (column, row)
    }

    /// Sends a signal to the program, but not to its children.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the program is there");
    }

    /// Returns `true` if the terminal edits and shows typed text, as a shell leaves it.
    #[must_use]
    pub fn shows_typing(&self) -> bool {
        let pty = self.pty.as_ref().expect("the terminal is open");
        let modes = tcgetattr(&**pty).expect("a terminal").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Makes the terminal edit and show typed text, as a shell does while the program is stopped.
    pub fn show_typing(&self) {
        let pty = self.pty.as_ref().expect("the terminal is open");
        let mut modes = tcgetattr(&**pty).expect("a terminal");
        modes.input_modes.insert(InputModes::ICRNL);
        modes.local_modes.insert(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(&**pty, OptionalActions::Now, &modes).expect("a terminal takes modes");
    }

    /// Returns the program's process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the program and of all processes that have its terminal. Then all
    /// output has been read.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let Self { shown, child, shared, .. } = self;
        let attempt = || {
            let status = child.try_wait().expect("waited for");
            status.filter(|_| shared.0.lock().is_closed)
        };
        let failure = || format!("{shown} does not end\n{}", framed(&shared.0.lock().contents()));
        wait_until_some(attempt, failure)
    }
}

/// Calls `attempt` until it returns a value, and returns that value. Every wait ends here.
///
/// # Panics
///
/// Panics with the message that `failure` returns if there is still no value after [`TIMEOUT`].
#[track_caller]
pub fn wait_until_some<T>(
    mut attempt: impl FnMut() -> Option<T>,
    failure: impl FnOnce() -> String,
) -> T {
    let started = Instant::now();
    loop {
        // Checked before the attempt, so that a slow machine gets one more attempt after the
        // deadline.
        let is_late = started.elapsed() >= TIMEOUT;
        if let Some(found) = attempt() {
            return found;
        }
        if is_late {
            panic!("{}", failure());
        }
        thread::sleep(POLL);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // An error means that the program has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Shared {
    /// Draws the program's output on the screen, until the program has ended.
    fn read(&self, pty: &Pty) {
        let mut buffer = [0; 4096];
        // Reading fails (EIO) once no process has the terminal open.
        while let Ok(count @ 1..) = (&mut &*pty).read(&mut buffer) {
            let mut screen = self.0.lock();
            screen.parser.process(&buffer[..count]);
            screen.written.extend(&buffer[..count]);
            let replies = std::mem::take(&mut screen.parser.callbacks_mut().due);
            drop(screen);
            if (&mut &*pty).write_all(&replies).is_err() {
                break;
            }
        }
        self.0.lock().is_closed = true;
    }
}

impl Screen {
    fn written(&self) -> String {
        String::from_utf8_lossy(&self.written).into_owned()
    }

    fn contents(&self) -> String {
        let screen = self.parser.screen();
        let rows = screen.rows(0, screen.size().1.get());
        let rows: Vec<_> = rows.map(|row| row.trim_end().to_owned()).collect();
        rows.join("\n").trim_end().to_owned()
    }
}

fn cells(number: u16) -> NonZero<u16> {
    NonZero::new(number).expect("a terminal has columns and rows")
}

/// Formats a screen for the message of a failed test.
fn framed(contents: &str) -> String {
    let mut framed = String::from("the screen:\n");
    for line in contents.lines() {
        // Writing to a string does not fail.
        let _ = writeln!(framed, "| {line}");
    }
    framed
}
