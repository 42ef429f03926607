//! Turns the envelope of a call into the answer for a client.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::iter;

use ikigai_agent::{Excerpt, Extent, SessionAssets, excerpt};
use ikigai_host::exec::content::{BlockKind, ContentAnswer};
use ikigai_host::exec::envelope::{Aside, Envelope, Failure, Remains, Success};
use ikigai_host::registry::{Mismatch, Tool};
use ikigai_mcp::{AnswerBody, CallAnswer, Resource, Unanswered};
use ikigai_protocol::EnvelopeCode;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::plain::{begun, plain};
use super::tools;

/// An upper bound on the characters of the note after a shortened result.
const NOTE: usize = 600;

/// The most lines of a text. opencode shows the model the first 2,000 lines of an answer, so this
/// leaves room for the note and the texts after it.
const LINES: usize = 1900;

/// The bytes of stderr that a client gets, from its end.
const STDERR_SHOWN: usize = 4 << 10;

/// Returns the answer for an envelope. Cuts a result of more than `limit` characters or more than
/// [`LINES`], so that the model gets at most `limit` characters including the note. `assets` keeps
/// the whole result. The text of `withheld` follows the result as a separate block.
pub(super) async fn from_envelope(
    envelope: Envelope,
    tool: &Tool,
    limit: usize,
    assets: Option<&SessionAssets>,
) -> Result<CallAnswer, Unanswered> {
    let answer = of_result(&envelope, tool, limit, assets).await?;
    let Aside { allow_with, withheld, unnameable, loopback, unwatched, background, .. } =
        envelope.aside();
    let allow_with = allow_with.as_ref().map(|command| {
        format!("Policy refused a part of this call. Tell the user which, and that this command allows it: {command}")
    });
    let texts = background.iter().chain(withheld).chain(unnameable).chain(loopback);
    let texts = texts.chain(unwatched).chain(&allow_with);
    let body = texts.fold(answer.body, |body, text| with_block(body, text));
    Ok(CallAnswer { body, ..answer })
}

/// Returns the answer for an envelope, without the additional texts.
async fn of_result(
    envelope: &Envelope,
    tool: &Tool,
    limit: usize,
    assets: Option<&SessionAssets>,
) -> Result<CallAnswer, Unanswered> {
    let success = match envelope {
        Envelope::Failure(failure) => {
            return Ok(cut(of_failure(failure)?, limit, tool, assets).await);
        }
        Envelope::Success(success) => success,
    };
    if let Some(content) = success.content() {
        return Ok(of_content(&content, tool, limit, assets).await);
    }
    let is_error = has_error_code(success);
    // Programs read the result that a tool declares, and also expect it in the text.
    if tools::output(tool).is_none()
        && let Some(text) = plain(success.result.get())
    {
        let body = AnswerBody::Text(text);
        return Ok(cut(
            CallAnswer { body, is_error, ..CallAnswer::default() },
            limit,
            tool,
            assets,
        )
        .await);
    }
    let structured = |text: &str| match tools::output(tool) {
        Some(_) if !is_error => serde_json::from_str(text).ok().map(Value::Object),
        _ => None,
    };
    // JSON has each text on one line, however many lines the text has.
    let Some(cut) = long(envelope, Extent::of_characters(limit), tool, assets).await else {
        let text = success.result.get();
        let (body, structured) = (AnswerBody::Text(text.to_owned()), structured(text));
        return Ok(CallAnswer { body, is_error, structured, ..CallAnswer::default() });
    };
    let Excerpt { result, keeps_shape, truncated, whole } = cut;
    let structured = structured(&result).filter(|_| keeps_shape);
    Ok(CallAnswer {
        body: AnswerBody::Text(format!("{result}\n\n{truncated}")),
        // A client checks a result against the schema of the tool unless it is an error.
        is_error: is_error || (tools::output(tool).is_some() && !keeps_shape),
        structured,
        whole: whole.map(kept),
        meta: Map::new(),
    })
}

/// Returns the answer of a tool that answers with content blocks, unchanged. Cuts texts of more
/// than `limit` characters or [`LINES`] and puts them into one block before the others.
async fn of_content(
    content: &ContentAnswer<'_>,
    tool: &Tool,
    limit: usize,
    assets: Option<&SessionAssets>,
) -> CallAnswer {
    let text = content.text();
    let data = content.structured.map(RawValue::get).unwrap_or_default();
    // The longer of the two decides: they have the same content, or one of them is short.
    let longer = if data.len() > text.len() { data } else { &text };
    let envelope = to_raw_value(longer).map(Envelope::answered);
    let cut = match &envelope {
        Ok(envelope) => long(envelope, of_text(limit), tool, assets).await,
        Err(_) => None,
    };
    let Some(Excerpt { result, truncated, whole, .. }) = cut else {
        return CallAnswer {
            body: AnswerBody::Blocks(list(content.blocks.iter().map(|block| block.json.get()))),
            is_error: content.is_error,
            // Data that nests deeper than a tree of values may is only in the blocks.
            structured: serde_json::from_str(data).ok(),
            ..CallAnswer::default()
        };
    };
    let result: String = serde_json::from_str(&result).unwrap_or(result);
    let text = json!({ "type": "text", "text": format!("{result}\n\n{truncated}") }).to_string();
    let others = content
        .blocks
        .iter()
        .filter(|block| !matches!(block.kind, BlockKind::Text(_) | BlockKind::TextResource(..)));
    CallAnswer {
        body: AnswerBody::Blocks(list(
            iter::once(&*text).chain(others.map(|block| block.json.get())),
        )),
        // As above: the client gets no structured data, although the tool declares it.
        is_error: content.is_error || tools::output(tool).is_some(),
        whole: whole.map(kept),
        ..CallAnswer::default()
    }
}

/// Returns the answer, with its text cut if it has more than `limit` characters or too many lines.
async fn cut(
    answer: CallAnswer,
    limit: usize,
    tool: &Tool,
    assets: Option<&SessionAssets>,
) -> CallAnswer {
    let AnswerBody::Text(text) = &answer.body else { return answer };
    // Every text has a form in JSON.
    let Ok(envelope) = to_raw_value(text).map(Envelope::answered) else { return answer };
    match long(&envelope, of_text(limit), tool, assets).await {
        None => answer,
        Some(Excerpt { result, truncated, whole, .. }) => {
            let result: String = serde_json::from_str(&result).unwrap_or(result);
            let body = AnswerBody::Text(format!("{result}\n\n{truncated}"));
            CallAnswer { body, whole: whole.map(kept), ..answer }
        }
    }
}

/// Returns the largest text that a client gets.
fn of_text(characters: usize) -> Extent {
    Extent { characters, lines: LINES }
}

/// Returns an excerpt of a result that exceeds `limit`. The excerpt leaves room for the note.
async fn long(
    envelope: &Envelope,
    limit: Extent,
    tool: &Tool,
    assets: Option<&SessionAssets>,
) -> Option<Excerpt> {
    let id = || format!("{}-{}", tool.name(), Uuid::now_v7().simple());
    excerpt(envelope, limit, NOTE, id, assets).await
}

/// Returns the body with a text after it as a separate block, so that the result itself stays JSON.
fn with_block(body: AnswerBody, text: &str) -> AnswerBody {
    let block = |text: &str| json!({ "type": "text", "text": text }).to_string();
    let last = block(text);
    AnswerBody::Blocks(match body {
        AnswerBody::Text(result) => list([block(&result).as_str(), &last].into_iter()),
        AnswerBody::Blocks(blocks) => {
            // The blocks were made into a list above.
            let blocks: Vec<&RawValue> = serde_json::from_str(&blocks).unwrap_or_default();
            list(blocks.into_iter().map(RawValue::get).chain([last.as_str()]))
        }
    })
}

/// Returns a JSON list of these elements.
fn list<'a>(elements: impl Iterator<Item = &'a str>) -> String {
    let mut list = String::from("[");
    for (index, element) in elements.enumerate() {
        list.push_str(if index > 0 { "," } else { "" });
        list.push_str(element);
    }
    list.push(']');
    list
}

/// Returns the resource for a result that was kept.
fn kept(uri: String) -> Resource {
    Resource { name: uri.rsplit('/').next().unwrap_or_default().to_owned(), uri, size: None }
}

/// Returns the answer to a call whose arguments do not match the schema of the tool.
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

fn of_failure(failure: &Failure) -> Result<CallAnswer, Unanswered> {
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
    if let Some(Remains { stdout, .. }) = remains.as_ref().filter(|it| !it.stdout.is_empty()) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n\nIts output until then:\n{}", begun(stdout));
    }
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
    Ok(CallAnswer { meta, ..CallAnswer::failed(text) })
}

/// Returns whether a tool answers that it failed, in the format of the built-in tools.
fn has_error_code(success: &Success) -> bool {
    #[derive(Deserialize)]
    struct Coded<'a> {
        #[serde(borrow, default)]
        error_code: Cow<'a, str>,
    }
    serde_json::from_str::<Coded<'_>>(success.result.get())
        .is_ok_and(|coded| !coded.error_code.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_beside_a_result_is_its_last_block() {
        let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
        let block = |text: &str| json!({ "type": "text", "text": text });
        for (body, before) in [
            (AnswerBody::Text(r#"{"output":"a"}"#.to_owned()), vec![block(r#"{"output":"a"}"#)]),
            (AnswerBody::Blocks("[]".to_owned()), vec![]),
            (
                AnswerBody::Blocks(json!([block("a"), image]).to_string()),
                vec![block("a"), image.clone()],
            ),
        ] {
            let AnswerBody::Blocks(blocks) = with_block(body, "`.envrc` was \"renamed\"") else {
                panic!("no blocks after {before:?}");
            };
            let blocks: Vec<Value> = serde_json::from_str(&blocks).expect("a list");
            let expected = [before, vec![block("`.envrc` was \"renamed\"")]].concat();
            assert_eq!(blocks, expected);
        }
    }
}
