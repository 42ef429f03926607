//! The editor, on a thread of its own: reading blocks, and tools are to be found and
//! signals to be heard meanwhile.

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

/// What stands before a line.
pub(super) const PROMPT: &str = "> ";

/// How long the editor has to put the terminal back. It looks every tenth of a second whether
/// it is to end.
const STOP_TIMEOUT: Duration = Duration::from_millis(300);

/// What is to be read.
enum Wanted {
    /// A line behind this prompt.
    Line(String),
    /// The answer to this question.
    Answer(String),
}

/// Reads what is typed.
pub(super) struct Keyboard {
    wanted: mpsc::Sender<Wanted>,
    typed: UnboundedReceiver<io::Result<Input>>,
    stopper: Stopper,
    modes: Modes,
    is_asked: bool,
}

impl Keyboard {
    /// Starts the thread. It reads when it is asked to.
    pub(super) fn start(out: &Out, history: Option<History>, finder: Finder) -> io::Result<Self> {
        let editor = Editor::new(Setup {
            prompt: PROMPT.to_owned(),
            look: out.look(),
            screen: out.screen().clone(),
            history,
            // Credentials for tools.
            unsaved: Some("/env".to_owned()),
            finder,
        })?;
        let stopper = editor.stopper();
        let modes = editor.modes();
        signals::set_again(modes.clone())?;
        out.set_printer(editor.printer());
        let (wanted, asked) = mpsc::channel();
        let (sender, typed) = unbounded_channel();
        let out = out.clone();
        let read = move || read(editor, &out, &asked, &sender);
        thread::Builder::new().name("keyboard".to_owned()).spawn(read)?;
        Ok(Self { wanted, typed, stopper, modes, is_asked: false })
    }

    /// Reads a line. Where this is dropped before there is one, the next call has it.
    pub(super) async fn read(&mut self, prompt: &str) -> io::Result<Input> {
        self.typed(Wanted::Line(prompt.to_owned())).await
    }

    /// Reads the answer to a question; what was typed before it is asked is none.
    pub(super) async fn ask(&mut self, question: &str) -> io::Result<Input> {
        self.typed(Wanted::Answer(question.to_owned())).await
    }

    async fn typed(&mut self, wanted: Wanted) -> io::Result<Input> {
        if !self.is_asked {
            // Without a thread there is nothing to receive either.
            let _ = self.wanted.send(wanted);
            self.is_asked = true;
        }
        let input = self.typed.recv().await;
        self.is_asked = false;
        input.unwrap_or(Ok(Input::End))
    }

    /// Ends the reading, and waits until the terminal is as it was.
    pub(super) async fn stop(self) {
        let Self { wanted, mut typed, stopper, modes, is_asked } = self;
        if is_asked && !stopper.stop() {
            // One that reads plain lines cannot be stopped, and leaves nothing to put back.
            return;
        }
        // The thread ends, and closes its side when the editor is gone.
        drop(wanted);
        let closed = async { while typed.recv().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, closed).await.is_err() {
            // A terminal that is gone has nothing to be put back.
            let _ = modes.restore();
        }
    }
}

fn read(
    mut editor: Editor,
    out: &Out,
    wanted: &mpsc::Receiver<Wanted>,
    typed: &UnboundedSender<io::Result<Input>>,
) {
    while let Ok(wanted) = wanted.recv() {
        out.set_reading(true);
        let input = match wanted {
            Wanted::Line(prompt) => {
                editor.set_prompt(&prompt);
                editor.read()
            }
            Wanted::Answer(question) => editor.read_answer(&question),
        };
        out.set_reading(false);
        if typed.send(input).is_err() {
            return;
        }
    }
}
