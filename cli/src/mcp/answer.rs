//! The envelope of a call as the answer that a client is given.

use std::borrow::Cow;
use std::fmt::Write as _;

use ikigai_agent::{Excerpt, SessionAssets, excerpt};
use ikigai_host::exec::envelope::{Envelope, Failure, Success};
use ikigai_host::registry::{Mismatch, Tool};
use ikigai_mcp::{Answer, Resource, Unanswered};
use ikigai_protocol::EnvelopeCode;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::tools;

/// The bytes of stderr that a client is given, from its end.
const STDERR_SHOWN: usize = 4 << 10;

/// Returns the answer for an envelope. A result of more than `limit` characters is cut, and the
/// whole is kept among `assets`.
pub(super) async fn of(
    envelope: Envelope,
    tool: &Tool,
    limit: usize,
    assets: Option<&SessionAssets>,
) -> Result<Answer, Unanswered> {
    let success = match &envelope {
        Envelope::Failure(failure) => return of_failure(failure),
        Envelope::Success(success) => success,
    };
    let is_error = has_error_code(success);
    let structured = |text: &str| match tools::output(tool) {
        Some(_) if !is_error => serde_json::from_str::<Map<String, Value>>(text).ok(),
        _ => None,
    };
    let id = format!("{}-{}", tool.name(), Uuid::now_v7().simple());
    let Some(cut) = excerpt(&envelope, limit, &id, assets).await else {
        let text = success.result.get();
        let structured = structured(text);
        return Ok(Answer { text: text.to_owned(), is_error, structured, ..Answer::default() });
    };
    let Excerpt { result, keeps_shape, truncated, whole } = cut;
    let structured = structured(&result).filter(|_| keeps_shape);
    let whole = whole.map(|uri| Resource {
        name: uri.rsplit('/').next().unwrap_or_default().to_owned(),
        uri,
        size: None,
    });
    Ok(Answer {
        text: format!("{result}\n\n{truncated}"),
        // A client checks a result against the schema of the tool unless it is an error.
        is_error: is_error || (tools::output(tool).is_some() && !keeps_shape),
        structured,
        whole,
        meta: Map::new(),
    })
}

/// Returns the answer to a call whose arguments do not match the schema of its tool.
pub(super) fn of_mismatches(tool: &str, mismatches: &[Mismatch]) -> String {
    let mut text = format!("the arguments do not match the schema of `{tool}`:");
    for Mismatch { place, text: what } in mismatches {
        let place =
            if place.is_empty() { Cow::Borrowed("") } else { format!("`{place}`: ").into() };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n- {place}{what}");
    }
    text
}

fn of_failure(failure: &Failure) -> Result<Answer, Unanswered> {
    let Failure { error, error_code, limit, remains, .. } = failure;
    match error_code {
        EnvelopeCode::InvalidParams | EnvelopeCode::ToolNotFound => {
            return Err(Unanswered::Invalid(error.clone()));
        }
        EnvelopeCode::ToolTimeout
        | EnvelopeCode::ToolCrashed
        | EnvelopeCode::InvalidOutput
        | EnvelopeCode::PermissionDenied => {}
    }
    let mut text = error.clone();
    if let Some(stderr) = remains.as_ref().map(|it| &it.stderr).filter(|it| !it.is_empty()) {
        let start = stderr.ceil_char_boundary(stderr.len().saturating_sub(STDERR_SHOWN));
        // Writing to a string cannot fail.
        let _ = write!(text, "\n\nstderr of the tool:\n{}", &stderr[start..]);
    }
    let mut meta = Map::new();
    meta.insert("ikigai/error_code".to_owned(), error_code.as_str().into());
    if let Some(limit) = limit {
        meta.insert("ikigai/limit".to_owned(), limit.as_str().into());
    }
    Ok(Answer { text, is_error: true, meta, ..Answer::default() })
}

/// Returns whether a tool answers that it failed, as the standard tools do.
fn has_error_code(success: &Success) -> bool {
    #[derive(Deserialize)]
    struct Coded<'a> {
        #[serde(borrow)]
        error_code: Cow<'a, str>,
    }
    serde_json::from_str::<Coded<'_>>(success.result.get())
        .is_ok_and(|coded| !coded.error_code.is_empty())
}
