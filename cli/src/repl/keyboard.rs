//! The line editor on its own thread. Reading blocks, while tools are discovered and signals are
//! handled.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ikigai_terminal::editor::{EditorSettings, History, LentTerminal, Modes, Stopper, WorkKey};
use ikigai_terminal::finder::Finder;
use ikigai_terminal::question::QuestionSender;
use ikigai_terminal::{Editor, EditorEvent};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::out::Out;
use super::signals;

/// The prompt for a line.
pub(super) const PROMPT: &str = "> ";

/// The time that the editor has to restore the terminal. Every tenth of a second it checks whether
/// it should end.
const STOP_TIMEOUT: Duration = Duration::from_millis(300);

/// A function for keys that control the work and are not part of a line.
pub(super) type OnKey = Arc<dyn Fn(WorkKey) + Send + Sync>;

/// A request to the thread.
enum KeyboardRequest {
    /// Read a line, with this prompt.
    Line(String),
    /// Read the answer to this question.
    Answer(String),
    /// Read the answer to this question without showing it.
    Secret(String),
    /// Show the typed text until the watch ends.
    Watch(KeyWatcher),
    /// Put the waiting lines into the next line.
    TakeBack,
    /// Replace the text of the next line.
    Text(String),
}

/// The thread's side of a watch.
struct KeyWatcher {
    stop: Arc<AtomicBool>,
    on_key: OnKey,
    ended: oneshot::Sender<io::Result<()>>,
}

/// A watch of the typed text while something runs.
struct KeyWatch {
    stop: Arc<AtomicBool>,
    on_key: OnKey,
    ended: oneshot::Receiver<io::Result<()>>,
}

/// The user's keyboard.
pub(super) struct Keyboard {
    requests: mpsc::Sender<KeyboardRequest>,
    typed: UnboundedReceiver<io::Result<EditorEvent>>,
    stopper: Stopper,
    asker: QuestionSender,
    modes: Modes,
    /// True if a request has no input yet.
    is_pending: bool,
    watch: Option<KeyWatch>,
}

impl Keyboard {
    /// Starts the thread, which reads on request.
    pub(super) fn start(out: &Out, history: Option<History>, finder: Finder) -> io::Result<Self> {
        let editor = Editor::new(EditorSettings {
            prompt: PROMPT.to_owned(),
            look: out.look(),
            screen: out.screen().clone(),
            history,
            // These lines have credentials.
            unsaved: ["/env", "/key"].map(str::to_owned).to_vec(),
            asks_for_secret: vec!["/key".to_owned()],
            finder,
        })?;
        let stopper = editor.stopper();
        let asker = editor.asker();
        let modes = editor.modes();
        signals::reapply_on_continue(modes.clone())?;
        out.set_printer(editor.printer());
        let (requests, requested) = mpsc::channel();
        let (sender, typed) = unbounded_channel();
        let out = out.clone();
        let read = move || read(editor, &out, &requested, &sender);
        thread::Builder::new().name("keyboard".to_owned()).spawn(read)?;
        Ok(Self { requests, typed, stopper, asker, modes, is_pending: false, watch: None })
    }

    /// Returns a handle that asks questions while something runs.
    pub(super) fn asker(&self) -> QuestionSender {
        self.asker.clone()
    }

    /// Reads a line. If the future is dropped before that, the next call returns the line.
    pub(super) async fn read(&mut self, prompt: &str) -> io::Result<EditorEvent> {
        self.input(KeyboardRequest::Line(prompt.to_owned())).await
    }

    /// Reads the answer to a question. Ignores keys that were pressed before the question. Text
    /// that a watch has shown is kept for the next line. A watch continues afterwards.
    pub(super) async fn ask(&mut self, question: &str) -> io::Result<EditorEvent> {
        let on_key = self.watch.as_ref().map(|watch| Arc::clone(&watch.on_key));
        self.end_watch().await?;
        let answer = self.input(KeyboardRequest::Answer(question.to_owned())).await;
        if let Some(on_key) = on_key {
            self.watch(on_key);
        }
        answer
    }

    /// Reads the answer to a question without showing it. Does not resume a watch.
    pub(super) async fn ask_for_secret(&mut self, question: &str) -> io::Result<EditorEvent> {
        self.input(KeyboardRequest::Secret(question.to_owned())).await
    }

    async fn input(&mut self, request: KeyboardRequest) -> io::Result<EditorEvent> {
        if !self.is_pending {
            self.request(request);
            self.is_pending = true;
        }
        let input = self.typed.recv().await;
        self.is_pending = false;
        input.unwrap_or(Ok(EditorEvent::End))
    }

    /// Shows the typed text from now on, and calls `on_key` with the keys that control the work.
    /// Finished lines are read later.
    pub(super) fn watch(&mut self, on_key: OnKey) {
        let (stop, (sender, ended)) = (Arc::<AtomicBool>::default(), oneshot::channel());
        let watched = KeyWatcher { stop: stop.clone(), on_key: on_key.clone(), ended: sender };
        self.request(KeyboardRequest::Watch(watched));
        self.watch = Some(KeyWatch { stop, on_key, ended });
    }

    /// Ends the watch, if there is one.
    pub(super) async fn end_watch(&mut self) -> io::Result<()> {
        let Some(KeyWatch { stop, ended, .. }) = self.watch.take() else { return Ok(()) };
        stop.store(true, Ordering::Relaxed);
        // If the thread has ended, the next read fails as well.
        ended.await.unwrap_or(Ok(()))
    }

    /// Puts the lines that were finished during a watch into the next line, so that the user
    /// decides about them again.
    pub(super) fn take_back(&self) {
        self.request(KeyboardRequest::TakeBack);
    }

    /// Replaces the text of the next line.
    pub(super) fn set_text(&self, text: String) {
        self.request(KeyboardRequest::Text(text));
    }

    /// Gives the terminal to another program, until the returned value is dropped.
    pub(super) fn lend(&self) -> io::Result<LentTerminal> {
        self.modes.lend()
    }

    fn request(&self, request: KeyboardRequest) {
        // If the thread has ended, receiving fails as well.
        let _ = self.requests.send(request);
    }

    /// Ends the thread, and waits until the terminal is restored.
    pub(super) async fn stop(self) {
        let Self { requests, mut typed, stopper, modes, is_pending, watch, .. } = self;
        if let Some(watch) = watch {
            watch.stop.store(true, Ordering::Relaxed);
        }
        if is_pending && !stopper.stop() {
            // An editor of plain lines cannot be stopped, and it did not change the terminal.
            return;
        }
        // The thread ends and closes its channel when the editor is dropped.
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
    requests: &mpsc::Receiver<KeyboardRequest>,
    typed: &UnboundedSender<io::Result<EditorEvent>>,
) {
    while let Ok(request) = requests.recv() {
        let is_sent = match request {
            KeyboardRequest::Line(prompt) => {
                editor.set_prompt(&prompt);
                typed.send(while_reading(out, || editor.read())).is_ok()
            }
            KeyboardRequest::Answer(question) => {
                typed.send(while_reading(out, || editor.read_answer(&question))).is_ok()
            }
            KeyboardRequest::Watch(KeyWatcher { stop, on_key, ended }) => {
                // If the watch ends with the program, it has no waiter.
                let _ = ended.send(editor.watch(&stop, &*on_key));
                true
            }
            KeyboardRequest::TakeBack => {
                editor.take_back();
                true
            }
            KeyboardRequest::Text(text) => {
                editor.set_text(&text);
                true
            }
            KeyboardRequest::Secret(question) => {
                typed.send(while_reading(out, || editor.read_secret(&question))).is_ok()
            }
        };
        if !is_sent {
            return;
        }
    }
}

fn while_reading(
    out: &Out,
    read: impl FnOnce() -> io::Result<EditorEvent>,
) -> io::Result<EditorEvent> {
    out.set_reading(true);
    let input = read();
    out.set_reading(false);
    input
}
