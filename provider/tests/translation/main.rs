//! Tests of the translation of schemas from outside: each rule separately, random schemas against
//! the providers' own rules, and the schemas of real tools.

mod checker;
mod generator;
mod offers;
mod real;
mod repair;
mod rules;

use ikigai_protocol::ToolSchema;
use ikigai_provider::{Provider, ToolBounds, translate, translate_all};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns a tool with these parameters, as discovery accepts it.
fn tool(name: &str, parameters: &Value) -> ToolSchema {
    let text = json!({ "name": name, "description": "Does it", "parameters": parameters });
    ToolSchema::parse(text.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns whether discovery accepts the schema: it parses and compiles.
fn is_discovered(parameters: &Value) -> bool {
    let text = json!({ "name": "t", "description": "", "parameters": parameters });
    ToolSchema::parse(text.to_string().as_bytes())
        .is_ok_and(|schema| jsonschema::validator_for(&schema.parameters).is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn whatever_passes_discovery_satisfies_every_provider(parameters in generator::any_parameters()) {
        prop_assume!(is_discovered(&parameters));
        let schema = tool("t", &parameters);
        for provider in Provider::ALL {
            let Ok(translation) = translate(provider, ToolBounds::for_provider(provider), &schema) else { continue };
            let problems = checker::entry(provider, &translation.value);
            prop_assert!(problems.is_empty(), "{provider}: {problems:#?}\n{parameters:#}\n{:#}", translation.value);
        }
    }

    #[test]
    fn no_tool_spoils_a_request(
        all in prop::collection::vec((generator::any_parameters(), "[a-z.é-]{0,3}|[a-z]{70}"), 0..6),
    ) {
        let good = tool("zz_good", &json!({ "type": "object", "properties": {} }));
        let mut schemas = vec![good];
        for (parameters, name) in all.iter().filter(|(parameters, _)| is_discovered(parameters)) {
            let mut schema = tool("t", parameters);
            // The field is public, so a name need not come from discovery.
            schema.name.clone_from(name);
            schemas.push(schema);
        }
        for provider in Provider::ALL {
            let tools = translate_all(provider, ToolBounds::for_provider(provider), &schemas);
            let problems = checker::tools(provider, &tools.value);
            prop_assert!(problems.is_empty(), "{provider}: {problems:#?}\n{:#}", tools.value);
            prop_assert!(tools.value.to_string().contains("zz_good"));
            let entries = checker::entries(provider, &tools.value).len();
            prop_assert_eq!(entries + tools.left_out.len(), schemas.len());
            let mut reversed = schemas.clone();
            reversed.reverse();
            let unique = schemas.iter().map(|schema| &schema.name).collect::<std::collections::BTreeSet<_>>();
            if unique.len() == schemas.len() {
                prop_assert_eq!(translate_all(provider, ToolBounds::for_provider(provider), &reversed).value, tools.value);
            }
        }
    }
}
