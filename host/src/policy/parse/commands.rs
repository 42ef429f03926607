//! The key `commands` of the table `[tools.bash]` of a policy file.

use std::ops::Range;

use super::{FileResult, PolicyReader};
use crate::policy::commands::{CommandPrefix, CommandRules, RuleList};
use crate::policy::provenance::LayerKind;
use crate::policy::rule::Located;
use crate::toml_file::{TomlError, TomlItem, TomlPair, pairs};

const LISTS: &[&str] = &["allow", "ask", "deny"];

impl PolicyReader<'_> {
    /// Returns the error for a key `commands` in another table.
    pub(super) fn misplaced_commands(&self, span: &Range<usize>) -> TomlError {
        let error = self.file.fail(span, "`commands` is a key only of `[tools.bash]`");
        error.hint("write it in that table: no other tool runs scripts")
    }

    pub(super) fn commands(&self, item: &TomlItem<'_>) -> FileResult<Located<CommandRules>> {
        let table = self.file.table("commands", item)?;
        let mut value = CommandRules::default();
        for TomlPair { key, span, item } in pairs(table) {
            match key {
                "allow" if self.kind == LayerKind::Workspace => {
                    let what = "the policy of a workspace cannot list commands: its authors could \
                        list their own";
                    let error = self.file.fail(&span, what);
                    return Err(error
                        .hint("list them in your own policy; here `ask` and `deny` can be set"));
                }
                "allow" => value.allow = Some(self.patterns(key, item, RuleList::Allow)?),
                "ask" => value.ask = self.patterns(key, item, RuleList::Ask)?,
                "deny" => value.deny = self.patterns(key, item, RuleList::Deny)?,
                _ => return Err(self.file.unknown(&span, key, LISTS)),
            }
        }
        Ok(Located { value, position: self.file.position(&item.span()) })
    }

    fn patterns(
        &self,
        key: &str,
        item: &TomlItem<'_>,
        purpose: RuleList,
    ) -> FileResult<Vec<Located<CommandPrefix>>> {
        let one = |reader: &Self, text: &str, span: &Range<usize>| {
            let value =
                CommandPrefix::parse(text, purpose).map_err(|what| reader.file.fail(span, what))?;
            Ok(Located { value, position: reader.file.position(span) })
        };
        Ok(self.list(key, item, one)?.value)
    }
}
