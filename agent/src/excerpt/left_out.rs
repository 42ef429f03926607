//! Results for which a conversation has no more room. Each is replaced by one line that names the
//! asset with the whole.

use ikigai_assets::{AssetPath, references};
use ikigai_host::exec::envelope::Envelope;
use ikigai_protocol::AssetError;
use ikigai_provider::CallResult;
use serde_json::json;

use super::passage::{LONGEST_LINE, broken};
use super::{Extent, Long, where_kept, whole};
use crate::members::RawMembers;
use crate::session_assets::SessionAssets;

/// Returns the line that replaces a result. The whole is first kept among `assets`, unless it is
/// there already.
///
/// # Errors
///
/// Fails if the whole cannot be kept. Then the result must stay.
pub(crate) async fn left_out(
    result: &CallResult,
    assets: &SessionAssets,
) -> Result<String, AssetError> {
    let members: RawMembers = serde_json::from_str(&result.content).unwrap_or_default();
    let (uri, is_broken) = match kept_before(&members, assets).await {
        Some(uri) => (uri, false),
        None => {
            let (text, is_broken) = text(&result.content, &members);
            let path = assets.keep_output(&result.id, &text).await?;
            (path.to_uri(), is_broken)
        }
    };
    let characters = result.content.chars().count();
    let place = where_kept(&Ok(uri), is_broken);
    let mut left_out =
        format!("This result of {characters} characters was left out to make room. {place}");
    for image in &result.images {
        left_out.push_str(&format!(" {image} was left out as well."));
    }
    Ok(json!({ "tool_success": !result.is_error, "left_out": left_out }).to_string())
}

/// Returns the URI of the whole of a result that was cut when it arrived, if it is still there.
async fn kept_before(members: &RawMembers, assets: &SessionAssets) -> Option<String> {
    // The first member of this name is the host's own; further ones would be the tool's.
    let (_, truncated) = members.0.iter().find(|(name, _)| name == "truncated")?;
    let truncated: String = serde_json::from_str(truncated.get()).ok()?;
    let mut paths = references(&truncated).filter_map(|found| found.path.ok());
    let path: AssetPath = paths.find(AssetPath::is_output)?;
    let store = assets.store.open().await.ok()?;
    store.metadata(&path).await.ok().map(|metadata| metadata.path.to_uri())
}

/// Returns the text to keep of a result, and true if some of its lines were broken.
fn text(content: &str, members: &RawMembers) -> (String, bool) {
    match members.get("result") {
        Some(result) => {
            let envelope = Envelope::answered(result.to_owned());
            Long::parse(&envelope, &whole(&envelope), Extent::of_characters(0)).kept()
        }
        None => broken(content.to_owned(), LONGEST_LINE),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn kept(content: &Value) -> String {
        let content = content.to_string();
        let members: RawMembers = serde_json::from_str(&content).expect("an object");
        text(&content, &members).0
    }

    #[test]
    fn the_text_of_a_result_is_kept_by_its_lines() {
        let lines = "a line\n".repeat(200);
        assert_eq!(kept(&json!({ "tool_success": true, "result": { "output": lines } })), lines);
    }

    #[test]
    fn everything_of_a_failure_is_kept() {
        let failure = json!({ "tool_success": false, "error": "e".repeat(1500) });
        assert_eq!(kept(&failure), failure.to_string());
    }

    #[test]
    fn a_result_of_short_texts_is_kept_as_json() {
        let result = json!({ "found": (0..500).collect::<Vec<_>>() });
        let kept = kept(&json!({ "tool_success": true, "result": result }));
        assert_eq!(serde_json::from_str::<Value>(&kept).expect("JSON")["result"], result);
    }
}
