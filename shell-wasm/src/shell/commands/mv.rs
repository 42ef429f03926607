//! `mv`, over the decisions of [`transfer`](super::transfer).

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

use super::options::OptionSpec;
use super::reason;
use super::transfer::{Misuse, TargetDecision, Transfer, TransferPair};

const OPTIONS: OptionSpec = OptionSpec {
    words: "b ,backup[=] f,force i,interactive n,no-clobber ,strip-trailing-slashes S,suffix= \
            t,target-directory= T,no-target-directory u,update v,verbose",
    refusal: 1,
};

/// `mv [-bfinTuv] [-S SUFFIX] [-t DIRECTORY] SOURCE… TARGET`
pub(super) struct Mv;

#[async_trait]
impl Command for Mv {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match OPTIONS.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let overriding = ["force", "interactive", "no-clobber"];
        let mut transfer = match Transfer::new(&context, &parsed, &overriding) {
            Ok(transfer) => transfer,
            Err(reason) => return OPTIONS.misused(&context, &reason).await,
        };
        let pairs = match transfer.pairs(&parsed).await? {
            Ok(pairs) => pairs,
            Err(Misuse::Usage(reason)) => return OPTIONS.misused(&context, &reason).await,
            Err(Misuse::Operand(reason)) => return super::fail(&context, &reason).await,
        };
        for pair in pairs {
            rename(&mut transfer, &pair).await?;
        }
        Ok(transfer.status)
    }
}

async fn rename(transfer: &mut Transfer<'_>, pair: &TransferPair) -> Result<()> {
    let TransferPair { source, target } = pair;
    let Some(found) = transfer.source(source, false).await? else { return Ok(()) };
    let (from, to) = (transfer.path(source), transfer.path(target));
    let directory = found.file_type.is_dir();
    let there = transfer.context.fs.lstat(&to).await.ok().map(|there| there.file_type);
    let trouble = match there {
        _ if directory && to.starts_with(&from) => {
            Some(format!("cannot move '{source}' to a subdirectory of itself, '{target}'"))
        }
        _ if to == from => Some(format!("'{source}' and '{target}' are the same file")),
        Some(there) if there.is_dir() && !directory => {
            Some(format!("cannot overwrite directory '{target}' with non-directory"))
        }
        Some(there) if !there.is_dir() && directory => {
            Some(format!("cannot overwrite non-directory '{target}' with directory '{source}'"))
        }
        // The slash means a directory, and a file would get the name of one.
        None if target.ends_with('/') && !directory => {
            Some(format!("cannot move '{source}' to '{target}': Not a directory"))
        }
        _ => None,
    };
    if let Some(trouble) = trouble {
        return transfer.complain(&trouble).await;
    }
    let TargetDecision::Go(backup) = transfer.decide(&found, pair).await? else { return Ok(()) };
    if let Err(error) = transfer.context.fs.rename(&from, &to).await {
        let text = format!("cannot move '{source}' to '{target}': {}", reason(&error));
        return transfer.complain(&text).await;
    }
    transfer.report(&format!("renamed '{source}' -> '{target}'"), backup.as_deref()).await
}
