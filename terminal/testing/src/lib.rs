//! A terminal of a test's own: a program runs in a pseudo-terminal, what it draws is on
//! an emulated screen, and keys are sent to it.
//!
//! Knows nothing of ikigai. Waits for what is on the screen, never for time.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::Pty;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{InputModes, LocalModes, OptionalActions, tcgetattr, tcsetattr};
use vt100::{Callbacks, Parser};

/// Far beyond what anything takes on a busy machine. Reaching it fails the test.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lines above the screen that are kept.
const SCROLLBACK: usize = 10_000;

/// A program in a terminal. Killed when it is dropped.
pub struct Terminal {
    shown: String,
    child: Child,
    pty: Option<Arc<Pty>>,
    shared: Arc<Shared>,
}

struct Shared {
    screen: Mutex<Screen>,
    changed: Condvar,
}

struct Screen {
    parser: Parser<Replies>,
    /// Everything that was written, for those who look for a sequence.
    written: Vec<u8>,
    is_closed: bool,
}

/// Answers what a program asks the terminal.
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
    /// Runs `command` in a terminal of `columns` by `rows`. Of the environment it has what
    /// was set on `command`, and `TERM=xterm-256color` unless that was set.
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
        let (width, height) = (cells(columns), cells(rows));
        let parser = Parser::new_with_callbacks(height, width, SCROLLBACK, Replies::default());
        let screen = Mutex::new(Screen { parser, written: Vec::new(), is_closed: false });
        let shared = Arc::new(Shared { screen, changed: Condvar::new() });
        let pty = Arc::new(pty);
        let reader = (Arc::clone(&pty), Arc::clone(&shared));
        thread::spawn(move || reader.1.read(&reader.0));
        Self { shown, child, pty: Some(pty), shared }
    }

    /// Types `keys`, with the sequences that a terminal sends for those that have no
    /// character.
    #[track_caller]
    pub fn send(&self, keys: &str) {
        let pty = self.pty.as_ref().expect("the terminal is open");
        (&mut &**pty).write_all(keys.as_bytes()).expect("a terminal takes keys");
    }

    /// Makes the terminal `columns` by `rows`.
    pub fn resize(&self, columns: u16, rows: u16) {
        let pty = self.pty.as_ref().expect("the terminal is open");
        self.shared.lock().parser.screen_mut().set_size(cells(rows), cells(columns));
        pty.resize(Size::new(rows, columns)).expect("a size");
    }

    /// Closes the terminal's window.
    pub fn close(&mut self) {
        // The thread that reads holds the other reference, and the kernel hangs up with
        // the last descriptor; so the session is told as the kernel tells it.
        self.pty = None;
        let _ = kill_process(Pid::from_child(&self.child), Signal::HUP);
    }

    /// Answers nothing from now on that a program asks the terminal.
    pub fn fall_silent(&self) {
        self.shared.lock().parser.callbacks_mut().is_silent = true;
    }

    /// Waits until `text` is on the screen, and says what is there then.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("`{text}` is on the screen"), |screen| screen.contains(text))
    }

    /// Waits until the lines on the screen are as `holds` wants them.
    #[track_caller]
    pub fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        let mut screen = self.shared.lock();
        loop {
            let contents = screen.contents();
            if holds(&contents) {
                return contents;
            }
            assert!(
                !screen.is_closed && started.elapsed() < PATIENCE,
                "{}: it never was so that {what}\n{}",
                self.shown,
                framed(&contents)
            );
            let wait = Duration::from_secs(1);
            let waited = self.shared.changed.wait_timeout(screen, wait);
            screen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What is on the screen now, without trailing white space.
    #[must_use]
    pub fn screen(&self) -> String {
        self.shared.lock().contents()
    }

    /// All lines since the start, those above the screen too.
    #[must_use]
    pub fn everything(&self) -> String {
        let mut screen = self.shared.lock();
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

    /// Every byte that the program wrote.
    #[must_use]
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.shared.lock().written).into_owned()
    }

    /// The column and row of the cursor, from 0.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        let (row, column) = self.shared.lock().parser.screen().cursor_position();
        (column, row)
    }

    /// Sends a signal to the program alone.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the program is there");
    }

    /// Whether the terminal edits and shows what is typed, as a shell leaves it.
    #[must_use]
    pub fn shows_typing(&self) -> bool {
        let pty = self.pty.as_ref().expect("the terminal is open");
        let modes = tcgetattr(&**pty).expect("a terminal").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Makes the terminal edit and show what is typed, as a shell does while the program is
    /// stopped.
    pub fn show_typing(&self) {
        let pty = self.pty.as_ref().expect("the terminal is open");
        let mut modes = tcgetattr(&**pty).expect("a terminal");
        modes.input_modes.insert(InputModes::ICRNL);
        modes.local_modes.insert(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(&**pty, OptionalActions::Now, &modes).expect("a terminal takes modes");
    }

    /// The program's process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the program and of all that has its terminal; then everything
    /// that was written has been read.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            let status = self.child.try_wait().expect("waited for");
            if let Some(status) = status.filter(|_| self.shared.lock().is_closed) {
                return status;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{} does not end\n{}",
                self.shown,
                framed(&self.screen())
            );
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended, and then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the program writes to the screen, until there is no program.
    fn read(&self, pty: &Pty) {
        let mut buffer = [0; 4096];
        // A terminal that nobody has open any more is an error (EIO) to read.
        while let Ok(count @ 1..) = (&mut &*pty).read(&mut buffer) {
            let mut screen = self.lock();
            screen.parser.process(&buffer[..count]);
            screen.written.extend(&buffer[..count]);
            let replies = std::mem::take(&mut screen.parser.callbacks_mut().due);
            drop(screen);
            self.changed.notify_all();
            if (&mut &*pty).write_all(&replies).is_err() {
                break;
            }
        }
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

impl Screen {
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

/// A screen as it is shown when a test fails.
fn framed(contents: &str) -> String {
    let mut framed = String::from("the screen:\n");
    for line in contents.lines() {
        // Writing to a string does not fail.
        let _ = writeln!(framed, "| {line}");
    }
    framed
}
