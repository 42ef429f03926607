//! The list of tools, in pages.

use serde_json::{Value, json};

use crate::definition::Definition;
use crate::message::Era;

/// Returns the page for a request. A cursor is the number of its first tool.
pub(crate) fn page(definition: &Definition, params: &Value, era: Era) -> Result<Value, String> {
    let cursor = &params["cursor"];
    let first = match cursor {
        Value::Null => 0,
        Value::String(cursor) => {
            cursor.parse::<usize>().map_err(|_| format!("no page has the cursor `{cursor}`"))?
        }
        _ => return Err("a cursor is a text".to_owned()),
    };
    let all = &definition.tools;
    let next = first.saturating_add(definition.page);
    let listed: Vec<_> =
        all.iter().skip(first).take(definition.page).map(|tool| &tool.listed).collect();
    let mut page = json!({ "tools": listed });
    if definition.endless {
        // Always the same cursor, which could keep a client busy for ever.
        page["nextCursor"] = "0".into();
    } else if next < all.len() {
        page["nextCursor"] = next.to_string().into();
    }
    if era == Era::Modern {
        page["ttlMs"] = 0.into();
        page["cacheScope"] = "private".into();
    }
    Ok(page)
}
