//! Names in a case for values that differ in each run: the path of the workspace, and the address
//! of the server.

use serde_json::Value;

/// The name for the path of the workspace.
pub(super) const WORKSPACE: &str = "${IKIGAI_WORKSPACE}";

/// The name for the server of the case, as `HOST:PORT`.
pub(super) const SERVER: &str = "${IKIGAI_SERVER}";

/// The names of one case, with their values in this run.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<(&'static str, String)>);

impl Names {
    /// Creates the names of a case. A case without a server has no name for it.
    pub(super) fn new(workspace: &str, server: Option<String>) -> Self {
        let workspace = (WORKSPACE, workspace.to_owned());
        Self([Some(workspace), server.map(|it| (SERVER, it))].into_iter().flatten().collect())
    }

    /// Replaces the names in a text with their values.
    pub(super) fn resolve(&self, text: &str) -> String {
        self.replace(text, |(name, value)| (name, value.clone()))
    }

    /// Replaces the names in a JSON text with their values.
    pub(super) fn resolve_json(&self, text: &str) -> String {
        self.replace(text, |(name, value)| (name, within_json(value)))
    }

    /// Replaces the values in a JSON text with their names.
    pub(super) fn insert_json(&self, text: &str) -> String {
        let pairs = self.0.iter();
        pairs.fold(text.to_owned(), |text, (name, value)| text.replace(&within_json(value), name))
    }

    fn replace<'a>(
        &'a self,
        text: &str,
        pair: impl Fn((&'a str, &'a String)) -> (&'a str, String),
    ) -> String {
        let pairs = self.0.iter().map(|(name, value)| pair((*name, value)));
        pairs.fold(text.to_owned(), |text, (name, value)| text.replace(name, &value))
    }
}

/// Returns a text in the form that it has inside a JSON string.
fn within_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_json_stays_one_whatever_the_workspace_is_called() {
        let names = Names::new("/a \"b\"\\c", Some("127.0.0.1:1".to_owned()));
        let text = r#"{"dir": "${IKIGAI_WORKSPACE}/x", "url": "http://${IKIGAI_SERVER}/"}"#;
        let resolved = names.resolve_json(text);
        let value: Value = serde_json::from_str(&resolved).expect("JSON");
        assert_eq!(value["dir"], "/a \"b\"\\c/x");
        assert_eq!(value["url"], "http://127.0.0.1:1/");
        assert_eq!(names.insert_json(&resolved), text);
        assert_eq!(names.resolve("${IKIGAI_WORKSPACE}"), "/a \"b\"\\c");
    }

    #[test]
    fn a_case_without_a_server_has_no_name_for_one() {
        let names = Names::new("/w", None);
        assert_eq!(
            names.resolve("$IKIGAI_SERVER ${IKIGAI_SERVER}"),
            "$IKIGAI_SERVER ${IKIGAI_SERVER}"
        );
    }
}
