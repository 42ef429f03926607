//! The requests that each vendor refuses. Each module has the rules of one interface; this one has
//! what they share: positions of faults, unknown members, and calls with their results.
//!
//! The messages are the vendors' own, as people quote them when they ask for help. They make a
//! failed test easier to understand; a client must not depend on them.

mod anthropic;
mod google;
mod openai;
mod openai_chat;
mod strict;

use serde_json::Value;

use crate::issued::Issued;
use crate::refusal::Refusal;
use crate::{Received, Vendor};

/// Checks a request as the vendor would.
pub(crate) fn check(vendor: Vendor, request: &Received, issued: &Issued) -> Result<(), Refusal> {
    path(vendor, request)?;
    let kind = request.header("content-type").unwrap_or_default();
    let is_json = kind.starts_with("application/json");
    fault_if(!is_json, "the content type is not application/json")?;
    fault_if(!request.body.is_object(), "We could not parse the JSON body of your request.")?;
    // The vendors would answer; this server only has streams.
    fault_if(!vendor.is_streamed(request), "this server streams: `stream` has to be true")?;
    match vendor {
        Vendor::OpenAi => openai::check(&request.body, issued),
        Vendor::OpenAiChat => openai_chat::check(&request.body),
        Vendor::Anthropic => anthropic::check(request, issued),
        Vendor::Google => google::check(&request.body, issued),
    }
}

/// Checks that the vendor has the path, for this method.
pub(crate) fn path(vendor: Vendor, request: &Received) -> Result<(), Refusal> {
    if request.method != "POST" {
        return Err(Refusal::new(405, format!("not allowed: {}", request.method)));
    }
    if vendor.model(request).is_none() {
        return Err(Refusal::new(404, format!("Invalid URL (POST {})", request.path)));
    }
    Ok(())
}

fn fault<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::invalid(message))
}

fn fault_if(is_wrong: bool, message: impl Into<String>) -> Result<(), Refusal> {
    if is_wrong { fault(message) } else { Ok(()) }
}

/// Returns a member of an object that is not among the known ones, which are separated by spaces.
fn unknown<'a>(value: &'a Value, known: &str) -> Option<&'a str> {
    let mut names = value.as_object()?.keys().map(String::as_str);
    names.find(|name| !known.split(' ').any(|known| known == *name))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The media types of images that OpenAI and Anthropic take; Google takes no GIF.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/gif"];

/// Returns whether a text has the characters of base64, and the length.
fn is_base64(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    !text.is_empty() && text.len().is_multiple_of(4) && text.bytes().all(is_allowed)
}

/// Returns whether a text is a URL with the data of an image.
fn is_image_url(url: &str) -> bool {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    data.is_some_and(|(kind, data)| IMAGES.contains(&kind) && is_base64(data))
}

/// Returns whether a name has only letters, digits, `_` and `-`, and is not too long.
fn is_plain(name: &str, longest: usize) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= longest && name.bytes().all(is_allowed)
}

/// Returns the first value that is repeated.
fn repeated<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = Vec::new();
    names.into_iter().find(|name| {
        let is_known = seen.contains(name);
        seen.push(*name);
        is_known
    })
}
