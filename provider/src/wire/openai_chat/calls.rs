//! The calls of an answer of Chat Completions, put together from their fragments.
//!
//! OpenAI numbers its calls, names each in its first fragment and only there, and gives ids to
//! all. Others send a whole call at once, number all of them 0 (Ollama), number none, or leave
//! the ids out. So a fragment begins a new call wherever it cannot belong to the one before.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// A fragment as it came.
#[derive(Deserialize)]
pub(super) struct Fragment {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionFragment>,
}

#[derive(Deserialize)]
struct FunctionFragment {
    name: Option<String>,
    /// A text, or with some servers the object itself.
    arguments: Option<Box<RawValue>>,
}

/// A call so far.
#[derive(Debug, Default)]
pub(super) struct Started {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// All of them, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: Vec<Started>,
    /// Which of them goes on under each number.
    by_index: HashMap<u64, usize>,
}

impl Calls {
    /// Takes in a fragment, and gives the name of the call if it is one that began.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn add(&mut self, fragment: Fragment) -> Result<Option<&str>, &'static str> {
        let Fragment { index, id, function } = fragment;
        let id = id.unwrap_or_default();
        let (name, arguments) = match function {
            None => (String::new(), String::new()),
            Some(FunctionFragment { name, arguments }) => {
                (name.unwrap_or_default(), text(arguments.as_deref())?)
            }
        };
        let place = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None => self.all.len().checked_sub(1),
        };
        if let Some(place) = place.filter(|place| self.all[*place].goes_on(&id, &name, &arguments))
        {
            let call = &mut self.all[place];
            if call.id.is_empty() {
                call.id = id;
            }
            call.arguments.push_str(&arguments);
            let is_named_now = call.name.is_empty() && !name.is_empty();
            if is_named_now {
                call.name = name;
            }
            return Ok(is_named_now.then_some(call.name.as_str()));
        }
        if id.is_empty() && name.is_empty() && arguments.is_empty() {
            return Ok(None);
        }
        if let Some(index) = index {
            self.by_index.insert(index, self.all.len());
        }
        self.all.push(Started { id, name, arguments });
        Ok(self.all.last().map(|call| call.name.as_str()).filter(|name| !name.is_empty()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn into_all(self) -> Vec<Started> {
        self.all
    }
}

impl Started {
    /// Whether a fragment under the same number belongs to this call.
    fn goes_on(&self, id: &str, name: &str, arguments: &str) -> bool {
        if !id.is_empty() && !self.id.is_empty() && id != self.id {
            return false;
        }
        if name.is_empty() || self.name.is_empty() {
            return true;
        }
        // A name once more: of another call, or a repetition in each fragment of the same one.
        let is_whole = || serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok();
        name == self.name
            && (id == self.id && !id.is_empty()
                || !(arguments.trim_start().starts_with('{')
                    && self.arguments.trim_end().ends_with('}')
                    && is_whole()))
    }
}

fn text(arguments: Option<&RawValue>) -> Result<String, &'static str> {
    let Some(raw) = arguments.map(RawValue::get) else { return Ok(String::new()) };
    if raw.starts_with('"') {
        serde_json::from_str(raw).map_err(|_| "arguments that are no text")
    } else {
        Ok(raw.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn calls(fragments: &[Value]) -> Vec<(String, String, String)> {
        let mut calls = Calls::default();
        for fragment in fragments {
            let fragment = serde_json::from_str(&fragment.to_string()).expect("a fragment");
            calls.add(fragment).expect("takes it in");
        }
        calls.into_all().into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.to_owned(), name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn fragments_by_number_in_any_order() {
        let found = calls(&[
            json!({ "index": 1, "id": "b", "function": { "name": "g", "arguments": "" } }),
            json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"x\"" } }),
            json!({ "index": 1, "function": { "arguments": "{}" } }),
            json!({ "index": 0, "id": null, "function": { "name": null, "arguments": ":1}" } }),
        ]);
        assert_eq!(found, [call("b", "g", "{}"), call("a", "f", "{\"x\":1}")]);
    }

    #[test]
    fn whole_calls_under_one_number() {
        let whole = |id: &str| {
            json!({ "index": 0, "id": id,
            "function": { "name": "f", "arguments": "{\"x\":1}" } })
        };
        assert_eq!(calls(&[whole("a"), whole("b")]).len(), 2);
        assert_eq!(calls(&[whole(""), whole("")]).len(), 2, "without ids");
        let unnumbered = json!({ "function": { "name": "f", "arguments": { "x": 1.0 } } });
        assert_eq!(calls(&[unnumbered.clone(), unnumbered]), vec![call("", "f", "{\"x\":1.0}"); 2]);
    }

    #[test]
    fn a_repeated_name_or_id_begins_no_call() {
        let found = calls(&[
            json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"x\":" } }),
            json!({ "index": 0, "id": "", "function": { "name": "f", "arguments": "{}" } }),
            json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": "}" } }),
            json!({ "index": 0, "id": "a" }),
            json!({ "index": 3 }),
        ]);
        assert_eq!(found, [call("a", "f", "{\"x\":{}}")]);
    }
}
