//! The facts about a tool that the user reads before it is installed, and that `--json` prints.

use std::fmt::Write as _;

use bytesize::ByteSize;
use ikigai_packages::lock::LockedTool;
use ikigai_packages::needs::{Need, Needs};
use serde_json::{Value, json};
use similar::TextDiff;

use super::examined::ExaminedTool;
use super::needs::Requested;
use super::verdict::SignatureVerdict;

/// The installed tool, which another one would replace.
pub(crate) struct ReplacedTool {
    /// The tool's entry in the lock.
    pub(crate) locked: LockedTool,
    /// The needs in the installed file; `None` if the file has no manifest.
    pub(crate) needs: Option<Needs>,
    /// The schema, as a model sees it; `None` if the file is gone.
    pub(crate) schema: Option<Value>,
}

/// A report on a tool that could be installed.
pub(crate) struct InstallReport<'a> {
    /// The tool.
    pub(crate) examined: &'a ExaminedTool,
    /// The verdict on its signatures.
    pub(crate) verdict: &'a SignatureVerdict,
    /// The policy lines that it requests.
    pub(crate) requested: &'a Requested,
    /// The tool that it would replace.
    pub(crate) installed: Option<&'a ReplacedTool>,
    /// True if the text lists the imports of a component, which can be many.
    pub(crate) has_imports: bool,
}

/// Returns the first characters of a digest, enough for a comparison by eye.
pub(crate) fn short(digest: &impl ToString) -> String {
    digest.to_string().chars().take(12).collect()
}

impl InstallReport<'_> {
    /// Returns the report as text.
    pub(crate) fn text(&self) -> String {
        let Self { examined, verdict, .. } = self;
        let fetched = &examined.fetched;
        let kind = if examined.is_native() { "native program" } else { "WebAssembly" };
        let size = ByteSize(fetched.size);
        let mut text = format!("{} {} ({kind}, {size})\n", examined.name(), examined.version());
        let mut line = |name: &str, value: &str| {
            for (index, value) in value.lines().enumerate() {
                let name = if index == 0 { name } else { "" };
                // Writing to a string cannot fail.
                let _ = writeln!(text, "  {name:10} {value}");
            }
        };
        let source = &fetched.source;
        let tag = source.tag.as_ref().map_or_else(String::new, |tag| format!(" ({tag})"));
        line("from", &format!("{}{tag}", source.from));
        if let Some(before) = verdict.approved_from.as_ref().filter(|it| **it != source.from) {
            line("", &format!("another source: you approved this tool from {before}"));
        }
        line("sha256", &fetched.digest.to_string());
        if let Some(ReplacedTool { locked, .. }) = self.installed {
            let version = locked
                .version
                .as_ref()
                .map_or_else(|| "no version".to_owned(), ToString::to_string);
            line(
                "replaces",
                &format!("{version} from {} ({})", locked.from, short(&locked.sha256)),
            );
            if locked.signer != verdict.signer {
                line("", &format!("signed by {}", locked.signer));
            }
        }
        line("signed by", &verdict.text());
        if let Some(license) = examined.manifest.as_ref().and_then(|it| it.license.as_ref()) {
            line("licence", license);
        }
        line("does", examined.tool.schema.description.lines().next().unwrap_or_default());
        line("needs", &self.needs_text());
        for withheld in &self.requested.withheld {
            line("", &format!("never granted from a manifest: {withheld}"));
        }
        for note in &source.notes {
            line("note", note);
        }
        if let Some(changes) = self.schema_changes() {
            line("schema", &changes);
        }
        match examined.imports.len() {
            0 => {}
            _ if self.has_imports => line("imports", &examined.imports.join("\n")),
            1 => line("imports", "1 interface; `--imports` lists it"),
            count => line("imports", &format!("{count} interfaces; `--imports` lists them")),
        }
        text
    }

    /// Returns the needs, one per line with the author's reason. Marks needs that the installed
    /// version did not have.
    fn needs_text(&self) -> String {
        let none = Needs::default();
        let needs = self.examined.manifest.as_ref().map(|manifest| &manifest.needs);
        let Some(needs) = needs else { return "unknown: it has no manifest".to_owned() };
        if needs.is_empty() {
            return "nothing".to_owned();
        }
        let old = self.installed.map(|it| it.needs.as_ref().unwrap_or(&none));
        let new = old.map(|old| needs.beyond(old)).unwrap_or_default();
        let line = |need: Need<'_>| {
            let mark = if new.contains(&need) { "+ " } else { "" };
            format!("{mark}{}", need.with_reason())
        };
        needs.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Returns the schema lines that differ from the installed tool's schema.
    fn schema_changes(&self) -> Option<String> {
        let before = pretty(self.installed?.schema.as_ref()?);
        let after = pretty(&self.examined.tool.schema.to_value());
        if before == after {
            return None;
        }
        let diff = TextDiff::from_lines(&before, &after);
        let text = diff.unified_diff().context_radius(1).to_string();
        Some(text.lines().filter(|line| !line.starts_with("@@")).collect::<Vec<_>>().join("\n"))
    }

    /// Returns whether the tool requests more than the one that it replaces.
    pub(crate) fn is_grown(&self) -> bool {
        let none = Needs::default();
        let old = self.installed.and_then(|it| it.needs.as_ref()).unwrap_or(&none);
        self.examined.manifest.as_ref().is_some_and(|manifest| manifest.needs.grown(old))
    }

    /// Returns the report as JSON.
    pub(crate) fn json(&self) -> Value {
        let Self { examined, verdict, .. } = self;
        let (fetched, manifest) = (&examined.fetched, examined.manifest.as_ref());
        json!({
            "name": examined.name(),
            "version": manifest.map(|it| it.version.to_string()),
            "license": manifest.and_then(|it| it.license.as_ref()),
            "description": examined.tool.schema.description,
            "from": fetched.source.from,
            "wanted": fetched.source.wanted.as_ref().map(ToString::to_string),
            "tag": fetched.source.tag,
            "manifest": fetched.source.manifest.as_ref().map(|(digest, _)| digest.to_string()),
            "sha256": fetched.digest,
            "size": fetched.size,
            "backend": examined.tool.build.backend().as_str(),
            "imports": examined.imports,
            "needs": manifest.map(|it| &it.needs),
            "never_granted": self.requested.withheld,
            "signer": verdict.signer,
            "signer_name": verdict.named,
            "first_approval": verdict.approved_from.is_none(),
            "approved_from": verdict.approved_from,
            "signed_at": verdict.at.map(|at| at.to_string()),
            "replaces": self.installed.map(|it| json!({
                "version": it.locked.version.as_ref().map(ToString::to_string),
                "from": it.locked.from,
                "sha256": it.locked.sha256,
                "signer": it.locked.signer,
            })),
            "notes": fetched.source.notes,
        })
    }
}

fn pretty(schema: &Value) -> String {
    // A value of JSON can always be written.
    let text = serde_json::to_string_pretty(schema).unwrap_or_default();
    format!("{text}\n")
}
