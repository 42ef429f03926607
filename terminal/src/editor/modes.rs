//! The modes of the terminal: while somebody types, between two lines, and while the program
//! is stopped.

use std::io::{self, IsTerminal as _, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossterm::event;
use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp,
    tcsetattr,
};
use signal_hook::SigId;
use signal_hook::low_level::{pipe, unregister};

/// The terminal of an editor, whose modes a shell may have changed while the program was
/// stopped. Clones are of the same terminal.
#[derive(Clone, Debug, Default)]
pub struct Modes(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// As it was before the editor; nothing where stdin is no terminal.
    before: Option<Termios>,
    now: Now,
}

/// Who the terminal belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Now {
    /// Whoever had it before the editor.
    #[default]
    Before,
    /// The editor, which does not read. What is typed is held: it is not shown, because it would
    /// land in the middle of what is written meanwhile, and the terminal makes nothing else of
    /// it: by the time it is read, Ctrl-D would be a zero byte and Enter a line feed. Ctrl-C is
    /// a signal still.
    Held,
    /// The editor, which reads every key.
    Reading,
}

impl Modes {
    /// Sets the modes again that the editor needs: to be called after the program was stopped
    /// and continues (`SIGCONT`), because shells set their own meanwhile and need not put back
    /// what they found. Does nothing in the background, and where no editor has the terminal.
    ///
    /// # Errors
    ///
    /// If the terminal refuses.
    pub fn again(&self) -> io::Result<()> {
        let state = self.lock();
        if tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp()) {
            state.set()?;
        }
        Ok(())
    }

    /// Gives the terminal back while its editor is stuck in a read: to be called before the
    /// program ends. A terminal that owes the editor the place of its cursor keeps it for two
    /// seconds.
    ///
    /// # Errors
    ///
    /// If the terminal refuses.
    pub fn give_back(&self) -> io::Result<()> {
        if self.lock().now == Now::Reading {
            // Pastes without brackets, and a cursor that shows.
            rustix::io::write(io::stdout(), b"\x1b[?2004l\x1b[?25h\r\n")?;
        }
        self.change(Now::Before)
    }

    fn change(&self, now: Now) -> io::Result<()> {
        let mut state = self.lock();
        state.now = now;
        state.set()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set(&self) -> io::Result<()> {
        let Some(before) = &self.before else { return Ok(()) };
        let mut modes = before.clone();
        match self.now {
            Now::Before => {}
            Now::Held => {
                modes.input_modes.remove(InputModes::ICRNL);
                modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            }
            Now::Reading => modes.make_raw(),
        }
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &modes)?)
    }
}

/// The terminal, held for an editor. Dropped, it is as it was.
#[must_use = "the terminal is held as long as this lives"]
#[derive(Debug)]
pub(super) struct Held(Modes);

impl Held {
    /// Begins, if stdin is a terminal.
    ///
    /// # Errors
    ///
    /// If the terminal refuses.
    pub(super) fn begin() -> io::Result<Self> {
        let modes = Modes::default();
        modes.lock().before = tcgetattr(io::stdin()).ok();
        modes.change(Now::Held)?;
        Ok(Self(modes))
    }

    pub(super) fn modes(&self) -> Modes {
        self.0.clone()
    }

    /// Does `read`, during which keys are told one by one.
    pub(super) fn reading<T>(&self, read: impl FnOnce() -> T) -> io::Result<T> {
        self.0.change(Now::Reading)?;
        let read = read();
        self.0.change(Now::Held)?;
        Ok(read)
    }

    /// Gives the terminal back and stops the program as Ctrl-Z does, until somebody continues
    /// it. Where nobody could, as in a terminal without a shell, the system stops nothing.
    pub(super) fn stop(&self) -> io::Result<()> {
        self.0.change(Now::Before)?;
        let continued = Continued::listen()?;
        // All of the group, since a shell waits for all of it.
        kill_current_process_group(Signal::TSTP)?;
        // Another thread may take the signal, and this one go on for a moment.
        continued.wait()?;
        if let Ok(before) = tcgetattr(io::stdin()) {
            self.0.lock().before = Some(before);
        }
        self.0.change(Now::Held)
    }

    /// Forgets what was typed and not read yet.
    pub(super) fn discard(&self) -> io::Result<()> {
        while event::poll(Duration::ZERO)? {
            event::read()?;
        }
        discard_unread()
    }
}

/// How long a stop may take to happen. Where it does not, as in a terminal without a shell,
/// nobody would continue the program, and the system stops nothing.
const STOPS_WITHIN: Duration = Duration::from_secs(1);

/// The next continuation of the program.
struct Continued {
    heard: UnixStream,
    signal: SigId,
}

impl Continued {
    fn listen() -> io::Result<Self> {
        let (heard, told) = UnixStream::pair()?;
        let signal = pipe::register(Signal::CONT.as_raw(), told)?;
        heard.set_read_timeout(Some(STOPS_WITHIN))?;
        Ok(Self { heard, signal })
    }

    fn wait(mut self) -> io::Result<()> {
        loop {
            match self.heard.read(&mut [0]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Continued {
    fn drop(&mut self) {
        unregister(self.signal);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A terminal that is gone has nothing to be put back.
        let _ = self.0.change(Now::Before);
    }
}

/// Forgets what was typed at the terminal that stdin is, if it is one, and not read yet.
pub(super) fn discard_unread() -> io::Result<()> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        tcflush(stdin.as_fd(), QueueSelector::IFlush)?;
    }
    Ok(())
}
