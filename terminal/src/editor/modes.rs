//! The modes of the terminal: while the user types, between two lines, and while the program is
//! stopped.

use std::io::{self, IsTerminal as _, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush,
    tcgetattr, tcgetpgrp, tcsetattr,
};
use signal_hook::SigId;
use signal_hook::low_level::{pipe, unregister};

/// A handle to the modes of the editor's terminal, which a shell may change while the program is
/// stopped. Clones share the terminal.
#[derive(Clone, Debug, Default)]
pub struct Modes(Arc<Mutex<ModeState>>);

#[derive(Debug, Default)]
struct ModeState {
    /// The modes before the editor; `None` if stdin is not a terminal.
    before: Option<Termios>,
    now: Now,
}

/// The key code that means that a special function has no key: `_POSIX_VDISABLE` of `unistd.h`.
const NO_KEY: u8 = if cfg!(target_vendor = "apple") { 0xff } else { 0 };

/// The current user of the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Now {
    /// The program that used it before the editor.
    #[default]
    Before,
    /// The editor, while it does not read. Keys are held back. The terminal does not echo them,
    /// because they would appear in the middle of the output. It does not translate them, because
    /// Ctrl-D would become a zero byte and Enter a line feed. Ctrl-C still sends a signal, and
    /// discards no typed text.
    Held,
    /// A question without an editor. Keys are as in `Held`, but Ctrl-Z sends no signal: the
    /// terminal would stop the program, and leave these modes to the shell.
    Asking,
    /// The editor, while it reads every key.
    Reading,
}

impl Modes {
    /// Sets the editor's modes again. Call this when the program continues after a stop
    /// (`SIGCONT`), because shells set their own modes and need not restore the earlier ones. Does
    /// nothing in the background, while the terminal is [lent](Self::lend), and if no editor has
    /// the terminal.
    ///
    /// # Errors
    ///
    /// Fails if the terminal refuses the modes.
    pub fn reapply(&self) -> io::Result<()> {
        let state = self.lock();
        if state.now == Now::Before {
            return Ok(());
        }
        if tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp()) {
            state.set()?;
        }
        Ok(())
    }

    /// Restores the modes from before the editor, even while the editor is blocked in a read. Call
    /// this before the program ends. If the terminal has not yet reported the position of its
    /// cursor, this takes up to two seconds longer.
    ///
    /// # Errors
    ///
    /// Fails if the terminal refuses the modes.
    pub fn restore(&self) -> io::Result<()> {
        if self.lock().now == Now::Reading {
            // Bracketed paste off, cursor visible.
            rustix::io::write(io::stdout(), b"\x1b[?2004l\x1b[?25h\r\n")?;
        }
        self.change(Now::Before)
    }

    /// Restores the modes from before the editor for another program, until the returned value is
    /// dropped. Call this while the editor neither reads nor watches.
    ///
    /// # Errors
    ///
    /// Fails if the terminal refuses the modes.
    pub fn lend(&self) -> io::Result<LentTerminal> {
        self.change(Now::Before)?;
        Ok(LentTerminal(self.clone()))
    }

    fn change(&self, now: Now) -> io::Result<()> {
        let mut state = self.lock();
        state.now = now;
        state.set()
    }

    fn lock(&self) -> MutexGuard<'_, ModeState> {
        self.0.lock()
    }
}

impl ModeState {
    fn set(&self) -> io::Result<()> {
        let Some(before) = &self.before else { return Ok(()) };
        let mut modes = before.clone();
        match self.now {
            Now::Before => {}
            Now::Held | Now::Asking => {
                modes.input_modes.remove(InputModes::ICRNL);
                modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
                modes.local_modes.insert(LocalModes::NOFLSH);
                if self.now == Now::Asking {
                    modes.special_codes[SpecialCodeIndex::VSUSP] = NO_KEY;
                }
            }
            Now::Reading => modes.make_raw(),
        }
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &modes)?)
    }
}

/// The terminal while another program uses it. Dropping this sets the editor's modes again.
#[must_use = "the terminal is lent as long as this lives"]
#[derive(Debug)]
pub struct LentTerminal(Modes);

impl Drop for LentTerminal {
    fn drop(&mut self) {
        // If the terminal is gone, the next read fails.
        let _ = self.0.change(Now::Held);
    }
}

/// The terminal while an editor uses it. Dropping this restores the earlier modes.
#[must_use = "the terminal is held as long as this lives"]
#[derive(Debug)]
pub(crate) struct HeldTerminal(Modes);

impl HeldTerminal {
    /// Takes the terminal, if stdin is one.
    ///
    /// # Errors
    ///
    /// Fails if the terminal refuses the modes.
    pub(crate) fn begin() -> io::Result<Self> {
        Self::begin_as(Now::Held)
    }

    /// Takes the terminal, if stdin is one, for a question without an editor. Then Ctrl-Z is a key,
    /// and the caller must [stop](Self::stop) the program.
    ///
    /// # Errors
    ///
    /// Fails if the terminal refuses the modes.
    pub(crate) fn begin_asking() -> io::Result<Self> {
        Self::begin_as(Now::Asking)
    }

    fn begin_as(now: Now) -> io::Result<Self> {
        let modes = Modes::default();
        modes.lock().before = tcgetattr(io::stdin()).ok();
        modes.change(now)?;
        Ok(Self(modes))
    }

    pub(crate) fn modes(&self) -> Modes {
        self.0.clone()
    }

    /// Runs `read` while the terminal delivers single keys.
    pub(super) fn reading<T>(&self, read: impl FnOnce() -> T) -> io::Result<T> {
        self.0.change(Now::Reading)?;
        let read = read();
        self.0.change(Now::Held)?;
        Ok(read)
    }

    /// Restores the earlier modes and stops the program as Ctrl-Z does, until it is continued. In a
    /// terminal without a shell, nothing could continue the program, and the system does not stop
    /// it.
    pub(crate) fn stop(&self) -> io::Result<()> {
        let now = self.0.lock().now;
        self.0.change(Now::Before)?;
        let continued = ResumeWait::listen()?;
        // Stop the whole process group, since a shell waits for the whole group.
        kill_current_process_group(Signal::TSTP)?;
        // Another thread may take the signal, and this thread may run on for a moment.
        continued.wait()?;
        if let Ok(before) = tcgetattr(io::stdin()) {
            self.0.lock().before = Some(before);
        }
        self.0.change(now)
    }

    /// Discards the keys that were typed and not yet read.
    pub(super) fn discard(&self) -> io::Result<()> {
        while event::poll(Duration::ZERO)? {
            event::read()?;
        }
        discard_unread()
    }
}

/// The longest time that a stop may take. In a terminal without a shell, nothing could continue the
/// program, and the system does not stop it at all.
const STOPS_WITHIN: Duration = Duration::from_secs(1);

/// A wait for the next continuation of the program.
struct ResumeWait {
    receiver: UnixStream,
    signal: SigId,
}

impl ResumeWait {
    fn listen() -> io::Result<Self> {
        let (receiver, sender) = UnixStream::pair()?;
        let signal = pipe::register(Signal::CONT.as_raw(), sender)?;
        receiver.set_read_timeout(Some(STOPS_WITHIN))?;
        Ok(Self { receiver, signal })
    }

    fn wait(mut self) -> io::Result<()> {
        loop {
            match self.receiver.read(&mut [0]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for ResumeWait {
    fn drop(&mut self) {
        unregister(self.signal);
    }
}

impl Drop for HeldTerminal {
    fn drop(&mut self) {
        // A closed terminal has no modes to restore.
        let _ = self.0.change(Now::Before);
    }
}

/// The modes of stdin's terminal before a tool has it. Dropping this restores them.
#[must_use = "the modes are restored when this is dropped"]
#[derive(Debug)]
pub struct RestoredModes(Option<(Termios, OFlags)>);

impl RestoredModes {
    /// Notes the modes, if stdin is a terminal. Notes nothing if stdout is a pipe: the program that
    /// reads it, such as a pager, may set modes of its own in the meantime.
    pub fn note() -> Self {
        let stdout = fstat(io::stdout());
        let is_piped = stdout.is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::Fifo);
        let modes = if is_piped { None } else { tcgetattr(io::stdin()).ok() };
        Self(modes.and_then(|modes| Some((modes, fcntl_getfl(io::stdin()).ok()?))))
    }
}

impl Drop for RestoredModes {
    fn drop(&mut self) {
        // In the background, the terminal would stop the program.
        if let Some((before, flags)) = &self.0
            && tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
        {
            // The tool may have had the terminal's output stopped, by a key that it chose. The kernel
            // starts the output again when no key can stop it (`n_tty_set_termios`).
            let mut unstopped = before.clone();
            unstopped.input_modes.remove(InputModes::IXON);
            // A closed terminal has no modes to restore.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &unstopped);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
            let _ = fcntl_setfl(io::stdin(), *flags);
        }
    }
}

/// A terminal that does not echo typed text. Dropping this restores the earlier modes.
#[must_use = "typing is hidden as long as this lives"]
pub(super) struct EchoGuard(Option<Termios>);

/// Turns off the echo of stdin's terminal, if stdin is one.
///
/// # Errors
///
/// Fails if the terminal refuses the modes.
pub(super) fn hide_typing() -> io::Result<EchoGuard> {
    let Ok(before) = tcgetattr(io::stdin()) else { return Ok(EchoGuard(None)) };
    let mut modes = before.clone();
    modes.local_modes.remove(LocalModes::ECHO);
    tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
    Ok(EchoGuard(Some(before)))
}

impl Drop for EchoGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // A closed terminal has no modes to restore.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Discards the keys that were typed at stdin's terminal, if stdin is one, and not yet read.
pub(super) fn discard_unread() -> io::Result<()> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        tcflush(stdin.as_fd(), QueueSelector::IFlush)?;
    }
    Ok(())
}
