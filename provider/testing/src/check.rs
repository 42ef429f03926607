//! What each vendor refuses. A module has the rules of one interface; here is what they
//! share: where a fault is, members that nobody knows, and calls that meet their results.
//!
//! The messages are those that the vendors' servers answer with, as people quote them
//! where they ask for help; a client must not depend on them, and a test that fails is
//! easier understood by them.

mod anthropic;
mod google;
mod openai;
mod openai_chat;
mod strict;

use serde_json::Value;

use crate::issued::Issued;
use crate::refusal::Refusal;
use crate::{Received, Vendor};

/// Why a vendor would not answer this request, if so.
pub(crate) fn check(vendor: Vendor, request: &Received, issued: &Issued) -> Result<(), Refusal> {
    if request.method != "POST" {
        return Err(Refusal::new(405, format!("not allowed: {}", request.method)));
    }
    if vendor.model(request).is_none() {
        return Err(Refusal::new(404, format!("Invalid URL (POST {})", request.path)));
    }
    if request.header("content-type").is_none_or(|kind| !kind.starts_with("application/json")) {
        return Err(Refusal::invalid("the content type is not application/json"));
    }
    if !request.body.is_object() {
        return Err(Refusal::invalid("We could not parse the JSON body of your request."));
    }
    if !vendor.is_streamed(request) {
        // The vendors would answer; this server has streams only.
        return Err(Refusal::invalid("this server streams: `stream` has to be true"));
    }
    match vendor {
        Vendor::OpenAi => openai::check(&request.body, issued),
        Vendor::OpenAiChat => openai_chat::check(&request.body),
        Vendor::Anthropic => anthropic::check(request, issued),
        Vendor::Google => google::check(&request.body, issued),
    }
}

/// The members of an object that are not among those that are known.
fn unknown<'a>(value: &'a Value, known: &[&str]) -> Option<&'a str> {
    value.as_object()?.keys().map(String::as_str).find(|name| !known.contains(name))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether a name is made of letters, digits, `_` and `-` only, and not too long.
fn is_plain(name: &str, longest: usize) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= longest && name.bytes().all(is_allowed)
}

/// The first that comes a second time.
fn repeated<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = Vec::new();
    names.into_iter().find(|name| {
        let is_known = seen.contains(name);
        seen.push(*name);
        is_known
    })
}
