//! Lists in pages, resources, and the errors of requests about them.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use rmcp::model::{
    self, CacheScope, CustomRequest, ErrorCode, ErrorData, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, MetaObject, ReadResourceResult, ResourceContents,
    ResourceTemplate, ToolAnnotations,
};
use serde_json::{Value, json};

use crate::offer::{Catalog, Resource, ResourceError, ResourceText, ToolEntry, UriTemplate};
use crate::result;

/// The most entries on a page.
const PAGE: usize = 250;

/// The time for which a client may treat a list as fresh, in milliseconds. A client that wants to
/// know about changes earlier listens for them.
const FRESH_MS: u64 = 60_000;

/// The protocol's methods that this server supports. A request with an unknown method, or with
/// parameters that do not match the protocol, arrives as a request that the library does not know.
const METHODS: [&str; 11] = [
    "initialize",
    "ping",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
];

/// The methods of older revisions that the revision 2026-07-28 no longer has.
const REMOVED: [&str; 4] = ["initialize", "ping", "resources/subscribe", "resources/unsubscribe"];

/// Returns a page of the tools.
pub(super) fn tools(
    catalog: &Catalog,
    cursor: Option<&str>,
    is_modern: bool,
) -> Result<ListToolsResult, ErrorData> {
    let page = ListPage::from_entries(catalog.entries(), catalog.revision(), cursor)?;
    let mut result = ListToolsResult::with_all_items(page.entries.iter().map(tool).collect());
    result.next_cursor = page.next;
    if is_modern {
        result = result.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private);
    }
    Ok(result)
}

/// Returns a page of the resources.
pub(super) fn resources(
    resources: Vec<Resource>,
    cursor: Option<&str>,
    is_modern: bool,
) -> Result<ListResourcesResult, ErrorData> {
    let mut hasher = DefaultHasher::new();
    for resource in &resources {
        resource.uri.hash(&mut hasher);
    }
    let page = ListPage::from_entries(&resources, hasher.finish(), cursor)?;
    let entries = page.entries.iter().map(result::resource).collect();
    let mut result = ListResourcesResult::with_all_items(entries);
    result.next_cursor = page.next;
    if is_modern {
        result = result.with_ttl_ms(0).with_cache_scope(CacheScope::Private);
    }
    Ok(result)
}

/// Returns the template for the URIs of resources.
pub(super) fn templates(template: UriTemplate) -> ListResourceTemplatesResult {
    let UriTemplate { uri, name, description } = template;
    let template = ResourceTemplate::new(uri, name).with_description(description);
    ListResourceTemplatesResult::with_all_items(vec![template])
}

/// Returns the text of a resource.
pub(super) fn text(uri: &str, read: ResourceText, is_modern: bool) -> ReadResourceResult {
    let contents = ResourceContents::text(read.text, uri).with_mime_type(read.mime_type);
    let mut result = ReadResourceResult::new(vec![contents]);
    if is_modern {
        result = result.with_ttl_ms(0).with_cache_scope(CacheScope::Private);
    }
    result
}

/// Returns the error for a list of resources.
pub(super) fn list_error(error: ResourceError) -> ErrorData {
    resource_error(error, None)
}

/// Returns the error for a resource that could not be read.
pub(super) fn read_error(error: ResourceError, uri: &str) -> ErrorData {
    resource_error(error, Some(json!({ "uri": uri })))
}

fn resource_error(error: ResourceError, about: Option<Value>) -> ErrorData {
    match error {
        // The library sends the error code of the revision in use.
        ResourceError::NotFound(message) => ErrorData::resource_not_found(message, about),
        ResourceError::Refused(message) => ErrorData::invalid_params(message, None),
        ResourceError::Failed(message) => ErrorData::internal_error(message, None),
    }
}

/// Returns the error for an unknown method.
pub(super) fn no_method(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method `{method}`"), None)
}

/// Returns the error for a request that the library does not know.
pub(super) fn unknown(request: &CustomRequest, is_modern: bool) -> ErrorData {
    let method = &*request.method;
    if !METHODS.contains(&method) || is_modern && REMOVED.contains(&method) {
        return no_method(method);
    }
    ErrorData::invalid_params(
        format!("the parameters of `{method}` are missing or malformed"),
        None,
    )
}

/// The part of a list that starts at a cursor.
struct ListPage<'a, T> {
    entries: &'a [T],
    next: Option<String>,
}

impl<'a, T> ListPage<'a, T> {
    /// Returns the page of `entries` at a cursor. A cursor contains the revision of the list. If
    /// the list has changed, the cursor is rejected, because entries that moved would be skipped.
    fn from_entries(
        entries: &'a [T],
        revision: u64,
        cursor: Option<&str>,
    ) -> Result<Self, ErrorData> {
        let start = match cursor {
            None => 0,
            Some(cursor) => position(cursor, revision, entries.len())?,
        };
        let end = entries.len().min(start + PAGE);
        let next = (end < entries.len()).then(|| format!("{revision:016x}.{end}"));
        Ok(Self { entries: &entries[start..end], next })
    }
}

fn position(cursor: &str, revision: u64, entries: usize) -> Result<usize, ErrorData> {
    let invalid = |message: &'static str| ErrorData::invalid_params(message, None);
    let parsed = cursor.split_once('.').and_then(|(of, start)| {
        Some((u64::from_str_radix(of, 16).ok()?, start.parse::<usize>().ok()?))
    });
    match parsed {
        Some((of, start)) if of == revision && start <= entries => Ok(start),
        Some((of, _)) if of != revision => {
            Err(invalid("the list has changed since its first page; ask for it again"))
        }
        _ => Err(invalid("the cursor is not from this server")),
    }
}

/// Tells Claude Code how long a tool's results may be, according to its MCP documentation. Claude
/// Code writes a longer result into a file, and the model gets the file's name.
const CLAUDE_RESULT_SIZE: &str = "anthropic/maxResultSizeChars";

fn tool(entry: &ToolEntry) -> model::Tool {
    let ToolEntry { name, description, input, output, hints, result_characters } = entry;
    let annotations =
        ToolAnnotations::new().read_only(hints.read_only).open_world(hints.open_world);
    let (name, description) = (name.clone(), Cow::Owned(description.clone()));
    let mut tool = model::Tool::new_with_raw(name, Some(description), Arc::clone(input));
    if let Some(output) = output {
        tool = tool.with_raw_output_schema(Arc::clone(output));
    }
    let size = (CLAUDE_RESULT_SIZE.to_owned(), (*result_characters).into());
    tool.with_annotations(annotations).with_meta(MetaObject([size].into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_the_list_without_a_gap() {
        for count in [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE] {
            let all: Vec<usize> = (0..count).collect();
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let page = ListPage::from_entries(&all, 7, cursor.as_deref()).expect("a page");
                seen.extend_from_slice(page.entries);
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, all);
        }
    }

    #[test]
    fn the_error_of_a_missing_resource_names_it() {
        let error = read_error(ResourceError::NotFound("none".to_owned()), "test://a");
        assert_eq!(error.data, Some(json!({ "uri": "test://a" })));
        let error = read_error(ResourceError::Failed("broken".to_owned()), "test://a");
        assert_eq!(error.data, None);
    }

    #[test]
    fn a_cursor_of_another_list_is_refused() {
        let all = [0; PAGE + 1];
        let next =
            ListPage::from_entries(&all, 7, None).expect("a page").next.expect("a second page");
        let refusal = |cursor: &str, revision| {
            let error =
                ListPage::from_entries(&all, revision, Some(cursor)).err().expect("an error");
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
            error.message
        };
        assert!(refusal(&next, 8).contains("has changed"));
        for forged in ["", "7", "x.y", "0000000000000007.9999", "0000000000000007.-1"] {
            assert!(refusal(forged, 7).contains("not from this server"), "{forged}");
        }
    }
}
