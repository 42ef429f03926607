//! A check of the rules of a conversation for tests, and parts to build conversations from.

use ikigai_provider::{Blob, CallResult, Message, ModelCall, Part, Provider, Role};
use proptest::prelude::*;

use super::is_silent;
use crate::images::tests::image;

pub(crate) fn call(id: &str) -> ModelCall {
    ModelCall { id: id.into(), name: "t".into(), arguments: "{}".into(), blob: None }
}

pub(crate) fn result(id: &str) -> CallResult {
    CallResult {
        id: id.into(),
        name: "t".into(),
        content: id.into(),
        is_error: false,
        images: Vec::new(),
    }
}

pub(crate) fn part() -> impl Strategy<Value = Part> {
    let blob = |value: &str| Blob {
        provider: Provider::Google,
        model: "m".to_owned(),
        value: value.into(),
    };
    prop_oneof![
        "[a ]{0,2}".prop_map(Part::text),
        "[1-4]".prop_map(|id| Part::Call(call(&id))),
        "[1-4]".prop_map(|id| Part::Result(result(&id))),
        Just(Part::Image(image("picture", 0))),
        "[xy]".prop_map(move |value| Part::Blob(blob(&value))),
    ]
}

pub(crate) fn parts() -> impl Strategy<Value = Vec<Part>> {
    prop::collection::vec(part(), 0..5)
}

/// Returns the ids of the calls of a message, and of its results.
fn ids(message: &Message) -> (Vec<&str>, Vec<&str>) {
    let calls = message.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(&*call.id),
        _ => None,
    });
    let results = message.parts.iter().filter_map(|part| match part {
        Part::Result(result) => Some(&*result.id),
        _ => None,
    });
    (calls.collect(), results.collect())
}

/// Fails if messages break one of the rules of this module.
pub(crate) fn check(messages: &[Message]) -> Result<(), TestCaseError> {
    let mut called = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { Role::User } else { Role::Model };
        prop_assert_eq!(message.role, role, "message {}", at);
        prop_assert!(!is_silent(&message.parts), "message {} says nothing", at);
        let (calls, results) = ids(message);
        prop_assert_eq!(&results, &called, "message {}", at);
        prop_assert!(role == Role::Model || calls.is_empty(), "message {}", at);
        let has_image = message.parts.iter().any(|part| matches!(part, Part::Image(_)));
        prop_assert!(role == Role::User || !has_image, "message {}", at);
        called = calls;
    }
    prop_assert_eq!(called, Vec::<&str>::new(), "calls without results");
    Ok(())
}
