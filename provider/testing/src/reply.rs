//! What a server is to reply: an answer in its pieces, a failure, or neither.

use serde_json::Value;

use crate::issued::Issued;
use crate::stream::{self, Asked, Step};
use crate::{Gate, Received, Trouble, Vendor};

/// One reply. An answer is built piece by piece, in the order in which it is sent;
/// everything else is made by a function of its own.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) kind: Kind,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) delivery: Delivery,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Answer(Answer),
    Trouble { trouble: Trouble, message: Option<String> },
    Status { status: u16, message: String },
    Raw { status: u16, content_type: String, body: Vec<u8> },
    Silence(Gate),
    HangUp,
}

/// How a body travels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    /// How many bytes are sent before the end that is not in the script.
    pub(crate) end: Option<(usize, End)>,
    /// How many bytes are written at once; an event as a rule.
    pub(crate) portion: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The connection is closed.
    Cut,
    /// The body ends as if it were whole.
    Clean,
}

/// A streamed answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) ending: Ending,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cached: u64,
    /// How many characters of the arguments of a call are sent at once.
    pub(crate) fragment: usize,
    pub(crate) content_type: String,
    /// Whether each of Google's responses says that the answer has ended.
    pub(crate) always_ends: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(String),
    Thinking(String),
    HiddenThinking,
    Call { id: Option<String>, name: String, arguments: String },
    Ping,
    UnknownEvent,
    Event(Value),
    Error { trouble: Trouble, is_other_form: bool },
    Bytes(Vec<u8>),
    InvalidUtf8,
    Stall(Gate),
}

/// How an answer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Finished,
    Length,
    Refused(String),
    Word(String),
    Missing,
}

impl Reply {
    /// An answer, empty so far: 200, a stream, finished in order.
    #[must_use]
    pub fn answer() -> Self {
        Self::of(Kind::Answer(Answer {
            pieces: Vec::new(),
            ending: Ending::Finished,
            input: 11,
            output: 7,
            cached: 0,
            fragment: 5,
            content_type: "text/event-stream; charset=utf-8".to_owned(),
            always_ends: false,
        }))
    }

    /// A failure, with the status and in the words of the vendor.
    #[must_use]
    pub fn trouble(trouble: Trouble) -> Self {
        Self::of(Kind::Trouble { trouble, message: None })
    }

    /// Any status, with an error in the vendor's JSON.
    #[must_use]
    pub fn status(status: u16, message: &str) -> Self {
        Self::of(Kind::Status { status, message: message.to_owned() })
    }

    /// Any body of any type.
    #[must_use]
    pub fn raw(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::of(Kind::Raw { status, content_type: content_type.to_owned(), body: body.into() })
    }

    /// A page for people, as proxies send it.
    #[must_use]
    pub fn html(status: u16) -> Self {
        let body = format!(
            "<html>\r\n<head><title>{status}</title></head>\r\n<body><center><h1>{status}</h1>\
             </center><hr><center>cloudflare</center></body>\r\n</html>\r\n"
        );
        Self::raw(status, "text/html", body)
    }

    /// Nothing, not even headers, until the gate opens; then the connection is closed.
    #[must_use]
    pub fn silence(gate: &Gate) -> Self {
        Self::of(Kind::Silence(gate.clone()))
    }

    /// The connection is closed as soon as the request was read.
    #[must_use]
    pub fn hang_up() -> Self {
        Self::of(Kind::HangUp)
    }

    /// The body of an answer to this request, whole; its length is that of every answer of
    /// the same pieces, whatever ids a server makes up.
    ///
    /// # Panics
    ///
    /// On a reply that is no answer.
    #[must_use]
    pub fn body(&self, vendor: Vendor, request: &Received) -> Vec<u8> {
        let Kind::Answer(answer) = &self.kind else {
            panic!("only an answer has a body of its own, not {:?}", self.kind)
        };
        let model = vendor.model(request).unwrap_or_default();
        let mut asked = Asked { model, request, issued: &mut Issued::default() };
        let steps = stream::render(vendor, answer, &mut asked);
        let bytes = steps.into_iter().filter_map(|step| match step {
            Step::Bytes(bytes) => Some(bytes),
            Step::Stall(_) => None,
        });
        bytes.flatten().collect()
    }

    fn of(kind: Kind) -> Self {
        Self { kind, headers: Vec::new(), delivery: Delivery::default() }
    }

    /// A further header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The words of a failure, in place of the vendor's.
    #[must_use]
    pub fn message(mut self, message: &str) -> Self {
        match &mut self.kind {
            Kind::Trouble { message: words, .. } => *words = Some(message.to_owned()),
            other => panic!("only a failure says something in its own words, not {other:?}"),
        }
        self
    }

    /// The connection is closed after so many bytes of the body, without the end that
    /// chunked transfer has.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.delivery.end = Some((bytes, End::Cut));
        self
    }

    /// The body ends after so many bytes, and HTTP sees nothing wrong with it.
    #[must_use]
    pub fn end_after(mut self, bytes: usize) -> Self {
        self.delivery.end = Some((bytes, End::Clean));
        self
    }

    /// The body is written so many bytes at a time, each a chunk of its own.
    #[must_use]
    pub fn in_portions(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "a portion has a byte at least");
        self.delivery.portion = Some(bytes);
        self
    }
}

/// The pieces of an answer; each panics on a reply that is none.
impl Reply {
    fn answering(&mut self) -> &mut Answer {
        match &mut self.kind {
            Kind::Answer(answer) => answer,
            other => panic!("only an answer has pieces, not {other:?}"),
        }
    }

    fn push(mut self, piece: Piece) -> Self {
        self.answering().pieces.push(piece);
        self
    }

    /// A fragment of text. Fragments with no other content between them are one block.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.push(Piece::Text(text.to_owned()))
    }

    /// A fragment of a thought that is shown. On Chat Completions it is sent as vLLM and
    /// llama.cpp do.
    #[must_use]
    pub fn thinking(self, text: &str) -> Self {
        self.push(Piece::Thinking(text.to_owned()))
    }

    /// A thought of which only what comes back is sent.
    #[must_use]
    pub fn hidden_thinking(self) -> Self {
        self.push(Piece::HiddenThinking)
    }

    /// A call, with an id of the server's making.
    #[must_use]
    pub fn call(self, name: &str, arguments: &Value) -> Self {
        self.call_raw(name, &arguments.to_string())
    }

    /// A call whose arguments may be anything. Google's format has no room for anything
    /// but an object; there, the answer ends with `MALFORMED_FUNCTION_CALL` instead.
    #[must_use]
    pub fn call_raw(self, name: &str, arguments: &str) -> Self {
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        self.push(Piece::Call { id: None, name, arguments })
    }

    /// A call with an id of the test's choice, which may be one that was used before;
    /// empty for none, as Google's older models have it.
    #[must_use]
    pub fn call_as(self, id: &str, name: &str, arguments: &Value) -> Self {
        let (id, name) = (Some(id.to_owned()), name.to_owned());
        self.push(Piece::Call { id, name, arguments: arguments.to_string() })
    }

    /// A sign of life without content: Anthropic's event, or a comment of the format.
    #[must_use]
    pub fn ping(self) -> Self {
        self.push(Piece::Ping)
    }

    /// An event that no documentation has, which a client is to pass over.
    #[must_use]
    pub fn unknown_event(self) -> Self {
        self.push(Piece::UnknownEvent)
    }

    /// Any JSON as an event.
    #[must_use]
    pub fn event(self, event: Value) -> Self {
        self.push(Piece::Event(event))
    }

    /// A failure in the stream, in the form that the vendor documents.
    #[must_use]
    pub fn error(self, trouble: Trouble) -> Self {
        self.failing(trouble, false)
    }

    /// The same in the vendor's other form, where it has one: OpenAI's `response.failed`,
    /// and Google's error that is no event.
    #[must_use]
    pub fn error_in_other_form(self, trouble: Trouble) -> Self {
        self.failing(trouble, true)
    }

    /// What follows a failure is what the test adds, and no end of the stream's own.
    fn failing(self, trouble: Trouble, is_other_form: bool) -> Self {
        self.push(Piece::Error { trouble, is_other_form }).ending(Ending::Missing)
    }

    /// Bytes as they are.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.push(Piece::Bytes(bytes.to_vec()))
    }

    /// A fragment of text with bytes that are no UTF-8.
    #[must_use]
    pub fn invalid_utf8(self) -> Self {
        self.push(Piece::InvalidUtf8)
    }

    /// Nothing further until the gate opens.
    #[must_use]
    pub fn stall(self, gate: &Gate) -> Self {
        self.push(Piece::Stall(gate.clone()))
    }

    /// What the answer cost, in tokens: of the request, and of the answer, thoughts
    /// included.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        let answer = self.answering();
        (answer.input, answer.output) = (input, output);
        self
    }

    /// How much of the request was read from a cache.
    #[must_use]
    pub fn cached(mut self, tokens: u64) -> Self {
        self.answering().cached = tokens;
        self
    }

    /// How many characters of the arguments of a call are sent at once; 5 as a rule.
    #[must_use]
    pub fn fragments_of(mut self, characters: usize) -> Self {
        assert!(characters > 0, "a fragment has a character at least");
        self.answering().fragment = characters;
        self
    }

    /// Another type than that of a stream.
    #[must_use]
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.answering().content_type = content_type.to_owned();
        self
    }

    /// The answer ends because of the limit on its length.
    #[must_use]
    pub fn cut_by_length(self) -> Self {
        self.ending(Ending::Length)
    }

    /// The model or the vendor refuses, for this reason.
    #[must_use]
    pub fn refused(self, why: &str) -> Self {
        self.ending(Ending::Refused(why.to_owned()))
    }

    /// Each response says that the answer has ended, as some of Google's models do: the last
    /// one is told by the end of the stream alone. The other vendors have no such models.
    #[must_use]
    pub fn ending_in_each_response(mut self) -> Self {
        self.answering().always_ends = true;
        self
    }

    /// Another word for why the answer ended, as newer models may have it.
    #[must_use]
    pub fn ending_with(self, word: &str) -> Self {
        self.ending(Ending::Word(word.to_owned()))
    }

    /// The stream ends in order without the event that says that the answer is whole.
    #[must_use]
    pub fn without_end(self) -> Self {
        self.ending(Ending::Missing)
    }

    fn ending(mut self, ending: Ending) -> Self {
        self.answering().ending = ending;
        self
    }
}
