//! The line editor, on a thread of its own: reading blocks, and meanwhile tools are discovered and
//! signals are handled.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ikigai_terminal::editor::{History, Modes, Setup, Stopper};
use ikigai_terminal::finder::Finder;
use ikigai_terminal::{Editor, Input};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::out::Out;
use super::signals;

/// The prompt for a line.
pub(super) const PROMPT: &str = "> ";

/// The time that the editor has to restore the terminal. It checks every tenth of a second
/// whether it should end.
const STOP_TIMEOUT: Duration = Duration::from_millis(300);

/// A request to the thread to read something.
enum Read {
    /// Read a line, with this prompt.
    Line(String),
    /// Read the answer to this question.
    Answer(String),
}

/// The keyboard of the person.
pub(super) struct Keyboard {
    requests: mpsc::Sender<Read>,
    typed: UnboundedReceiver<io::Result<Input>>,
    stopper: Stopper,
    modes: Modes,
    /// True if a request has no input yet.
    is_pending: bool,
}

impl Keyboard {
    /// Starts the thread, which reads on request.
    pub(super) fn start(out: &Out, history: Option<History>, finder: Finder) -> io::Result<Self> {
        let editor = Editor::new(Setup {
            prompt: PROMPT.to_owned(),
            look: out.look(),
            screen: out.screen().clone(),
            history,
            // Its lines have credentials for tools.
            unsaved: Some("/env".to_owned()),
            finder,
        })?;
        let stopper = editor.stopper();
        let modes = editor.modes();
        signals::reapply_on_continue(modes.clone())?;
        out.set_printer(editor.printer());
        let (requests, requested) = mpsc::channel();
        let (sender, typed) = unbounded_channel();
        let out = out.clone();
        let read = move || read(editor, &out, &requested, &sender);
        thread::Builder::new().name("keyboard".to_owned()).spawn(read)?;
        Ok(Self { requests, typed, stopper, modes, is_pending: false })
    }

    /// Reads a line. If the future is dropped before there is one, the next call returns it.
    pub(super) async fn read(&mut self, prompt: &str) -> io::Result<Input> {
        self.input(Read::Line(prompt.to_owned())).await
    }

    /// Reads the answer to a question. Keys that were pressed before the question do not count.
    pub(super) async fn ask(&mut self, question: &str) -> io::Result<Input> {
        self.input(Read::Answer(question.to_owned())).await
    }

    async fn input(&mut self, request: Read) -> io::Result<Input> {
        if !self.is_pending {
            // If the thread has ended, receiving fails too.
            let _ = self.requests.send(request);
            self.is_pending = true;
        }
        let input = self.typed.recv().await;
        self.is_pending = false;
        input.unwrap_or(Ok(Input::End))
    }

    /// Ends the thread, and waits until the terminal is as it was before.
    pub(super) async fn stop(self) {
        let Self { requests, mut typed, stopper, modes, is_pending } = self;
        if is_pending && !stopper.stop() {
            // An editor of plain lines cannot be stopped, and did not change the terminal.
            return;
        }
        // The thread ends, and closes its channel when the editor is dropped.
        drop(requests);
        let closed = async { while typed.recv().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, closed).await.is_err() {
            // If the terminal is gone, there is nothing to restore.
            let _ = modes.restore();
        }
    }
}

fn read(
    mut editor: Editor,
    out: &Out,
    requests: &mpsc::Receiver<Read>,
    typed: &UnboundedSender<io::Result<Input>>,
) {
    while let Ok(request) = requests.recv() {
        out.set_reading(true);
        let input = match request {
            Read::Line(prompt) => {
                editor.set_prompt(&prompt);
                editor.read()
            }
            Read::Answer(question) => editor.read_answer(&question),
        };
        out.set_reading(false);
        if typed.send(input).is_err() {
            return;
        }
    }
}
