//! The replies of a server: answers in pieces, errors, and failures of the connection.

use serde_json::Value;

use crate::answer::{Answer, Ending, Piece};
use crate::issued::Issued;
use crate::stream::{self, Asked, Step};
use crate::{Gate, Received, Trouble, Vendor};

/// A reply. An answer is built piece by piece, in the order in which it is sent; every other reply
/// is made by one function.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) kind: Kind,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) delivery: Delivery,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Answer(Answer),
    Trouble(Trouble),
    Status { status: u16, message: String },
    Raw { status: u16, content_type: String, body: Vec<u8> },
    Silence(Gate),
    HangUp,
}

/// The transfer of a body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    /// The number of bytes that are sent before the transfer ends early, and how it ends.
    pub(crate) end: Option<(usize, End)>,
    /// The number of bytes that are written at once; by default one event.
    pub(crate) portion: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The connection is closed.
    Cut,
    /// The body ends as if it were complete.
    Clean,
}

impl Reply {
    /// Creates an empty answer: status 200, a stream, with its proper end.
    #[must_use]
    pub fn answer() -> Self {
        Self::from_kind(Kind::Answer(Answer {
            pieces: Vec::new(),
            ending: Ending::Finished,
            input: 11,
            output: 7,
            cached: 0,
            cache_written: 0,
            fragment: 5,
            content_type: "text/event-stream; charset=utf-8".to_owned(),
            always_ends: false,
        }))
    }

    /// Creates an error with the vendor's status and message.
    #[must_use]
    pub fn trouble(trouble: Trouble) -> Self {
        Self::from_kind(Kind::Trouble(trouble))
    }

    /// Creates a reply of any status, with an error in the vendor's JSON.
    #[must_use]
    pub fn status(status: u16, message: &str) -> Self {
        Self::from_kind(Kind::Status { status, message: message.to_owned() })
    }

    /// Creates a reply with any body of any type.
    #[must_use]
    pub fn raw(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::from_kind(Kind::Raw {
            status,
            content_type: content_type.to_owned(),
            body: body.into(),
        })
    }

    /// Creates an HTML page, as proxies send it.
    #[must_use]
    pub fn html(status: u16) -> Self {
        let body = format!(
            "<html>\r\n<head><title>{status}</title></head>\r\n<body><center><h1>{status}</h1>\
             </center><hr><center>cloudflare</center></body>\r\n</html>\r\n"
        );
        Self::raw(status, "text/html", body)
    }

    /// Creates a reply that sends nothing, not even headers, until the gate opens. Then the
    /// connection is closed.
    #[must_use]
    pub fn silence(gate: &Gate) -> Self {
        Self::from_kind(Kind::Silence(gate.clone()))
    }

    /// Creates a reply that closes the connection as soon as the request was read.
    #[must_use]
    pub fn hang_up() -> Self {
        Self::from_kind(Kind::HangUp)
    }

    /// Returns the whole body of an answer to this request. Answers with the same pieces have the
    /// same length, even though a server issues different ids.
    ///
    /// # Panics
    ///
    /// Panics if the reply is not an answer.
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

    fn from_kind(kind: Kind) -> Self {
        Self { kind, headers: Vec::new(), delivery: Delivery::default() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Closes the connection after this many bytes of the body, without the end of the chunked
    /// transfer.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.delivery.end = Some((bytes, End::Cut));
        self
    }

    /// Ends the body after this many bytes, with a proper end of the transfer.
    #[must_use]
    pub fn end_after(mut self, bytes: usize) -> Self {
        self.delivery.end = Some((bytes, End::Clean));
        self
    }

    /// Writes the body in chunks of this many bytes.
    #[must_use]
    pub fn in_portions(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "a portion has a byte at least");
        self.delivery.portion = Some(bytes);
        self
    }
}

/// The pieces of an answer. Each function panics if the reply is not an answer.
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

    /// Adds a fragment of text. Adjacent fragments are one block.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.push(Piece::Text(text.to_owned()))
    }

    /// Adds a fragment of a visible thought. On Chat Completions it is sent as vLLM and llama.cpp
    /// do.
    #[must_use]
    pub fn thinking(self, text: &str) -> Self {
        self.push(Piece::Thinking(text.to_owned()))
    }

    /// Adds a thought of which only the data to send back is visible.
    #[must_use]
    pub fn hidden_thinking(self) -> Self {
        self.push(Piece::HiddenThinking)
    }

    /// Adds a call with an id that the server chooses.
    #[must_use]
    pub fn call(self, name: &str, arguments: &Value) -> Self {
        self.call_raw(name, &arguments.to_string())
    }

    /// Adds a call with any text as arguments. Google's format only allows an object. For other
    /// texts, its answer ends with `MALFORMED_FUNCTION_CALL` instead.
    #[must_use]
    pub fn call_raw(self, name: &str, arguments: &str) -> Self {
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        self.push(Piece::Call { id: None, name, arguments })
    }

    /// Adds a call with an id that the test chooses. The id may be a repeated one, or empty for no
    /// id, as in Google's older models.
    #[must_use]
    pub fn call_as(self, id: &str, name: &str, arguments: &Value) -> Self {
        let (id, name) = (Some(id.to_owned()), name.to_owned());
        self.push(Piece::Call { id, name, arguments: arguments.to_string() })
    }

    /// Adds a keep-alive: Anthropic's event, or a comment.
    #[must_use]
    pub fn ping(self) -> Self {
        self.push(Piece::Ping)
    }

    /// Adds an undocumented event, which a client must ignore.
    #[must_use]
    pub fn unknown_event(self) -> Self {
        self.push(Piece::UnknownEvent)
    }

    /// Adds any JSON as an event.
    #[must_use]
    pub fn event(self, event: Value) -> Self {
        self.push(Piece::Event(event))
    }

    /// Adds an error in the stream, in the form that the vendor documents.
    #[must_use]
    pub fn error(self, trouble: Trouble) -> Self {
        self.failing(trouble, false)
    }

    /// Adds an error in the vendor's other form, if it has one: OpenAI's `response.failed`, and
    /// Google's error without an event.
    #[must_use]
    pub fn error_in_other_form(self, trouble: Trouble) -> Self {
        self.failing(trouble, true)
    }

    /// After an error, only the test adds to the stream, which does not get its usual end.
    fn failing(self, trouble: Trouble, is_other_form: bool) -> Self {
        self.push(Piece::Error { trouble, is_other_form }).ending(Ending::Missing)
    }

    /// Adds raw bytes.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.push(Piece::Bytes(bytes.to_vec()))
    }

    /// Adds a fragment of text with bytes that are not UTF-8.
    #[must_use]
    pub fn invalid_utf8(self) -> Self {
        self.push(Piece::InvalidUtf8)
    }

    /// Sends nothing more until the gate opens.
    #[must_use]
    pub fn stall(self, gate: &Gate) -> Self {
        self.push(Piece::Stall(gate.clone()))
    }

    /// Sets the tokens of the request, and of the answer with its thoughts, which are half of it if
    /// there are any.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        let answer = self.answering();
        (answer.input, answer.output) = (input, output);
        self
    }

    /// Sets the tokens of the request that were read from a cache.
    #[must_use]
    pub fn cached(mut self, tokens: u64) -> Self {
        self.answering().cached = tokens;
        self
    }

    /// Sets the tokens of the request that were written to a cache, which Google does not report.
    #[must_use]
    pub fn cache_written(mut self, tokens: u64) -> Self {
        self.answering().cache_written = tokens;
        self
    }

    /// Sets the number of characters of a call's arguments that are sent at once; the default is 5.
    #[must_use]
    pub fn fragments_of(mut self, characters: usize) -> Self {
        assert!(characters > 0, "a fragment has a character at least");
        self.answering().fragment = characters;
        self
    }

    /// Sets a content type that differs from a stream's.
    #[must_use]
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.answering().content_type = content_type.to_owned();
        self
    }

    /// Ends the answer because of the limit on its length.
    #[must_use]
    pub fn cut_by_length(self) -> Self {
        self.ending(Ending::Length)
    }

    /// Ends the answer with a refusal for this reason.
    #[must_use]
    pub fn refused(self, why: &str) -> Self {
        self.ending(Ending::Refused(why.to_owned()))
    }

    /// Sends the reason why the answer ended in each response, as some of Google's models do: only
    /// the end of the stream marks the last one. It has no effect for other vendors.
    #[must_use]
    pub fn ending_in_each_response(mut self) -> Self {
        self.answering().always_ends = true;
        self
    }

    /// Ends the answer with another reason, as newer models may.
    #[must_use]
    pub fn ending_with(self, word: &str) -> Self {
        self.ending(Ending::Word(word.to_owned()))
    }

    /// Ends the stream properly, but without the event that completes the answer.
    #[must_use]
    pub fn without_end(self) -> Self {
        self.ending(Ending::Missing)
    }

    fn ending(mut self, ending: Ending) -> Self {
        self.answering().ending = ending;
        self
    }
}
