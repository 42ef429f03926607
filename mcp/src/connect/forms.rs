//! The result with which a server of the newest revision asks for input. The forms are filled, and
//! the call is repeated with the answers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use rmcp::model::{ElicitRequestParams, ElicitResult};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::RemoteCallError;
use crate::form::{FormReply, FormRequest, Interaction};
use crate::wire::{FORM, InputAnswers, MAX_MESSAGE, plain};

/// The most times that a server may ask in one call.
pub(super) const ROUNDS: usize = 8;

/// The most forms that a server may ask for at once.
const FORMS: usize = 8;

/// The pause before a call is repeated if its server asks only for the repetition.
const PAUSE: Duration = Duration::from_secs(1);

/// The status of a call, according to its result.
pub(super) enum ResultStatus<'a> {
    /// The call is complete.
    Complete,
    /// The server asks for input.
    Asking(Required<'a>),
}

/// The input that a server asks for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Required<'a> {
    #[serde(borrow, default)]
    input_requests: Option<BTreeMap<String, RequestedInput<'a>>>,
    #[serde(default)]
    request_state: Option<String>,
}

#[derive(Deserialize)]
struct RequestedInput<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(default)]
    params: Value,
}

impl<'a> ResultStatus<'a> {
    /// Reads the result of a call. `may_ask` is true for the revision in which a result can ask for
    /// input.
    ///
    /// # Errors
    ///
    /// Fails if it is not the result of a call, or asks for something that was not offered.
    pub(super) fn read(result: &'a Bytes, may_ask: bool) -> Result<Self, RemoteCallError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ResultHead<'a> {
            #[serde(borrow, default)]
            result_type: Option<Cow<'a, str>>,
        }

        if !result.starts_with(b"{") {
            return Err(malformed("the result is not an object"));
        }
        let head: ResultHead<'_> =
            serde_json::from_slice(result).map_err(|error| malformed(&error.to_string()))?;
        match head.result_type.as_deref() {
            None | Some("complete") => Ok(Self::Complete),
            Some("input_required") if may_ask => Required::read(result).map(Self::Asking),
            Some(other) => Err(malformed(&format!("`{other}` was not offered"))),
        }
    }
}

impl<'a> Required<'a> {
    fn read(result: &'a Bytes) -> Result<Self, RemoteCallError> {
        if result.len() > MAX_MESSAGE {
            return Err(malformed("the server asks for too much at once"));
        }
        let required: Self =
            serde_json::from_slice(result).map_err(|error| malformed(&error.to_string()))?;
        let requests = required.input_requests.iter().flatten();
        if let Some((_, other)) = requests.clone().find(|(_, request)| request.method != FORM) {
            return Err(malformed(&format!("`{}` was not offered", other.method)));
        }
        if requests.count() > FORMS {
            return Err(malformed("the server asks for too much at once"));
        }
        Ok(required)
    }

    /// Has the forms filled, one after the other, and returns the answers.
    pub(super) async fn answered(self, interaction: &dyn Interaction) -> InputAnswers {
        let Self { input_requests, request_state } = self;
        if input_requests.as_ref().is_none_or(BTreeMap::is_empty) {
            // The server only wants the call to be repeated.
            tokio::time::sleep(PAUSE).await;
            return InputAnswers { input_responses: None, request_state };
        }
        let mut responses = Map::new();
        for (name, request) in input_requests.into_iter().flatten() {
            let params = serde_json::from_value::<ElicitRequestParams>(request.params).ok();
            let filled = match params.and_then(FormRequest::from_params) {
                Some(form) => interaction.fill(form).await,
                None => FormReply::Declined,
            };
            responses.insert(name, json!(ElicitResult::from(filled)));
        }
        InputAnswers { input_responses: Some(responses.into()), request_state }
    }
}

pub(super) fn malformed(reason: &str) -> RemoteCallError {
    RemoteCallError::Malformed(plain(reason))
}
