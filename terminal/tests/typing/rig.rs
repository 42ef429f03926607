//! The program that the tests run, and how they start it.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use ikigai_terminal::{Editor, EditorEvent, OutputFeatures};
use ikigai_terminal_testing::{TIMEOUT, Terminal, wait_until_some};
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::SIGCONT;
use signal_hook::iterator::Signals;
use tempfile::TempDir;

pub(crate) fn length(input: &EditorEvent) -> usize {
    match input {
        EditorEvent::Line(line) => line.len(),
        EditorEvent::Interrupted | EditorEvent::End | EditorEvent::More | EditorEvent::Edit(_) => 0,
    }
}

/// Waits until keys were typed that are not read yet.
pub(crate) fn wait_for_keys(look: OutputFeatures) {
    let is_there = if look.live {
        crossterm::event::poll(TIMEOUT).expect("a terminal")
    } else {
        let stdin = std::io::stdin();
        let timeout = TIMEOUT.try_into().expect("a timeout");
        poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&timeout)).expect("a terminal") > 0
    };
    assert!(is_there, "nothing was typed");
}

/// The number of times that the program continued and set its terminal's modes again.
pub(crate) struct Continued(Arc<AtomicUsize>);

impl Continued {
    pub(crate) fn listen(editor: &Editor) -> Self {
        let times = Arc::new(AtomicUsize::new(0));
        let (counted, modes) = (Arc::clone(&times), editor.modes());
        let mut signals = Signals::new([SIGCONT]).expect("signals");
        thread::spawn(move || {
            for _ in signals.forever() {
                modes.reapply().expect("a terminal");
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self(times)
    }

    pub(crate) fn wait_for(&self, times: usize) {
        wait_until_some(
            || (self.0.load(Ordering::SeqCst) >= times).then_some(()),
            || format!("the program was not continued {times} times"),
        );
    }
}

/// The program in a temporary workspace.
pub(crate) struct Typing {
    pub(crate) terminal: Terminal,
    pub(crate) workspace: TempDir,
}

impl Typing {
    /// Puts an empty file into the program's workspace. The program waits for such files, or checks
    /// for them.
    pub(crate) fn touch(&self, name: &str) {
        fs::write(self.workspace.path().join(name), "").expect("a file");
    }
}

pub(crate) fn start(columns: u16, env: &[(&str, &str)]) -> Typing {
    start_as(columns, env, |program| program)
}

/// Starts the program with the command that `command` returns.
pub(crate) fn start_as(
    columns: u16,
    env: &[(&str, &str)],
    command: impl FnOnce(Command) -> Command,
) -> Typing {
    let workspace = TempDir::new().expect("a temporary directory");
    fs::create_dir(workspace.path().join("src")).expect("a folder");
    for name in ["src/main.rs", "a b.txt", ".hidden"] {
        fs::write(workspace.path().join(name), "").expect("a file");
    }
    let mut program = Command::new(env::current_exe().expect("this test"));
    program.args(["program", "--exact", "--ignored", "--nocapture", "--quiet"]);
    let mut command = command(program);
    command.current_dir(workspace.path()).envs(env.iter().copied());
    let terminal = Terminal::start(&command, columns, 24);
    Typing { terminal, workspace }
}

/// Returns `true` if the last line of the screen is only a prompt.
pub(crate) fn is_asking(screen: &str, prompt: &str) -> bool {
    screen.lines().last().is_some_and(|line| line.trim_end() == prompt)
}
