//! The tools that are offered if a provider accepts fewer tools or shorter descriptions than there
//! are, and the additions to a description.

use ikigai_protocol::ToolSchema;
use ikigai_provider::{
    Inexpressible, Loss, LossReason, OmittedTool, Provider, ToolBounds, translate, translate_all,
};
use serde_json::json;

use crate::{checker, tool};

fn many(count: usize) -> Vec<ToolSchema> {
    let none = json!({ "type": "object", "properties": {} });
    (0..count).map(|at| tool(&format!("t{at:03}"), &none)).collect()
}

#[test]
fn the_first_are_offered_where_not_all_fit() {
    let mut schemas = many(600);
    // The last by name is the most important one.
    schemas.rotate_right(1);
    for (provider, room) in [
        (Provider::OpenAi, 128),
        (Provider::OpenAiChat, 128),
        (Provider::Google, 512),
        (Provider::Anthropic, 600),
    ] {
        let tools = translate_all(provider, ToolBounds::for_provider(provider), &schemas);
        assert_eq!(checker::tools(provider, &tools.value), [""; 0], "{provider}");
        assert_eq!(checker::entries(provider, &tools.value).len(), room, "{provider}");
        assert!(tools.value.to_string().contains("t599"), "{provider}");
        assert_eq!(tools.left_out.len(), 600 - room, "{provider}");
        let is_crowded = |left: &OmittedTool| left.reason == Inexpressible::TooMany { limit: room };
        assert!(tools.left_out.iter().all(is_crowded), "{provider}");
        // A tool that is not offered does not count.
        let bounds = ToolBounds { tools: Some(2), ..ToolBounds::for_provider(provider) };
        let mut schemas = many(3);
        schemas[0].name = "no name".into();
        let tools = translate_all(provider, bounds, &schemas);
        assert_eq!(tools.left_out.len(), 1, "{provider}: {:?}", tools.left_out);
    }
}

/// Returns the description that is sent to a provider.
fn described(provider: Provider, bounds: ToolBounds, schema: &ToolSchema) -> (String, Vec<Loss>) {
    let translation = translate(provider, bounds, schema).expect("translates");
    let entry = match provider {
        Provider::OpenAiChat => &translation.value["function"],
        _ => &translation.value,
    };
    (entry["description"].as_str().expect("a description").to_owned(), translation.losses)
}

#[test]
fn what_comes_back_is_in_the_description() {
    let mut schema = many(1).remove(0);
    schema.returns =
        Some(json!({ "type": "object", "properties": { "rows": { "type": "array" } } }));
    for provider in Provider::ALL {
        let (text, losses) = described(provider, ToolBounds::for_provider(provider), &schema);
        assert!(text.starts_with("Does it\n\nA call that succeeds answers"), "{provider}: {text}");
        assert!(
            text.contains(r#"{"type":"object","properties":{"rows":{"type":"array"}}}"#),
            "{text}"
        );
        assert_eq!(losses, [], "{provider}");
        let mut silent = schema.clone();
        silent.description.clear();
        let (text, _) = described(provider, ToolBounds::for_provider(provider), &silent);
        assert!(text.starts_with("A call"), "{provider}: {text}");
    }
}

#[test]
fn a_description_is_cut_where_it_is_too_long_and_what_comes_back_goes_first() {
    let mut schema = many(1).remove(0);
    schema.returns = Some(json!({ "type": "string" }));
    for provider in Provider::ALL {
        let within =
            |limit| ToolBounds { description: Some(limit), ..ToolBounds::for_provider(provider) };
        let (text, losses) = described(provider, within(10), &schema);
        assert_eq!(text, "Does it", "{provider}");
        let texts: Vec<String> = losses.iter().map(ToString::to_string).collect();
        let [shown] = &texts[..] else { panic!("{texts:?}") };
        assert!(shown.starts_with("`returns`: not sent: "), "{shown}");
        let mut long = schema.clone();
        long.description = "é".repeat(30);
        let (text, losses) = described(provider, within(20), &long);
        assert_eq!(text, format!("{}…", "é".repeat(19)), "{provider}");
        let expected =
            LossReason::Limit { what: "characters of the description", found: 30, limit: 20 };
        assert_eq!(losses.last().map(|loss| &loss.reason), Some(&expected), "{provider}");
    }
}
