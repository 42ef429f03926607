//! Existing tools: the built-in ones, and tools of public MCP servers.

use std::fmt::Write;

use ikigai_protocol::ToolSchema;
use ikigai_provider::{Provider, ToolBounds, translate, translate_all};
use serde_json::{Value, json};

use crate::checker;

const STANDARD: &str = include_str!("../data/standard-tools.json");
const SERVERS: [&str; 2] = [
    include_str!("../data/server-filesystem.json"),
    include_str!("../data/server-everything.json"),
];

fn list(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("test data is a list")
}

fn parse(tool: &Value) -> ToolSchema {
    ToolSchema::parse(tool.to_string().as_bytes()).expect("parses")
}

fn of_servers() -> Vec<ToolSchema> {
    let tools = SERVERS.iter().flat_map(|text| list(text));
    tools
        .map(|tool| {
            parse(&json!({ "name": tool["name"], "description": tool["description"],
                           "parameters": tool["inputSchema"] }))
        })
        .collect()
}

#[test]
fn the_standard_tools_are_sent_like_this() {
    let schemas: Vec<ToolSchema> = list(STANDARD).iter().map(parse).collect();
    assert_eq!(schemas.len(), 6);
    for provider in Provider::ALL {
        let tools = translate_all(provider, ToolBounds::for_provider(provider), &schemas);
        assert_eq!(tools.losses, []);
        assert_eq!(tools.left_out, []);
        assert_eq!(checker::tools(provider, &tools.value), Vec::<String>::new());
        let text = serde_json::to_string_pretty(&tools.value).expect("serializes");
        insta::assert_snapshot!(format!("standard_tools_{provider}"), text);
    }
}

#[test]
fn tools_of_mcp_servers_are_all_offered() {
    let schemas = of_servers();
    assert_eq!(schemas.len(), 25);
    let mut report = String::new();
    for provider in Provider::ALL {
        let tools = translate_all(provider, ToolBounds::for_provider(provider), &schemas);
        assert_eq!(tools.left_out, [], "{provider}");
        assert_eq!(checker::tools(provider, &tools.value), Vec::<String>::new(), "{provider}");
        for (tool, loss) in &tools.losses {
            writeln!(report, "{provider} {tool} {loss}").expect("a string takes it");
        }
    }
    insta::assert_snapshot!("losses_of_mcp_servers", report);
}

#[test]
fn anthropic_is_sent_every_schema_as_it_is() {
    for schema in of_servers() {
        let value =
            translate(Provider::Anthropic, ToolBounds::for_provider(Provider::Anthropic), &schema)
                .expect("translates")
                .value;
        assert_eq!(value["input_schema"], schema.parameters);
    }
}
