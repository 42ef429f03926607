//! The calls of an answer of Chat Completions, assembled from fragments.
//!
//! OpenAI numbers its calls, names each in its first fragment only, and gives ids to all. Other
//! servers send a whole call at once, number all calls 0 (Ollama), number none, or omit the ids.
//! Some send a name in pieces, which OpenAI's own library joins like any text (`accumulate_delta`
//! in <https://github.com/openai/openai-python/blob/main/src/openai/lib/streaming/_deltas.py>). So
//! a fragment begins a new call if it cannot belong to the call before.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// A fragment as it was received.
#[derive(Deserialize)]
pub(super) struct Fragment {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionFragment>,
}

#[derive(Deserialize)]
struct FunctionFragment {
    name: Option<String>,
    /// A text, or the object itself from some servers.
    arguments: Option<Box<RawValue>>,
}

/// A call that is being received.
#[derive(Debug, Default)]
pub(super) struct PartialCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    /// True once the call's name was reported.
    is_reported: bool,
}

/// The calls of an answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct PartialCalls {
    all: Vec<PartialCall>,
    /// The position of the call that each number continues at present.
    by_index: HashMap<u64, usize>,
}

impl PartialCalls {
    /// Adds a fragment.
    ///
    /// # Errors
    ///
    /// Fails if the fragment is malformed. The error gives the reason.
    pub(super) fn add(&mut self, fragment: Fragment) -> Result<(), &'static str> {
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
        if let Some(place) = place
            && let Some(more) = self.all[place].more(index, &id, &name, &arguments)
        {
            let call = &mut self.all[place];
            if call.id.is_empty() {
                call.id = id;
            }
            call.name.push_str(more);
            call.arguments.push_str(&arguments);
            return Ok(());
        }
        if id.is_empty() && name.is_empty() && arguments.is_empty() {
            return Ok(());
        }
        if let Some(index) = index {
            self.by_index.insert(index, self.all.len());
        }
        self.all.push(PartialCall { id, name, arguments, is_reported: false });
        Ok(())
    }

    /// Returns the complete names that were not returned before. A name is complete once its
    /// arguments or another call follow, or if `is_end` is true.
    pub(super) fn unreported(&mut self, is_end: bool) -> impl Iterator<Item = &str> {
        let last = self.all.len().saturating_sub(1);
        self.all.iter_mut().enumerate().filter_map(move |(place, call)| {
            let is_whole = is_end || place < last || !call.arguments.is_empty();
            let is_new = is_whole && !call.name.is_empty() && !call.is_reported;
            call.is_reported |= is_new;
            is_new.then_some(call.name.as_str())
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn into_all(self) -> Vec<PartialCall> {
        self.all
    }
}

impl PartialCall {
    /// Returns the text that a fragment adds to the name of this call, or nothing if the fragment
    /// belongs to another call.
    fn more<'a>(
        &self,
        index: Option<u64>,
        id: &str,
        name: &'a str,
        arguments: &str,
    ) -> Option<&'a str> {
        if !id.is_empty() && !self.id.is_empty() && id != self.id {
            return None;
        }
        if name.is_empty() || self.name.is_empty() {
            return Some(name);
        }
        if name != self.name {
            // Further pieces of a name come before any argument. Without a number, they begin the
            // next call.
            return (index.is_some() && self.arguments.is_empty()).then_some(name);
        }
        // A repeated name belongs to another call, or each fragment of one call repeats it.
        let is_whole = || serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok();
        let goes_on = id == self.id && !id.is_empty()
            || !(arguments.trim_start().starts_with('{')
                && self.arguments.trim_end().ends_with('}')
                && is_whole());
        goes_on.then_some("")
    }
}

fn text(arguments: Option<&RawValue>) -> Result<String, &'static str> {
    let Some(raw) = arguments.map(RawValue::get) else { return Ok(String::new()) };
    if raw.starts_with('"') {
        serde_json::from_str(raw).map_err(|_| "arguments that are not text")
    } else {
        Ok(raw.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn calls(fragments: &[Value]) -> Vec<(String, String, String)> {
        let mut calls = PartialCalls::default();
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
    fn a_name_in_pieces_is_one_name() {
        let named = |name: &str| json!({ "index": 0, "function": { "name": name } });
        let first =
            json!({ "index": 0, "id": "a", "function": { "name": "file", "arguments": "" } });
        let arguments = json!({ "index": 0, "function": { "arguments": "{}" } });
        let pieces = [first.clone(), named("_"), named("read"), arguments.clone()];
        assert_eq!(calls(&pieces), [call("a", "file_read", "{}")]);
        // The last piece of the name comes with the arguments, and the id in every piece.
        let last =
            json!({ "index": 0, "id": "a", "function": { "name": "_read", "arguments": "{}" } });
        assert_eq!(calls(&[first.clone(), last]), [call("a", "file_read", "{}")]);
        // After arguments, or without a number, it is another call.
        assert_eq!(calls(&[first, arguments, named("read")]).len(), 2);
        let unnumbered = |name: &str| json!({ "function": { "name": name, "arguments": "" } });
        assert_eq!(calls(&[unnumbered("now"), unnumbered("today")]).len(), 2);
    }

    #[test]
    fn a_name_is_reported_once_it_is_whole() {
        let mut calls = PartialCalls::default();
        let mut reported = |fragment: Value, is_end| {
            let fragment = serde_json::from_str(&fragment.to_string()).expect("a fragment");
            calls.add(fragment).expect("takes it in");
            calls.unreported(is_end).map(str::to_owned).collect::<Vec<_>>()
        };
        let named = |index: u64, name: &str, arguments: &str| json!({ "index": index, "function": { "name": name, "arguments": arguments } });
        assert_eq!(reported(named(0, "file", ""), false), [""; 0]);
        assert_eq!(reported(named(0, "_read", ""), false), [""; 0]);
        assert_eq!(reported(named(0, "", "{"), false), ["file_read"]);
        assert_eq!(reported(named(0, "", "}"), false), [""; 0]);
        assert_eq!(reported(named(1, "now", ""), false), [""; 0]);
        assert_eq!(reported(named(2, "bash", "{}"), false), ["now", "bash"]);
        assert_eq!(reported(named(3, "glob", ""), true), ["glob"]);
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
