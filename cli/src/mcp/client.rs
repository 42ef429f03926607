//! The client of a call as the front end of the host: it answers for its user.

use std::sync::Arc;

use ikigai_host::consent::{ConsentAnswer as Consent, ConsentQuestion, ConsentReply, Respondent};
use ikigai_host::front_end::{AnswerFuture, FormAnswer, FrontEnd, ServerForm, ToolProgress};
use ikigai_mcp::{Asker, QuestionVerdict};

/// The client of one call.
pub(super) struct ClientFrontEnd(pub(super) Arc<dyn Asker>);

impl FrontEnd for ClientFrontEnd {
    fn respondent(&self) -> Respondent {
        Respondent::Client
    }

    fn ask<'a>(&'a self, question: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply> {
        Box::pin(async {
            let ikigai_mcp::AskReply { verdict, waited } = self.0.ask(&question.to_string()).await;
            let answer = match verdict {
                QuestionVerdict::Yes => Consent::Yes,
                QuestionVerdict::No => Consent::No,
                QuestionVerdict::Timeout => Consent::Timeout,
                QuestionVerdict::Unavailable(reason) => Consent::Unavailable(reason),
                QuestionVerdict::Pending => Consent::Pending,
            };
            ConsentReply { answer, waited }
        })
    }

    fn fill(&self, form: ServerForm) -> AnswerFuture<'_, FormAnswer> {
        let ServerForm { server, message, schema } = form;
        // The user must not mistake the server's words for the host's.
        let message = format!("The server `{server}` asks: {message}");
        Box::pin(async {
            match self.0.fill(ikigai_mcp::FormRequest { message, schema }).await {
                ikigai_mcp::FormReply::Accepted(values) => FormAnswer::Accepted(values),
                ikigai_mcp::FormReply::Declined => FormAnswer::Declined,
                ikigai_mcp::FormReply::Cancelled => FormAnswer::Cancelled,
            }
        })
    }

    fn report(&self, progress: ToolProgress) {
        let ToolProgress { progress, total, message } = progress;
        self.0.report(ikigai_mcp::CallProgress { progress, total, message });
    }
}
