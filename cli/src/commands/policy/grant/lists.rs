//! The lists of a tool's entry as the flags of `ikigai policy grant` change them.
//!
//! The flags add to what the tool has. With `--replace` they start from nothing, so each list that
//! a flag names becomes what the flags say.

use ikigai_host::host::{CallTarget, Host, request};
use ikigai_host::policy::{
    AssetAccess, Conflict, EntryLists, Net, NewKey, Sandbox, WrittenPath, check_variable,
};
use ikigai_host::registry::Tool;

use super::{Arguments, dirs_to_grant};
use crate::error::CliError;

/// The lists of an entry before and after a grant.
pub(super) struct ListChange {
    /// The lists of the tool if the entry does not change.
    unchanged: EntryLists,
    /// The lists that the entry will give the tool.
    pub(super) lists: EntryLists,
    /// The requested rules that have no effect, each with the wider rule that stays.
    wider: Vec<(WrittenPath, WrittenPath)>,
}

impl ListChange {
    /// Returns the lists with what the flags name.
    pub(super) fn new(host: &Host, tool: &Tool, arguments: &Arguments) -> Result<Self, CliError> {
        let authority = host.authority();
        let contents = [tool.build.digest];
        let request = request(CallTarget::from(tool), &contents);
        let unchanged = EntryLists::unchanged(authority, &request);
        // An unconfined tool needs no list, and a list of directories would contradict that.
        let is_freed = arguments.unconfined || arguments.sandbox == Some(Sandbox::Off);
        let lists = match arguments.replace {
            true => without_named(unchanged.clone(), arguments),
            false if is_freed => unchanged.clone(),
            false => EntryLists::in_force(authority, &request),
        };
        let mut change = Self { unchanged, lists, wider: Vec::new() };
        for rule in dirs_to_grant(&arguments.read, &arguments.write, authority.workspace())? {
            let covering = change.lists.add_dir(rule.clone()).map_err(|it| contradiction(&it))?;
            if let Some(held) = covering.filter(|held| held.access > rule.access) {
                change.wider.push((rule, held));
            }
        }
        let wrong = |what: String| CliError::usage(anyhow::Error::msg(what));
        let net = Net::parse(arguments.net.iter().map(String::as_str))
            .map_err(|what| wrong(format!("--net: {what}")))?;
        change.lists.add_net(&net);
        for name in &arguments.env {
            check_variable(name).map_err(|what| wrong(format!("--env: {what}")))?;
            change.lists.add_variable(name);
        }
        if let Some(assets) = arguments.assets {
            change.lists.assets = change.lists.assets.max(assets);
        }
        Ok(change)
    }

    /// Returns the keys of the entry that change.
    pub(super) fn keys(&self) -> Vec<NewKey> {
        self.lists.keys(&self.unchanged)
    }

    /// Returns a sentence for each flag that has no effect because the tool has more.
    pub(super) fn notes(&self, arguments: &Arguments) -> Vec<String> {
        let name = &arguments.tool;
        let narrows = "--replace narrows it";
        let dirs = self.wider.iter().map(|(asked, held)| {
            let (asked, held) = (asked.rule(), held.rule());
            format!("`{name}` still has `{held}`, which allows more than `{asked}`; {narrows}")
        });
        let assets = arguments.assets.filter(|asked| *asked < self.lists.assets).map(|asked| {
            let held = self.lists.assets;
            format!(
                "`{name}` still has the access `{held}` to assets, which allows more than \
                 `{asked}`; {narrows}"
            )
        });
        dirs.chain(assets).collect()
    }
}

/// Returns the lists without those that a flag names.
fn without_named(mut lists: EntryLists, arguments: &Arguments) -> EntryLists {
    let Arguments { read, write, net, env, assets, .. } = arguments;
    if !read.is_empty() || !write.is_empty() {
        lists.fs.clear();
    }
    if !net.is_empty() {
        lists.net = Net::default();
    }
    if !env.is_empty() {
        lists.env.clear();
    }
    if assets.is_some() {
        lists.assets = AssetAccess::None;
    }
    lists
}

/// Returns the error for a directory that has another access in the list.
pub(super) fn contradiction(Conflict { held, new }: &Conflict) -> CliError {
    let what = format!(
        "`{}` of its entry contradicts `{}`: a directory has one access, which applies to \
         everything in it",
        held.rule(),
        new.rule()
    );
    CliError::usage(anyhow::Error::msg(what)).hint(
        "with --replace, the flags are the whole list: name each directory that stays with --read \
         or --write",
    )
}
