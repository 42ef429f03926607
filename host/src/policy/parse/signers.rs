//! The tables `[signers.NAME]` and the key `require_signed` of a policy file.

use std::ops::Range;
use std::sync::Arc;

use ikigai_protocol::is_tool_name;

use super::{FileResult, PolicyReader};
use crate::policy::provenance::{LayerKind, Provenance};
use crate::policy::rule::PolicyLayer;
use crate::policy::signer_rule::{SignerIdentity, SignerRule};
use crate::toml_file::{TomlItem, TomlPair, kind_of, pairs};

const IDENTITIES: &[&str] = &["ssh", "minisign", "key", "sigstore"];
const SIGNER_KEYS: &[&str] = &["ssh", "minisign", "key", "sigstore", "tools", "until"];
const SIGSTORE_KEYS: &[&str] = &["issuer", "subject"];

/// The longest name of a signer, in bytes.
const LONGEST_NAME: usize = 64;

impl PolicyReader<'_> {
    pub(super) fn signers(
        &self,
        item: &TomlItem<'_>,
        span: &Range<usize>,
        layer: &mut PolicyLayer,
    ) -> FileResult<()> {
        if self.kind == LayerKind::Workspace {
            let what = "the policy of a workspace cannot name signers: its authors could name \
                themselves";
            return Err(self.file.fail(span, what).hint("name them in your own policy"));
        }
        let table = self.file.table("signers", item)?;
        for TomlPair { key: name, span, item } in pairs(table) {
            let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_known) {
                let error = self.file.fail(&span, format!("`{name}` is not a valid signer name"));
                return Err(error.hint(format!(
                    "names have letters, digits, underscores, hyphens and full stops, at most \
                     {LONGEST_NAME}"
                )));
            }
            let rule = self.signer(name, item, &span, layer)?;
            layer.signers.push(rule);
        }
        Ok(())
    }

    fn signer(
        &self,
        name: &str,
        item: &TomlItem<'_>,
        place: &Range<usize>,
        layer: &PolicyLayer,
    ) -> FileResult<SignerRule> {
        let table = self.file.table(name, item)?;
        let mut found: Option<(SignerIdentity, Range<usize>)> = None;
        let (mut tools, mut until) = (None, None);
        for TomlPair { key, span, item } in pairs(table) {
            match key {
                "tools" => tools = Some(self.list(key, item, Self::pattern)?.value),
                "until" => until = Some(self.day(item)?),
                _ if IDENTITIES.contains(&key) => {
                    if let Some((other, _)) = &found {
                        let what = format!("`[signers.{name}]` has `{key}` and `{}`", other.kind());
                        let error = self.file.fail(&span, what);
                        return Err(error.hint("a signer has one of them: write two tables"));
                    }
                    found = Some((self.identity(key, item)?, item.span()));
                }
                _ => return Err(self.file.unknown(&span, key, SIGNER_KEYS)),
            }
        }
        let Some((identity, span)) = found else {
            let what = format!("`[signers.{name}]` does not say by what the signer is known");
            let error = self.file.fail(place, what);
            return Err(error.hint("add one of `ssh`, `minisign`, `key`, `sigstore`"));
        };
        let line = self.file.position(place).line;
        let (kind, path) = (layer.kind, Arc::clone(&layer.path));
        let provenance = Provenance::File { kind, path, line };
        let rule = SignerRule { name: name.to_owned(), identity, tools, until, provenance };
        match self.base.signatures.as_ref().map_or(Ok(()), |signatures| signatures.check(&rule)) {
            Ok(()) => Ok(rule),
            Err(what) => Err(self.file.fail(&span, format!("`[signers.{name}]` {what}"))),
        }
    }

    fn identity(&self, key: &str, item: &TomlItem<'_>) -> FileResult<SignerIdentity> {
        Ok(match key {
            "ssh" => SignerIdentity::Ssh(self.text(key, item)?),
            "minisign" => SignerIdentity::Minisign(self.text(key, item)?),
            "key" => SignerIdentity::Key(self.text(key, item)?),
            _ => self.sigstore(item)?,
        })
    }

    fn sigstore(&self, item: &TomlItem<'_>) -> FileResult<SignerIdentity> {
        let table = self.file.table("sigstore", item)?;
        let (mut issuer, mut subject) = (None, None);
        for TomlPair { key, span, item } in pairs(table) {
            match key {
                "issuer" => issuer = Some(self.text(key, item)?),
                "subject" => subject = Some(self.text(key, item)?),
                _ => return Err(self.file.unknown(&span, key, SIGSTORE_KEYS)),
            }
        }
        let missing = |key: &str| {
            let example = "sigstore = { issuer = \"https://…\", subject = \"…\" }";
            let what = format!("`sigstore` has no `{key}`");
            self.file.fail(&item.span(), what).hint(format!("write {example}"))
        };
        let issuer = issuer.ok_or_else(|| missing("issuer"))?;
        let subject = subject.ok_or_else(|| missing("subject"))?;
        Ok(SignerIdentity::Sigstore { issuer, subject })
    }

    fn text(&self, key: &str, item: &TomlItem<'_>) -> FileResult<String> {
        match item.get_ref().as_str() {
            None => {
                let what = format!("`{key}`: expected a string, found {}", kind_of(item));
                Err(self.file.fail(&item.span(), what))
            }
            Some(text) if text.trim().is_empty() => {
                Err(self.file.fail(&item.span(), format!("`{key}` is empty")))
            }
            Some(text) => Ok(text.to_owned()),
        }
    }

    /// Reads a tool's name, or a prefix of a name followed by `*`.
    fn pattern(&self, text: &str, span: &Range<usize>) -> FileResult<String> {
        // Every prefix of a valid name is valid, except the empty prefix.
        if is_tool_name(text.strip_suffix('*').unwrap_or(text)) {
            return Ok(text.to_owned());
        }
        let error = self.file.fail(span, format!("`{text}` names no tools"));
        Err(error.hint(match text {
            "*" => "leave `tools` out for a signer of all tools",
            _ => "write a name of a tool, or the beginning of one and `*`: \"acme_*\"",
        }))
    }

    fn day(&self, item: &TomlItem<'_>) -> FileResult<String> {
        let date = item.get_ref().as_datetime();
        let date = date.filter(|at| at.time.is_none() && at.offset.is_none());
        match date.and_then(|at| at.date) {
            Some(date) => Ok(date.to_string()),
            None => {
                let what = format!("`until`: expected a date, found {}", kind_of(item));
                let error = self.file.fail(&item.span(), what);
                Err(error.hint("write only the day, without quotes: 2027-06-30"))
            }
        }
    }
}
