//! The client of a call as the front end of the host: it answers for its user.

use ikigai_host::consent::{Answer as Consent, Question, Reply, Respondent};
use ikigai_host::front_end::{Answer, Filled, Form, FrontEnd, Progress};
use ikigai_mcp::{Asker, Verdict};

/// The client of one call.
pub(super) struct Client(pub(super) Asker);

impl FrontEnd for Client {
    fn respondent(&self) -> Respondent {
        Respondent::Client
    }

    fn ask<'a>(&'a self, question: &'a Question) -> Answer<'a, Reply> {
        Box::pin(async {
            let ikigai_mcp::Reply { verdict, waited } = self.0.ask(&question.to_string()).await;
            let answer = match verdict {
                Verdict::Yes => Consent::Yes,
                Verdict::No => Consent::No,
                Verdict::Timeout => Consent::Timeout,
                Verdict::Unavailable(reason) => Consent::Unavailable(reason),
                Verdict::Pending => Consent::Pending,
            };
            Reply { answer, waited }
        })
    }

    fn fill(&self, form: Form) -> Answer<'_, Filled> {
        let Form { server, message, schema } = form;
        // The user must not mistake the server's words for the host's.
        let message = format!("The server `{server}` asks: {message}");
        Box::pin(async {
            match self.0.fill(ikigai_mcp::Form { message, schema }).await {
                ikigai_mcp::Filled::Accepted(values) => Filled::Accepted(values),
                ikigai_mcp::Filled::Declined => Filled::Declined,
                ikigai_mcp::Filled::Cancelled => Filled::Cancelled,
            }
        })
    }

    fn report(&self, progress: Progress) {
        let Progress { progress, total, message } = progress;
        self.0.report(ikigai_mcp::Progress { progress, total, message });
    }
}
